#include "numerics/table.h"

#include <string.h>

struct table_row_f64 table_row(const struct table_header *table, const void *bytes,
                               const struct table_rows *rows, int64_t r)
{
    const bool is_f32 = table->dtype == DTYPE_F32;
    const uint64_t size = is_f32 ? sizeof(struct table_row_f32) : sizeof(struct table_row_f64);
    const char *at = (const char *)bytes + rows->at + (uint64_t)r * size;
    struct table_row_f64 wide;
    if (!is_f32) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    struct table_row_f32 narrow;
    memcpy(&narrow, at, sizeof narrow);
    wide = (struct table_row_f64){.count = narrow.count};
    for (int k = 0; k < narrow.count; k++)
        wide.w[k] = narrow.w[k];
    return wide;
}

int table_indexed_reach(const struct job *job)
{
    return (job_order(job) + job->accuracy) / 2;
}

/* Is the box a sum of rows about the point? */
static bool is_inner(const struct plan *plan)
{
    const struct table_header *header = table_of(plan);
    return !header->shift && (header->form == TABLE_FORM_SUM ||
                              (header->form == TABLE_FORM_PARTS && plan->form == PLAN_SCALAR));
}

/* Some loops read past the edge of a closure's side, so that there have to be as many points as
 * closures have. */
static bool is_simple(const struct plan *plan, const struct job *job)
{
    const struct table_header *header = table_of(plan);
    bool simple = job->operator_id <= OPERATOR_CURL && !header->shift && !header->source &&
                  !job->more.coefficient && job->more.scheme == SCHEME_EULER &&
                  job_order(job) >= 1 && job_order(job) <= 2 && job->accuracy <= 2 * PLAN_RADIUS;
    for (int a = 0; a < job->axes; a++)
        simple = simple && header->axis_of[a].high > header->axis_of[a].low &&
                 (!plan->axis[a].active ||
                  (header->axis_of[a].n >= PLAN_ROW_POINTS && !(job->more.coordinates >> a & 1)));
    return simple;
}

/* The map by which kernels of centred stencils do what the table does at both sides of an axis;
 * NONE: there is none such. */
static int inner_map(const struct table_axis *axis, int parity)
{
    const int low = axis->side[SIDE_LOW].map, high = axis->side[SIDE_HIGH].map;
    return low == SIDE_MAP_PERIODIC   ? SIDE_MAP_PERIODIC
           : low == SIDE_MAP_ENDPOINT ? SIDE_MAP_ENDPOINT
           : low == SIDE_MAP_NODE && high == SIDE_MAP_NODE && parity == PLAN_EVEN &&
                   axis->side[SIDE_LOW].datum == SIDE_DATUM_NONE &&
                   axis->side[SIDE_HIGH].datum == SIDE_DATUM_NONE
               ? SIDE_MAP_NODE
               : SIDE_MAP_NONE;
}

/* An axis of a plain plan: sides and closures as the table has them. */
static void plain_axis(int a, struct plan *plan)
{
    const struct table_header *header = table_of(plan);
    struct plan_axis *axis = &plan->axis[a];
    const struct table_rows *rows = &header->rows[0][a];
    for (int s = 0; s < SIDE_COUNT; s++) {
        struct side *side = &axis->side[s];
        *side = header->axis_of[a].side[s];
        side->rows = s == SIDE_LOW ? rows->low : rows->high;
        for (int d = 0; d < side->rows; d++) {
            const struct table_row_f64 row =
                table_row(header, header, rows, s == SIDE_LOW ? d : rows->low + d);
            axis->row_points = row.count;
            for (int k = 0; k < row.count; k++)
                axis->row[d][k] = s == SIDE_HIGH && plan->parity == PLAN_ODD ? -row.w[k] : row.w[k];
        }
    }
}

void table_to_plan(struct plan *plan, const struct job *job)
{
    const struct table_header *header = table_of(plan);
    plan->plain = job_is_plain(job);
    plan->simple = plan->plain || is_simple(plan, job);
    plan->inner = plan->simple || is_inner(plan);
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            plan->holds |= header->axis_of[a].side[s].held > 0;
            if (!plan->plain)
                plan->axis[a].side[s].apart =
                    (int32_t)(s == SIDE_LOW ? header->axis_of[a].low
                                            : header->axis_of[a].n - header->axis_of[a].high);
        }
    if (!plan->inner)
        return;
    plan->shared = header->shared;
    plan->identity = header->identity;
    memcpy(plan->centre, header->centre[0], sizeof plan->centre);
    for (int a = 0; a < job->axes; a++) {
        struct plan_axis *axis = &plan->axis[a];
        int map = inner_map(&header->axis_of[a], plan->parity);
        if (!axis->active)
            continue;
        const struct table_rows *rows = &header->rows[0][a];
        const struct table_row_f64 row = table_row(header, header, rows, rows->low + rows->high);
        if (job->more.coordinates >> a & 1) {
            plan->indexed |= 1 << a;
            map = map == SIDE_MAP_NODE ? SIDE_MAP_NONE : map;
        }
        const int reach = plan->indexed >> a & 1 ? table_indexed_reach(job) : row.count;
        plan->radius = reach > plan->radius ? reach : plan->radius;
        for (int m = 1; m <= row.count && plan->simple; m++)
            axis->c[m] = row.w[m - 1];
        if (plan->plain)
            plain_axis(a, plan);
        for (int s = 0; s < SIDE_COUNT && !plan->plain; s++) {
            axis->side[s].map = map;
            axis->side[s].rows = map == SIDE_MAP_NONE ? plan->radius : 0;
            axis->side[s].apart = map == SIDE_MAP_NONE ? axis->side[s].apart : 0;
        }
    }
}
