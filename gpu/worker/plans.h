/* The plans of the jobs that came lately: weights beside an edge take milliseconds to compute. One
 * thread. */
#pragma once

#include "numerics/plan.h"

enum {
    PLANS_KEPT = 16,
    PLANS_KEPT_BYTES = 64 << 20 /* of the tables and blocks of all; the last one is kept anyway */
};

struct kept_plan {
    struct job job; /* equal jobs are equal bytes */
    void *block;    /* … as are their blocks; owned */
    struct plan plan;
};

/* All bytes 0: none yet. */
struct plans {
    struct kept_plan kept[PLANS_KEPT]; /* a ring */
    uint32_t oldest, count;
    uint64_t bytes;
};

/* The job's plan, as plan_init() makes it, which stays until the next call. The job must have
 * passed job_check(). NULL: no memory. */
const struct plan *plans_get(struct plans *plans, const struct job *job, const void *block);
void plans_free(struct plans *plans);
