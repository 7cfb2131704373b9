/* numerics/table_point.h on a device, for both types in one spelling. Rows are read through the
 * first cache. */
#pragma once

#include "gpu/cuda/grid.cuh"

#define TABLE_FUNCTION static __device__ __forceinline__
#define TABLE_LOAD(pointer) __ldg(pointer)
#define REAL float
#define REAL_FMA __fmaf_rn
#define TABLE_NAME(name) table_##name##_f32
#define TABLE_ROW struct table_row_f32
#include "numerics/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_NAME
#undef TABLE_ROW
#define REAL double
#define REAL_FMA __fma_rn
#define TABLE_NAME(name) table_##name##_f64
#define TABLE_ROW struct table_row_f64
#include "numerics/table_point.h"

#undef REAL
#undef REAL_FMA
#undef TABLE_NAME
#undef TABLE_ROW

/* One spelling for both types. */
template <typename T> struct table_types;
template <> struct table_types<float> {
    using view = table_view_f32;
    using row = struct table_row_f32;
};
template <> struct table_types<double> {
    using view = table_view_f64;
    using row = struct table_row_f64;
};
#define ONE_SPELLING(T, name)                                                                      \
    static __device__ __forceinline__ table_view_##name begin_view(                                \
        const table_header &header, const void *rows, const table_pass &pass, uint64_t batch, T)   \
    {                                                                                              \
        return table_begin_##name(&header, rows, &pass, batch);                                    \
    }                                                                                              \
    static __device__ __forceinline__ void move(table_view_##name *view,                           \
                                                const int64_t at[AXIS_COUNT])                      \
    {                                                                                              \
        table_move_##name(view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);                               \
    }                                                                                              \
    static __device__ __forceinline__ T impose(const table_view_##name *view)                      \
    {                                                                                              \
        return table_impose_##name(view);                                                          \
    }                                                                                              \
    static __device__ __forceinline__ T evaluate(const table_view_##name *view, int component,     \
                                                 int form)                                         \
    {                                                                                              \
        return table_evaluate_form_##name(view, component, form);                                  \
    }                                                                                              \
    static __device__ __forceinline__ T number(const table_view_##name *view, int a,               \
                                               const struct side_number *of)                       \
    {                                                                                              \
        return table_number_##name(view, a, of, view->at);                                         \
    }                                                                                              \
    static __device__ __forceinline__ T datum(const table_view_##name *view, int component, int a, \
                                              int side)                                            \
    {                                                                                              \
        return table_datum_##name(view, component, a, side);                                       \
    }                                                                                              \
    static __device__ __forceinline__ T source_added(const table_view_##name *view, T acc)         \
    {                                                                                              \
        return table_source_##name(view, acc);                                                     \
    }
ONE_SPELLING(float, f32)
ONE_SPELLING(double, f64)
#undef ONE_SPELLING
