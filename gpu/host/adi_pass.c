#include "gpu/host/adi_pass.h"

void adi_pass(const struct kernels *kernels, const struct launch *launch, const struct stage *stage)
{
    const struct plan *plan = launch->plan;
    struct adi_work work = {.adi = plan_table_rows(plan->table),
                            .operands = launch->operands,
                            .kind = stage->kind,
                            .axis = stage->axis,
                            .lines = (int64_t)plan->lines,
                            .read = launch_array(launch, stage->read),
                            .base = launch_array(launch, stage->base),
                            .write = launch_array(launch, stage->write),
                            .spare = {launch->spare[0], launch->spare[1]},
                            .leg = &launch->leg};
    share_units(kernels->adi_units[plan->dtype](&work), (int64_t)(plan->points * plan->batch),
                kernels->adi[plan->dtype], &work);
}
