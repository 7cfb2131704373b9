/* Descriptors that peers pass to us. `register` takes one; all others are closed, off the loop: the
 * last close of a socket that lingers, of a file whose system a user serves, or of much memory
 * waits for as long as that user likes. */
#ifndef SERVER_PASSED_H
#define SERVER_PASSED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What came along with the bytes of a connection and has not been taken yet. */
struct passed {
    int descriptor; /* owned; −1: none, or not one alone: */
    bool many;      /* more came, and all were closed */
    bool no_room;   /* one was lost: the process has as many descriptors as it may */
};

static inline bool passed_any(const struct passed *passed)
{
    return passed->descriptor >= 0 || passed->many || passed->no_room;
}

/* recv() without waiting; what comes along is added to `passed`. A read never goes past the bytes
 * that a descriptor came with (unix(7) joins no others to them). */
ssize_t passed_receive(int socket, void *bytes, size_t length, struct passed *passed);

/* Close what was not taken. */
void passed_forget(struct passed *passed);

/* close(), off the loop. */
void passed_close(int descriptor);

/* Shut the socket's input and take what is still in it, so that closing the socket closes no
 * descriptor that was on its way. */
void passed_drain(int socket);

#endif
