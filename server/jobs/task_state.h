/* The life of a task as a table: which event may come in which state, and where it leads. The one
 * place that says so; task.c does what belongs to each. Pure. */
#pragma once

enum task_state {
    TASK_WAITING,  /* for fields in use, a slab, copies from other devices, or (put) its upload */
    TASK_QUEUED,   /* for its turn on the device */
    TASK_RUNNING,  /* with the worker */
    TASK_STOPPING, /* with the worker, which was told to stop it */
    TASK_REPLYING, /* its answer is on its way */
    TASK_ENDED,
    TASK_STATE_COUNT
};

enum task_event {
    TASK_READY,     /* an operator has all that it waited for */
    TASK_HAND_OVER, /* to the worker */
    TASK_PROGRESS,  /* the worker tells of it */
    TASK_STOP,      /* cancelled, out of time, or its connection is gone */
    TASK_ANSWER,    /* there is a result, or an error */
    TASK_END,       /* nothing is owed any more */
    TASK_EVENT_COUNT
};

/* Where the event leads; TASK_STATE_COUNT where it may not come. */
static inline enum task_state task_state_after(enum task_state state, enum task_event event)
{
    enum { NONE = TASK_STATE_COUNT };
    /* clang-format off */
    static const unsigned char after[TASK_STATE_COUNT][TASK_EVENT_COUNT] = {
        /*                 ready        hand over     progress       stop           answer         end */
        [TASK_WAITING]  = {TASK_QUEUED, NONE,         NONE,          TASK_WAITING,  TASK_REPLYING, TASK_ENDED},
        [TASK_QUEUED]   = {NONE,        TASK_RUNNING, NONE,          TASK_QUEUED,   TASK_REPLYING, NONE},
        [TASK_RUNNING]  = {NONE,        NONE,         TASK_RUNNING,  TASK_STOPPING, TASK_REPLYING, NONE},
        [TASK_STOPPING] = {NONE,        NONE,         TASK_STOPPING, TASK_STOPPING, TASK_REPLYING, NONE},
        [TASK_REPLYING] = {NONE,        NONE,         NONE,          TASK_REPLYING, NONE,          TASK_ENDED},
        [TASK_ENDED]    = {NONE,        NONE,         NONE,          NONE,          NONE,          NONE},
    };
    /* clang-format on */
    return (enum task_state)after[state][event];
}
