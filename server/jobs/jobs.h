/* All jobs of the front: one scheduler, which owns users and devices too, and which several loops
 * of I/O may feed. A client is the receiver of a task's results, which go back through a table of
 * calls. */
#pragma once

#include "server/devices/device.h"
#include "server/jobs/deadline.h"
#include "server/jobs/task_state.h"

struct answer;
struct outbox;
struct reply;

/* Calls to the layer above. Each push takes the task over (it may be NULL) until task_replied();
 * task->reply is what is being sent, and is NULL again before that. */
struct client_calls {
    void (*failure)(struct outbox *outbox, uint64_t msgid, struct task *task,
                    const struct failure *failure);
    void (*answer)(struct outbox *outbox, uint64_t msgid, const struct answer *answer,
                   struct task *task);
    void (*progress)(struct outbox *outbox, uint64_t msgid, uint64_t done, uint64_t total);
    /* Take back one of which no byte has been sent; its task is the caller's again. False: it is
     * too late, or the answer holds no array. */
    bool (*withdraw)(struct reply *reply);
    /* Has no byte of it been sent, though its client reads? */
    bool (*is_held_up)(struct reply *reply);
    /* The worker that holds its arrays is gone. */
    void (*lost)(struct reply *reply);
};

struct jobs {
    struct devices *devices;
    const struct client_calls *calls;
    struct list granted; /* struct task: nothing is awaited any more */
    bool granting;       /* the list is being worked off */
    bool draining;
    uint64_t last_task;
    uint64_t tasks[TASK_STATE_COUNT]; /* of all users */
    struct deadlines deadlines;
};

enum { CLIENT_ANSWERED = 32 };

/* The receiver of tasks' results. */
struct client {
    struct jobs *jobs;
    struct user *user;
    struct device *home;                /* for its arrays (placement.h); NULL: none yet */
    struct outbox *outbox;              /* for the calls */
    struct list tasks;                  /* struct task */
    struct list exports;                /* struct export (exports.h) */
    uint64_t answered[CLIENT_ANSWERED]; /* msgids of the last tasks that ended, a ring */
    uint32_t answered_count;
};
