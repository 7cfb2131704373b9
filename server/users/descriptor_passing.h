/* Descriptors that peers pass to us. `register` takes one; all others are closed, off the loop: the
 * last close of a socket that lingers, of a file whose system a user serves, or of much memory
 * waits for as long as that user likes. So a user may have some that wait to be closed, and no
 * more: whoever passes one then is disconnected, and the socket goes with the one in it where it
 * takes no place of ours (disposal.h). */
#ifndef SERVER_USERS_DESCRIPTOR_PASSING_H
#define SERVER_USERS_DESCRIPTOR_PASSING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many of a user's descriptors wait to be closed, but for memory, whose close waits for nobody.
 * Lives as long as the process. */
struct passing_account {
    _Atomic uint32_t awaiting;
};

/* What came along with the bytes of a connection and has not been taken yet. */
struct passed_descriptor {
    struct passing_account *account; /* of who passes them */
    int descriptor;                  /* owned; −1: none, or not one alone: */
    bool many;                       /* more came, and all were closed */
    bool no_room; /* one was lost: the process has as many descriptors as it may */
};

static inline bool passing_any(const struct passed_descriptor *passed)
{
    return passed->descriptor >= 0 || passed->many || passed->no_room;
}

/* Make the threads that close, for a process of at most so many descriptors: a quarter of these may
 * wait to be closed, of a user as many as are left of it, so at most an eighth of all. False: a
 * line of the log says why. */
bool passing_open(uint64_t descriptors);

/* recv() without waiting; what comes along is added to `passed`. A read never goes past the bytes
 * that a descriptor came with (unix(7) joins no others to them). EUSERS:
 * another one comes, and too many of the user's wait to be closed. */
ssize_t passing_receive(int socket, void *bytes, size_t length, struct passed_descriptor *passed);

/* Close what was not taken. */
void passing_forget(struct passed_descriptor *passed);

/* close(), off the loop. */
void passing_close(int descriptor, struct passing_account *account);

/* Close a connection's socket. What is still in it is taken first, so that no descriptor that was
 * on its way is closed on the loop. */
void passing_close_socket(int socket, struct passing_account *account);

#endif
