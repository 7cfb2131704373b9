/* What clients make the front itself hold: replies that wait to be read, numbers of parameters,
 * messages that have come half, jobs, fields, connections. Every byte is counted against its user
 * and against --front-bytes, which is for all.
 *
 * Users share it by reserve_shares(). What a request asks for is refused where there is no room.
 * What must be held nevertheless, an answer above all, is counted without asking; so a user who is
 * over is kept small elsewhere: a connection with unread replies is not read (connection.c).
 */
#ifndef SERVER_USERS_MEMORY_H
#define SERVER_USERS_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct user;

/* Count so many bytes that are about to be allocated for the user. False with OVER_BUDGET, need and
 * limit: nothing was counted. */
bool memory_take(struct user *user, uint64_t bytes, const char *parameter, struct failure *failure);
/* The same where it can't be refused. */
void memory_hold(struct user *user, uint64_t bytes);
void memory_release(struct user *user, uint64_t bytes);
/* Something of the user's that was counted with *counted bytes has `bytes` now. */
void memory_recount(struct user *user, uint64_t *counted, uint64_t bytes);

/* Does the user hold more than is left? */
bool memory_is_over(const struct user *user);

#endif
