/* Points outside the interior, or all where no kernel takes the interior, a thread a point: of
 * plain plans by numerics/point.h, of all others by numerics/table_point.h. The header of the table
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

static int64_t blocks_of(const struct geometry *g)
{
    return (g->boundary.points * g->boundary.batch + THREADS - 1) / THREADS;
}

extern "C" cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass)
{
    const table_header *header = table_of(g->plan);
    if (blocks_of(g) > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    void *arguments[] = {(void *)header, (void *)pass, (void *)&g->boundary};
    const dim3 grid((unsigned)blocks_of(g));
    return g->plan->dtype == DTYPE_F32
               ? launch_table_rows<float>(header, grid, arguments, g->stream)
               : launch_table_rows<double>(header, grid, arguments, g->stream);
}

/* --- by numerics/point.h --- */

static __device__ __forceinline__ float scalar_point(const struct plan *plan, const float *field,
                                                     const int64_t at[AXIS_COUNT], bool impose,
                                                     int64_t i)
{
    return impose ? point_impose_f32(plan, field + i, at) : point_evaluate_f32(plan, field, at);
}
static __device__ __forceinline__ double scalar_point(const struct plan *plan, const double *field,
                                                      const int64_t at[AXIS_COUNT], bool impose,
                                                      int64_t i)
{
    return impose ? point_impose_f64(plan, field + i, at) : point_evaluate_f64(plan, field, at);
}
static __device__ __forceinline__ float vector_point(const struct plan *plan,
                                                     const float *const fields[AXIS_COUNT],
                                                     int component, const int64_t at[AXIS_COUNT])
{
    return point_component_f32(plan, fields, component, at);
}
static __device__ __forceinline__ double vector_point(const struct plan *plan,
                                                      const double *const fields[AXIS_COUNT],
                                                      int component, const int64_t at[AXIS_COUNT])
{
    return point_component_f64(plan, fields, component, at);
}

template <typename T, bool VECTOR>
static __global__ void __launch_bounds__(THREADS)
    points_kernel(const __grid_constant__ boundary_shape shape,
                  const __grid_constant__ table_pass pass, const __grid_constant__ vector_jobs jobs)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(shape, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    const struct plan *plan = &table[shape.slot].plan;
    const int64_t begin = (int64_t)(field * plan->points);
    const int64_t place = at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    const T *fields[AXIS_COUNT];
    for (int i = 0; i < AXIS_COUNT; i++)
        fields[i] = (const T *)pass.in[i] + to_input(jobs, i) + begin;
    for (int i = 0; i < (VECTOR ? plan->outputs : 1); i++)
        ((T *)pass.out[i])[to_output(jobs, i) + begin + place] =
            VECTOR ? vector_point(plan, fields, i, at)
                   : scalar_point(plan, fields[0], at, pass.impose, place);
}

template <typename T>
static cudaError_t launch_points(const struct geometry *g, const struct table_pass *pass)
{
    vector_jobs jobs = vector_jobs_of(g);
    void *arguments[] = {(void *)&g->boundary, (void *)pass, &jobs};
    const dim3 grid((unsigned)blocks_of(g), 1, g->jobs);
    return cudaLaunchKernel(g->plan->form == PLAN_SCALAR ? points_kernel<T, false>
                                                         : points_kernel<T, true>,
                            grid, dim3(THREADS), arguments, 0, g->stream);
}

cudaError_t points_launch(const struct geometry *g, const struct table_pass *pass)
{
    if (blocks_of(g) > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return g->plan->dtype == DTYPE_F32 ? launch_points<float>(g, pass)
                                       : launch_points<double>(g, pass);
}
