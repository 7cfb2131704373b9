/* Descriptors that peers pass to us. No method takes one yet, so they are closed, off the loop: the
 * last close of a socket that lingers, or of a file whose system a user serves, waits for as long
 * as that user likes. */
#ifndef SERVER_PASSED_H
#define SERVER_PASSED_H

#include <stddef.h>
#include <sys/types.h>

/* Ask the kernel to refuse them at the sender, where it can (6.16). */
void passed_refuse(int socket);

/* recv() without waiting; descriptors that come along are closed. */
ssize_t passed_receive(int socket, void *bytes, size_t length);

/* Shut the socket's input and take what is still in it, so that closing the socket closes no
 * descriptor that was on its way. */
void passed_drain(int socket);

#endif
