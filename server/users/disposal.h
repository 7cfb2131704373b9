/* Sockets with descriptors in them, of users of whose descriptors too many wait to be closed
 * already (descriptor_passing.h). Closing such a socket may take as long as its user likes, and
 * meanwhile it would hold a place in our table of descriptors. So a thread with a table of its own
 * closes it by ending: no socket lingers for a thread that ends, and a thread that hangs all the
 * same holds none of our descriptors.
 *
 *   disposal_take() → a socketpair → the collector → once 256 are there, or after 100 ms → a thread
 *   (our own is closed)              (own table)                 with that table, which ends */
#pragma once

#include <stdbool.h>

/* Start the collector. False: there is no thread or no descriptor; a line of the log says why. */
bool disposal_open(void);

/* Take the socket over, which is closed here: without waiting, since it is known elsewhere. False:
 * not now; the caller still has it. */
bool disposal_take(int socket);
