/* Stencils of a user's own. The interior: a thread has a point of V neighbouring planes (in 2D
 * rows, of lines those of V fields, of one line V points a block apart), so that each weight is
 * brought once for all of them and what planes share is in the first cache. Few weights are
 * parameters of the kernel, which all lanes read at once; the others are read from the table. The
 * first blocks have the edges, a thread a point: gpu/stencil_point.h. */
#include "gpu/cuda/grid.cuh"
#include "gpu/stencil_plan.h"

#include <string.h>

#define REAL float
#define REAL_FMA __fmaf_rn
#define STENCIL_NAME(name) stencil_##name##_f32
#define STENCIL_WEIGHT f32
#include "gpu/stencil_point.h"
#undef REAL
#undef REAL_FMA
#undef STENCIL_NAME
#undef STENCIL_WEIGHT
#define REAL double
#define REAL_FMA __fma_rn
#define STENCIL_NAME(name) stencil_##name##_f64
#define STENCIL_WEIGHT f64
#include "gpu/stencil_point.h"

enum {
    THREADS = 256,
    WIDE = 32,      /* threads along x where more would share less of what they read along y */
    BLOCKS_EACH = 4 /* of a multiprocessor, of threads with V points, for these to pay */
};

/* The interior of all fields, as lines along x of columns: outputs of a column are `apart` elements
 * from one to the next. */
struct stencil_grid {
    const void *operands[OPERANDS];
    int64_t first;        /* element: of the first field */
    int64_t size_x, rows; /* threads' points along x, and across */
    int64_t columns, apart, row_apart, field_apart;
    uint32_t threads_x, threads_row;              /* of a block; the others go along columns */
    uint32_t blocks_x, blocks_row, blocks_column; /* of a field */
    uint32_t edge_blocks;
    bool one_line; /* x goes on in the next column */
    struct shell_shape edge;
};

/* Taps as parameters: together with the grid 4 KiB at most. */
template <typename T> struct given_taps {
    static constexpr int MOST = 2944 / (sizeof(int32_t) + sizeof(T));
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
    int32_t count, slot;
    __device__ __forceinline__ int64_t step(int k) const
    {
        return __ldg(&stencil_taps(table_of(slot))[k].step);
    }
    __device__ __forceinline__ T weight(int k) const
    {
        return read_weight(&stencil_taps(table_of(slot))[k], T());
    }
};

static __device__ __noinline__ float edge_point(const struct stencil_grid &grid, const float *f,
                                                int64_t field, const int64_t at[AXIS_COUNT])
{
    const struct stencil_source_f32 source = {table_of(grid.edge.slot), f, grid.operands, field};
    return stencil_evaluate_f32(&source, at);
}
static __device__ __noinline__ double edge_point(const struct stencil_grid &grid, const double *f,
                                                 int64_t field, const int64_t at[AXIS_COUNT])
{
    const struct stencil_source_f64 source = {table_of(grid.edge.slot), f, grid.operands, field};
    return stencil_evaluate_f64(&source, at);
}

template <typename T>
static __device__ __forceinline__ void edge_block(const stencil_grid &grid, const T *in, T *out)
{
    int64_t at[AXIS_COUNT], begin;
    if (!shell_find(grid.edge, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &begin))
        return;
    const struct plan *plan = &table[grid.edge.slot].plan;
    out[begin + at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
        at[AXIS_Z] * plan->axis[AXIS_Z].stride] =
        edge_point(grid, in + begin, begin / (int64_t)plan->points, at);
}

template <typename T, int V, typename Taps>
static __global__ void __launch_bounds__(THREADS)
    stencil_kernel(const __grid_constant__ stencil_grid grid, const __grid_constant__ Taps taps,
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
        (grid.one_line ? (grid.size_x - x + grid.apart - 1) / grid.apart : grid.columns) - column;
    if (x >= grid.size_x || row >= grid.rows || left <= 0)
        return;
    const int64_t place = grid.first + x + row * grid.row_apart + column * grid.apart +
                          block / grid.blocks_column * grid.field_apart;
    const T *from[V];
    T acc[V];
#pragma unroll
    for (int v = 0; v < V; v++) /* of a column's end, the last one that is there again */
        from[v] = in + place + (v < left ? v : left - 1) * grid.apart;
    const int64_t first_step = taps.step(0);
    const T first_weight = taps.weight(0);
#pragma unroll
    for (int v = 0; v < V; v++)
        acc[v] = first_weight * __ldg(from[v] + first_step);
#pragma unroll 4
    for (int k = 1; k < taps.count; k++) {
        const int64_t step = taps.step(k);
        const T weight = taps.weight(k);
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[v] = fused(weight, __ldg(from[v] + step), acc[v]);
    }
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < left)
            out[place + v * grid.apart] = acc[v];
}

/* --- launching --- */

static int64_t blocks_of(int64_t points, int64_t each)
{
    return (points + each - 1) / each;
}

/* Lay the interior out, V points a thread. Returns its blocks; more than INT32_MAX are too many. */
static int64_t lay_out(stencil_grid *grid, const struct stencil_table *table, int64_t batch,
                       int axes, int V)
{
    const struct stencil_axis *axis = table->axis;
    const int64_t field = (int64_t)table->field_points;
    int64_t size[AXIS_COUNT], fields = 1;
    grid->first = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        size[a] = axis[a].high - axis[a].low;
        grid->first += axis[a].low * axis[a].stride;
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
        grid->apart = grid->threads_x;
        grid->columns = blocks_of(size[AXIS_X], grid->apart);
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

template <typename T, typename Taps, int V>
static cudaError_t put_pass(stencil_grid *grid, Taps *taps, const struct stencil_table *table,
                            const struct geometry *g, int axes, const void *in, void *out)
{
    const int64_t inner = lay_out(grid, table, (int64_t)g->plan->batch, axes, V);
    const int64_t edge = blocks_of(grid->edge.points * grid->edge.batch, THREADS);
    if (inner > INT32_MAX - edge)
        return cudaErrorInvalidConfiguration;
    grid->edge_blocks = (uint32_t)edge;
    void *arguments[] = {grid, taps, &in, &out};
    return cudaLaunchKernel(stencil_kernel<T, V, Taps>, dim3((unsigned)(edge + inner)),
                            dim3(THREADS), arguments, 0, g->stream);
}

/* As many points a thread as leave the device enough blocks. */
template <typename T, typename Taps>
static cudaError_t put(stencil_grid *grid, Taps *taps, const struct stencil_table *table,
                       const struct geometry *g, int axes, const void *in, void *out)
{
    constexpr int V = 32 / sizeof(T);
    const int64_t most = (int64_t)(g->plan->points * g->plan->batch);
    if (most >= (int64_t)g->units * BLOCKS_EACH * THREADS * V)
        return put_pass<T, Taps, V>(grid, taps, table, g, axes, in, out);
    return put_pass<T, Taps, 1>(grid, taps, table, g, axes, in, out);
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

template <typename T>
static cudaError_t put_typed(stencil_grid *grid, const struct stencil_table *table,
                             const struct geometry *g, int axes, const void *in, void *out)
{
    given_taps<T> given;
    if (give(&given, table))
        return put<T>(grid, &given, table, g, axes, in, out);
    table_taps<T> taps = {table->points, g->slot};
    return put<T>(grid, &taps, table, g, axes, in, out);
}

extern "C" cudaError_t stencil_launch(const struct launch *launch, int slot, int units,
                                      cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const struct stencil_table *table = stencil_table_of(plan->table);
    struct geometry g;
    stencil_grid grid;
    memset(&grid, 0, sizeof grid);
    geometry_init(&g, plan, 0, plan->lines, 1, slot, units, stream);
    for (int a = 0; a < AXIS_COUNT; a++) {
        g.low[a] = table->axis[a].low;
        g.high[a] = table->axis[a].high;
    }
    geometry_shell(&g);
    grid.edge = g.shell;
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
