#include "server/users/memory.h"

#include "server/users/reserve.h"
#include "server/main/server.h"

static uint64_t left(const struct server *server)
{
    const uint64_t all = server->config.front_bytes;
    return server->front_bytes < all ? all - server->front_bytes : 0;
}

bool memory_take(struct server *server, struct user *user, uint64_t bytes, const char *parameter,
                 struct failure *failure)
{
    const uint64_t free_bytes = left(server);
    if (!reserve_shares(free_bytes, user->front_bytes, bytes)) {
        const uint64_t most = reserve_shares_most(free_bytes, user->front_bytes);
        return failure_set_limit(failure, STATUS_OVER_BUDGET, parameter,
                                 (double)user->front_bytes + (double)bytes, (double)most,
                                 "%llu bytes more of the server's own memory: it holds %llu for "
                                 "you, and at most %llu now",
                                 (unsigned long long)bytes, (unsigned long long)user->front_bytes,
                                 (unsigned long long)most);
    }
    memory_hold(server, user, bytes);
    return true;
}

void memory_hold(struct server *server, struct user *user, uint64_t bytes)
{
    user->front_bytes += bytes;
    server->front_bytes += bytes;
}

void memory_release(struct server *server, struct user *user, uint64_t bytes)
{
    user->front_bytes -= bytes;
    server->front_bytes -= bytes;
}

void memory_recount(struct server *server, struct user *user, uint64_t *counted, uint64_t bytes)
{
    memory_release(server, user, *counted);
    memory_hold(server, user, bytes);
    *counted = bytes;
}

bool memory_is_over(const struct server *server, const struct user *user)
{
    return !reserve_shares(left(server), user->front_bytes, 0);
}
