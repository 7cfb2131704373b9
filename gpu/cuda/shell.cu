/* The points near edges that have closures or claims: a shell a few points thick, one thread a
 * point. 512³ with radius 4 has 5 % of its points there. Even operators of known radius have their
 * own loop, with a block's weights in shared memory: some 150 instructions a point; all else is
 * evaluated by point.h itself, at ten times that. */
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
    int64_t at[AXIS_COUNT], begin;
    if (!shell_find(shape, (uint64_t)blockIdx.x * SHELL_THREADS + threadIdx.x, at, &begin))
        return;
    const struct plan *plan = &table[shape.slot].plan;
    const int64_t place = at[AXIS_X] + at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    out[begin + place] = shell_point(plan, in + begin, at, shape.impose, place);
}

/* Even, closures of 2R + 2 points, fields and shells of less than 2^31 points. */
template <typename T, int R>
__global__ void __launch_bounds__(SHELL_THREADS)
    shell_even_kernel(const shell_shape shape, const T *__restrict__ in, T *__restrict__ out)
{
    constexpr int POINTS = 2 * R + 2;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    T(*const weights)[PLAN_ROWS][POINTS] = (T(*)[PLAN_ROWS][POINTS])shared_memory;
    const struct plan *plan = &table[shape.slot].plan;
    for (int i = threadIdx.x; i < AXIS_COUNT * PLAN_ROWS * POINTS; i += SHELL_THREADS)
        weights[0][0][i] =
            (T)plan->axis[i / (PLAN_ROWS * POINTS)].row[i / POINTS % PLAN_ROWS][i % POINTS];
    __syncthreads();
    uint32_t i = blockIdx.x * SHELL_THREADS + threadIdx.x;
    const uint32_t points = (uint32_t)shape.points;
    if (i >= points * (uint32_t)shape.batch)
        return;
    const T *field = in + (int64_t)(i / points) * (int64_t)plan->points;
    i %= points;
    int box = 0;
    while (i >= (uint32_t)shape.end[box])
        box++;
    i -= box ? (uint32_t)shape.end[box - 1] : 0;
    const uint32_t size_x = (uint32_t)shape.size[box][AXIS_X];
    const uint32_t size_y = (uint32_t)shape.size[box][AXIS_Y];
    const int at[AXIS_COUNT] = {(int)(shape.begin[box][AXIS_X] + i % size_x),
                                (int)(shape.begin[box][AXIS_Y] + i / size_x % size_y),
                                (int)(shape.begin[box][AXIS_Z] + i / size_x / size_y)};
    const int stride[AXIS_COUNT] = {1, (int)plan->axis[AXIS_Y].stride,
                                    (int)plan->axis[AXIS_Z].stride};
    const int place = at[AXIS_X] + at[AXIS_Y] * stride[AXIS_Y] + at[AXIS_Z] * stride[AXIS_Z];
    const T *f = field + place;
    T *target = out + (field - in) + place;

    int centred = 0, row[AXIS_COUNT];
    bool high[AXIS_COUNT];
#pragma unroll
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        const int below = at[a], above = (int)axis->n - 1 - at[a];
        const struct plan_side *low_side = &axis->side[SIDE_LOW],
                               *high_side = &axis->side[SIDE_HIGH];
        if (below < low_side->claim || above < high_side->claim) {
            const struct plan_side *claim = below < low_side->claim ? low_side : high_side;
            *target = claim->claim_scales ? (T)claim->claim_value * *f : (T)claim->claim_value;
            return;
        }
        high[a] = below >= low_side->rows;
        row[a] = !high[a] ? below : above < high_side->rows ? above : -1;
        if (axis->active && row[a] < 0)
            centred |= 1 << a;
    }
    T acc = centred || plan->identity ? (T)plan->centre[centred] * *f : (T)0;
#pragma unroll
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (!axis->active)
            continue;
        if (row[a] >= 0) {
            const int start = axis->start[row[a]];
            const T *p = f + ((high[a] ? (int)axis->n - 1 - start : start) - at[a]) * stride[a];
            const int step = high[a] ? -stride[a] : stride[a];
#pragma unroll
            for (int k = 0; k < POINTS; k++)
                acc = fused(weights[a][row[a]][k], __ldg(p + k * step), acc);
        } else {
            const bool inside = at[a] >= R && at[a] + R < axis->n;
#pragma unroll
            for (int m = 1; m <= R; m++) {
                const int up = inside ? m : (int)source(axis, at[a] + m) - at[a];
                const int down = inside ? -m : (int)source(axis, at[a] - m) - at[a];
                acc = fused(weight(shape.slot, a, m, T()),
                            __ldg(f + up * stride[a]) + __ldg(f + down * stride[a]), acc);
            }
        }
    }
    *target = acc;
}

template <typename T>
static cudaError_t launch_shell(const struct geometry *g, shell_shape *shape, const void *in,
                                void *out)
{
    const struct plan *plan = g->plan;
    void (*kernel)(shell_shape, const T *, T *) = shell_kernel<T>;
    bool even = plan->parity == PLAN_EVEN && plan->form == PLAN_SCALAR && !shape->impose &&
                plan->points <= INT32_MAX && (uint64_t)shape->points * plan->batch <= INT32_MAX;
    for (int a = 0; a < AXIS_COUNT; a++)
        even = even &&
               (plan->axis[a].row_points == 0 || plan->axis[a].row_points == 2 * plan->radius + 2);
    if (even)
        kernel = plan->radius == 1   ? shell_even_kernel<T, 1>
                 : plan->radius == 2 ? shell_even_kernel<T, 2>
                 : plan->radius == 3 ? shell_even_kernel<T, 3>
                                     : shell_even_kernel<T, 4>;
    const int64_t blocks = (shape->points * shape->batch + SHELL_THREADS - 1) / SHELL_THREADS;
    const size_t weights = AXIS_COUNT * PLAN_ROWS * (2 * plan->radius + 2) * sizeof(T);
    return launch_blocks(kernel, blocks, dim3(SHELL_THREADS), shape, in, out, g->stream,
                         even ? weights : 0);
}

extern "C" cudaError_t shell_launch(const struct geometry *g, const void *in, void *out,
                                    bool impose)
{
    struct shell_shape shape = g->shell;
    shape.impose = impose;
    return g->plan->dtype == DTYPE_F32 ? launch_shell<float>(g, &shape, in, out)
                                       : launch_shell<double>(g, &shape, in, out);
}
