/* The classical kernels, rewritten for any size: as taught, without further optimisation.
 *
 *   pencils      NVIDIA's finite-difference posts: ∂f/∂x of eighth order. A block loads whole lines
 *                ("pencils") into shared memory with the periodic images beside them. Where a line
 *                outgrows shared memory, here, the tile is a piece of it.
 *   heat         Stanford CME 213: a 2D explicit step of order 2, 4 or 8; the frame is a kernel of
 *                its own. global: a thread a point; block: a thread walks along y; shared: a tile
 *                with its halo, the threads of the halo do nothing else.
 *   seven-point  a 3D stencil of six neighbours, naive and through shared memory, by block sizes.
 *
 * Each moves at least 8 bytes a point and so cannot be faster than the copy. */
#include "bench/classics.h"

#include <algorithm>

/* As in the posts: set once from the host. */
struct weights {
    float c[AXIS_COUNT][PLAN_RADIUS + 1];
    float centre, frame;
};

static __constant__ weights w;

/* --- pencils --- */

static const int HALO = 4;

/* f(i + period) = f(i): the last point repeats the first. */
static __device__ int image(int i, int n)
{
    return i < 0 ? i + n - 1 : i < n ? i : i - (n - 1);
}

/* at: the point in the tile, whose neighbours are `step` apart. */
template <int AXIS> static __device__ float first_derivative(const float *at, int step)
{
    float d = w.c[AXIS][1] * (at[step] - at[-step]);
#pragma unroll
    for (int m = 2; m <= HALO; m++)
        d = fmaf(w.c[AXIS][m], at[m * step] - at[-m * step], d);
    return d;
}

/* N: the points of a line if the kernel is specialised for them, as the posts' are for 64; else 0.
 * A block computes PENCILS lines along x, `length` points of each. */
template <int PENCILS, int N>
static __global__ void pencils_x(const float *__restrict__ f, float *__restrict__ df, int any_n,
                                 int any_length, int lines)
{
    extern __shared__ __align__(128) unsigned char shared_memory[];
    float *tile = (float *)shared_memory;
    const int n = N ? N : any_n, length = N ? N : any_length, pitch = length + 2 * HALO;
    const int first = (int)blockIdx.y * length, count = min(length, n - first);
    for (int p = threadIdx.y; p < PENCILS; p += blockDim.y) {
        const int line = (int)blockIdx.x * PENCILS + p;
        if (line >= lines)
            break;
        const float *from = f + (int64_t)line * n;
        float *own = tile + p * pitch + HALO;
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            own[i] = from[first + i];
        if (threadIdx.x < HALO) {
            const int below = (int)threadIdx.x - HALO, above = count + (int)threadIdx.x;
            own[below] = from[image(first + below, n)];
            own[above] = from[image(first + above, n)];
        }
    }
    __syncthreads();
    for (int p = threadIdx.y; p < PENCILS; p += blockDim.y) {
        const int line = (int)blockIdx.x * PENCILS + p;
        if (line >= lines)
            break;
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            df[(int64_t)line * n + first + i] =
                first_derivative<AXIS_X>(tile + p * pitch + HALO + i, 1);
    }
}

/* The same along y or z: the pencils are adjacent in x. */
template <int AXIS, int PENCILS, int N>
static __global__ void pencils_across(const float *__restrict__ f, float *__restrict__ df,
                                      int any_n, int any_length, int nx, int64_t stride,
                                      int64_t other_stride)
{
    extern __shared__ __align__(128) unsigned char shared_memory[];
    float *tile = (float *)shared_memory;
    const int n = N ? N : any_n, length = N ? N : any_length;
    const int first = (int)blockIdx.z * length, count = min(length, n - first);
    const int x = (int)(blockIdx.x * PENCILS + threadIdx.x);
    const int64_t base = blockIdx.y * other_stride + x;
    float *own = tile + HALO * PENCILS + threadIdx.x;
    if (x < nx) {
        for (int i = threadIdx.y; i < count; i += blockDim.y)
            own[i * PENCILS] = f[base + (first + i) * stride];
        if (threadIdx.y < HALO) {
            const int below = (int)threadIdx.y - HALO, above = count + (int)threadIdx.y;
            own[below * PENCILS] = f[base + image(first + below, n) * stride];
            own[above * PENCILS] = f[base + image(first + above, n) * stride];
        }
    }
    __syncthreads();
    if (x < nx)
        for (int i = threadIdx.y; i < count; i += blockDim.y)
            df[base + (first + i) * stride] = first_derivative<AXIS>(own + i * PENCILS, PENCILS);
}

static unsigned blocks_for(int64_t count, int64_t size)
{
    return (unsigned)((count + size - 1) / size);
}

/* The longest piece of a line for which PENCILS of them with their halos fit into shared memory. */
static cudaError_t shared_limit(int *bytes)
{
    int device;
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    return cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

template <int AXIS, int PENCILS, int N>
static cudaError_t launch_pencils(const struct plan *plan, const float *f, float *df, int length,
                                  cudaStream_t stream)
{
    const struct plan_axis *axis = plan->axis;
    const int n = (int)axis[AXIS].n, nx = (int)axis[AXIS_X].n;
    const int bytes = PENCILS * (length + 2 * HALO) * (int)sizeof(float);
    if constexpr (AXIS == AXIS_X) {
        const dim3 threads(std::min(256, (n + 31) / 32 * 32), 4);
        const dim3 blocks(blocks_for((int64_t)plan->lines, PENCILS), blocks_for(n, length));
        const cudaError_t error = cudaFuncSetAttribute(
            pencils_x<PENCILS, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (error != cudaSuccess)
            return error;
        pencils_x<PENCILS, N>
            <<<blocks, threads, bytes, stream>>>(f, df, n, length, (int)plan->lines);
    } else {
        const struct plan_axis *other = &axis[AXIS == AXIS_Y ? AXIS_Z : AXIS_Y];
        const dim3 threads(PENCILS, 256 / PENCILS);
        const dim3 blocks(blocks_for(nx, PENCILS), (unsigned)other->n, blocks_for(n, length));
        const cudaError_t error = cudaFuncSetAttribute(
            pencils_across<AXIS, PENCILS, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (error != cudaSuccess)
            return error;
        pencils_across<AXIS, PENCILS, N><<<blocks, threads, bytes, stream>>>(
            f, df, n, length, nx, axis[AXIS].stride, other->stride);
    }
    return cudaGetLastError();
}

template <int AXIS, int PENCILS>
static cudaError_t enqueue_pencils(const struct launch *launch, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const float *f = (const float *)launch->in[0];
    float *df = (float *)launch->even[0];
    const int n = (int)plan->axis[AXIS].n;
    int limit;
    const cudaError_t error = shared_limit(&limit);
    if (error != cudaSuccess)
        return error;
    const int length = std::min(n, limit / (int)sizeof(float) / PENCILS - 2 * HALO);
    switch (n) {
    case 64:
        return launch_pencils<AXIS, PENCILS, 64>(plan, f, df, length, stream);
    case 96:
        return launch_pencils<AXIS, PENCILS, 96>(plan, f, df, length, stream);
    case 128:
        return launch_pencils<AXIS, PENCILS, 128>(plan, f, df, length, stream);
    default:
        return launch_pencils<AXIS, PENCILS, 0>(plan, f, df, length, stream);
    }
}

/* --- heat --- */

static const int HEAT_X = 64, HEAT_Y = 8; /* threads of a block */
static const int HEAT_ROWS = 8;           /* that a thread of `block` does */

/* u + dt κ ∇²u at *u, whose neighbours along y are `pitch` apart. */
template <int R> static __device__ float heat(const float *u, int pitch)
{
    float sum = w.centre * *u;
#pragma unroll
    for (int m = 1; m <= R; m++) {
        sum = fmaf(w.c[AXIS_X][m], u[-m] + u[m], sum);
        sum = fmaf(w.c[AXIS_Y][m], u[-m * pitch] + u[m * pitch], sum);
    }
    return sum;
}

template <int R>
static __global__ void heat_global(const float *__restrict__ u, float *__restrict__ next, int nx,
                                   int ny)
{
    const int x = R + (int)(blockIdx.x * HEAT_X + threadIdx.x);
    const int y = R + (int)(blockIdx.y * HEAT_Y + threadIdx.y);
    if (x < nx - R && y < ny - R)
        next[y * nx + x] = heat<R>(u + y * nx + x, nx);
}

template <int R>
static __global__ void heat_block(const float *__restrict__ u, float *__restrict__ next, int nx,
                                  int ny)
{
    const int x = R + (int)(blockIdx.x * HEAT_X + threadIdx.x);
    const int y = R + (int)(blockIdx.y * HEAT_Y * HEAT_ROWS + threadIdx.y);
    if (x >= nx - R)
        return;
#pragma unroll
    for (int k = 0; k < HEAT_ROWS; k++) {
        const int row = y + k * HEAT_Y;
        if (row < ny - R)
            next[row * nx + x] = heat<R>(u + row * nx + x, nx);
    }
}

template <int R>
static __global__ void heat_shared(const float *__restrict__ u, float *__restrict__ next, int nx,
                                   int ny)
{
    __shared__ float tile[HEAT_X][HEAT_X]; /* square, halo and all */
    const int inner = HEAT_X - 2 * R, tx = threadIdx.x;
    const int x = (int)blockIdx.x * inner + tx, top = (int)blockIdx.y * inner;
    for (int ty = threadIdx.y; ty < HEAT_X; ty += HEAT_Y)
        if (x < nx && top + ty < ny)
            tile[ty][tx] = u[(top + ty) * nx + x];
    __syncthreads();
    if (tx < R || tx >= HEAT_X - R || x >= nx - R)
        return;
    for (int ty = R + (int)threadIdx.y; ty < HEAT_X - R; ty += HEAT_Y)
        if (top + ty < ny - R)
            next[(top + ty) * nx + x] = heat<R>(&tile[ty][tx], HEAT_X);
}

/* The outermost R layers: the rows above and below, then the rest of the columns. */
template <int R>
static __global__ void heat_frame(const float *__restrict__ u, float *__restrict__ next, int nx,
                                  int ny)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), rows = 2 * R * nx;
    if (i >= rows + 2 * R * (ny - 2 * R))
        return;
    int x, y;
    if (i < rows) {
        y = i / nx < R ? i / nx : ny - 2 * R + i / nx;
        x = i % nx;
    } else {
        const int column = (i - rows) % (2 * R);
        y = R + (i - rows) / (2 * R);
        x = column < R ? column : nx - 2 * R + column;
    }
    next[y * nx + x] = w.frame * u[y * nx + x];
}

enum heat_kind { HEAT_GLOBAL, HEAT_BLOCK, HEAT_SHARED };

template <int KIND, int R>
static cudaError_t enqueue_heat(const struct launch *launch, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const int nx = (int)plan->axis[AXIS_X].n, ny = (int)plan->axis[AXIS_Y].n;
    const int wide = KIND == HEAT_SHARED ? HEAT_X - 2 * R : HEAT_X;
    const int high = KIND == HEAT_SHARED  ? HEAT_X - 2 * R
                     : KIND == HEAT_BLOCK ? HEAT_Y * HEAT_ROWS
                                          : HEAT_Y;
    const dim3 threads(HEAT_X, HEAT_Y);
    const dim3 blocks(blocks_for(nx - 2 * R, wide), blocks_for(ny - 2 * R, high));
    const unsigned frame_blocks = blocks_for(2 * R * (nx + ny - 2 * R), 256);
    const float *u = (const float *)launch->in[0];
    for (uint64_t pass = launch->from / plan->lines; pass < launch->to / plan->lines; pass++) {
        float *next = (float *)(pass % 2 == 0 ? launch->even[0] : launch->odd);
        if (KIND == HEAT_GLOBAL)
            heat_global<R><<<blocks, threads, 0, stream>>>(u, next, nx, ny);
        else if (KIND == HEAT_BLOCK)
            heat_block<R><<<blocks, threads, 0, stream>>>(u, next, nx, ny);
        else
            heat_shared<R><<<blocks, threads, 0, stream>>>(u, next, nx, ny);
        heat_frame<R><<<frame_blocks, 256, 0, stream>>>(u, next, nx, ny);
        u = next;
    }
    return cudaGetLastError();
}

/* --- seven points --- */

static __device__ int around(int i, int n)
{
    return i < 0 ? n - 1 : i < n ? i : 0;
}

static __device__ float seven(float own, float x, float y, float z)
{
    return fmaf(w.c[AXIS_Z][1], z,
                fmaf(w.c[AXIS_Y][1], y, fmaf(w.c[AXIS_X][1], x, w.centre * own)));
}

struct box {
    int nx, ny, nz;
};

static __device__ int64_t place(const box &n, int x, int y, int z)
{
    return ((int64_t)around(z, n.nz) * n.ny + around(y, n.ny)) * n.nx + around(x, n.nx);
}

static __global__ void seven_naive(const float *__restrict__ u, float *__restrict__ out, box n)
{
    const int x = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    const int z = (int)(blockIdx.z * blockDim.z + threadIdx.z);
    if (x < n.nx && y < n.ny && z < n.nz)
        out[place(n, x, y, z)] =
            seven(u[place(n, x, y, z)], u[place(n, x - 1, y, z)] + u[place(n, x + 1, y, z)],
                  u[place(n, x, y - 1, z)] + u[place(n, x, y + 1, z)],
                  u[place(n, x, y, z - 1)] + u[place(n, x, y, z + 1)]);
}

/* A tile of the block and a layer around it; the threads at its faces load the layer. */
template <int BX, int BY, int BZ>
static __global__ void seven_shared(const float *__restrict__ u, float *__restrict__ out, box n)
{
    __shared__ float tile[BZ + 2][BY + 2][BX + 2];
    const int tx = (int)threadIdx.x + 1, ty = (int)threadIdx.y + 1, tz = (int)threadIdx.z + 1;
    const int x = (int)blockIdx.x * BX + tx - 1, y = (int)blockIdx.y * BY + ty - 1;
    const int z = (int)blockIdx.z * BZ + tz - 1;
    const bool inside = x < n.nx && y < n.ny && z < n.nz;
    if (inside) {
        tile[tz][ty][tx] = u[place(n, x, y, z)];
        if (tx == 1)
            tile[tz][ty][0] = u[place(n, x - 1, y, z)];
        if (tx == BX || x == n.nx - 1)
            tile[tz][ty][tx + 1] = u[place(n, x + 1, y, z)];
        if (ty == 1)
            tile[tz][0][tx] = u[place(n, x, y - 1, z)];
        if (ty == BY || y == n.ny - 1)
            tile[tz][ty + 1][tx] = u[place(n, x, y + 1, z)];
        if (tz == 1)
            tile[0][ty][tx] = u[place(n, x, y, z - 1)];
        if (tz == BZ || z == n.nz - 1)
            tile[tz + 1][ty][tx] = u[place(n, x, y, z + 1)];
    }
    __syncthreads();
    if (inside)
        out[place(n, x, y, z)] =
            seven(tile[tz][ty][tx], tile[tz][ty][tx - 1] + tile[tz][ty][tx + 1],
                  tile[tz][ty - 1][tx] + tile[tz][ty + 1][tx],
                  tile[tz - 1][ty][tx] + tile[tz + 1][ty][tx]);
}

template <bool SHARED, int BX, int BY, int BZ>
static cudaError_t enqueue_seven(const struct launch *launch, cudaStream_t stream)
{
    const struct plan_axis *axis = launch->plan->axis;
    const box n = {(int)axis[AXIS_X].n, (int)axis[AXIS_Y].n, (int)axis[AXIS_Z].n};
    const dim3 threads(BX, BY, BZ);
    const dim3 blocks(blocks_for(n.nx, BX), blocks_for(n.ny, BY), blocks_for(n.nz, BZ));
    const float *u = (const float *)launch->in[0];
    float *out = (float *)launch->even[0];
    if (SHARED)
        seven_shared<BX, BY, BZ><<<blocks, threads, 0, stream>>>(u, out, n);
    else
        seven_naive<<<blocks, threads, 0, stream>>>(u, out, n);
    return cudaGetLastError();
}

/* --- the table --- */

static bool all_are(const struct job *job, int axis, enum boundary_kind kind)
{
    return job->boundary[axis][SIDE_LOW].kind == kind &&
           job->boundary[axis][SIDE_HIGH].kind == kind;
}

/* Float32, one field, indices of 32 bits and a grid's extents. */
static bool fits(const struct job *job)
{
    return job->dtype == DTYPE_F32 && job->batch == 1 && !job->more.coefficient &&
           !job->more.source && !job->more.coordinates && job_points(job) <= INT32_MAX &&
           std::max({job->n[AXIS_Y], job->n[AXIS_Z]}) <= UINT16_MAX;
}

template <int AXIS> static bool takes_first(const struct job *job)
{
    return fits(job) && job->operator_id == OPERATOR_DERIVATIVE && job->axis == AXIS &&
           job->order == 1 && job->accuracy == 2 * HALO && all_are(job, AXIS, BOUNDARY_ENDPOINT);
}

template <int R> static bool takes_heat(const struct job *job)
{
    return fits(job) && job->operator_id == OPERATOR_DIFFUSION && job->axes == 2 &&
           job->accuracy == 2 * R && all_are(job, AXIS_X, BOUNDARY_HALO) &&
           all_are(job, AXIS_Y, BOUNDARY_HALO);
}

static bool takes_seven(const struct job *job)
{
    return fits(job) && job->operator_id == OPERATOR_LAPLACIAN && job->axes == 3 &&
           job->accuracy == 2 && all_are(job, AXIS_X, BOUNDARY_PERIODIC) &&
           all_are(job, AXIS_Y, BOUNDARY_PERIODIC) && all_are(job, AXIS_Z, BOUNDARY_PERIODIC);
}

const struct classic classics[] = {
    {"4 pencils x", takes_first<AXIS_X>, enqueue_pencils<AXIS_X, 4>},
    {"32 pencils x", takes_first<AXIS_X>, enqueue_pencils<AXIS_X, 32>},
    {"4 pencils y", takes_first<AXIS_Y>, enqueue_pencils<AXIS_Y, 4>},
    {"32 pencils y", takes_first<AXIS_Y>, enqueue_pencils<AXIS_Y, 32>},
    {"4 pencils z", takes_first<AXIS_Z>, enqueue_pencils<AXIS_Z, 4>},
    {"32 pencils z", takes_first<AXIS_Z>, enqueue_pencils<AXIS_Z, 32>},
    {"heat global order 2", takes_heat<1>, enqueue_heat<HEAT_GLOBAL, 1>},
    {"heat block order 2", takes_heat<1>, enqueue_heat<HEAT_BLOCK, 1>},
    {"heat shared order 2", takes_heat<1>, enqueue_heat<HEAT_SHARED, 1>},
    {"heat global order 4", takes_heat<2>, enqueue_heat<HEAT_GLOBAL, 2>},
    {"heat block order 4", takes_heat<2>, enqueue_heat<HEAT_BLOCK, 2>},
    {"heat shared order 4", takes_heat<2>, enqueue_heat<HEAT_SHARED, 2>},
    {"heat global order 8", takes_heat<4>, enqueue_heat<HEAT_GLOBAL, 4>},
    {"heat block order 8", takes_heat<4>, enqueue_heat<HEAT_BLOCK, 4>},
    {"heat shared order 8", takes_heat<4>, enqueue_heat<HEAT_SHARED, 4>},
    {"seven-point naive 1x1x1", takes_seven, enqueue_seven<false, 1, 1, 1>},
    {"seven-point naive 16x16x1", takes_seven, enqueue_seven<false, 16, 16, 1>},
    {"seven-point naive 8x8x8", takes_seven, enqueue_seven<false, 8, 8, 8>},
    {"seven-point naive 32x8x1", takes_seven, enqueue_seven<false, 32, 8, 1>},
    {"seven-point shared 16x16x1", takes_seven, enqueue_seven<true, 16, 16, 1>},
    {"seven-point shared 8x8x8", takes_seven, enqueue_seven<true, 8, 8, 8>},
    {"seven-point shared 32x8x1", takes_seven, enqueue_seven<true, 32, 8, 1>},
};

const int classics_count = sizeof classics / sizeof *classics;

cudaError_t classics_load(const struct plan *plan)
{
    weights weights = {};
    int active = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int m = 0; m <= PLAN_RADIUS; m++)
            weights.c[a][m] = (float)plan->axis[a].c[m];
        active |= plan->axis[a].active << a;
    }
    weights.centre = (float)plan->centre[active];
    weights.frame = (float)plan->axis[AXIS_X].side[SIDE_LOW].value.number;
    return cudaMemcpyToSymbol(w, &weights, sizeof weights);
}
