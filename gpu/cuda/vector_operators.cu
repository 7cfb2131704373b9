/* Gradient, divergence and curl of a plane or of space, each in one pass over its inputs. A block
 * marches a column of the grid along z (of planes: from one field of the batch to the next). It
 * copies plane after plane of each input, with what its points reach over the column's sides, to
 * rings in shared memory, through the maps at the grid's edges, AHEAD planes before they are
 * needed; a thread has the points above and below its own in registers.
 *
 *   gradient    (∂x f, ∂y f, ∂z f)
 *   divergence  (∂x fx + ∂y fy) + ∂z fz
 *   curl        (∂y fz − ∂z fy, ∂z fx − ∂x fz, ∂x fy − ∂y fx); of a plane the last
 *   where ∂ f:  acc = c1 (f+1 − f−1);  acc = fma(cm, f+m − f−m, acc), m = 2 … radius
 *
 * Bytes of device memory per point: one write of each output and (L + 2R)/L reads of each input,
 * for marches of L planes. An input is only copied as far as it is differentiated: over the sides
 * along x, y or both, and a ring is as deep as its planes wait: R more for one that is also
 * differentiated along z. From L2 besides, R = 4, float32: 0.59 reads a point for a gradient, 0.56
 * for a divergence, 1.67 for a curl. Of some 127, 127 and 190 instructions a point that an H200
 * issues in the time of a copy of as many bytes, arithmetic takes 24, 26 and 51.
 * Large gradients in space are gradient.cu's, where it takes them. */
#include "gpu/cuda/vector_column.cuh"

#include <cuda_pipeline.h>

/* What one thread does with one input: its packs of a plane and its own points. */
template <class Column, int I> struct vector_input {
    using T = typename Column::T;
    using Tile = typename Column::template tile<I>;
    static constexpr int V = Column::V, R = Column::R, ROWS = Column::ROWS, ALONG = Tile::ALONG;

    const T *in; /* of the block's field of the batch */
    T *ring;
    const int64_t *map_x, *map_y; /* of the column with all its sides */
    uint32_t from[Tile::COPIES];  /* in a plane */
    int own;                      /* its first point in a plane of the ring */
    int here, arrived, coming;    /* slots: of plane k, of the one that arrived for it, and of the
                                     one that is copied meanwhile */
    pack<T, V> queue[ALONG & ALONG_Z ? 2 * R + 1 : 1][ROWS]; /* of the planes k − R … k + R */

    /* Of an element of a plane: its row, and its place in it, sides counted. */
    static __device__ __forceinline__ int row_of(int at)
    {
        if constexpr (Tile::SIDES < Tile::PLANE)
            if (at >= Tile::SIDES)
                return (at - Tile::SIDES) / (2 * Tile::SIDE_X);
        return at / Tile::PITCH;
    }
    static __device__ __forceinline__ int column_of(int at)
    {
        if constexpr (Tile::SIDES < Tile::PLANE)
            if (at >= Tile::SIDES) {
                const int side = (at - Tile::SIDES) % (2 * Tile::SIDE_X);
                return side < Tile::SIDE_X ? side : side + Column::X;
            }
        return Tile::SIDE_X - Tile::FIRST + at % Tile::PITCH;
    }
    static __device__ __forceinline__ int next(int slot)
    {
        return slot + 1 == Tile::RING ? 0 : slot + 1;
    }
    __device__ __forceinline__ void begin(const vector_shape<T> &shape, T *memory,
                                          const int64_t *maps, int thread, int64_t first)
    {
        in = shape.in[I] + first;
        ring = memory;
        map_x = maps + (Column::HALO - Tile::SIDE_X);
        map_y = maps + (Column::X + 2 * Column::HALO) + (R - Tile::SIDE_Y);
#pragma unroll
        for (int j = 0; j < Tile::COPIES; j++) {
            const int at = min((thread + j * Column::THREADS) * V, Tile::PLANE - V);
            from[j] = (uint32_t)(map_y[row_of(at)] * shape.n + map_x[column_of(at)] / V * V);
        }
        own = (threadIdx.y * ROWS + Tile::SIDE_Y) * Tile::PITCH + Tile::FIRST + threadIdx.x * V;
        here = 0;
        arrived = ALONG == ALONG_Z ? 0 : Tile::REACH;
        coming = 0;
    }
    /* The next plane, which is `plane` of the grid, on its way to the ring. */
    __device__ __forceinline__ void copy(const vector_shape<T> &shape, int64_t plane, int thread)
    {
        const T *source = in + plane * shape.plane;
        T *to = ring + coming * Tile::PLANE;
#pragma unroll
        for (int j = 0; j < Tile::COPIES; j++) {
            const int at = (thread + j * Column::THREADS) * V;
            if ((j + 1) * Column::THREADS * V > Tile::PLANE && at >= Tile::PLANE)
                break;
            if (shape.aligned) {
                __pipeline_memcpy_async(to + at, source + from[j], V * sizeof(T));
                continue;
            }
            const T *row = source + map_y[row_of(at)] * shape.n;
            for (int v = 0; v < V; v++)
                __pipeline_memcpy_async(to + at + v, row + map_x[column_of(at) + v], sizeof(T));
        }
        coming = next(coming);
    }
    __device__ __forceinline__ const T *centre() const
    {
        return ring + here * Tile::PLANE + own;
    }
    /* In plane k, row r of its own: the pack i packs right of its own one. */
    __device__ __forceinline__ pack<T, V> beside(int r, int i) const
    {
        if constexpr (Tile::SIDES < Tile::PLANE) {
            const int x = (int)threadIdx.x + i;
            const int side = (x < 0 ? x : x - Column::WIDE) + Column::HALO / V;
            const int row = threadIdx.y * ROWS + Tile::SIDE_Y + r;
            if (x < 0 || x >= Column::WIDE)
                return shared_pack(ring + here * Tile::PLANE + Tile::SIDES +
                                   row * 2 * Tile::SIDE_X + side * V);
        }
        return shared_pack(centre() + r * Tile::PITCH + i * V);
    }
    /* Take the points of plane k + R in. */
    __device__ __forceinline__ void take()
    {
        if constexpr (ALONG & ALONG_Z)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                queue[2 * R][r] = shared_pack(ring + arrived * Tile::PLANE + own + r * Tile::PITCH);
    }
    /* On to plane k + 1. */
    __device__ __forceinline__ void step()
    {
        here = next(here);
        arrived = next(arrived);
        if constexpr (ALONG & ALONG_Z)
#pragma unroll
            for (int i = 0; i < 2 * R; i++)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    queue[i][r] = queue[i + 1][r];
    }
};

template <int ROWS, int V, typename T> struct vector_rows {
    pack<T, V> row[ROWS];
};

template <int AXIS, class Column, int I>
static __device__ __forceinline__ auto derivative(const vector_shape<typename Column::T> &shape,
                                                  const vector_input<Column, I> &f)
{
    constexpr int V = Column::V, R = Column::R, ROWS = Column::ROWS;
    using T = typename Column::T;
    vector_rows<ROWS, V, T> result;
    auto derive = [&](int r, const auto &at) {
        result.row[r] = derivative<R>(shape.c[AXIS], shape.whole, at);
    };
    pack<T, V> ys[ROWS + 2 * R];
#pragma unroll
    for (int i = 0; AXIS == AXIS_Y && i < ROWS + 2 * R; i++)
        ys[i] = shared_pack(f.centre() + (i - R) * vector_input<Column, I>::Tile::PITCH);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if constexpr (AXIS == AXIS_X) {
            const row_around<T, V, R> xs([&](int i) { return f.beside(r, i); });
            derive(r, [&](int m) { return xs.at(m); });
        } else if constexpr (AXIS == AXIS_Y) {
            derive(r, [&](int m) { return ys[R + r + m]; });
        } else {
            derive(r, [&](int m) { return f.queue[R + m][r]; });
        }
    }
    return result;
}

template <int ROWS, int V, typename T>
static __device__ __forceinline__ vector_rows<ROWS, V, T>
operator+(vector_rows<ROWS, V, T> a, const vector_rows<ROWS, V, T> &b)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        a.row[r] = a.row[r] + b.row[r];
    return a;
}
template <int ROWS, int V, typename T>
static __device__ __forceinline__ vector_rows<ROWS, V, T>
operator-(vector_rows<ROWS, V, T> a, const vector_rows<ROWS, V, T> &b)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        a.row[r] = a.row[r] - b.row[r];
    return a;
}

template <typename T, int R, int FORM, int AXES, class Jobs>
__global__ void __launch_bounds__(vector_column<T, R, FORM, AXES>::THREADS,
                                  vector_column<T, R, FORM, AXES>::BLOCKS)
    vector_kernel(const __grid_constant__ vector_shape<T> shape, const __grid_constant__ Jobs jobs)
{
    using Column = vector_column<T, R, FORM, AXES>;
    constexpr int V = Column::V, ROWS = Column::ROWS, AHEAD = Column::AHEAD;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    T *const rings = (T *)shared_memory;
    int64_t *const maps = (int64_t *)(rings + Column::POINTS);
    const int thread = threadIdx.y * Column::WIDE + threadIdx.x;

    const marched_column mine = find_column(shape, Column::X, Column::Y);
    const int64_t x0 = mine.x0, y0 = mine.y0, first = mine.first, last = mine.last;
    const int64_t field = mine.field;
    const struct plan_axis *axis = table[shape.slot].plan.axis;

    /* Past the last point that the column's points reach, that one again. */
    constexpr int MAP_X = Column::X + 2 * Column::HALO;
    for (int i = thread; i < Column::MAPS; i += Column::THREADS)
        maps[i] =
            i < MAP_X
                ? source(&axis[AXIS_X], min(x0 - Column::HALO + i, shape.n + Column::HALO - 1))
                : source(&axis[AXIS_Y], min(y0 - R + (i - MAP_X), shape.high[AXIS_Y] + R - 1));
    __syncthreads();

    vector_input<Column, 0> f;
    constexpr bool TWO = Column::INPUTS > 1,
                   THREE = Column::INPUTS > 2; /* else g, h are not used */
    vector_input<Column, TWO ? 1 : 0> g;
    vector_input<Column, THREE ? 2 : 0> h;
    auto each = [&](auto &&act) {
        act(f);
        if constexpr (TWO)
            act(g);
        if constexpr (THREE)
            act(h);
    };
    f.begin(shape, rings, maps, thread, field + to_input(jobs, 0));
    if constexpr (TWO)
        g.begin(shape, rings + Column::BEGIN_1, maps, thread, field + to_input(jobs, 1));
    if constexpr (THREE)
        h.begin(shape, rings + Column::BEGIN_2, maps, thread, field + to_input(jobs, 2));

    auto plane = [&](int64_t z) { return AXES == 3 ? source(&axis[AXIS_Z], z) : z; };
    /* What plane k needs to come. */
    auto copy = [&](int64_t k) {
        if (k < last)
            each([&](auto &one) {
                using Tile = typename std::remove_reference_t<decltype(one)>::Tile;
                one.copy(shape, plane(k + Tile::REACH), thread);
            });
        __pipeline_commit();
    };
    const int64_t x = x0 + threadIdx.x * V, y = y0 + threadIdx.y * ROWS;
    each([&](auto &one) {
        using Tile = typename std::remove_reference_t<decltype(one)>::Tile;
        /* The planes that come before plane first's: to the ring for their neighbours, to the queue
         * for those above and below. */
        if constexpr (Tile::REACH > 0) {
            if constexpr (Tile::ALONG != ALONG_Z)
                for (int i = 0; i < R; i++)
                    one.copy(shape, plane(first + i), thread);
#pragma unroll
            for (int i = 0; i < 2 * R; i++)
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const T *row = one.in + plane(first - R + i) * shape.plane +
                                   min(y + r, shape.rows - 1) * shape.n;
                    if (shape.aligned)
                        one.queue[i][r] = load_pack<V>(row + min(x, shape.n - V));
                    else
#pragma unroll
                        for (int v = 0; v < V; v++)
                            one.queue[i][r].v[v] = row[min(x + v, shape.n - 1)];
                }
        }
    });
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        copy(first + i);

    const int64_t low = shape.low[AXIS_X], high = shape.high[AXIS_X];
    const bool stores_packs = shape.aligned && x >= low && x + V <= high;
    int64_t place = field + first * shape.plane + y * shape.n + x;
    auto store = [&](int component, const vector_rows<ROWS, V, T> &result) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T *to = shape.out[component] + to_output(jobs, component) + place + r * shape.n;
            if (y + r >= shape.high[AXIS_Y])
                break;
            if (stores_packs)
                store_pack(to, result.row[r]);
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (x + v >= low && x + v < high)
                        to[v] = result.row[r].v[v];
        }
    };
#pragma unroll 1
    for (int64_t k = first; k < last; k++) {
        __pipeline_wait_prior(AHEAD - 1);
        __syncthreads();
        copy(k + AHEAD);
        each([&](auto &one) { one.take(); });
        if constexpr (FORM == PLAN_GRADIENT) {
            store(AXIS_X, derivative<AXIS_X>(shape, f));
            store(AXIS_Y, derivative<AXIS_Y>(shape, f));
            if constexpr (AXES == 3)
                store(AXIS_Z, derivative<AXIS_Z>(shape, f));
        } else if constexpr (FORM == PLAN_DIVERGENCE) {
            const auto plain = derivative<AXIS_X>(shape, f) + derivative<AXIS_Y>(shape, g);
            if constexpr (AXES == 3)
                store(0, plain + derivative<AXIS_Z>(shape, h));
            else
                store(0, plain);
        } else if constexpr (AXES == 3) {
            store(AXIS_X, derivative<AXIS_Y>(shape, h) - derivative<AXIS_Z>(shape, g));
            store(AXIS_Y, derivative<AXIS_Z>(shape, f) - derivative<AXIS_X>(shape, h));
            store(AXIS_Z, derivative<AXIS_X>(shape, g) - derivative<AXIS_Y>(shape, f));
        } else {
            store(0, derivative<AXIS_X>(shape, g) - derivative<AXIS_Y>(shape, f));
        }
        each([&](auto &one) { one.step(); });
        place += shape.plane;
    }
}

/* cudaErrorInvalidConfiguration: the grid is too large for this kernel's numbers, or the device's
 * shared memory too small. */
template <typename T, int R, int FORM, int AXES>
static cudaError_t launch_column(const struct geometry *g, const void *const in[AXIS_COUNT],
                                 void *const out[AXIS_COUNT])
{
    using Column = vector_column<T, R, FORM, AXES>;
    const struct plan *plan = g->plan;
    const struct plan_axis *axis = plan->axis;
    if (axis[AXIS_Z].stride > UINT32_MAX || axis[AXIS_Z].n > INT32_MAX || plan->batch > INT32_MAX ||
        block_shared_bytes() < Column::BYTES)
        return cudaErrorInvalidConfiguration;
    vector_shape<T> shape = {};
    for (int a = 0; a < AXIS_COUNT; a++) {
        shape.in[a] = (const T *)in[a];
        shape.out[a] = (T *)out[a];
        for (int m = 1; m <= R; m++)
            shape.c[a][m] = (T)axis[a].c[m];
    }
    shape.whole = plan->radius == R;
    shape.aligned = packs_go_on(plan);
    const int64_t blocks = divide_grid(&shape, g, Column::X, Column::Y,
                                       (int64_t)g->units * Column::BLOCKS, R + Column::AHEAD);
    const dim3 block(Column::WIDE, Column::HIGH);
    return g->jobs == 1 ? launch_kernel(vector_kernel<T, R, FORM, AXES, one_job>, g, blocks, block,
                                        Column::BYTES, shape, one_job())
                        : launch_kernel(vector_kernel<T, R, FORM, AXES, vector_jobs>, g, blocks,
                                        block, Column::BYTES, shape, vector_jobs_of(g));
}

/* --- the launch --- */

extern "C" cudaError_t vector_operators_launch(const struct geometry *g,
                                               const void *const in[AXIS_COUNT],
                                               void *const out[AXIS_COUNT])
{
    const struct plan *plan = g->plan;
    const cudaError_t error = plan->form == PLAN_GRADIENT ? gradient_launch(g, in[0], out)
                                                          : cudaErrorInvalidConfiguration;
    if (error != cudaErrorInvalidConfiguration)
        return error;
    return with_type(plan, [&](auto type) {
        return with_number<PLAN_GRADIENT, PLAN_CURL>(plan->form, [&](auto form) {
            return with_flag(plan->axis[AXIS_Z].active, [&](auto is_space) {
                return with_flag(plan->radius > 2, [&](auto is_wide) {
                    return launch_column < decltype(type), decltype(is_wide)::value ? 4 : 2,
                           decltype(form)::value, decltype(is_space)::value ? 3 : 2 > (g, in, out);
                });
            });
        });
    });
}
