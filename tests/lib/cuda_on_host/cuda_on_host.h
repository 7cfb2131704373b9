/* The C++ part of cuda_runtime_api.h: built-ins for kernels, and their launch. */
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
using std::max;
using std::min;

#define __global__
#define __device__
#define __host__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ __thread /* one block runs at a time; goes with extern, and is static */

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
extern dim3 blockIdx, threadIdx, blockDim, gridDim;
enum { warpSize = 32 };

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) double2 {
    double x, y;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline double2 make_double2(double x, double y)
{
    return {x, y};
}

/* A device faults on a misaligned access. */
template <typename T> static inline const T *aligned(const T *p)
{
    if ((uintptr_t)p % sizeof(T))
        abort();
    return p;
}
/* … and the shared memory of the running block. */
bool in_shared_memory(const void *p);
template <typename T> static inline const T *global(const T *p)
{
    if (in_shared_memory(p))
        abort();
    return aligned(p);
}
template <typename T> static inline T __ldg(const T *p)
{
    return *global(p);
}
template <typename T> static inline T __ldcs(const T *p)
{
    return *global(p);
}
template <typename T> static inline T __ldcg(const T *p)
{
    return *global(p);
}
template <typename T> static inline void __stcs(T *p, T value)
{
    *const_cast<T *>(global(p)) = value;
}
template <typename T> static inline void __stcg(T *p, T value)
{
    *const_cast<T *>(global(p)) = value;
}
template <typename T> static inline void __stwt(T *p, T value)
{
    *const_cast<T *>(global(p)) = value;
}
static inline uint32_t atomicAdd(uint32_t *p, uint32_t value) /* no two at a time */
{
    const uint32_t was = *p;
    *p += value;
    return was;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return std::fma(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return std::fma(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}

/* --- barriers: block.cpp switches to the next fiber of the block --- */

void __syncthreads();
void __syncwarp(unsigned mask = ~0u);
/* The lanes of a warp synchronise twice: after all have written, and after all have read. */
const void *warp_exchange(const void *own, size_t bytes, int lane);

template <typename T> static inline T shuffled(T value, int lane)
{
    T other;
    memcpy(&other, warp_exchange(&value, sizeof value, lane), sizeof other);
    __syncwarp();
    return other;
}
static inline int own_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <typename T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    const int own = own_lane();
    return shuffled(value, own / width * width + (lane & (width - 1)));
}
template <typename T>
static inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32)
{
    const int own = own_lane(), from = own - (int)delta;
    return shuffled(value, from < own / width * width ? own : from);
}
template <typename T>
static inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32)
{
    const int own = own_lane(), from = own + (int)delta;
    return shuffled(value, from >= (own / width + 1) * width ? own : from);
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32)
{
    const int own = own_lane(), from = own ^ mask;
    return shuffled(value, from >= (own / width + 1) * width ? own : from);
}

static inline bool __any_sync(unsigned, bool own)
{
    bool any = false;
    for (int lane = 0; lane < warpSize; lane++)
        any |= shuffled(own, lane);
    return any;
}

/* --- launching --- */

/* Run kernel(argument) once for each thread of each block. */
cudaError_t run_blocks(dim3 grid, dim3 block, size_t shared_bytes, void (*thread)(void *),
                       void *argument);
/* What a block may have: an H200's, or CUDA_ON_HOST_SHARED in the environment. */
int cuda_on_host_shared_bytes(void);

template <typename... A> struct call {
    void (*kernel)(A...);
    void **arguments;
    template <size_t... I> void apply(std::index_sequence<I...>)
    {
        kernel(*(std::remove_reference_t<A> *)arguments[I]...);
    }
    static void run(void *self)
    {
        ((call *)self)->apply(std::index_sequence_for<A...>());
    }
};

template <typename... A>
static inline cudaError_t cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block,
                                           void **arguments, size_t shared_bytes, cudaStream_t)
{
    call<A...> one = {kernel, arguments};
    return run_blocks(grid, block, shared_bytes, call<A...>::run, &one);
}

enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    int id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             const A &...arguments)
{
    void *pointers[] = {(void *)&arguments...};
    return cudaLaunchKernel(kernel, config->gridDim, config->blockDim, pointers,
                            config->dynamicSmemBytes, config->stream);
}

/* A compiled kernel: it is a row of what the build made (gpu/cuda/stencil_kernels.h). */
extern "C" cudaError_t cuda_on_host_compiled(const void *kernel, unsigned blocks, void **arguments,
                                             cudaStream_t stream);
static inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                              void **arguments)
{
    return cuda_on_host_compiled(kernel, config->gridDim.x, arguments, config->stream);
}

static inline cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
/* Of an H200, but for the shared memory. */
static inline cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int)
{
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : cuda_on_host_shared_bytes();
    return cudaSuccess;
}

template <typename K> static inline cudaError_t cudaFuncSetAttribute(K *, int, int shared_bytes)
{
    return shared_bytes > cuda_on_host_shared_bytes() ? cudaErrorInvalidValue : cudaSuccess;
}

struct cudaFuncAttributes {
    int ptxVersion;
};
template <typename K>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, K *)
{
    attributes->ptxVersion = 90;
    return cudaSuccess;
}

template <typename K>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, K *, int,
                                                                        size_t)
{
    *blocks = 2;
    return cudaSuccess;
}

template <typename S> static inline cudaError_t cudaGetSymbolAddress(void **address, S &symbol)
{
    *address = (void *)&symbol;
    return cudaSuccess;
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
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t)
{
    memset(to, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int,
                                          cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}
