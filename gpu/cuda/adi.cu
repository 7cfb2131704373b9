/* Crank–Nicolson split by axes: a thread for each point of a rate or a sum, and for each line of a
 * solve. Lines along y and z lie side by side, so that a warp reads whole sectors; of lines along x
 * a warp brings tiles of 32 × 32 points through shared memory, and each thread works on its own
 * line there. A line is worked on from one end to the other: how long it is, not how many there
 * are, is what a small field's solve takes. */
#include "gpu/cuda/adi.h"
#include "gpu/cuda/grid.cuh"

#define POINT_FUNCTION static __device__
#define REAL float
#define REAL_FMA __fmaf_rn
#define POINT_NAME(name) name##_f32
#include "numerics/adi_point.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME
#define REAL double
#define REAL_FMA __fma_rn
#define POINT_NAME(name) name##_f64
#include "numerics/adi_point.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME

enum { THREADS = 256, TILE = 32 /* a warp, and points of each of its lines at once */ };

/* One spelling for both types. */
static __device__ __forceinline__ float impose(const struct adi *adi,
                                               const struct operands *operands, float f,
                                               int64_t field, const int64_t at[AXIS_COUNT])
{
    return adi_impose_f32(adi, operands, f, field, at);
}
static __device__ __forceinline__ double impose(const struct adi *adi,
                                                const struct operands *operands, double f,
                                                int64_t field, const int64_t at[AXIS_COUNT])
{
    return adi_impose_f64(adi, operands, f, field, at);
}
static __device__ __forceinline__ float rate(const struct adi *adi, const struct operands *operands,
                                             int along, const float *u, int64_t field,
                                             const int64_t at[AXIS_COUNT])
{
    return adi_rate_f32(adi, operands, along, u, field, at);
}
static __device__ __forceinline__ double rate(const struct adi *adi,
                                              const struct operands *operands, int along,
                                              const double *u, int64_t field,
                                              const int64_t at[AXIS_COUNT])
{
    return adi_rate_f64(adi, operands, along, u, field, at);
}
static __device__ __forceinline__ void solve(const struct adi_axis *axis, const float *k, float *x,
                                             float *q, float *z)
{
    adi_solve_f32(axis, k, x, q, z);
}
static __device__ __forceinline__ void solve(const struct adi_axis *axis, const double *k,
                                             double *x, double *q, double *z)
{
    adi_solve_f64(axis, k, x, q, z);
}
static __device__ __forceinline__ void solve(const struct tridiagonal *lines, const float *factors,
                                             float *x, int64_t stride)
{
    lines_solve_f32(lines, factors, x, stride);
}
static __device__ __forceinline__ void solve(const struct tridiagonal *lines, const double *factors,
                                             double *x, int64_t stride)
{
    lines_solve_f64(lines, factors, x, stride);
}

static __device__ __forceinline__ const struct adi *adi_of(int slot)
{
    return (const struct adi *)table[slot].rows;
}

/* What a stage works on. base may be write. */
template <typename T> struct work {
    int64_t count; /* points, or lines */
    int32_t slot, kind, axis;
    const T *read, *base;
    T *write, *spare[2];
    struct operands operands;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    adi_points_kernel(const __grid_constant__ struct work<T> work)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= work.count)
        return;
    if (work.kind == STAGE_ADD) {
        work.write[i] = work.base[i] + work.read[i];
        return;
    }
    const struct adi *adi = adi_of(work.slot);
    const int64_t points = (int64_t)adi->points, field = i / points;
    const int64_t nx = adi->axis[AXIS_X].n, line = i % points / nx;
    const int64_t at[AXIS_COUNT] = {i % points % nx, line % adi->axis[AXIS_Y].n,
                                    line / adi->axis[AXIS_Y].n};
    if (work.kind == STAGE_IMPOSE)
        work.write[i] = impose(adi, &work.operands, work.base[i], field, at);
    else
        work.write[i] = rate(adi, &work.operands, work.axis, work.base + field * points, field, at);
}

template <typename T> static __device__ const T *factors_of(const struct adi *adi, int axis)
{
    return (const T *)((const char *)adi + adi->axis[axis].lines.at);
}

/* A line along any axis, in memory. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    adi_lines_kernel(const __grid_constant__ struct work<T> work)
{
    const int64_t line = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (line >= work.count)
        return;
    const struct adi *adi = adi_of(work.slot);
    const struct adi_axis *axis = &adi->axis[work.axis];
    const int64_t begin = line / axis->stride * axis->stride * axis->n + line % axis->stride;
    if (adi->coefficient)
        solve(axis, (const T *)work.operands.at[OPERAND_COEFFICIENT] + begin, work.write + begin,
              work.spare[0] + begin, work.spare[1] ? work.spare[1] + begin : (T *)0);
    else
        solve(&axis->lines, factors_of<T>(adi, work.axis), work.write + begin, axis->stride);
}

/* Of TILE lines from x on, `length` points apart, the points [begin, end) to the tile, or back. */
template <typename T>
static __device__ __forceinline__ void move_tile(T (*tile)[TILE + 1], T *x, int64_t lines,
                                                 int64_t length, int64_t begin, int64_t end,
                                                 bool back)
{
    const int64_t i = begin + threadIdx.x;
    __syncwarp();
    for (int k = 0; k < TILE && k < lines; k++)
        if (i < end) {
            if (back)
                x[k * length + i] = tile[k][threadIdx.x];
            else
                tile[k][threadIdx.x] = x[k * length + i];
        }
    __syncwarp();
}

extern __shared__ __align__(128) unsigned char shared_memory[];

template <typename T>
static __global__ void __launch_bounds__(TILE)
    adi_rows_kernel(const __grid_constant__ struct work<T> work)
{
    T(*tile)[TILE + 1] = (T(*)[TILE + 1]) shared_memory;
    T *own = tile[threadIdx.x];
    const struct adi *adi = adi_of(work.slot);
    const struct adi_axis *axis = &adi->axis[AXIS_X];
    const struct tridiagonal *lines = &axis->lines;
    const int64_t n = lines->n, first = (int64_t)blockIdx.x * TILE, left = work.count - first;
    const int64_t last_tile = (n - 1) / TILE * TILE;
    T *x = work.write + first * axis->n;
    const T *m = factors_of<T>(adi, AXIS_X), *p = m + lines->count, *q = p + lines->count;
    const T *z = q + lines->count;
    T next = (T)0, last = (T)0;
    /* Threads without a line work on what the tile holds, and move nothing. */
    for (int64_t begin = 0; begin < n; begin += TILE) {
        const int64_t end = begin + TILE < n ? begin + TILE : n;
        move_tile(tile, x, left, axis->n, begin, end, false);
        for (int64_t i = begin; i < end; i++)
            own[i - begin] = next =
                i == 0 ? own[0] : fused(m[lines_row_f64(lines, i)], next, own[i - begin]);
        move_tile(tile, x, left, axis->n, begin, end, true);
    }
    for (int64_t begin = last_tile; begin >= 0; begin -= TILE) {
        const int64_t end = begin + TILE < n ? begin + TILE : n;
        move_tile(tile, x, left, axis->n, begin, end, false);
        for (int64_t i = end - 1; i >= begin; i--) {
            const int64_t row = lines_row_f64(lines, i);
            const T scaled = q[row] * own[i - begin];
            next = i == n - 1 ? scaled : fused(p[row], next, scaled);
            last = i == n - 1 ? next : last;
            own[i - begin] = next;
        }
        move_tile(tile, x, left, axis->n, begin, end, true);
    }
    const T around = fused((T)lines->last, last, next);
    for (int64_t begin = 0; lines->corner && begin < n; begin += TILE) {
        const int64_t end = begin + TILE < n ? begin + TILE : n;
        move_tile(tile, x, left, axis->n, begin, end, false);
        for (int64_t i = begin; i < end; i++)
            own[i - begin] = fused(z[lines_row_f64(lines, i)], around, own[i - begin]);
        move_tile(tile, x, left, axis->n, begin, end, true);
    }
    if (lines->repeats && threadIdx.x < left)
        x[threadIdx.x * axis->n + n] = x[threadIdx.x * axis->n];
}

template <typename T>
static cudaError_t launch_adi_pass(const struct launch *launch, const struct stage *stage, int slot,
                                   cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const struct adi *adi = (const struct adi *)plan_table_rows(plan->table);
    struct work<T> work = {
    };
    work.count = (int64_t)(plan->points * plan->batch);
    work.slot = slot;
    work.kind = stage->kind;
    work.axis = stage->axis;
    work.read = (const T *)launch_array(launch, stage->read);
    work.base = (const T *)launch_array(launch, stage->base);
    work.write = (T *)launch_array(launch, stage->write);
    work.spare[0] = (T *)launch->spare[0];
    work.spare[1] = (T *)launch->spare[1];
    if (launch->operands)
        work.operands = *launch->operands;
    void *arguments[] = {&work};
    const bool solves = stage->kind == STAGE_SOLVE;
    const bool tiles = solves && stage->axis == AXIS_X && !adi->coefficient;
    if (solves && !adi->axis[stage->axis].active)
        return cudaSuccess;
    if (solves)
        work.count /= adi->axis[stage->axis].n;
    const int64_t each = tiles ? TILE : THREADS, blocks = (work.count + each - 1) / each;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    const dim3 grid((unsigned)blocks);
    if (tiles)
        return cudaLaunchKernel(adi_rows_kernel<T>, grid, dim3(TILE), arguments,
                                sizeof(T) * TILE * (TILE + 1), stream);
    return cudaLaunchKernel(solves ? adi_lines_kernel<T> : adi_points_kernel<T>, grid,
                            dim3(THREADS), arguments, 0, stream);
}

extern "C" cudaError_t adi_launch(const struct launch *launch_, const struct stage *stage, int slot,
                                  cudaStream_t stream)
{
    return launch_->plan->dtype == DTYPE_F32
               ? launch_adi_pass<float>(launch_, stage, slot, stream)
               : launch_adi_pass<double>(launch_, stage, slot, stream);
}
