/* Diffusion in 3D, S steps in one pass over memory; or the S stages of a step of RK4, each of which
 * is added to the step's u (numerics/stage.h).
 *
 *   step:  acc = c0 f;  equal weights on all axes: acc = fma(cm, (x pair + y pair) + z pair, acc),
 *          else axis by axis: x, y, z;  m = 1 … R
 *   stage: acc = fma(c0, f, u); the same, with weights of its own
 *
 * A block owns a tile of x and y and marches along z. A plane of level 0 that arrives completes a
 * plane of level 1 that is R planes behind it; that one a plane of level 2, another R behind,
 * all in the same iteration. The plane of level S is stored; no level between is in
 * memory.
 *
 *   level 0   ──────────────────► k         arrives in a ring of shared memory, AHEAD planes early
 *   level 1   ──────────────► k − R         in registers: the last 2R planes of each level,
 *   level 2   ──────────► k − 2R            ROWS packs of V points a thread
 *
 * Neighbours along z are the thread's own. Along x they come by shuffles, along y from the thread's
 * own rows; what another warp has comes through shared memory, where each level's own plane is
 * published an iteration before it is needed: one barrier an iteration for all levels. A tile's
 * rows are `lanes` threads long, whatever divides the field best; threads are numbered along rows,
 * so that a shuffle is wrong only at the tile's ends. What the ends lack spreads inwards by R a
 * step: tiles overlap by 2 S R points, and marches by as many planes.
 *
 * 512³, float32, R = 1, S = 4: tiles of 96 × 48 points, 88 × 40 of them results; marches of 103
 * planes and 4 before and after: 1.41 points computed for each result. A point-step takes 7
 * arithmetic instructions and about 4 to exchange and to move: 16 for each result, and an H200
 * issues 33 T a second: 2.1 T results, 3.9 times the copy roofline. Shared memory: a plane of a
 * level is written once, read 1.7 times and shuffled by halves, 13 bytes of 128 a cycle: 1.7 T.
 * Device memory: 10.5 bytes for S steps: S times 0.76 of copy.
 *
 * A stage finds its u in the ring, which keeps planes of level 0 for S R iterations: with four
 * stages there is room for one plane to arrive early, in the place of two; it is called to the L2
 * FAR planes early.
 *
 * At the edges: images of points evolve as the points do, so periodic and zero derivative are a
 * matter of what is loaded; held points are set at each level. */
#pragma once

#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

enum {
    TEMPORAL_3D_MOST = 4,  /* S R */
    TEMPORAL_3D_LEAST = 16 /* points along an axis: a tile's halo meets one edge */
};

/* NESTED: the stages of a step, each added to its u; else steps. */
template <typename T, int R, int S, bool NESTED = false> struct temporal_3d {
    enum {
        V = 16 / sizeof(T),
        /* The queue has 2 S R ROWS packs, four registers each, of the 168 that as many threads have
         * of a multiprocessor's. */
        ROWS = 3,
        THREADS = 384,
        AHEAD = NESTED ? 1 : 2,
        FAR = 4,
        RING = (NESTED ? S * R : R) + 1 + AHEAD,
        ROW = THREADS * V, /* points: row r of all threads */
        PLANE = ROWS * ROW /* … of a tile */
    };
};

template <typename T, int R> struct temporal_3d_shape {
    int64_t plane, field; /* elements */
    axis_images<int32_t> images[AXIS_COUNT];
    int32_t results[AXIS_COUNT];       /* of a tile, and of a march */
    int32_t begin, end;                /* planes that are computed */
    int32_t step;                      /* from one march to the next */
    int32_t tiles_x, tiles_y, marches; /* of a field */
    int32_t lanes;                     /* threads in a row of a tile */
    int32_t halo;                      /* points beside a tile's results along x: whole packs */
    int32_t steps;
    int32_t packs; /* rows are whole packs */
    int32_t held[AXIS_COUNT][SIDE_COUNT];
    T factor[AXIS_COUNT][SIDE_COUNT]; /* of old values: 1 where these are the held value already */
    point_weights<T, R> weights[TABLE_FACTORS]; /* of steps the first, of stages each its own */
};

extern __shared__ __align__(128) unsigned char shared_memory[];

/* What a thread reads of each plane of level 0. */
template <typename T, int R, int S> struct temporal_3d_input {
    using is = temporal_3d<T, R, S>;
    int32_t row[is::ROWS]; /* offsets in the plane */
    int32_t x, column;     /* column: offset in the row of a pack that is whole in memory */
    bool loads, whole;

    __device__ __forceinline__ void find(const temporal_3d_shape<T, R> &shape, int x0, int y0)
    {
        const axis_images<int32_t> &along = shape.images[AXIS_X];
#pragma unroll
        for (int r = 0; r < is::ROWS; r++)
            row[r] = shape.images[AXIS_Y].source(y0 + r) * along.n;
        x = x0;
        column = along.source(x0);
        const int sign = x0 < 0 ? along.sign[SIDE_LOW] : x0 >= along.n ? along.sign[SIDE_HIGH] : 1;
        if (sign == 0) /* nobody uses it */
            column = 0;
        whole = shape.packs && sign >= 0;
    }
    __device__ __forceinline__ void load(const temporal_3d_shape<T, R> &shape, T *to,
                                         const T *plane) const
    {
        if (!loads)
            return;
        if (whole) {
#pragma unroll
            for (int r = 0; r < is::ROWS; r++)
                __pipeline_memcpy_async(to + r * is::ROW, plane + (row[r] + column),
                                        sizeof(T) * is::V);
            return;
        }
#pragma unroll
        for (int v = 0; v < is::V; v++) {
            const int at = shape.images[AXIS_X].source(x + v);
#pragma unroll
            for (int r = 0; r < is::ROWS; r++)
                __pipeline_memcpy_async(to + r * is::ROW + v, plane + (row[r] + at), sizeof(T));
        }
    }
    /* Call it to the L2, a thread a line. */
    __device__ __forceinline__ void prefetch(const T *plane) const
    {
        if (loads && whole && threadIdx.x % (128 / sizeof(T) / is::V) == 0)
#pragma unroll
            for (int r = 0; r < is::ROWS; r++)
                prefetch_l2(plane + (row[r] + column));
    }
};

/* What an axis holds of a thread's points, on one side: their old values times a factor (of a stage
 * its u, by the factor in the last one). Images of points are not held. */
template <typename T> struct temporal_3d_held {
    unsigned which; /* bit i: the thread's column or row i */
    T factor;

    template <int R>
    __device__ __forceinline__ void find(const temporal_3d_shape<T, R> &shape, int axis, int from,
                                         int count)
    {
        which = 0;
        factor = 1;
        for (int side = 0; side < SIDE_COUNT; side++)
            for (int i = 0; i < count; i++) {
                const int distance =
                    side == SIDE_LOW ? from + i : shape.images[axis].n - 1 - (from + i);
                if (distance < 0 || distance >= shape.held[axis][side])
                    continue;
                which |= 1u << i;
                factor = shape.factor[axis][side];
            }
    }
};

/* PLAIN: S steps and nothing held; else any number of steps up to S; of stages S. */
template <typename T, int R, int S, bool NESTED, bool EQUAL, bool PLAIN>
__global__ void __launch_bounds__(temporal_3d<T, R, S>::THREADS, 1)
    temporal_3d_kernel(const __grid_constant__ temporal_3d_shape<T, R> shape,
                       const T *__restrict__ in, T *__restrict__ out)
{
    using is = temporal_3d<T, R, S, NESTED>;
    constexpr int V = is::V, ROWS = is::ROWS, ROW = is::ROW, THREADS = is::THREADS, Q = 2 * R;
    const int thread = (int)threadIdx.x, lane = thread % 32;
    const int nx = shape.images[AXIS_X].n, reach = (PLAIN ? S : shape.steps) * R;
    uint32_t item = blockIdx.x;
    const int x_from = (int)(item % (uint32_t)shape.tiles_x) * shape.results[AXIS_X];
    item /= (uint32_t)shape.tiles_x;
    const int y_from = (int)(item % (uint32_t)shape.tiles_y) * shape.results[AXIS_Y];
    item /= (uint32_t)shape.tiles_y;
    const int z_from = shape.begin + (int)(item % (uint32_t)shape.marches) * shape.step;
    item /= (uint32_t)shape.marches;
    const int x_to = min(x_from + shape.results[AXIS_X], nx);
    const int y_to = min(y_from + shape.results[AXIS_Y], shape.images[AXIS_Y].n);
    const int z_to = min(z_from + shape.results[AXIS_Z], shape.end);
    const int x = x_from - shape.halo + thread % shape.lanes * V;
    const int y = y_from - reach + thread / shape.lanes * ROWS;
    in += (int64_t)item * shape.field;
    out += (int64_t)item * shape.field;

    temporal_3d_input<T, R, S> input;
    input.find(shape, x, y);
    input.loads = x < x_to + shape.halo && y < y_to + reach;
    unsigned stores = 0; /* bit r: row r has results */
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        stores |= (x >= x_from && x < x_to && y + r >= y_from && y + r < y_to ? 1u : 0u) << r;
    temporal_3d_held<T> held_x, held_y;
    if (!PLAIN) {
        held_x.find(shape, AXIS_X, x, V);
        held_y.find(shape, AXIS_Y, y, ROWS);
    }
    const bool holds_z = z_from - reach < shape.held[AXIS_Z][SIDE_LOW] ||
                         z_to + reach > shape.images[AXIS_Z].n - shape.held[AXIS_Z][SIDE_HIGH];

    /* In shared memory: a ring of planes of level 0, then two planes of each other level. */
    T *const own = (T *)shared_memory + thread * V; /* row r: + r ROW */
    const T *const above = (T *)shared_memory + min(thread + shape.lanes, THREADS - 1) * V;
    const T *const below = (T *)shared_memory + max(thread - shape.lanes, 0) * V;
    const T *const beside = /* what a warp's ends lack; the lanes between read it with the first */
        (T *)shared_memory +
        (lane == 31 ? min(thread + 1, THREADS - 1) * V : max((thread - lane) * V - R, 0));

    const int k_from = z_from - reach, k_to = z_to + reach;
    T *to = out + (int64_t)(k_from - reach) * shape.plane + (int64_t)y * nx + x;
    int head = 0; /* of the ring: where plane k is, in elements */
#pragma unroll
    for (int a = 0; a < is::AHEAD; a++) {
        input.load(shape, own + a * is::PLANE,
                   in + shape.images[AXIS_Z].source(k_from + a) * shape.plane);
        __pipeline_commit();
    }

    pack<T, V> queue[S][Q][ROWS]; /* of each level the last 2R planes: plane k at k mod 2R */
#pragma unroll
    for (int t = 0; t < S; t++)
#pragma unroll
        for (int q = 0; q < Q; q++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    queue[t][q][r].v[v] = 0;
    for (int k = k_from;;) {
#pragma unroll
        for (int p = 0; p < Q; p++) { /* plane k − k_from = p mod 2R */
            __pipeline_wait_prior(is::AHEAD - 1);
            __syncthreads();
            if (k + is::AHEAD < k_to) {
                const int slot =
                    head +
                    (head < (is::RING - is::AHEAD) * is::PLANE ? is::AHEAD : is::AHEAD - is::RING) *
                        is::PLANE;
                input.load(shape, own + slot,
                           in + shape.images[AXIS_Z].source(k + is::AHEAD) * shape.plane);
            }
            __pipeline_commit();
            if (NESTED && k + is::FAR < k_to)
                input.prefetch(in + shape.images[AXIS_Z].source(k + is::FAR) * shape.plane);
            const int past = head + (head < R * is::PLANE ? is::RING - R : -R) * is::PLANE;
            pack<T, V> newest[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                newest[r] = shared_pack(own + head + r * ROW);
#pragma unroll
            for (int t = 0; t < S; t++) {
                if (!PLAIN && t >= shape.steps)
                    continue;
                const pack<T, V>(&centre)[ROWS] = queue[t][(p + R) % Q];
                /* Where that plane is in shared memory. */
                const int plane =
                    t == 0 ? past : (is::RING + 2 * (t - 1) + (p + 1) % 2) * is::PLANE;
                pack<T, V> ys[ROWS + 2 * R]; /* along y */
#pragma unroll
                for (int m = 0; m < R; m++) {
                    ys[m] = shared_pack(below + plane + (ROWS - R + m) * ROW);
                    ys[R + ROWS + m] = shared_pack(above + plane + m * ROW);
                }
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    ys[R + r] = centre[r];
                const point_weights<T, R> &weights = shape.weights[NESTED ? t : 0];
                /* What held points keep a multiple of, and a stage is added to. */
                pack<T, V> old[ROWS];
                const int behind = (t + 1) * R;
                const int level_0 =
                    head + (head < behind * is::PLANE ? is::RING - behind : -behind) * is::PLANE;
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    old[r] = NESTED && t > 0 ? shared_pack(own + level_0 + r * ROW) : centre[r];
                pack<T, V> acc[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    T xs[V + 2 * R];
#pragma unroll
                    for (int m = 0; m < R; m++) {
                        const T left = __shfl_up_sync(~0u, centre[r].v[V - R + m], 1);
                        const T right = __shfl_down_sync(~0u, centre[r].v[m], 1);
                        const T end = beside[plane + r * ROW + m];
                        xs[m] = lane == 0 ? end : left;
                        xs[R + V + m] = lane == 31 ? end : right;
                    }
#pragma unroll
                    for (int v = 0; v < V; v++)
                        xs[R + v] = centre[r].v[v];
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        T x_pair[R], y_pair[R], z_pair[R];
#pragma unroll
                        for (int m = 1; m <= R; m++) {
                            const T next =
                                m == R ? newest[r].v[v] : queue[t][(p + R + m) % Q][r].v[v];
                            x_pair[m - 1] = xs[R + v + m] + xs[R + v - m];
                            y_pair[m - 1] = ys[R + r + m].v[v] + ys[R + r - m].v[v];
                            z_pair[m - 1] = next + queue[t][(p + R - m) % Q][r].v[v];
                        }
                        T a = NESTED ? fused(weights.centre, centre[r].v[v], old[r].v[v])
                                     : weights.centre * centre[r].v[v];
                        if (EQUAL) {
#pragma unroll
                            for (int m = 0; m < R; m++)
                                a = fused(weights.c[AXIS_X][m + 1],
                                          (x_pair[m] + y_pair[m]) + z_pair[m], a);
                        } else {
#pragma unroll
                            for (int m = 0; m < R; m++)
                                a = fused(weights.c[AXIS_X][m + 1], x_pair[m], a);
#pragma unroll
                            for (int m = 0; m < R; m++)
                                a = fused(weights.c[AXIS_Y][m + 1], y_pair[m], a);
#pragma unroll
                            for (int m = 0; m < R; m++)
                                a = fused(weights.c[AXIS_Z][m + 1], z_pair[m], a);
                        }
                        acc[r].v[v] = a;
                    }
                }
                if (!PLAIN) { /* z's, then y's over them, then x's */
                    const bool keeps = NESTED && t < S - 1;
                    temporal_3d_held<T> held_z;
                    if (holds_z)
                        held_z.find(shape, AXIS_Z, k - (t + 1) * R, 1);
                    if (holds_z && held_z.which)
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
#pragma unroll
                            for (int v = 0; v < V; v++)
                                acc[r].v[v] = (keeps ? T(1) : held_z.factor) * old[r].v[v];
                    if (held_y.which)
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
#pragma unroll
                            for (int v = 0; v < V; v++)
                                if (held_y.which >> r & 1)
                                    acc[r].v[v] = (keeps ? T(1) : held_y.factor) * old[r].v[v];
                    if (held_x.which)
#pragma unroll
                        for (int v = 0; v < V; v++)
#pragma unroll
                            for (int r = 0; r < ROWS; r++)
                                if (held_x.which >> v & 1)
                                    acc[r].v[v] = (keeps ? T(1) : held_x.factor) * old[r].v[v];
                }
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    queue[t][p][r] = newest[r];
                    newest[r] = acc[r];
                }
                if (t > 0) /* what the next iteration's planes[t] are */
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        store_shared(own + (is::RING + 2 * (t - 1) + p % 2) * is::PLANE + r * ROW,
                                     queue[t][(p + R + 1) % Q][r]);
            }
            if (k - reach >= z_from) {
                if (shape.packs) {
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        if (stores >> r & 1)
                            store_pack(to + r * nx, newest[r]);
                } else {
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if ((stores >> r & 1) && x + v < x_to)
                                to[r * nx + v] = newest[r].v[v];
                }
            }
            to += shape.plane;
            head = head == (is::RING - 1) * is::PLANE ? 0 : head + is::PLANE;
            if (++k == k_to)
                return;
        }
    }
}
