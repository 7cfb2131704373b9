#include "server/jobs/task_state.h"

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

enum task_state task_state_after(enum task_state state, enum task_event event)
{
    return (enum task_state)after[state][event];
}

#define NAME(enumerator, name) [enumerator] = name,

const char *task_state_name(enum task_state state)
{
    static const char *const names[] = {TASK_STATE_LIST(NAME)};
    return names[state];
}

const char *task_event_name(enum task_event event)
{
    static const char *const names[] = {TASK_EVENT_LIST(NAME)};
    return names[event];
}
