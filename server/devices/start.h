/* Programs that the front starts: workers and the compiler. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { START_DESCRIPTOR = 3 }; /* of the program's end of the channel */

/* Before there is any client. False: a line of the log says why. */
bool start_open(void);

/* Start a program with one argument, an end of a new pair of sockets of that type as
 * START_DESCRIPTOR, and no other descriptor but the standard ones. *channel is the other end,
 * close-on-exec. Returns 0 or an errno, with which *channel is −1 and *pid 0; waits for the
 * program's start, and for nobody else. */
int start_program(const char *program, const char *argument, int type, int *channel, pid_t *pid);
/* The same with `end`, which stays the caller's, as START_DESCRIPTOR. */
int start_program_at(const char *program, const char *argument, int end, pid_t *pid);

/* Is it in a call of the kernel that it cannot be taken out of (state D)? Then it may well go on,
 * and does not end before that, whatever signal it gets. */
bool start_is_held(pid_t pid);
