/* Several steps of the points near edges, for kernels that do several steps of all others at once.
 *
 * An axis with closures, claims or a doubled end point (endpoint) has rules of its own near its
 * edges. After s steps they have spread to `reach` = s · radius points from each edge: the frame.
 * The kernel of the interior leaves it out, and a few blocks beside it compute it in tiles:
 *
 *   ┌──┬───────────┬──┐    c: both axes cut: the four corners as one tile
 *   │c │ x windows │c │    x windows: along x a window of FRAME_WINDOW points, along y cut
 *   ├──┼───────────┼──┤    y windows: the same along y
 *   │y │ interior  │y │
 *   ├──┼───────────┼──┤    To cut an axis is to leave its middle out: what is left, 2 reach points
 *   │c │           │c │    from each edge, is an axis by itself with the edges of the plan. What is
 *   └──┴───────────┴──┘    wrong at the cut spreads inwards by a radius a step, and so stays
 * outside of the frame; the same at the ends of a window.
 *
 * So a tile is a small plan, and point.h evaluates it: in shared memory, step after step, from one
 * copy to the other. Points with nothing special take a short way. */
#ifndef GPU_CUDA_FRAME_CUH
#define GPU_CUDA_FRAME_CUH

#include "gpu/cuda/grid.cuh"

enum {
    FRAME_WINDOW = 64, /* points along a window, those that are wrong in the end included */
    FRAME_AXES = 2
};

struct frame_shape {
    int64_t n[FRAME_AXES];
    int64_t field; /* elements of one field of the batch */
    int32_t cut[FRAME_AXES];
    int32_t size[FRAME_AXES];    /* of a cut axis in a tile */
    int32_t windows[FRAME_AXES]; /* along this axis, the other one cut */
    int32_t tiles;               /* of one field, the corners included */
    int32_t steps, reach, radius, slot;
};

extern __shared__ __align__(128) unsigned char shared_memory[];

/* One axis of a tile. */
struct frame_axis {
    int64_t first; /* a window's position 0 */
    int64_t end;   /* a window's results end there */
    int32_t size;
    bool cut;
};

static __device__ __forceinline__ frame_axis frame_window(const frame_shape &shape, int axis, int i)
{
    const int64_t step = FRAME_WINDOW - 2 * shape.reach, low = shape.cut[axis] ? shape.reach : 0;
    return {low + i * step - shape.reach, shape.n[axis] - low, FRAME_WINDOW, false};
}

/* The index on the axis of the tile's point i. */
static __device__ __forceinline__ int64_t frame_index(const frame_axis &a,
                                                      const struct plan_axis *axis, int i)
{
    if (a.cut)
        return 2 * i < a.size ? i : axis->n - a.size + i;
    return point_index_f64(axis, a.first + i);
}

static __device__ __forceinline__ bool frame_result(const frame_axis &a, int reach, int i)
{
    const bool inner = i >= reach && i < a.size - reach;
    return a.cut ? !inner : inner && a.first + i < a.end;
}

static __device__ __forceinline__ float frame_point(const struct plan *plan, const float *tile,
                                                    const int64_t at[AXIS_COUNT])
{
    return point_evaluate_f32(plan, tile, at);
}
static __device__ __forceinline__ double frame_point(const struct plan *plan, const double *tile,
                                                     const int64_t at[AXIS_COUNT])
{
    return point_evaluate_f64(plan, tile, at);
}

/* A point that is centred on both axes, with all its neighbours beside it. */
template <typename T>
static __device__ __forceinline__ T frame_centred(const T *f, int slot, int radius, bool shared,
                                                  int stride_x, int stride_y)
{
    T acc = centre_weight(slot, T()) * *f;
    if (shared) {
        for (int m = 1; m <= radius; m++) {
            const T x = f[m * stride_x] + f[-m * stride_x], y = f[m * stride_y] + f[-m * stride_y];
            acc = fused(weight(slot, AXIS_X, m, T()), x + y, acc);
        }
        return acc;
    }
    for (int m = 1; m <= radius; m++)
        acc = fused(weight(slot, AXIS_X, m, T()), f[m * stride_x] + f[-m * stride_x], acc);
    for (int m = 1; m <= radius; m++)
        acc = fused(weight(slot, AXIS_Y, m, T()), f[m * stride_y] + f[-m * stride_y], acc);
    return acc;
}

/* The whole block computes tile number `item`. Lanes lie along the window, so that a warp meets
 * one kind of point. */
template <typename T>
static __device__ __noinline__ void frame_tile(const frame_shape &shape, int64_t item, const T *in,
                                               T *out)
{
    struct plan *plan = (struct plan *)shared_memory;
    T *from = (T *)(shared_memory + (sizeof *plan + 127) / 128 * 128);
    const struct plan *whole = &table[shape.slot].plan;
    const int reach = shape.reach, radius = shape.radius;

    int tile = (int)(item % shape.tiles);
    in += item / shape.tiles * shape.field;
    out += item / shape.tiles * shape.field;
    int along = AXIS_X; /* the axis that lanes lie along; `across` is cut */
    frame_axis lanes = {0, 0, shape.size[AXIS_X], true};
    if (tile < shape.windows[AXIS_X]) {
        lanes = frame_window(shape, AXIS_X, tile);
    } else if ((tile -= shape.windows[AXIS_X]) < shape.windows[AXIS_Y]) {
        lanes = frame_window(shape, AXIS_Y, tile);
        along = AXIS_Y;
    }
    const int across = along == AXIS_X ? AXIS_Y : AXIS_X;
    const frame_axis rows = {0, 0, shape.size[across], true};
    T *to = from + rows.size * FRAME_WINDOW;
    const int stride_x = along == AXIS_X ? 1 : FRAME_WINDOW;
    const int stride_y = along == AXIS_Y ? 1 : FRAME_WINDOW;

    for (unsigned i = threadIdx.x; i < sizeof *plan / sizeof(int32_t); i += blockDim.x)
        ((int32_t *)plan)[i] = ((const int32_t *)whole)[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        plan->axis[along].n = lanes.size;
        plan->axis[across].n = rows.size;
        plan->axis[along].stride = 1;
        plan->axis[across].stride = FRAME_WINDOW;
        for (int side = 0; side < SIDE_COUNT && !lanes.cut; side++)
            plan->axis[along].side[side] = {PLAN_MAP_NONE, 0, 0, 0, 0};
    }
    const int i = (int)threadIdx.x % FRAME_WINDOW, first = (int)threadIdx.x / FRAME_WINDOW;
    const int step = (int)blockDim.x / FRAME_WINDOW;
    const int64_t i_offset =
        i < lanes.size ? frame_index(lanes, &whole->axis[along], i) * whole->axis[along].stride : 0;
    for (int j = first; j < rows.size && i < lanes.size; j += step)
        from[j * FRAME_WINDOW + i] =
            in[i_offset + frame_index(rows, &whole->axis[across], j) * whole->axis[across].stride];
    __syncthreads();

    /* Nothing special so far from the edges; rules reach no further than a radius. */
    const bool i_plain = !lanes.cut || (i >= radius && i < lanes.size - radius);
    for (int s = 1; s <= shape.steps; s++) {
        const int wrong = lanes.cut ? 0 : s * radius;
        if (i >= wrong && i < lanes.size - wrong)
            for (int j = first; j < rows.size; j += step) {
                const bool plain = i_plain && j >= radius && j < rows.size - radius;
                int64_t at[AXIS_COUNT] = {};
                at[along] = i;
                at[across] = j;
                const T *f = from + j * FRAME_WINDOW + i;
                const T value =
                    plain ? frame_centred(f, shape.slot, radius, whole->shared, stride_x, stride_y)
                          : frame_point(plan, from, at);
                if (s < shape.steps)
                    to[j * FRAME_WINDOW + i] = value;
                else if (frame_result(lanes, reach, i) && frame_result(rows, reach, j))
                    out[i_offset + frame_index(rows, &whole->axis[across], j) *
                                       whole->axis[across].stride] = value;
            }
        __syncthreads();
        T *const swap = from;
        from = to;
        to = swap;
    }
}

/* --- on the host --- */

/* Has the axis rules near its edges that images of its points do not follow? */
static inline bool frame_needed(const struct plan_axis *axis)
{
    bool needed = false;
    for (int side = 0; side < SIDE_COUNT; side++)
        needed |= axis->side[side].rows > 0 || axis->side[side].claim > 0 ||
                  axis->side[side].map == PLAN_MAP_ENDPOINT;
    return needed;
}

static inline frame_shape frame_init(const struct geometry *g, int steps)
{
    const struct plan *plan = g->plan;
    frame_shape shape = {};
    shape.steps = steps;
    shape.radius = plan->radius;
    shape.reach = steps * plan->radius;
    shape.slot = g->slot;
    shape.field = (int64_t)plan->points;
    for (int a = 0; a < FRAME_AXES; a++) {
        shape.n[a] = plan->axis[a].n;
        shape.cut[a] = frame_needed(&plan->axis[a]);
        shape.size[a] = (int32_t)(shape.n[a] < 4 * shape.reach ? shape.n[a] : 4 * shape.reach);
    }
    const int step = FRAME_WINDOW - 2 * shape.reach;
    for (int a = 0; a < FRAME_AXES; a++) {
        const int64_t results = shape.n[a] - (shape.cut[a] ? 2 * shape.reach : 0);
        if (shape.cut[a == AXIS_X ? AXIS_Y : AXIS_X] && results > 0)
            shape.windows[a] = (int32_t)((results + step - 1) / step);
    }
    shape.tiles = shape.windows[AXIS_X] + shape.windows[AXIS_Y] +
                  (shape.cut[AXIS_X] && shape.cut[AXIS_Y] ? 1 : 0);
    return shape;
}

static inline size_t frame_shared_bytes(const frame_shape &shape, size_t element)
{
    const int rows =
        shape.size[AXIS_X] > shape.size[AXIS_Y] ? shape.size[AXIS_X] : shape.size[AXIS_Y];
    return shape.tiles
               ? (sizeof(struct plan) + 127) / 128 * 128 + 2 * element * FRAME_WINDOW * (size_t)rows
               : 0;
}

#endif
