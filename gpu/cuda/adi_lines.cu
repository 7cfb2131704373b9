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
    int lines, rows, pitch, base_slot, warps, segments;
    int64_t tile; /* elements of one */
    size_t bytes; /* of shared memory */
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
    const int64_t tile = lines * (along_x ? pitch : height);
    return {lines, (int)rows, (int)pitch, (int)ring, 1, 1, tile, element * (size_t)tile};
}

/* That by which a multiprocessor holds the most lines. */
static choice choose_number(int64_t n, bool along_x, int most, int all, size_t element)
{
    choice best = {};
    int64_t best_held = 0;
    const int64_t rows = (n + SLOTS * WARP - 1) / (SLOTS * WARP) * WARP; /* all in the ring */
    const int widest = 128 / (int)element;
    for (int lines = widest; lines >= widest / 2; lines /= 2) {
        const choice it = tile_of_number(n, along_x, lines, rows, element);
        const int64_t fit = all / ((int64_t)it.bytes + 1024),
                      blocks = fit < BLOCKS_MOST ? fit : (int64_t)BLOCKS_MOST;
        if (it.bytes <= (size_t)most && blocks * lines > best_held) {
            best_held = blocks * lines;
            best = it;
        }
    }
    /* Through device memory twice, where too few would be held. */
    return best_held < widest ? tile_of_number(n, along_x, widest, LONG_ROWS, element) : best;
}

static int64_t ceil_of(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

/* Where κ is a field: as few segments as shared memory has room for. tiles: 2 with a corner. */
template <typename T> static choice choose_field(int64_t n, bool along_x, int most, int tiles)
{
    typedef field_sizes<T> sizes;
    enum { BANKS = 128 / sizeof(T), V = 16 / sizeof(T) };
    choice it = {};
    it.lines = WARP;
    it.segments = (int)ceil_of(n, sizes::WARPS * sizes::ROWS);
    for (;; it.segments++) {
        const int64_t warps = ceil_of(n, (int64_t)it.segments * sizes::ROWS);
        it.warps = (int)min(warps, (int64_t)sizes::WARPS);
        it.rows = (int)ceil_of(n, (int64_t)it.segments * it.warps * DIVIDED) * DIVIDED;
        const int64_t height = (int64_t)it.warps * it.rows;
        it.pitch = (int)(ceil_of(height, BANKS) * BANKS + V); /* packs of threads: in banks apart */
        it.tile = WARP * (along_x ? it.pitch : height);
        it.bytes = sizeof(T) * (size_t)(tiles * it.tile + (it.warps * NUMBERS + ENDS) * WARP);
        if (it.bytes <= (size_t)most || it.rows == DIVIDED)
            return it;
    }
}

/* In device memory where they are too few or too many. */
template <typename T> static choice choose(int64_t n, bool along_x, int tiles)
{
    int most, all;
    choice none = {};
    none.warps = 1;
    if (n < 3 || n > INT32_MAX / 2 || !shared_bytes(&most, &all))
        return none;
    return tiles ? choose_field<T>(n, along_x, most, tiles)
                 : choose_number(n, along_x, most, all, sizeof(T));
}

template <typename T> using lines_function = void (*)(solve_work<T>);

/* Lines along x, and side by side, copied by packs of V or one by one. */
template <typename T, int LINES, int V> static lines_function<T> find_number(int axis)
{
    return axis == AXIS_X ? adi_shared_kernel<T, along<T, LINES, V>>
                          : adi_shared_kernel<T, across<T, LINES, V>>;
}
template <typename T, int V> static lines_function<T> find_field(int axis, bool corner)
{
    if (axis == AXIS_X)
        return corner ? adi_field_kernel<T, along<T, WARP, V>, true>
                      : adi_field_kernel<T, along<T, WARP, V>, false>;
    return corner ? adi_field_kernel<T, across<T, WARP, V>, true>
                  : adi_field_kernel<T, across<T, WARP, V>, false>;
}

template <typename T>
static lines_function<T> find_kernel(const struct adi *adi, int axis, int lines)
{
    enum { V = 16 / sizeof(T), MOST = 128 / sizeof(T) };
    const bool corner = adi->axis[axis].periodic;
    /* Along x a copied point at the end is no unknown. */
    const bool packs =
        adi->axis[AXIS_X].n % V == 0 && (axis != AXIS_X || adi->axis[axis].lines.n % V == 0);
    if (adi->coefficient)
        return packs ? find_field<T, V>(axis, corner) : find_field<T, 1>(axis, corner);
    if (lines == MOST)
        return packs ? find_number<T, MOST, V>(axis) : find_number<T, MOST, 1>(axis);
    return packs ? find_number<T, MOST / 2, V>(axis) : find_number<T, MOST / 2, 1>(axis);
}

static choice choose_for(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    const int tiles = !adi->coefficient ? 0 : adi->axis[axis].periodic ? 2 : 1;
    const int64_t unknowns = adi->axis[axis].periodic ? adi->axis[axis].period : adi->axis[axis].n;
    return plan->dtype == DTYPE_F32 ? choose<float>(unknowns, axis == AXIS_X, tiles)
                                    : choose<double>(unknowns, axis == AXIS_X, tiles);
}

extern "C" bool adi_lines_rates(const struct plan *plan, int axis)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    return adi->coefficient && adi->axis[axis].active && choose_for(plan, axis).lines > 0;
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
    work.n = axis->periodic ? axis->period : axis->n;
    work.stride = axis->stride;
    work.length = axis->stride * axis->n;
    work.blocks = ceil_of(work.count, chosen.lines ? chosen.lines : WARP);
    work.slot = lines->slot;
    work.axis = lines->axis;
    work.rows = chosen.rows;
    work.pitch = chosen.pitch;
    work.base_slot = chosen.base_slot;
    work.segments = chosen.segments;
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
    const choice chosen = choose_for(launch->plan, lines->axis);
    const solve_work<T> work = work_of<T>(launch, lines, chosen);
    const lines_function<T> kernel =
        chosen.lines ? find_kernel<T>(adi, lines->axis, chosen.lines) : adi_lines_kernel<T>;
    const int threads = chosen.warps * WARP;
    int64_t blocks = work.blocks;
    if (chosen.lines && adi->coefficient) { /* which go on to other lines */
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
