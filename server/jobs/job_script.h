/* The orders of a task that needs more than one: operators one after another, again and again;
 * segments of an operator's steps with snapshots between them; a measure of κ before the time step
 * is judged; the estimates and measures of a report.
 *
 *   measure κ, judge │ (segment, snapshot) … │ runs … │ estimates, measures │ copies to regions
 *
 * A script works in the task's arrays, and owns a few more. Only a single operator has segments and
 * a report. */
#pragma once

#include "protocol/reply.h"
#include "server/devices/field.h"
#include "server/jobs/program.h"

struct requirements;

/* Arrays beside the task's own. */
enum {
    SCRIPT_FRESH,                            /* the next snapshot's */
    SCRIPT_SAME,                             /* results of estimates */
    SCRIPT_FINER,                            /* by component */
    SCRIPT_WORK = SCRIPT_FINER + AXIS_COUNT, /* scratch of estimates */
    SCRIPT_ARRAYS = SCRIPT_WORK + AXIS_COUNT
};

struct script {
    struct program program;
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
};

/* The script of an operator's request, if any is wanted, and its arrays: so many of the size of the
 * operator's, and one of result_bytes (0: none). `job` need not have been measured. */
struct script_needs {
    bool wanted;
    bool estimates;
    bool in_place; /* the output serves as input: its job needs the scratch arrays for that */
    int arrays;
    uint64_t result_bytes;
};
struct script_needs script_needs(const struct request *request, const struct job *job);

/* Make the script of a task that has its arrays; needs: of its operators. False with the failure
 * set: there is no room for the script's arrays; call script_free() all the same. */
bool script_make(struct task *task, const struct requirements *needs, struct failure *failure);
/* Release its arrays; free it. NULL is allowed. */
void script_release(struct script *script);
void script_free(struct script *script);

/* The bytes of its arrays. */
uint64_t script_bytes(const struct script *script);

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
