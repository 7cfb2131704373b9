/* Boxes of a pass, and how they are cut into tiles. */
#pragma once

#include "numerics/job.h"

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of at most so many each. */
static inline int64_t ceil_div(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* What is computed of a pass, and the tiles that it is cut into. */
struct grid {
    int64_t first_field, fields;
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    int64_t step[AXIS_COUNT];
    int64_t tiles[AXIS_COUNT];
    int64_t count; /* of all tiles of a field */
};

/* The box of whole fields, whole planes, or lines of a plane that lines [from, to) of a pass begin
 * with; a plane has `lines` of them, along y or, folded, along x. Returns its lines. */
int64_t grid_box(struct grid *grid, const int64_t n[AXIS_COUNT], int64_t lines, int64_t from,
                 int64_t to);
/* Its tiles, where the steps are chosen. */
void grid_count(struct grid *grid);
