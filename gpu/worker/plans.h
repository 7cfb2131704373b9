/* The plans of recent jobs: weights beside an edge take milliseconds to compute, and a new plan has
 * to be copied to the device. A user with many plans displaces none of a user who has fewer. One
 * thread. */
#pragma once

#include "base/list.h"
#include "numerics/plan.h"

enum {
    PLANS_KEPT = 32,
    PLANS_KEPT_BYTES = 64 << 20 /* of the tables and blocks of all but the one made last */
};

struct kept_plan {
    struct list link;
    uint32_t users; /* runs, and the list that it is kept in */
    uint64_t owner; /* who asked first */
    struct job job; /* equal jobs are equal bytes, … */
    struct plan plan;
    uint64_t slice;  /* plans_slice() */
    uint64_t bytes;  /* of the block and the table */
    uint8_t block[]; /* … as are their blocks */
};

/* Zeroed, it has none. */
struct plans {
    struct list kept; /* used last first */
    uint32_t count;
    uint64_t bytes;
};

/* The job's plan, which stays until it is given back; NULL: it is not kept. Job and block need no
 * check, since only those of a plan that was made are found. */
const struct plan *plans_find(struct plans *plans, const struct job *job, const void *block);
/* The same, as plan_init() makes it. The job must have passed job_check(). NULL: no memory. */
const struct plan *plans_make(struct plans *plans, uint64_t owner, const struct job *job,
                              const void *block);
/* As plan_init_measure() makes it; it is not kept. */
const struct plan *plans_measure(enum dtype dtype, uint64_t points, int inputs);
/* The lines that its last run did in the time of a slice; 0: it has not run. */
uint64_t plans_slice(const struct plan *plan);
void plans_learn(const struct plan *plan, uint64_t slice);
/* One that these have returned. */
void plans_give(const struct plan *plan);
void plans_free(struct plans *plans);
