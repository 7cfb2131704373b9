/* Crank–Nicolson split by axes: rates, sums and imposed values, a thread for each point of a
 * march along z; solves are in adi_lines.cu. */
#include "gpu/cuda/adi_rate.cuh"

enum { WIDE = 32, HIGH = 8, MARCH = 32 /* planes */, FIELDS = 65535 /* that a grid has */ };

/* What a stage works on. base may be write. */
template <typename T> struct work {
    int32_t slot, kind, axis;
    uint32_t blocks_x, blocks_y; /* of a field */
    int64_t batch;
    const T *read, *base;
    T *write;
    struct operands operands;
};

/* The points (x, y) of the planes [first, last) of a field. */
template <typename T>
static __device__ __forceinline__ void march(const work<T> &work, const struct adi *adi, int64_t x,
                                             int64_t y, int64_t first, int64_t last, int64_t field)
{
    const int64_t nx = adi->axis[AXIS_X].n, ny = adi->axis[AXIS_Y].n, nz = adi->axis[AXIS_Z].n;
    const int64_t plane = nx * ny, begin = field * plane * nz;
    const T *u = work.base + begin;
    int64_t i = (first * ny + y) * nx + x;
    for (int64_t z = first; z < last; z++, i += plane) {
        const int64_t place = begin + i, at[AXIS_COUNT] = {x, y, z};
        work.write[place] = work.kind == STAGE_ADD ? u[i] + work.read[place]
                            : work.kind == STAGE_IMPOSE
                                ? impose(adi, &work.operands, u[i], field, at)
                                : rate(adi, &work.operands, work.axis, u, field, at);
    }
}

template <typename T>
static __global__ void __launch_bounds__(WIDE *HIGH)
    adi_points_kernel(const __grid_constant__ work<T> work)
{
    const struct adi *adi = adi_of(work.slot);
    const int64_t nz = adi->axis[AXIS_Z].n;
    uint32_t block = blockIdx.x;
    const int64_t x = (int64_t)(block % work.blocks_x) * WIDE + threadIdx.x;
    block /= work.blocks_x;
    const int64_t y = (int64_t)(block % work.blocks_y) * HIGH + threadIdx.y;
    const int64_t first = (int64_t)(block / work.blocks_y) * MARCH;
    if (x < adi->axis[AXIS_X].n && y < adi->axis[AXIS_Y].n)
        for (int64_t field = blockIdx.y; field < work.batch; field += gridDim.y)
            march(work, adi, x, y, first, first + MARCH < nz ? first + MARCH : nz, field);
}

static unsigned fields_of(int64_t batch)
{
    return (unsigned)(batch < FIELDS ? batch : (int64_t)FIELDS);
}

/* A march for each of the columns of a plane's rows and of so many planes, of all fields. */
template <class Work>
static cudaError_t launch_marches(const struct launch *launch, const struct adi *adi,
                                  int64_t columns, void (*kernel)(Work), Work *work,
                                  cudaStream_t stream)
{
    const int64_t blocks_x = blocks_of(columns, WIDE);
    const int64_t blocks_y = blocks_of(adi->axis[AXIS_Y].n, HIGH);
    const int64_t blocks = blocks_x * blocks_y * blocks_of(adi->axis[AXIS_Z].n, MARCH);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    work->blocks_x = (uint32_t)blocks_x;
    work->blocks_y = (uint32_t)blocks_y;
    work->batch = (int64_t)launch->plan->batch;
    if (launch->operands)
        work->operands = *launch->operands;
    const dim3 grid((unsigned)blocks, fields_of(work->batch));
    void *arguments[] = {work};
    return cudaLaunchKernel(kernel, grid, dim3(WIDE, HIGH), arguments, 0, stream);
}

template <typename T>
static cudaError_t launch_points(const struct launch *launch, const struct stage *stage, int slot,
                                 cudaStream_t stream)
{
    const struct adi *adi = (const struct adi *)plan_table_rows(launch->plan->table);
    work<T> work = {};
    work.slot = slot;
    work.kind = stage->kind;
    work.axis = stage->axis;
    work.read = (const T *)launch_array(launch, stage->read);
    work.base = (const T *)launch_array(launch, stage->base);
    work.write = (T *)launch_array(launch, stage->write);
    return launch_marches(launch, adi, adi->axis[AXIS_X].n, adi_points_kernel<T>, &work, stream);
}

template <typename T>
static cudaError_t launch_rate(const struct launch *launch, const struct stage *stage, int slot,
                               cudaStream_t stream)
{
    enum { V = 16 / sizeof(T) };
    const struct adi *adi = (const struct adi *)plan_table_rows(launch->plan->table);
    const int64_t nx = adi->axis[AXIS_X].n;
    const bool packs = nx % V == 0, field = adi->coefficient;
    rate_work<T> work = {};
    work.slot = slot;
    work.planes = MARCH;
    work.read = (const T *)launch_array(launch, stage->base);
    work.write = (T *)launch_array(launch, stage->write);
    const auto kernel = packs && field ? adi_rate_kernel<T, V, true>
                        : packs        ? adi_rate_kernel<T, V, false>
                        : field        ? adi_rate_kernel<T, 1, true>
                                       : adi_rate_kernel<T, 1, false>;
    const cudaError_t error =
        launch_marches(launch, adi, packs ? nx / V : nx, kernel, &work, stream);
    int64_t edges = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        edges += edge_points(adi, a);
    if (error != cudaSuccess || edges == 0)
        return error;
    enum { THREADS = 256 };
    const dim3 grid((unsigned)(blocks_of(edges, THREADS)), fields_of(work.batch));
    void *arguments[] = {&work};
    return cudaLaunchKernel(adi_edges_kernel<T>, grid, dim3(THREADS), arguments, 0, stream);
}

/* A stage at each point. */
template <typename T>
static cudaError_t launch_stage(const struct launch *launch, const struct stage *stage, int slot,
                                cudaStream_t stream)
{
    return stage->kind == STAGE_RATE && stage->axis == AXIS_COUNT
               ? launch_rate<T>(launch, stage, slot, stream)
               : launch_points<T>(launch, stage, slot, stream);
}

/* The solve and the stages that are fused with it, from pass `pass` on; returns how many passes
 * these are, 0: it is no solve. A sum is added to the solution where it is stored, and a rate along
 * the lines' own axis is taken where they are loaded. */
static uint64_t find_lines(const struct launch *launch, uint64_t pass, uint64_t end,
                           struct adi_lines *lines)
{
    const struct plan *plan = launch->plan;
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    struct stage stage = stage_of(plan, pass);
    const uint64_t begin = pass;
    lines->rated = stage.kind == STAGE_RATE && stage.axis < AXIS_COUNT && pass + 2 < end &&
                   adi_lines_rates(plan, stage.axis);
    lines->read = launch_array(launch, stage.base);
    if (lines->rated)
        stage = stage_of(plan, ++pass);
    if (stage.kind != STAGE_SOLVE)
        return 0;
    lines->axis = stage.axis;
    lines->kept = lines->write = launch_array(launch, stage.write);
    lines->base = NULL;
    const struct stage next = pass + 1 < end ? stage_of(plan, pass + 1) : stage;
    if (next.kind == STAGE_ADD && adi->axis[stage.axis].active) {
        lines->base = launch_array(launch, next.base);
        lines->write = launch_array(launch, next.write);
        pass++;
    }
    return pass + 1 - begin;
}

extern "C" cudaError_t adi_launch(const struct launch *launch_, int slot, int units,
                                  cudaStream_t stream)
{
    const struct plan *plan = launch_->plan;
    const uint64_t end = launch_->to / plan->lines;
    if (launch_->leg.sweep)
        return adi_sweep_launch(launch_, slot, stream);
    struct adi_lines lines = {};
    lines.slot = slot;
    lines.units = units;
    cudaError_t error = cudaSuccess;
    for (uint64_t pass = launch_->from / plan->lines; pass < end && error == cudaSuccess;) {
        const uint64_t solved = find_lines(launch_, pass, end, &lines);
        const struct stage stage = stage_of(plan, pass);
        error = solved > 0                 ? adi_lines_launch(launch_, &lines, stream)
                : plan->dtype == DTYPE_F32 ? launch_stage<float>(launch_, &stage, slot, stream)
                                           : launch_stage<double>(launch_, &stage, slot, stream);
        pass += solved > 0 ? solved : 1;
    }
    return error;
}
