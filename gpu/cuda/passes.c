/* From a plan to kernels on a stream: the one place that decides which kernels run.
 *
 *   box:    the points that are centred on every active axis → row or march
 *   shell:  all others → shell                                                                   */
#include "gpu/cuda/families.h"

#include <string.h>

void passes_constants_init(struct passes_constants *constants, const struct plan *plan)
{
    int active = 0;
    memset(constants, 0, sizeof *constants);
    constants->plan = *plan;
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int m = 0; m <= PLAN_RADIUS; m++)
            constants->c_f32[a][m] = (float)plan->axis[a].c[m];
        if (plan->axis[a].active)
            active |= 1 << a;
    }
    constants->centre = plan->centre[active];
    constants->centre_f32 = (float)plan->centre[active];
}

static cudaError_t launch_box(const struct geometry *g, const void *in, void *out)
{
    const struct plan_axis *axis = g->plan->axis;
    if (axis[AXIS_X].active && !axis[AXIS_Y].active && !axis[AXIS_Z].active)
        return row_launch(g, in, out);
    return march_launch(g, in, out);
}

static cudaError_t launch_pass(const struct geometry *g, const void *in, void *out, bool impose)
{
    const struct plan *plan = g->plan;
    cudaError_t error = cudaSuccess;
    if (impose)
        error = cudaMemcpyAsync(out, in,
                                plan->points * plan->batch * (plan->dtype == DTYPE_F32 ? 4 : 8),
                                cudaMemcpyDeviceToDevice, g->stream);
    else if (g->has_box)
        error = launch_box(g, in, out);
    if (error != cudaSuccess || g->shell.points == 0)
        return error;
    return shell_launch(g, in, out, impose);
}

cudaError_t passes_launch(const struct launch *launch, int slot, int units, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    struct geometry geometry;
    geometry_init(&geometry, plan, slot, units, stream);
    cudaError_t error = cudaSuccess;
    for (uint64_t pass = launch->from / plan->lines;
         pass < launch->to / plan->lines && error == cudaSuccess; pass++) {
        const void *in = pass == 0 ? launch->in : pass % 2 == 1 ? launch->even : launch->odd;
        void *out = pass % 2 == 0 ? launch->even : launch->odd;
        const bool impose = plan->impose && pass == 0;
        error = launch_pass(&geometry, in, out, impose);
    }
    return error;
}
