/* Sockets that a user's descriptors are still in, where too many of that user's wait to be closed
 * already (passed.h). Whoever closes such a socket may wait for as long as that user likes, and
 * while it waited in our table it would take a place there. So it is closed by a thread with a
 * table of descriptors of its own, by ending: no socket lingers for a thread that ends, and one
 * that hangs all the same holds nothing of ours.
 *
 *   disposal_take() → a socketpair → the collector → once 256 are there, or after 100 ms → a thread
 *   (our own is closed)              (own table)                         with that table, which
 * ends
 */
#ifndef SERVER_USERS_DISPOSAL_H
#define SERVER_USERS_DISPOSAL_H

#include <stdbool.h>

/* Start the collector. False: there is no thread or no descriptor; a line of the log says why. */
bool disposal_open(void);

/* Take the socket over, which is closed here: without waiting, since it is known elsewhere. False:
 * not now; the caller still has it. */
bool disposal_take(int socket);

#endif
