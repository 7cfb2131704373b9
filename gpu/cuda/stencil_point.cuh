/* numerics/stencil_point.h on a device, for both types in one spelling. */
#pragma once

#include "gpu/cuda/grid.cuh"

#define POINT_FUNCTION static __device__
#define POINT_FMA_F32 __fmaf_rn
#define POINT_FMA_F64 __fma_rn
#include "numerics/stencil_points.h"

template <typename T>
using stencil_point_source =
    std::conditional_t<sizeof(T) == sizeof(float), struct stencil_source_f32,
                       struct stencil_source_f64>;

template <typename T>
static __device__ __forceinline__ T stencil_evaluate(const stencil_point_source<T> &source,
                                                     const int64_t at[AXIS_COUNT])
{
    if constexpr (sizeof(T) == sizeof(float))
        return stencil_evaluate_f32(&source, at);
    else
        return stencil_evaluate_f64(&source, at);
}
/* A point as the stencil reads it, which may lie beyond a side. */
template <typename T>
static __device__ __forceinline__ T stencil_read(const stencil_point_source<T> &source, int x,
                                                 int y, int z)
{
    if constexpr (sizeof(T) == sizeof(float))
        return stencil_read_f32(&source, x, y, z);
    else
        return stencil_read_f64(&source, x, y, z);
}

template <typename T>
static __host__ __device__ __forceinline__ const T &stencil_weight(const struct stencil_tap &tap)
{
    if constexpr (sizeof(T) == sizeof(float))
        return tap.weight.f32;
    else
        return tap.weight.f64;
}
