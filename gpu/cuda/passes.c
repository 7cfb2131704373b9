/* From a plan to kernels on a stream: the one place that decides which kernels run.
 *
 *   interior:  the points that are centred on every active axis, along coordinates also closures
 *              of points alone → a family of the table below, for gradients, divergences and curls
 *              vector_operators.cu, for what neither takes interior.cu
 *   boundary:  all others → faces.cu, and what that leaves → points.cu, of plans that are not plain
 *              table_boundary.cu
 *
 * Families that do several passes at once do the interior and the boundary. */
#include "gpu/cuda/adi.h"
#include "gpu/cuda/copy.h"
#include "gpu/cuda/families.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void passes_constants_init(struct passes_constants *constants, const struct plan *plan,
                           const void *rows)
{
    int active = 0;
    memset(constants, 0, sizeof *constants);
    constants->plan = *plan;
    constants->rows = rows;
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int m = 0; m <= PLAN_RADIUS; m++)
            constants->c_f32[a][m] = (float)plan->axis[a].c[m];
        if (plan->axis[a].active)
            active |= 1 << a;
    }
    constants->centre = plan->centre[active];
    constants->centre_f32 = (float)plan->centre[active];
}

static bool is_along_x(const struct plan *plan)
{
    const struct plan_axis *axis = plan->axis;
    return axis[AXIS_X].active && !axis[AXIS_Y].active && !axis[AXIS_Z].active;
}

static uint64_t along_x_passes(const struct geometry *g)
{
    return is_along_x(g->plan) && !g->plan->indexed;
}

static uint64_t along_x_indexed_passes(const struct geometry *g)
{
    return is_along_x(g->plan) && g->plan->indexed && g->plan->radius <= CENTRED_RADIUS;
}

static uint64_t streaming_2d_passes(const struct geometry *g)
{
    const struct plan_axis *axis = g->plan->axis;
    /* Its offsets in a row are of 32 bits. */
    return axis[AXIS_X].active && axis[AXIS_Y].active && !axis[AXIS_Z].active &&
           g->plan->radius <= (g->plan->indexed ? (int)CENTRED_RADIUS : (int)TABLE_RADIUS) &&
           axis[AXIS_X].n <= UINT32_MAX && axis[AXIS_Y].n <= INT32_MAX / 2;
}

/* 3D, of rows of a kind: offsets in a plane are of 32 bits. */
static uint64_t columns_passes(const struct geometry *g, bool indexed)
{
    const struct plan_axis *axis = g->plan->axis;
    return axis[AXIS_X].active && axis[AXIS_Y].active && axis[AXIS_Z].active &&
           (g->plan->indexed != 0) == indexed && g->plan->radius <= TABLE_RADIUS &&
           axis[AXIS_Z].stride <= UINT32_MAX && axis[AXIS_Z].n <= INT32_MAX / 2;
}

static uint64_t streaming_3d_passes(const struct geometry *g)
{
    return columns_passes(g, false);
}

static uint64_t streaming_3d_indexed_passes(const struct geometry *g)
{
    return columns_passes(g, true);
}

/* The families in order of preference: the first that takes a plan, and as many passes, does them.
 * For experiments FDSERVER_KERNELS names some ("along_y_z,along_x"): these are taken whether
 * they pay or not, the others only do what these cannot, and several passes at once not at all. */
static const struct family {
    const char *name, *alias; /* in FDSERVER_KERNELS */
    /* The most passes from `in` to `out` that one launch of it does of this plan on this device;
     * 0: none. A family with launch_several does 2 to that many, the others one. */
    uint64_t (*most)(const struct geometry *g);
    cudaError_t (*launch)(const struct geometry *g, const struct table_pass *pass);
    cudaError_t (*launch_several)(const struct geometry *g, const void *in, void *out,
                                  uint64_t passes);
    bool all_points; /* not the interior alone */
    /* Is that many at once faster than other families are? NULL: always. */
    bool (*pays)(const struct geometry *g, uint64_t passes);
} families[] = {
    /* x alone: neighbours are in the same row, nothing to march along. */
    {"along_x", "row", along_x_passes, along_x_launch, NULL, true, NULL},
    /* … with a row for each point, kept for all rows of the fields. */
    {"along_x_indexed", "along_x_indexed", along_x_indexed_passes, along_x_indexed_launch, NULL,
     false, NULL},
    /* float32 along y or z in rows of odd length: stores of whole sectors. */
    {"along_y_z_unaligned", "sectors", along_y_z_unaligned_passes, along_y_z_unaligned_launch, NULL,
     true, NULL},
    /* y or z alone: short windows, closures within. */
    {"along_y_z", "across", along_y_z_passes, along_y_z_launch, NULL, true, NULL},
    /* 3D: a column of planes with its sides in shared memory; through L1 it took twice the time. */
    {"streaming_3d", "column", streaming_3d_passes, streaming_3d_launch, NULL, false, NULL},
    /* … with a row for each index. */
    {"streaming_3d_indexed", "streaming_3d_indexed", streaming_3d_indexed_passes,
     streaming_3d_indexed_launch, NULL, false, NULL},
    /* 2D: rows in shared memory, each warp by itself; by coordinates, too. */
    {"streaming_2d", "streaming_2d", streaming_2d_passes, streaming_2d_launch, NULL, false, NULL},
    /* Diffusion in 2D is bound by memory by far: several steps for the bytes of one. */
    {"temporal_blocking_2d", "strip", temporal_blocking_2d_steps, NULL, temporal_blocking_2d_launch,
     true, NULL},
    /* Diffusion in 3D: the same, where overlaps do not cost more than it saves; or all of a step of
     * RK4. */
    {"temporal_blocking_3d", "stairs", temporal_blocking_3d_passes, NULL,
     temporal_blocking_3d_launch, true, temporal_blocking_3d_pay},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

/* Is a name one of a list with commas? */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static const struct family *find_family(const struct geometry *g, bool several)
{
    const char *listed = getenv("FDSERVER_KERNELS");
    const struct family *other = NULL;
    for (int i = 0; i < FAMILIES; i++) {
        const struct family *family = &families[i];
        if ((family->launch_several != NULL) != several || family->most(g) < (several ? 2u : 1u))
            continue;
        if (listed ? is_listed(listed, family->name) || is_listed(listed, family->alias)
                   : !family->pays || family->pays(g, family->most(g)))
            return family;
        if (!other && !several)
            other = family;
    }
    return other;
}

/* Elements from one array to another. */
static int64_t distance(const struct geometry *g, const void *from, const void *to)
{
    return ((intptr_t)to - (intptr_t)from) / (int64_t)plan_element_bytes(g->plan);
}

/* Where the jobs' arrays are, from the first one's. in, out: enum stage_array. */
static void place_jobs(struct geometry *g, const struct launch *const launches[], int in, int out)
{
    struct job_arrays *arrays = &g->arrays[0];
    for (unsigned i = 0; i < g->jobs; i++) {
        arrays->in[i] = distance(g, launch_array(launches[0], in), launch_array(launches[i], in));
        arrays->out[i] =
            distance(g, launch_array(launches[0], out), launch_array(launches[i], out));
        for (int a = AXIS_Y; a < AXIS_COUNT; a++) { /* of vectors, whose only pass it is */
            g->arrays[a].in[i] = distance(g, launches[0]->in[a], launches[i]->in[a]);
            g->arrays[a].out[i] = distance(g, launches[0]->even[a], launches[i]->even[a]);
        }
    }
}

/* out = in, of each job: of one, which may be large, by the driver. */
static cudaError_t copy_fields(const struct geometry *g, const void *in, void *out)
{
    const int64_t element = (int64_t)plan_element_bytes(g->plan);
    const uint64_t bytes = plan_array_bytes(g->plan);
    struct copies copies;
    if (g->jobs == 1)
        return cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, g->stream);
    static_assert(COPY_MOST >= PASSES_JOBS, "room for a copy of each");
    copies.count = g->jobs;
    for (unsigned i = 0; i < g->jobs; i++)
        copies.arrays[i] =
            (struct copy_arrays){.to = (char *)out + g->arrays[0].out[i] * element,
                                 .from = (const char *)in + g->arrays[0].in[i] * element,
                                 .bytes = bytes};
    return copy_launch(&copies, g->stream);
}

/* Leave all points to the boundary. */
static void no_interior(struct geometry *g)
{
    memcpy(g->low, g->begin, sizeof g->low);
    memcpy(g->high, g->begin, sizeof g->high);
    geometry_boundary(g);
}

/* Sets *whole where the boundary is computed, too. Families of all points are right there where the
 * plan is plain. */
static cudaError_t launch_interior(struct geometry *g, const struct table_pass *pass, bool *whole)
{
    const struct plan *plan = g->plan;
    if (!plan->inner && divergence_takes(g))
        return g->has_interior ? divergence_launch(g, pass) : cudaSuccess;
    if (!plan->inner && biharmonic_takes(g))
        return g->has_interior ? biharmonic_launch(g, pass) : cudaSuccess;
    if (!plan->inner && interior_takes(plan))
        return g->has_interior ? interior_launch(g, pass) : cudaSuccess;
    const bool is_scalar = plan->form == PLAN_SCALAR || !plan->axis[AXIS_Y].active;
    cudaError_t error = plan->inner ? cudaSuccess : cudaErrorInvalidConfiguration;
    if (plan->inner && is_scalar) { /* of a line, all are its derivative */
        const struct family *family = find_family(g, false);
        *whole = family && family->all_points && plan->plain;
        if (!family)
            error = cudaErrorInvalidConfiguration;
        else if (family->all_points || g->has_interior)
            error = family->launch(g, pass);
    } else if (plan->inner && g->has_interior) {
        error = vector_operators_launch(g, pass->in, pass->out);
    }
    if (error != cudaErrorInvalidConfiguration)
        return error;
    no_interior(g);
    return cudaSuccess;
}

/* One pass. */
static cudaError_t launch_pass(struct geometry *g, const struct table_pass *pass)
{
    bool whole = false;
    const cudaError_t error =
        pass->impose ? copy_fields(g, pass->in[0], pass->out[0]) : launch_interior(g, pass, &whole);
    if (error != cudaSuccess || whole || g->boundary.points == 0)
        return error;
    return g->plan->plain ? boundary_launch(g, pass) : rows_launch(g, pass);
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

/* A part of the only pass of a plain plan, or all of it. */
static cudaError_t launch_part(struct geometry *g, const struct launch *const launches[])
{
    const uint64_t offset = g->first * plan_element_bytes(g->plan);
    struct table_pass pass = launch_table_pass(launches[0], 0);
    for (int i = 0; i < AXIS_COUNT; i++) {
        pass.in[i] = pass.in[i] ? (const char *)pass.in[i] + offset : NULL;
        pass.out[i] = pass.out[i] ? (char *)pass.out[i] + offset : NULL;
    }
    place_jobs(g, launches, STAGE_IN, STAGE_EVEN);
    return launch_pass(g, &pass);
}

bool passes_take_own_planes(const struct plan *plan)
{
    struct geometry g;
    if (plan->engine != PLAN_TABLE || !plan->plain || plan->impose || plan->probes ||
        plan->batch > 1 || plan->inputs > 1 || plan->outputs > 1 || !plan->axis[AXIS_Z].active)
        return false;
    geometry_init(&g, plan, 0, plan->lines, 1, 0, 1, NULL);
    return plan->passes == 1 || temporal_blocking_3d_passes(&g) >= plan->passes;
}

/* Planes [begin, end) of a launch of own planes. */
static void init_planes(struct geometry *g, const struct launch *launch, uint64_t begin,
                        uint64_t end, int slot, int units, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const uint64_t lines = plan->lines / (uint64_t)plan->axis[AXIS_Z].n;
    geometry_init(g, plan, begin * lines, end * lines, 1, slot, units, stream);
}

static cudaError_t launch_planes(struct geometry *g, const struct launch *launch)
{
    const uint64_t passes = launch->plan->passes;
    const struct table_pass pass = launch_table_pass(launch, 0);
    if (passes > 1)
        return temporal_blocking_3d_launch(g, launch->in[0], launch->even[0], passes);
    return edges_take(g) ? edges_launch(g, &pass) : launch_part(g, &launch);
}

/* Do kernels take both at once, which are of as many planes? */
static bool take_apart(const struct geometry *low, const struct geometry *high)
{
    return low->points == high->points &&
           (low->plan->passes > 1 || (edges_take(low) && edges_take(high)));
}

/* The edges of own planes, from `low` and `high` on. */
static cudaError_t launch_edges(const struct launch *launch, uint64_t low, uint64_t high, int slot,
                                int units, cudaStream_t stream)
{
    const struct own_planes *own = &launch->own;
    struct geometry at_low, at_high;
    init_planes(&at_low, launch, own->begin, low, slot, units, stream);
    init_planes(&at_high, launch, high, own->end, slot, units, stream);
    if (take_apart(&at_low, &at_high)) {
        at_low.apart = (int64_t)(high - own->begin);
        return launch_planes(&at_low, launch);
    }
    const cudaError_t error = low > own->begin ? launch_planes(&at_low, launch) : cudaSuccess;
    return error == cudaSuccess && high < own->end ? launch_planes(&at_high, launch) : error;
}

cudaError_t passes_launch_own(const struct launch *launch, bool edges, int slot, int units,
                              cudaStream_t stream)
{
    const struct own_planes *own = &launch->own;
    const uint64_t low = own->begin + own->edge[SIDE_LOW], high = own->end - own->edge[SIDE_HIGH];
    struct geometry others;
    if (edges)
        return low > own->begin || high < own->end
                   ? launch_edges(launch, low, high, slot, units, stream)
                   : cudaSuccess;
    init_planes(&others, launch, low, high, slot, units, stream);
    return low < high ? launch_planes(&others, launch) : cudaSuccess;
}

/* Passes [pass, end) of whole fields. */
static cudaError_t launch_passes(struct geometry *g, const struct launch *const launches[],
                                 uint64_t pass, uint64_t end)
{
    const struct plan *plan = g->plan;
    /* Of several jobs each is so small that launches are what a step costs: they share them. */
    const struct family *several = plan->passes > 1 && g->jobs == 1 ? find_family(g, true) : NULL;
    const uint64_t most = several ? several->most(g) : 1;
    int in = pass == 0 ? STAGE_IN : pass % 2 == 1 ? STAGE_EVEN : STAGE_ODD;
    const int last = end % 2 == 1 ? STAGE_EVEN : STAGE_ODD;
    cudaError_t error = cudaSuccess;
    while (pass < end && error == cudaSuccess) {
        const int out = in == STAGE_EVEN ? STAGE_ODD : STAGE_EVEN;
        const struct table_pass one = {.in = {launch_array(launches[0], in)},
                                       .out = {launch_array(launches[0], out)},
                                       .impose = plan->impose && pass == 0};
        const uint64_t group = one.impose ? 1 : next_group(end - pass, most, out == last);
        place_jobs(g, launches, in, out);
        error = group == 1 ? launch_pass(g, &one)
                           : several->launch_several(g, one.in[0], one.out[0], group);
        in = out;
        pass += group;
    }
    return error;
}

/* Whole steps from pass `number` on, each of them at once: to and fro, and to where a step of
 * single passes has its result. */
static cudaError_t launch_steps(const struct geometry *g, const struct launch *launch,
                                const struct family *several, uint64_t number, uint64_t steps)
{
    const struct plan *plan = g->plan;
    const uint64_t passes = (uint64_t)plan->step_passes;
    void *const result = launch->even[0], *in = launch_array(launch, stage_of(plan, number).base);
    cudaError_t error = cudaSuccess;
    for (uint64_t left = steps; left > 0 && error == cudaSuccess; left--) {
        void *const out =
            in == result || (in != launch->odd && left % 2 == 0) ? launch->odd : result;
        error = several->launch_several(g, in, out, passes);
        in = out;
    }
    if (error == cudaSuccess && in != result)
        error = copy_fields(g, in, result);
    return error;
}

/* Whole passes of a plan that is not plain. */
static cudaError_t launch_table(struct geometry *g, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    const uint64_t end = launch->to / plan->lines, each = (uint64_t)plan->step_passes;
    const struct family *several = each > 1 && g->jobs == 1 ? find_family(g, true) : NULL;
    cudaError_t error = cudaSuccess;
    for (uint64_t number = launch->from / plan->lines; number < end && error == cudaSuccess;) {
        const struct table_pass pass = launch_table_pass(launch, number);
        const bool begins = several && !pass.impose && stage_of(plan, number).part == 0;
        const uint64_t steps = begins ? (end - number) / each : 0;
        error = steps > 0 ? launch_steps(g, launch, several, number, steps) : launch_pass(g, &pass);
        number += steps > 0 ? steps * each : 1;
    }
    return error;
}

/* All of it but probes. */
static cudaError_t launch_all(const struct launch *const launches[], unsigned jobs, int slot,
                              int units, cudaStream_t stream)
{
    const struct launch *launch = launches[0];
    const struct plan *plan = launch->plan;
    if (plan->engine == PLAN_MEASURE)
        return measure_launch(launch, stream);
    if (plan->engine == PLAN_STENCIL)
        return stencil_launch(launch, slot, units, stream);
    if (plan->engine == PLAN_ADI)
        return adi_launch(launch, slot, units, stream);
    const uint64_t first = launch->from % plan->lines, count = launch->to - launch->from;
    const bool is_part = count < plan->lines;
    struct geometry geometry;
    geometry_init(&geometry, plan, is_part ? first : 0, is_part ? first + count : plan->lines, jobs,
                  slot, units, stream);
    if (!plan->plain)
        return launch_table(&geometry, launch);
    return is_part || plan->passes == 1
               ? launch_part(&geometry, launches)
               : launch_passes(&geometry, launches, launch->from / plan->lines,
                               launch->to / plan->lines);
}

/* A launch of a plan with probes, pass by pass: their values are taken after each step. */
static cudaError_t launch_probed(const struct launch *launch, int slot, int units,
                                 cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    void *values = launch->operands->at[OPERAND_PROBES];
    struct launch part = *launch;
    const struct launch *const parts[] = {&part};
    cudaError_t error = cudaSuccess;
    if (launch->from == 0 && !plan->impose)
        error = probes_launch(plan, slot, launch->in[0], values, 0, stream);
    for (; part.from < launch->to && error == cudaSuccess; part.from = part.to) {
        const struct stage stage = stage_of(plan, part.from / plan->lines);
        part.to = part.from + plan->lines;
        error = launch_all(parts, 1, slot, units, stream);
        if (error == cudaSuccess && stage.steps_done >= 0)
            error = probes_launch(plan, slot, launch_array(launch, stage.write), values,
                                  (uint64_t)stage.steps_done, stream);
    }
    return error;
}

cudaError_t passes_launch(const struct launch *const launches[], unsigned jobs, int slot, int units,
                          cudaStream_t stream)
{
    return launches[0]->plan->probes ? launch_probed(launches[0], slot, units, stream)
                                     : launch_all(launches, jobs, slot, units, stream);
}
