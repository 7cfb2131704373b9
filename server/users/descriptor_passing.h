/* Descriptors that clients pass. `register` takes one; all others are closed off the loop, since
 * the last close of a lingering socket, of a file on a user's own file system, or of much memory
 * takes as long as that user likes. So a user may have a bounded number of descriptors that wait to
 * be closed. A client that passes one more is disconnected, and its socket is closed together with
 * the descriptor in it by a thread with a table of its own (disposal.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The number of a user's descriptors that wait to be closed, without those of memory, whose close
 * never waits. Lives as long as the process. */
struct passing_account {
    _Atomic uint32_t awaiting;
};

/* What was passed with the bytes of a connection and has not been taken yet. */
struct passed_descriptor {
    struct passing_account *account; /* of the user who passes them */
    int descriptor;                  /* owned; −1: none, or not one alone: */
    bool many;                       /* more came, and all were closed */
    bool no_room; /* one was lost: the process has as many descriptors as it may */
};

static inline bool passing_any(const struct passed_descriptor *passed)
{
    return passed->descriptor >= 0 || passed->many || passed->no_room;
}

/* Make the threads that close descriptors. A quarter of the `descriptors` that the process may have
 * may wait to be closed; a user gets at most half of what is left of that, so an eighth of all.
 * False: a line of the log says why. */
bool passing_open(uint64_t descriptors);

/* recv() without waiting; a descriptor that comes along is added to `passed`. A read never goes
 * past the bytes that a descriptor came with (unix(7) joins no others to them). EUSERS: another
 * descriptor comes, and too many of the user's wait to be closed. */
ssize_t passing_receive(int socket, void *bytes, size_t length, struct passed_descriptor *passed);

/* Close what was not taken. */
void passing_forget(struct passed_descriptor *passed);

/* close(), off the loop. */
void passing_close(int descriptor, struct passing_account *account);

/* Close a connection's socket. Descriptors that are still in it are taken first, so that none is
 * closed on the loop. */
void passing_close_socket(int socket, struct passing_account *account);
