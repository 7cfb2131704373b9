#include "numerics/stencil_plan.h"

#include "numerics/job_weights.h"

#include <string.h>

static void round_row(const struct weights_row *row, int dtype, double to[STENCIL_ROW])
{
    for (int k = 0; k < row->count; k++)
        to[k] = rounded(row->w[k], dtype);
}

/* The rows of a side that has ghosts: as far as the offsets reach, which may be further than its
 * axis is long. */
static void ghosts_init(struct stencil_ghosts *ghosts, const struct job *job, int a, int s)
{
    struct weights_axis axis;
    struct weights_row row;
    job_weights(job, a, NULL, &axis);
    const struct weights_side stated = axis.side[s];
    if (stated.kind == WEIGHTS_CONSTANT) {
        ghosts->free_points = 1; /* data beyond its own edge: as at the edge */
        for (int m = 0; m < job->more.stencil_radius[a]; m++)
            ghosts->data[m] = ghosts->free[m][0] = 1;
        return;
    }
    axis.side[!s] = (struct weights_side){.kind = WEIGHTS_HALO}; /* the row is that of one side */
    for (int m = 1; m <= job->more.stencil_radius[a]; m++) {
        axis.side[s] = stated;
        if (weights_ghost(&axis, job->accuracy, s, m, &row)) {
            round_row(&row, job->dtype, ghosts->ghost[m - 1]);
            ghosts->points = row.count;
            ghosts->data[m - 1] = rounded(row.data[s], job->dtype);
        }
        axis.side[s] = (struct weights_side){.kind = WEIGHTS_ONE_SIDED};
        if (weights_ghost(&axis, job->accuracy, s, m, &row)) {
            round_row(&row, job->dtype, ghosts->free[m - 1]);
            ghosts->free_points = row.count;
        }
    }
    axis.side[s] = stated;
    if (weights_face(&axis, job_face_order(job), job->accuracy, s, &row)) {
        round_row(&row, job->dtype, ghosts->face);
        ghosts->face_data = rounded(row.data[s], job->dtype);
    }
}

static void stencil_side_init(struct stencil_table *table, const struct job *job, int a, int s)
{
    struct side *side = &table->axis[a].side[s];
    *side = side_of(job, a, s);
    if (side->map == SIDE_MAP_GHOST)
        ghosts_init(&table->axis[a].ghosts[s], job, a, s);
    table->held |= side->held > 0;
    table->imposes |= side->held && !side->halo;
}

/* Points whose reads along the axis are all of values that the field has. */
static void interior_init(struct stencil_axis *axis)
{
    int64_t *const apart = axis->apart;
    apart[SIDE_LOW] = axis->below;
    apart[SIDE_HIGH] = axis->above;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct side *side = &axis->side[s];
        if (side->held && !side->halo)
            apart[s] += side->held;
        else if (side->held > apart[s])
            apart[s] = side->held;
    }
    axis->low = apart[SIDE_LOW] < axis->n ? apart[SIDE_LOW] : axis->n;
    axis->high = axis->n - apart[SIDE_HIGH] > axis->low ? axis->n - apart[SIDE_HIGH] : axis->low;
}

bool stencil_make(struct plan *plan, const struct job *job, const void *block)
{
    const uint64_t points = job->more.stencil_points;
    const double *weights = job_block_at(job, block, BLOCK_WEIGHTS);
    plan->table =
        plan_table_new(sizeof(struct stencil_table) +
                       points * (sizeof(struct stencil_tap) + sizeof(struct stencil_offset)));
    if (!plan->table)
        return false;
    struct stencil_table *table = plan_table_rows(plan->table);
    table->points = (int32_t)points;
    table->field_points = plan->points;
    struct stencil_tap *taps = (struct stencil_tap *)(table + 1);
    struct stencil_offset *given = (struct stencil_offset *)(taps + points);
    memcpy(given, job_block_at(job, block, BLOCK_OFFSETS), points * sizeof *given);
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct stencil_axis *axis = &table->axis[a];
        axis->n = (int64_t)job->n[a];
        axis->stride = plan->axis[a].stride;
        axis->face_points = (int64_t)table->field_points / axis->n;
        if (job->more.stencil_radius[a] > plan->radius)
            plan->radius = job->more.stencil_radius[a];
        for (uint64_t k = 0; k < points; k++) {
            const int32_t offset = given[k].at[a];
            taps[k].step += offset * axis->stride;
            axis->below = -offset > axis->below ? -offset : axis->below;
            axis->above = offset > axis->above ? offset : axis->above;
        }
        for (int s = 0; s < SIDE_COUNT; s++)
            stencil_side_init(table, job, a, s);
        interior_init(axis);
    }
    for (uint64_t k = 0; k < points; k++)
        if (job->dtype == DTYPE_F32)
            taps[k].weight.f32 = (float)weights[k];
        else
            taps[k].weight.f64 = weights[k];
    return true;
}
