/* Enough of CUDA for gpu/cuda/ to be compiled as C++ and run on the host, one block after another,
 * a fiber for each thread. What it shows without a GPU: the bits, the indices (with sanitizers,
 * every access), the alignment of wide loads, the grids' limits, barriers that not all threads
 * reach, and reads of shared memory that nobody wrote. What it does not show: races between
 * barriers. */
#ifndef TESTS_CUDA_ON_HOST_H
#define TESTS_CUDA_ON_HOST_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef void *cudaStream_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToDevice = 3,
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

#ifndef __cplusplus
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
#endif

#ifdef __cplusplus
#include "cuda_on_host.h"
#endif
#endif
