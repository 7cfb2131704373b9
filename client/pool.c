#include "client/pool.h"

#include "client/error.h"
#include "client/exchange.h"
#include "client/region.h"

#include <stdlib.h>
#include <string.h>

/* Arrays from here up go through the pool. The copies cost less than the socket already below, but
 * not by enough to keep memory for it. */
#define POOL_ARRAY_BYTES ((size_t)64 << 10)
/* Of the pool. Each of its regions stays in RAM. */
#define POOL_BYTES ((size_t)1 << 30)

bool pool_open(struct fdclient *client, struct fdclient_error *error)
{
    const char *transport = getenv("FDCLIENT_TRANSPORT");
    client->pool_array_bytes = POOL_ARRAY_BYTES;
    if (!transport || !*transport)
        return true;
    client->by_region = strcmp(transport, "region") == 0;
    client->pool_array_bytes = client->by_region ? 1 : SIZE_MAX;
    return client->by_region || strcmp(transport, "socket") == 0 ||
           error_set(error, "INVALID_ARGUMENT", "FDCLIENT_TRANSPORT",
                     "FDCLIENT_TRANSPORT is socket or region; got '%.40s'", transport);
}

/* A new region, asked for. NULL: no memory. */
static struct region *ask(struct fdclient *client, size_t bytes, bool pooled)
{
    struct region *region = region_make(bytes, pooled);
    struct ticket *ticket = region ? ticket_internal(ANSWER_REGION, client->last_id + 1) : NULL;
    if (!ticket || !outgoing_init_register(&ticket->out, ticket->id, region)) {
        free(ticket);
        if (region)
            region_free(region);
        return NULL;
    }
    ticket->region = region;
    region->next = client->regions;
    client->regions = region;
    client->pool_bytes += pooled ? bytes : 0;
    exchange_begin(client, ticket);
    return region;
}

static void await_region(struct fdclient *client, struct region *region)
{
    while (region->state == REGION_ASKED)
        exchange_wait(client); /* a break refuses the region, too */
}

/* The region's memory goes; no job uses it. */
static void drop(struct fdclient *client, struct region *region)
{
    struct region **link = &client->regions;
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    client->pool_bytes -= region->pooled ? region->bytes : 0;
    struct ticket *ticket =
        region->id && !client->broken ? ticket_internal(ANSWER_NOTHING, client->last_id + 1) : NULL;
    if (ticket && outgoing_init_unregister(&ticket->out, ticket->id, region->id))
        exchange_begin(client, ticket);
    else
        free(ticket); /* it goes with the connection */
    region_free(region);
}

/* A region of the pool that can make room for others. */
static bool may_go(const struct region *region)
{
    return region->pooled && !region->busy && region->state != REGION_ASKED;
}

/* Make room for so many bytes more in the pool, of what is idle. False: that is too little, and all
 * of it stays. */
static bool make_pool_room(struct fdclient *client, size_t bytes)
{
    size_t kept_bytes = client->pool_bytes;
    for (const struct region *region = client->regions; region; region = region->next)
        kept_bytes -= may_go(region) ? region->bytes : 0;
    if (bytes > POOL_BYTES || kept_bytes > POOL_BYTES - bytes)
        return false;
    for (struct region *region = client->regions, *next; region; region = next) {
        next = region->next;
        if (client->pool_bytes > POOL_BYTES - bytes && may_go(region))
            drop(client, region);
    }
    return true;
}

static void drop_spent(struct fdclient *client)
{
    for (struct region *region = client->regions, *next; region; region = next) {
        next = region->next;
        if (region->state == REGION_SPENT && !region->busy)
            drop(client, region);
    }
}

/* Ask for what a job did not find in the pool, less what is on its way already. */
static void grow(struct fdclient *client, size_t bytes, uint32_t count)
{
    const size_t size = region_pool_bytes(bytes);
    for (struct region *region = client->regions; region && count; region = region->next)
        count -= region->pooled && region->state == REGION_ASKED && region->bytes == size;
    while (count-- && !client->refused && make_pool_room(client, size))
        if (!ask(client, size, true))
            return;
}

static bool find_route(struct fdclient *client, struct route *route, const struct routed *job,
                       struct fdclient_error *error)
{
    size_t missing_bytes;
    uint32_t missing_count;
    for (;;) {
        route_choose(route, job, client->regions, client->pool_array_bytes, &missing_bytes,
                     &missing_count);
        if (!missing_count)
            return true;
        /* A client with one job needs no pool. */
        const bool first = !client->lacked;
        client->lacked = true;
        if (first && !client->by_region)
            return true;
        const bool was_refused = client->refused;
        grow(client, missing_bytes, missing_count);
        if (!client->by_region)
            return true;
        route_release(route);
        if (was_refused)
            return error_copy(error, &client->refusal);
        struct region *asked = client->regions;
        while (asked && asked->state != REGION_ASKED)
            asked = asked->next;
        if (!asked && !client->refused)
            return error_set(error, "OVER_BUDGET", "",
                             "the jobs under way use the %zu bytes of regions that a client has",
                             POOL_BYTES);
        if (asked)
            await_region(client, asked);
        if (client->broken)
            return error_copy(error, &client->cause);
    }
}

bool pool_route(struct fdclient *client, struct route *route, const struct routed *job,
                struct fdclient_error *error)
{
    drop_spent(client);
    if (!find_route(client, route, job, error))
        return false;
    route_settle(route);
    return true;
}

void pool_close(struct fdclient *client)
{
    for (struct region *region = client->regions, *next; region; region = next) {
        next = region->next;
        region_free(region);
    }
    client->regions = NULL;
}

void *pool_alloc(struct fdclient *client, size_t bytes)
{
    const bool by_socket = client->pool_array_bytes == SIZE_MAX;
    struct region *region;
    if (bytes == 0)
        return NULL;
    if (client->broken || by_socket) {
        region = region_make(bytes, false);
        if (!region)
            return NULL;
        region->state = REGION_REFUSED;
        region->next = client->regions;
        client->regions = region;
    } else {
        region = ask(client, bytes, false);
        if (!region)
            return NULL;
        await_region(client, region);
    }
    return region->memory;
}

void pool_dealloc(struct fdclient *client, void *memory)
{
    for (struct region *region = client->regions; memory && region; region = region->next)
        if (region->memory == memory && !region->pooled) {
            drop(client, region);
            return;
        }
}
