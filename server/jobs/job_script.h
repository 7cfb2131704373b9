/* What a task has its worker do where that is more than one order: operators one after another,
 * again and again; segments of an operator's steps with a snapshot between them, a measure of its κ
 * before the time step is judged, the evidence of a report.
 *
 *   measure κ, judge │ (segment, snapshot) … │ runs … │ estimates, measures │ copies to regions
 *
 * The task's own arrays serve; what there is beside them is the script's. Segments and evidence are
 * of an operator that is alone. */
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
    /* Evidence. */
    bool reports, estimates;
    struct field *array[SCRIPT_ARRAYS]; /* referenced */
    uint8_t *block; /* of the estimates' jobs, owned; NULL: the operator's, or none */
    struct reply_report report[AXIS_COUNT];
};

/* Does the operator's request take one? What it takes beside its own arrays: so many of their size,
 * and one of so many bytes (0: none). `job` need not have been measured. */
struct script_needs {
    bool wanted;
    bool estimates;
    bool in_place; /* the output serves as input: its job needs the scratch arrays for that */
    int arrays;
    uint64_t result_bytes;
};
struct script_needs script_needs(const struct request *request, const struct job *job);

/* Of a task whose own arrays are there, and whose operators need that. False with the failure set:
 * its own have no room; script_free() all the same. */
bool script_make(struct task *task, const struct requirements *needs, struct failure *failure);
/* Give up its arrays; and all of it. NULL is let pass. */
void script_release(struct script *script);
void script_free(struct script *script);

/* Of its arrays. */
uint64_t script_bytes(const struct script *script);

/* The time that its orders will take, beyond that of the job itself. */
int64_t script_cost_ns(const struct flow *flow, const struct job *job, bool estimates);

/* The array of the latest snapshot is the script's no longer. */
void script_leave_snapshot(struct script *script);

/* The job whose result tells the error, by its distance from that of the same job (`finer` false)
 * with the job's own accuracy. Of a diffusion one step, from where it has come to. */
void script_estimate(const struct job *job, bool finer, struct job *estimate);

/* Begin what can begin; at the end of the script the task has succeeded or failed. */
void script_go_on(struct task *task);
/* Something has ended; script_go_on() is to follow. */
void script_order_ended(struct task *task, struct order *order, enum status status);
void script_snapshot_ended(struct task *task);

/* Begin no more. Is there something that is still to end: an order, or a snapshot that has begun to
 * go out? */
bool script_stop(struct task *task);
/* The task has no result: what stands in a field that it wrote is none either. */
void script_tear(struct task *task);
