/* Points outside the interior, or all where no kernel takes the interior, of plain plans: faces and
 * rims (faces.cu), and what these do not take, a thread a point, by numerics/table_point.h. */
#include "gpu/cuda/faces.h"
#include "gpu/cuda/table_point.cuh"

enum { THREADS = 128 };

template <typename T, int FORM>
static __global__ void __launch_bounds__(THREADS)
    points_kernel(const __grid_constant__ table_header header,
                  const __grid_constant__ boundary_rest shape,
                  const __grid_constant__ table_pass pass, const __grid_constant__ vector_jobs jobs)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(shape, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    auto view = begin_view<T>(header, table[shape.slot].rows, pass, field);
#pragma unroll
    for (int i = 0; i < AXIS_COUNT; i++)
        view.field[i] += to_input(jobs, i);
    point_move(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    const int64_t place = (int64_t)(field * header.points) + view.place;
    for (int c = 0; c < header.outputs; c++)
        ((T *)pass.out[c])[to_output(jobs, c) + place] =
            pass.impose ? point_impose(&view) : point_evaluate_form(&view, c, FORM);
}

extern "C" cudaError_t boundary_launch(const struct geometry *g, const struct table_pass *pass)
{
    const struct table_header *header = table_of(g->plan);
    struct boundary_rest rest;
    const cudaError_t error = faces_launch(g, pass, &rest);
    if (error != cudaSuccess || rest.points == 0)
        return error;
    return with_type(g->plan, [&](auto type) {
        using T = decltype(type);
        return launch_kernel(header->form == TABLE_FORM_SUM ? points_kernel<T, TABLE_FORM_SUM>
                                                            : points_kernel<T, TABLE_FORM_PARTS>,
                             g, blocks_of(rest.points * rest.batch, THREADS), dim3(THREADS), 0,
                             *header, rest, *pass, vector_jobs_of(g));
    });
}
