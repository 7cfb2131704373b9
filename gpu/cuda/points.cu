/* Points outside the interior, or all where no kernel takes the interior, of plain plans: faces and
 * rims (faces.cu), and what these do not take, a thread a point, by numerics/point.h. */
#include "gpu/cuda/faces.h"
#include "gpu/cuda/grid.cuh"

enum { THREADS = 128 };

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
    points_kernel(const __grid_constant__ boundary_rest shape,
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
static cudaError_t launch_points(const struct geometry *g, const struct boundary_rest *rest,
                                 const struct table_pass *pass)
{
    return launch_kernel(g->plan->form == PLAN_SCALAR ? points_kernel<T, false>
                                                      : points_kernel<T, true>,
                         g, blocks_of(rest->points * rest->batch, THREADS), dim3(THREADS), 0, *rest,
                         *pass, vector_jobs_of(g));
}

extern "C" cudaError_t boundary_launch(const struct geometry *g, const struct table_pass *pass)
{
    struct boundary_rest rest;
    const cudaError_t error = faces_launch(g, pass, &rest);
    if (error != cudaSuccess || rest.points == 0)
        return error;
    return g->plan->dtype == DTYPE_F32 ? launch_points<float>(g, &rest, pass)
                                       : launch_points<double>(g, &rest, pass);
}
