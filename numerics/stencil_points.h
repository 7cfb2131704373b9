/* numerics/stencil_point.h for both types: stencil_…_f32 and stencil_…_f64. Included once, with
 * POINT_FUNCTION and the fused operations of the types, POINT_FMA_F32(a, b, c) and POINT_FMA_F64,
 * defined. */
#pragma once

#include "numerics/stencil_plan.h"

#define REAL float
#define REAL_FMA POINT_FMA_F32
#define STENCIL_NAME(name) stencil_##name##_f32
#define STENCIL_WEIGHT f32
#include "numerics/stencil_point.h"
#undef REAL
#undef REAL_FMA
#undef STENCIL_NAME
#undef STENCIL_WEIGHT

#define REAL double
#define REAL_FMA POINT_FMA_F64
#define STENCIL_NAME(name) stencil_##name##_f64
#define STENCIL_WEIGHT f64
#include "numerics/stencil_point.h"
#undef REAL
#undef REAL_FMA
#undef STENCIL_NAME
#undef STENCIL_WEIGHT
