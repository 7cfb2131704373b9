/* The orders of a task that needs more than one: operators one after another, again and again;
 * segments of an operator's steps with snapshots between them; a measure of κ before the time step
 * is judged; the estimates and measures of a report.
 *
 *   measure κ, judge │ (segment, snapshot) … │ runs … │ estimates, measures │ copies to regions
 *
 * A script works in the task's arrays, and owns a few more. Only a single operator has segments and
 * a report.
 *
 * Its actions go in a row, some of them again and again, each begun as soon as those before it
 * allow:
 *
 *   action 0 … from − 1 │ from … to − 1, `rounds` times │ to … count − 1
 */
#pragma once

#include "protocol/reply.h"
#include "server/devices/device.h"
#include "server/devices/field.h"

#include <assert.h>

struct requirements;

/* Arrays beside the task's own. */
enum {
    SCRIPT_FRESH,                            /* the next snapshot's */
    SCRIPT_SAME,                             /* results of estimates */
    SCRIPT_FINER,                            /* by component */
    SCRIPT_WORK = SCRIPT_FINER + AXIS_COUNT, /* scratch of estimates */
    SCRIPT_ARRAYS = SCRIPT_WORK + AXIS_COUNT
};

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
    bool under_way, ends_round;
    int component;
    uint32_t op;        /* of the task */
    struct order order; /* of all kinds but ACTION_JUDGE and ACTION_SNAPSHOT */
    struct job job;     /* the order's, where it is not the operator's */
};

struct script {
    uint32_t count, next;
    uint32_t from, to;
    uint64_t rounds, round;
    uint32_t under_way;     /* actions */
    bool broken;            /* no further action begins */
    struct failure failure; /* why it is broken */
    /* Segments. */
    enum snapshot snapshot;
    uint64_t every, steps_done;
    struct field *reached; /* what the next one begins from; NULL: the input */
    struct field *taken;   /* a snapshot's array, referenced, … */
    struct access access;  /* … and read by the next segment, where it is a field */
    /* The report. */
    bool reports, estimates;
    struct field *array[SCRIPT_ARRAYS]; /* referenced */
    uint8_t *block; /* of the estimates' jobs, owned; NULL: the operator's, or none */
    struct reply_report report[AXIS_COUNT];
    struct action action[]; /* count of them */
};

/* The script of an operator's request, if any is wanted, and its arrays: those of the size of the
 * operator's, a bit each, and one of result_bytes (0: none). `job` need not have been measured. */
struct script_needs {
    bool wanted;
    bool estimates;
    bool in_place; /* the output serves as input: its job needs the scratch arrays for that */
    uint32_t arrays;
    uint64_t result_bytes;
};
struct script_needs script_needs(const struct request *request, const struct job *job);

/* Make the script of a task that has its arrays; needs: of its operators. False with the failure
 * set: there is no room for the script's arrays; call script_free() all the same. */
bool script_make(struct task *task, const struct requirements *needs, struct failure *failure);
/* Release its arrays and free it. NULL is allowed. */
void script_free(struct script *script);

/* The time that its orders will take, beyond that of the job itself. */
int64_t script_cost_ns(const struct flow *flow, const struct job *job, bool estimates);

/* Release the array of the latest snapshot. */
void script_leave_snapshot(struct script *script);

/* One of the two jobs whose distance estimates the error: with a higher accuracy, or (`finer`
 * false) with the job's own. Of a diffusion: one step from the result. */
void script_estimate(const struct job *job, bool finer, struct job *estimate);

/* Begin all actions that can begin; at the end of the script the task has succeeded or failed. */
void script_go_on(struct task *task);
/* An order or a snapshot has ended; call script_go_on() next. */
void script_order_ended(struct task *task, struct order *order, enum status status);
void script_snapshot_ended(struct task *task);

/* Begin no more actions. True: an order, or a snapshot that is being sent, is still to end. */
bool script_stop(struct task *task);
/* The task has no result: mark the fields that it wrote as torn. */
void script_tear(struct task *task);

/* --- which action is next: bookkeeping alone --- */

/* A new action, the last, of that operator of the task; there is room for it. */
static inline struct action *script_add(struct script *script, enum action_kind kind, bool waits,
                                        uint32_t op)
{
    struct action *action = &script->action[script->count++];
    action->kind = kind;
    action->waits = waits;
    action->op = op;
    return action;
}

/* The actions from `from` to the last one are done `rounds` times, 1 or more. Call it once. */
static inline void script_repeat(struct script *script, uint32_t from, uint64_t rounds)
{
    script->from = from;
    script->to = script->count;
    script->rounds = rounds;
}

/* The action to begin now, which is under way from here on; NULL: none, for now. */
static inline struct action *script_next(struct script *script)
{
    if (script->broken || script->next == script->count)
        return NULL;
    struct action *action = &script->action[script->next];
    if (action->under_way || (action->waits && script->under_way))
        return NULL;
    action->under_way = true;
    script->under_way++;
    if (++script->next == script->to && ++script->round < script->rounds)
        script->next = script->from;
    return action;
}

/* One has ended. */
static inline void script_action_ended(struct script *script, struct action *action)
{
    assert(action->under_way);
    action->under_way = false;
    script->under_way--;
}

/* Is nothing under way, and nothing left to do? */
static inline bool script_is_done(const struct script *script)
{
    return !script->under_way && (script->broken || script->next == script->count);
}
