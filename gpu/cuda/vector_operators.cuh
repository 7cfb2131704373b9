/* What the kernels of vector_operators.cu and gradient.cu share. */
#pragma once

#include "gpu/cuda/grid.cuh"

/* acc = c1 (f+1 − f−1); acc = fma(cm, f+m − f−m, acc): `pair` gives f+m − f−m of point v. */
template <int R, int V, typename T, typename Pair>
static __device__ __forceinline__ pack<T, V> derivative(const T *c, bool whole, Pair pair)
{
    pack<T, V> acc;
#pragma unroll
    for (int v = 0; v < V; v++)
        acc.v[v] = c[1] * pair(1, v);
#pragma unroll
    for (int m = 2; m < R; m++)
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(c[m], pair(m, v), acc.v[v]);
    if (whole)
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(c[R], pair(R, v), acc.v[v]);
    return acc;
}

/* Gradients of large fields (gradient.cu), of one job. cudaErrorInvalidConfiguration: it is not for
 * this grid, or not for this device. */
cudaError_t gradient_launch(const struct geometry *g, const void *in, void *const out[AXIS_COUNT]);
