#include "gpu/plan.h"

#include "gpu/measure.h"
#include "gpu/stencil_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* C_1 … C_4 of the central stencils as rationals, by accuracy / 2 − 1. */
struct rational {
    int16_t over, under;
};

static const struct rational first[PLAN_RADIUS][PLAN_RADIUS] = {
    {{1, 2}},
    {{2, 3}, {-1, 12}},
    {{3, 4}, {-3, 20}, {1, 60}},
    {{4, 5}, {-1, 5}, {4, 105}, {-1, 280}},
};

static const struct rational second[PLAN_RADIUS][PLAN_RADIUS] = {
    {{1, 1}},
    {{4, 3}, {-1, 12}},
    {{3, 2}, {-3, 20}, {1, 90}},
    {{8, 5}, {-1, 5}, {8, 315}, {-1, 560}},
};

static const struct rational second_centre[PLAN_RADIUS] = {{-2, 1}, {-5, 2}, {-49, 18}, {-205, 72}};

static plan_real real(struct rational r)
{
    return (plan_real)r.over / (plan_real)r.under;
}

/* The only rounding: from 113 bits straight to the field's type. */
static double rounded(plan_real value, int dtype)
{
    return dtype == DTYPE_F32 ? (double)(float)value : (double)value;
}

void plan_fornberg(int order, int count, const int *offsets, plan_real *weights)
{
    plan_real w[PLAN_ROW_POINTS][PLAN_ROW_POINTS] = {{1}}; /* [point][derivative] */
    plan_real c1 = 1, c4 = offsets[0];
    for (int i = 1; i < count; i++) {
        const int highest = i < order ? i : order;
        const plan_real c5 = c4;
        plan_real c2 = 1;
        c4 = offsets[i];
        for (int j = 0; j < i; j++) {
            const plan_real c3 = offsets[i] - offsets[j];
            c2 *= c3;
            if (j == i - 1) {
                for (int k = highest; k > 0; k--)
                    w[i][k] = c1 * (k * w[j][k - 1] - c5 * w[j][k]) / c2;
                w[i][0] = -c1 * c5 * w[j][0] / c2;
            }
            for (int k = highest; k > 0; k--)
                w[j][k] = (c4 * w[j][k] - k * w[j][k - 1]) / c3;
            w[j][0] = c4 * w[j][0] / c3;
        }
        c1 = c2;
    }
    for (int i = 0; i < count; i++)
        weights[i] = w[i][order];
}

/* One closure: the derivative at distance `at` from the edge from row_points points from `start`
 * on. */
static void closure_init(struct plan_axis *axis, int row, int start, int order, plan_real scale,
                         int dtype)
{
    int offsets[PLAN_ROW_POINTS] = {0};
    plan_real weights[PLAN_ROW_POINTS];
    for (int k = 0; k < axis->row_points; k++)
        offsets[k] = start + k - row;
    plan_fornberg(order, axis->row_points, offsets, weights);
    axis->start[row] = start;
    for (int k = 0; k < axis->row_points; k++)
        axis->row[row][k] = rounded(weights[k] * scale, dtype);
}

static void side_init(struct plan *plan, struct plan_axis *axis, enum side s,
                      const struct boundary *boundary, int order, int accuracy, plan_real scale)
{
    struct plan_side *side = &axis->side[s];
    switch ((enum boundary_kind)boundary->kind) {
    case BOUNDARY_PERIODIC:
        side->map = PLAN_MAP_PERIODIC;
        break;
    case BOUNDARY_ENDPOINT:
        side->map = PLAN_MAP_ENDPOINT;
        break;
    case BOUNDARY_DERIVATIVE:
        side->map = PLAN_MAP_REFLECT;
        break;
    case BOUNDARY_ONE_SIDED:
        side->rows = plan->radius;
        axis->row_points = order + accuracy;
        for (int d = 0; d < plan->radius; d++)
            closure_init(axis, d, d, order, scale, plan->dtype);
        break;
    case BOUNDARY_VALUE: /* row 0 is never asked for: its point is claimed */
        side->rows = plan->radius;
        axis->row_points = accuracy + 2;
        for (int d = 1; d < plan->radius; d++)
            closure_init(axis, d, 0, order, scale, plan->dtype);
        side->claim = 1;
        side->claim_value = rounded(boundary->value, plan->dtype);
        break;
    case BOUNDARY_HALO:
        side->claim = plan->radius;
        side->claim_scales = 1;
        side->claim_value = rounded(boundary->value, plan->dtype);
        break;
    default: /* no plain plan has it */
        break;
    }
    plan->claims |= side->claim > 0;
}

static bool stencil_init(struct plan *plan, const struct job *job, const void *block)
{
    plan->engine = PLAN_STENCIL;
    plan->radius = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (job->more.stencil_radius[a] > plan->radius)
            plan->radius = job->more.stencil_radius[a];
    plan->table = stencil_table_new(job, block);
    return plan->table != NULL;
}

bool plan_init(struct plan *plan, const struct job *job, const void *block)
{
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    const bool derivative = job->operator_id == OPERATOR_DERIVATIVE;
    const int order = job_order(job);
    const int stencil = job->accuracy / 2 - 1;

    memset(plan, 0, sizeof *plan);
    plan->parity = order == 1 ? PLAN_ODD : PLAN_EVEN;
    plan->radius = job_radius(job);
    plan->identity = diffusion;
    plan->dtype = job->dtype;
    plan->form = job->operator_id == OPERATOR_GRADIENT     ? PLAN_GRADIENT
                 : job->operator_id == OPERATOR_DIVERGENCE ? PLAN_DIVERGENCE
                 : job->operator_id == OPERATOR_CURL       ? PLAN_CURL
                                                           : PLAN_SCALAR;
    plan->inputs = job_inputs(job);
    plan->outputs = job_outputs(job);
    plan->batch = job->batch;
    plan->lines = job->n[AXIS_Y] * job->n[AXIS_Z] * job->batch;
    plan->points = job->n[AXIS_X] * job->n[AXIS_Y] * job->n[AXIS_Z];
    plan->passes = job_passes(job);
    plan->scheme = job->more.scheme;
    plan->step_passes = (int32_t)job_step_passes(job);
    plan->impose = plan->passes > job->steps * job_step_passes(job);

    plan_real centre[AXIS_COUNT] = {0};
    int64_t stride = 1;
    const struct plan_axis *shared = NULL;
    plan->shared = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct plan_axis *axis = &plan->axis[a];
        axis->n = (int64_t)job->n[a];
        axis->stride = stride;
        stride *= axis->n;
        axis->active = derivative ? a == job->axis : a < job->axes;
        if (!axis->active || job->operator_id == OPERATOR_STENCIL)
            continue;
        const plan_real h = job->spacing[a];
        plan_real scale = order == 1 ? 1 / h : 1 / (h * h);
        if (diffusion)
            scale = (plan_real)job->diffusivity[a] * (plan_real)job->dt / (h * h);
        for (int m = 1; m <= plan->radius; m++) {
            const struct rational *c = order == 1 ? first[stencil] : second[stencil];
            axis->c[m] = rounded(real(c[m - 1]) * scale, plan->dtype);
        }
        if (order == 2)
            centre[a] = real(second_centre[stencil]) * scale;
        for (int s = 0; s < SIDE_COUNT; s++)
            side_init(plan, axis, s, &job->boundary[a][s], order, job->accuracy, scale);
        if (!shared)
            shared = axis;
        for (int m = 1; m <= plan->radius; m++)
            plan->shared &= axis->c[m] == shared->c[m];
    }
    if (job->operator_id == OPERATOR_STENCIL)
        return stencil_init(plan, job, block);
    plan->shared &= plan->parity == PLAN_EVEN && shared;
    for (int set = 0; set < 1 << AXIS_COUNT && plan->parity == PLAN_EVEN; set++) {
        plan_real sum = plan->identity;
        for (int a = 0; a < AXIS_COUNT; a++)
            sum += set >> a & 1 ? centre[a] : 0;
        plan->centre[set] = rounded(sum, plan->dtype);
    }
    return true;
}

struct plan_table *plan_table_new(uint64_t bytes)
{
    static_assert(sizeof(struct plan_table) <= PLAN_TABLE_ALIGN, "before the bytes");
    static _Atomic uint64_t serial;
    const uint64_t align = PLAN_TABLE_ALIGN;
    const uint64_t all = align + (bytes + align - 1) / align * align;
    struct plan_table *table = aligned_alloc(align, all);
    if (!table)
        return NULL;
    memset(table, 0, all);
    table->serial = ++serial;
    table->users = 1;
    table->bytes = bytes;
    return table;
}

void *plan_table_rows(const struct plan_table *table)
{
    return (char *)(uintptr_t)table + PLAN_TABLE_ALIGN;
}

void plan_init_measure(struct plan *plan, enum dtype dtype, uint64_t points, bool of_two)
{
    memset(plan, 0, sizeof *plan);
    plan->engine = PLAN_MEASURE;
    plan->dtype = dtype;
    plan->inputs = of_two ? 2 : 1;
    plan->outputs = 1;
    plan->batch = 1;
    plan->points = points;
    plan->lines = measure_blocks(points);
    plan->passes = 1;
}

void plan_copy(struct plan *plan, const struct plan *from)
{
    *plan = *from;
    if (plan->table)
        plan->table->users++;
}

void plan_release(struct plan *plan)
{
    if (plan->table && --plan->table->users == 0)
        free(plan->table);
    plan->table = NULL;
}

uint64_t plan_element_bytes(const struct plan *plan)
{
    return plan->dtype == DTYPE_F32 ? 4 : 8;
}

uint64_t plan_array_bytes(const struct plan *plan)
{
    return plan->points * plan->batch * plan_element_bytes(plan);
}
