/* Faces: points next to one side of a uniform axis with closures, centred along the other axes, of
 * all that is a sum of derivatives along axes (faces.cu). */
#pragma once

#include "gpu/cuda/grid.cuh"

/* What is left of a boundary around a box in each of its own, as boundary_find() needs it. */
struct boundary_rest {
    int64_t begin[5 * BOUNDARY_BOXES][AXIS_COUNT], size[5 * BOUNDARY_BOXES][AXIS_COUNT];
    int64_t end[5 * BOUNDARY_BOXES]; /* points in this box and those before it */
    int32_t axis[5 * BOUNDARY_BOXES], side[5 * BOUNDARY_BOXES];
    int64_t points, batch;
    int32_t boxes, slot;
};

/* The boxes of a boundary, one after another: of what take(axis, side, begin, end, low, high) of a
 * box [begin, end) does not take, all is left; else what lies around the [low, high) that it takes.
 */
template <class Boundary, class Take>
static void divide_boundary(const Boundary &boundary, struct boundary_rest *left, const Take &take)
{
    left->boxes = 0;
    left->points = 0;
    left->batch = boundary.batch;
    left->slot = boundary.slot;
    for (int box = 0; box < boundary.boxes; box++) {
        int64_t begin[AXIS_COUNT], end[AXIS_COUNT], low[AXIS_COUNT], high[AXIS_COUNT];
        const int axis = boundary.axis[box], side = boundary.side[box];
        auto keep = [&](const int64_t *from, const int64_t *to) {
            const int64_t size[] = {to[AXIS_X] - from[AXIS_X], to[AXIS_Y] - from[AXIS_Y],
                                    to[AXIS_Z] - from[AXIS_Z]};
            if (size[AXIS_X] <= 0 || size[AXIS_Y] <= 0 || size[AXIS_Z] <= 0)
                return;
            const int last = left->boxes++;
            memcpy(left->begin[last], from, sizeof begin);
            memcpy(left->size[last], size, sizeof size);
            left->axis[last] = axis;
            left->side[last] = side;
            left->points += size[AXIS_X] * size[AXIS_Y] * size[AXIS_Z];
            left->end[last] = left->points;
        };
        for (int a = 0; a < AXIS_COUNT; a++) {
            begin[a] = boundary.begin[box][a];
            end[a] = begin[a] + boundary.size[box][a];
        }
        if (take(axis, side, begin, end, low, high))
            cut_around(begin, end, low, high, keep);
        else
            keep(begin, end);
    }
}

/* All of the boundary for which there are kernels; *left: what is not. */
cudaError_t faces_launch(const struct geometry *g, const struct table_pass *pass,
                         struct boundary_rest *left);
