#include "gpu/host/rows.h"

#include "gpu/host/share.h"

struct work {
    const struct kernels *kernels;
    const struct plan *plan;
    const struct table_pass *pass;
    int64_t first; /* line */
};

static void lines(void *context, int64_t from, int64_t to)
{
    const struct work *work = context;
    const struct table_lines some = {.table = table_of(work->plan),
                                     .pass = work->pass,
                                     .from = work->first + from,
                                     .to = work->first + to};
    work->kernels->lines[work->plan->dtype](&some);
}

void rows_pass(const struct kernels *kernels, const struct plan *plan,
               const struct table_pass *pass, uint64_t from, uint64_t to)
{
    struct work work = {kernels, plan, pass, (int64_t)from};
    const int64_t count = (int64_t)(to - from);
    share_units(count, count * table_of(plan)->axis_of[AXIS_X].n, lines, &work);
}

void rows_passes(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    for (uint64_t line = launch->from, end; line < launch->to; line = end) {
        const uint64_t number = line / plan->lines, begin = number * plan->lines;
        end = begin + plan->lines < launch->to ? begin + plan->lines : launch->to;
        const struct table_pass pass = launch_table_pass(launch, number);
        rows_pass(kernels, plan, &pass, line - begin, end - begin);
    }
}
