#include "gpu/cuda/geometry.h"

#include "gpu/split.h"
#include "numerics/table.h"

#include <string.h>

static int64_t between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Has the axis coordinates, and are the rows next to that side closures of points alone, which can
 * be read where they lie? Along x kernels compute them of lines alone. */
static bool closes_by_points(const struct plan *plan, int a, int s)
{
    const int active =
        plan->axis[AXIS_X].active + plan->axis[AXIS_Y].active + plan->axis[AXIS_Z].active;
    if (!(plan->indexed >> a & 1) || active == 2 || (active == 3 && a == AXIS_X))
        return false;
    const struct table_header *header = table_of(plan);
    const struct table_axis *axis = &header->axis_of[a];
    const struct side *side = &axis->side[s];
    const bool imposed = s == SIDE_LOW ? axis->first > 0 : axis->last < axis->n - 1;
    /* In a shorter axis rows may be the other side's. */
    return side->map == SIDE_MAP_NONE && side->datum == SIDE_DATUM_NONE && !side->halo &&
           !imposed && axis->n >= 4 * plan->radius;
}

/* The points next to a side that are not in the interior. */
static int64_t boundary_points(const struct plan *plan, int a, int s)
{
    const struct side *side = &plan->axis[a].side[s];
    const int32_t apart = side->rows > side->held ? side->rows : side->held;
    if (closes_by_points(plan, a, s))
        return table_of(plan)->axis_of[a].side[s].held;
    return apart > side->apart ? apart : side->apart;
}

/* Set begin and end, and the plan of the part. */
static void choose_part(struct geometry *g, const struct plan *plan, uint64_t from, uint64_t to)
{
    const struct split split = split_of(plan);
    const uint64_t field = plan->lines / plan->batch;
    struct plan_axis *axis = &g->part.axis[split.axis];
    g->plan = &g->part;
    g->part = *plan;
    g->first = from * (uint64_t)plan->axis[AXIS_X].n;
    g->points = (to - from) * (uint64_t)plan->axis[AXIS_X].n;
    if (from % field == 0 && to % field == 0) {
        g->part.batch = (to - from) / field;
    } else if (split.reach == 0) { /* units of one field and the next alike */
        g->part.batch = 1;
        g->part.points = g->points;
        axis->n = (int64_t)((to - from) / split.unit_lines);
        for (int a = split.axis + 1; a < AXIS_COUNT; a++) {
            g->part.axis[a].n = 1;
            g->part.axis[a].stride = (int64_t)g->points;
        }
    } else {
        g->part.batch = 1;
        g->first -= from % field * (uint64_t)plan->axis[AXIS_X].n;
    }
    g->part.lines = to - from;
    for (int a = 0; a < AXIS_COUNT; a++)
        g->end[a] = g->part.axis[a].n;
    if (g->part.points * g->part.batch != g->points) {
        g->begin[split.axis] = (int64_t)(from % field / split.unit_lines);
        g->end[split.axis] = g->begin[split.axis] + (int64_t)((to - from) / split.unit_lines);
    }
}

void geometry_init(struct geometry *g, const struct plan *whole, uint64_t from, uint64_t to,
                   unsigned jobs, int slot, int units, cudaStream_t stream)
{
    memset(g, 0, sizeof *g);
    g->slot = slot;
    g->jobs = jobs;
    g->units = units / (int)jobs > 1 ? units / (int)jobs : 1;
    g->stream = stream;
    choose_part(g, whole, from, to);
    const struct plan *plan = g->plan;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        g->low[a] = between(boundary_points(plan, a, SIDE_LOW), g->begin[a], g->end[a]);
        g->high[a] = between(axis->n - boundary_points(plan, a, SIDE_HIGH), g->low[a], g->end[a]);
    }
    geometry_boundary(g);
}

void geometry_boundary(struct geometry *g)
{
    const struct plan *plan = g->plan;
    struct boundary_shape *boundary = &g->boundary;
    memset(boundary, 0, sizeof *boundary);
    boundary->slot = g->slot;
    boundary->batch = (int64_t)plan->batch;
    g->has_interior = true;
    for (int a = 0; a < AXIS_COUNT; a++)
        g->has_interior &= g->high[a] > g->low[a];
    /* x: whole planes; y: what is left of the rows; z: what is left of the columns. */
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int side = 0; side < SIDE_COUNT; side++) {
            const int64_t begin = side == SIDE_LOW ? g->begin[a] : g->high[a];
            const int64_t end = side == SIDE_LOW ? g->low[a] : g->end[a];
            int64_t points = 1;
            const int box = boundary->boxes;
            for (int b = 0; b < AXIS_COUNT; b++) {
                boundary->begin[box][b] = b == a ? begin : b < a ? g->low[b] : g->begin[b];
                boundary->size[box][b] = (b == a  ? end
                                          : b < a ? g->high[b]
                                                  : g->end[b]) -
                                         boundary->begin[box][b];
                points *= boundary->size[box][b];
            }
            boundary->axis[box] = a;
            boundary->side[box] = side;
            if (points > 0) {
                boundary->points += points;
                boundary->end[box] = boundary->points;
                boundary->boxes++;
            }
        }
    }
}
