/* The first and second derivative along y or z: stencils that reach across rows.
 *
 *   odd:   acc = c1 (f+1 − f−1);  acc = fma(cm, f+m − f−m, acc), m = 2 … R
 *   even:  acc = c0 f;            acc = fma(cm, f+m + f−m, acc), m = 1 … R
 *
 * Along such an axis the array is [outer][n][stride], with `stride` columns side by side. A thread
 * has 8 bytes of columns (in float32 4, where they are an odd number) and computes a window of S
 * points of them from the S + 2R around it: all loads are begun at once, and all is in registers.
 * Windows share 2R points with blocks that run at about the same time, so that device memory gives
 * every point about once and L2 the rest: (S + 2R)/S, 1.5 for S = 16 and R = 4. Longer marches,
 * which share less, were slower: they have too few loads in flight at their ends.
 *
 * A window lies inside the axis, the last one where the axis ends, so that the points of a closure
 * are always the same registers. A shorter axis has one that begins with it and, where its high
 * side has closures, another one that ends with it for these alone. */
#include "gpu/cuda/along_y_z_window.cuh"

#include <string.h>

enum {
    ALONG_Y_Z_THREADS = 128,
    /* How much of a row (all that lies between neighbours along the axis) blocks do before the next
     * window: little, so that what windows share is still in L2; more where rows are short, or not
     * aligned, so that blocks share sectors side by side too. */
    SIDE_BYTES = 64 << 10,
    SIDE_SHORT_BYTES = 256 << 10,
    SHORT_BYTES = 1 << 20,
    GRID_MOST = 65535 /* blocks along y and z */
};

static uint32_t inverse(uint32_t by)
{
    return by == 1 ? UINT32_MAX : (uint32_t)(((uint64_t)1 << 32) / by);
}
static __device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t by, uint32_t magic)
{
    const uint32_t q = (uint32_t)((uint64_t)x * magic >> 32);
    return x - q * by < by ? q : q + 1;
}

/* The block's columns: which block of them it has. */
static __device__ __forceinline__ uint32_t block_of_columns(const one_job &)
{
    return blockIdx.z * gridDim.x + blockIdx.x;
}
static __device__ __forceinline__ uint32_t block_of_columns(const job_arrays &)
{
    return blockIdx.x;
}

/* On a multiprocessor; at accuracy 8 in float32 the compiler would take 10 registers that it does
 * without, but not by index. */
template <typename T, int R, int S, int V, enum point_kind KIND>
static constexpr int along_y_z_blocks = S == 8 || V * sizeof(T) < 8 ||
                                                (V == 2 && R == PLAN_RADIUS && KIND == CENTRED)
                                            ? 8
                                            : 6;

template <typename T, int R, int S, int V, enum point_kind KIND, class Jobs>
__global__ void __launch_bounds__(ALONG_Y_Z_THREADS, along_y_z_blocks<T, R, S, V, KIND>)
    along_y_z_kernel(const __grid_constant__ along_y_z_shape<T, R> shape, const T *__restrict__ in,
                     T *__restrict__ out, const __grid_constant__ Jobs jobs)
{
    constexpr bool can_be_short = S == LEAST_WINDOW && KIND == CENTRED; /* the axis */
    own_arrays(in, out, jobs);
    const uint32_t column = block_of_columns(jobs) * blockDim.x + threadIdx.x;
    const bool has_column = column < shape.columns;
    if (KIND == CENTRED && !has_column)
        return;
    const window<T, R, S> at(shape, can_be_short);
    const uint32_t outer = quotient(column, shape.inner, shape.magic);
    const int64_t place =
        outer * (shape.along.n * shape.stride) + (int64_t)(column - outer * shape.inner) * V;
    T *target = out + place + at.first * shape.stride;
    pack<T, V> f[S + 2 * R];
    if (has_column)
        load_window<T, R, S, V>(shape, f, at, can_be_short, in + place);
    extern __shared__ __align__(128) unsigned char shared_memory[];
    auto &rows = *(window_taps<T, R, S> *)shared_memory;
    if constexpr (KIND == INDEXED) { /* while the points are on their way */
        load_taps(shape, at.first, &rows);
        if (!has_column)
            return;
    }
    const auto store = [&](int s, const pack<T, V> &result) {
        store_pack(target + s * shape.stride, result);
    };
    if constexpr (KIND == INDEXED)
        derive_indexed<T, R, S, V>(shape, f, at, rows, store);
    else
        derive<T, R, S, V>(shape, f, at, store);
}

/* float32 in rows that are aligned differently. Warps that store their columns share sectors: of
 * the 5 that 128 bytes touch L2 merges 2 with a neighbour's. So a block collects its rows in shared
 * memory and stores them in whole sectors but for their ends: 2 of 33. Its windows are longer where
 * R is large, since two loads of three come to a sector that is loaded already. */
enum {
    UNALIGNED_THREADS = 288,
    UNALIGNED_ROWS = 4, /* stored at a time */
    UNALIGNED_ROW_THREADS = UNALIGNED_THREADS / UNALIGNED_ROWS,
    UNALIGNED_V = 4,
    SECTOR = 8,
    UNALIGNED_COLUMNS =
        UNALIGNED_ROW_THREADS * UNALIGNED_V - SECTOR - UNALIGNED_V + 2, /* at most */
    UNALIGNED_PITCH = UNALIGNED_THREADS + SECTOR,
    UNALIGNED_LEAST = 96 /* fewer columns would leave most threads idle */
};

static constexpr int unaligned_window(int radius)
{
    return radius > 2 ? 24 : 16;
}

template <int R, int S>
__global__ void __launch_bounds__(UNALIGNED_THREADS, 4)
    unaligned_kernel(const __grid_constant__ along_y_z_shape<float, R> shape,
                     const float *__restrict__ in, float *__restrict__ out,
                     const __grid_constant__ one_job jobs)
{
    constexpr int V = UNALIGNED_V;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    float *const tile = (float *)shared_memory;
    const uint32_t block = block_of_columns(jobs);
    if (block >= shape.blocks)
        return;
    const window<float, R, S> at(shape, false);
    const uint32_t outer = quotient(block, shape.inner, shape.magic);
    const int64_t column = (int64_t)(block - outer * shape.inner) * shape.columns;
    const int columns = (int)min((int64_t)shape.columns, shape.stride - column);
    const int64_t place = outer * (shape.along.n * shape.stride) + column;
    /* Row s of the tile begins as far from a sector's begin as in the array. */
    const int phase = (int)((place + at.first * shape.stride) & (SECTOR - 1));
    const int step = (int)(shape.stride & (SECTOR - 1));
    const auto before = [&](int s) { return (phase + s * step) & (SECTOR - 1); };
    if ((int)threadIdx.x < columns) {
        pack<float, 1> f[S + 2 * R];
        load_window<float, R, S, 1>(shape, f, at, false, in + place + threadIdx.x);
        derive<float, R, S, 1>(shape, f, at, [&](int s, const pack<float, 1> &result) {
            tile[s * UNALIGNED_PITCH + before(s) + (int)threadIdx.x] = result.v[0];
        });
    }
    __syncthreads();
    const int x = (int)threadIdx.x % UNALIGNED_ROW_THREADS * V;
    for (int s = (int)threadIdx.x / UNALIGNED_ROW_THREADS; s < S; s += UNALIGNED_ROWS) {
        const int begin = before(s), end = begin + columns;
        if (!(at.stored >> s & 1))
            continue;
        const float *const from = tile + s * UNALIGNED_PITCH + x;
        float *const to = out + place + (at.first + s) * shape.stride - begin + x;
        if (x >= begin && x + V <= end) {
            store_pack(to, shared_pack(from));
        } else {
#pragma unroll
            for (int v = 0; v < V; v++)
                if (x + v >= begin && x + v < end)
                    to[v] = from[v];
        }
    }
}

/* --- launching --- */

/* The axis, where there is one alone; else −1. */
static int find_axis(const struct plan *plan)
{
    const bool y = plan->axis[AXIS_Y].active, z = plan->axis[AXIS_Z].active;
    return plan->axis[AXIS_X].active || y == z ? -1 : y ? AXIS_Y : AXIS_Z;
}

/* Of 8 points, which make more threads, where those of 16 would not fill the device. */
static int window_points(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    const struct plan_axis *axis = &plan->axis[find_axis(plan)];
    const uint64_t points = 16 * (plan->dtype == DTYPE_F32 ? 2 : 1);
    const bool few = g->points / points < (uint64_t)g->units * 1024;
    return axis->n < 16 || few ? 8 : 16;
}

extern "C" uint64_t along_y_z_passes(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    const int a = find_axis(plan);
    if (a < 0 || plan->radius > CENTRED_RADIUS)
        return 0;
    const struct plan_axis *axis = &plan->axis[a];
    /* A point beyond the edge is one period away from its image at most. */
    const bool repeats = axis->side[SIDE_HIGH].map == SIDE_MAP_ENDPOINT;
    const int64_t least = plan->indexed ? LEAST_WINDOW : plan->radius + 1 + repeats;
    return axis->n >= least && plan->points * plan->batch / (uint64_t)axis->n <= INT32_MAX;
}

/* Blocks of columns by so many windows, `side` bytes of a row together. */
template <typename T, int R>
static cudaError_t launch_windows(const kernel_pair<along_y_z_shape<T, R>, T> &kernel,
                                  const struct geometry *g, along_y_z_shape<T, R> *shape,
                                  int64_t windows, int64_t blocks, int64_t columns, int64_t side,
                                  unsigned threads, size_t shared, const struct table_pass *pass)
{
    const int64_t most = GRID_MOST, width = columns * (int64_t)sizeof(T);
    const int64_t row = shape->stride * (int64_t)sizeof(T);
    const T *const in = (const T *)pass->in[0];
    T *const out = (T *)pass->out[0];
    int64_t together = blocks_of(side < row ? side : row, width);
    if (together * most < blocks)
        together = blocks_of(blocks, most);
    if (g->jobs > 1) /* small: all of them is in L2 */
        together = blocks;
    cudaError_t error = cudaSuccess;
    for (; shape->from < windows && error == cudaSuccess; shape->from += most) {
        const int64_t left = windows - shape->from;
        const dim3 grid((unsigned)together, (unsigned)(left < most ? left : most),
                        g->jobs == 1 ? (unsigned)blocks_of(blocks, together) : g->jobs);
        error = g->jobs == 1 ? launch_grid(kernel.one, grid, dim3(threads), shared, g->stream,
                                           *shape, in, out, one_job())
                             : launch_grid(kernel.several, grid, dim3(threads), shared, g->stream,
                                           *shape, in, out, g->arrays[0]);
    }
    return error;
}

/* The windows of S points of a launch. */
template <typename T, int R> static int64_t count_windows(const along_y_z_shape<T, R> &shape, int S)
{
    const bool ends_short =
        shape.along.n < S && shape.closed[SIDE_HIGH] && shape.end == shape.along.n;
    return blocks_of(shape.end - shape.begin, S) + ends_short;
}

template <typename T, int R, int S, int V>
static cudaError_t launch_direct(const struct geometry *g, along_y_z_shape<T, R> *shape,
                                 const struct table_pass *pass)
{
    const unsigned threads = S == 16 ? ALONG_Y_Z_THREADS : ALONG_Y_Z_THREADS / 2;
    const int64_t row = shape->stride * (int64_t)sizeof(T);
    shape->inner = (uint32_t)(shape->stride / V);
    shape->columns = (uint32_t)(shape->total / shape->along.n / V);
    shape->magic = inverse(shape->inner);
    kernel_pair<along_y_z_shape<T, R>, T> kernel = {along_y_z_kernel<T, R, S, V, CENTRED, one_job>,
                                                    nullptr};
    if constexpr (R <= PLAN_RADIUS) /* of a plain plan */
        kernel.several = along_y_z_kernel<T, R, S, V, CENTRED, job_arrays>;
    if (g->plan->indexed)
        kernel = {along_y_z_kernel<T, R, S, V, INDEXED, one_job>, nullptr};
    return launch_windows(kernel, g, shape, count_windows(*shape, S),
                          blocks_of(shape->columns, threads), threads * V,
                          row <= SHORT_BYTES || row % 32 != 0 ? SIDE_SHORT_BYTES : SIDE_BYTES,
                          threads, g->plan->indexed ? sizeof(window_taps<T, R, S>) : 0, pass);
}

template <typename T, int R>
static along_y_z_shape<T, R> make_shape(const struct geometry *g, const struct table_pass *pass)
{
    const struct plan *plan = g->plan;
    const int a = find_axis(plan);
    const struct plan_axis *axis = &plan->axis[a];
    along_y_z_shape<T, R> shape = {};
    shape.along = images_of<int64_t>(axis->side, axis->n);
    shape.begin = g->begin[a];
    shape.end = g->end[a];
    shape.stride = axis->stride;
    shape.total = (int64_t)(plan->points * plan->batch);
    for (int s = 0; s < SIDE_COUNT; s++)
        shape.closed[s] = axis->side[s].map == SIDE_MAP_NONE;
    shape.odd = plan->parity == PLAN_ODD;
    const point_weights<T, R> weights = weights_of<T, R>(plan, pass);
    shape.centre = weights.centre;
    shape.by_index = index_rows_of(g, pass);
    shape.axis = a;
    memcpy(shape.c, weights.c[a], sizeof shape.c);
    for (int d = 0; d < R && plan->plain; d++)
        for (int k = 0; k < axis->row_points; k++)
            shape.closure[d][k] = (T)axis->row[d][k];
    return shape;
}

template <int R>
static cudaError_t launch_unaligned(const struct geometry *g, const struct table_pass *pass)
{
    constexpr int S = unaligned_window(R);
    along_y_z_shape<float, R> shape = make_shape<float, R>(g, pass);
    const int64_t most = UNALIGNED_COLUMNS, inner = blocks_of(shape.stride, most);
    shape.inner = (uint32_t)inner;
    shape.columns = (uint32_t)blocks_of(shape.stride, inner);
    shape.magic = inverse(shape.inner);
    shape.blocks = (uint32_t)(inner * (shape.total / shape.along.n / shape.stride));
    const kernel_pair<along_y_z_shape<float, R>, float> kernel = {unaligned_kernel<R, S>, nullptr};
    return launch_windows(kernel, g, &shape, blocks_of(shape.end - shape.begin, S), shape.blocks,
                          shape.columns, SIDE_SHORT_BYTES, UNALIGNED_THREADS,
                          S * UNALIGNED_PITCH * sizeof(float), pass);
}

extern "C" uint64_t along_y_z_unaligned_passes(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    if (plan->dtype != DTYPE_F32 || g->jobs > 1 || !along_y_z_passes(g) || window_points(g) != 16)
        return 0;
    const struct plan_axis *axis = &plan->axis[find_axis(plan)];
    /* Its stores are of 16 bytes. */
    return !plan->indexed && axis->stride % 2 != 0 && axis->stride >= UNALIGNED_LEAST &&
           axis->n >= unaligned_window(plan->radius) && g->first % UNALIGNED_V == 0;
}

extern "C" cudaError_t along_y_z_unaligned_launch(const struct geometry *g,
                                                  const struct table_pass *pass)
{
    return with_number<1, CENTRED_RADIUS>(g->plan->radius, [&](auto radius) {
        return launch_unaligned<decltype(radius)::value>(g, pass);
    });
}

extern "C" cudaError_t along_y_z_launch(const struct geometry *g, const struct table_pass *pass)
{
    return with_type_and_radius<CENTRED_RADIUS>(g, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value, V = 8 / sizeof(T);
        along_y_z_shape<T, R> shape = make_shape<T, R>(g, pass);
        return with_flag(window_points(g) == 8, [&](auto eight) {
            constexpr int S = decltype(eight)::value ? 8 : 16;
            return shape.stride % V != 0 ? launch_direct<T, R, S, 1>(g, &shape, pass)
                                         : launch_direct<T, R, S, V>(g, &shape, pass);
        });
    });
}
