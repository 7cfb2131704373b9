/* Plans of the engine PLAN_ADI on a device: one stage of a step after another. */
#ifndef GPU_CUDA_ADI_H
#define GPU_CUDA_ADI_H

#include "numerics/adi.h"
#include "gpu/backend.h"
#include "numerics/stage.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One of the plan's stages, whole; the slot holds the plan. */
cudaError_t adi_launch(const struct launch *launch, const struct stage *stage, int slot,
                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
