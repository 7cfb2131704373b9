#include "numerics/stencil_plan.h"

#include "numerics/rounded.h"
#include "numerics/weights.h"

#include <stdbool.h>
#include <string.h>

/* A side whose number is 0 everywhere and whose first derivative alone it states is a mirror. */
static bool is_mirror(const struct boundary *boundary)
{
    return boundary->kind == BOUNDARY_DERIVATIVE && boundary->value == 0 &&
           boundary->value_array == NUMBER_CONSTANT;
}

static enum side_map map_of(const struct boundary *boundary)
{
    switch ((enum boundary_kind)boundary->kind) {
    case BOUNDARY_PERIODIC:
        return SIDE_MAP_PERIODIC;
    case BOUNDARY_ENDPOINT:
        return SIDE_MAP_ENDPOINT;
    case BOUNDARY_SYMMETRIC:
        return SIDE_MAP_FACE;
    case BOUNDARY_MIRROR:
        return SIDE_MAP_NODE;
    case BOUNDARY_ANTISYMMETRIC:
        return SIDE_MAP_ANTISYMMETRIC;
    case BOUNDARY_HALO:
        return SIDE_MAP_NONE;
    default:
        if (is_mirror(boundary))
            return boundary->at_face ? SIDE_MAP_FACE : SIDE_MAP_NODE;
        return SIDE_MAP_GHOST;
    }
}

static enum rows_kind rows_kind_of(const struct boundary *boundary)
{
    switch ((enum boundary_kind)boundary->kind) {
    case BOUNDARY_VALUE:
        return ROWS_VALUE;
    case BOUNDARY_DERIVATIVE:
    case BOUNDARY_MIXED:
        return ROWS_DERIVATIVE;
    case BOUNDARY_CURVATURE:
        return ROWS_CURVATURE;
    default:
        return ROWS_ONE_SIDED;
    }
}

static enum stencil_datum datum_of(const struct boundary *boundary)
{
    if (boundary->kind == BOUNDARY_MIXED)
        return boundary->at_face ? STENCIL_DATUM_MIXED_FACE : STENCIL_DATUM_MIXED_NODE;
    return boundary->kind == BOUNDARY_DERIVATIVE || boundary->kind == BOUNDARY_CURVATURE ||
                   (boundary->kind == BOUNDARY_VALUE && boundary->at_face)
               ? STENCIL_DATUM_NUMBER
               : STENCIL_DATUM_NONE;
}

static void round_row(const struct rows_row *row, int dtype, double to[STENCIL_ROW])
{
    for (int k = 0; k < row->count; k++)
        to[k] = rounded(row->w[k], dtype);
}

/* The rows of a side that has ghosts: as far as the offsets reach, which may be further than its
 * axis is long. */
static void side_rows(struct stencil_side *side, const struct job *job, int a, int s, int reach)
{
    const struct boundary *boundary = &job->boundary[a][s];
    struct rows_axis axis = {.n = (int64_t)job->n[a], .spacing = job->spacing[a]};
    struct rows_row row;
    axis.side[!s].kind = ROWS_HALO; /* the row is that of one side */
    for (int m = 1; m <= reach; m++) {
        axis.side[s].kind = (uint8_t)rows_kind_of(boundary);
        axis.side[s].at_face = boundary->at_face;
        if (rows_ghost(&axis, job->accuracy, s, m, &row)) {
            round_row(&row, job->dtype, side->ghost[m - 1]);
            side->points = row.count;
            side->data[m - 1] = rounded(row.data[s], job->dtype);
        }
        axis.side[s] = (struct rows_side){.kind = ROWS_ONE_SIDED};
        if (rows_ghost(&axis, job->accuracy, s, m, &row)) {
            round_row(&row, job->dtype, side->free[m - 1]);
            side->free_points = row.count;
        }
    }
    axis.side[s].kind = ROWS_DERIVATIVE;
    axis.side[s].at_face = 1;
    if (side->datum == STENCIL_DATUM_MIXED_FACE && rows_face(&axis, 0, job->accuracy, s, &row)) {
        round_row(&row, job->dtype, side->face);
        side->face_data = rounded(row.data[s], job->dtype);
    }
}

static void stencil_side_init(struct stencil_table *table, const struct job *job, int a, int s)
{
    const struct boundary *boundary = &job->boundary[a][s];
    struct stencil_side *side = &table->axis[a].side[s];
    const int radius = job->more.stencil_radius[a];
    const bool holds = boundary_is_held(boundary);
    side->map = map_of(boundary);
    side->datum = datum_of(boundary);
    side->value_array = boundary->value_array;
    side->constant_array = boundary->constant_array;
    side->value = rounded(boundary->value, job->dtype);
    side->constant = rounded(job->more.constant[a][s], job->dtype);
    side->claim = holds ? 1 : boundary->kind == BOUNDARY_HALO ? radius : 0;
    side->claim_scales = boundary->kind == BOUNDARY_HALO;
    if (side->map == SIDE_MAP_GHOST)
        side_rows(side, job, a, s, radius);
    table->claims |= side->claim > 0;
    table->holds |= holds;
}

/* Points whose reads along the axis are all of values that the field has. */
static void interior_init(struct stencil_axis *axis)
{
    int64_t apart[SIDE_COUNT] = {axis->below, axis->above};
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct stencil_side *side = &axis->side[s];
        if (side->claim && !side->claim_scales)
            apart[s] += side->claim;
        else if (side->claim > apart[s])
            apart[s] = side->claim;
    }
    axis->low = apart[SIDE_LOW] < axis->n ? apart[SIDE_LOW] : axis->n;
    axis->high = axis->n - apart[SIDE_HIGH] > axis->low ? axis->n - apart[SIDE_HIGH] : axis->low;
}

struct plan_table *stencil_table_new(const struct job *job, const void *block)
{
    const uint64_t points = job->more.stencil_points;
    const char *bytes = block;
    const char *offsets = bytes + job_block_part(job, BLOCK_OFFSETS);
    const char *weights = bytes + job_block_part(job, BLOCK_WEIGHTS);
    struct plan_table *made =
        plan_table_new(sizeof(struct stencil_table) +
                       points * (sizeof(struct stencil_tap) + sizeof(struct stencil_offset)));
    if (!made)
        return NULL;
    struct stencil_table *table = plan_table_rows(made);
    table->points = (int32_t)points;
    table->field_points = job->n[AXIS_X] * job->n[AXIS_Y] * job->n[AXIS_Z];
    struct stencil_tap *taps = (struct stencil_tap *)(table + 1);
    struct stencil_offset *given = (struct stencil_offset *)(taps + points);
    memcpy(given, offsets, points * sizeof *given);
    int64_t stride = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct stencil_axis *axis = &table->axis[a];
        axis->n = (int64_t)job->n[a];
        axis->stride = stride;
        axis->face_points = (int64_t)table->field_points / axis->n;
        stride *= axis->n;
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
    for (uint64_t k = 0; k < points; k++) {
        double weight;
        memcpy(&weight, weights + k * sizeof weight, sizeof weight);
        if (job->dtype == DTYPE_F32)
            taps[k].weight.f32 = (float)weight;
        else
            taps[k].weight.f64 = weight;
    }
    return made;
}
