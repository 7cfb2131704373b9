/* Starts workers, from a thread with a table of descriptors of its own, in which nothing of the
 * clients' ever is. A program that starts first closes what it inherited and is not to keep, and
 * whoever started it waits for that: with our table, a file of a client's, whose file system a user
 * serves, could be closed there for as long as that user likes.
 *
 *   starter_start() → a socketpair → the thread (own table) → posix_spawn() → the worker */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Make the thread, before there is any client. False: there is no thread or no descriptor; a line
 * of the log says why. */
bool starter_open(void);

/* Start the program with one argument. It reads /dev/null, writes to our stderr, has `channel` (the
 * caller keeps its own) as CHANNEL_DESCRIPTOR, and signals as they are by default. Returns 0 or an
 * errno; waits for the program's start, and for nobody else. */
int starter_start(const char *program, const char *argument, int channel, pid_t *pid);
