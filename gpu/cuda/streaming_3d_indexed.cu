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
 * lanes read, one. From L2 in all, with what lies over the sides of a column of 128 × 8 points:
 * 2.5 reads a point. */
#include "gpu/cuda/indexed_column.cuh"

/* acc + what lies along x of the pack f, which is at `at` in the ring. */
template <bool PLAIN, bool ALIGNED, typename T, int R, int V>
static __device__ __forceinline__ void
add_along_x(const streaming_3d_indexed_shape<T, R> &shape, pack<T, V> &acc, const pack<T, V> &f,
            const T *at, const T (&taps)[2 * R][V], unsigned bits)
{
    using Column = indexed_column<T, R, ALIGNED>;
    using bit = point_bits<V, Column::ROWS>;
    constexpr int HALO = Column::HALO;
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
    if (PLAIN || shape.by_index.axes >> AXIS_X & 1)
        add_taps<R>(sum, tap, value, has);
    else
        add_pairs<R>(sum, shape.weights.c[AXIS_X], shape.by_index.pairs[AXIS_X], value);
    acc = sum[0];
}

/* acc + what lies along y, of the window that is at `at` in the ring, or of the packs f where it is
 * theirs: each of its rows is read once for all. */
template <bool PLAIN, bool ALIGNED, typename T, int R, int ROWS, int V, int TAPS>
static __device__ __forceinline__ void
add_along_y(const streaming_3d_indexed_shape<T, R> &shape, pack<T, V> (&acc)[ROWS],
            const pack<T, V> (&f)[ROWS], bool is_theirs, const T *at, const T (*taps)[TAPS],
            unsigned bits)
{
    using bit = point_bits<V, ROWS>;
    auto in_ring = [&](int i) {
        return shared_pack(at + i * indexed_column<T, R, ALIGNED>::PITCH);
    };
    pack<T, V> middle[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        middle[r] = f[r];
        if (!is_theirs)
            middle[r] = in_ring(r);
    }
    auto row = [&](int i) { return i >= 0 && i < ROWS ? middle[i] : in_ring(i); };
    if (!PLAIN && !(shape.by_index.axes >> AXIS_Y & 1)) {
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

/* acc + what lies along z, of the planes about one of them: value(t, r, v), with the row of the
 * plane at hand. */
template <bool PLAIN, typename T, int R, int ROWS, int V, class Row, class Value>
static __device__ __forceinline__ void add_along_z(const streaming_3d_indexed_shape<T, R> &shape,
                                                   pack<T, V> (&acc)[ROWS], const Value &value,
                                                   const Row &row, int about)
{
    auto tap = [&](int t) { return shared_pack(row.w + t / V * V).v[t % V]; };
    if (!PLAIN && !(shape.by_index.axes >> AXIS_Z & 1))
        add_pairs<R>(acc, shape.weights.c[AXIS_Z], shape.by_index.pairs[AXIS_Z], value);
    else if (row.first == about - R)
        add_taps<R>(
            acc, [&](int t, int, int) { return tap(t); }, value,
            [](int t, int, int) { return t == 0; });
    else
        add_taps<R>(
            acc, [&](int t, int, int) { return tap(t - 1); }, value,
            [&](int t, int, int) { return t > 0 && row.count == 2 * R; });
}

/* step(0) … step(STEPS − 1), of constants. */
template <int STEPS, int S = 0, class Step>
static __device__ __forceinline__ void for_each_step(const Step &step)
{
    if constexpr (S < STEPS) {
        step(std::integral_constant<int, S>());
        for_each_step<STEPS, S + 1>(step);
    }
}

/* ALIGNED: rows are whole packs, and so is what lies past their ends. PLAIN: all axes have
 * coordinates, and no array is added: without a branch the compiler loads for one axis while it
 * sums another, and the loop fits in the first cache of instructions. */
template <typename T, int R, bool ALIGNED, bool PLAIN>
__global__ void __launch_bounds__(32 * indexed_column<T, R, ALIGNED>::WARPS,
                                  indexed_column<T, R, ALIGNED>::BLOCKS)
    streaming_3d_indexed_kernel(const __grid_constant__ streaming_3d_indexed_shape<T, R> shape,
                                const T *__restrict__ in, T *__restrict__ out,
                                const __grid_constant__ one_job)
{
    using Column = indexed_column<T, R, ALIGNED>;
    constexpr int V = Column::V, ROWS = Column::ROWS, STEPS = Column::STEPS, RING = Column::RING,
                  PLANE = Column::PLANE;
    using bit = point_bits<V, ROWS>;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    Column &shared = *(Column *)shared_memory;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    T *const planes = shared.ring + Column::LINE; /* where their first rows have x0 */

    const marched_column mine = find_column(shape, Column::X, Column::WARPS * ROWS);
    const int64_t x0 = mine.x0, y0 = mine.y0, field = mine.field;
    const int first = mine.first, last = mine.last;
    in += field;
    const int64_t x = x0 + lane * V, y = y0 + warp * ROWS;

    T taps_x[2 * R][V] = {}; /* the first or the last, whichever there is, in one place */
    T(*const taps_y)[Column::TAPS] = shared.taps_y[warp];
    /* The first row of the window along y of the warp's. Where sides have closures it lies inside
     * the grid: rows next to them read what those a little further inside read. */
    const bool closes = shape.by_index.axes >> AXIS_Y & 1 &&
                        table[shape.slot].plan.axis[AXIS_Y].side[SIDE_LOW].map == SIDE_MAP_NONE;
    const int64_t about_y = closes ? min(max(y, (int64_t)R - 1), shape.rows - R - 1) : y;
    /* … and of the ring's planes. */
    const int64_t lowest = closes ? min(y0 - R, shape.rows - 2 * R - 1) : y0 - R;
    unsigned bits = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        const bool computed = x + v >= shape.low[AXIS_X] && x + v < shape.high[AXIS_X];
        const int64_t stored = x0 + v * 32 + lane;
        bits |= (unsigned)computed << (bit::OWN + v);
        bits |= (unsigned)(stored >= shape.low[AXIS_X] && stored < shape.high[AXIS_X])
                << (bit::STORED + v);
        if (!PLAIN && !(shape.by_index.axes >> AXIS_X & 1))
            continue;
        const auto row = row_of<T, R>(shape.by_index, AXIS_X, min(x + v, shape.n - 1));
        bits |= (unsigned)row.first << (bit::FIRST_X + v);
        bits |= (unsigned)row.last << (bit::LAST_X + v);
#pragma unroll
        for (int t = 0; t < 2 * R; t++)
            taps_x[t][v] = tap_of<T, R>(row, t > 0 || row.first ? t : 2 * R);
    }
#pragma unroll
    for (int r = 0; r < ROWS && (PLAIN || shape.by_index.axes >> AXIS_Y & 1); r++) {
        const auto row =
            row_of<T, R>(shape.by_index, AXIS_Y, min(y + r, shape.rows - 1), about_y + r);
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
    const plane_copies<T, R, ALIGNED> copies(shape, x0, lowest);
    const T *next = in + first * shape.plane; /* the next plane to copy, were there no edge */
    auto copy = [&](int z, int slot) {
        if (z >= last + R)
            return;
        copies.begin(planes + slot * PLANE,
                     z < shape.planes ? next
                                      : in + shared.beyond[R + z - shape.planes] * shape.plane);
        next += shape.plane;
        if ((PLAIN || shape.by_index.axes >> AXIS_Z & 1) && z < last &&
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
    constexpr unsigned WHOLE = (1u << V) - 1;
    auto load = [&](const T *array, int r) {
        const T *const from = array + (y + r) * shape.n + x;
        pack<T, V> q = {};
        if (r < rows && ALIGNED && bits >> bit::OWN & WHOLE) {
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
    const int own = (int)(y - lowest) * Column::PITCH + lane * V;
    const int window = (int)(about_y - y) * Column::PITCH;
    auto row_of_ring = [&](int slot, int r) {
        return shared_pack(planes + slot * PLANE + own + r * Column::PITCH);
    };
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            queue[i][r] = load(in + shared.beyond[i] * shape.plane, r);
    __pipeline_wait_prior(Column::AHEAD - 1);
    __syncthreads();

    const centred_terms<T> terms(shape.terms);
    const T nothing = shape.terms.has_centre ? terms.base : T(0); /* where there is no base */
    int64_t to_plane = field + first * shape.plane;
    int here = 0; /* the slot of the plane at hand; i planes on: */
    auto slot = [&](int i) { return here + i < RING ? here + i : here + i - RING; };
    /* Plane k, of which the queue has what lies along z from s on, about a plane that is k itself
     * or, where the queue does not move, one further inside. */
    auto step = [&](auto from, auto moves, int k, int about) {
        constexpr int s = decltype(from)::value;
        constexpr bool MOVES = decltype(moves)::value;
        pack<T, V> f[ROWS], acc[ROWS], base[ROWS], added[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            f[r] = MOVES ? queue[R + s][r] : row_of_ring(here, r);
#pragma unroll
            for (int v = 0; v < V; v++) {
                base[r].v[v] = terms.input_is_base ? f[r].v[v] : nothing;
                added[r].v[v] = terms.source;
            }
            if (!PLAIN && shape.terms.base)
                base[r] = load(shape.terms.base + to_plane, r);
            if (!PLAIN && shape.terms.source)
                added[r] = load(shape.terms.source + to_plane, r);
        }
        /* All have the planes to R past this one, and are done with the one before. */
        __pipeline_wait_prior(Column::AHEAD - 1);
        __syncthreads();
        copy(k + R + Column::AHEAD, slot(R + Column::AHEAD));
        __pipeline_commit();

        const T *const at = planes + here * PLANE + own;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (MOVES)
                queue[2 * R + s][r] = row_of_ring(slot(R), r);
            acc[r] = base[r];
        }
        if (shape.terms.has_centre) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[r].v[v] = fused(shape.weights.centre, f[r].v[v], base[r].v[v]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            add_along_x<PLAIN, ALIGNED>(shape, acc[r], f[r], at + r * Column::PITCH, taps_x, bits);
        add_along_y<PLAIN, ALIGNED>(shape, acc, f, PLAIN && window == 0, at + window, taps_y, bits);
        add_along_z<PLAIN>(
            shape, acc, [&](int t, int r, int v) { return queue[s + t][r].v[v]; },
            shared.row_z[here], about);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < V; v++)
                acc[r].v[v] = fused(terms.dt, added[r].v[v], acc[r].v[v]);

        T *const to = out + to_plane + y * shape.n;
        if constexpr (ALIGNED) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (r < rows && (bits >> bit::OWN & WHOLE) == WHOLE) {
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
            T *const stage = shared.stage[warp][0];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                store_shared(stage + r * Column::X + lane * V, acc[r]);
            __syncwarp();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (r < rows && is(bit::STORED + v))
                        to[r * shape.n + x0 + v * 32 + lane] = stage[r * Column::X + v * 32 + lane];
            __syncwarp();
        }
        to_plane += shape.plane;
        here = slot(1);
    };
    /* Next to sides with closures the queue has the planes of a window inside the grid. */
    const bool closes_z = (PLAIN || shape.by_index.axes >> AXIS_Z & 1) &&
                          table[shape.slot].plan.axis[AXIS_Z].side[SIDE_LOW].map == SIDE_MAP_NONE;
    const int low_end = closes_z ? min(max(R - 1, first), last) : first;
    const int high_begin = closes_z ? max(min(shape.planes - R, last), low_end) : last;
#pragma unroll 1
    for (int part = 0; part < 3; part++) {
        if (part == 1) {
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    queue[R + i][r] = row_of_ring(slot(i), r);
#pragma unroll 1
            for (int k = low_end; k < high_begin; k += STEPS) {
                for_each_step<STEPS>([&](auto s) {
                    constexpr int S = decltype(s)::value;
                    if (k + S < high_begin)
                        step(s, std::true_type(), k + S, k + S);
                });
#pragma unroll
                for (int i = 0; i < 2 * R; i++)
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        queue[i][r] = queue[i + STEPS][r];
            }
            continue;
        }
        const int begin = part == 0 ? first : high_begin, end = part == 0 ? low_end : last;
        const int about = part == 0 ? R - 1 : shape.planes - R - 1;
#pragma unroll
        for (int i = 0; i <= 2 * R && begin < end; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                queue[i][r] =
                    load(in + min(max(about - R + i, 0), shape.planes - 1) * shape.plane, r);
#pragma unroll 1
        for (int k = begin; k < end; k++)
            step(std::integral_constant<int, 0>(), std::false_type(), k, about);
    }
}

template <typename T, int R, bool ALIGNED, bool PLAIN>
static cudaError_t launch_column(const struct geometry *g, const struct table_pass *pass)
{
    using Column = indexed_column<T, R, ALIGNED>;
    streaming_3d_indexed_shape<T, R> shape = {};
    shape.weights = weights_of<T, R>(g->plan, pass);
    shape.terms = terms_of<T>(g->plan, pass);
    shape.by_index = index_rows_of(g, pass);
    const int64_t blocks = divide_grid(&shape, g, Column::X, Column::WARPS * Column::ROWS,
                                       (int64_t)g->units * Column::BLOCKS, R + Column::AHEAD);
    return launch_kernel(streaming_3d_indexed_kernel<T, R, ALIGNED, PLAIN>, g, blocks,
                         dim3(32 * Column::WARPS), sizeof(Column), shape, (const T *)pass->in[0],
                         (T *)pass->out[0], one_job());
}

template <typename T, int R, bool ALIGNED>
static cudaError_t launch_rows(const struct geometry *g, const struct table_pass *pass)
{
    const point_terms<T> terms = terms_of<T>(g->plan, pass);
    const bool is_plain = g->plan->indexed == (1 << AXIS_COUNT) - 1 && !terms.base && !terms.source;
    return is_plain ? launch_column<T, R, ALIGNED, true>(g, pass)
                    : launch_column<T, R, ALIGNED, false>(g, pass);
}

extern "C" cudaError_t streaming_3d_indexed_launch(const struct geometry *g,
                                                   const struct table_pass *pass)
{
    return with_type_and_radius<TABLE_RADIUS>(g, [&](auto type, auto radius) -> cudaError_t {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        if constexpr (R > 1) /* second derivatives by index take a point more on either side */
            return packs_go_on(g->plan) ? launch_rows<T, R, true>(g, pass)
                                        : launch_rows<T, R, false>(g, pass);
        return cudaErrorInvalidValue;
    });
}
