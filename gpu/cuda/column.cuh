/* Columns of a 3D grid that blocks march through along z, with a ring of planes in shared memory
 * that asynchronous copies fill ahead: what kernels of operators with tables share. Next to
 * periodic sides points are computed too; past other sides, which the interior keeps away from, any
 * point of the grid stands for what nobody uses. */
#pragma once

#include "gpu/cuda/grid.cuh"

#include <cuda_pipeline.h>

/* A block's part of a plane: 32 packs × HIGH rows, a pack for each thread, and REACH points around
 * it, of so many fields. */
template <typename T, int REACH, int HIGH_, int FIELDS_, bool ALIGNED_> struct table_column {
    static constexpr bool ALIGNED = ALIGNED_; /* rows are whole packs */
    enum {
        V = 16 / sizeof(T),
        UNIT = ALIGNED ? V : 1, /* of a copy */
        WIDE = 32,
        HIGH = HIGH_,
        FIELDS = FIELDS_,
        THREADS = WIDE * HIGH,
        X = WIDE * V,
        PACKS = (REACH + V - 1) / V, /* on each side along x */
        HALO = PACKS * V,
        HEIGHT = HIGH + 2 * REACH,
        LINE = 128 / sizeof(T),
        PITCH = X + LINE, /* a row's right side and the next one's left side fill a line */
        PLANE = PITCH * HEIGHT + LINE,
        AHEAD = 2,
        RING = REACH + 1 + AHEAD,
        INNER = X / UNIT * HEIGHT,
        UNITS = INNER + 2 * HALO / UNIT * HEIGHT,
        COPIES = (UNITS + THREADS - 1) / THREADS,
        RINGS = LINE + FIELDS * RING * PLANE, /* before the first row a place for its left side */
        ELEMENTS = RINGS + (ALIGNED ? 0 : HIGH * X)
    };
    static_assert(2 * HALO <= LINE, "two sides fit in a line");
};

struct column_grid {
    int64_t plane, field;                      /* elements */
    int32_t n[AXIS_COUNT];                     /* points */
    int32_t low[AXIS_COUNT], high[AXIS_COUNT]; /* those that are computed */
    int32_t wraps[AXIS_COUNT], length;         /* of a march */
    uint32_t columns_x, columns_y, marches;
};

/* Where index i is read. */
static __device__ __forceinline__ int brought_in(const column_grid &grid, int a, int i)
{
    const int n = grid.n[a];
    if (grid.wraps[a])
        i = i < 0 ? n - 1 - (-1 - i) % n : i >= n ? i % n : i;
    return min(max(i, 0), n - 1);
}

/* A thread of a column. */
template <typename T, class Column> struct column_thread {
    const column_grid &grid;
    int first, last; /* planes of the march */
    int64_t field;   /* where the block's begins */
    int x, y;        /* of the thread's pack */
    int own;         /* … in a plane of the ring */
    int here;        /* the slot of the first plane that is still needed */
    T *planes;       /* the ring, where its first row has the column's first x */
    uint32_t from[Column::COPIES];
    int to[Column::COPIES];

    __device__ __forceinline__ column_thread(const column_grid &of, T *shared)
        : grid(of), here(0), planes(shared + Column::LINE)
    {
        constexpr int V = Column::V, WIDE = Column::WIDE, UNIT = Column::UNIT,
                      ROW = Column::X / UNIT, SIDES = 2 * Column::HALO / UNIT,
                      REACH = (Column::HEIGHT - Column::HIGH) / 2;
        const int thread = threadIdx.x, nx = grid.n[AXIS_X];
        uint32_t block = blockIdx.x;
        const int x0 = (int)(block % grid.columns_x) * Column::X;
        block /= grid.columns_x;
        const int y0 = grid.low[AXIS_Y] + (int)(block % grid.columns_y) * Column::HIGH;
        block /= grid.columns_y;
        first = grid.low[AXIS_Z] + (int)(block % grid.marches) * grid.length;
        last = min(first + grid.length, grid.high[AXIS_Z]);
        field = (int64_t)(block / grid.marches) * grid.field;
        /* It copies first packs of the column, then of its sides. */
#pragma unroll
        for (int j = 0; j < Column::COPIES; j++) {
            const int i = thread + j * Column::THREADS, side = max(i - Column::INNER, 0);
            int row = i / ROW, at = i % ROW * UNIT;
            if (i >= Column::INNER) {
                row = min(side / SIDES, Column::HEIGHT - 1);
                at = side % SIDES * UNIT - Column::HALO;
                at += at < 0 ? 0 : Column::X;
            }
            from[j] = (uint32_t)brought_in(grid, AXIS_Y, y0 - REACH + row) * (uint32_t)nx +
                      (uint32_t)(brought_in(grid, AXIS_X, x0 + at) / UNIT * UNIT);
            to[j] = row * Column::PITCH + at;
        }
        x = x0 + thread % WIDE * V;
        y = y0 + thread / WIDE;
        own = (thread / WIDE + REACH) * Column::PITCH + thread % WIDE * V;
    }
    __device__ __forceinline__ int64_t plane_of(int z) const
    {
        return field + brought_in(grid, AXIS_Z, z) * grid.plane;
    }
    /* The slot of the plane i past the first one that is needed. */
    __device__ __forceinline__ int slot(int i) const
    {
        return here + i < Column::RING ? here + i : here + i - Column::RING;
    }
    /* A plane of a field of the ring. */
    __device__ __forceinline__ T *at(int slot, int number) const
    {
        return planes + (slot * Column::FIELDS + number) * Column::PLANE;
    }
    /* Begin to copy plane z of each field, where the march comes that far. */
    __device__ __forceinline__ void copy(const T *const (&fields)[Column::FIELDS], int z, int slot,
                                         int reach) const
    {
        if (z < last + reach) {
            const int64_t plane = plane_of(z);
#pragma unroll
            for (int j = 0; j < Column::COPIES; j++)
                if ((j + 1) * Column::THREADS <= Column::UNITS ||
                    (int)threadIdx.x + j * Column::THREADS < Column::UNITS)
#pragma unroll
                    for (int f = 0; f < Column::FIELDS; f++)
                        __pipeline_memcpy_async(at(slot, f) + to[j], fields[f] + plane + from[j],
                                                Column::UNIT * sizeof(T));
        }
        __pipeline_commit();
    }
    /* The thread's pack of an array at plane z; past a row's end, or the last row, points that can
     * be read. */
    __device__ __forceinline__ pack<T, Column::V> load(const T *array, int z) const
    {
        constexpr int V = Column::V;
        const int n = grid.n[AXIS_X];
        const T *const from_row = array + plane_of(z) + (int64_t)min(y, grid.n[AXIS_Y] - 1) * n;
        pack<T, V> q;
        if constexpr (Column::ALIGNED)
            q = load_pack<V>(from_row + min(x, n - V));
        else
#pragma unroll
            for (int v = 0; v < V; v++)
                q.v[v] = from_row[min(x + v, n - 1)];
        return q;
    }
    /* The pack of plane z. A warp has a row, whose points go through shared memory where they are
     * not stored as packs. */
    __device__ __forceinline__ void store(T *out, int z, const pack<T, Column::V> &q) const
    {
        constexpr int V = Column::V, WIDE = Column::WIDE;
        const int low = grid.low[AXIS_X], high = grid.high[AXIS_X];
        T *const row = out + field + z * grid.plane + (int64_t)y * grid.n[AXIS_X];
        if constexpr (Column::ALIGNED) {
            if (y < grid.high[AXIS_Y])
                store_between(row, x, q, low, high);
        } else {
            T *const stage = planes - Column::LINE + Column::RINGS + threadIdx.x / WIDE * Column::X;
            const int lane = threadIdx.x % WIDE;
            store_shared(stage + lane * V, q);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < V; i++) {
                const int at = lane + i * WIDE, there = x - lane * V + at;
                if (y < grid.high[AXIS_Y] && there >= low && there < high)
                    row[there] = stage[at];
            }
            __syncwarp();
        }
    }
};

/* --- launching --- */

/* Is the axis periodic, and so has one row for all its points? With coordinates each has its own.
 */
static inline bool axis_wraps(const struct plan *plan, int a)
{
    const struct table_header *header = table_of(plan);
    const struct table_rows *rows = &header->rows[TABLE_ROWS_OF_FACTORS][a];
    return header->axis_of[a].side[SIDE_LOW].map == SIDE_MAP_PERIODIC && rows->low == 0 &&
           rows->high == 0;
}

/* Are columns of that many bytes possible? Then the interior grows to the periodic sides. */
static inline bool columns_take(struct geometry *g, size_t bytes)
{
    const struct table_header *header = table_of(g->plan);
    if (header->active != (1 << AXIS_COUNT) - 1 || header->axis_of[AXIS_Z].stride > UINT32_MAX ||
        bytes > (size_t)block_shared_bytes())
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (header->axis_of[a].n > INT32_MAX / 2)
            return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (axis_wraps(g->plan, a)) {
            g->low[a] = g->begin[a];
            g->high[a] = g->end[a];
        }
    geometry_boundary(g);
    return true;
}

/* How many blocks; before: planes of a march until its first result. */
template <class Column>
static int64_t divide_columns(const struct geometry *g, int each, int before, column_grid *grid)
{
    const struct table_header *header = table_of(g->plan);
    grid->plane = header->axis_of[AXIS_Z].stride;
    grid->field = (int64_t)header->points;
    for (int a = 0; a < AXIS_COUNT; a++) {
        grid->n[a] = (int32_t)header->axis_of[a].n;
        grid->wraps[a] = axis_wraps(g->plan, a);
        grid->low[a] = (int32_t)g->low[a];
        grid->high[a] = (int32_t)g->high[a];
    }
    return cut_columns(grid, blocks_of(grid->n[AXIS_X], Column::X), Column::HIGH,
                       (int64_t)g->plan->batch, (int64_t)g->units * each, before);
}

/* use(of), of Of<T, R, ALIGNED> for the plan and the radius of its second derivatives. */
template <template <typename, int, bool> class Of, class Use>
static cudaError_t with_columns(const struct plan *plan, const Use &use)
{
    const bool is_biharmonic = table_of(plan)->form == TABLE_FORM_BIHARMONIC;
    const int rows = is_biharmonic ? TABLE_ROWS_INNER : TABLE_ROWS_OF_FACTORS;
    return with_number<1, PLAN_RADIUS>(centred_row(plan, rows, AXIS_X).count, [&](auto radius) {
        return with_type(plan, [&](auto type) {
            using T = decltype(type);
            constexpr int R = decltype(radius)::value;
            return rows_are_packs(plan) ? use(Of<T, R, true>()) : use(Of<T, R, false>());
        });
    });
}

template <template <typename, int, bool> class Of> static bool columns_of(struct geometry *g)
{
    size_t bytes = 0;
    auto take_bytes = [&](auto of) {
        bytes = decltype(of)::BYTES;
        return cudaSuccess;
    };
    return with_columns<Of>(g->plan, take_bytes) == cudaSuccess && columns_take(g, bytes);
}

template <template <typename, int, bool> class Of>
static cudaError_t launch_columns_of(const struct geometry *g, const struct table_pass *pass)
{
    return with_columns<Of>(g->plan, [&](auto of) { return decltype(of)::run(g, pass); });
}
