/* Passes of plans of the engine PLAN_TABLE: the points outside the interior, or all where no
 * kernel takes the interior, a thread a point, by numerics/table_point.h. The header of the table
 * comes as a parameter, in constant memory; rows are read through the first cache. */
#include "gpu/cuda/grid.cuh"

#define TABLE_FUNCTION static __device__ __forceinline__
#define TABLE_LOAD(pointer) __ldg(pointer)
#define REAL float
#define REAL_FMA __fmaf_rn
#define TABLE_NAME(name) table_##name##_f32
#define TABLE_ROW struct table_row_f32
#include "numerics/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_NAME
#undef TABLE_ROW
#define REAL double
#define REAL_FMA __fma_rn
#define TABLE_NAME(name) table_##name##_f64
#define TABLE_ROW struct table_row_f64
#include "numerics/table_point.h"

/* One spelling for both types. */
static __device__ __forceinline__ table_view_f32 begin_view(const table_header &header,
                                                            const void *rows,
                                                            const table_pass &pass, uint64_t batch,
                                                            float)
{
    return table_begin_f32(&header, rows, &pass, batch);
}
static __device__ __forceinline__ table_view_f64 begin_view(const table_header &header,
                                                            const void *rows,
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
static __device__ __forceinline__ float evaluate(const table_view_f32 *view, int component,
                                                 int form)
{
    return table_evaluate_form_f32(view, component, form);
}
static __device__ __forceinline__ double evaluate(const table_view_f64 *view, int component,
                                                  int form)
{
    return table_evaluate_form_f64(view, component, form);
}
enum { THREADS = 128 };

template <typename T, int FORM>
static __global__ void __launch_bounds__(THREADS, 4)
    rows_kernel(const __grid_constant__ table_header header,
                const __grid_constant__ table_pass pass,
                const __grid_constant__ boundary_shape shape)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(shape, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    auto view = begin_view(header, table[shape.slot].rows, pass, field, T());
    move(&view, at);
    const uint64_t place = field * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((T *)pass.out[c])[place] = pass.impose ? impose(&view) : evaluate(&view, c, FORM);
}

template <typename T>
static cudaError_t launch_table_rows(const table_header *header, dim3 blocks, void *arguments[],
                                     cudaStream_t stream)
{
    static void (*const kernels[])(table_header, table_pass, boundary_shape) = {
        rows_kernel<T, TABLE_FORM_PARTS>, rows_kernel<T, TABLE_FORM_SUM>,
        rows_kernel<T, TABLE_FORM_BIHARMONIC>, rows_kernel<T, TABLE_FORM_DIVERGENCE>};
    return cudaLaunchKernel(kernels[header->form], blocks, dim3(THREADS), arguments, 0, stream);
}

extern "C" cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass)
{
    const table_header *header = table_of(g->plan);
    const int64_t points = g->boundary.points * g->boundary.batch;
    const int64_t blocks = (points + THREADS - 1) / THREADS;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    void *arguments[] = {(void *)header, (void *)pass, (void *)&g->boundary};
    const dim3 grid((unsigned)blocks);
    return g->plan->dtype == DTYPE_F32
               ? launch_table_rows<float>(header, grid, arguments, g->stream)
               : launch_table_rows<double>(header, grid, arguments, g->stream);
}
