#include "gpu/host/adi_pass.h"

#include "gpu/host/share.h"

struct pass {
    const struct kernels *kernels;
    enum dtype dtype;
    struct adi_work work;
};

static void units(void *context, int64_t from, int64_t to)
{
    const struct pass *pass = context;
    pass->kernels->adi[pass->dtype](&pass->work, from, to);
}

static void adi_stage(const struct kernels *kernels, const struct launch *launch,
                      const struct stage *stage)
{
    const struct plan *plan = launch->plan;
    struct pass pass = {.kernels = kernels,
                        .dtype = (enum dtype)plan->dtype,
                        .work = {.adi = plan_table_rows(plan->table),
                                 .operands = launch->operands,
                                 .kind = stage->kind,
                                 .axis = stage->axis,
                                 .lines = (int64_t)plan->lines,
                                 .read = launch_array(launch, stage->read),
                                 .base = launch_array(launch, stage->base),
                                 .write = launch_array(launch, stage->write),
                                 .spare = {launch->spare[0], launch->spare[1]}}};
    share_units(kernels->adi_units[plan->dtype](&pass.work), (int64_t)(plan->points * plan->batch),
                units, &pass);
}

void adi_pass_launch(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    for (uint64_t line = launch->from; line < launch->to; line += plan->lines) {
        const struct stage stage = stage_of(plan, line / plan->lines);
        adi_stage(kernels, launch, &stage);
    }
}
