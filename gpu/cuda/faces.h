/* Faces: points next to one side of a uniform axis with closures, centred along the other axes, of
 * all that is a sum of derivatives along axes (faces.cu). */
#pragma once

#include "gpu/cuda/families.h"

__BEGIN_DECLS

/* What is left of a boundary around a box in each of its own, as boundary_find() needs it. */
struct boundary_rest {
    int64_t begin[5 * BOUNDARY_BOXES][AXIS_COUNT], size[5 * BOUNDARY_BOXES][AXIS_COUNT];
    int64_t end[5 * BOUNDARY_BOXES]; /* points in this box and those before it */
    int32_t axis[5 * BOUNDARY_BOXES], side[5 * BOUNDARY_BOXES];
    int64_t points, batch;
    int32_t boxes, slot;
};

/* None of it, … */
static inline void clear_boxes(const struct geometry *g, struct boundary_rest *left)
{
    left->boxes = 0;
    left->points = 0;
    left->batch = g->boundary.batch;
    left->slot = g->slot;
}

/* … where a box of a boundary lies, … */
static inline void box_of(const int64_t from[AXIS_COUNT], const int64_t size[AXIS_COUNT],
                          int64_t begin[AXIS_COUNT], int64_t end[AXIS_COUNT])
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        begin[a] = from[a];
        end[a] = from[a] + size[a];
    }
}

/* … and a box [begin, end) more, which may be empty. */
static inline void keep_box(struct boundary_rest *left, int axis, int side,
                            const int64_t begin[AXIS_COUNT], const int64_t end[AXIS_COUNT])
{
    const int box = left->boxes;
    int64_t points = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        left->begin[box][a] = begin[a];
        left->size[box][a] = end[a] - begin[a];
        points *= end[a] > begin[a] ? end[a] - begin[a] : 0;
    }
    if (points == 0)
        return;
    left->axis[box] = axis;
    left->side[box] = side;
    left->points += points;
    left->end[left->boxes++] = left->points;
}

/* All of the boundary for which there are kernels; *left: what is not. */
cudaError_t faces_launch(const struct geometry *g, const struct table_pass *pass,
                         struct boundary_rest *left);

__END_DECLS
