/* The actions of a job script: in a row, some of them again and again, each begun as soon as those
 * before it allow. Bookkeeping alone: the script carries them out.
 *
 *   action 0 … from − 1 │ from … to − 1, `rounds` times │ to … count − 1
 */
#pragma once

#include "server/devices/device.h"

#include <assert.h>
#include <stdlib.h>

enum action_kind {
    ACTION_COEFFICIENT, /* measures κ */
    ACTION_JUDGE,       /* judges the time step by the measured κ: it ends as it begins */
    ACTION_SEGMENT,     /* some of the time steps */
    ACTION_SNAPSHOT,    /* of what the order before it has left */
    ACTION_RUN,         /* the rest of the time steps, or the job as it is */
    ACTION_SAME,        /* one more time step from the result, … */
    ACTION_FINER,       /* … the same with accuracy + 2; of other operators all of the job */
    ACTION_VALUES,      /* measures a component of the result, … */
    ACTION_DISTANCES,   /* … and how far the estimate is from it */
    ACTION_WRITE        /* copies one to its place in a region */
};

struct action {
    enum action_kind kind;
    bool waits; /* until every action before it has ended; others may overlap, since
                   a worker keeps orders of one array in their order */
    bool under_way;
    /* The script's: */
    bool ends_round;
    int component;
    uint32_t op;        /* of the task */
    struct order order; /* of all kinds but ACTION_JUDGE and ACTION_SNAPSHOT */
    struct job job;     /* the order's, where it is not the operator's */
};

struct program {
    uint32_t count, next;
    uint32_t from, to;
    uint64_t rounds, round;
    uint32_t under_way;    /* actions */
    bool broken;           /* no further action begins */
    struct action *action; /* count of them, owned */
};

/* False: no memory. */
static inline bool program_init(struct program *program, uint32_t most)
{
    *program = (struct program){.action = calloc(most ? most : 1, sizeof *program->action)};
    return program->action != NULL;
}

static inline void program_free(struct program *program)
{
    free(program->action);
    program->action = NULL;
}

/* A new action, the last; they are no more than `most`. Zeroed but for its kind. */
static inline struct action *program_add(struct program *program, enum action_kind kind, bool waits)
{
    struct action *action = &program->action[program->count++];
    action->kind = kind;
    action->waits = waits;
    return action;
}

/* The actions from `from` to the last one are done `rounds` times; 0: never. Call it once. */
static inline void program_repeat(struct program *program, uint32_t from, uint64_t rounds)
{
    program->from = from;
    program->to = program->count;
    program->rounds = rounds;
    if (rounds == 0 && program->next == from)
        program->next = program->to;
}

/* After the action before: round again, or past what is never done. */
static inline void program_advance(struct program *program)
{
    program->next++;
    if (program->next == program->to && program->to > program->from &&
        ++program->round < program->rounds)
        program->next = program->from;
    else if (program->next == program->from && program->rounds == 0)
        program->next = program->to;
}

/* The action to begin now, which is under way from here on; NULL: none, for now. */
static inline struct action *program_next(struct program *program)
{
    if (program->broken || program->next == program->count)
        return NULL;
    struct action *action = &program->action[program->next];
    if (action->under_way || (action->waits && program->under_way))
        return NULL;
    action->under_way = true;
    program->under_way++;
    program_advance(program);
    return action;
}

/* One has ended. */
static inline void program_ended(struct program *program, struct action *action)
{
    assert(action->under_way);
    action->under_way = false;
    program->under_way--;
}

/* Is nothing under way, and nothing left to do? */
static inline bool program_is_done(const struct program *program)
{
    return !program->under_way && (program->broken || program->next == program->count);
}
