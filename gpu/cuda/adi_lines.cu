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
    size_t tile; /* bytes of one */
};

/* That by which a multiprocessor holds the most lines. arrays: elements that are kept of each row.
 */
static choice choose(int64_t n, bool along_x, int arrays, size_t element)
{
    choice best = {};
    int device, most, all;
    if (n < 3 || n > INT32_MAX / 2 || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) !=
            cudaSuccess)
        return best;
    int64_t best_held = 0;
    const int64_t rows = (n + SLOTS * WARP - 1) / (SLOTS * WARP) * WARP; /* all in the ring */
    const int widest = (arrays == 1 ? 128 : 64) / (int)element;
    auto chosen = [&](int lines, int64_t rows) {
        const int64_t chunks = (n + rows - 1) / rows;
        const int64_t ring = (chunks < SLOTS ? chunks : (int64_t)SLOTS) * rows;
        const int64_t height = ring + rows; /* a chunk of a base follows */
        /* Rows of a thread lie in banks apart, of numbers its packs. */
        const int64_t pitch = height + (arrays == 1 ? 16 / (int64_t)element : 1);
        choice choice = {lines, (int)rows, (int)pitch, (int)ring, 0};
        choice.tile = element * (size_t)lines * (size_t)(along_x ? pitch : height);
        return choice;
    };
    for (int lines = widest; lines >= widest / 2; lines /= 2) {
        const choice it = chosen(lines, rows);
        const int64_t bytes = (int64_t)it.tile * arrays;
        const int64_t fit = all / (bytes + 1024),
                      blocks = fit < BLOCKS_MOST ? fit : (int64_t)BLOCKS_MOST;
        if (bytes <= most && blocks * lines > best_held) {
            best_held = blocks * lines;
            best = it;
        }
    }
    /* Through device memory twice, where too few would be held. */
    if (arrays == 1 && best_held < 128 / (int64_t)element)
        best = chosen(widest, LONG_ROWS);
    return best;
}

template <typename T> using lines_function = void (*)(solve_work<T>);

template <typename T, class Lines> static lines_function<T> find_form(bool field, bool corner)
{
    return !field   ? adi_shared_kernel<T, Lines>
           : corner ? adi_field_kernel<T, Lines, true>
                    : adi_field_kernel<T, Lines, false>;
}

template <typename T>
static lines_function<T> find_kernel(const struct adi *adi, int axis, int lines)
{
    enum { V = 16 / sizeof(T), MOST = 128 / sizeof(T), SOME = MOST / 2, FEW = MOST / 4 };
    const bool field = adi->coefficient;
    /* Along x a copied point at the end is no unknown. */
    const bool packs =
        adi->axis[AXIS_X].n % V == 0 && (axis != AXIS_X || adi->axis[axis].lines.n % V == 0);
    const bool corner = adi->axis[axis].periodic;
    const bool wide = lines == (field ? SOME : MOST);
    if (axis == AXIS_X && field)
        return wide ? find_form<T, along<T, SOME, 1>>(true, corner)
                    : find_form<T, along<T, FEW, 1>>(true, corner);
    if (axis == AXIS_X && packs)
        return wide ? adi_shared_kernel<T, along<T, MOST, V>>
                    : adi_shared_kernel<T, along<T, SOME, V>>;
    if (axis == AXIS_X)
        return wide ? adi_shared_kernel<T, along<T, MOST, 1>>
                    : adi_shared_kernel<T, along<T, SOME, 1>>;
    if (field && packs)
        return wide ? find_form<T, across<T, SOME, V>>(true, corner)
                    : find_form<T, across<T, FEW, V>>(true, corner);
    if (field)
        return wide ? find_form<T, across<T, SOME, 1>>(true, corner)
                    : find_form<T, across<T, FEW, 1>>(true, corner);
    if (packs)
        return wide ? adi_shared_kernel<T, across<T, MOST, V>>
                    : adi_shared_kernel<T, across<T, SOME, V>>;
    return wide ? adi_shared_kernel<T, across<T, MOST, 1>>
                : adi_shared_kernel<T, across<T, SOME, 1>>;
}

static choice choose_for(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    const int arrays = !adi->coefficient ? 1 : adi->axis[axis].periodic ? 3 : 2;
    const int64_t unknowns = adi->axis[axis].periodic ? adi->axis[axis].period : adi->axis[axis].n;
    return choose(unknowns, axis == AXIS_X, arrays, plan_element_bytes(plan));
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
    work.size = (int32_t)(chosen.tile / sizeof(T));
    work.rated = lines->rated;
    work.read = (const T *)lines->read;
    work.base = (const T *)lines->base;
    work.write = (T *)lines->write;
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
    const int arrays = !adi->coefficient ? 1 : axis->periodic ? 3 : 2;
    const size_t bytes = chosen.tile * (size_t)arrays;
    const lines_function<T> kernel = find_kernel<T>(adi, lines->axis, chosen.lines);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return cudaLaunchKernel(kernel, grid, dim3(WARP), arguments, bytes, stream);
}

extern "C" cudaError_t adi_lines_launch(const struct launch *launch_, const struct adi_lines *lines,
                                        cudaStream_t stream)
{
    return launch_->plan->dtype == DTYPE_F32 ? launch_lines<float>(launch_, lines, stream)
                                             : launch_lines<double>(launch_, lines, stream);
}
