/* A task's orders, where they are more than one: steps in a row, some of them again and again, each
 * begun as soon as those before it allow. Bookkeeping alone: what a step is, and to begin it, is
 * its owner's.
 *
 *   step 0 … from − 1 │ from … to − 1, `rounds` times │ to … count − 1
 */
#pragma once

#include "server/devices/device.h"
enum step_kind {
    STEP_COEFFICIENT, /* measures κ */
    STEP_JUDGE,       /* looks at what was measured: it ends as it begins */
    STEP_SEGMENT,     /* some of the time steps */
    STEP_SNAPSHOT,    /* of what the order before it has left */
    STEP_RUN,         /* the rest of the time steps, or the job as it is */
    STEP_SAME,        /* one more time step from the result, … */
    STEP_FINER,       /* … the same with accuracy + 2; of other operators all of the job */
    STEP_VALUES,      /* measures a component of the result, … */
    STEP_DISTANCES,   /* … and how far the estimate is from it */
    STEP_WRITE        /* copies one to its place in a region */
};

struct step {
    enum step_kind kind;
    bool waits; /* until every step before it has ended; the others may be under way at once, since
                   a worker keeps orders of one array in their order */
    bool under_way;
    /* The owner's: */
    bool ends_round;
    int component;
    uint32_t op;        /* of the task */
    struct order order; /* of all kinds but STEP_JUDGE and STEP_SNAPSHOT */
    struct job job;     /* the order's, where it is not the operator's */
};

struct program {
    uint32_t count, next;
    uint32_t from, to;
    uint64_t rounds, round;
    uint32_t under_way; /* steps */
    bool broken;        /* no further step is to begin */
    struct step *step;  /* count of them, owned */
};

/* False: no memory. */
bool program_init(struct program *program, uint32_t most);
void program_free(struct program *program);

/* A new step, the last; they are no more than `most`. Zeroed but for its kind. */
struct step *program_add(struct program *program, enum step_kind kind, bool waits);
/* The steps from `from` on that were added until now are done `rounds` times; 0: never. Once. */
void program_repeat(struct program *program, uint32_t from, uint64_t rounds);

/* The step to begin now, which is under way from here on; NULL: none is, for now. */
struct step *program_next(struct program *program);
/* One has ended. */
void program_ended(struct program *program, struct step *step);

/* Is nothing under way, and nothing left to do? */
bool program_is_done(const struct program *program);
