/* Solves of Crank–Nicolson split by axes: which kernel does them, and how it is launched. */
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

/* How a solve is done. warps: 0 where a line has too few rows or too many for a block. */
struct choice {
    int warps, rows, segments, tiles, pitch;
    int64_t tile; /* elements of one */
    size_t bytes; /* of shared memory */
};

/* As few segments as shared memory has room for. */
template <typename T> static choice choose(const struct adi *adi, int axis)
{
    typedef part_sizes<T> sizes;
    enum { BANKS = 128 / sizeof(T), V = 16 / sizeof(T) };
    const struct adi_axis *of = &adi->axis[axis];
    const int64_t n = of->lines.n;
    const size_t most = (size_t)block_shared_bytes();
    choice it = {};
    if (n < 3 || n > INT32_MAX / 2 || most == 0)
        return it;
    it.tiles = adi->coefficient && of->periodic ? 2 : 1;
    for (it.segments = (int)blocks_of(n, sizes::WARPS * sizes::ROWS);; it.segments++) {
        it.warps =
            (int)min(blocks_of(n, (int64_t)it.segments * sizes::ROWS), (int64_t)sizes::WARPS);
        it.rows = (int)blocks_of(n, (int64_t)it.segments * it.warps * DIVIDED) * DIVIDED;
        const int64_t height = (int64_t)it.warps * it.rows;
        const int64_t factors = adi->coefficient ? 0 : (int64_t)it.warps * sizes::FACTORS;
        it.pitch =
            (int)(blocks_of(height, BANKS) * BANKS + V); /* packs of threads: in banks apart */
        it.tile = WARP * (axis == AXIS_X ? it.pitch : height);
        it.bytes =
            sizeof(T) * (size_t)(it.tiles * it.tile + (it.warps * NUMBERS + ENDS) * WARP + factors);
        if (it.bytes <= most || it.rows == DIVIDED)
            return it;
    }
}

template <typename T> using lines_function = void (*)(solve_work<T>);

/* Lines along x, and side by side, copied by packs of V or one by one. */
template <typename T, int V>
static lines_function<T> find_form(const struct adi *adi, int axis, bool segmented)
{
    const bool is_x = axis == AXIS_X, corner = adi->axis[axis].periodic;
    if (!adi->coefficient && is_x)
        return segmented ? adi_number_kernel<T, along<T, V>, true>
                         : adi_number_kernel<T, along<T, V>, false>;
    if (!adi->coefficient)
        return segmented ? adi_number_kernel<T, across<T, V>, true>
                         : adi_number_kernel<T, across<T, V>, false>;
    if (is_x)
        return corner ? adi_field_kernel<T, along<T, V>, true>
                      : adi_field_kernel<T, along<T, V>, false>;
    return corner ? adi_field_kernel<T, across<T, V>, true>
                  : adi_field_kernel<T, across<T, V>, false>;
}

template <typename T>
static lines_function<T> find_kernel(const struct adi *adi, int axis, bool segmented)
{
    enum { V = 16 / sizeof(T) };
    /* Along x a copied point at the end is no unknown. */
    const bool packs =
        adi->axis[AXIS_X].n % V == 0 && (axis != AXIS_X || adi->axis[axis].lines.n % V == 0);
    return packs ? find_form<T, V>(adi, axis, segmented) : find_form<T, 1>(adi, axis, segmented);
}

extern "C" bool adi_lines_rates(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    const choice chosen =
        plan->dtype == DTYPE_F32 ? choose<float>(adi, axis) : choose<double>(adi, axis);
    return adi->coefficient && adi->axis[axis].active && chosen.warps > 0;
}

template <typename T>
static solve_work<T> work_of(const struct launch *launch, const struct adi_lines *lines,
                             const choice &chosen)
{
    const struct plan *plan = launch->plan;
    solve_work<T> work = {};
    work.adi = *(const struct adi *)plan_table_rows(plan->table);
    const struct adi_axis *axis = &work.adi.axis[lines->axis];
    work.count = (int64_t)(plan->points * plan->batch) / axis->n;
    work.n = axis->lines.n;
    work.stride = axis->stride;
    work.length = axis->stride * axis->n;
    work.blocks = blocks_of(work.count, WARP);
    work.slot = lines->slot;
    work.axis = lines->axis;
    work.rows = chosen.rows;
    work.segments = chosen.segments;
    work.tiles = chosen.tiles;
    work.pitch = chosen.pitch;
    work.tile = (int32_t)chosen.tile;
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
    return work;
}

template <typename T>
static cudaError_t launch_lines(const struct launch *launch, const struct adi_lines *lines,
                                cudaStream_t stream)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(launch->plan->table);
    if (!adi->axis[lines->axis].active)
        return cudaSuccess;
    const choice chosen = choose<T>(adi, lines->axis);
    const solve_work<T> work = work_of<T>(launch, lines, chosen);
    const lines_function<T> kernel =
        chosen.warps ? find_kernel<T>(adi, lines->axis, chosen.segments > 1) : adi_lines_kernel<T>;
    const int threads = max(chosen.warps, 1) * WARP;
    int64_t blocks = work.blocks;
    if (chosen.warps) { /* whose blocks go on to other lines */
        int fit = 0;
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)chosen.bytes);
        const cudaError_t error =
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, threads, chosen.bytes);
        if (error != cudaSuccess)
            return error;
        blocks = min(blocks, (int64_t)fit * lines->units);
    }
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return launch_grid(kernel, dim3((unsigned)blocks), dim3((unsigned)threads), chosen.bytes,
                       stream, work);
}

extern "C" cudaError_t adi_lines_launch(const struct launch *launch_, const struct adi_lines *lines,
                                        cudaStream_t stream)
{
    return launch_->plan->dtype == DTYPE_F32 ? launch_lines<float>(launch_, lines, stream)
                                             : launch_lines<double>(launch_, lines, stream);
}

/* --- a leg's sweep of the lines through some points of a plane, a thread for each: in the field's
 * order it reads and writes plane after plane --- */

enum { SWEEP_THREADS = 128 };

template <typename T> struct sweep_work {
    int32_t slot, axis;
    struct leg leg;
    const T *k;
    T *x, *q, *z;
};

template <typename T>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    adi_sweep_kernel(const __grid_constant__ sweep_work<T> work)
{
    const uint64_t at = work.leg.first + (uint64_t)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (at < work.leg.last)
        sweep(adi_of(work.slot), work.axis, &work.leg, work.k ? work.k + at : (const T *)0,
              work.x + at, work.q ? work.q + at : (T *)0, work.z ? work.z + at : (T *)0);
}

template <typename T>
static cudaError_t launch_sweep(const struct launch *launch, int slot, cudaStream_t stream)
{
    const struct stage stage = stage_of(launch->plan, launch->leg.from);
    const struct adi *adi = (const struct adi *)plan_table_rows(launch->plan->table);
    sweep_work<T> work = {};
    work.slot = slot;
    work.axis = stage.axis;
    work.leg = launch->leg;
    work.x = (T *)launch_array(launch, stage.write);
    if (adi->coefficient) {
        work.k = (const T *)launch->operands->at[OPERAND_COEFFICIENT];
        work.q = (T *)launch->spare[0];
        work.z = (T *)launch->spare[1];
    }
    const int64_t blocks = blocks_of((int64_t)(work.leg.last - work.leg.first), SWEEP_THREADS);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return launch_grid(adi_sweep_kernel<T>, dim3((unsigned)blocks), dim3(SWEEP_THREADS), 0, stream,
                       work);
}

extern "C" cudaError_t adi_sweep_launch(const struct launch *launch_, int slot, cudaStream_t stream)
{
    return launch_->plan->dtype == DTYPE_F32 ? launch_sweep<float>(launch_, slot, stream)
                                             : launch_sweep<double>(launch_, slot, stream);
}
