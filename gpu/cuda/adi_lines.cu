/* Solves of Crank–Nicolson split by axes. A block is one warp, a thread has one line and works on
 * it in shared memory, from one end to the other and back, while the copies of what is next are
 * under way. How many lines a multiprocessor holds at once bounds the speed, since the rows of a
 * line wait for each other. */
#include "gpu/cuda/adi_field.cuh"
#include "gpu/cuda/adi_number.cuh"

/* --- what has no room there: a thread for each line, in device memory --- */

template <typename T>
static __global__ void __launch_bounds__(WARP)
    adi_lines_kernel(const __grid_constant__ solve_work<T> work)
{
    const int64_t line = (int64_t)blockIdx.x * WARP + threadIdx.x;
    if (line >= work.count)
        return;
    const struct adi *adi = adi_of(work.slot);
    const struct adi_axis *axis = &adi->axis[work.axis];
    const int64_t begin = begin_of(work, line);
    T *x = const_cast<T *>(work.read) + begin;
    if (adi->coefficient)
        solve(axis, work.k + begin, x, work.spare[0] + begin,
              work.spare[1] ? work.spare[1] + begin : (T *)0);
    else
        solve(&axis->lines, factors_of<T>(adi, work.axis), x, axis->stride);
    for (int64_t i = 0; work.base && i < axis->n; i++)
        work.write[begin + i * work.stride] =
            work.base[begin + i * work.stride] + x[i * work.stride];
}

/* --- launching --- */

/* How a solve is done: so many lines a block, 0: in device memory. */
struct choice {
    int lines, rows, pitch, base_slot;
    size_t tile; /* bytes */
};

/* Bytes of shared memory of one block and of a multiprocessor. */
static bool shared_bytes(int *block, int *all)
{
    int device;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) ==
               cudaSuccess;
}

/* A tile of so many lines, with chunks of so many rows. */
static choice tile_of_number(int64_t n, bool along_x, int lines, int64_t rows, size_t element)
{
    const int64_t chunks = (n + rows - 1) / rows;
    const int64_t ring = (chunks < SLOTS ? chunks : (int64_t)SLOTS) * rows;
    const int64_t height = ring + rows;                   /* a chunk of a base follows */
    const int64_t pitch = height + 16 / (int64_t)element; /* a thread's packs lie in banks apart */
    return {lines, (int)rows, (int)pitch, (int)ring,
            element * (size_t)lines * (size_t)(along_x ? pitch : height)};
}

/* The same where κ is a field: whole lines of one number, and `rings` behind them. */
static choice tile_of_field(int64_t n, bool along_x, int lines, int rings, size_t element)
{
    const int64_t height = n + rings * FIELD_ROWS * FIELD_SLOTS;
    const int64_t pitch = height | 1; /* a thread's rows lie in banks apart */
    return {lines, FIELD_ROWS, (int)pitch, 0,
            element * (size_t)lines * (size_t)(along_x ? pitch : height)};
}

/* That by which a multiprocessor holds the most lines. rings: where κ is a field, else 0. */
static choice choose(int64_t n, bool along_x, int rings, size_t element)
{
    choice best = {};
    int most, all;
    if (n < 3 || n > INT32_MAX / 2 || !shared_bytes(&most, &all))
        return best;
    int64_t best_held = 0;
    const int64_t rows = (n + SLOTS * WARP - 1) / (SLOTS * WARP) * WARP; /* all in the ring */
    const int widest = 128 / (int)element;
    for (int lines = widest; lines >= widest / 2; lines /= 2) {
        const choice it = rings ? tile_of_field(n, along_x, lines, rings, element)
                                : tile_of_number(n, along_x, lines, rows, element);
        const int64_t fit = all / ((int64_t)it.tile + 1024),
                      blocks = fit < BLOCKS_MOST ? fit : (int64_t)BLOCKS_MOST;
        if (it.tile <= (size_t)most && blocks * lines > best_held) {
            best_held = blocks * lines;
            best = it;
        }
    }
    /* Through device memory twice, where too few would be held. */
    if (!rings && best_held < widest)
        best = tile_of_number(n, along_x, widest, LONG_ROWS, element);
    return best;
}

template <typename T> using lines_function = void (*)(solve_work<T>);

template <typename T, int LINES> static lines_function<T> find_form(const struct adi *adi, int axis)
{
    enum { V = 16 / sizeof(T) };
    /* Along x a copied point at the end is no unknown. */
    const bool packs =
        adi->axis[AXIS_X].n % V == 0 && (axis != AXIS_X || adi->axis[axis].lines.n % V == 0);
    if (!adi->coefficient && axis == AXIS_X)
        return packs ? adi_shared_kernel<T, along<T, LINES, V>>
                     : adi_shared_kernel<T, along<T, LINES, 1>>;
    if (!adi->coefficient)
        return packs ? adi_shared_kernel<T, across<T, LINES, V>>
                     : adi_shared_kernel<T, across<T, LINES, 1>>;
    const bool corner = adi->axis[axis].periodic;
    if (axis == AXIS_X)
        return corner ? adi_field_kernel<T, along<T, LINES, 1, FIELD_ROWS>, true>
                      : adi_field_kernel<T, along<T, LINES, 1, FIELD_ROWS>, false>;
    if (packs)
        return corner ? adi_field_kernel<T, across<T, LINES, V>, true>
                      : adi_field_kernel<T, across<T, LINES, V>, false>;
    return corner ? adi_field_kernel<T, across<T, LINES, 1>, true>
                  : adi_field_kernel<T, across<T, LINES, 1>, false>;
}

template <typename T>
static lines_function<T> find_kernel(const struct adi *adi, int axis, int lines)
{
    enum { MOST = 128 / sizeof(T) };
    return lines == MOST ? find_form<T, MOST>(adi, axis) : find_form<T, MOST / 2>(adi, axis);
}

static choice choose_for(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    const int rings = !adi->coefficient ? 0 : adi->axis[axis].periodic ? 2 : 1;
    const int64_t unknowns = adi->axis[axis].periodic ? adi->axis[axis].period : adi->axis[axis].n;
    return choose(unknowns, axis == AXIS_X, rings, plan_element_bytes(plan));
}

extern "C" bool adi_lines_rates(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    return adi->coefficient && adi->axis[axis].active && choose_for(plan, axis).lines > 0;
}

template <typename T>
static cudaError_t launch_lines(const struct launch *launch, const struct adi_lines *lines,
                                cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    const struct adi_axis *axis = &adi->axis[lines->axis];
    if (!axis->active)
        return cudaSuccess;
    const choice chosen = choose_for(plan, lines->axis);
    solve_work<T> work = {};
    work.count = (int64_t)(plan->points * plan->batch) / axis->n;
    work.n = axis->periodic ? axis->period : axis->n;
    work.stride = axis->stride;
    work.length = axis->stride * axis->n;
    work.slot = lines->slot;
    work.axis = lines->axis;
    work.rows = chosen.rows;
    work.pitch = chosen.pitch;
    work.base_slot = chosen.base_slot;
    work.rated = lines->rated;
    work.read = (const T *)lines->read;
    work.base = (const T *)lines->base;
    work.write = (T *)lines->write;
    work.kept = (T *)lines->kept;
    work.spare[0] = (T *)launch->spare[0];
    work.spare[1] = (T *)launch->spare[1];
    if (launch->operands)
        work.operands = *launch->operands;
    work.k = (const T *)work.operands.at[OPERAND_COEFFICIENT];
    const int each = chosen.lines ? chosen.lines : WARP;
    const int64_t blocks = (work.count + each - 1) / each;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    const dim3 grid((unsigned)blocks);
    void *arguments[] = {&work};
    if (!chosen.lines)
        return cudaLaunchKernel(adi_lines_kernel<T>, grid, dim3(WARP), arguments, 0, stream);
    const lines_function<T> kernel = find_kernel<T>(adi, lines->axis, chosen.lines);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)chosen.tile);
    return cudaLaunchKernel(kernel, grid, dim3(WARP), arguments, chosen.tile, stream);
}

extern "C" cudaError_t adi_lines_launch(const struct launch *launch_, const struct adi_lines *lines,
                                        cudaStream_t stream)
{
    return launch_->plan->dtype == DTYPE_F32 ? launch_lines<float>(launch_, lines, stream)
                                             : launch_lines<double>(launch_, lines, stream);
}
