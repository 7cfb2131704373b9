/* What a task has its worker do where that is more than one order: segments of its steps with a
 * snapshot between them, a measure of its κ before the time step is judged, the evidence of a
 * report.
 *
 *   measure κ, judge │ (segment, snapshot) … │ the rest │ estimates, measures │ copies to regions
 *
 * The task's own arrays serve; what there is beside them is the routine's. */
#ifndef SERVER_JOBS_JOB_SCRIPT_H
#define SERVER_JOBS_JOB_SCRIPT_H

#include "protocol/reply.h"
#include "protocol/request.h"
#include "server/devices/field.h"
#include "server/jobs/program.h"
#include "server/users/schedule.h"

struct routine {
    struct program program;
    struct failure failure; /* why it is broken */
    double cfl;             /* asked for, of a κ that is measured; 0: dt was */
    /* Segments. */
    enum snapshot snapshot;
    uint64_t every, steps_done;
    struct field *reached; /* what the next one begins from; NULL: the input */
    struct field *taken;   /* a snapshot's array, referenced, … */
    struct access access;  /* … and read by the next segment, where it is a field */
    struct field *fresh;   /* that will be the next; referenced */
    /* Evidence. */
    bool reports, estimates;
    struct field *same[1], *finer[AXIS_COUNT], *work[AXIS_COUNT]; /* referenced */
    struct field *result; /* that measures work in; referenced */
    uint8_t *block;       /* of the estimates' jobs, owned; NULL: the task's, or none */
    struct reply_report report[AXIS_COUNT];
};

/* Does the request take one? What it takes beside the task's own arrays: so many of their size, and
 * one of so many bytes (0: none). `job` need not have been measured. */
struct routine_needs {
    bool wanted;
    bool estimates;
    bool in_place; /* the output serves as input: its job needs the scratch arrays for that */
    int arrays;
    uint64_t result_bytes;
};
struct routine_needs routine_needs(const struct request *request, const struct job *job);

/* False with the failure set: the request asks for what does not go together. */
bool routine_check(const struct request *request, const struct job *job, struct failure *failure);

/* Of a task whose own arrays are there. False with the failure set: they have no room, or the
 * request asks for what does not go together; routine_free() all the same. */
bool routine_make(struct task *task, const struct request *request, struct failure *failure);
/* The same of a chain, whose links' routines have been made: what the κ of a link is measured with,
 * without a program; NULL where it has none. */
bool routine_make_link(struct task *link, const struct request *request, struct failure *failure);
bool routine_make_chain(struct task *task, struct failure *failure);
/* Give up its arrays; and all of it. NULL is let pass. */
void routine_release(struct routine *routine);
void routine_free(struct routine *routine);

/* Of its arrays. */
uint64_t routine_bytes(const struct routine *routine);

/* The time that its orders will take, beyond that of the job itself. */
int64_t routine_cost_ns(const struct flow *flow, const struct job *job, bool estimates);

enum routine_state { ROUTINE_GOES_ON, ROUTINE_DONE, ROUTINE_FAILED /* with its failure */ };

/* Begin what can begin. */
enum routine_state routine_go_on(struct task *task);
/* Something has ended; routine_go_on() is to follow. */
void routine_order_ended(struct task *task, struct order *order, enum status status);
void routine_snapshot_ended(struct task *task);

/* Begin no more. Is there something that is still to end: an order, or a snapshot that has begun to
 * go out? */
bool routine_stop(struct task *task);
/* The task has no result: what stands in a field that it wrote is none either. */
void routine_tear(struct task *task);

#endif
