/* Plans of the engine PLAN_ADI on a device: the stages of numerics/stage.h, fused where they can
 * be.
 */
#pragma once

#include "gpu/backend.h"
#include "numerics/adi.h"
#include "numerics/stage.h"

#include <cuda_runtime_api.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

/* The launch's passes, whole; the slot holds the plan. units: multiprocessors. */
cudaError_t adi_launch(const struct launch *launch, int slot, int units, cudaStream_t stream);

/* A solve of all lines along an axis, with the stages about it where they are fused. */
struct adi_lines {
    int axis, slot, units;
    const void *read; /* what the lines are to be; their rate along the axis (rated): u */
    void *write;      /* the solutions, read where they are not `rated`; base + these, or */
    const void *base; /* NULL: these alone */
    void *kept;       /* room for the lines as they are solved; `read` where that is not `rated` */
    bool rated;
};

/* Can adi_lines_launch() take the rate along that axis? */
bool adi_lines_rates(const struct plan *plan, int axis);
cudaError_t adi_lines_launch(const struct launch *launch, const struct adi_lines *lines,
                             cudaStream_t stream);

/* The sweep of the launch's leg. */
cudaError_t adi_sweep_launch(const struct launch *launch, int slot, cudaStream_t stream);

__END_DECLS
