#include "client/route.h"

#include "numerics/job.h"

#include <string.h>

/* What the pool lacks. */
struct wish {
    size_t pool_bytes;
    size_t bytes;
    uint32_t count;
};

static struct way direct(const struct region *region, const void *data)
{
    return (struct way){.region = region->id,
                        .offset = (uint64_t)((const uint8_t *)data - region->memory)};
}

/* Through the pool, where the array is one that should and there is room; else inline. */
static struct way pooled(struct region *regions, size_t bytes, struct wish *wish)
{
    struct region *region = bytes >= wish->pool_bytes ? region_idle(regions, bytes) : NULL;
    if (region) {
        region->busy = true;
        return (struct way){.region = region->id, .pooled = region};
    }
    if (bytes >= wish->pool_bytes) {
        wish->count++;
        if (bytes > wish->bytes)
            wish->bytes = bytes;
    }
    return (struct way){0};
}

static void release_way(struct way *way)
{
    if (way->pooled)
        way->pooled->busy = false;
    *way = (struct way){0};
}

void route_settle(struct route *route)
{
    for (int i = 0; i < FDCLIENT_AXES && !route->outs; i++)
        release_way(&route->out[i]);
}

void route_release(struct route *route)
{
    for (int i = 0; i < FDCLIENT_AXES; i++) {
        release_way(&route->in[i]);
        release_way(&route->out[i]);
    }
    route->outs = 0;
}

/* Arrays that the method gives; 0 where that is not known here. */
static uint32_t results_of(const struct routed *job, bool *is_vector)
{
    static const char *const plain[] = {"derivative", "laplacian",   "divergence", "diffusion",
                                        "biharmonic", "interpolate", "stencil",    "get"};
    *is_vector = false;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(job->method, plain[i]) == 0)
            return 1;
    if (strcmp(job->method, "curl") == 0) {
        *is_vector = job->f_count == FDCLIENT_AXES;
        return *is_vector ? FDCLIENT_AXES : 1;
    }
    if (strcmp(job->method, "gradient") != 0)
        return 0;
    *is_vector = true;
    const uint32_t dimensions = job->f->dimensions, batch = job->params ? job->params->batch : 0;
    if (batch)
        return batch < dimensions && dimensions - batch <= FDCLIENT_AXES ? dimensions - batch : 0;
    return dimensions < FDCLIENT_AXES ? dimensions : FDCLIENT_AXES;
}

/* A capacity may be any number. */
static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t at = (uintptr_t)a, other = (uintptr_t)b;
    return at < other ? other - at < a_bytes : at - other < b_bytes;
}

/* May the result be written where the caller wants it? The server takes no output that lies over an
 * input or another output. */
static bool stands_alone(const struct routed *job, uint32_t component, uint64_t bytes)
{
    const void *data = job->results[component].data;
    for (uint32_t i = 0; i < job->f_count; i++)
        if (overlap(data, bytes, job->f[i].data, job->f_bytes[i]))
            return false;
    for (uint32_t i = 0; i < component; i++)
        if (overlap(data, bytes, job->results[i].data, job->results[i].capacity))
            return false;
    return true;
}

/* Of each result; 0: it is not known before the reply. */
static uint64_t known_bytes(const struct routed *job)
{
    for (uint32_t i = 0; i < job->f_count; i++)
        if (job->f_bytes[i])
            return job->f_bytes[i];
    return 0;
}

static struct way choose_out(const struct routed *job, uint32_t component, uint64_t known,
                             struct region *regions, struct wish *wish)
{
    const struct fdclient_result *result = &job->results[component];
    const uint64_t bytes = known ? known : result->capacity;
    const struct region *region = region_around(regions, result->data, bytes);
    /* Of a size that is not known, only a place that ends with its region lets the server see that
     * the result does not fit. */
    const bool ends =
        known || !region || (const uint8_t *)result->data + bytes == region->memory + region->bytes;
    return region && ends && stands_alone(job, component, bytes) ? direct(region, result->data)
                                                                 : pooled(regions, bytes, wish);
}

static void choose_outs(struct route *route, const struct routed *job, struct region *regions,
                        struct wish *wish)
{
    const uint32_t outs = results_of(job, &route->out_is_vector);
    const uint64_t known = known_bytes(job);
    bool all = outs > 0 && outs <= job->result_count && !(job->params && job->params->out_is_field);
    for (uint32_t i = 0; all && i < outs; i++)
        all = job->results[i].data ? job->results[i].capacity >= known : known > 0;
    if (!all)
        return; /* inline: the server or the reply says what is wrong */
    for (uint32_t i = 0; i < outs; i++) {
        route->out[i] = choose_out(job, i, known, regions, wish);
        all = all && route->out[i].region;
    }
    route->outs = all ? outs : 0;
}

void route_choose(struct route *route, const struct routed *job, struct region *regions,
                  size_t pool_bytes, size_t *missing_bytes, uint32_t *missing_count)
{
    struct wish wish = {.pool_bytes = pool_bytes};
    memset(route, 0, sizeof *route);
    for (uint32_t i = 0; job->f && i < job->f_count; i++) {
        const void *data = job->f[i].data;
        const uint64_t bytes = job->f_bytes[i];
        if (!bytes)
            continue;
        const struct region *region = region_around(regions, data, bytes);
        route->in[i] = region ? direct(region, data) : pooled(regions, bytes, &wish);
        if (route->in[i].pooled)
            memcpy(route->in[i].pooled->memory, data, bytes);
    }
    if (job->f)
        choose_outs(route, job, regions, &wish);
    *missing_bytes = wish.bytes;
    *missing_count = wish.count;
}
