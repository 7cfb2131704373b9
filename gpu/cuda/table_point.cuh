/* numerics/table_point.h on a device: functions of a view are found in the namespace of its type.
 * Rows are read through the first cache. */
#pragma once

#include "gpu/cuda/grid.cuh"

#define TABLE_FUNCTION static __device__ __forceinline__
#define TABLE_LOAD(pointer) __ldg(pointer)
#define TABLE_NAME(name) point_##name
namespace table_f32
{
#define REAL float
#define REAL_FMA __fmaf_rn
#define TABLE_ROW struct table_row_f32
#include "numerics/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_ROW
} // namespace table_f32
namespace table_f64
{
#define REAL double
#define REAL_FMA __fma_rn
#define TABLE_ROW struct table_row_f64
#include "numerics/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_ROW
} // namespace table_f64
#undef TABLE_NAME

template <typename T>
using table_view_of =
    std::conditional_t<sizeof(T) == sizeof(float), table_f32::point_view, table_f64::point_view>;

template <typename T>
static __device__ __forceinline__ table_view_of<T>
begin_view(const table_header &header, const void *rows, const table_pass &pass, uint64_t batch)
{
    if constexpr (sizeof(T) == sizeof(float))
        return table_f32::point_begin(&header, rows, &pass, batch);
    else
        return table_f64::point_begin(&header, rows, &pass, batch);
}
