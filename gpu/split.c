#include "gpu/split.h"

enum {
    GRAIN = 4,         /* units: rows in a closure */
    ALIGNED_POINTS = 4 /* that arrays and their parts are aligned to */
};

/* The furthest that a point looks along the axis, by its stencil or a closure. */
static uint64_t reach_of(const struct plan *plan, const struct plan_axis *axis)
{
    return (uint64_t)(axis->row_points > plan->radius ? axis->row_points : plan->radius);
}

struct split split_of(const struct plan *plan)
{
    struct split split = {.axis = AXIS_Z, .grain = GRAIN};
    while (split.axis > AXIS_X && plan->axis[split.axis].n == 1)
        split.axis--;
    if (!plan->axis[AXIS_Z].active && !plan->axis[AXIS_Y].active && split.axis == AXIS_Z)
        split.axis = AXIS_Y;
    const struct plan_axis *axis = &plan->axis[split.axis];
    const uint64_t lines = plan->lines / plan->batch;
    if (split.axis == AXIS_X || !axis->active) {
        split.unit_lines = split.axis == AXIS_Z   ? lines / (uint64_t)axis->n
                           : split.axis == AXIS_Y ? 1
                                                  : lines;
        split.units = plan->lines / split.unit_lines;
        split.fields = 1;
        if (split.unit_lines * (uint64_t)plan->axis[AXIS_X].n % ALIGNED_POINTS == 0)
            split.grain = 1;
        return split;
    }
    split.unit_lines = lines / (uint64_t)axis->n;
    split.units = (uint64_t)axis->n;
    split.fields = plan->batch;
    split.reach = reach_of(plan, axis);
    for (int side = 0; side < SIDE_COUNT; side++)
        split.wraps |=
            axis->side[side].map == SIDE_MAP_PERIODIC || axis->side[side].map == SIDE_MAP_ENDPOINT;
    split.reach += split.wraps; /* ENDPOINT: the last point is a repeat of the first */
    return split;
}
