#include "server/users/memory.h"

#include "server/users/reserve.h"
#include "server/users/user.h"

#include <stdlib.h>

static uint64_t left(const struct users *users)
{
    const uint64_t all = users->config->front_bytes;
    return users->front_bytes < all ? all - users->front_bytes : 0;
}

bool memory_take(struct user *user, uint64_t bytes, const char *parameter, struct failure *failure)
{
    const uint64_t free_bytes = left(user->users);
    if (!reserve_shares(free_bytes, user->front_bytes, bytes)) {
        const uint64_t most = reserve_shares_most(free_bytes, user->front_bytes);
        return failure_set_limit(failure, STATUS_OVER_BUDGET, parameter,
                                 (double)user->front_bytes + (double)bytes, most,
                                 "%llu bytes more of the server's own memory: it holds %llu for "
                                 "you, and at most %llu now",
                                 (unsigned long long)bytes, (unsigned long long)user->front_bytes,
                                 (unsigned long long)most);
    }
    memory_hold(user, bytes);
    return true;
}

void *memory_new(struct user *user, uint64_t bytes, const char *parameter, struct failure *failure)
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

void memory_hold(struct user *user, uint64_t bytes)
{
    user->front_bytes += bytes;
    user->users->front_bytes += bytes;
}

void memory_release(struct user *user, uint64_t bytes)
{
    user->front_bytes -= bytes;
    user->users->front_bytes -= bytes;
}

void memory_recount(struct user *user, uint64_t *counted, uint64_t bytes)
{
    memory_release(user, *counted);
    memory_hold(user, bytes);
    *counted = bytes;
}

bool memory_is_over(const struct user *user)
{
    return !reserve_shares(left(user->users), user->front_bytes, 0);
}
