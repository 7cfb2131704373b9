/* Random user-defined stencils, and their expected results: numerics/stencil_point.h, point by
 * point and step by step. */
#pragma once

#include "tests/lib/sample.h"

/* Offsets and weights of a stencil: the job's stencil_points, stencil_radius and block. Aborts
 * without memory. */
void random_stencil_set(struct sample *stencil, const int32_t (*offsets)[AXIS_COUNT],
                        const double *weights, uint32_t points);

/* For a field of at most max_points points: boxes, stars and other shapes up to radius 8; every
 * boundary of a number below `kinds` on each side, numbers and arrays; thin axes, batches, both
 * types, 1 to 4 steps. */
void random_stencil(struct random *random, uint64_t max_points, uint32_t kinds,
                    struct sample *stencil);

/* A box or a star on a field in 3D that is large enough for its kernel to read a padding; the rest
 * is as above. */
void random_cube_stencil(struct random *random, struct sample *stencil);

/* A box of radius 4 in 2D or such a star in 3D, without its points on high sides, on a field of
 * which any axis may be short. */
void random_upwind_stencil(struct random *random, int axes, struct sample *stencil);

/* The result of all steps of the plan. Aborts without memory. */
void reference_stencil(const struct plan *plan, const struct operands *operands, const void *in,
                       void *out);
