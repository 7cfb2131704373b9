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

/* All of the boundary for which there are kernels; *left: what is not. */
cudaError_t faces_launch(const struct geometry *g, const struct table_pass *pass,
                         struct boundary_rest *left);

__END_DECLS
