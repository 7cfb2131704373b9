/* Passes of plans of the engine PLAN_TABLE. The header of the table comes as a parameter, in
 * constant memory; rows are read through the first cache.
 *
 *   box     centred rows, which read what lies about the point and nothing else: a thread a point,
 *           blocks as cubic as their rows allow, since neighbours are shared through the caches
 *   shell   all others, a thread a point: ten times an inner one's instructions */
#include "gpu/cuda/grid.cuh"

#define TABLE_FUNCTION static __device__ __forceinline__
#define TABLE_LOAD(pointer) __ldg(pointer)
#define REAL float
#define REAL_FMA __fmaf_rn
#define TABLE_NAME(name) table_##name##_f32
#define TABLE_ROW struct table_row_f32
#include "gpu/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_NAME
#undef TABLE_ROW
#define REAL double
#define REAL_FMA __fma_rn
#define TABLE_NAME(name) table_##name##_f64
#define TABLE_ROW struct table_row_f64
#include "gpu/table_point.h"

/* One spelling for both types. */
static __device__ __forceinline__ table_view_f32 begin(const table_header &header, const void *rows,
                                                       const table_pass &pass, uint64_t batch,
                                                       float)
{
    return table_begin_f32(&header, rows, &pass, batch);
}
static __device__ __forceinline__ table_view_f64 begin(const table_header &header, const void *rows,
                                                       const table_pass &pass, uint64_t batch,
                                                       double)
{
    return table_begin_f64(&header, rows, &pass, batch);
}
static __device__ __forceinline__ void move(table_view_f32 *view, const int64_t at[AXIS_COUNT])
{
    table_move_f32(view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
}
static __device__ __forceinline__ void move(table_view_f64 *view, const int64_t at[AXIS_COUNT])
{
    table_move_f64(view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
}
static __device__ __forceinline__ float impose(const table_view_f32 *view)
{
    return table_impose_f32(view);
}
static __device__ __forceinline__ double impose(const table_view_f64 *view)
{
    return table_impose_f64(view);
}
static __device__ __forceinline__ float evaluate(const table_view_f32 *view, int component)
{
    return table_evaluate_f32(view, component);
}
static __device__ __forceinline__ double evaluate(const table_view_f64 *view, int component)
{
    return table_evaluate_f64(view, component);
}
static __device__ __forceinline__ float inside(const table_view_f32 *view, int component, int form)
{
    return table_inside_f32(view, component, form);
}
static __device__ __forceinline__ double inside(const table_view_f64 *view, int component, int form)
{
    return table_inside_f64(view, component, form);
}

enum { SHELL_THREADS = 128, BOX_THREADS = 512 };

/* IMPOSES: reads may find a side's value in a node's place. */
template <typename T, bool IMPOSES>
static __global__ void __launch_bounds__(SHELL_THREADS)
    shell_kernel(const __grid_constant__ table_header header,
                 const __grid_constant__ table_pass pass, const __grid_constant__ shell_shape shape)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!shell_find(shape, (uint64_t)blockIdx.x * SHELL_THREADS + threadIdx.x, at, &field))
        return;
    auto view = begin(header, table[shape.slot].rows, pass, field, T());
    move(&view, at);
    if (!IMPOSES)
        view.imposed = view.held = 0;
    const uint64_t place = field * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((T *)pass.out[c])[place] = pass.impose ? impose(&view) : evaluate(&view, c);
}

/* Blocks of the box; along z they are those of all fields. */
struct box_shape {
    int64_t low[AXIS_COUNT], high[AXIS_COUNT];
    uint32_t blocks_y, blocks_z; /* of a field */
    uint64_t blocks;             /* blocks_z of the batch */
    int32_t slot;
};

template <typename T, int FORM>
static __global__ void __launch_bounds__(BOX_THREADS)
    box_kernel(const __grid_constant__ table_header header, const __grid_constant__ table_pass pass,
               const __grid_constant__ box_shape shape)
{
    const int64_t x = shape.low[AXIS_X] + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (uint64_t block = blockIdx.z; block < shape.blocks; block += gridDim.z) {
        const uint64_t field = block / shape.blocks_z;
        const int64_t block_z = (int64_t)(block - field * shape.blocks_z);
        const int64_t z = shape.low[AXIS_Z] + block_z * blockDim.z + threadIdx.z;
        auto view = begin(header, table[shape.slot].rows, pass, field, T());
        for (uint32_t block_y = blockIdx.y; block_y < shape.blocks_y; block_y += gridDim.y) {
            const int64_t y = shape.low[AXIS_Y] + (int64_t)block_y * blockDim.y + threadIdx.y;
            if (x >= shape.high[AXIS_X] || y >= shape.high[AXIS_Y] || z >= shape.high[AXIS_Z])
                continue;
            const int64_t at[AXIS_COUNT] = {x, y, z};
            move(&view, at);
            view.imposed = view.held = 0;
            const uint64_t place = field * header.points + (uint64_t)view.place;
#pragma unroll
            for (int c = 0; c < (FORM == TABLE_FORM_PARTS ? AXIS_COUNT : 1); c++)
                if (c < header.outputs)
                    ((T *)pass.out[c])[place] = inside(&view, c, FORM);
        }
    }
}

template <typename T>
static cudaError_t launch_box(const table_header *header, dim3 blocks, dim3 threads,
                              void *arguments[], cudaStream_t stream)
{
    static void (*const kernels[])(table_header, table_pass, box_shape) = {
        box_kernel<T, TABLE_FORM_PARTS>,
        box_kernel<T, TABLE_FORM_SUM>,
        box_kernel<T, TABLE_FORM_BIHARMONIC>,
        box_kernel<T, TABLE_FORM_DIVERGENCE>,
    };
    return cudaLaunchKernel(kernels[header->form], blocks, threads, arguments, 0, stream);
}

extern "C" cudaError_t rows_box_launch(const struct geometry *g, const struct table_pass *pass)
{
    const table_header *header = table_of(g->plan);
    const uint32_t most = 65535; /* blocks along y and z: threads go on from there */
    int64_t size[AXIS_COUNT];
    box_shape shape = {};
    shape.slot = g->slot;
    for (int a = 0; a < AXIS_COUNT; a++) {
        shape.low[a] = g->low[a];
        shape.high[a] = g->high[a];
        size[a] = g->high[a] - g->low[a];
    }
    dim3 threads;
    threads.z = power_of_two(size[AXIS_Z], 4);
    threads.y = power_of_two(size[AXIS_Y], threads.z > 1 ? 4 : 16);
    threads.x = power_of_two(size[AXIS_X], BOX_THREADS / threads.y / threads.z);
    const int64_t columns = (size[AXIS_X] + threads.x - 1) / threads.x;
    const int64_t blocks_y = (size[AXIS_Y] + threads.y - 1) / threads.y;
    const int64_t blocks_z = (size[AXIS_Z] + threads.z - 1) / threads.z;
    if (columns > INT32_MAX || blocks_y > UINT32_MAX || blocks_z > UINT32_MAX)
        return cudaErrorInvalidConfiguration;
    shape.blocks_y = (uint32_t)blocks_y;
    shape.blocks_z = (uint32_t)blocks_z;
    shape.blocks = (uint64_t)blocks_z * g->plan->batch;
    const dim3 blocks((unsigned)columns, shape.blocks_y < most ? shape.blocks_y : most,
                      shape.blocks < most ? (unsigned)shape.blocks : most);
    void *arguments[] = {(void *)header, (void *)pass, &shape};
    return g->plan->dtype == DTYPE_F32
               ? launch_box<float>(header, blocks, threads, arguments, g->stream)
               : launch_box<double>(header, blocks, threads, arguments, g->stream);
}

template <typename T>
static cudaError_t launch_shell(const table_header *header, dim3 blocks, void *arguments[],
                                cudaStream_t stream)
{
    return cudaLaunchKernel(header->imposes ? shell_kernel<T, true> : shell_kernel<T, false>,
                            blocks, dim3(SHELL_THREADS), arguments, 0, stream);
}

extern "C" cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass)
{
    const table_header *header = table_of(g->plan);
    const int64_t points = g->shell.points * g->shell.batch;
    const int64_t blocks = (points + SHELL_THREADS - 1) / SHELL_THREADS;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    void *arguments[] = {(void *)header, (void *)pass, (void *)&g->shell};
    const dim3 grid((unsigned)blocks);
    return g->plan->dtype == DTYPE_F32 ? launch_shell<float>(header, grid, arguments, g->stream)
                                       : launch_shell<double>(header, grid, arguments, g->stream);
}
