/* Stencils along x alone: the first and second derivative along x, the 1D Laplacian and diffusion.
 *
 *   odd:   acc = c1 (f+1 − f−1);  acc = fma(cm, f+m − f−m, acc), m = 2 … R
 *   even:  acc = c0 f;            acc = fma(cm, f+m + f−m, acc), m = 1 … R
 *
 * A thread computes V neighbours (16 bytes). Its own pack comes from memory; the packs to its left
 * and right are its neighbours' own, so they come from L1: with V = 4, R = 4 three 16-byte loads
 * and one store for four points. Bytes of device memory per point: one read, one write. Rows whose
 * length is no multiple of V: one point a thread, 2R + 1 coalesced loads, 2R of them L1. */
#include "gpu/cuda/grid.cuh"

enum { ROW_THREADS = 256 };

struct row_shape {
    int64_t n; /* points in a row */
    int64_t lines;
    int64_t low, high; /* the points that this kernel computes; the shell has the others */
    uint32_t blocks_x; /* blocks along a row */
    int32_t slot;
};

template <typename T, int R, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    row_kernel(const row_shape shape, const T *__restrict__ in, T *__restrict__ out)
{
    const int64_t x0 = ((int64_t)(blockIdx.x % shape.blocks_x) * blockDim.x + threadIdx.x) * V;
    const int64_t line = (int64_t)(blockIdx.x / shape.blocks_x) * blockDim.y + threadIdx.y;
    if (x0 >= shape.n || line >= shape.lines)
        return;
    const int slot = shape.slot;
    const struct plan_axis *axis = &table[slot].plan.axis[AXIS_X];
    const T *row = in + line * shape.n;
    T xs[V + 2 * R];
    load_row<R, V, T>(xs, row, x0, find_edges<R, V>(axis, shape.n, x0), load_pack<V>(row + x0),
                      axis);

    pack<T, V> result;
    if (table[slot].plan.parity == PLAN_ODD) {
#pragma unroll
        for (int v = 0; v < V; v++) {
            T acc = weight(slot, AXIS_X, 1, T()) * (xs[R + v + 1] - xs[R + v - 1]);
#pragma unroll
            for (int m = 2; m <= R; m++)
                acc = fused(weight(slot, AXIS_X, m, T()), xs[R + v + m] - xs[R + v - m], acc);
            result.v[v] = acc;
        }
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) {
            T acc = centre_weight(slot, T()) * xs[R + v];
#pragma unroll
            for (int m = 1; m <= R; m++)
                acc = fused(weight(slot, AXIS_X, m, T()), xs[R + v + m] + xs[R + v - m], acc);
            result.v[v] = acc;
        }
    }
    store_between<T, V>(out + line * shape.n, x0, result, shape.low, shape.high);
}

template <typename T, int R, int V> struct row_launcher {
    static cudaError_t run(const struct geometry *g, const void *in, void *out)
    {
        const struct plan *plan = g->plan;
        const int64_t packs = plan->axis[AXIS_X].n / V;
        const unsigned width = power_of_two(packs, ROW_THREADS);
        const dim3 block(width, ROW_THREADS / width);
        struct row_shape shape = {plan->axis[AXIS_X].n,
                                  (int64_t)plan->lines,
                                  g->low[AXIS_X],
                                  g->high[AXIS_X],
                                  (uint32_t)((packs + width - 1) / width),
                                  g->slot};
        const int64_t blocks = (shape.lines + block.y - 1) / block.y * shape.blocks_x;
        return launch_blocks(row_kernel<T, R, V>, blocks, block, &shape, in, out, g->stream);
    }
};

extern "C" cudaError_t row_launch(const struct geometry *g, const void *in, void *out)
{
    return launch_typed<row_launcher>(g, g->plan->axis[AXIS_X].n, in, out);
}
