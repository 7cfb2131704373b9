/* A task is an accepted request that needs a device: an operator, a put, a get or an export.
 *
 *   accept ─► WAITING ─ready─► QUEUED ─its turn─► RUNNING ─finished─► REPLYING ─sent─► ENDED
 *                │ │              │                 │ └─stop─► STOPPING ─┘▲   ▲
 *                │ └──────────────┴── any failure, or a stop ────────────┘   │
 *                └── a put that was copied, a get that was granted ──────────┘
 *
 * WAITING: for fields that earlier requests still use, for regions that are being mapped, for a
 * slab for its small input, for inputs to be copied from other devices (relay.h), or (put) for its
 * upload to arrive on the device. RUNNING: its order is
 * with the worker or, where it takes more than one (job_script.h), the next is about to be, or
 * waits for a snapshot to be sent. A put from a region and a get to one are copied by the worker in
 * their turn, as operators run. A task is stopped where it is cancelled, its time is up, or its
 * client is gone (unless it is detached): at once, or from RUNNING when the worker says FINISHED.
 * The table of states is in task_state.h. */
#pragma once

#include "protocol/request_chain.h"
#include "server/jobs/jobs.h"
#include "server/devices/field.h"

struct upload;

enum {
    OP_READS = AXIS_COUNT + OPERANDS,
    OP_ARRAYS = OP_READS + 2 * AXIS_COUNT + 1,
    OP_PLACES = OP_READS + AXIS_COUNT,
    OP_ACCESSES = 2 * AXIS_COUNT + OPERANDS
};

/* One operator of a task: its job, and the arrays and places of its orders. A put, a get and an
 * export have one, too. */
struct op {
    struct task *task;
    struct job job;
    struct array_type type; /* of each array */
    enum out_kind out_kind;
    /* Its arrays, referenced: inputs, outputs and scratch by component (what is no vector is the
     * first alone; of one output the scratch is all that it needs), operands by enum operand, and
     * `result`, in which measures work. */
    union {
        struct field *array[OP_ARRAYS], *read[OP_READS];
        struct {
            struct field *in[AXIS_COUNT], *operand[OPERANDS];
            struct field *out[AXIS_COUNT], *scratch[AXIS_COUNT], *result;
        };
    };
    bool in_is_own[AXIS_COUNT]; /* it came with the request and goes with it */
    uint8_t *block;             /* the job's, owned; NULL: it has none */
    double cfl;                 /* asked for, of a κ that is measured; 0: dt was */
    /* Those that lie in regions. Where the device computes there itself, they have no array;
     * operands are copied to theirs before the job runs. */
    union {
        struct region_use place[OP_PLACES];
        struct {
            struct region_use in_place[AXIS_COUNT], operand_place[OPERANDS], out_place[AXIS_COUNT];
        };
    };
    uint32_t accesses;                 /* count of: */
    struct access access[OP_ACCESSES]; /* of resident fields that no op before it has; referenced */
    uint8_t *small[OP_READS]; /* inputs that came with the control message, owned: what of … */
    uint64_t small_sent[OP_READS]; /* … them has not been sent waits for a slab */
    uint64_t ended;                /* how often it has written its outputs, of more than one time */
};

enum task_kind { TASK_OPERATOR, TASK_PUT, TASK_GET, TASK_EXPORT };
enum task_stop { STOP_NONE, STOP_CANCELLED, STOP_TIMED_OUT, STOP_DRAINED };

struct task {
    struct jobs *jobs;
    struct client *client; /* NULL: it is gone */
    struct user *user;
    struct device *device;
    struct device_user *part; /* of it, the user's */
    enum task_kind kind;
    enum task_state state;
    enum task_stop stop;       /* why it does not go on, where it does not */
    enum task_outcome outcome; /* as which it will be counted: REFUSED until it was accepted */
    uint64_t id;               /* on the channel */
    uint64_t msgid;
    uint64_t message_ns, received_ns; /* when its message began, and was complete */
    bool progress, detach;
    bool is_chain;            /* its answer and its errors are a chain's, of several operators */
    bool is_named;            /* the answer is a map by name */
    uint64_t repeat;          /* so often the operators run, one after another */
    struct entry entry;       /* on the device */
    int64_t due_ns;           /* that it adds to part->due_ns (placement.h) */
    int64_t device_ns;        /* that it took there, once FINISHED */
    struct deadline deadline; /* set where it has a timeout, until it is answered */
    uint32_t ungranted;       /* accesses and places that it waits for */
    uint64_t block_bytes;     /* of its operators' and its script's, charged to the queue */
    struct slab_waiter small_waiter;
    struct list relays;            /* struct relay: of inputs that lie on other devices */
    struct order order;            /* where it is but one … */
    struct script *script;         /* … else NULL; owned */
    struct reply *reply;           /* REPLYING: its answer; else a snapshot that is on its way */
    enum status status;            /* it is answered with */
    struct span spans[SPAN_COUNT]; /* where there is a trace */
    uint64_t front_bytes;          /* of the front's memory, counted for it and its parts */
    struct list client_link, device_link, granted_link;
    uint64_t exported; /* the id of the field, which may be freed meanwhile */
    uint32_t answers;  /* of a chain; else one */
    struct request_answer *answer;
    uint32_t count; /* of: */
    struct op op[];
};

/* Accept a request of the client, whose payloads are in `upload` and whose message began then;
 * fills in the types of resident operands. False with the failure set: nothing is held any more. */
bool task_accept(struct client *client, struct request *request, const struct upload *upload,
                 uint64_t message_ns, struct failure *failure);

/* Its answer or snapshot was sent. */
void task_replied(struct task *task, uint64_t bytes_out);

/* Its client is gone. */
void task_hang_up(struct task *task);

/* Cancel the client's job of that msgid: "cancelled" (it will be answered so, if it was not by
 * now), "already_done" (its answer is complete) or "not_found". */
const char *task_cancel(const struct client *client, uint64_t msgid);

/* The server drains: tasks that have not begun are answered with SHUTTING_DOWN, or if only the
 * device's node leaves with DEVICE_LOST. `late`: those that run are cancelled and answered with
 * TIMEOUT. */
void task_drain(struct device *device, bool late);

/* task.c, for task_run.c: changes of its state. */
void task_step(struct task *task, enum task_event event);
void task_succeed(struct task *task);
/* Not for tasks with the worker while it lives. */
void task_fail(struct task *task, enum status status, const char *text);
void task_fail_with(struct task *task, const struct failure *failure);
void task_fail_stopped(struct task *task);

/* task_run.c: on the device. Handlers of its events; settled() is the caller's to fill in. */
extern const struct device_events task_events;

/* Begin the uploads of small inputs, and go on if nothing is awaited. */
void task_begin(struct task *task);
/* Go on with a task for which nothing may be awaited any more. */
void task_proceed(struct task *task);
/* The turn of a task's entry has come. */
void task_begin_run(struct entry *entry);
/* Run what can run on the device. */
void task_dispatch(struct device *device);
/* Hand an order of the task to its device, under that id. */
void task_order(struct task *task, struct order *order, uint64_t id);
/* A part of its script has ended. */
void task_part_ended(struct task *task);

/* Its estimated time on its device. */
int64_t task_cost_ns(const struct task *task);

/* The arrays, by component, that it answers with: those that are put, got or exported are its
 * inputs. */
static inline struct field *const *op_results(const struct op *op)
{
    return op->task->kind == TASK_OPERATOR ? op->out : op->in;
}

/* Describe an operator as one order, without an id. */
void op_order(const struct op *op, struct order *order);
/* task.c: release fields, which are NULL then. */
void op_let_go(struct field **fields, int count);

/* The task in the trace (trace.h): a span begins (the first begin counts); a span ends; the task
 * was answered, or never will be. Without a trace or a task (NULL) each of these does nothing. */
void task_trace_open(struct task *task, enum span_kind kind);
void task_trace_close(struct task *task, enum span_kind kind);
void task_trace_end(struct task *task);
