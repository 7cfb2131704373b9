/* The plans of the jobs that came lately: weights beside an edge take milliseconds to compute. One
 * thread. */
#ifndef GPU_PLANS_H
#define GPU_PLANS_H

#include "gpu/plan.h"

enum { PLANS_KEPT = 16 };

struct plans {
    struct {
        struct job job; /* equal jobs are equal bytes */
        void *block;    /* … as are their blocks; owned */
        struct plan plan;
    } kept[PLANS_KEPT];
    uint32_t count, next; /* next: the oldest, once all are in use */
};

/* The job's plan, as plan_init() makes it, which stays until the next call. The job must have
 * passed job_check(). NULL: no memory. */
const struct plan *plans_get(struct plans *plans, const struct job *job, const void *block);
void plans_free(struct plans *plans);

#endif
