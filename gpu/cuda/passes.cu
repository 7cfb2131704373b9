/* From a plan to kernels on a stream. One file for the compiler: the kernels share the table of
 * weights in constant memory.
 *
 *   box:    the points that are centred on every active axis → row_kernel or march_kernel
 *   shell:  all others → shell_kernel                                                            */
#include "gpu/cuda/passes.h"

#include "gpu/cuda/march.cuh"
#include "gpu/cuda/row.cuh"
#include "gpu/cuda/shell.cuh"

#include <string.h>

static_assert(sizeof table <= 64 << 10, "constant memory is 64 KiB");

extern "C" void passes_constants_init(struct passes_constants *constants, const struct plan *plan)
{
    int active = 0;
    memset(constants, 0, sizeof *constants);
    constants->plan = *plan;
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int m = 0; m <= PLAN_RADIUS; m++)
            constants->c_f32[a][m] = (float)plan->axis[a].c[m];
        if (plan->axis[a].active)
            active |= 1 << a;
    }
    constants->centre = plan->centre[active];
    constants->centre_f32 = (float)plan->centre[active];
}

extern "C" cudaError_t passes_load(int slot, const struct passes_constants *constants,
                                   cudaStream_t stream)
{
    return cudaMemcpyToSymbolAsync(table, constants, sizeof *constants,
                                   (size_t)slot * sizeof *constants, cudaMemcpyHostToDevice,
                                   stream);
}

/* What every pass of a plan has in common. */
struct geometry {
    const struct plan *plan;
    int slot, units;
    cudaStream_t stream;
    int64_t low[AXIS_COUNT], high[AXIS_COUNT]; /* the box */
    bool has_box;
    struct shell_shape shell;
};

static void geometry_init(struct geometry *g, const struct plan *plan, int slot, int units,
                          cudaStream_t stream)
{
    memset(g, 0, sizeof *g);
    g->plan = plan;
    g->slot = slot;
    g->units = units;
    g->stream = stream;
    g->has_box = true;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        const struct plan_side *low = &axis->side[SIDE_LOW], *high = &axis->side[SIDE_HIGH];
        g->low[a] = low->rows > low->claim ? low->rows : low->claim;
        g->high[a] = axis->n - (high->rows > high->claim ? high->rows : high->claim);
        if (g->low[a] > axis->n)
            g->low[a] = axis->n;
        if (g->high[a] < g->low[a])
            g->high[a] = g->low[a];
        g->has_box &= g->high[a] > g->low[a];
    }
    /* x: whole planes; y: what is left of the rows; z: what is left of the columns. */
    struct shell_shape *shell = &g->shell;
    shell->slot = slot;
    shell->batch = (int64_t)plan->batch;
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int side = 0; side < SIDE_COUNT; side++) {
            const int64_t begin = side == SIDE_LOW ? 0 : g->high[a];
            const int64_t end = side == SIDE_LOW ? g->low[a] : plan->axis[a].n;
            int64_t points = 1;
            const int box = shell->boxes;
            for (int b = 0; b < AXIS_COUNT; b++) {
                shell->begin[box][b] = b == a ? begin : b < a ? g->low[b] : 0;
                shell->size[box][b] = (b == a  ? end
                                       : b < a ? g->high[b]
                                               : plan->axis[b].n) -
                                      shell->begin[box][b];
                points *= shell->size[box][b];
            }
            if (points > 0) {
                shell->points += points;
                shell->end[box] = shell->points;
                shell->boxes++;
            }
        }
    }
}

static unsigned power_of_two(int64_t n, unsigned most)
{
    unsigned p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

template <typename S, typename T>
static cudaError_t launch_blocks(void (*kernel)(S, const T *, T *), int64_t blocks, dim3 block,
                                 S *shape, const void *in, void *out, cudaStream_t stream)
{
    void *arguments[] = {shape, &in, &out};
    if (blocks == 0)
        return cudaSuccess;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return cudaLaunchKernel(kernel, dim3((unsigned)blocks), block, arguments, 0, stream);
}

template <typename T, int R, int V>
static cudaError_t launch_row(const struct geometry *g, const void *in, void *out)
{
    const struct plan *plan = g->plan;
    const int64_t packs = plan->axis[AXIS_X].n / V;
    const unsigned width = power_of_two(packs, ROW_THREADS);
    const dim3 block(width, ROW_THREADS / width);
    struct row_shape shape = {plan->axis[AXIS_X].n,
                              (int64_t)plan->lines,
                              g->low[AXIS_X],
                              g->high[AXIS_X],
                              (uint32_t)((packs + width - 1) / width),
                              g->slot};
    const int64_t blocks = (shape.lines + block.y - 1) / block.y * shape.blocks_x;
    return launch_blocks(row_kernel<T, R, V>, blocks, block, &shape, in, out, g->stream);
}

/* The march's length: enough threads to fill the device about twice (these kernels hold 512 threads
 * a multiprocessor, or 1024 without X), and not so short that the 2R points read before and after
 * it weigh more than its own. */
static int64_t march_length(int64_t points, int64_t threads, int64_t wanted, int radius)
{
    const int64_t marches = (wanted + threads - 1) / threads;
    int64_t length = (points + marches - 1) / marches;
    if (length < 2 * radius)
        length = 2 * radius;
    return length < points ? (length + 3) / 4 * 4 : points;
}

template <typename T, int R, int V, bool X, bool Y>
static cudaError_t launch_march(const struct geometry *g, int a, const void *in, void *out)
{
    const struct plan *plan = g->plan;
    const struct plan_axis *axis = &plan->axis[a];
    struct march_shape shape = {};
    shape.n = X ? plan->axis[AXIS_X].n : axis->stride;
    shape.low = X ? g->low[AXIS_X] : 0;
    shape.high = X ? g->high[AXIS_X] : shape.n;
    shape.rows = Y ? g->high[AXIS_Y] - g->low[AXIS_Y] : 1;
    shape.row_low = Y ? g->low[AXIS_Y] : 0;
    shape.row_stride = Y ? plan->axis[AXIS_Y].stride : 0;
    shape.begin = g->low[a];
    shape.end = g->high[a];
    shape.stride = axis->stride;
    shape.outer_stride = axis->stride * axis->n;
    shape.outer = (int64_t)(plan->points * plan->batch) / shape.outer_stride;
    shape.slot = g->slot;
    shape.axis = a;
    const int64_t packs = shape.n / V, points = shape.end - shape.begin;
    const unsigned threads = march_block<R, V, X, Y>::THREADS;
    const unsigned width = power_of_two(packs, Y ? 32 : threads);
    const dim3 block(width, threads / width);
    shape.length = march_length(points, packs * shape.rows * shape.outer,
                                (int64_t)g->units * (X ? 1024 : 2048), R);
    shape.marches = (points + shape.length - 1) / shape.length;
    shape.blocks_x = (uint32_t)((packs + width - 1) / width);
    const int64_t items = shape.rows * shape.marches * shape.outer;
    const int64_t blocks = (items + block.y - 1) / block.y * shape.blocks_x;
    return launch_blocks(march_kernel<T, R, V, X, Y>, blocks, block, &shape, in, out, g->stream);
}

template <typename T, int R, int V>
static cudaError_t launch_box(const struct geometry *g, const void *in, void *out)
{
    const struct plan_axis *axis = g->plan->axis;
    if (axis[AXIS_X].active && !axis[AXIS_Y].active && !axis[AXIS_Z].active)
        return launch_row<T, R, V>(g, in, out);
    if (!axis[AXIS_X].active)
        return launch_march<T, R, V, false, false>(g, axis[AXIS_Y].active ? AXIS_Y : AXIS_Z, in,
                                                   out);
    if (!axis[AXIS_Z].active)
        return launch_march<T, R, V, true, false>(g, AXIS_Y, in, out);
    return launch_march<T, R, V, true, true>(g, AXIS_Z, in, out);
}

template <typename T, int R>
static cudaError_t launch_aligned(const struct geometry *g, const void *in, void *out)
{
    constexpr int V = 16 / sizeof(T);
    const struct plan_axis *axis = g->plan->axis;
    /* The lowest axis that a thread's pack lies along: x, or all below the marching axis. */
    const int64_t n = axis[AXIS_X].active   ? axis[AXIS_X].n
                      : axis[AXIS_Y].active ? axis[AXIS_Y].stride
                                            : axis[AXIS_Z].stride;
    return n % V == 0 ? launch_box<T, R, V>(g, in, out) : launch_box<T, R, 1>(g, in, out);
}

template <typename T>
static cudaError_t launch_pass(const struct geometry *g, const void *in, void *out, bool impose)
{
    cudaError_t error = cudaSuccess;
    if (impose)
        error = cudaMemcpyAsync(out, in, g->plan->points * g->plan->batch * sizeof(T),
                                cudaMemcpyDeviceToDevice, g->stream);
    else if (g->has_box)
        switch (g->plan->radius) {
        case 1:
            error = launch_aligned<T, 1>(g, in, out);
            break;
        case 2:
            error = launch_aligned<T, 2>(g, in, out);
            break;
        case 3:
            error = launch_aligned<T, 3>(g, in, out);
            break;
        case 4:
            error = launch_aligned<T, 4>(g, in, out);
            break;
        default:
            error = cudaErrorInvalidValue;
        }
    if (error != cudaSuccess || g->shell.points == 0)
        return error;
    struct shell_shape shape = g->shell;
    shape.impose = impose;
    const int64_t blocks = (shape.points * shape.batch + SHELL_THREADS - 1) / SHELL_THREADS;
    return launch_blocks(shell_kernel<T>, blocks, dim3(SHELL_THREADS), &shape, in, out, g->stream);
}

extern "C" cudaError_t passes_launch(const struct launch *launch, int slot, int units,
                                     cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    struct geometry geometry;
    geometry_init(&geometry, plan, slot, units, stream);
    cudaError_t error = cudaSuccess;
    for (uint64_t pass = launch->from / plan->lines;
         pass < launch->to / plan->lines && error == cudaSuccess; pass++) {
        const void *in = pass == 0 ? launch->in : pass % 2 == 1 ? launch->even : launch->odd;
        void *out = pass % 2 == 0 ? launch->even : launch->odd;
        const bool impose = plan->impose && pass == 0;
        error = plan->dtype == DTYPE_F32 ? launch_pass<float>(&geometry, in, out, impose)
                                         : launch_pass<double>(&geometry, in, out, impose);
    }
    return error;
}
