#include "gpu/host/cut.h"

int64_t grid_box(struct grid *grid, const int64_t n[AXIS_COUNT], int64_t lines, int64_t from,
                 int64_t to)
{
    const int64_t field_lines = lines * n[AXIS_Z], first = from % field_lines;
    const int64_t left = smaller(to - from, field_lines - first);
    *grid = (struct grid){.first_field = from / field_lines, .fields = 1};
    for (int a = 0; a < AXIS_COUNT; a++)
        grid->end[a] = n[a];
    if (left == field_lines) {
        grid->fields = (to - from) / field_lines;
        return grid->fields * field_lines;
    }
    grid->begin[AXIS_Z] = first / lines;
    if (first % lines == 0 && left >= lines) {
        grid->end[AXIS_Z] = grid->begin[AXIS_Z] + left / lines;
        return left / lines * lines;
    }
    const int64_t count = smaller(left, lines - first % lines);
    const int cut = n[AXIS_Y] == lines ? AXIS_Y : AXIS_X;
    const int64_t unit = n[cut] / lines;
    grid->end[AXIS_Z] = grid->begin[AXIS_Z] + 1;
    grid->begin[cut] = first % lines * unit;
    grid->end[cut] = grid->begin[cut] + count * unit;
    return count;
}

void grid_count(struct grid *grid)
{
    grid->count = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        grid->tiles[a] = ceil_div(grid->end[a] - grid->begin[a], grid->step[a]);
        grid->count *= grid->tiles[a];
    }
}
