/* What ThreadSanitizer hears of the kernels. It would look at every vector that they load and
 * store, which takes tests minutes: they are compiled without it, and it is told once for each pass
 * of a launch that the lines which the pass computes are read, and written. Not told: the lines
 * around them, and operands. */
#pragma once

#include "numerics/stage.h"

#ifdef __SANITIZE_THREAD__

/* With the types of the compiler's builtins. */
void __tsan_read_range(void *memory, long bytes);
void __tsan_write_range(void *memory, long bytes);

static inline void tsan_pass(const struct launch *launch, const struct stage *stage, uint64_t from,
                             uint64_t to)
{
    const struct plan *plan = launch->plan;
    const uint64_t line_bytes = plan_array_bytes(plan) / plan->lines, at = from * line_bytes;
    const long bytes = (long)((to - from) * line_bytes);
    for (int c = 0; c < plan->inputs; c++) {
        char *read = stage->read == STAGE_IN ? (char *)(uintptr_t)launch->in[c]
                                             : launch_array(launch, stage->read);
        __tsan_read_range(read + at, bytes);
    }
    for (int c = 0; c < plan->outputs; c++) {
        char *write =
            stage->write == STAGE_EVEN ? launch->even[c] : launch_array(launch, stage->write);
        __tsan_write_range(write + at, bytes);
    }
    if (stage->base != stage->read)
        __tsan_read_range((char *)launch_array(launch, stage->base) + at, bytes);
}

static inline void tsan_launch(const struct launch *launch)
{
    const uint64_t lines = launch->plan->lines;
    if (launch->leg.sweep) { /* of some rows alone */
        const struct plan *plan = launch->plan;
        const int64_t points = plan->axis[stage_of(plan, launch->leg.from).axis].stride;
        const uint64_t rows = launch->leg.end - launch->leg.begin;
        __tsan_write_range(launch->odd, (long)(rows * (uint64_t)points * plan_element_bytes(plan)));
        return;
    }
    for (uint64_t from = launch->from, to; from < launch->to; from = to) {
        const uint64_t pass = from / lines, begin = pass * lines;
        const struct stage stage = stage_of(launch->plan, pass);
        to = begin + lines < launch->to ? begin + lines : launch->to;
        tsan_pass(launch, &stage, from - begin, to - begin);
    }
}

#else

static inline void tsan_launch(const struct launch *launch)
{
    (void)launch;
}

#endif
