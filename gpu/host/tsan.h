/* What ThreadSanitizer hears of the kernels. They are compiled without it, since it looks at every
 * vector that they load and store, and tests would take minutes of what takes it nothing to hear
 * once: the lines that each pass of a launch computes are read where it reads, and written. */
#ifndef GPU_HOST_TSAN_H
#define GPU_HOST_TSAN_H

#include "gpu/stage.h"

#ifdef __SANITIZE_THREAD__

void __tsan_read_range(void *memory, long bytes);
void __tsan_write_range(void *memory, long bytes);

static inline void tsan_pass(const struct launch *launch, const struct stage *stage, uint64_t from,
                             uint64_t to)
{
    const struct plan *plan = launch->plan;
    const uint64_t line_bytes = plan_array_bytes(plan) / plan->lines;
    for (int c = 0; c < plan->inputs || c < plan->outputs; c++) {
        char *const read = stage->read == STAGE_IN ? (char *)(uintptr_t)launch->in[c]
                                                   : stage_array(launch, stage->read);
        char *const write =
            stage->write == STAGE_EVEN ? launch->even[c] : stage_array(launch, stage->write);
        if (c < plan->inputs)
            __tsan_read_range(read + from * line_bytes, (long)((to - from) * line_bytes));
        if (c < plan->outputs)
            __tsan_write_range(write + from * line_bytes, (long)((to - from) * line_bytes));
    }
}

/* A measure's loops are no kernels. */
static inline void tsan_launch(const struct launch *launch)
{
    const uint64_t lines = launch->plan->lines;
    if (launch->plan->engine == PLAN_MEASURE)
        return;
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
#endif
