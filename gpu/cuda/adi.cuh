/* What the kernels of Crank–Nicolson split by axes share: numerics/adi_point.h in one spelling for
 * both types, and what a launch works on. */
#pragma once

#include "gpu/cuda/adi.h"
#include "gpu/cuda/grid.cuh"

#define POINT_FUNCTION static __device__
#define REAL float
#define REAL_FMA __fmaf_rn
#define POINT_NAME(name) name##_f32
#include "numerics/adi_point.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME
#define REAL double
#define REAL_FMA __fma_rn
#define POINT_NAME(name) name##_f64
#include "numerics/adi_point.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME

/* One spelling for both types. */
#define ADI_POINT(T, suffix)                                                                       \
    static __device__ __forceinline__ T impose(const struct adi *adi,                              \
                                               const struct operands *operands, T f,               \
                                               int64_t field, const int64_t at[AXIS_COUNT])        \
    {                                                                                              \
        return adi_impose_##suffix(adi, operands, f, field, at);                                   \
    }                                                                                              \
    static __device__ __forceinline__ T rate(                                                      \
        const struct adi *adi, const struct operands *operands, int along, const T *u,             \
        int64_t field, const int64_t at[AXIS_COUNT])                                               \
    {                                                                                              \
        return adi_rate_##suffix(adi, operands, along, u, field, at);                              \
    }                                                                                              \
    static __device__ __forceinline__ int holder(const struct adi *adi,                            \
                                                 const int64_t at[AXIS_COUNT], T)                  \
    {                                                                                              \
        return adi_holder_##suffix(adi, at);                                                       \
    }                                                                                              \
    static __device__ __forceinline__ int64_t periodic_step(const struct adi_axis *axis,           \
                                                            int64_t from, int64_t i, T)            \
    {                                                                                              \
        return adi_step_##suffix(axis, from, i);                                                   \
    }                                                                                              \
    static __device__ __forceinline__ int64_t factors_row(const struct tridiagonal *lines,         \
                                                          int64_t i, T)                            \
    {                                                                                              \
        return lines_row_##suffix(lines, i);                                                       \
    }                                                                                              \
    static __device__ __forceinline__ void matrix_row(const struct adi_axis *axis, const T *k,     \
                                                      int64_t i, int64_t around, T *below,         \
                                                      T *diagonal, T *above)                       \
    {                                                                                              \
        adi_row_##suffix(axis, k, i, around, below, diagonal, above);                              \
    }                                                                                              \
    static __device__ __forceinline__ void sweep(                                                  \
        const struct adi *adi, int axis, const struct leg *leg, const T *k, T *x, T *q, T *z)      \
    {                                                                                              \
        adi_sweep_##suffix(adi, axis, leg, k, x, q, z);                                            \
    }                                                                                              \
    static __device__ __forceinline__ void solve(const struct adi_axis *axis, const T *k, T *x,    \
                                                 T *q, T *z)                                       \
    {                                                                                              \
        adi_solve_##suffix(axis, k, x, q, z);                                                      \
    }                                                                                              \
    static __device__ __forceinline__ void solve(const struct tridiagonal *lines,                  \
                                                 const T *factors, T *x, int64_t stride)           \
    {                                                                                              \
        lines_solve_##suffix(lines, factors, x, stride);                                           \
    }
ADI_POINT(float, f32)
ADI_POINT(double, f64)

static __device__ __forceinline__ const struct adi *adi_of(int slot)
{
    return (const struct adi *)table[slot].rows;
}

/* m of the factors of an axis's lines; p, q and z follow. */
template <typename T>
static __device__ __forceinline__ const T *factors_of(const struct adi *adi, int axis)
{
    return (const T *)((const char *)adi + adi->axis[axis].lines.at);
}

/* V elements in one access, in either memory. */
template <int V, typename T> static __device__ __forceinline__ pack<T, V> plain_pack(const T *p)
{
    if constexpr (V == 1)
        return {{*p}};
    else
        return shared_pack(p);
}
