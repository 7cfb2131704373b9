/* The points near edges that have closures or claims: a shell a few points thick, one thread a
 * point, evaluated by point.h itself. 512³ with radius 4 has 9 % of its points there. */
#include "gpu/cuda/grid.cuh"

enum { SHELL_THREADS = 128 };

static __device__ __forceinline__ float shell_point(const struct plan *plan, const float *field,
                                                    const int64_t at[AXIS_COUNT], bool impose,
                                                    int64_t i)
{
    return impose ? point_impose_f32(plan, field + i, at) : point_evaluate_f32(plan, field, at);
}
static __device__ __forceinline__ double shell_point(const struct plan *plan, const double *field,
                                                     const int64_t at[AXIS_COUNT], bool impose,
                                                     int64_t i)
{
    return impose ? point_impose_f64(plan, field + i, at) : point_evaluate_f64(plan, field, at);
}

template <typename T>
__global__ void __launch_bounds__(SHELL_THREADS)
    shell_kernel(const shell_shape shape, const T *__restrict__ in, T *__restrict__ out)
{
    const uint64_t thread = (uint64_t)blockIdx.x * SHELL_THREADS + threadIdx.x;
    if (thread >= (uint64_t)(shape.points * shape.batch))
        return;
    const uint64_t field = thread / (uint64_t)shape.points;
    int64_t i = (int64_t)(thread % (uint64_t)shape.points);
    int box = 0;
    while (i >= shape.end[box])
        box++;
    i -= box ? shape.end[box - 1] : 0;
    const struct plan *plan = &table[shape.slot].plan;
    int64_t at[AXIS_COUNT];
    const uint64_t size_x = (uint64_t)shape.size[box][AXIS_X];
    const uint64_t size_y = (uint64_t)shape.size[box][AXIS_Y];
    const uint64_t line = (uint64_t)i / size_x;
    at[AXIS_X] = shape.begin[box][AXIS_X] + (int64_t)((uint64_t)i % size_x);
    at[AXIS_Y] = shape.begin[box][AXIS_Y] + (int64_t)(line % size_y);
    at[AXIS_Z] = shape.begin[box][AXIS_Z] + (int64_t)(line / size_y);
    const int64_t place = at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    const int64_t begin = (int64_t)field * (int64_t)plan->points;
    out[begin + place] = shell_point(plan, in + begin, at, shape.impose, place);
}

extern "C" cudaError_t shell_launch(const struct geometry *g, const void *in, void *out,
                                    bool impose)
{
    struct shell_shape shape = g->shell;
    shape.impose = impose;
    const int64_t blocks = (shape.points * shape.batch + SHELL_THREADS - 1) / SHELL_THREADS;
    const dim3 block(SHELL_THREADS);
    return g->plan->dtype == DTYPE_F32
               ? launch_blocks(shell_kernel<float>, blocks, block, &shape, in, out, g->stream)
               : launch_blocks(shell_kernel<double>, blocks, block, &shape, in, out, g->stream);
}
