/* Passes of plans of the engine PLAN_TABLE: a thread for each point, neighbours along x. The header
 * of the table comes as a parameter, in constant memory; rows are read through the first cache,
 * where all threads of a warp but those at an edge of x read the same one. */
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

enum { THREADS = 128 };

/* Blocks are boxes of `width` points along x and THREADS / width lines. */
struct rows_shape {
    uint64_t lines, columns; /* of the batch; blocks along x */
    uint32_t width;
};

static __device__ __forceinline__ bool find_point(const table_header &header,
                                                  const rows_shape &shape, int64_t at[AXIS_COUNT],
                                                  uint64_t *batch)
{
    const uint64_t n = (uint64_t)header.axis_of[AXIS_X].n, ny = (uint64_t)header.axis_of[AXIS_Y].n;
    const uint64_t x = blockIdx.x % shape.columns * shape.width + threadIdx.x % shape.width;
    uint64_t line =
        blockIdx.x / shape.columns * (THREADS / shape.width) + threadIdx.x / shape.width;
    if (x >= n || line >= shape.lines)
        return false;
    at[AXIS_X] = (int64_t)x;
    at[AXIS_Y] = (int64_t)(line % ny);
    line /= ny;
    at[AXIS_Z] = (int64_t)(line % (uint64_t)header.axis_of[AXIS_Z].n);
    *batch = line / (uint64_t)header.axis_of[AXIS_Z].n;
    return true;
}

/* IMPOSES: reads may find a side's value in a node's place. */
template <bool IMPOSES>
static __global__ void __launch_bounds__(THREADS)
    rows_kernel_f32(const __grid_constant__ table_header header,
                    const __grid_constant__ table_pass pass, int slot, rows_shape shape)
{
    int64_t at[AXIS_COUNT];
    uint64_t batch;
    if (!find_point(header, shape, at, &batch))
        return;
    table_view_f32 view = table_begin_f32(&header, table[slot].rows, &pass, batch);
    table_move_f32(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    if (!IMPOSES)
        view.imposed = 0;
    const uint64_t place = batch * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((float *)pass.out[c])[place] =
            pass.impose ? table_impose_f32(&view) : table_evaluate_f32(&view, c);
}

template <bool IMPOSES>
static __global__ void __launch_bounds__(THREADS)
    rows_kernel_f64(const __grid_constant__ table_header header,
                    const __grid_constant__ table_pass pass, int slot, rows_shape shape)
{
    int64_t at[AXIS_COUNT];
    uint64_t batch;
    if (!find_point(header, shape, at, &batch))
        return;
    table_view_f64 view = table_begin_f64(&header, table[slot].rows, &pass, batch);
    table_move_f64(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    if (!IMPOSES)
        view.imposed = 0;
    const uint64_t place = batch * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((double *)pass.out[c])[place] =
            pass.impose ? table_impose_f64(&view) : table_evaluate_f64(&view, c);
}

extern "C" cudaError_t rows_launch(const struct plan *plan, int slot, const struct table_pass *pass,
                                   cudaStream_t stream)
{
    const table_header *header = table_of(plan);
    const uint64_t n = (uint64_t)header->axis_of[AXIS_X].n;
    rows_shape shape = {};
    shape.lines = plan->lines;
    shape.width = 1;
    while (shape.width < n && shape.width < THREADS)
        shape.width *= 2;
    shape.columns = (n + shape.width - 1) / shape.width;
    const uint64_t together = THREADS / shape.width;
    const uint64_t blocks = (shape.lines + together - 1) / together * shape.columns;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    void *arguments[] = {(void *)header, (void *)pass, &slot, &shape};
    if (plan->dtype == DTYPE_F32)
        return cudaLaunchKernel(header->imposes ? rows_kernel_f32<true> : rows_kernel_f32<false>,
                                dim3((unsigned)blocks), dim3(THREADS), arguments, 0, stream);
    return cudaLaunchKernel(header->imposes ? rows_kernel_f64<true> : rows_kernel_f64<false>,
                            dim3((unsigned)blocks), dim3(THREADS), arguments, 0, stream);
}
