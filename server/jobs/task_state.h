/* The life of a task as a table: which event may come in which state, and where it leads. The one
 * place that says so; task.c does what belongs to each. Pure. */
#pragma once

/* X(enumerator, name) */
#define TASK_STATE_LIST(X)                                                                         \
    X(TASK_WAITING, "waiting")   /* for fields in use, for a slab, or (put) for its copies */      \
    X(TASK_QUEUED, "queued")     /* for its turn on the device */                                  \
    X(TASK_RUNNING, "running")   /* with the worker */                                             \
    X(TASK_STOPPING, "stopping") /* with the worker, which was told to stop it */                  \
    X(TASK_REPLYING, "replying") /* its answer is on its way */                                    \
    X(TASK_ENDED, "ended")

#define TASK_EVENT_LIST(X)                                                                         \
    X(TASK_READY, "ready")         /* an operator has all that it waited for */                    \
    X(TASK_HAND_OVER, "hand over") /* to the worker */                                             \
    X(TASK_PROGRESS, "progress")   /* the worker tells of it */                                    \
    X(TASK_STOP, "stop")           /* cancelled, out of time, or its connection is gone */         \
    X(TASK_ANSWER, "answer")       /* there is a result, or an error */                            \
    X(TASK_END, "end")             /* nothing is owed any more */

#define TASK_ENUMERATOR(enumerator, name) enumerator,
enum task_state { TASK_STATE_LIST(TASK_ENUMERATOR) TASK_STATE_COUNT };
enum task_event { TASK_EVENT_LIST(TASK_ENUMERATOR) TASK_EVENT_COUNT };
#undef TASK_ENUMERATOR

/* Where the event leads; TASK_STATE_COUNT where it may not come. */
enum task_state task_state_after(enum task_state state, enum task_event event);

const char *task_state_name(enum task_state state);
const char *task_event_name(enum task_event event);
