/* Stencils of the user's own on the host: a launch is cut into boxes, which the pool's threads
 * share. */
#pragma once

#include "gpu/backend.h"
#include "gpu/host/kernels.h"
#include "numerics/stencil_plan.h"

enum { STENCIL_GHOSTS = 256 }; /* points of a line whose ghosts are worked out together */

/* A box of one field. In the interior it is read where the field is; elsewhere what it reads is
 * brought together in `room` first, plane by plane. */
struct stencil_box {
    const struct stencil_table *table;
    const void *in; /* the field */
    void *out;
    const void *const *operands; /* by enum operand */
    int64_t field;               /* its number in the batch */
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    void *room;  /* a thread's own, for any tile; NULL: there is none, points are evaluated one by
                    one */
    bool stream; /* write past the caches */
};

/* Compute the launch's lines, which are of one pass, whose stage this is. */
void stencil_pass(const struct kernels *kernels, const struct launch *launch,
                  const struct stage *stage, uint64_t stream_bytes);
