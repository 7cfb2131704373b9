/* Even operators in 2D: the Laplacian and a diffusion step, with what a pass adds. A warp has V
 * neighbours for each of its threads and marches down along y. The next rows, and the next ones of
 * what is added, come to a ring of its own in shared memory by asynchronous copies, so that no warp
 * waits for another; a thread has its own points of the rows above and below in registers.
 *
 *   acc = c0 f;  equal weights on both axes: acc = fma(cm, x pair + y pair, acc),
 *   else axis by axis: x, y;  m = 1 … R
 *
 * Bytes of device memory per point: one write and (L + 2R)/L reads for marches of L rows; from L2
 * also what lies beside a warp's part of a row, 8 of 128 (float32, R = 4). */
#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

template <typename T, int R, bool ALIGNED, point_kind KIND> struct rows_of_warp {
    enum {
        V = 16 / sizeof(T),
        UNIT = ALIGNED ? V : 1,     /* of a copy */
        COPIES = V / UNIT,          /* of a thread, of its points of a row */
        WIDE = 32 * V,              /* points of a warp */
        HALO = (R + V - 1) / V * V, /* beside them: whole packs */
        /* The points begin a line, as they do in device memory; a row's right side and the next
         * one's left side fill another. */
        LINE = 128 / sizeof(T),
        PITCH = WIDE + LINE,
        AHEAD = 4, /* rows under way */
        RING = R + 1 + AHEAD,
        TURNS = AHEAD + 1, /* rows of what is added */
        STEPS = 2 * R + 1, /* after so many nothing has to move in a thread's queue */
        WARPS = 4,         /* of a block */
        /* Of a multiprocessor: taps take registers. */
        BLOCKS = KIND == INDEXED ? 2 : 4
    };
    static_assert(2 * HALO <= LINE && 2 * HALO <= 32, "they fill it, a lane each");
    alignas(128) T ring[LINE + RING * PITCH]; /* before the first row a place for its left side */
    T base[KIND == CENTRED ? 1 : TURNS][WIDE], source[KIND == CENTRED ? 1 : TURNS][WIDE];
    T stage[ALIGNED ? 1 : WIDE];
    /* Elements from the R rows before the field, and the R past it, to where they are read. */
    int64_t image[2 * R];
};

template <typename T, int R> struct streaming_2d_shape {
    int64_t n, field;              /* points of a row, elements of a field */
    int64_t low, high;             /* along x: what this kernel computes */
    int32_t rows, begin, end;      /* of a field; those that it computes */
    int32_t length;                /* of a march */
    int64_t parts, marches, items; /* of a row; of a part; of all */
    int32_t slot, shared;
    point_weights<T, R> weights;
    point_terms<T> terms;
    index_rows by_index;
};

/* A thread's copies, row after row: of its points, and of one unit beside the warp's. */
template <typename T, class Rows> struct row_copies {
    uint32_t from[Rows::COPIES], beside; /* in a row of the field, through the maps at its ends */
    int to[Rows::COPIES], to_beside;     /* in a row of the ring */
    bool has[Rows::COPIES], has_beside;  /* has: in the row, so that there is something to add */
};

template <class Rows, typename T>
static __device__ __forceinline__ row_copies<T, Rows>
find_row_copies(const struct plan_axis *axis, int64_t n, int64_t x0, int lane)
{
    row_copies<T, Rows> copies;
    auto image = [&](int64_t x) {
        return (uint32_t)(source(axis, min(x, n + Rows::HALO - 1)) / Rows::UNIT * Rows::UNIT);
    };
#pragma unroll
    for (int i = 0; i < Rows::COPIES; i++) {
        copies.to[i] = Rows::UNIT * (lane + 32 * i);
        copies.has[i] = x0 + copies.to[i] < n;
        copies.from[i] = image(x0 + copies.to[i]);
    }
    const int at = lane * Rows::UNIT;
    copies.has_beside = at < 2 * Rows::HALO;
    copies.to_beside = at < Rows::HALO ? at - Rows::HALO : Rows::WIDE + at - Rows::HALO;
    copies.beside = copies.has_beside ? image(x0 + copies.to_beside) : 0;
    return copies;
}

/* What a row's points beside a thread's own add, and those above and below it: queue has the row at
 * `at`. */
template <int R, int STEPS, typename T, int V, class AlongX>
static __device__ __forceinline__ void
add_neighbours(pack<T, V> &acc, const streaming_2d_shape<T, R> &shape,
               const pack<T, V> (&queue)[STEPS], int at, const AlongX &along_x)
{
    auto y_pair = [&](int m, int v) {
        return queue[(at + m) % STEPS].v[v] + queue[(at + STEPS - m) % STEPS].v[v];
    };
    auto x_pair = [&](int m, int v) { return along_x(v + m) + along_x(v - m); };
    if (shape.shared) {
#pragma unroll
        for (int m = 1; m <= R; m++)
#pragma unroll
            for (int v = 0; v < V; v++)
                acc.v[v] = fused(shape.weights.c[AXIS_X][m], x_pair(m, v) + y_pair(m, v), acc.v[v]);
        return;
    }
#pragma unroll
    for (int m = 1; m <= R; m++)
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(shape.weights.c[AXIS_X][m], x_pair(m, v), acc.v[v]);
#pragma unroll
    for (int m = 1; m <= R; m++)
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(shape.weights.c[AXIS_Y][m], y_pair(m, v), acc.v[v]);
}

/* The taps of a thread's points along x, which it marches down. */
template <typename T, int R, int V> struct taps_along_x {
    T taps[2 * R + 1][V];
    bool has[2][V]; /* the first and the last of them */

    __device__ __forceinline__ taps_along_x(const index_rows &rows, int64_t x, int64_t n)
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (!(rows.axes >> AXIS_X & 1))
                continue;
            const auto row = row_of<T, R>(rows, AXIS_X, min(x + v, n - 1));
            has[0][v] = row.first;
            has[1][v] = row.last;
#pragma unroll
            for (int t = 0; t <= 2 * R; t++)
                taps[t][v] = tap_of<T, R>(row, t);
        }
    }
};

/* The same as add_neighbours() of row y, where axes have coordinates. */
template <int R, int STEPS, typename T, int V, class AlongX>
static __device__ __forceinline__ void
add_by_index(pack<T, V> (&acc)[1], const streaming_2d_shape<T, R> &shape,
             const taps_along_x<T, R, V> &taps, const pack<T, V> (&queue)[STEPS], int at, int y,
             const AlongX &along_x)
{
    const index_rows &rows = shape.by_index;
    auto value_x = [&](int t, int, int v) { return along_x(v + t - R); };
    auto value_y = [&](int t, int, int v) { return queue[(at + STEPS + t - R) % STEPS].v[v]; };
    if (rows.axes >> AXIS_X & 1)
        add_taps<R>(
            acc, [&](int t, int, int v) { return taps.taps[t][v]; }, value_x,
            [&](int t, int, int v) { return taps.has[t > 0][v]; });
    else
        add_pairs<R>(acc, shape.weights.c[AXIS_X], rows.pairs[AXIS_X], value_x);
    if (rows.axes >> AXIS_Y & 1) {
        const auto row = row_of<T, R>(rows, AXIS_Y, y);
        add_taps<R>(
            acc, [&](int t, int, int) { return tap_of<T, R>(row, t); }, value_y,
            [&](int t, int, int) { return t == 0 ? row.first : row.last; });
    } else {
        add_pairs<R>(acc, shape.weights.c[AXIS_Y], rows.pairs[AXIS_Y], value_y);
    }
}

template <typename T, int R, bool ALIGNED, enum point_kind KIND, class Jobs>
__global__ void __launch_bounds__(32 * rows_of_warp<T, R, ALIGNED, KIND>::WARPS,
                                  rows_of_warp<T, R, ALIGNED, KIND>::BLOCKS)
    streaming_2d_kernel(const __grid_constant__ streaming_2d_shape<T, R> shape,
                        const T *__restrict__ in, T *__restrict__ out,
                        const __grid_constant__ Jobs jobs)
{
    using Rows = rows_of_warp<T, R, ALIGNED, KIND>;
    constexpr int V = Rows::V, STEPS = Rows::STEPS, COPIES = Rows::COPIES;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Rows &shared = ((Rows *)shared_memory)[warp];
    T *const ring = shared.ring + Rows::LINE;
    int64_t item = (int64_t)blockIdx.x * Rows::WARPS + warp;
    if (item >= shape.items)
        return;
    const int64_t x0 = item % shape.parts * Rows::WIDE;
    item /= shape.parts;
    const int first = shape.begin + (int)(item % shape.marches) * shape.length;
    const int last = min(first + shape.length, shape.end);
    const int64_t field = item / shape.marches * shape.field;
    own_arrays(in, out, jobs);

    const struct plan_axis *const axis = table[shape.slot].plan.axis;
    const auto copies = find_row_copies<Rows, T>(&axis[AXIS_X], shape.n, x0, lane);
    for (int i = lane; i < 2 * R; i += 32) {
        const int64_t row = i < R ? i - R : shape.rows + i - R;
        shared.image[i] = (source(&axis[AXIS_Y], row) - row) * shape.n;
    }
    __syncwarp();
    const centred_terms<T> terms(shape.terms);
    if constexpr (KIND != CENTRED) {
        for (int i = lane; i < Rows::WIDE; i += 32)
            for (int t = 0; t < Rows::TURNS; t++) {
                shared.base[t][i] = terms.base;
                shared.source[t][i] = terms.source;
            }
        __syncwarp();
    }
    int next = first - R; /* the next row to copy */
    const T *from = in + field + next * shape.n;
    int64_t added = field + first * shape.n + x0; /* … and where what is added to one begins */
    auto copy = [&](int slot, int turn) {
        if (next < last + R) {
            const T *const row = from + (next < 0             ? shared.image[next + R]
                                         : next >= shape.rows ? shared.image[next - shape.rows + R]
                                                              : 0);

            T *const to = ring + slot * Rows::PITCH;
#pragma unroll
            for (int i = 0; i < COPIES; i++)
                __pipeline_memcpy_async(to + copies.to[i], row + copies.from[i],
                                        Rows::UNIT * sizeof(T));
            if (copies.has_beside)
                __pipeline_memcpy_async(to + copies.to_beside, row + copies.beside,
                                        Rows::UNIT * sizeof(T));
            from += shape.n;
        }
        if (KIND != CENTRED && next >= first + R && next < last + R) {
#pragma unroll
            for (int i = 0; i < COPIES; i++) {
                const int at = copies.to[i];
                if (copies.has[i] && shape.terms.base)
                    __pipeline_memcpy_async(&shared.base[turn][at], shape.terms.base + added + at,
                                            Rows::UNIT * sizeof(T));
                if (copies.has[i] && shape.terms.source)
                    __pipeline_memcpy_async(&shared.source[turn][at],
                                            shape.terms.source + added + at,
                                            Rows::UNIT * sizeof(T));
            }
            added += shape.n;
        }
        next++;
        __pipeline_commit();
    };
#pragma unroll 1
    for (int i = 0; i < Rows::AHEAD; i++)
        copy(i, i);

    /* What it stores of a row: of its pack, or of every 32nd point, those that have a bit. */
    unsigned stored = 0;
    const int64_t x = x0 + lane * (ALIGNED ? V : 1);
#pragma unroll
    for (int i = 0; i < V; i++) {
        const int64_t at = x + (ALIGNED ? i : i * 32);
        if (at >= shape.low && at < shape.high)
            stored |= 1u << i;
    }
    T *target = out + field + first * shape.n + x;

    const taps_along_x<T, R, V> taps(KIND == INDEXED ? shape.by_index : index_rows{}, x0 + lane * V,
                                     shape.n);
    /* Set although the march fills it: ptxas may join two that are not. */
    pack<T, V> queue[STEPS] = {};
    int here = Rows::RING - R, turn = 0; /* the slots of the row R before, and of what is added */
    auto slot = [&](int i) { return here + i < Rows::RING ? here + i : here + i - Rows::RING; };
#pragma unroll 1
    for (int k = first - 2 * R; k < last; k += STEPS) {
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (k + s >= last)
                break;
            /* Row k + s + R has come, and all are done with the row before. */
            __pipeline_wait_prior(Rows::AHEAD - 1);
            __syncwarp();
            copy(slot(R + Rows::AHEAD), turn == 0 ? Rows::AHEAD : turn - 1);
            queue[s] = shared_pack(ring + slot(R) * Rows::PITCH + lane * V);
            if (k + s >= first) {
                const T *const row = ring + here * Rows::PITCH + lane * V;
                const pack<T, V> own = queue[(s + R + 1) % STEPS];
                auto along_x = [&](int i) {
                    const int at = (i + Rows::HALO) / V * V - Rows::HALO;
                    return at == 0 ? own.v[i] : shared_pack(row + at).v[i - at];
                };
                pack<T, V> acc[1], base, source;
                if constexpr (KIND != CENTRED) {
                    base = shared_pack(terms.input_is_base ? row : &shared.base[turn][lane * V]);
                    source = shared_pack(&shared.source[turn][lane * V]);
                }
                const T centre = shape.weights.centre;
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[0].v[v] = KIND == INDEXED
                                      ? begin_sum(shape.terms, centre, own.v[v], base.v[v])
                                  : KIND == TERMS ? fused(centre, own.v[v], base.v[v])
                                                  : centre * own.v[v];
                if constexpr (KIND == INDEXED)
                    add_by_index(acc, shape, taps, queue, (s + R + 1) % STEPS, k + s, along_x);
                else
                    add_neighbours(acc[0], shape, queue, (s + R + 1) % STEPS, along_x);
#pragma unroll
                for (int v = 0; v < V && KIND != CENTRED; v++)
                    acc[0].v[v] = fused(terms.dt, source.v[v], acc[0].v[v]);
                if constexpr (ALIGNED) {
                    if (stored == (1u << V) - 1)
                        store_pack(target, acc[0]);
                    else
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if (stored >> v & 1)
                                target[v] = acc[0].v[v];
                } else {
                    /* Through shared memory, so that a warp stores whole lines. */
                    store_shared(&shared.stage[lane * V], acc[0]);
                    __syncwarp();
#pragma unroll
                    for (int i = 0; i < V; i++)
                        if (stored >> i & 1)
                            target[i * 32] = shared.stage[lane + i * 32];
                }
                target += shape.n;
            }
            here = slot(1);
            turn = turn == Rows::AHEAD ? 0 : turn + 1;
        }
    }
}

template <typename T, int R, bool ALIGNED, enum point_kind KIND>
static cudaError_t launch_rows(const struct geometry *g, const struct table_pass *pass)
{
    using Rows = rows_of_warp<T, R, ALIGNED, KIND>;
    const struct plan *plan = g->plan;
    streaming_2d_shape<T, R> shape = {};
    shape.n = plan->axis[AXIS_X].n;
    shape.rows = (int32_t)plan->axis[AXIS_Y].n;
    shape.field = (int64_t)plan->points;
    shape.low = g->low[AXIS_X];
    shape.high = g->high[AXIS_X];
    shape.begin = (int32_t)g->low[AXIS_Y];
    shape.end = (int32_t)g->high[AXIS_Y];
    shape.slot = g->slot;
    shape.shared = plan->shared;
    shape.weights = weights_of<T, R>(plan, pass);
    shape.terms = terms_of<T>(plan, pass);
    shape.by_index = index_rows_of(g, pass);
    shape.parts = blocks_of(shape.n, Rows::WIDE);
    const int64_t rows = shape.end - shape.begin, columns = shape.parts * (int64_t)plan->batch;
    shape.length = (int32_t)column_length(
        rows, columns, (int64_t)g->units * Rows::WARPS * Rows::BLOCKS, 2 * R + Rows::AHEAD);
    shape.marches = blocks_of(rows, shape.length);
    shape.items = columns * shape.marches;
    kernel_pair<streaming_2d_shape<T, R>, T> kernel = {
        streaming_2d_kernel<T, R, ALIGNED, KIND, one_job>, nullptr};
    if constexpr (KIND == CENTRED && R <= PLAN_RADIUS) /* of a plain plan */
        kernel.several = streaming_2d_kernel<T, R, ALIGNED, KIND, job_arrays>;
    return launch_blocks(kernel, blocks_of(shape.items, Rows::WARPS), dim3(32 * Rows::WARPS), g,
                         shape, pass, Rows::WARPS * sizeof(Rows));
}

template <typename T, int R, enum point_kind KIND>
static cudaError_t launch_kind(const struct geometry *g, const struct table_pass *pass)
{
    return packs_go_on(g->plan) ? launch_rows<T, R, true, KIND>(g, pass)
                                : launch_rows<T, R, false, KIND>(g, pass);
}

extern "C" cudaError_t streaming_2d_launch(const struct geometry *g, const struct table_pass *pass)
{
    return with_type_and_radius<CENTRED_RADIUS>(g, [&](auto type, auto radius) -> cudaError_t {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        if constexpr (R > 1) /* second derivatives by index */
            if (g->plan->indexed)
                return launch_kind<T, R, INDEXED>(g, pass);
        if constexpr (R <= TABLE_RADIUS)
            return has_terms(g->plan, pass) ? launch_kind<T, R, TERMS>(g, pass)
                                            : launch_kind<T, R, CENTRED>(g, pass);
        return cudaErrorInvalidValue;
    });
}
