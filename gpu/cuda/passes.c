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

/* The most passes that one kernel does from `in` to `out`: any number from 1 to this. */
static uint64_t passes_at_once(const struct geometry *g)
{
    (void)g;
    return 1;
}

static cudaError_t launch_passes(const struct geometry *g, const void *in, void *out,
                                 uint64_t count)
{
    (void)count;
    return launch_pass(g, in, out, false);
}

/* The size of the next of the groups that `left` passes are done in: as few groups as hold `most`
 * at most each, of about one size, and an odd number of them if and only if `odd`, since each goes
 * from one buffer to the other. There is such a number of groups: `left` itself, or one less than
 * the group before found. */
static uint64_t next_group(uint64_t left, uint64_t most, bool odd)
{
    uint64_t groups = (left + most - 1) / most;
    groups += groups % 2 != odd;
    return (left + groups - 1) / groups;
}

cudaError_t passes_launch(const struct launch *launch, int slot, int units, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const uint64_t end = launch->to / plan->lines;
    uint64_t pass = launch->from / plan->lines;
    void *const even = launch->even[0], *const odd = launch->odd;
    const void *in = pass == 0 ? launch->in[0] : pass % 2 == 1 ? even : odd;
    const void *last = end % 2 == 1 ? even : odd;
    struct geometry geometry;
    geometry_init(&geometry, plan, slot, units, stream);
    if (plan->form != PLAN_SCALAR)
        return nabla_launch(&geometry, launch->in, launch->even);
    const uint64_t most = passes_at_once(&geometry);
    cudaError_t error = cudaSuccess;
    while (pass < end && error == cudaSuccess) {
        void *out = in == even ? odd : even;
        const bool impose = plan->impose && pass == 0;
        const uint64_t count = impose ? 1 : next_group(end - pass, most, out == last);
        error = count == 1 ? launch_pass(&geometry, in, out, impose)
                           : launch_passes(&geometry, in, out, count);
        in = out;
        pass += count;
    }
    return error;
}
