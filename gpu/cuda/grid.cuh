/* What all kernels share: the weights in constant memory, the jobs' arrays, indices at the edges,
 * and how they are launched. */
#pragma once

#include "gpu/cuda/families.h"
#include "gpu/cuda/pack.cuh"

#include <string.h>
#include <type_traits>

extern __constant__ struct passes_constants table[PASSES_SLOTS]; /* table.cu */

template <typename T>
using table_row_of =
    std::conditional_t<sizeof(T) == sizeof(float), struct table_row_f32, struct table_row_f64>;

/* One spelling for both types. */
static __device__ __forceinline__ float weight(int slot, int axis, int m, float)
{
    return table[slot].c_f32[axis][m];
}
static __device__ __forceinline__ double weight(int slot, int axis, int m, double)
{
    return table[slot].plan.axis[axis].c[m];
}
static __device__ __forceinline__ float centre_weight(int slot, float)
{
    return table[slot].centre_f32;
}
static __device__ __forceinline__ double centre_weight(int slot, double)
{
    return table[slot].centre;
}

/* Bring the line of p to the L2. */
static __device__ __forceinline__ void prefetch_l2(const void *p)
{
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}

/* What a kernel is told of its jobs: where there is one, nothing, since a large one's registers are
 * full with other things; else job_arrays. Its last parameter, of a type that it is a template of.
 */
struct one_job {
};

/* From the first job's arrays to those of the block's. They stay parameters, of which the compiler
 * knows that they do not alias. */
template <typename In, typename Out>
static __device__ __forceinline__ void own_arrays(In &, Out &, const one_job &)
{
}
template <typename In, typename Out>
static __device__ __forceinline__ void own_arrays(In &in, Out &out, const job_arrays &jobs)
{
    in += jobs.in[blockIdx.z];
    out += jobs.out[blockIdx.z];
}

/* The same of kernels whose jobs have several arrays, in and out. */
struct vector_jobs {
    job_arrays at[AXIS_COUNT];
};
static __device__ __forceinline__ int64_t to_input(const one_job &, int)
{
    return 0;
}
static __device__ __forceinline__ int64_t to_input(const vector_jobs &jobs, int component)
{
    return jobs.at[component].in[blockIdx.z];
}
static __device__ __forceinline__ int64_t to_output(const one_job &, int)
{
    return 0;
}
static __device__ __forceinline__ int64_t to_output(const vector_jobs &jobs, int component)
{
    return jobs.at[component].out[blockIdx.z];
}

/* Where index i of an axis is read, whose maps change no sign. Where nothing is mapped (closures
 * and held points cover the edge) it is one that can be read, for a value that nobody uses. */
static __device__ __forceinline__ int64_t source(const struct plan_axis *axis, int64_t i)
{
    int negative;
    return i >= 0 && i < axis->n ? i : side_image(axis->side, axis->n, i, &negative);
}

/* Where the indices of an axis are read whose images are as their points: beyond a side at
 * base + sign × index, one step over it; of other sides at the edge, for what nobody uses. */
template <typename Index> struct axis_images {
    Index n, base[SIDE_COUNT];
    int32_t sign[SIDE_COUNT];

    __device__ __forceinline__ Index source(Index i) const
    {
        return i < 0   ? base[SIDE_LOW] + sign[SIDE_LOW] * i
               : i < n ? i
                       : base[SIDE_HIGH] + sign[SIDE_HIGH] * i;
    }
};

/* The point of the boundary that a thread computes, in numbers as short as will do: divisions are
 * most of this. */
template <typename N, class Shape>
static __device__ __forceinline__ void boundary_place(const Shape &shape, N thread,
                                                      int64_t at[AXIS_COUNT], uint64_t *field)
{
    const N number = thread / (N)shape.points;
    N i = thread - number * (N)shape.points;
    int box = 0;
    while (i >= (N)shape.end[box])
        box++;
    i -= box ? (N)shape.end[box - 1] : 0;
    const N size_x = (N)shape.size[box][AXIS_X], size_y = (N)shape.size[box][AXIS_Y];
    const N line = i / size_x, plane = line / size_y;
    at[AXIS_X] = shape.begin[box][AXIS_X] + (int64_t)(i - line * size_x);
    at[AXIS_Y] = shape.begin[box][AXIS_Y] + (int64_t)(line - plane * size_y);
    at[AXIS_Z] = shape.begin[box][AXIS_Z] + (int64_t)plane;
    *field = number;
}

/* … and the number of its field of the batch; false where there is none left. */
template <class Shape>
static __device__ __forceinline__ bool boundary_find(const Shape &shape, uint64_t thread,
                                                     int64_t at[AXIS_COUNT], uint64_t *field)
{
    const uint64_t points = (uint64_t)(shape.points * shape.batch);
    if (thread >= points)
        return false;
    if (points <= UINT32_MAX)
        boundary_place(shape, (uint32_t)thread, at, field);
    else
        boundary_place(shape, thread, at, field);
    return true;
}

/* A grid of planes that blocks march through along z, each with a column of it. */
struct marched_grid {
    int64_t n, rows, plane, field;             /* elements of a row; rows; elements */
    int64_t low[AXIS_COUNT], high[AXIS_COUNT]; /* the points that a kernel computes */
    int32_t planes, length;                    /* of the grid, of a march */
    uint32_t columns_x, columns_y, marches;
    int32_t slot;
};

/* The block's. */
struct marched_column {
    int64_t x0, y0, field; /* where it and its field of the batch begin */
    int first, last;       /* planes */
};

/* Of columns of so many points in a plane. */
static __device__ __forceinline__ marched_column find_column(const marched_grid &grid, int x, int y)
{
    uint32_t block = blockIdx.x;
    marched_column column;
    column.x0 = (int64_t)(block % grid.columns_x) * x;
    block /= grid.columns_x;
    column.y0 = grid.low[AXIS_Y] + (int64_t)(block % grid.columns_y) * y;
    block /= grid.columns_y;
    column.first = (int)grid.low[AXIS_Z] + (int)(block % grid.marches) * grid.length;
    column.last = min(column.first + grid.length, (int)grid.high[AXIS_Z]);
    column.field = (int64_t)(block / grid.marches) * grid.field;
    return column;
}

/* --- launching --- */

static inline int64_t blocks_of(int64_t points, int64_t each)
{
    return (points + each - 1) / each;
}

/* add(begin, end) for what is left of a box around the box [low, high) in it: before and after that
 * along one axis, then the next. Some may be empty. */
template <class Add>
static inline void cut_around(int64_t begin[AXIS_COUNT], int64_t end[AXIS_COUNT],
                              const int64_t low[AXIS_COUNT], const int64_t high[AXIS_COUNT],
                              const Add &add)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        int64_t edge[AXIS_COUNT] = {end[AXIS_X], end[AXIS_Y], end[AXIS_Z]};
        edge[a] = low[a];
        add(begin, edge);
        memcpy(edge, begin, sizeof edge);
        edge[a] = high[a];
        add(edge, end);
        begin[a] = low[a];
        end[a] = high[a];
    }
}

template <typename Index>
static axis_images<Index> images_of(const struct side side[SIDE_COUNT], int64_t n)
{
    axis_images<Index> images = {};
    images.n = (Index)n;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const int32_t map = side[s].map;
        const int64_t period = map == SIDE_MAP_ENDPOINT ? n - 1 : n;
        const Index edge = s == SIDE_LOW ? 0 : images.n - 1;
        images.base[s] = map == SIDE_MAP_NODE ? 2 * edge : edge;
        images.sign[s] = map == SIDE_MAP_NODE ? -1 : 0;
        if (map == SIDE_MAP_PERIODIC || map == SIDE_MAP_ENDPOINT) {
            images.base[s] = (Index)(s == SIDE_LOW ? period : -period);
            images.sign[s] = 1;
        }
    }
    return images;
}

static inline unsigned power_of_two(int64_t n, unsigned most)
{
    unsigned p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* How long columns are marched along z: divided so that all takes the shortest time, in planes: for
 * each round of the blocks that are resident at once those of a march, and about as long as
 * `before` more until its first result. */
static inline int64_t column_length(int64_t planes, int64_t columns, int64_t resident, int before)
{
    int64_t best = INT64_MAX, best_length = planes;
    for (int64_t marches = 1; marches <= planes && marches <= 64; marches++) {
        const int64_t length = blocks_of(planes, marches);
        const int64_t blocks = columns * blocks_of(planes, length);
        const int64_t time = blocks_of(blocks, resident) * (length + before);
        if (time < best) {
            best = time;
            best_length = length;
        }
    }
    return best_length;
}

/* Cut what a grid computes of so many fields into columns: so many along x, of y rows each, and
 * marches along them. Their number; `resident`, `before`: as above. */
template <class Grid>
static int64_t cut_columns(Grid *grid, int64_t columns_x, int y, int64_t fields, int64_t resident,
                           int before)
{
    const int64_t planes = grid->high[AXIS_Z] - grid->low[AXIS_Z];
    grid->columns_x = (uint32_t)columns_x;
    grid->columns_y = (uint32_t)blocks_of(grid->high[AXIS_Y] - grid->low[AXIS_Y], y);
    const int64_t columns = columns_x * grid->columns_y * fields;
    grid->length = (int32_t)column_length(planes, columns, resident, before);
    grid->marches = (uint32_t)blocks_of(planes, grid->length);
    return columns * grid->marches;
}

/* How many blocks the interior takes in columns of so many points in a plane. In 2D blocks march
 * from one field of the batch to the next. */
static inline int64_t divide_grid(marched_grid *grid, const struct geometry *g, int x, int y,
                                  int64_t resident, int before)
{
    const struct plan_axis *axis = g->plan->axis;
    const int64_t batch = (int64_t)g->plan->batch;
    const bool is_flat = !axis[AXIS_Z].active;
    for (int a = 0; a < AXIS_COUNT; a++) {
        grid->low[a] = g->low[a];
        grid->high[a] = is_flat && a == AXIS_Z ? batch : g->high[a];
    }
    grid->n = axis[AXIS_X].n;
    grid->rows = axis[AXIS_Y].n;
    grid->plane = axis[AXIS_Z].stride;
    grid->field = is_flat ? 0 : (int64_t)g->plan->points;
    grid->planes = (int32_t)axis[AXIS_Z].n;
    grid->slot = g->slot;
    return cut_columns(grid, blocks_of(grid->n, x), y, is_flat ? 1 : batch, resident, before);
}

static inline vector_jobs vector_jobs_of(const struct geometry *g)
{
    vector_jobs jobs;
    for (int a = 0; a < AXIS_COUNT; a++)
        jobs.at[a] = g->arrays[a];
    return jobs;
}

enum { SHARED_OF_ANY = 48 << 10 }; /* bytes of shared memory that a block has without asking */

template <typename... P>
static cudaError_t launch_grid(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                               cudaStream_t stream, const std::common_type_t<P> &...arguments)
{
    void *pointers[] = {(void *)&arguments...};
    if (shared_bytes > SHARED_OF_ANY)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared_bytes);
    return cudaLaunchKernel(kernel, grid, block, pointers, shared_bytes, stream);
}

/* So many blocks for each job: along z are jobs. */
template <typename... P>
static cudaError_t launch_kernel(void (*kernel)(P...), const struct geometry *g, int64_t blocks,
                                 dim3 block, size_t shared_bytes,
                                 const std::common_type_t<P> &...arguments)
{
    if (blocks == 0)
        return cudaSuccess;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return launch_grid(kernel, dim3((unsigned)blocks, 1, g->jobs), block, shared_bytes, g->stream,
                       arguments...);
}

/* The row of an axis of those whose points are away from all sides. */
static inline struct table_row_f64 centred_row(const struct plan *plan, int use, int a)
{
    const struct table_header *header = table_of(plan);
    const struct table_rows *rows = &header->rows[use][a];
    return table_row(header, header, rows, rows->low + rows->high);
}

/* A kernel for one job, and for several. */
template <typename S, typename T> struct kernel_pair {
    void (*one)(S, const T *, T *, one_job);
    void (*several)(S, const T *, T *, job_arrays);
};

template <typename S, typename T>
static cudaError_t launch_blocks(const kernel_pair<S, T> &kernel, int64_t blocks, dim3 block,
                                 const struct geometry *g, const S &shape,
                                 const struct table_pass *pass, size_t shared_bytes)
{
    const T *const in = (const T *)pass->in[0];
    T *const out = (T *)pass->out[0];
    return g->jobs == 1 ? launch_kernel(kernel.one, g, blocks, block, shared_bytes, shape, in, out,
                                        one_job())
                        : launch_kernel(kernel.several, g, blocks, block, shared_bytes, shape, in,
                                        out, g->arrays[0]);
}

/* run(number), a constant, of FIRST … LAST. */
template <int FIRST, int LAST, typename Run>
static cudaError_t with_number(int number, const Run &run)
{
    if constexpr (FIRST > LAST)
        return cudaErrorInvalidValue;
    else
        return number == FIRST ? run(std::integral_constant<int, FIRST>())
                               : with_number<FIRST + 1, LAST>(number, run);
}

/* run(is), a constant. */
template <typename Run> static auto with_flag(bool is, const Run &run)
{
    return is ? run(std::true_type()) : run(std::false_type());
}

/* run(T()) of the plan's type. */
template <typename Run> static auto with_type(const struct plan *plan, const Run &run)
{
    return plan->dtype == DTYPE_F32 ? run(float()) : run(double());
}

/* run(T(), radius) of the plan's type and radius, of 1 … MOST. */
template <int MOST, typename Run>
static cudaError_t with_type_and_radius(const struct geometry *g, const Run &run)
{
    return with_number<1, MOST>(g->plan->radius, [&](auto radius) {
        return with_type(g->plan, [&](auto type) { return run(type, radius); });
    });
}

/* Are rows whole packs of 16 bytes, … */
static inline bool rows_are_packs(const struct plan *plan)
{
    return plan->axis[AXIS_X].n % (16 / (int)plan_element_bytes(plan)) == 0;
}
/* … and so is what lies past their ends? */
static inline bool packs_go_on(const struct plan *plan)
{
    bool go_on = rows_are_packs(plan);
    for (int s = 0; s < SIDE_COUNT; s++) {
        const int32_t map = plan->axis[AXIS_X].side[s].map;
        go_on = go_on && (map == SIDE_MAP_NONE || map == SIDE_MAP_PERIODIC);
    }
    return go_on;
}
