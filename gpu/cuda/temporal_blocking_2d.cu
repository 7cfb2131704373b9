/* Diffusion in 2D, several steps in one pass over memory.
 *
 *   step:  acc = c0 f;  equal weights on both axes: acc = fma(cm, x pair + y pair, acc), m = 1 … R,
 *          else axis by axis: x, y
 *
 * A warp owns a strip of 32 V points along x and marches along y. A thread has V neighbours of each
 * row in registers; of each of the S time levels it keeps the last 2R + 1 rows. A row that is
 * loaded completes a row of level 1 that is R rows behind it; that one a row of level 2, and so on;
 * the row of level S is stored. Neighbours along x come from the lanes beside by 2R shuffles a row
 * and level. So no level but the first and the last is in memory, and there is no shared memory and
 * no barrier. What the strip's ends lack spreads inwards by R a step: strips overlap by 2 S R
 * points, and marches by as many rows.
 *
 * Issue slots per point and step, V = 4: R = 1, S = 8: 6 of arithmetic, 1/2 shuffle, 1/2 for all
 * else: 7; R = 2, S = 4: 11.6; R = 4, S = 2: 18 + 2 + 2; times 128/112 for the overlap. An H200 has
 * 33 T a second, of which two thirds are used: 2.8, 1.7 and 0.9 T points. Bytes: about 8.6/S.
 *
 * At the edges: images of points evolve as the points do, so periodic and zero derivative are a
 * matter of what is loaded: in packs, or where they are not whole point by point. All else is left
 * to a frame along the edges (frame.cuh). */
#include "gpu/cuda/frame.cuh"

enum {
    LANES = 32,
    TEMPORAL_2D_THREADS = 128,
    TEMPORAL_2D_WARPS = TEMPORAL_2D_THREADS / LANES,
    TEMPORAL_2D_POINTS = 4
};

/* What a strip reads on each side of its results, in whole packs. */
template <int R, int S>
static constexpr int
    temporal_2d_halo = (S * R + TEMPORAL_2D_POINTS - 1) / TEMPORAL_2D_POINTS *TEMPORAL_2D_POINTS;

struct temporal_2d_shape {
    frame_shape frame;
    int64_t items;  /* marches of all strips of all fields: a warp each */
    int64_t blocks; /* of them; those of the frame follow */
    int32_t low[FRAME_AXES], high[FRAME_AXES]; /* the points that strips compute */
    int32_t strips, marches, length;           /* of a march, in rows */
    axis_images<int32_t> rows;
    int32_t packs; /* are rows, and what is left out of them, a multiple of V long? */
};

/* How many steps at once, and how many blocks a multiprocessor has room for: the levels' registers,
 * (2R + 1 to 3) V words each, against 12 warps, with which loads are hidden well enough. Tried on
 * an H200: more steps in 8 warps, fewer in 16 are slower. */
template <typename T> static constexpr int temporal_2d_most(int radius)
{
    return sizeof(T) == 4 ? (radius == 1 ? 8 : radius == 2 ? 4 : 2) : (radius == 1 ? 4 : 2);
}
template <typename T> static constexpr int temporal_2d_blocks = sizeof(T) == 4 ? 3 : 2;

/* V neighbours in memory. */
template <typename T, int V>
static __device__ __forceinline__ void temporal_2d_load(T (&values)[V], const T *from)
{
    constexpr int P = 16 / sizeof(T);
#pragma unroll
    for (int p = 0; p < V; p += P) {
        const pack<T, P> q = load_pack<P>(from + p);
#pragma unroll
        for (int v = 0; v < P; v++)
            values[p + v] = q.v[v];
    }
}
template <typename T, int V>
static __device__ __forceinline__ void temporal_2d_store(const T (&values)[V], T *to)
{
    constexpr int P = 16 / sizeof(T);
#pragma unroll
    for (int p = 0; p < V; p += P) {
        pack<T, P> q;
#pragma unroll
        for (int v = 0; v < P; v++)
            q.v[v] = values[p + v];
        store_pack(to + p, q);
    }
}

/* The V points of a thread in any row. */
template <int V> struct temporal_2d_columns {
    int32_t offset[V];
    unsigned results; /* bit v: point v is one */
    bool packs; /* the same in a warp: are they neighbours, and all of them results or none? */
};

template <typename T, int R> struct temporal_2d_weights {
    T centre, x[R], y[R];
};

/* The last rows of a level: 2R + 1 or more, so that a new one has a place of its own, and as many
 * as loops over rows are unrolled. */
enum { TEMPORAL_2D_AHEAD = 3 }; /* rows on their way from memory */
template <int R>
static constexpr int
    temporal_2d_ring = (2 * R + TEMPORAL_2D_AHEAD) / TEMPORAL_2D_AHEAD *TEMPORAL_2D_AHEAD;

/* One row of the next level: R rows behind the level's newest, which is at `newest` in its ring. */
template <typename T, int R, int V, bool EQUAL>
static __device__ __forceinline__ void
temporal_2d_step(T (&row)[V], const T (&ring)[temporal_2d_ring<R>][V], int newest,
                 const temporal_2d_weights<T, R> &weights)
{
    constexpr int Q = temporal_2d_ring<R>;
    const T(&centre)[V] = ring[(newest - R + Q) % Q];
    T xs[V + 2 * R];
#pragma unroll
    for (int m = 1; m <= R; m++) {
        xs[R - m] = __shfl_up_sync(~0u, centre[V - m], 1);
        xs[R + V - 1 + m] = __shfl_down_sync(~0u, centre[m - 1], 1);
    }
#pragma unroll
    for (int v = 0; v < V; v++)
        xs[R + v] = centre[v];
#pragma unroll
    for (int v = 0; v < V; v++) {
        T acc = weights.centre * centre[v], y[R];
#pragma unroll
        for (int m = 1; m <= R; m++)
            y[m - 1] = ring[(newest - R + m + Q) % Q][v] + ring[(newest - R - m + Q) % Q][v];
#pragma unroll
        for (int m = 1; m <= R; m++) {
            const T x = xs[R + v + m] + xs[R + v - m];
            acc = fused(weights.x[m - 1], EQUAL ? x + y[m - 1] : x, acc);
        }
#pragma unroll
        for (int m = 1; m <= R && !EQUAL; m++)
            acc = fused(weights.y[m - 1], y[m - 1], acc);
        row[v] = acc;
    }
}

/* A march: S levels of a strip, in registers. */
template <typename T, int R, int S, bool EQUAL> struct temporal_2d_march {
    static constexpr int V = TEMPORAL_2D_POINTS, Q = temporal_2d_ring<R>;
    temporal_2d_columns<V> columns;
    temporal_2d_weights<T, R> weights;
    T ring[S][Q][V], ahead[TEMPORAL_2D_AHEAD][V];

    /* The row at y of the input. */
    __device__ __forceinline__ void take(int i, const temporal_2d_shape &shape, const T *in, int y)
    {
        in += shape.rows.source(y) * shape.frame.n[AXIS_X];
#pragma unroll
        for (int v = 0; v < V; v++)
            ahead[i][v] = __ldg(in + columns.offset[v]);
    }

    /* Rounds of Q rows through all S levels, from the march's row `taken` on for as long as their
     * rows are in the field; the first row that is not done. A march's first rows have less work,
     * but what tests for that costs more. */
    template <bool PACKS>
    __device__ __forceinline__ int fast_rounds(const temporal_2d_shape &shape, const T *in, T *out,
                                               int begins, int rows, int taken)
    {
        const int64_t n = shape.frame.n[AXIS_X];
        const int begin = -TEMPORAL_2D_AHEAD - begins,
                  end = min(rows, begin + (int)shape.frame.n[AXIS_Y] - Q + 1);
        const T *from =
            in + (begins + taken + TEMPORAL_2D_AHEAD) * n + (PACKS ? columns.offset[0] : 0);
        T *to = out + (begins + taken - S * R) * n + (PACKS ? columns.offset[0] : 0);
#pragma unroll 1
        for (; taken >= begin && taken < end; taken += Q) {
            if constexpr (!PACKS) { /* four addresses a row: too many to keep */
                from = in + (begins + taken + TEMPORAL_2D_AHEAD) * n;
                to = out + (begins + taken - S * R) * n;
            }
#pragma unroll
            for (int i = 0; i < Q; i++, from += n, to += n) {
                const bool wanted = taken + i >= 2 * S * R && taken + i < rows;
                T row[V];
#pragma unroll
                for (int v = 0; v < V; v++)
                    row[v] = ahead[i % TEMPORAL_2D_AHEAD][v];
                if constexpr (PACKS) {
                    temporal_2d_load(ahead[i % TEMPORAL_2D_AHEAD], from);
                } else {
#pragma unroll
                    for (int v = 0; v < V; v++)
                        ahead[i % TEMPORAL_2D_AHEAD][v] = __ldg(from + columns.offset[v]);
                }
#pragma unroll
                for (int s = 0; s < S; s++) {
#pragma unroll
                    for (int v = 0; v < V; v++)
                        ring[s][i][v] = row[v];
                    temporal_2d_step<T, R, V, EQUAL>(row, ring[s], i, weights);
                }
                if constexpr (PACKS) {
                    if (columns.results && wanted)
                        temporal_2d_store(row, to);
                } else {
#pragma unroll
                    for (int v = 0; v < V; v++)
                        if (columns.results >> v & 1 && wanted)
                            to[columns.offset[v]] = row[v];
                }
            }
        }
        return taken;
    }

    /* Q rows anywhere, through the first levels. `taken` were taken before: does a level have its
     * first 2R rows? The last row's number is end + steps R - 1. */
    __device__ __forceinline__ void slow_rows(const temporal_2d_shape &shape, const T *in, T *out,
                                              int first, int end, int taken)
    {
        const int steps = shape.frame.steps;
#pragma unroll
        for (int i = 0; i < Q; i++) {
            const int rows = taken + i, y = first - steps * R + rows;
            T row[V];
#pragma unroll
            for (int v = 0; v < V; v++)
                row[v] = ahead[i % TEMPORAL_2D_AHEAD][v];
            take(i % TEMPORAL_2D_AHEAD, shape, in, y + TEMPORAL_2D_AHEAD);
#pragma unroll
            for (int s = 0; s < S; s++) {
                if (s >= steps || rows < 2 * R * s)
                    continue;
#pragma unroll
                for (int v = 0; v < V; v++)
                    ring[s][i][v] = row[v];
                if (rows >= 2 * R * (s + 1))
                    temporal_2d_step<T, R, V, EQUAL>(row, ring[s], i, weights);
            }
            if (rows >= 2 * R * steps && y - steps * R < end) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (columns.results >> v & 1)
                        out[(y - steps * R) * shape.frame.n[AXIS_X] + columns.offset[v]] = row[v];
            }
        }
    }
};

/* The column that is read at x. Beyond a side without a map nobody uses it, and packs go on as
 * beyond a periodic one. */
static __device__ __forceinline__ int32_t temporal_2d_column(const struct plan_axis *axis,
                                                             int64_t x)
{
    if (axis->side[x < 0 ? SIDE_LOW : SIDE_HIGH].map > SIDE_MAP_PERIODIC)
        return (int32_t)source(axis, x);
    const int64_t rest = x % axis->n;
    return (int32_t)(rest < 0 ? rest + axis->n : rest);
}

template <typename T, int R, int S, bool EQUAL>
__global__ void __launch_bounds__(TEMPORAL_2D_THREADS, temporal_2d_blocks<T>)
    temporal_2d_kernel(const __grid_constant__ temporal_2d_shape shape, const T *__restrict__ in,
                       T *__restrict__ out)
{
    constexpr int V = TEMPORAL_2D_POINTS, HALO = temporal_2d_halo<R, S>;
    if (blockIdx.x >= shape.blocks) {
        frame_tile<T, R>(shape.frame, blockIdx.x - shape.blocks, in, out);
        return;
    }
    const int64_t item = (int64_t)blockIdx.x * TEMPORAL_2D_WARPS + (int)threadIdx.x / LANES;
    if (item >= shape.items)
        return;
    const int64_t field = item / shape.strips / shape.marches * shape.frame.field;
    const int number = (int)(item / shape.strips % shape.marches);
    const int strip = (int)(item % shape.strips);
    const int first = shape.low[AXIS_Y] + number * shape.length;
    const int end = min(first + shape.length, shape.high[AXIS_Y]);
    const int64_t n = shape.frame.n[AXIS_X];
    const int slot = shape.frame.slot, steps = shape.frame.steps;
    in += field;
    out += field;

    temporal_2d_march<T, R, S, EQUAL> march = {};
    const struct plan_axis *x_axis = &table[slot].plan.axis[AXIS_X];
    const int begin =
        shape.low[AXIS_X] / V * V + strip * (LANES * V - 2 * HALO) - HALO; /* lane 0's x */
    const int lane = (int)threadIdx.x % LANES, x = begin + lane * V;
#pragma unroll
    for (int v = 0; v < V; v++) {
        march.columns.offset[v] = temporal_2d_column(x_axis, x + v);
        if (lane >= HALO / V && lane < LANES - HALO / V && x + v >= shape.low[AXIS_X] &&
            x + v < shape.high[AXIS_X])
            march.columns.results |= 1u << v;
    }
    march.columns.packs =
        shape.packs && (begin >= 0 || x_axis->side[SIDE_LOW].map <= SIDE_MAP_PERIODIC) &&
        (begin + LANES * V <= n || x_axis->side[SIDE_HIGH].map <= SIDE_MAP_PERIODIC);
    march.weights.centre = centre_weight(slot, T());
#pragma unroll
    for (int m = 1; m <= R; m++) {
        march.weights.x[m - 1] = weight(slot, AXIS_X, m, T());
        march.weights.y[m - 1] = weight(slot, AXIS_Y, m, T());
    }

    const int begins = first - steps * R, rows = end - first + 2 * steps * R;
#pragma unroll
    for (int i = 0; i < TEMPORAL_2D_AHEAD; i++)
        march.take(i, shape, in, begins + i);
    const bool fast = steps == S, packs = march.columns.packs;
#pragma unroll 1
    for (int taken = 0; taken < rows; taken += march.Q) {
        if (fast && packs)
            taken = march.template fast_rounds<true>(shape, in, out, begins, rows, taken);
        else if (fast)
            taken = march.template fast_rounds<false>(shape, in, out, begins, rows, taken);
        if (taken < rows)
            march.slow_rows(shape, in, out, first, end, taken);
    }
}

/* --- launching --- */

extern "C" uint64_t temporal_blocking_2d_steps(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X], *y = &plan->axis[AXIS_Y];
    if (!plan->identity || !x->active || !y->active || plan->axis[AXIS_Z].active)
        return 0;
    /* Points outside are images of points inside: one step over the edge; and 32 bits. */
    const int most =
        with_type(plan, [&](auto type) { return temporal_2d_most<decltype(type)>(plan->radius); });
    const int64_t least = (most + 4) * plan->radius + 8;
    if (y->n < least || x->n < least || x->n > INT32_MAX / 4 || y->n > INT32_MAX / 4)
        return 0;
    return (uint64_t)most;
}

/* What a tile of the frame costs, as rows of a march: of 8, 16 and 28 the best on an H200. */
enum { TEMPORAL_2D_FRAME_ROWS = 28 };

/* The number of marches that a strip is cut into: the device works off its warps in waves, and each
 * march costs `extra` rows besides its own, and whole rounds. The frame's tiles come last, in the
 * room that the last wave leaves: it should leave as much as they need. */
static int temporal_2d_marches(int64_t rows, int64_t strips, int64_t warps, int64_t extra,
                               int64_t round, int64_t tiles)
{
    int best = 1;
    int64_t least = INT64_MAX;
    for (int64_t marches = 1; marches <= rows && marches <= 4 * warps / strips + 1; marches++) {
        const int64_t march = blocks_of(blocks_of(rows, marches) + extra, round) * round;
        const int64_t frame = blocks_of(tiles * TEMPORAL_2D_WARPS * TEMPORAL_2D_FRAME_ROWS, march);
        const int64_t waves = blocks_of(strips * marches + frame, warps);
        const int64_t cost = waves * march;
        if (cost < least) {
            least = cost;
            best = (int)marches;
        }
    }
    return best;
}

template <typename T, int R, int S, bool EQUAL>
static cudaError_t temporal_2d_run(const struct geometry *g, const void *in, void *out,
                                   uint64_t steps)
{
    constexpr int V = TEMPORAL_2D_POINTS, WIDTH = LANES * V - 2 * temporal_2d_halo<R, S>,
                  round = temporal_2d_ring<R>;
    const struct plan *plan = g->plan;
    temporal_2d_shape shape = {};
    shape.frame = frame_init(g, (int)steps);
    const int64_t fields = (int64_t)plan->batch, tiles = shape.frame.tiles * fields;
    for (int a = 0; a < FRAME_AXES; a++) {
        const int64_t edge = shape.frame.cut[a] ? shape.frame.reach : 0;
        shape.low[a] = (int32_t)edge;
        shape.high[a] = (int32_t)(shape.frame.n[a] - edge);
    }
    shape.rows = images_of<int32_t>(plan->axis[AXIS_Y].side, plan->axis[AXIS_Y].n);
    shape.packs = shape.frame.n[AXIS_X] % V == 0 && shape.low[AXIS_X] % V == 0;

    auto *const kernel = temporal_2d_kernel<T, R, S, EQUAL>;
    const size_t shared_bytes = frame_shared_bytes(shape.frame, sizeof(T));
    const int64_t rows = shape.high[AXIS_Y] - shape.low[AXIS_Y];
    const int64_t columns = shape.high[AXIS_X] - shape.low[AXIS_X] / V * V;
    if (rows > 0 && columns > 0) {
        int blocks = 0;
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, kernel, TEMPORAL_2D_THREADS, shared_bytes);
        if (error != cudaSuccess)
            return error;
        const int64_t strips = blocks_of(columns, WIDTH), extra = 2 * shape.frame.reach;
        shape.strips = (int32_t)strips;
        shape.marches = temporal_2d_marches(rows, strips * fields,
                                            (int64_t)g->units * blocks * TEMPORAL_2D_WARPS, extra,
                                            round, tiles);
        shape.length =
            (int32_t)(blocks_of(blocks_of(rows, shape.marches) + extra, round) * round - extra);
        shape.marches = (int32_t)blocks_of(rows, shape.length);
        shape.items = strips * shape.marches * fields;
    }
    shape.blocks = blocks_of(shape.items, TEMPORAL_2D_WARPS);
    const int64_t blocks = shape.blocks + tiles;
    return launch_kernel(kernel, g, blocks, dim3(TEMPORAL_2D_THREADS), shared_bytes, shape,
                         (const T *)in, (T *)out);
}

extern "C" cudaError_t temporal_blocking_2d_launch(const struct geometry *g, const void *in,
                                                   void *out, uint64_t steps)
{
    return with_type_and_radius<PLAN_RADIUS>(g, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value, S = temporal_2d_most<T>(R);
        return with_flag(g->plan->shared, [&](auto equal) {
            return temporal_2d_run<T, R, S, decltype(equal)::value>(g, in, out, steps);
        });
    });
}
