/* A task's orders, where they are more than one: steps in a row, some of them again and again, each
 * begun as soon as those before it allow. Bookkeeping alone: what a step is, and to begin it, is
 * its owner's.
 *
 *   step 0 … from − 1 │ from … to − 1, `rounds` times │ to … count − 1
 */
#pragma once

#include "server/devices/device.h"

#include <assert.h>
#include <stdlib.h>

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
static inline bool program_init(struct program *program, uint32_t most)
{
    *program = (struct program){.step = calloc(most ? most : 1, sizeof *program->step)};
    return program->step != NULL;
}

static inline void program_free(struct program *program)
{
    free(program->step);
    program->step = NULL;
}

/* A new step, the last; they are no more than `most`. Zeroed but for its kind. */
static inline struct step *program_add(struct program *program, enum step_kind kind, bool waits)
{
    struct step *step = &program->step[program->count++];
    step->kind = kind;
    step->waits = waits;
    return step;
}

/* The steps from `from` on that were added until now are done `rounds` times; 0: never. Once. */
static inline void program_repeat(struct program *program, uint32_t from, uint64_t rounds)
{
    program->from = from;
    program->to = program->count;
    program->rounds = rounds;
    if (rounds == 0 && program->next == from)
        program->next = program->to;
}

/* After the step before: round again, or past what is never done. */
static inline void program_advance(struct program *program)
{
    program->next++;
    if (program->next == program->to && program->to > program->from &&
        ++program->round < program->rounds)
        program->next = program->from;
    else if (program->next == program->from && program->rounds == 0)
        program->next = program->to;
}

/* The step to begin now, which is under way from here on; NULL: none is, for now. */
static inline struct step *program_next(struct program *program)
{
    if (program->broken || program->next == program->count)
        return NULL;
    struct step *step = &program->step[program->next];
    if (step->under_way || (step->waits && program->under_way))
        return NULL;
    step->under_way = true;
    program->under_way++;
    program_advance(program);
    return step;
}

/* One has ended. */
static inline void program_ended(struct program *program, struct step *step)
{
    assert(step->under_way);
    step->under_way = false;
    program->under_way--;
}

/* Is nothing under way, and nothing left to do? */
static inline bool program_is_done(const struct program *program)
{
    return !program->under_way && (program->broken || program->next == program->count);
}
