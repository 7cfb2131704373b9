/* Points in time at which something is to be done, to the millisecond. */
#pragma once

#include "base/list.h"

#include <uv.h>

struct deadline {
    struct list link;
    uint64_t at_ns; /* uv_hrtime() */
    void (*passed)(struct deadline *deadline);
};

struct deadlines {
    struct list list; /* the earliest first */
    uv_timer_t timer;
};

void deadlines_open(struct deadlines *deadlines, uv_loop_t *loop);
void deadlines_close(struct deadlines *deadlines);

/* passed() is called once, at `at_ns` or up to a millisecond later, unless it is forgotten before.
 * To forget one that is not set is harmless. */
void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns);
void deadline_forget(struct deadline *deadline);
