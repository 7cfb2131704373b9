/* Enough of CUDA for gpu/cuda/passes.cu to be compiled as C++ and run on the host: one thread after
 * another, which is a legal order for kernels without barriers. What it shows without a GPU: the
 * bits, the indices (with sanitizers, every access), the alignment of wide loads, the grids'
 * limits. */
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
    cudaErrorInvalidConfiguration = 9,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToDevice = 3
};

#ifdef __cplusplus
#include <algorithm>
#include <cmath>
using std::min;

#define __global__
#define __device__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
static dim3 blockIdx, threadIdx, blockDim;

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline double2 make_double2(double x, double y)
{
    return {x, y};
}
template <typename T> static inline T __ldg(const T *p)
{
    if ((uintptr_t)p % sizeof(T))
        abort(); /* a device faults on it */
    return *p;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return std::fma(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return std::fma(a, b, c);
}

template <typename S>
static inline cudaError_t cudaMemcpyToSymbolAsync(S &symbol, const void *from, size_t bytes,
                                                  size_t offset, int, cudaStream_t)
{
    if (offset + bytes > sizeof symbol)
        return cudaErrorInvalidValue;
    memcpy((char *)&symbol + offset, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int,
                                          cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}
template <typename S, typename T>
static inline cudaError_t cudaLaunchKernel(void (*kernel)(S, const T *, T *), dim3 grid, dim3 block,
                                           void **arguments, size_t, cudaStream_t)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads == 0 || threads > 1024 || grid.x == 0 || grid.x > INT32_MAX || grid.y != 1 ||
        grid.z != 1 || block.z != 1)
        return cudaErrorInvalidConfiguration;
    blockDim = block;
    for (unsigned b = 0; b < grid.x; b++)
        for (unsigned y = 0; y < block.y; y++)
            for (unsigned x = 0; x < block.x; x++) {
                blockIdx = dim3(b, 0, 0);
                threadIdx = dim3(x, y, 0);
                kernel(*(const S *)arguments[0], *(const T *const *)arguments[1],
                       *(T *const *)arguments[2]);
            }
    return cudaSuccess;
}
#endif
#endif
