/* Stencils of a user's own. The interior: a thread has a pack of points along x, 16 bytes where
 * rows allow it, of V neighbouring planes (in 2D rows, of lines those of V fields, of one line
 * packs a block apart), so that each weight is brought once for all of them, and what planes share
 * is in the first cache. Taps that follow one another along x share the packs that they read.
 * Weights are parameters of the kernel, which all lanes read at once, or if too many are read from
 * the table. The first blocks have the edges, a thread a point: numerics/stencil_point.h. */
#include "gpu/compile/stencil_kernel.cuh"
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/grid.cuh"
#include "gpu/cuda/stencil_kernels.h"
#include "numerics/stencil_plan.h"

#include <string.h>

#define REAL float
#define REAL_FMA __fmaf_rn
#define STENCIL_NAME(name) stencil_##name##_f32
#define STENCIL_WEIGHT f32
#include "numerics/stencil_point.h"
#undef REAL
#undef REAL_FMA
#undef STENCIL_NAME
#undef STENCIL_WEIGHT
#define REAL double
#define REAL_FMA __fma_rn
#define STENCIL_NAME(name) stencil_##name##_f64
#define STENCIL_WEIGHT f64
#include "numerics/stencil_point.h"

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

/* Of the 4 KiB that parameters of a kernel may take; and the shared memory of a multiprocessor that
 * its blocks divide. */
enum { TAPS_BYTES = 2944, SHARED_OF_UNIT = 160 << 10 };

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
    template <int V>
    __device__ __forceinline__ void add(const T *const (&from)[V], pack<T, 1> (&acc)[V]) const
    {
        sum_points(*this, from, acc);
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

static __device__ __forceinline__ float read_weight(const struct stencil_tap *tap, float)
{
    return __ldg(&tap->weight.f32);
}
static __device__ __forceinline__ double read_weight(const struct stencil_tap *tap, double)
{
    return __ldg(&tap->weight.f64);
}

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
        return read_weight(&stencil_taps(table_of(slot))[k], T());
    }
    template <int V>
    __device__ __forceinline__ void add(const T *const (&from)[V], pack<T, 1> (&acc)[V]) const
    {
        sum_points(*this, from, acc);
    }
};

static __device__ __noinline__ float edge_point(const struct stencil_packs &grid, const float *f,
                                                int64_t field, const int64_t at[AXIS_COUNT])
{
    const struct stencil_source_f32 source = {table_of(grid.edge.slot), f, grid.operands, field};
    return stencil_evaluate_f32(&source, at);
}
static __device__ __noinline__ double edge_point(const struct stencil_packs &grid, const double *f,
                                                 int64_t field, const int64_t at[AXIS_COUNT])
{
    const struct stencil_source_f64 source = {table_of(grid.edge.slot), f, grid.operands, field};
    return stencil_evaluate_f64(&source, at);
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
        taps.add(from, acc);
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
    taps.add(from, acc);
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < left)
            store_pack(out + place + v * grid.apart, acc[v]);
}

/* --- launching --- */

static int64_t blocks_of(int64_t points, int64_t each)
{
    return (points + each - 1) / each;
}

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
    if (inner > INT32_MAX - edge)
        return cudaErrorInvalidConfiguration;
    if (inner + edge == 0)
        return cudaSuccess;
    grid->edge = g->boundary;
    grid->edge_blocks = (uint32_t)edge;
    void *arguments[] = {grid, taps, &in, &out};
    return cudaLaunchKernel(packs_kernel<T, V, Taps>, dim3((unsigned)(edge + inner)), dim3(THREADS),
                            arguments, 0, g->stream);
}

template <typename T, typename Taps, int V>
static cudaError_t put_pass(stencil_packs *grid, Taps *taps, const struct geometry *g, int axes,
                            const void *in, void *out)
{
    return put_blocks<T, Taps, V>(grid, taps, g, lay_out(grid, g, axes, V, Taps::PACK), in, out);
}

/* As many packs a thread as leave the device enough blocks. */
template <typename T, typename Taps>
static cudaError_t put_stencil(stencil_packs *grid, Taps *taps, const struct geometry *g, int axes,
                               const void *in, void *out)
{
    constexpr int V = Taps::PACK > 1 ? 4 : 32 / (int)sizeof(T);
    const int64_t points = (int64_t)(g->plan->points * g->plan->batch);
    if (points >= (int64_t)g->units * BLOCKS_EACH * THREADS * V * Taps::PACK)
        return put_pass<T, Taps, V>(grid, taps, g, axes, in, out);
    return put_pass<T, Taps, 1>(grid, taps, g, axes, in, out);
}

static void tap_weight(const struct stencil_tap *tap, float *to)
{
    *to = tap->weight.f32;
}
static void tap_weight(const struct stencil_tap *tap, double *to)
{
    *to = tap->weight.f64;
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
        tap_weight(&taps[k], &given->weights[k]);
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
        tap_weight(&taps[k], &given->weights[k]);
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

/* --- stencils that have a kernel of their own --- */

static const struct stencil_kernel *const common[STENCIL_SHAPES] = {
    stencil_kernels_0, stencil_kernels_1, stencil_kernels_2, stencil_kernels_3,
    stencil_kernels_4, stencil_kernels_5, stencil_kernels_6, stencil_kernels_7};

static const struct stencil_kernel *find_kernel(const struct kernel_key *key)
{
    for (int i = 0; i < STENCIL_SHAPES; i++)
        for (int j = 0; j < STENCIL_KERNELS_EACH; j++)
            if (common[i][j].key.points == key->points &&
                memcmp(&common[i][j].key, key, sizeof *key) == 0)
                return &common[i][j];
    return NULL;
}

static int map_of(const struct side *side)
{
    switch (side->held ? SIDE_MAP_NONE : side->map) {
    case SIDE_MAP_PERIODIC:
        return MAP_PERIODIC;
    case SIDE_MAP_ENDPOINT:
        return MAP_ENDPOINT;
    case SIDE_MAP_FACE:
        return MAP_FACE;
    case SIDE_MAP_NODE:
        return MAP_NODE;
    case SIDE_MAP_NEAREST:
        return MAP_NEAREST;
    default:
        return MAP_NONE;
    }
}

/* What the kernel computes: the interior, and up to sides beyond which there are images. */
static void lay_out_tiles(stencil_grid *grid, struct geometry *g, const struct stencil_table *table)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct stencil_axis *axis = &table->axis[a];
        for (int s = 0; s < SIDE_COUNT; s++)
            grid->map[a][s] = map_of(&axis->side[s]);
        const int64_t low = grid->map[a][SIDE_LOW] == MAP_NONE ? axis->apart[SIDE_LOW] : 0;
        const int64_t high = grid->map[a][SIDE_HIGH] == MAP_NONE ? axis->apart[SIDE_HIGH] : 0;
        g->low[a] = low < axis->n ? low : axis->n;
        g->high[a] = axis->n - high > g->low[a] ? axis->n - high : g->low[a];
        grid->n[a] = (int)axis->n;
        grid->low[a] = (int)g->low[a];
        grid->high[a] = (int)g->high[a];
    }
    grid->field = (int64_t)g->plan->points;
    geometry_boundary(g);
}

/* The blocks, each with a march. */
static int64_t cut_tiles(stencil_grid *grid, const struct geometry *g, const struct kernel_key *key)
{
    const struct kernel_tile tile = kernel_tile_of(key);
    const bool plane = key->axes == 2;
    const int y = kernel_tile_y(&tile), rows = grid->high[AXIS_Y] - grid->low[AXIS_Y];
    const int planes = plane ? (int)blocks_of(grid->high[AXIS_Y], y) - grid->low[AXIS_Y] / y
                             : grid->high[AXIS_Z] - grid->low[AXIS_Z];
    grid->tiles_x = (int)blocks_of(grid->n[AXIS_X], kernel_tile_x(&tile));
    grid->tiles_y = plane ? 1 : (int)blocks_of(rows, y);
    const int64_t columns = (int64_t)grid->tiles_x * grid->tiles_y * (int64_t)g->plan->batch;
    const int64_t resident = (int64_t)g->units * (SHARED_OF_UNIT / tile.shared_bytes);
    grid->length = (int)column_length(planes, columns, resident, tile.before);
    grid->marches = (int)blocks_of(planes, grid->length);
    return columns * grid->marches;
}

/* Weights and all else that a kernel of its own takes. */
template <typename T> struct kernel_arguments {
    stencil_grid grid;
    T weights[KERNEL_POINTS];
};

/* Lay a pass out for the kernel of that key, and set the geometry's interior to what it computes:
 * its blocks; 0: the grid is not for it. */
template <typename T>
static unsigned lay_out_kernel(kernel_arguments<T> *arguments, const struct kernel_key *key,
                               const struct stencil_table *table, struct geometry *g)
{
    if (table->axis[AXIS_X].n * table->axis[AXIS_Y].n > INT32_MAX)
        return 0;
    for (int a = 0; a < AXIS_COUNT; a++) /* an image is looked for from twice as far */
        if (table->axis[a].n > INT32_MAX / 2)
            return 0;
    lay_out_tiles(&arguments->grid, g, table);
    if (!g->has_interior)
        return 0;
    for (int k = 0; k < table->points; k++)
        tap_weight(&stencil_taps(table)[k], &arguments->weights[k]);
    const int64_t blocks = cut_tiles(&arguments->grid, g, key);
    return blocks > INT32_MAX ? 0 : (unsigned)blocks;
}

static cudaError_t launch_compiled(const struct kernel_key *key, const void *kernel,
                                   unsigned blocks, void **arguments, cudaStream_t stream)
{
    const struct kernel_tile tile = kernel_tile_of(key);
    return cudaLaunchKernel(kernel, dim3(blocks), dim3((unsigned)(tile.wide * tile.high)),
                            arguments, (size_t)tile.shared_bytes, stream);
}

/* A pass by a kernel of its own, and a thread a point beside sides that have ghosts. Invalid
 * configuration: there is none, or the grid is not for it. */
template <typename T>
static cudaError_t put_kernel(const struct stencil_table *table, struct geometry *g, const void *in,
                              void *out)
{
    kernel_arguments<T> arguments;
    struct kernel_key key;
    const int64_t n[AXIS_COUNT] = {table->axis[AXIS_X].n, table->axis[AXIS_Y].n,
                                   table->axis[AXIS_Z].n};
    const struct stencil_offset *offsets = stencil_offsets(table);
    if (!kernel_key_init(&key, g->plan->dtype, n, (uint64_t)table->points, &offsets->at))
        return cudaErrorInvalidConfiguration;
    const struct stencil_kernel *kernel = find_kernel(&key);
    const bool large = g->plan->points * g->plan->batch > KERNEL_LEAST_POINTS;
    const void *compiled = !kernel && large ? compiled_find(&key) : NULL;
    const unsigned blocks = kernel || compiled ? lay_out_kernel(&arguments, &key, table, g) : 0;
    if (!blocks)
        return cudaErrorInvalidConfiguration;
    void *pointers[] = {&arguments, &in, &out};
    return kernel ? kernel->launch(blocks, pointers, g->stream)
                  : launch_compiled(&key, compiled, blocks, pointers, g->stream);
}

template <typename T>
static cudaError_t try_kernel(const struct kernel_key *key, const void *kernel, struct geometry *g,
                              const void *in, void *out)
{
    kernel_arguments<T> arguments;
    const unsigned blocks = lay_out_kernel(&arguments, key, stencil_table_of(g->plan->table), g);
    void *pointers[] = {&arguments, &in, &out};
    return blocks ? launch_compiled(key, kernel, blocks, pointers, g->stream)
                  : cudaErrorInvalidConfiguration;
}

extern "C" cudaError_t compiled_launch(const struct kernel_key *key, const void *kernel,
                                       const struct plan *plan, int units, const void *in,
                                       void *out, cudaStream_t stream, int64_t low[AXIS_COUNT],
                                       int64_t high[AXIS_COUNT])
{
    struct geometry g;
    geometry_init(&g, plan, 0, plan->lines, 1, 0, units, stream);
    const cudaError_t error = key->dtype == DTYPE_F32
                                  ? try_kernel<float>(key, kernel, &g, in, out)
                                  : try_kernel<double>(key, kernel, &g, in, out);
    memcpy(low, g.low, sizeof g.low);
    memcpy(high, g.high, sizeof g.high);
    return error;
}

template <typename T>
static cudaError_t put_typed(stencil_packs *grid, const struct stencil_table *table,
                             struct geometry *g, int axes, const void *in, void *out)
{
    constexpr int P = given_packs<T>::PACK;
    const int64_t length = table->axis[AXIS_X].high - table->axis[AXIS_X].low;
    given_packs<T> packs;
    given_taps<T> given;
    const cudaError_t error = put_kernel<T>(table, g, in, out);
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
        error = plan->dtype == DTYPE_F32 ? put_typed<float>(&grid, table, &g, axes, in, out)
                                         : put_typed<double>(&grid, table, &g, axes, in, out);
    }
    return error;
}
