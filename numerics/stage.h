/* What each pass of a plan does, from which array of its launch to which: the schemes of
 * docs/NUMERICS.md, "Time". Pure; the order of job_passes(), in the arrays of job_scratch(). */
#pragma once

#include "numerics/plan.h"

#include <stdbool.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum stage_kind {
    STAGE_IMPOSE, /* write = read, with the boundary values in their nodes */
    STAGE_STEP,   /* all that an operator does, or a step of forward Euler */
    STAGE_PART,   /* write = base + part · dt · (L(read) + s) */
    STAGE_RATE,   /* write = dt · (L(base) + s); along one `axis` its part of that */
    STAGE_SOLVE,  /* write: (1 − dt/2 · L along `axis`) of what comes = what was there */
    STAGE_ADD     /* write = base + read */
};

/* The arrays of struct launch. */
enum stage_array {
    STAGE_IN,
    STAGE_EVEN,
    STAGE_ODD,
    STAGE_SPARE, /* and the one after it */
    STAGE_ARRAYS = STAGE_SPARE + 2
};

/* The fractions of dt in STAGE_PART. */
enum stage_part { STAGE_QUARTER, STAGE_THIRD, STAGE_HALF, STAGE_WHOLE, STAGE_PARTS };

struct stage {
    int kind;  /* enum stage_kind */
    int part;  /* enum stage_part; STAGE_PART alone, else 0 */
    int axis;  /* enum axis, of STAGE_RATE also AXIS_COUNT, all of them at once; of others 0 */
    int read;  /* enum stage_array: looked at around each point */
    int base;  /* … at the point alone, so that it may be the one that is written; else `read` */
    int write; /* … never read, unless all that is read lies at the point itself or its line */
    /* Steps that are done, and held by `write`, when this pass is; −1: it is not the last of one.
     * Values that were imposed: 0. */
    int64_t steps_done;
};

/* Of pass 0 … plan->passes − 1. */
struct stage stage_of(const struct plan *plan, uint64_t pass);

__END_DECLS
