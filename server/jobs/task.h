/* A task is an accepted request that needs a device: an operator, a put or a get.
 *
 *   accept ─► WAITING ─ready─► QUEUED ─its turn─► RUNNING ─finished─► REPLYING ─sent─► ENDED
 *                │ │              │                 │ └─stop─► STOPPING ─┘▲   ▲
 *                │ └──────────────┴── any failure, or a stop ────────────┘   │
 *                └── a put that was copied, a get that was granted ──────────┘
 *
 * WAITING: for fields that earlier requests still use, for regions that are being mapped, for a
 * slab for its small input, or (put) for its upload to arrive on the device. RUNNING: its order is
 * with the worker or, where it takes more than one (routine.h; of several operators, chain.h), the
 * next is about to be, or waits for a snapshot to be sent. A put from a region
 * and a get to one are copied by the worker in their turn, as operators run.
 * task_state.[ch] is the whole table. A task is stopped where it is cancelled, its time is up, or
 * its client is gone (unless it is detached): at once, or from RUNNING when the worker says
 * FINISHED.
 */
#ifndef SERVER_JOBS_TASK_H
#define SERVER_JOBS_TASK_H

#include "protocol/request.h"
#include "server/jobs/jobs.h"
#include "server/devices/field.h"
#include "server/devices/order.h"
#include "server/devices/region.h"
#include "server/users/schedule.h"
#include "server/jobs/task_state.h"
#include "server/metrics/counters.h"
#include "server/metrics/trace.h"

struct chain;
struct client;
struct device;
struct routine;
struct reply;
struct upload;

enum { TASK_ACCESSES = 2 * AXIS_COUNT + OPERANDS, TASK_SMALLS = AXIS_COUNT + OPERANDS };
enum task_kind { TASK_OPERATOR, TASK_PUT, TASK_GET };
enum task_stop { STOP_NONE, STOP_CANCELLED, STOP_TIMED_OUT, STOP_DRAINED };

struct task {
    struct jobs *jobs;
    struct client *client; /* NULL: it is gone */
    struct user *user;
    struct device *device;
    enum task_kind kind;
    enum task_state state;
    enum task_stop stop;       /* why it does not go on, where it does not */
    enum task_outcome outcome; /* what it will count as: REFUSED until it was accepted */
    uint64_t id;               /* on the channel */
    uint64_t msgid;
    uint64_t message_ns, received_ns; /* when its message began, and was complete */
    struct job job;
    struct array_type type; /* of each array */
    enum out_kind out_kind;
    bool progress, detach;
    struct entry entry;       /* on the device */
    int64_t device_ns;        /* that it took there, once FINISHED */
    struct deadline deadline; /* set where it has a timeout, until it is answered */
    /* By component, as in the channel's RUN; what is no vector is the first alone. */
    struct field *in[AXIS_COUNT], *out[AXIS_COUNT], *scratch[AXIS_COUNT]; /* referenced; of one
                                                                       output all that it needs */
    bool in_is_own[AXIS_COUNT];      /* it came with the request and goes with it */
    struct field *operand[OPERANDS]; /* referenced; by enum operand */
    uint8_t *block;                  /* the job's, owned; NULL: it has none */
    uint64_t block_bytes;            /* of it and of its routine's, charged to the queue */
    /* Those that lie in regions. Where the device computes there itself, they have no array. */
    struct region_use in_place[AXIS_COUNT], out_place[AXIS_COUNT];
    struct region_use operand_place[OPERANDS]; /* copied to its array before the job runs */
    struct access access[TASK_ACCESSES]; /* of resident fields among its arrays, one of each */
    uint32_t ungranted;
    void *small[TASK_SMALLS]; /* what came with the control message of `in`, then of `operand`, and
                                 waits for a slab; owned */
    struct slab_waiter small_waiter;
    struct order order;            /* where it is but one … */
    struct routine *routine;       /* … else NULL; owned */
    struct chain *chain;           /* its operators, owned; NULL: it is none */
    struct task *chain_of;         /* it is one of these: the chain's task; else NULL */
    struct reply *reply;           /* REPLYING */
    struct reply *snapshot;        /* on its way, which the routine waits for */
    enum status status;            /* it is answered with */
    uint64_t bytes;                /* of one of its arrays; for the trace */
    struct span spans[SPAN_COUNT]; /* where there is a trace */
    uint64_t front_bytes;          /* of the front's memory, counted for it and its parts */
    struct list client_link, device_link, granted_link;
};

/* Accept a request of the client, whose payloads are in `upload` and whose message began then;
 * fills in the types of resident operands. False with the failure set: nothing is held any more. */
bool task_accept(struct client *client, struct request *request, const struct upload *upload,
                 uint64_t message_ns, struct failure *failure);

/* Count the front's memory that it, or the chain that it is a link of, is about to take, until it
 * ends. False with OVER_BUDGET. */
bool task_charge(struct task *task, uint64_t bytes, struct failure *failure);

/* What the task is, where it is but one order; without an id. */
void order_init(struct order *order, struct task *task);

/* Its lists are empty ones. */
void task_init_lists(struct task *task);
/* What it holds of arrays, places and numbers goes back; or some of its arrays. */
void task_release_arrays(struct task *task);
void task_release_all(struct task *task, struct field *fields[AXIS_COUNT]);
/* All of them get an id, or none; or lose it. */
bool task_publish(struct field *const fields[AXIS_COUNT], struct failure *failure);
void task_withdraw(struct field *const fields[AXIS_COUNT]);

/* What devices tell; settled() is the caller's to fill in. */
extern const struct device_events task_events;

/* Its reply was sent, or can't be sent any more (client gone). */
void task_replied(struct task *task, bool sent, uint64_t bytes_out);

/* Its snapshot was. */
void task_snapshot_sent(struct task *task, uint64_t bytes_out);

/* Its client is gone. */
void task_hang_up(struct task *task);

/* Cancel the client's job of that msgid: "cancelled" (it will be answered so, if it was not by
 * now), "already_done" (its answer is complete) or "not_found". */
const char *task_cancel(const struct client *client, uint64_t msgid);

/* The server drains: tasks that have not begun are answered with SHUTTING_DOWN. `late`: those that
 * run are cancelled and answered with TIMEOUT. */
void task_drain(struct device *device, bool late);

/* Run what can run on the device. */
void task_dispatch(struct device *device);
/* Hand an order of the task to its device, under that id. */
void task_order(struct task *task, struct order *order, uint64_t id);

#endif
