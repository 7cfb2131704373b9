/* Kernels that begin before the one in front of them has ended, so that its end and their launch
 * cost no time. */
#pragma once

#include <cuda_runtime_api.h>

/* A launch whose kernel begins, where the device can, as soon as all blocks of the one before it
 * have called let_next_begin() or ended. It calls wait_for_previous() before it reads what that one
 * writes, and in any case before it ends. */
struct early_launch {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    early_launch(const early_launch &) = delete;
    early_launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, bool early = true)
    {
        int device = 0, major = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        config.gridDim = grid;
        config.blockDim = block;
        config.dynamicSmemBytes = shared_bytes;
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = early && major >= 9;
    }
};

static __device__ __forceinline__ void let_next_begin()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/* The kernel before this one has ended, and its results are there. */
static __device__ __forceinline__ void wait_for_previous()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
