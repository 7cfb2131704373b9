/* Which way each array of a job goes: inline over the socket, from where it lies in shared memory,
 * or through a region of the pool, with a copy before the request and after the reply. */
#pragma once

#include "client/fdclient.h"
#include "client/region.h"

/* Of one array. */
struct way {
    uint64_t region; /* on the wire; 0: inline */
    uint64_t offset;
    struct region *pooled; /* the array is copied to or from it; it is busy meanwhile */
};

struct route {
    struct way in[FDCLIENT_AXES], out[FDCLIENT_AXES];
    uint32_t outs; /* results in regions: all of the job's, or 0 */
    bool out_is_vector;
};

/* What a job's arrays are, as far as it is known before the reply. */
struct routed {
    const char *method;
    const struct fdclient_array *f;
    uint32_t f_count;
    uint64_t f_bytes[FDCLIENT_AXES]; /* 0: resident */
    const struct fdclient_params *params;
    const struct fdclient_result *results;
    uint32_t result_count;
};

/* Choose, copy the inputs that go through the pool, and take what the results go through. Arrays
 * of at least pool_bytes go through the pool (SIZE_MAX: none does). *missing_bytes and the count:
 * what the pool would have to hold besides for all of them to go through it. Release it.
 * Results all go by regions, or none does; but what was found for some is theirs until
 * route_settle(), so that the pool does not make room for the others of it. */
void route_choose(struct route *route, const struct routed *job, struct region *regions,
                  size_t pool_bytes, size_t *missing_bytes, uint32_t *missing_count);
void route_settle(struct route *route);
void route_release(struct route *route);
