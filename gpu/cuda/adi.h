/* Plans of the engine PLAN_ADI on a device: one stage of a step after another. */
#pragma once

#include "numerics/adi.h"
#include "gpu/backend.h"
#include "numerics/stage.h"

#include <cuda_runtime_api.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

/* One of the plan's stages, whole; the slot holds the plan. */
cudaError_t adi_launch(const struct launch *launch, const struct stage *stage, int slot,
                       cudaStream_t stream);

__END_DECLS
