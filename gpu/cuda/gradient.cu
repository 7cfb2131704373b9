/* Gradients in space where the copy engine brings planes (sm_90 on) and columns alone fill the
 * device; all else is vector_operators.cu's, which also says what is computed.
 *
 * A block marches a column of the grid along z. One thread of a warp of its own has the boxes of
 * plane after plane copied to slots of shared memory: a body of X × Y points, what lies over its
 * sides along x and along y, each from around the grid's edge where it is periodic. Warps that
 * compute wait for a slot to be full and say when they are done with it, and so wait for no other.
 * A plane is differentiated along x and y as it comes, and stays in registers for those R before
 * and after it: ∂x f and ∂y f at plane p are stored with ∂z f at p − R.
 *
 * Bytes of device memory per point: three writes and (n + 2R)/n reads, since a column has all n
 * planes. From L2 besides, float32: 0.38 reads a point over the sides of 64 × 32 points (R = 4),
 * 0.31 of 128 × 16 (R = 2). R = 4: 24 instructions of arithmetic of some 127 a point that an H200
 * issues in the time of a copy of as many bytes; 2.75 loads of packs, a third of what shared memory
 * gives.
 *
 * Blocks that run ahead wait for the others: then what neighbours share is still in L2, and rows of
 * neighbours are written to memory together (bench/NOTES.md). */
#include "gpu/cuda/bulk.cuh"
#include "gpu/cuda/vector_operators.cuh"

/* R: the radius, or one more than it. */
template <typename Real, int R_> struct gradient_column {
    using T = Real;
    static constexpr int R = R_, V = 16 / sizeof(T);
    /* Of a column, by measurement (bench/NOTES.md): the points in a plane, a pack for each thread
     * that computes, and planes in shared memory. */
    static constexpr int X = V == 4 && R == 4 ? 64 : 128, WIDE = X / V;
    static constexpr int THREADS = 512, Y = THREADS / WIDE;
    static constexpr int SLOTS = V == 4 ? 6 : 4;
    static constexpr int HALO = (R + V - 1) / V * V; /* along x: whole packs */
    /* A slot, in elements: R rows before the body, it, R rows after it, and what is left and right
     * of it, each from a multiple of 128 bytes on, as the copy engine wants it. */
    static constexpr int BODY = R * X, AFTER = BODY + X * Y, LEFT = AFTER + R * X;
    static constexpr int SIDE = (HALO * Y + 31) / 32 * 32, RIGHT = LEFT + SIDE;
    static constexpr int SLOT = RIGHT + SIDE;
    static constexpr int COPIED = (X * (Y + 2 * R) + 2 * HALO * Y) * sizeof(T); /* bytes */
    static constexpr int BYTES = SLOTS * (SLOT * (int)sizeof(T) + 2 * (int)sizeof(struct arrivals));
    static_assert(BYTES <= 99 << 10, "what a block may have on every device from sm_90 on");
};

template <typename T> struct gradient_shape {
    struct bulk_map body, end, side; /* boxes of the field: X × Y, X × R, HALO × Y */
    T *out[AXIS_COUNT];
    int64_t plane, field;                                     /* elements */
    int32_t n[AXIS_COUNT], low[AXIS_COUNT], high[AXIS_COUNT]; /* points; those that it computes */
    uint32_t columns_x, columns_y;
    uint32_t *asked; /* planes that each group of blocks has asked for, in all; or NULL */
    uint32_t group;  /* blocks that fit on the device at once */
    int32_t slot;
    bool whole; /* the radius is R, not R − 1 */
    T c[AXIS_COUNT][PLAN_RADIUS + 1];
};

/* A block asks for no more than LEAD planes more than its group, in the mean: as many blocks as
 * there are multiprocessors, each of which has room for one. This is for speed alone: where there
 * are more groups than counters nobody waits. Other kernels may keep some of the group from
 * starting, and another launch may count in the same place: so a block looks only so often, and
 * half as often the next time, 0.2 ms in all (a look takes 0.7 µs). */
enum { GRADIENT_GROUPS = 64, GRADIENT_LEAD = 1, GRADIENT_LOOKS = 100 };
static __device__ uint32_t gradient_asked[PASSES_SLOTS][GRADIENT_GROUPS];

/* A column begins at the end of the one before, the last so that it ends with the grid, and none
 * such that a part of what is over its side is over the grid's edge, too. */
[[maybe_unused]] static __device__ __forceinline__ int
column_begin(unsigned i, unsigned columns, int size, int side, int low, int high)
{
    return i + 1 == columns ? high - size : min(low + (int)i * size, high - size - side);
}

/* The thread that has planes brought. */
template <class Column, typename T>
static __device__ __forceinline__ void bring(const gradient_shape<T> &shape, T *slots,
                                             struct arrivals *full, struct arrivals *empty, int x0,
                                             int y0, int field, int steps)
{
    constexpr int X = Column::X, Y = Column::Y, R = Column::R, HALO = Column::HALO;
    const struct plan_axis *axis = &table[shape.slot].plan.axis[AXIS_Z];
    const int n_x = shape.n[AXIS_X], n_y = shape.n[AXIS_Y];
    const int before_x = x0 > 0 ? x0 - HALO : n_x - HALO, after_x = x0 + X < n_x ? x0 + X : 0;
    const int before_y = y0 > 0 ? y0 - R : n_y - R, after_y = y0 + Y < n_y ? y0 + Y : 0;
    const uint32_t group = blockIdx.x / shape.group;
    const uint32_t blocks = min(shape.group, gridDim.x - group * shape.group);
    volatile uint32_t *const asked = shape.asked ? shape.asked + group : nullptr;
    uint32_t seen = 0;
    int slot = 0, looks = GRADIENT_LOOKS;
    unsigned parity = 1;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        arrivals_wait(empty + slot, parity);
        if (asked) {
            const uint32_t wanted = (uint32_t)max(s - GRADIENT_LEAD, 0) * blocks;
            atomicAdd((uint32_t *)asked, 1u);
            for (int i = 0; i < looks && seen < wanted; i++)
                seen = *asked;
            if (seen < wanted)
                looks /= 2;
            seen = *asked; /* comes in the meantime */
        }
        T *const to = slots + slot * Column::SLOT;
        const int z = (int)source(axis, shape.low[AXIS_Z] - R + s);
        const int plane = field * shape.n[AXIS_Z] + z;
        arrivals_expect(full + slot, Column::COPIED);
        bulk_box(to + Column::BODY, &shape.body, x0, y0, plane, full + slot);
        bulk_box(to, &shape.end, x0, before_y, plane, full + slot);
        bulk_box(to + Column::AFTER, &shape.end, x0, after_y, plane, full + slot);
        bulk_box(to + Column::LEFT, &shape.side, before_x, y0, plane, full + slot);
        bulk_box(to + Column::RIGHT, &shape.side, after_x, y0, plane, full + slot);
        if (++slot == Column::SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
}

template <typename T, int R>
__global__ void __launch_bounds__(gradient_column<T, R>::THREADS + 32, 1)
    gradient_kernel(const __grid_constant__ gradient_shape<T> shape)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    using Column = gradient_column<T, R>;
    constexpr int V = Column::V, X = Column::X, Y = Column::Y, HALO = Column::HALO;
    constexpr int SLOTS = Column::SLOTS, WIDE = Column::WIDE;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    T *const slots = (T *)shared_memory;
    struct arrivals *const full = (struct arrivals *)(slots + SLOTS * Column::SLOT);
    struct arrivals *const empty = full + SLOTS;

    uint32_t block = blockIdx.x;
    const int x0 =
        column_begin(block % shape.columns_x, shape.columns_x, X, HALO, 0, shape.n[AXIS_X]);
    block /= shape.columns_x;
    const int y0 = column_begin(block % shape.columns_y, shape.columns_y, Y, R, shape.low[AXIS_Y],
                                shape.high[AXIS_Y]);
    const int field = (int)(block / shape.columns_y);
    const int first = shape.low[AXIS_Z];
    const int steps = shape.high[AXIS_Z] - first + 2 * R; /* the planes first − R … */
    if (threadIdx.x < SLOTS) {
        arrivals_begin(full + threadIdx.x, 1);
        arrivals_begin(empty + threadIdx.x, Column::THREADS / 32);
    }
    __syncthreads();
    if (threadIdx.x >= Column::THREADS) {
        if (threadIdx.x == Column::THREADS)
            bring<Column>(shape, slots, full, empty, x0, y0, field, steps);
        return;
    }

    const int column = threadIdx.x % WIDE, row = threadIdx.x / WIDE;
    const int own = Column::BODY + row * X + column * V;
    int left[HALO / V], right[HALO / V]; /* the packs before and after it, in a slot */
#pragma unroll
    for (int i = 0; i < HALO / V; i++) {
        const int before = column + i - HALO / V, after = column + i + 1 - WIDE;
        left[i] = before >= 0 ? own + i * V - HALO : Column::LEFT + (row + 1) * HALO + before * V;
        right[i] = after < 0 ? own + i * V + V : Column::RIGHT + row * HALO + after * V;
    }
    int wanted = 0; /* a bit for each point that is stored */
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int x = x0 + column * V + v;
        wanted |= (x >= shape.low[AXIS_X] && x < shape.high[AXIS_X]) << v;
    }
    const int64_t lag = R * shape.plane;
    int64_t place = field * shape.field + (first - R) * shape.plane +
                    (int64_t)(y0 + row) * shape.n[AXIS_X] + x0 + column * V;
    auto store = [&](int component, int64_t at, const pack<T, V> &result) {
        T *const to = shape.out[component] + at;
        if (wanted == (1 << V) - 1)
            store_pack(to, result);
        else
#pragma unroll
            for (int v = 0; v < V; v++)
                if (wanted >> v & 1)
                    to[v] = result.v[v];
    };
    /* Of the planes p − 2R … p. Set although the march fills it: ptxas may join two that are not.
     */
    pack<T, V> queue[2 * R + 1] = {};
    int slot = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        const bool now = s >= R && s < steps - R, then = s >= 2 * R; /* are p, p − R wanted? */
        arrivals_wait(full + slot, parity);
        const T *const f = slots + slot * Column::SLOT;
        const pack<T, V> here = queue[2 * R] = shared_pack(f + own);

        const row_around<T, V, R> xs([&](int i) {
            return i == 0 ? here : shared_pack(f + (i < 0 ? left[i + HALO / V] : right[i - 1]));
        });
        const auto along_x =
            derivative<R>(shape.c[AXIS_X], shape.whole, [&](int m) { return xs.at(m); });
        if (now)
            store(AXIS_X, place, along_x);

        pack<T, V> ys[2 * R + 1];
#pragma unroll
        for (int m = -R; m <= R; m++)
            ys[R + m] = shared_pack(f + own + m * X);
        const auto along_y =
            derivative<R>(shape.c[AXIS_Y], shape.whole, [&](int m) { return ys[R + m]; });
        if (now)
            store(AXIS_Y, place, along_y);

        const auto along_z =
            derivative<R>(shape.c[AXIS_Z], shape.whole, [&](int m) { return queue[R + m]; });
        if (then)
            store(AXIS_Z, place - lag, along_z);

        __syncwarp();
        if (threadIdx.x % 32 == 0)
            arrivals_arrive(empty + slot);
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
            queue[i] = queue[i + 1];
        place += shape.plane;
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
#endif
}

/* --- the launch --- */

template <typename T, int R>
static cudaError_t launch_column(const struct geometry *g, const void *in,
                                 void *const out[AXIS_COUNT])
{
    using Column = gradient_column<T, R>;
    const struct plan *plan = g->plan;
    gradient_shape<T> shape = {};
    int64_t n[AXIS_COUNT];
    for (int a = 0; a < AXIS_COUNT; a++) {
        n[a] = plan->axis[a].n;
        shape.n[a] = (int32_t)n[a];
        shape.low[a] = (int32_t)g->low[a];
        shape.high[a] = (int32_t)g->high[a];
        shape.out[a] = (T *)out[a];
        for (int m = 1; m <= R; m++)
            shape.c[a][m] = (T)plan->axis[a].c[m];
    }
    n[AXIS_Z] *= (int64_t)plan->batch;
    const int64_t rows = g->high[AXIS_Y] - g->low[AXIS_Y];
    const int64_t columns_x = blocks_of(n[AXIS_X], Column::X);
    const int64_t columns_y = blocks_of(rows, Column::Y);
    const int64_t blocks = columns_x * columns_y * (int64_t)plan->batch;
    const int64_t groups = blocks_of(blocks, g->units);
    /* What columns do not fill the device, time after time, is better divided by
     * vector_operators.cu. */
    if (n[AXIS_X] < Column::X + Column::HALO || rows < Column::Y + R || blocks > INT32_MAX ||
        n[AXIS_X] > INT32_MAX || n[AXIS_Y] > INT32_MAX || n[AXIS_Z] > INT32_MAX ||
        blocks * 4 < groups * g->units * 3)
        return cudaErrorInvalidConfiguration;
    void (*kernel)(gradient_shape<T>) = gradient_kernel<T, R>;
    cudaFuncAttributes attributes = {};
    /* Built for older devices alone it is empty, whatever it runs on. */
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess || attributes.ptxVersion < 90)
        return cudaErrorInvalidConfiguration;
    const int body[] = {Column::X, Column::Y}, end[] = {Column::X, R};
    const int side[] = {Column::HALO, Column::Y};
    if (!bulk_map_init(&shape.body, in, sizeof(T), n, body) ||
        !bulk_map_init(&shape.end, in, sizeof(T), n, end) ||
        !bulk_map_init(&shape.side, in, sizeof(T), n, side))
        return cudaErrorInvalidConfiguration;
    shape.plane = n[AXIS_X] * n[AXIS_Y];
    shape.field = (int64_t)plan->points;
    shape.columns_x = (uint32_t)columns_x;
    shape.columns_y = (uint32_t)columns_y;
    shape.group = (uint32_t)g->units;
    shape.slot = g->slot;
    shape.whole = plan->radius == R;
    if (groups <= GRADIENT_GROUPS) {
        void *asked = nullptr;
        cudaError_t error = cudaGetSymbolAddress(&asked, gradient_asked);
        if (error != cudaSuccess)
            return error;
        shape.asked = (uint32_t *)asked + (size_t)g->slot * GRADIENT_GROUPS;
        error = cudaMemsetAsync(shape.asked, 0, groups * sizeof *shape.asked, g->stream);
        if (error != cudaSuccess)
            return error;
    }
    return launch_kernel(kernel, g, blocks, dim3(Column::THREADS + 32), Column::BYTES, shape);
}

cudaError_t gradient_launch(const struct geometry *g, const void *in, void *const out[AXIS_COUNT])
{
    const struct plan *plan = g->plan;
    int device = 0, generation = 0;
    bool boxes = plan->axis[AXIS_Z].active && packs_go_on(plan);
    for (int s = 0; s < SIDE_COUNT; s++)
        boxes = boxes && (plan->axis[AXIS_Y].side[s].map == SIDE_MAP_PERIODIC ||
                          plan->axis[AXIS_Y].side[s].map == SIDE_MAP_NONE);
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
    if (!boxes || generation < 9 || g->jobs > 1)
        return cudaErrorInvalidConfiguration;
    return with_type(plan, [&](auto type) {
        using T = decltype(type);
        return plan->radius > 2 ? launch_column<T, 4>(g, in, out) : launch_column<T, 2>(g, in, out);
    });
}
