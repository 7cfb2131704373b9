#include "gpu/host/schemes.h"

#include "gpu/host/pass.h"

enum {
    SMALL_POINTS = 1 << 13, /* waking the other threads costs more */
    PARTS = 8               /* of a thread's share: one of them may be held up */
};

static void adi_stage(const struct kernels *kernels, const struct launch *launch,
                      const struct stage *stage)
{
    const struct plan *plan = launch->plan;
    const struct adi_work work = {.adi = plan_table_rows(plan->table),
                                  .operands = launch->operands,
                                  .kind = stage->kind,
                                  .axis = stage->axis,
                                  .lines = (int64_t)plan->lines,
                                  .read = stage_array(launch, stage->read),
                                  .base = stage_array(launch, stage->base),
                                  .write = stage_array(launch, stage->write),
                                  .spare = {launch->spare[0], launch->spare[1]}};
    const int64_t units = kernels->adi_units[plan->dtype](&work);
    const int64_t threads = plan->points * plan->batch > SMALL_POINTS ? pass_threads() : 1;
    const int64_t parts = units < threads * PARTS ? units : threads == 1 ? 1 : threads * PARTS;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
#endif
    for (int64_t part = 0; part < parts; part++)
        kernels->adi[plan->dtype](&work, units * part / parts, units * (part + 1) / parts);
}

void schemes_launch(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    for (uint64_t line = launch->from; line < launch->to; line += plan->lines) {
        const struct stage stage = stage_of(plan, line / plan->lines);
        adi_stage(kernels, launch, &stage);
    }
}
