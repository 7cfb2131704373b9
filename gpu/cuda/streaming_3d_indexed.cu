/* Even operators in 3D where an axis has coordinates, so that each of its indices has a row of its
 * own. A block marches a column of the grid along z, with a ring of planes in shared memory that
 * asynchronous copies fill ahead; a thread has a pack of two rows, and of R planes above and below
 * them, in registers.
 *
 *   acc = c0 f (other axes) + axis by axis: x, y, z; of up to 2R taps, or else of pairs
 *
 * Taps along x are a thread's own for the whole march and stay in its registers; those along y are
 * a warp's, and those along z a block's, which come with the planes: both are read from shared
 * memory once for all points of a thread.
 *
 * Per point, float32 and R = 5: 33 fused multiply-adds, 2.5 loads of packs from shared memory and
 * 1.2 of taps, 0.5 copies. A load of a pack takes shared memory four cycles, one of taps, which all
 * lanes read, one. From L2 in all, with what lies over the sides of a column of 128 × 16 points:
 * 1.8 reads a point. */
#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

template <typename T, int R> struct indexed_column {
    enum {
        V = 16 / sizeof(T),
        ROWS = 2,        /* of a pack each that a thread computes of a plane */
        LEAST_WARPS = 4, /* of a block, one beside another along y */
        MOST_WARPS = 8,
        STEPS = 3, /* from one turn of the queue to the next */
        AHEAD = 2, /* planes under way */
        RING = R + 1 + AHEAD,
        X = 32 * V,
        HALO = (R + V - 1) / V * V, /* along x: whole packs */
        LINE = 128 / sizeof(T),
        PITCH = X + LINE,          /* a row's right side and the next one's left side fill a line */
        TAPS = (2 * R + V) / V * V /* room for 2R + 1 */
    };
    static_assert(2 * HALO <= LINE, "two sides fit in a line");
    /* Rows of a plane in the ring of so many warps. */
    static constexpr __device__ __host__ int height(int warps)
    {
        return warps * ROWS + 2 * R;
    }
    using Row = std::remove_const_t<std::remove_pointer_t<decltype(table_row_at(0, 0, T()))>>;
    alignas(16) Row row_z[RING]; /* of the ring's planes */
    int32_t beyond[2 * R];       /* the sources of R planes before the march and R past the grid */
    alignas(16) T taps_y[MOST_WARPS * ROWS][TAPS];
    /* Then the planes and, where rows are not packs, for each warp what it stores. */
    alignas(128) T ring[LINE];
};

template <typename T, int R> struct streaming_3d_indexed_shape : marched_grid {
    point_weights<T, R> weights;
    point_terms<T> terms;
    index_rows by_index;
};

/* What a thread knows of its points: a bit each, from these on. */
template <int V, int ROWS> struct point_bits {
    enum {
        FIRST_X = 0,          /* has the row along x of point v the first tap … */
        LAST_X = FIRST_X + V, /* … and the last one? */
        FIRST_Y = LAST_X + V, /* those along y of its row r? */
        LAST_Y = FIRST_Y + ROWS,
        OWN = LAST_Y + ROWS, /* is point v computed? */
        STORED = OWN + V     /* the point 32v from the warp's first on and the lane? */
    };
};

/* How a block's threads copy a plane: a warp every so many rows between the column's sides, a lane
 * every 32nd unit of them; and each thread some of what lies past the sides. Past the last point
 * that the column's points reach, that one again. */
template <typename T, int R, bool ALIGNED> struct plane_copies {
    using Column = indexed_column<T, R>;
    enum {
        UNIT = ALIGNED ? (int)Column::V : 1,
        LEAST = Column::LEAST_WARPS, /* of which each has the most to do */
        LEAST_HEIGHT = LEAST * Column::ROWS + 2 * R,
        COPIES_X = Column::V / UNIT,
        COPIES_Y = (LEAST_HEIGHT + LEAST - 1) / LEAST,
        SIDES = (2 * Column::HALO / UNIT * LEAST_HEIGHT + 32 * LEAST - 1) / (32 * LEAST)
    };
    uint32_t inner_x[COPIES_X], inner_y[COPIES_Y], side[SIDES];
    int side_to[SIDES];

    __device__ __forceinline__ plane_copies(const streaming_3d_indexed_shape<T, R> &shape,
                                            int64_t x0, int64_t y0)
    {
        constexpr int HALO = Column::HALO;
        const struct plan_axis *const axis = table[shape.slot].plan.axis;
        const int thread = threadIdx.x, warps = blockDim.x / 32;
        auto from_x = [&](int i) {
            const int64_t at = min(x0 + i, shape.n + HALO - 1);
            return (uint32_t)(source(&axis[AXIS_X], at) / UNIT * UNIT);
        };
        auto from_y = [&](int row) {
            const int64_t at = min(y0 - R + row, shape.high[AXIS_Y] + R - 1);
            return (uint32_t)(source(&axis[AXIS_Y], at) * shape.n);
        };
#pragma unroll
        for (int j = 0; j < COPIES_X; j++)
            inner_x[j] = from_x((thread % 32 + j * 32) * UNIT);
#pragma unroll
        for (int j = 0; j < COPIES_Y; j++)
            inner_y[j] = from_y(thread / 32 + j * warps);
#pragma unroll
        for (int j = 0; j < SIDES; j++) {
            const int i = (thread + j * warps * 32) * UNIT, row = i / (2 * HALO);
            const int at = i % (2 * HALO) - HALO, in_row = at < 0 ? at : at + Column::X;
            side[j] = from_x(in_row) + from_y(row);
            side_to[j] = row < Column::height(warps) ? row * Column::PITCH + in_row : -1;
        }
    }
    /* Begin to copy the plane to one of the ring. */
    __device__ __forceinline__ void begin(T *to, const T *plane) const
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
        for (int i = 0; i < COPIES_Y; i++)
            if (warp + i * warps < Column::height(warps))
#pragma unroll
                for (int j = 0; j < COPIES_X; j++)
                    __pipeline_memcpy_async(to + (warp + i * warps) * Column::PITCH +
                                                (lane + j * 32) * UNIT,
                                            plane + (inner_y[i] + inner_x[j]), UNIT * sizeof(T));
#pragma unroll
        for (int j = 0; j < SIDES; j++)
            if (side_to[j] >= 0)
                __pipeline_memcpy_async(to + side_to[j], plane + side[j], UNIT * sizeof(T));
    }
};

/* acc + what lies along x of the pack f, which is at `at` in the ring. */
template <typename T, int R, int V>
static __device__ __forceinline__ void
add_along_x(const streaming_3d_indexed_shape<T, R> &shape, pack<T, V> &acc, const pack<T, V> &f,
            const T *at, const T (&taps)[2 * R][V], unsigned bits)
{
    using bit = point_bits<V, indexed_column<T, R>::ROWS>;
    constexpr int HALO = indexed_column<T, R>::HALO;
    pack<T, V> sum[1] = {acc};
    T row[V + 2 * HALO];
#pragma unroll
    for (int i = 0; i < V + 2 * HALO; i += V) {
        const pack<T, V> q = i == HALO ? f : shared_pack(at + i - HALO);
#pragma unroll
        for (int v = 0; v < V; v++)
            row[i + v] = q.v[v];
    }
    auto tap = [&](int t, int, int v) { return taps[t % (2 * R)][v]; };
    auto value = [&](int t, int, int v) { return row[HALO - R + v + t]; };
    auto has = [&](int t, int, int v) {
        return (bits >> ((t == 0 ? bit::FIRST_X : bit::LAST_X) + v) & 1) != 0;
    };
    if (shape.by_index.axes >> AXIS_X & 1)
        add_taps<R>(sum, tap, value, has);
    else
        add_pairs<R>(sum, shape.weights.c[AXIS_X], shape.by_index.pairs[AXIS_X], value);
    acc = sum[0];
}

/* acc + what lies along y of the packs f: each row is read once for all. */
template <typename T, int R, int ROWS, int V, int TAPS>
static __device__ __forceinline__ void
add_along_y(const streaming_3d_indexed_shape<T, R> &shape, pack<T, V> (&acc)[ROWS],
            const pack<T, V> (&f)[ROWS], const T *at, const T (*taps)[TAPS], unsigned bits)
{
    using bit = point_bits<V, ROWS>;
    auto row = [&](int i) {
        return i >= 0 && i < ROWS ? f[i] : shared_pack(at + i * indexed_column<T, R>::PITCH);
    };
    if (!(shape.by_index.axes >> AXIS_Y & 1)) {
        add_pairs<R>(acc, shape.weights.c[AXIS_Y], shape.by_index.pairs[AXIS_Y],
                     [&](int t, int r, int v) { return row(r + t - R).v[v]; });
        return;
    }
    pack<T, V> tap[ROWS];
#pragma unroll
    for (int i = -R; i < ROWS + R; i++) {
        const pack<T, V> q = row(i);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int t = i - r + R;
            if (t < 0 || t > 2 * R)
                continue;
            if (t % V == 0)
                tap[r] = shared_pack(taps[r] + t);
            if ((t > 0 && t < 2 * R) || bits >> ((t == 0 ? bit::FIRST_Y : bit::LAST_Y) + r) & 1)
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[r].v[v] = fused(tap[r].v[t % V], q.v[v], acc[r].v[v]);
        }
    }
}

/* acc + what lies along z of plane k: value(t, r, v), with plane k's row. */
template <typename T, int R, int ROWS, int V, class Row, class Value>
static __device__ __forceinline__ void add_along_z(const streaming_3d_indexed_shape<T, R> &shape,
                                                   pack<T, V> (&acc)[ROWS], const Value &value,
                                                   const Row &row, int k)
{
    auto tap = [&](int t) { return shared_pack(row.w + t / V * V).v[t % V]; };
    if (!(shape.by_index.axes >> AXIS_Z & 1))
        add_pairs<R>(acc, shape.weights.c[AXIS_Z], shape.by_index.pairs[AXIS_Z], value);
    else if (row.first == k - R)
        add_taps<R>(
            acc, [&](int t, int, int) { return tap(t); }, value,
            [](int t, int, int) { return t == 0; });
    else
        add_taps<R>(
            acc, [&](int t, int, int) { return tap(t - 1); }, value,
            [&](int t, int, int) { return t > 0 && row.count == 2 * R; });
}

/* ALIGNED: rows are whole packs, and so is what lies past their ends. */
template <typename T, int R, bool ALIGNED>
__global__ void __launch_bounds__(32 * indexed_column<T, R>::MOST_WARPS, 1)
    streaming_3d_indexed_kernel(const __grid_constant__ streaming_3d_indexed_shape<T, R> shape,
                                const T *__restrict__ in, T *__restrict__ out,
                                const __grid_constant__ one_job)
{
    using Column = indexed_column<T, R>;
    constexpr int V = Column::V, ROWS = Column::ROWS, STEPS = Column::STEPS, RING = Column::RING;
    using bit = point_bits<V, ROWS>;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    Column &shared = *(Column *)shared_memory;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int warps = blockDim.x / 32, plane = Column::height(warps) * Column::PITCH;
    T *const planes = shared.ring + Column::LINE; /* where their first rows have x0 */

    const marched_column mine = find_column(shape, Column::X, warps * ROWS);
    const int64_t x0 = mine.x0, y0 = mine.y0, field = mine.field;
    const int first = mine.first, last = mine.last;
    in += field;
    const int64_t x = x0 + lane * V, y = y0 + warp * ROWS;

    T taps_x[2 * R][V] = {}; /* the first or the last, whichever there is, in one place */
    T(*const taps_y)[Column::TAPS] = shared.taps_y + warp * ROWS;
    unsigned bits = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        if (shape.by_index.axes >> AXIS_X & 1) {
            const auto row = row_of<T, R>(shape.by_index, AXIS_X, min(x + v, shape.n - 1));
            bits |= (unsigned)row.first << (bit::FIRST_X + v);
            bits |= (unsigned)row.last << (bit::LAST_X + v);
#pragma unroll
            for (int t = 0; t < 2 * R; t++)
                taps_x[t][v] = tap_of<T, R>(row, t > 0 || row.first ? t : 2 * R);
        }
        auto computed = [&](int64_t at) {
            return (unsigned)(at >= shape.low[AXIS_X] && at < shape.high[AXIS_X]);
        };
        bits |= computed(x + v) << (bit::OWN + v);
        bits |= computed(x0 + v * 32 + lane) << (bit::STORED + v);
    }
#pragma unroll
    for (int r = 0; r < ROWS && shape.by_index.axes >> AXIS_Y & 1; r++) {
        const auto row = row_of<T, R>(shape.by_index, AXIS_Y, min(y + r, shape.rows - 1));
        bits |= (unsigned)row.first << (bit::FIRST_Y + r);
        bits |= (unsigned)row.last << (bit::LAST_Y + r);
        if (lane <= 2 * R)
            taps_y[r][lane] = tap_of<T, R>(row, lane);
    }
    auto is = [&](int number) { return (bits >> number & 1) != 0; };

    if (thread < 2 * R) { /* R planes before the march, R past the grid */
        const int64_t at = thread < R ? first - R + thread : shape.planes + thread - R;
        shared.beyond[thread] = (int32_t)source(&table[shape.slot].plan.axis[AXIS_Z], at);
    }
    __syncthreads();
    const plane_copies<T, R, ALIGNED> copies(shape, x0, y0);
    const T *next = in + first * shape.plane; /* the next plane to copy, were there no edge */
    auto copy = [&](int z, int slot) {
        if (z >= last + R)
            return;
        copies.begin(planes + slot * plane,
                     z < shape.planes ? next
                                      : in + shared.beyond[R + z - shape.planes] * shape.plane);
        next += shape.plane;
        if (shape.by_index.axes >> AXIS_Z & 1 && z < last &&
            thread < (int)(sizeof(typename Column::Row) / 8))
            __pipeline_memcpy_async(
                (int64_t *)&shared.row_z[slot] + thread,
                (const int64_t *)index_row_at<T>(shape.by_index, AXIS_Z, z) + thread, 8);
    };
#pragma unroll 1
    for (int i = 0; i < R + Column::AHEAD; i++) {
        copy(first + i, i);
        if (i >= R)
            __pipeline_commit();
    }

    /* The thread's computed points, of row r, of a plane of an array. */
    const int rows = (int)min(shape.high[AXIS_Y] - y, (int64_t)ROWS);
    constexpr unsigned ALL = (1u << V) - 1;
    auto load = [&](const T *array, int r) {
        const T *const from = array + (y + r) * shape.n + x;
        pack<T, V> q = {};
        if (r < rows && ALIGNED && bits >> bit::OWN & ALL) {
            q = load_once(from, &q);
        } else if (r < rows && !ALIGNED) {
#pragma unroll
            for (int v = 0; v < V; v++)
                if (is(bit::OWN + v))
                    q.v[v] = __ldcs(from + v);
        }
        return q;
    };
    pack<T, V> queue[2 * R + STEPS][ROWS]; /* of the planes k − R … */
    const int own = (warp * ROWS + R) * Column::PITCH + lane * V;
    auto row_of_ring = [&](int slot, int r) {
        return shared_pack(planes + slot * plane + own + r * Column::PITCH);
    };
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            queue[i][r] = load(in + shared.beyond[i] * shape.plane, r);
    __pipeline_wait_prior(Column::AHEAD - 1);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            queue[R + i][r] = row_of_ring(i, r);

    int64_t to_plane = field + first * shape.plane;
    int here = 0; /* the slot of the plane at hand; i planes on: */
    auto slot = [&](int i) { return here + i < RING ? here + i : here + i - RING; };
#pragma unroll 1
    for (int k = first; k < last; k += STEPS) {
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (k + s >= last)
                break;
            pack<T, V> acc[ROWS], base[ROWS], added[ROWS];
            const pack<T, V>(&f)[ROWS] = queue[R + s];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (shape.terms.base)
                    base[r] = load(shape.terms.base + to_plane, r);
                if (shape.terms.source)
                    added[r] = load(shape.terms.source + to_plane, r);
            }
            /* All have the planes to R past this one, and are done with the one before. */
            __pipeline_wait_prior(Column::AHEAD - 1);
            __syncthreads();
            copy(k + s + R + Column::AHEAD, slot(R + Column::AHEAD));
            __pipeline_commit();

            const T *const at = planes + here * plane + own;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                queue[2 * R + s][r] = row_of_ring(slot(R), r);
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[r].v[v] = 0;
            }
            if (shape.terms.has_base || shape.terms.has_centre) {
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int v = 0; v < V; v++)
                        acc[r].v[v] =
                            begin_sum(shape.terms, shape.weights.centre, f[r].v[v], base[r].v[v]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_along_x(shape, acc[r], f[r], at + r * Column::PITCH, taps_x, bits);
            add_along_y(shape, acc, f, at, taps_y, bits);
            add_along_z(
                shape, acc, [&](int t, int r, int v) { return queue[s + t][r].v[v]; },
                shared.row_z[here], k + s);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[r].v[v] = end_sum(shape.terms, acc[r].v[v], added[r].v[v]);

            T *const to = out + to_plane + y * shape.n;
            if constexpr (ALIGNED) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (r < rows && (bits >> bit::OWN & ALL) == ALL) {
                        store_pack(to + r * shape.n + x, acc[r]);
                    } else if (r < rows) {
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if (is(bit::OWN + v))
                                to[r * shape.n + x + v] = acc[r].v[v];
                    }
                }
            } else {
                /* Through shared memory, so that a warp stores whole lines. */
                T *const stage = planes + RING * plane + warp * ROWS * Column::X;
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    store_shared(stage + r * Column::X + lane * V, acc[r]);
                __syncwarp();
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int v = 0; v < V; v++)
                        if (r < rows && is(bit::STORED + v))
                            to[r * shape.n + x0 + v * 32 + lane] =
                                stage[r * Column::X + v * 32 + lane];
                __syncwarp();
            }
            to_plane += shape.plane;
            here = slot(1);
        }
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                queue[i][r] = queue[i + STEPS][r];
    }
}

template <typename T, int R, bool ALIGNED>
static cudaError_t launch_column(const struct geometry *g, const struct table_pass *pass)
{
    using Column = indexed_column<T, R>;
    /* As many warps as a block's memory has room for. */
    int warps = 2 * Column::MOST_WARPS;
    size_t bytes;
    do {
        warps /= 2;
        const int elements = Column::RING * Column::PITCH * Column::height(warps) +
                             (ALIGNED ? 0 : warps * Column::ROWS * Column::X);
        bytes = sizeof(Column) + (size_t)elements * sizeof(T);
    } while (warps > Column::LEAST_WARPS && bytes > (size_t)block_shared_bytes());
    streaming_3d_indexed_shape<T, R> shape = {};
    shape.weights = weights_of<T, R>(g->plan, pass);
    shape.terms = terms_of<T>(g->plan, pass);
    shape.by_index = index_rows_of(g, pass);
    const int64_t blocks =
        divide_grid(&shape, g, Column::X, warps * Column::ROWS, g->units, R + Column::AHEAD);
    return launch_kernel(streaming_3d_indexed_kernel<T, R, ALIGNED>, g, blocks,
                         dim3((unsigned)warps * 32), bytes, shape, (const T *)pass->in[0],
                         (T *)pass->out[0], one_job());
}

extern "C" cudaError_t streaming_3d_indexed_launch(const struct geometry *g,
                                                   const struct table_pass *pass)
{
    return with_type_and_radius<TABLE_RADIUS>(g, [&](auto type, auto radius) -> cudaError_t {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        if constexpr (R > 1) /* second derivatives by index take a point more on either side */
            return packs_go_on(g->plan) ? launch_column<T, R, true>(g, pass)
                                        : launch_column<T, R, false>(g, pass);
        return cudaErrorInvalidValue;
    });
}
