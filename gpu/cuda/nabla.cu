/* Gradient, divergence and curl. */
#include "gpu/cuda/grid.cuh"

enum { NABLA_THREADS = 128 };

/* The components of a vector field; of an array the first. */
template <typename T> struct vector {
    T *at[AXIS_COUNT];
};

static __device__ __forceinline__ float nabla_point(const struct plan *plan,
                                                    const float *const fields[AXIS_COUNT],
                                                    int component, const int64_t at[AXIS_COUNT])
{
    return point_component_f32(plan, fields, component, at);
}
static __device__ __forceinline__ double nabla_point(const struct plan *plan,
                                                     const double *const fields[AXIS_COUNT],
                                                     int component, const int64_t at[AXIS_COUNT])
{
    return point_component_f64(plan, fields, component, at);
}

template <typename T>
__global__ void __launch_bounds__(NABLA_THREADS)
    nabla_shell_kernel(const shell_shape shape, const vector<const T> in, const vector<T> out)
{
    int64_t at[AXIS_COUNT], begin;
    if (!shell_find(shape, (uint64_t)blockIdx.x * NABLA_THREADS + threadIdx.x, at, &begin))
        return;
    const struct plan *plan = &table[shape.slot].plan;
    const T *fields[AXIS_COUNT];
    for (int i = 0; i < AXIS_COUNT; i++)
        fields[i] = i < plan->inputs ? in.at[i] + begin : in.at[0];
    const int64_t place = begin + at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    for (int i = 0; i < plan->outputs; i++)
        out.at[i][place] = nabla_point(plan, fields, i, at);
}

template <typename T>
static cudaError_t launch_shell(const struct geometry *g, vector<const T> in, vector<T> out)
{
    shell_shape shape = g->shell;
    const int64_t blocks = (shape.points * shape.batch + NABLA_THREADS - 1) / NABLA_THREADS;
    void *arguments[] = {&shape, &in, &out};
    if (blocks == 0)
        return cudaSuccess;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return cudaLaunchKernel(nabla_shell_kernel<T>, dim3((unsigned)blocks), dim3(NABLA_THREADS),
                            arguments, 0, g->stream);
}

template <typename T>
static cudaError_t launch_all(const struct geometry *g, const void *const in[AXIS_COUNT],
                              void *const out[AXIS_COUNT])
{
    vector<const T> from;
    vector<T> to;
    for (int i = 0; i < AXIS_COUNT; i++) {
        from.at[i] = (const T *)in[i];
        to.at[i] = (T *)out[i];
    }
    return launch_shell<T>(g, from, to);
}

extern "C" cudaError_t nabla_launch(const struct geometry *g, const void *const in[AXIS_COUNT],
                                    void *const out[AXIS_COUNT])
{
    struct geometry all = *g;
    all.shell.boxes = 1;
    all.shell.points = all.shell.end[0] = (int64_t)g->plan->points;
    for (int a = 0; a < AXIS_COUNT; a++) {
        all.shell.begin[0][a] = 0;
        all.shell.size[0][a] = g->plan->axis[a].n;
    }
    return g->plan->dtype == DTYPE_F32 ? launch_all<float>(&all, in, out)
                                       : launch_all<double>(&all, in, out);
}
