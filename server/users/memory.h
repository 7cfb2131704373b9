/* Memory of the front that clients cause: replies that wait to be read, numbers of parameters,
 * half-received messages, jobs, fields, connections. Every byte is charged to its user and to
 * --front-bytes, which is for all.
 *
 * Users share it by reserve_shares(). A request that does not fit is refused. What must be held
 * nevertheless, an answer above all, is charged without a check; so a user over the limit is
 * throttled elsewhere: a connection with unread replies is not read (connection.c). */
#pragma once

#include "base/status.h"

struct user;

/* Charge bytes that are about to be allocated for the user. False with OVER_BUDGET, need and limit:
 * nothing was charged. */
bool memory_take(struct user *user, uint64_t bytes, const char *parameter, struct failure *failure);
/* The same with the memory, zeroed; NULL with OVER_BUDGET or OUT_OF_MEMORY. */
void *memory_new(struct user *user, uint64_t bytes, const char *parameter, struct failure *failure);
/* The same without a check, for memory that must be held. */
void memory_hold(struct user *user, uint64_t bytes);
void memory_release(struct user *user, uint64_t bytes);
/* An object that was charged with *counted bytes has `bytes` now. */
void memory_recount(struct user *user, uint64_t *counted, uint64_t bytes);

/* Does the user hold more than is left for others? */
bool memory_is_over(const struct user *user);
