/* A derivative along x by coordinates: each point has a row of its own. A warp has V neighbours for
 * each of its threads, and their taps in registers, and marches down all rows of the fields: the
 * next rows come to a ring of its own in shared memory by asynchronous copies, so that no warp
 * waits for another. Marches take turns: rows that are worked on at a time lie together. Closures
 * at the ends of a row have a lane each beside its pack.
 *
 * Bytes of device memory per point: one read and one write; from L2 as many as lie beside a warp's
 * part of a row, 16 of 128 (float32, R = 4). */
#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

template <typename T, int R, int V> struct indexed_row {
    enum {
        WARPS = 4,
        WIDE = 32 * V,              /* points of a warp */
        HALO = (R + V - 1) / V * V, /* beside them: whole packs */
        /* In the ring, so that closures of the last points are within. */
        BESIDE = (2 * R + V - 1) / V * V,
        AHEAD = 6, /* rows under way */
        RING = AHEAD + 1,
        PITCH = WIDE + 2 * BESIDE
    };
    T ring[WARPS][RING][PITCH];
    static_assert(2 * BESIDE <= 32, "a lane each");
};

template <typename T, int R> struct along_x_indexed_shape {
    int64_t n, rows;        /* of a row; of all fields */
    int64_t low, high;      /* the points that this kernel computes */
    int64_t parts, marches; /* of a row; side by side */
    int32_t slot;
    T centre;
    point_terms<T> terms;
    index_rows by_index;
};

/* ODD: a derivative of odd order, whose rows all have 2R + 1 taps, and to which nothing is added.
 */
template <typename T, int R, int V, bool ODD>
__global__ void __launch_bounds__(32 * indexed_row<T, R, V>::WARPS, 4)
    along_x_indexed_kernel(const __grid_constant__ along_x_indexed_shape<T, R> shape,
                           const T *__restrict__ in, T *__restrict__ out,
                           const __grid_constant__ one_job)
{
    using Row = indexed_row<T, R, V>;
    constexpr int HALO = Row::HALO, BESIDE = Row::BESIDE, AHEAD = Row::AHEAD;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    Row &shared = *(Row *)shared_memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t item = (int64_t)blockIdx.x * Row::WARPS + warp;
    const int64_t x0 = item % shape.parts * Row::WIDE, x = x0 + lane * V;
    const int64_t first = item / shape.parts, step = shape.marches * shape.n;
    if (first >= shape.marches)
        return;

    /* A lane copies its own pack of a row, and a point beside the warp's; past the row's end lie
     * images. */
    auto image = [&](int64_t at) {
        return source(&table[shape.slot].plan.axis[AXIS_X], min(at, shape.n + HALO - 1));
    };
    const int beside = lane < BESIDE ? lane : Row::WIDE + lane; /* in the ring's row */
    const T *own_from = in + first * shape.n + image(x) / V * V,
            *beside_from = in + first * shape.n + image(x0 - BESIDE + beside);
    T(*const ring)[Row::PITCH] = shared.ring[warp];
    auto copy = [&](int64_t row, int slot) {
        if (row < shape.rows) {
            __pipeline_memcpy_async(&ring[slot][BESIDE + lane * V], own_from, V * sizeof(T));
            if (lane < 2 * BESIDE)
                __pipeline_memcpy_async(&ring[slot][beside], beside_from, sizeof(T));
            own_from += step;
            beside_from += step;
        }
        __pipeline_commit();
    };
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++)
        copy(first + i * shape.marches, i);

    auto is_computed = [&](int64_t at) { return at >= shape.low && at < shape.high; };
    constexpr int TAPS = 2 * R + ODD; /* of others the first or the last, in one place */
    T taps[TAPS][V];
    unsigned has = 0, stored = 0; /* a bit each: first ones, then last ones; points */
#pragma unroll
    for (int v = 0; v < V; v++) {
        const auto row = row_of<T, R>(shape.by_index, AXIS_X, min(x + v, shape.n - 1));
        has |= (unsigned)row.first << v | (unsigned)row.last << (V + v);
        stored |= (unsigned)(is_computed(x + v) && row.shift == 0) << v;
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            taps[t][v] = tap_of<T, R>(row, ODD || t > 0 || row.first ? t : 2 * R);
    }
    auto has_tap = [&](int t, int, int v) { return ODD || (has >> (t > 0 ? V + v : v) & 1) != 0; };

    /* Of the closures of R points at each end of a row a lane has one. */
    const int64_t closed = lane < R ? lane : shape.n - 2 * R + lane;
    const bool is_mine = lane < 2 * R && closed >= x0 && closed < x0 + Row::WIDE;
    const auto closure =
        row_of<T, R>(shape.by_index, AXIS_X, is_mine ? closed : min(x, shape.n - 1));
    const bool closes = is_mine && is_computed(closed) && closure.shift != 0;
    const int from = (int)(closed - x0) + BESIDE + closure.shift - R; /* in the ring's row */
    T closure_taps[2 * R + 1];
#pragma unroll
    for (int t = 0; t <= 2 * R; t++)
        closure_taps[t] = tap_of<T, R>(closure, t);

    const centred_terms<T> terms(shape.terms);
    const T nothing =
        ODD || shape.terms.has_centre ? terms.base : T(0); /* where there is no base */
    auto begin = [&](T f, T base) {
        const T own = terms.input_is_base ? f : base;
        return !ODD && shape.terms.has_centre ? fused(shape.centre, f, own) : own;
    };
    auto end = [&](T acc, T source) { return ODD ? acc : fused(terms.dt, source, acc); };
    auto load = [&](const T *array, int64_t at, auto other) {
        return !ODD && array ? load_once(array + at, &other) : other;
    };

    T *target = out + first * shape.n;
    int slot = 0;
#pragma unroll 1
    for (int64_t row = first; row < shape.rows; row += shape.marches) {
        pack<T, V> acc[1], source;
#pragma unroll
        for (int v = 0; v < V; v++) {
            acc[0].v[v] = nothing;
            source.v[v] = terms.source;
        }
        const int64_t at = row * shape.n + min(x, shape.n - V);
        acc[0] = load(shape.terms.base, at, acc[0]);
        source = load(shape.terms.source, at, source);
        __pipeline_wait_prior(AHEAD - 1);
        __syncwarp();
        copy(row + AHEAD * shape.marches, slot == 0 ? AHEAD : slot - 1);
        const T *const points = ring[slot], *const own = points + BESIDE + lane * V;
        T xs[V + 2 * HALO];
#pragma unroll
        for (int i = 0; i < V + 2 * HALO; i += V) {
            const T *const from = own - HALO + i;
            if constexpr (V == 1) {
                xs[i] = *from;
            } else {
                const pack<T, V> q = shared_pack(from);
#pragma unroll
                for (int v = 0; v < V; v++)
                    xs[i + v] = q.v[v];
            }
        }
        slot = slot == AHEAD ? 0 : slot + 1;
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[0].v[v] = begin(xs[HALO + v], acc[0].v[v]);
        add_taps<R>(
            acc, [&](int t, int, int v) { return taps[t % TAPS][v]; },
            [&](int t, int, int v) { return xs[HALO - R + v + t]; }, has_tap);
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[0].v[v] = end(acc[0].v[v], source.v[v]);
        if (stored == (1u << V) - 1)
            store_pack(target + x, acc[0]);
        else
#pragma unroll
            for (int v = 0; v < V; v++)
                if (stored >> v & 1)
                    target[x + v] = acc[0].v[v];
        if (closes) {
            const int64_t there = row * shape.n + closed;
            pack<T, 1> sum[1] = {{nothing}}, added = {{terms.source}};
            sum[0] = load(shape.terms.base, there, sum[0]);
            added = load(shape.terms.source, there, added);
            sum[0].v[0] = begin(points[from + R - closure.shift], sum[0].v[0]);
            add_taps<R>(
                sum, [&](int t, int, int) { return closure_taps[t]; },
                [&](int t, int, int) { return points[from + t]; },
                [&](int t, int, int) { return t == 0 ? closure.first : closure.last; });
            target[closed] = end(sum[0].v[0], added.v[0]);
        }
        target += step;
    }
}

template <typename T, int R, int V>
static cudaError_t launch_indexed(const struct geometry *g, const struct table_pass *pass)
{
    using Row = indexed_row<T, R, V>;
    const struct plan *plan = g->plan;
    along_x_indexed_shape<T, R> shape = {};
    shape.n = plan->axis[AXIS_X].n;
    shape.rows = (int64_t)(plan->points * plan->batch) / shape.n;
    shape.low = g->low[AXIS_X];
    shape.high = g->high[AXIS_X];
    shape.slot = g->slot;
    shape.centre = weights_of<T, R>(plan, pass).centre;
    shape.terms = terms_of<T>(plan, pass);
    shape.by_index = index_rows_of(g, pass);
    shape.parts = blocks_of(shape.n, Row::WIDE);
    /* Enough warps to fill the device, of marches that are worth their taps. */
    const int64_t most = blocks_of((int64_t)g->units * 16, shape.parts);
    const int64_t worth = shape.rows / (2 * Row::AHEAD);
    shape.marches = worth < 1 ? 1 : worth < most ? worth : most;
    return launch_kernel(plan->parity == PLAN_ODD ? along_x_indexed_kernel<T, R, V, true>
                                                  : along_x_indexed_kernel<T, R, V, false>,
                         g, blocks_of(shape.parts * shape.marches, Row::WARPS),
                         dim3(32 * Row::WARPS), sizeof(Row), shape, (const T *)pass->in[0],
                         (T *)pass->out[0], one_job());
}

extern "C" cudaError_t along_x_indexed_launch(const struct geometry *g,
                                              const struct table_pass *pass)
{
    const struct plan_axis *axis = &g->plan->axis[AXIS_X];
    const int32_t map = axis->side[SIDE_HIGH].map;
    return with_type_and_radius<CENTRED_RADIUS>(g, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value, V = 16 / sizeof(T);
        /* Past the end of a row that ends within a warp's part there may be images. */
        const bool is_whole = axis->n % indexed_row<T, R, V>::WIDE == 0 || map == SIDE_MAP_NONE ||
                              map == SIDE_MAP_PERIODIC;
        return is_whole && axis->n % V == 0 ? launch_indexed<T, R, V>(g, pass)
                                            : launch_indexed<T, R, 1>(g, pass);
    });
}
