#include "gpu/host/rows.h"

#include "gpu/host/pass.h"

enum {
    SMALL_POINTS = 1 << 13, /* waking the other threads costs more */
    PARTS = 8               /* of a thread's share: one of them may be held up */
};

void rows_pass(const struct kernels *kernels, const struct plan *plan,
               const struct table_pass *pass, uint64_t from, uint64_t to)
{
    const struct table_header *table = table_of(plan);
    const int64_t lines = (int64_t)(to - from), n = table->axis_of[AXIS_X].n;
    const int64_t threads = lines * n > SMALL_POINTS ? pass_threads() : 1;
    const int64_t parts = lines < threads * PARTS ? lines : threads == 1 ? 1 : threads * PARTS;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
#endif
    for (int64_t part = 0; part < parts; part++) {
        const struct table_lines some = {.table = table,
                                         .pass = pass,
                                         .from = (int64_t)from + lines * part / parts,
                                         .to = (int64_t)from + lines * (part + 1) / parts};
        kernels->lines[plan->dtype](&some);
    }
}

void rows_passes(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    for (uint64_t line = launch->from, end; line < launch->to; line = end) {
        const uint64_t number = line / plan->lines, begin = number * plan->lines;
        end = begin + plan->lines < launch->to ? begin + plan->lines : launch->to;
        const struct table_pass pass = table_pass_of(launch, number);
        rows_pass(kernels, plan, &pass, line - begin, end - begin);
    }
}
