/* What no other kernel takes: a block marches along the slowest active axis with the points above
 * and below in registers.
 *
 *   SUM = false   along y or z alone, where that axis is reflected at a node or too short for
 *                 along_y_z.cu: odd or even; [outer][march][inner]
 *   SUM = true    even along all axes in 3D, of the radius of error estimates; marches along z, y
 *                 neighbours through L1
 *
 *   odd:   acc = c1 (f+1 − f−1);  acc = fma(cm, f+m − f−m, acc)
 *   even:  acc = c0 f;  equal weights on all axes: acc = fma(cm, (x pair + y pair) + z pair, acc),
 *          else one chain per axis: x, y, z
 *
 * Bytes of device memory per point: one write and (L + 2R)/L reads, where L is the length that a
 * block marches: 1.06 for L = 128, R = 4. In 3D a tile of 128 × 16 points (float32) also reads 2R
 * rows of its neighbours from L2: (16 + 2R)/16 = 1.5 for R = 4. The queue moves on by
 * STEPS points at a time, so that several loads are in flight and few registers are
 * moved. */
#include "gpu/cuda/point_sum.cuh"

template <typename T, int R> struct march_shape {
    int64_t n;             /* points along x; without SUM, of all axes below the marching one */
    int64_t low, high;     /* x: the points that this kernel computes */
    int64_t rows, row_low; /* SUM: rows of a plane that it computes, and the first; else 1 and 0 */
    int64_t begin, end;    /* marching axis: the points that it computes */
    int64_t length;        /* of a march */
    int64_t marches;       /* along the axis */
    int64_t outer;         /* fields, or planes above the marching axis */
    int64_t row_stride, stride, outer_stride; /* elements */
    uint32_t blocks_x;
    int32_t slot, axis; /* enum axis: the marching one */
    int32_t odd, shared;
    point_weights<T, R> weights;
    point_terms<T> terms;
};

/* Steps: as many as fit the registers; in 3D a single one has 2R + 3 loads in flight. */
template <int R, int V, bool SUM> struct march_block {
    enum { THREADS = SUM ? 512 : 256, STEPS = V == 1 || (SUM && R > 2) ? 1 : SUM ? 2 : 4 };
};

/* f above + f below, m rows apart from row y at `f`. */
template <int V, typename T>
static __device__ __forceinline__ pack<T, V>
load_y_pair(const T *f, int64_t y, int m, bool inside, const struct plan_axis *axis, int64_t stride)
{
    const int64_t above = inside ? m : source(axis, y + m) - y;
    const int64_t below = inside ? -m : source(axis, y - m) - y;
    const pack<T, V> up = load_pack<V>(f + above * stride);
    const pack<T, V> down = load_pack<V>(f + below * stride);
    pack<T, V> pair;
#pragma unroll
    for (int v = 0; v < V; v++)
        pair.v[v] = up.v[v] + down.v[v];
    return pair;
}

template <typename T, int R, int V, bool SUM, enum point_kind KIND, class Jobs>
__global__ void __launch_bounds__(march_block<R, V, SUM>::THREADS)
    march_kernel(const __grid_constant__ march_shape<T, R> shape, const T *__restrict__ in,
                 T *__restrict__ out, const __grid_constant__ Jobs jobs)
{
    using Block = march_block<R, V, SUM>;
    constexpr int STEPS = Block::STEPS;
    const int64_t x0 = ((int64_t)(blockIdx.x % shape.blocks_x) * blockDim.x + threadIdx.x) * V;
    uint64_t item = (uint64_t)(blockIdx.x / shape.blocks_x) * blockDim.y + threadIdx.y;
    if (x0 >= shape.n || item >= (uint64_t)(shape.rows * shape.marches * shape.outer))
        return;
    int64_t y = 0;
    if (SUM) {
        y = shape.row_low + (int64_t)(item % (uint64_t)shape.rows);
        item /= (uint64_t)shape.rows;
    }
    const int64_t first = shape.begin + (int64_t)(item % (uint64_t)shape.marches) * shape.length;
    const int64_t last = min(first + shape.length, shape.end);
    const int64_t place =
        (int64_t)(item / (uint64_t)shape.marches) * shape.outer_stride + y * shape.row_stride;
    own_arrays(in, out, jobs);
    const struct plan *plan = &table[shape.slot].plan;
    const point_weights<T, R> &weights = shape.weights;
    const struct plan_axis *axis = &plan->axis[shape.axis];
    const T *base = in + place;
    T *target = out + place;

    const row_edges edges = find_edges<R, V>(&plan->axis[AXIS_X], shape.n, x0);
    const bool y_inside = y >= R && y + R < plan->axis[AXIS_Y].n;
    const struct plan_axis *y_axis = &plan->axis[AXIS_Y];
    const bool odd = !SUM && shape.odd;
    const bool shared = SUM && shape.shared;

    pack<T, V> queue[2 * R + STEPS]; /* of the points first − R … */
#pragma unroll
    for (int i = 0; i < 2 * R; i++)
        queue[i] = load_pack<V>(base + source(axis, first - R + i) * shape.stride + x0);
    for (int64_t k = first; k < last; k += STEPS) {
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            queue[2 * R + s] = load_pack<V>(base + source(axis, k + R + s) * shape.stride + x0);
        pack<T, V> term_base[STEPS], term_source[STEPS];
        if constexpr (KIND != CENTRED) {
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const int64_t at = place + min(k + s, last - 1) * shape.stride + x0;
                if (shape.terms.base)
                    term_base[s] = load_once(shape.terms.base + at, &term_base[s]);
                if (shape.terms.source)
                    term_source[s] = load_once(shape.terms.source + at, &term_source[s]);
            }
        }
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (k + s >= last)
                break;
            const T *row = base + (k + s) * shape.stride;
            T xs[V + 2 * R];
            if (SUM)
                load_row<R, V, T>(xs, row, x0, edges, queue[R + s], &plan->axis[AXIS_X]);
            pack<T, V> acc;
            if (odd) {
#pragma unroll
                for (int m = 1; m <= R; m++) {
                    const T c = weights.c[shape.axis][m];
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        const T pair = queue[R + s + m].v[v] - queue[R + s - m].v[v];
                        acc.v[v] = m == 1 ? c * pair : fused(c, pair, acc.v[v]);
                    }
                }
            } else {
#pragma unroll
                for (int v = 0; v < V; v++)
                    if constexpr (KIND == TERMS)
                        acc.v[v] = begin_sum(shape.terms, weights.centre, queue[R + s].v[v],
                                             term_base[s].v[v]);
                    else
                        acc.v[v] = weights.centre * queue[R + s].v[v];
            }
            if (shared) {
#pragma unroll
                for (int m = 1; m <= R; m++) {
                    const T c = weights.c[AXIS_X][m];
                    const pack<T, V> y_pair =
                        load_y_pair<V>(row + x0, y, m, y_inside, y_axis, shape.row_stride);
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        const T sum = xs[R + v + m] + xs[R + v - m] + y_pair.v[v] +
                                      (queue[R + s + m].v[v] + queue[R + s - m].v[v]);
                        acc.v[v] = fused(c, sum, acc.v[v]);
                    }
                }
            } else if (!odd) {
                if (SUM) {
#pragma unroll
                    for (int m = 1; m <= R; m++) {
                        const T c = weights.c[AXIS_X][m];
#pragma unroll
                        for (int v = 0; v < V; v++)
                            acc.v[v] = fused(c, xs[R + v + m] + xs[R + v - m], acc.v[v]);
                    }
#pragma unroll
                    for (int m = 1; m <= R; m++) {
                        const T c = weights.c[AXIS_Y][m];
                        const pack<T, V> y_pair =
                            load_y_pair<V>(row + x0, y, m, y_inside, y_axis, shape.row_stride);
#pragma unroll
                        for (int v = 0; v < V; v++)
                            acc.v[v] = fused(c, y_pair.v[v], acc.v[v]);
                    }
                }
#pragma unroll
                for (int m = 1; m <= R; m++) {
                    const T c = weights.c[shape.axis][m];
#pragma unroll
                    for (int v = 0; v < V; v++)
                        acc.v[v] =
                            fused(c, queue[R + s + m].v[v] + queue[R + s - m].v[v], acc.v[v]);
                }
            }
            if constexpr (KIND != CENTRED) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc.v[v] = end_sum(shape.terms, acc.v[v], term_source[s].v[v]);
            }
            store_between<T, V>(target + (k + s) * shape.stride, x0, acc, shape.low, shape.high);
        }
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
            queue[i] = queue[i + STEPS];
    }
}

/* The march's length: enough threads to fill the device about twice (these kernels hold 512 threads
 * a multiprocessor, or 1024 without SUM), and not so short that the 2R points read before and after
 * it weigh more than its own. */
static int64_t march_length(int64_t points, int64_t threads, int64_t wanted, int radius)
{
    const int64_t marches = (wanted + threads - 1) / threads;
    int64_t length = (points + marches - 1) / marches;
    if (length < 2 * radius)
        length = 2 * radius;
    return length < points ? (length + 3) / 4 * 4 : points;
}

template <typename T, int R, int V, bool SUM, enum point_kind KIND>
static cudaError_t launch_march(const struct geometry *g, int a, const struct table_pass *pass)
{
    const struct plan *plan = g->plan;
    const struct plan_axis *axis = &plan->axis[a];
    march_shape<T, R> shape = {};
    shape.n = SUM ? plan->axis[AXIS_X].n : axis->stride;
    shape.low = SUM ? g->low[AXIS_X] : 0;
    shape.high = SUM ? g->high[AXIS_X] : shape.n;
    shape.rows = SUM ? g->high[AXIS_Y] - g->low[AXIS_Y] : 1;
    shape.row_low = SUM ? g->low[AXIS_Y] : 0;
    shape.row_stride = SUM ? plan->axis[AXIS_Y].stride : 0;
    shape.begin = g->low[a];
    shape.end = g->high[a];
    shape.stride = axis->stride;
    shape.outer_stride = axis->stride * axis->n;
    shape.outer = (int64_t)(plan->points * plan->batch) / shape.outer_stride;
    shape.slot = g->slot;
    shape.axis = a;
    shape.odd = plan->parity == PLAN_ODD;
    shape.shared = plan->shared;
    shape.weights = weights_of<T, R>(plan, pass);
    shape.terms = terms_of<T>(plan, pass);
    const int64_t packs = shape.n / V, points = shape.end - shape.begin;
    const unsigned threads = march_block<R, V, SUM>::THREADS;
    const unsigned width = power_of_two(packs, SUM ? 32 : threads);
    const dim3 block(width, threads / width);
    shape.length = march_length(points, packs * shape.rows * shape.outer,
                                (int64_t)g->units * (SUM ? 1024 : 2048), R);
    shape.marches = (points + shape.length - 1) / shape.length;
    shape.blocks_x = (uint32_t)((packs + width - 1) / width);
    const int64_t items = shape.rows * shape.marches * shape.outer;
    const int64_t blocks = (items + block.y - 1) / block.y * shape.blocks_x;
    kernel_pair<march_shape<T, R>, T> kernel = {march_kernel<T, R, V, SUM, KIND, one_job>, nullptr};
    if constexpr (KIND == CENTRED && R <= PLAN_RADIUS) /* of a plain plan */
        kernel.several = march_kernel<T, R, V, SUM, KIND, job_arrays>;
    return launch_blocks(kernel, blocks, block, g, &shape, pass->in[0], pass->out[0]);
}

template <typename T, int R, int V> struct march_launcher {
    static cudaError_t run(const struct geometry *g, const struct table_pass *pass)
    {
        const struct plan_axis *axis = g->plan->axis;
        if (!axis[AXIS_X].active)
            return launch_march<T, R, V, false, CENTRED>(g, axis[AXIS_Y].active ? AXIS_Y : AXIS_Z,
                                                         pass);
        if constexpr (R == TABLE_RADIUS) /* a point a thread: bits are all that is asked for */
            return has_terms(g->plan, pass) ? launch_march<T, R, 1, true, TERMS>(g, AXIS_Z, pass)
                                            : launch_march<T, R, 1, true, CENTRED>(g, AXIS_Z, pass);
        return cudaErrorInvalidValue;
    }
};

extern "C" cudaError_t march_launch(const struct geometry *g, const struct table_pass *pass)
{
    const struct plan_axis *axis = g->plan->axis;
    /* What a thread's pack lies along: x, or all below the marching axis. */
    const int64_t n = axis[AXIS_X].active   ? axis[AXIS_X].n
                      : axis[AXIS_Y].active ? axis[AXIS_Y].stride
                                            : axis[AXIS_Z].stride;
    return launch_typed<march_launcher, CENTRED_RADIUS>(g, n, pass);
}
