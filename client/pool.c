/* Memory that the client and its server share, and which of a job's arrays go through it. */
#include "client/connection.h"

#include "base/clock.h"
#include "base/rights.h"
#include "client/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Arrays from here up go through the pool. The copies cost less than the socket below it too, but
 * not by enough to keep memory for it. */
#define POOL_ARRAY_BYTES ((size_t)64 << 10)
/* Of the pool. Each of its regions stays in RAM. */
#define POOL_BYTES ((size_t)1 << 30)
#define POOL_LEAST_BYTES ((size_t)64 << 10) /* of one of its regions */
enum { POOL_TOO_LARGE = 4 };                /* times */
enum { REFUSAL_US = 1000000 };              /* until the server is asked for room again */

/* ---- regions ---- */

struct region *region_make(size_t bytes, bool pooled)
{
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    region->bytes = bytes;
    region->pooled = pooled;
    region->memory = rights_memory("fdclient", bytes, &region->descriptor);
    if (!region->memory) {
        free(region);
        return NULL;
    }
    madvise(region->memory, bytes, MADV_HUGEPAGE); /* where the system offers it */
    return region;
}

void region_free(struct region *region)
{
    list_remove(&region->link);
    if (region->memory)
        munmap(region->memory, region->bytes);
    rights_close(region->descriptor);
    free(region);
}

/* Four steps between powers of two. */
size_t region_pool_bytes(size_t bytes)
{
    size_t step = POOL_LEAST_BYTES / 4;
    if (bytes <= POOL_LEAST_BYTES)
        return POOL_LEAST_BYTES;
    while (step * 8 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* The ready region of the caller's that holds the whole array where the server takes one. */
static struct region *region_around(const struct list *regions, const void *data, size_t bytes)
{
    const uintptr_t at = (uintptr_t)data;
    LIST_EACH (struct region, region, regions, link) {
        const uintptr_t from = (uintptr_t)region->memory;
        if (at >= from && at - from <= region->bytes && bytes <= region->bytes - (at - from))
            return !region->pooled && region->state == REGION_READY &&
                           (at - from) % ARRAY_OFFSET_BYTES == 0
                       ? region
                       : NULL;
    }
    return NULL;
}

/* The smallest idle region of the pool that the array fits in, and that is not much too large. */
static struct region *region_idle(const struct list *regions, size_t bytes)
{
    struct region *best = NULL;
    LIST_EACH (struct region, region, regions, link)
        if (region->pooled && !region->busy && region->state == REGION_READY &&
            region->bytes >= bytes && region->bytes / POOL_TOO_LARGE <= region_pool_bytes(bytes) &&
            (!best || region->bytes < best->bytes))
            best = region;
    return best;
}

/* ---- routes ---- */

static struct way way_direct(const struct region *region, const void *data)
{
    return (struct way){.region = region->id,
                        .offset = (uint64_t)((const uint8_t *)data - region->memory)};
}

/* Through the pool, where the array is one that should and there is room; else inline. */
static struct way way_pooled(const struct list *regions, size_t bytes, size_t pool_bytes,
                             struct wish *wish)
{
    if (bytes < pool_bytes)
        return (struct way){0};
    struct region *region = region_idle(regions, bytes);
    if (region) {
        region->busy = true;
        return (struct way){.region = region->id, .pooled = region};
    }
    wish->count++;
    wish->bytes = bytes > wish->bytes ? bytes : wish->bytes;
    return (struct way){0};
}

static void release_ways(struct way ways[FDCLIENT_AXES])
{
    for (int i = 0; i < FDCLIENT_AXES; i++) {
        if (ways[i].pooled)
            ways[i].pooled->busy = false;
        ways[i] = (struct way){0};
    }
}

void route_settle(struct route *route)
{
    if (!route->outs)
        release_ways(route->out);
}

void route_release(struct route *route)
{
    release_ways(route->in);
    release_ways(route->out);
    route->outs = 0;
}

/* Arrays that the method gives; 0 where that is not known here. */
static uint32_t results_of(const struct call *call, bool *is_vector)
{
    uint32_t axes = call->f_count;
    if (strcmp(call->method, "gradient") == 0) {
        const uint32_t dimensions = call->f->dimensions;
        const uint32_t batch = call->params ? call->params->batch : 0;
        if (batch && (batch >= dimensions || dimensions - batch > FDCLIENT_AXES))
            return 0;
        axes = dimensions - batch < FDCLIENT_AXES ? dimensions - batch : FDCLIENT_AXES;
    }
    const struct job job = call_job(call->method, axes);
    *is_vector = job_gives_vector(&job);
    return job.operator_id < OPERATOR_COUNT || strcmp(call->method, "get") == 0
               ? (uint32_t)job_outputs(&job)
               : 0;
}

/* A capacity may be any number. */
static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t at = (uintptr_t)a, other = (uintptr_t)b;
    return at < other ? other - at < a_bytes : at - other < b_bytes;
}

/* May the result be written where the caller wants it? The server takes no output that lies over an
 * input or another output. */
static bool stands_alone(const struct call *call, uint32_t component, uint64_t bytes)
{
    const void *data = call->results[component].data;
    for (uint32_t i = 0; i < call->f_count; i++)
        if (overlap(data, bytes, call->f[i].data, call->types[i].bytes))
            return false;
    for (uint32_t i = 0; i < component; i++)
        if (overlap(data, bytes, call->results[i].data, call->results[i].capacity))
            return false;
    return true;
}

/* `known`: the result's bytes; 0: they are not known before the reply. Then only a place that ends
 * with its region lets the server see that the result does not fit. */
static struct way choose_out(const struct call *call, uint32_t component, uint64_t known,
                             const struct list *regions, size_t pool_bytes, struct wish *wish)
{
    const struct fdclient_result *result = &call->results[component];
    const uint64_t bytes = known ? known : result->capacity;
    const struct region *region = region_around(regions, result->data, bytes);
    const bool ends =
        known || !region || (const uint8_t *)result->data + bytes == region->memory + region->bytes;
    return region && ends && stands_alone(call, component, bytes)
               ? way_direct(region, result->data)
               : way_pooled(regions, bytes, pool_bytes, wish);
}

void route_choose(struct route *route, const struct call *call, const struct list *regions,
                  size_t pool_bytes, struct wish *wish)
{
    uint64_t known = 0;
    *wish = (struct wish){0};
    *route = (struct route){0};
    for (uint32_t i = 0; i < call->f_count; i++) {
        const void *data = call->f[i].data;
        const uint64_t bytes = call->types[i].bytes;
        if (!bytes)
            continue;
        known = known ? known : bytes;
        const struct region *region = region_around(regions, data, bytes);
        route->in[i] =
            region ? way_direct(region, data) : way_pooled(regions, bytes, pool_bytes, wish);
        if (route->in[i].pooled)
            memcpy(route->in[i].pooled->memory, data, bytes);
    }
    const uint32_t outs = call->f_count ? results_of(call, &route->out_is_vector) : 0;
    bool all =
        outs > 0 && outs <= call->result_count && !(call->params && call->params->out_is_field);
    for (uint32_t i = 0; all && i < outs; i++)
        all = call->results[i].data ? call->results[i].capacity >= known : known > 0;
    if (!all)
        return; /* inline: the server or the reply says what is wrong */
    for (uint32_t i = 0; i < outs; i++) {
        route->out[i] = choose_out(call, i, known, regions, pool_bytes, wish);
        all = all && route->out[i].region;
    }
    route->outs = all ? outs : 0;
}

/* ---- the pool ---- */

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

/* A new region of the client's, which the server is asked to take where it can be. NULL: no memory.
 */
static struct region *add_region(struct fdclient *client, size_t bytes, bool pooled)
{
    struct region *region = region_make(bytes, pooled);
    if (!region)
        return NULL;
    list_push_front(&client->regions, &region->link);
    struct ticket *ticket = client->broken || client->pool_array_bytes == SIZE_MAX
                                ? NULL
                                : connection_ask(client, ANSWER_REGION, true, "register", "bytes",
                                                 bytes, region->descriptor);
    if (ticket)
        ticket->region = region;
    else
        region->state = REGION_PLAIN;
    return region;
}

static void await_region(struct fdclient *client, struct region *region)
{
    while (region->state == REGION_ASKED)
        connection_wait(client); /* a break refuses the region, too */
}

/* The region's memory goes; no job uses it. */
static void drop(struct fdclient *client, struct region *region)
{
    if (region->id && !client->broken) /* without memory it goes with the connection */
        connection_ask(client, ANSWER_NOTHING, true, "unregister", "region", region->id, -1);
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
    size_t used_bytes = bytes, idle_bytes = 0;
    LIST_EACH (struct region, region, &client->regions, link) {
        used_bytes += region->pooled ? region->bytes : 0;
        idle_bytes += may_go(region) ? region->bytes : 0;
    }
    if (used_bytes - idle_bytes > POOL_BYTES)
        return false;
    LIST_EACH (struct region, region, &client->regions, link)
        if (used_bytes > POOL_BYTES && may_go(region)) {
            used_bytes -= region->bytes;
            drop(client, region);
        }
    return true;
}

/* Ask for what a job did not find in the pool, less what is on its way already. */
static void grow(struct fdclient *client, struct wish wish)
{
    if (wish.bytes > POOL_BYTES)
        return;
    const size_t size = region_pool_bytes(wish.bytes);
    LIST_EACH (struct region, region, &client->regions, link) {
        if (!wish.count)
            break;
        wish.count -= region->pooled && region->state == REGION_ASKED && region->bytes == size;
    }
    while (wish.count-- && !client->refusal.code[0] && make_pool_room(client, size))
        if (!add_region(client, size, true))
            return;
}

/* True: the route stands. */
static bool find_route(struct fdclient *client, struct route *route, const struct call *call,
                       struct fdclient_error *error)
{
    for (;;) {
        struct wish wish;
        route_choose(route, call, &client->regions, client->pool_array_bytes, &wish);
        if (!wish.count)
            return true;
        const bool first = !client->lacked;
        client->lacked = true;
        if (first && !client->by_region)
            return true; /* a client with one job needs no pool */
        const bool was_refused = client->refusal.code[0];
        grow(client, wish);
        if (!client->by_region)
            return true;
        route_release(route);
        if (was_refused)
            return error_copy(error, &client->refusal);
        bool waited = false;
        LIST_EACH (struct region, region, &client->regions, link) {
            waited = waited || region->state == REGION_ASKED;
            await_region(client, region);
        }
        if (client->broken)
            return error_copy(error, &client->cause);
        if (!waited && !client->refusal.code[0])
            return error_set(error, "OVER_BUDGET", "",
                             "the jobs under way use the %zu bytes of regions that a client has",
                             POOL_BYTES);
    }
}

bool pool_route(struct fdclient *client, struct route *route, const struct call *call,
                struct fdclient_error *error)
{
    LIST_EACH (struct region, region, &client->regions, link)
        if (region->pooled && region->state == REGION_PLAIN && !region->busy)
            drop(client, region);
    /* What is in use may have been freed. Looked at once for each job: one whose own regions are
     * refused ends with that. */
    if (client->refusal.retryable && strcmp(client->refusal.code, ERROR_CONNECTION) != 0 &&
        clock_us() - client->refused_us >= REFUSAL_US)
        client->refusal = (struct fdclient_error){0};
    if (!find_route(client, route, call, error))
        return false;
    route_settle(route);
    return true;
}

/* May a region of the pool be of no more use after this error? A worker that was started anew may
 * have been unable to map it again, and then all later jobs that name it fail; a job that was
 * stopped may be answered while a worker that hangs can still write to it. */
static bool is_doubtful(const struct ticket *ticket)
{
    static const char *const codes[] = {"INTERNAL", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT"};
    for (size_t i = 0; ticket->failed && i < sizeof codes / sizeof *codes; i++)
        if (strcmp(ticket->error.code, codes[i]) == 0)
            return true;
    return false;
}

void pool_settle(struct fdclient *client, struct ticket *ticket)
{
    struct region *const region = ticket->region;
    for (int i = 0; i < FDCLIENT_AXES && is_doubtful(ticket); i++) {
        if (ticket->route.in[i].pooled)
            ticket->route.in[i].pooled->state = REGION_PLAIN;
        if (ticket->route.out[i].pooled)
            ticket->route.out[i].pooled->state = REGION_PLAIN;
    }
    route_release(&ticket->route);
    if (!region)
        return;
    close(region->descriptor); /* the server has its own */
    region->descriptor = -1;
    region->state = ticket->failed ? REGION_PLAIN : REGION_READY;
    if (ticket->failed && region->pooled) {
        client->refusal = ticket->error;
        client->refused_us = clock_us();
    }
}

void pool_close(struct fdclient *client)
{
    LIST_DRAIN (struct region, region, &client->regions, link)
        region_free(region);
}

void *fdclient_alloc(struct fdclient *client, size_t bytes)
{
    struct region *region = bytes > 0 ? add_region(client, bytes, false) : NULL;
    if (!region)
        return NULL;
    await_region(client, region);
    return region->memory;
}

void fdclient_dealloc(struct fdclient *client, void *memory)
{
    if (!memory)
        return;
    LIST_EACH (struct region, region, &client->regions, link)
        if (region->memory == memory && !region->pooled) {
            drop(client, region);
            return;
        }
}
