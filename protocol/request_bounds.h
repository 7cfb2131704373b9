/* Bounds of the axes with coordinates of a request's diffusions (weights_bound()), found before its
 * jobs are made: each takes up to some milliseconds, and a chain has many axes. Without them, and
 * for an axis that is not among them, request_job() finds the bound itself.
 *
 *   bytes = request_bounds_list(&request, &list)         0: there is too little to find
 *   request_bounds_copy(&list, bounds)                   what they are found from
 *   request_bounds_find(bounds)                          on any thread, without the request
 *   request_bounds_give(&request, bounds)                before request_job(), of the same message
 */
#pragma once

#include "protocol/request.h"
#include "protocol/request_chain.h"
#include "numerics/weights.h"

struct request_bounds {
    uint32_t count;
    struct request_bound {
        struct weights_axis axis;  /* its coordinates are below */
        const struct array *given; /* while it is listed and copied: they, in the request */
        int accuracy;
        double bound;
    } at[CHAIN_LINKS * AXIS_COUNT];
    double coordinates[];
};

/* The axes, without their coordinates. What their bounds take, at most 1 MiB; 0: request_job()
 * finds them within 5 ms or so. The numbers of its parameters are there (array.small). */
uint64_t request_bounds_list(const struct request *request, struct request_bounds *list);

/* Write so many bytes: each different axis once. While the request is there. */
void request_bounds_copy(const struct request_bounds *list, struct request_bounds *bounds);

void request_bounds_find(struct request_bounds *bounds);

/* Give them to the request and to its chain's links; they stay the caller's. */
void request_bounds_give(struct request *request, const struct request_bounds *bounds);

/* The bound of an axis with just these coordinates and sides; NULL: it is not known, or `bounds` is
 * NULL. */
const double *request_bounds_look_up(const struct request_bounds *bounds,
                                     const struct weights_axis *axis, int accuracy);
