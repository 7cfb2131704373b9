/* Stencils of a user's own. The interior: a thread has a pack of points along x, 16 bytes where
 * rows allow it, of V neighbouring planes (in 2D rows, of lines those of V fields, of one line
 * packs a block apart), so that each weight is brought once for all of them, and what planes share
 * is in the first cache. Taps that follow one another along x share the packs that they read.
 * Weights are parameters of the kernel, which all lanes read at once, or if too many are read from
 * the table. The first blocks have the edges, a thread a point: numerics/stencil_point.h. */
#include "gpu/cuda/stencil_kernels.h"
#include "gpu/cuda/stencil_point.cuh"

enum {
    THREADS = 256,
    WIDE = 32,       /* threads along x where more would share less of what they read along y */
    BLOCKS_EACH = 4, /* of a multiprocessor, of threads with V packs, for these to pay */
    PACKED = 2       /* packs must hold 1/2 of the interior's lines, for them to pay */
};

/* The interior of all fields, as lines along x of columns: outputs of a column are `apart` elements
 * from one to the next. */
struct stencil_packs {
    const void *operands[OPERANDS];
    int64_t first;        /* element: of the first field */
    int64_t size_x, rows; /* packs along x, and lines across */
    int64_t columns, apart, row_apart, field_apart;
    uint32_t threads_x, threads_row;              /* of a block; the others go along columns */
    uint32_t blocks_x, blocks_row, blocks_column; /* of a field */
    uint32_t edge_blocks;
    bool one_line; /* x goes on in the next column: threads_x packs further */
    struct boundary_shape edge;
};

enum { TAPS_BYTES = 2944 }; /* of the 4 KiB that parameters of a kernel may take */

/* acc + the sums of taps at V points, one after another. It begins with -0, to which a product is
 * added without a trace. */
template <typename Taps, typename T, int V>
static __device__ __forceinline__ void sum_points(const Taps &taps, const T *const (&from)[V],
                                                  pack<T, 1> (&acc)[V])
{
#pragma unroll 4
    for (int k = 0; k < taps.count; k++) {
        const int64_t step = taps.step(k);
        const T weight = taps.weight(k);
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[v].v[0] = fused(weight, __ldg(from[v] + step), acc[v].v[0]);
    }
}

/* Taps as parameters. */
template <typename T> struct given_taps {
    static constexpr int PACK = 1;
    static constexpr int MOST = TAPS_BYTES / (sizeof(int32_t) + sizeof(T));
    int32_t count;
    int32_t steps[MOST];
    T weights[MOST];
    __device__ __forceinline__ int64_t step(int k) const
    {
        return steps[k];
    }
    __device__ __forceinline__ T weight(int k) const
    {
        return weights[k];
    }
};

/* The same by packs: a group of taps reads from the pack `step` away, and from the one after it. */
template <typename T> struct given_packs {
    static constexpr int PACK = 16 / sizeof(T);
    static constexpr int MOST_GROUPS = 160;
    struct group {
        int32_t step;
        uint8_t taps;    /* bit s: there is one at step + s */
        uint8_t follows; /* its first pack is the second one of the group before */
    } groups[MOST_GROUPS];
    static constexpr int MOST = (TAPS_BYTES - (int)sizeof groups) / (int)sizeof(T);
    int32_t count, group_count;
    T weights[MOST];
    template <int V>
    __device__ __forceinline__ void add(const T *const (&from)[V], pack<T, PACK> (&acc)[V]) const
    {
        pack<T, PACK> low[V], high[V] = {};
        int k = 0;
        for (int g = 0; g < group_count; g++) {
            const int64_t step = groups[g].step;
            const int taps = groups[g].taps;
            if (groups[g].follows) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    low[v] = high[v];
            } else {
#pragma unroll
                for (int v = 0; v < V; v++)
                    low[v] = load_pack<PACK>(from[v] + step);
            }
            if (taps > 1) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    high[v] = load_pack<PACK>(from[v] + step + PACK);
            }
#pragma unroll
            for (int s = 0; s < PACK; s++) {
                if (!(taps >> s & 1))
                    continue;
                const T weight = weights[k++];
#pragma unroll
                for (int v = 0; v < V; v++)
#pragma unroll
                    for (int p = 0; p < PACK; p++)
                        acc[v].v[p] =
                            fused(weight,
                                  s + p < PACK ? low[v].v[s + p < PACK ? s + p : 0]
                                               : high[v].v[s + p < PACK ? 0 : s + p - PACK],
                                  acc[v].v[p]);
            }
        }
    }
};

static __device__ __forceinline__ const struct stencil_table *table_of(int slot)
{
    return (const struct stencil_table *)table[slot].rows;
}

/* Taps of the table. */
template <typename T> struct table_taps {
    static constexpr int PACK = 1;
    int32_t count, slot;
    __device__ __forceinline__ int64_t step(int k) const
    {
        return __ldg(&stencil_taps(table_of(slot))[k].step);
    }
    __device__ __forceinline__ T weight(int k) const
    {
        return __ldg(&stencil_weight<T>(stencil_taps(table_of(slot))[k]));
    }
};

template <typename T>
static __device__ __noinline__ T edge_point(const struct stencil_packs &grid, const T *f,
                                            int64_t field, const int64_t at[AXIS_COUNT])
{
    const stencil_point_source<T> source = {table_of(grid.edge.slot), f, grid.operands, field};
    return stencil_evaluate<T>(source, at);
}

/* Is it in the interior after all, in no whole pack? */
static __device__ __forceinline__ bool is_interior(const struct stencil_table *table,
                                                   const int64_t at[AXIS_COUNT])
{
    bool inside = true;
    for (int a = 0; a < AXIS_COUNT; a++)
        inside &= at[a] >= table->axis[a].low && at[a] < table->axis[a].high;
    return inside;
}

template <typename T>
static __device__ __forceinline__ void edge_block(const stencil_packs &grid, const T *in, T *out)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(grid.edge, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    const struct plan *plan = &table[grid.edge.slot].plan;
    const int64_t begin = (int64_t)(field * plan->points);
    const int64_t place = begin + at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    if (is_interior(table_of(grid.edge.slot), at)) {
        const table_taps<T> taps = {table_of(grid.edge.slot)->points, grid.edge.slot};
        const T *const from[1] = {in + place};
        pack<T, 1> acc[1] = {{{(T)-0.0}}};
        sum_points(taps, from, acc);
        out[place] = acc[0].v[0];
    } else {
        out[place] = edge_point(grid, in + begin, begin / (int64_t)plan->points, at);
    }
}

enum { PARAMETERS_BYTES = 4096 };
static_assert(sizeof(stencil_packs) + sizeof(given_packs<float>) + 32 <= PARAMETERS_BYTES &&
                  sizeof(stencil_packs) + sizeof(given_packs<double>) + 32 <= PARAMETERS_BYTES &&
                  sizeof(stencil_packs) + sizeof(given_taps<double>) + 32 <= PARAMETERS_BYTES,
              "parameters of a kernel take 4 KiB");

template <typename T, int V, typename Taps>
static __global__ void __launch_bounds__(THREADS)
    packs_kernel(const __grid_constant__ stencil_packs grid, const __grid_constant__ Taps taps,
                 const T *in, T *out)
{
    if (blockIdx.x < grid.edge_blocks) {
        edge_block(grid, in, out);
        return;
    }
    uint32_t block = blockIdx.x - grid.edge_blocks;
    const uint32_t block_x = block % grid.blocks_x;
    block /= grid.blocks_x;
    const uint32_t block_row = block % grid.blocks_row;
    block /= grid.blocks_row;
    const uint32_t threads_row = grid.threads_x * grid.threads_row;
    const uint32_t thread_column = threadIdx.x / threads_row;
    const int64_t x = (int64_t)block_x * grid.threads_x + threadIdx.x % grid.threads_x;
    const int64_t row =
        (int64_t)block_row * grid.threads_row + threadIdx.x / grid.threads_x % grid.threads_row;
    const int64_t column =
        ((int64_t)(block % grid.blocks_column) * (THREADS / threads_row) + thread_column) * V;
    const int64_t left =
        (grid.one_line ? (grid.size_x - x + grid.threads_x - 1) / grid.threads_x : grid.columns) -
        column;
    if (x >= grid.size_x || row >= grid.rows || left <= 0)
        return;
    constexpr int P = Taps::PACK;
    const int64_t place = grid.first + x * P + row * grid.row_apart + column * grid.apart +
                          block / grid.blocks_column * grid.field_apart;
    const T *from[V];
    pack<T, P> acc[V];
#pragma unroll
    for (int v = 0; v < V; v++) { /* of a column's end, the last one that is there again */
        from[v] = in + place + (v < left ? v : left - 1) * grid.apart;
#pragma unroll
        for (int p = 0; p < P; p++)
            acc[v].v[p] = (T)-0.0;
    }
    if constexpr (P > 1)
        taps.add(from, acc);
    else
        sum_points(taps, from, acc);
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < left)
            store_pack(out + place + v * grid.apart, acc[v]);
}

/* --- launching --- */

/* Lay the interior out, V packs of P points a thread. Returns its blocks; more than INT32_MAX are
 * too many. */
static int64_t lay_out(stencil_packs *grid, const struct geometry *g, int axes, int V, int P)
{
    const struct plan_axis *axis = g->plan->axis;
    const int64_t field = (int64_t)g->plan->points, batch = (int64_t)g->plan->batch;
    int64_t size[AXIS_COUNT], fields = 1;
    grid->first = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        size[a] = (g->high[a] - g->low[a]) / (a == AXIS_X ? P : 1);
        grid->first += g->low[a] * axis[a].stride;
        if (size[a] <= 0)
            return 0;
    }
    grid->size_x = size[AXIS_X];
    grid->rows = 1;
    if (axes == 3) {
        grid->columns = size[AXIS_Z];
        grid->apart = axis[AXIS_Z].stride;
        grid->rows = size[AXIS_Y];
        grid->row_apart = axis[AXIS_Y].stride;
        grid->field_apart = field;
        fields = batch;
    } else if (axes == 2) {
        grid->columns = size[AXIS_Y];
        grid->apart = axis[AXIS_Y].stride;
        grid->rows = batch;
        grid->row_apart = field;
    } else {
        grid->columns = batch;
        grid->apart = field;
    }
    grid->threads_x = power_of_two(size[AXIS_X], axes == 3 ? WIDE : THREADS);
    grid->threads_row = power_of_two(grid->rows, THREADS / grid->threads_x);
    grid->one_line = axes == 1 && batch == 1;
    if (grid->one_line) {
        grid->apart = (int64_t)grid->threads_x * P;
        grid->columns = blocks_of(size[AXIS_X], grid->threads_x);
    }
    const int64_t threads_column = THREADS / (grid->threads_x * grid->threads_row);
    const int64_t blocks_x = grid->one_line ? 1 : blocks_of(size[AXIS_X], grid->threads_x);
    const int64_t blocks_row = blocks_of(grid->rows, grid->threads_row);
    const int64_t blocks_column = blocks_of(grid->columns, threads_column * V);
    grid->blocks_x = (uint32_t)blocks_x;
    grid->blocks_row = (uint32_t)blocks_row;
    grid->blocks_column = (uint32_t)blocks_column;
    const double blocks = (double)blocks_x * (double)blocks_row * (double)blocks_column *
                          (double)fields; /* nothing overflows */
    return blocks > INT32_MAX ? INT64_MAX : (int64_t)blocks;
}

/* The boundary, and `inner` blocks of the interior as it is laid out. */
template <typename T, typename Taps, int V>
static cudaError_t put_blocks(stencil_packs *grid, Taps *taps, const struct geometry *g,
                              int64_t inner, const void *in, void *out)
{
    const int64_t edge = blocks_of(g->boundary.points * g->boundary.batch, THREADS);
    if (inner > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    grid->edge = g->boundary;
    grid->edge_blocks = (uint32_t)edge;
    return launch_kernel(packs_kernel<T, V, Taps>, g, edge + inner, dim3(THREADS), 0, *grid, *taps,
                         (const T *)in, (T *)out);
}

/* As many packs a thread as leave the device enough blocks. */
template <typename T, typename Taps>
static cudaError_t put_stencil(stencil_packs *grid, Taps *taps, const struct geometry *g, int axes,
                               const void *in, void *out)
{
    constexpr int MOST = Taps::PACK > 1 ? 4 : 32 / (int)sizeof(T);
    const int64_t points = (int64_t)(g->plan->points * g->plan->batch);
    const bool many = points >= (int64_t)g->units * BLOCKS_EACH * THREADS * MOST * Taps::PACK;
    return with_flag(many, [&](auto is_many) {
        constexpr int V = decltype(is_many)::value ? MOST : 1;
        const int64_t inner = lay_out(grid, g, axes, V, Taps::PACK);
        return put_blocks<T, Taps, V>(grid, taps, g, inner, in, out);
    });
}

/* False where they are too many, or too far. */
template <typename T> static bool give(given_taps<T> *given, const struct stencil_table *table)
{
    const struct stencil_tap *taps = stencil_taps(table);
    given->count = table->points;
    for (int k = 0; k < table->points; k++) {
        if (k == given_taps<T>::MOST || taps[k].step != (int32_t)taps[k].step)
            return false;
        given->steps[k] = (int32_t)taps[k].step;
        given->weights[k] = stencil_weight<T>(taps[k]);
    }
    return true;
}

/* The same in groups. A pack's neighbours are packs of its row where rows are of whole packs. */
template <typename T> static bool give(given_packs<T> *given, const struct stencil_table *table)
{
    constexpr int P = given_packs<T>::PACK;
    const struct stencil_tap *taps = stencil_taps(table);
    const struct stencil_offset *offsets = stencil_offsets(table);
    int32_t end = 0; /* of the taps along x that the group may still take */
    int64_t across = 0;
    given->count = table->points;
    given->group_count = 0;
    for (int k = 0; k < table->points; k++) {
        const int32_t x = offsets[k].at[AXIS_X];
        const int32_t pack =
            (x + JOB_STENCIL_RADIUS) / P * P - JOB_STENCIL_RADIUS; /* rounded down */
        const int64_t step = taps[k].step - x;
        struct given_packs<T>::group *last = &given->groups[k > 0 ? given->group_count - 1 : 0];
        const bool same_line = k > 0 && step == across;
        if (k == given_packs<T>::MOST || taps[k].step != (int32_t)taps[k].step)
            return false;
        if (same_line && pack == end - P && last->taps < 1 << (x - pack)) {
            last->taps |= (uint8_t)(1 << (x - pack));
        } else {
            if (given->group_count == given_packs<T>::MOST_GROUPS)
                return false;
            given->groups[given->group_count].step = (int32_t)(step + pack);
            given->groups[given->group_count].taps = (uint8_t)(1 << (x - pack));
            given->groups[given->group_count++].follows =
                same_line && pack == end && last->taps > 1;
        }
        end = pack + P;
        across = step;
        given->weights[k] = stencil_weight<T>(taps[k]);
    }
    return true;
}

/* The interior as far as it is of whole packs; the rest is left to the edges. */
static void choose_interior(struct geometry *g, const struct stencil_table *table, int P)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        g->low[a] = table->axis[a].low;
        g->high[a] = table->axis[a].high;
    }
    g->low[AXIS_X] = (g->low[AXIS_X] + P - 1) / P * P;
    g->high[AXIS_X] = g->high[AXIS_X] / P * P;
    if (g->high[AXIS_X] < g->low[AXIS_X])
        g->low[AXIS_X] = g->high[AXIS_X] = table->axis[AXIS_X].low;
    geometry_boundary(g);
}

template <typename T>
static cudaError_t put_typed(stencil_packs *grid, const struct stencil_table *table,
                             struct geometry *g, int axes, const void *in, void *out)
{
    constexpr int P = given_packs<T>::PACK;
    const int64_t length = table->axis[AXIS_X].high - table->axis[AXIS_X].low;
    given_packs<T> packs;
    given_taps<T> given;
    const cudaError_t error = own_kernel_launch(table, g, grid->operands, in, out);
    table_taps<T> taps = {table->points, g->slot};
    if (error == cudaSuccess)
        return put_blocks<T, table_taps<T>, 1>(grid, &taps, g, 0, in, out);
    if (error != cudaErrorInvalidConfiguration)
        return error;
    choose_interior(g, table, P);
    if (table->axis[AXIS_X].n % P == 0 && PACKED * (g->high[AXIS_X] - g->low[AXIS_X]) >= length &&
        give(&packs, table))
        return put_stencil<T>(grid, &packs, g, axes, in, out);
    choose_interior(g, table, 1);
    if (give(&given, table))
        return put_stencil<T>(grid, &given, g, axes, in, out);
    return put_stencil<T>(grid, &taps, g, axes, in, out);
}

extern "C" cudaError_t stencil_launch(const struct launch *launch, int slot, int units,
                                      cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const struct stencil_table *table = stencil_table_of(plan->table);
    struct geometry g;
    stencil_packs grid;
    memset(&grid, 0, sizeof grid);
    geometry_init(&g, plan, 0, plan->lines, 1, slot, units, stream);
    for (int i = 0; i < OPERANDS && launch->operands; i++)
        grid.operands[i] = launch->operands->at[i];
    int axes = AXIS_COUNT;
    while (axes > 1 && plan->axis[axes - 1].n == 1)
        axes--;
    cudaError_t error = cudaSuccess;
    for (uint64_t line = launch->from; line < launch->to && error == cudaSuccess;
         line += plan->lines) {
        const uint64_t pass = line / plan->lines;
        const void *in = pass == 0 ? launch->in[0] : pass % 2 == 1 ? launch->even[0] : launch->odd;
        void *out = pass % 2 == 1 ? launch->odd : launch->even[0];
        error = with_type(plan, [&](auto type) {
            return put_typed<decltype(type)>(&grid, table, &g, axes, in, out);
        });
    }
    return error;
}
