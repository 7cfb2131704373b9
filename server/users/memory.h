/* Memory of the front that clients cause: replies that wait to be read, numbers of parameters,
 * half-received messages, jobs, fields, connections. Every byte is charged to its user and to
 * --front-bytes, which is for all.
 *
 * Users share it by reserve_shares(). A request that does not fit is refused. What must be held
 * nevertheless, an answer above all, is charged without a check; so a user over the limit is
 * throttled elsewhere: a connection with unread replies is not read (connection.c). */
#pragma once

#include "server/users/reserve.h"
#include "server/users/user.h"

#include <stdlib.h>

static inline uint64_t memory_left(const struct users *users)
{
    const uint64_t all = users->config->front_bytes;
    const uint64_t held = users->counters.front_bytes;
    return held < all ? all - held : 0;
}

/* Charge memory that must be held, without a check. */
static inline void memory_hold(struct user *user, uint64_t bytes)
{
    USER_COUNT(user, front_bytes, bytes);
}

/* Charge bytes that are about to be allocated for the user. False with OVER_BUDGET, need and limit:
 * nothing was charged. */
static inline bool memory_take(struct user *user, uint64_t bytes, const char *parameter,
                               struct failure *failure)
{
    const uint64_t free_bytes = memory_left(user->users), own = user->counters.front_bytes;
    if (!reserve_shares(free_bytes, own, bytes)) {
        const uint64_t most = reserve_shares_most(free_bytes, own);
        return failure_set_limit(
            failure, STATUS_OVER_BUDGET, parameter, (double)own + (double)bytes, most,
            "%llu bytes more of the server's own memory: it holds %llu for "
            "you, and at most %llu now",
            (unsigned long long)bytes, (unsigned long long)own, (unsigned long long)most);
    }
    memory_hold(user, bytes);
    return true;
}

static inline void memory_release(struct user *user, uint64_t bytes)
{
    memory_hold(user, -bytes);
}

/* The same with the memory, zeroed; NULL with OVER_BUDGET or OUT_OF_MEMORY. */
static inline void *memory_new(struct user *user, uint64_t bytes, const char *parameter,
                               struct failure *failure)
{
    if (!memory_take(user, bytes, parameter, failure))
        return NULL;
    void *memory = calloc(1, bytes);
    if (!memory) {
        memory_release(user, bytes);
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    }
    return memory;
}

/* An object that was charged with *counted bytes has `bytes` now. */
static inline void memory_recount(struct user *user, uint64_t *counted, uint64_t bytes)
{
    memory_hold(user, bytes - *counted);
    *counted = bytes;
}

/* Does the user hold more than is left for others? */
static inline bool memory_is_over(const struct user *user)
{
    return !reserve_shares(memory_left(user->users), user->counters.front_bytes, 0);
}
