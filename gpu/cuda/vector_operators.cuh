/* What the kernels of vector_operators.cu and gradient.cu share. */
#pragma once

#include "gpu/cuda/grid.cuh"

/* acc = c1 (f+1 − f−1); acc = fma(cm, f+m − f−m, acc): at(m) gives f+m. */
template <int R, typename T, class At>
static __device__ __forceinline__ auto derivative(const T *c, bool whole, const At &at)
{
    auto acc = c[1] * (at(1) - at(-1));
#pragma unroll
    for (int m = 2; m < R; m++)
        acc = fused(c[m], at(m) - at(-m), acc);
    if (whole)
        acc = fused(c[R], at(R) - at(-R), acc);
    return acc;
}

/* Gradients of large fields (gradient.cu), of one job. cudaErrorInvalidConfiguration: it is not for
 * this grid, or not for this device. */
cudaError_t gradient_launch(const struct geometry *g, const void *in, void *const out[AXIS_COUNT]);
