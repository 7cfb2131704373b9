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
    FRAME_PITCH = FRAME_WINDOW + 1, /* of a tile: its columns too lie in different banks */
    FRAME_AXES = 2
};

struct frame_shape {
    int64_t n[FRAME_AXES];
    int64_t field; /* elements of one field of the batch */
    int32_t cut[FRAME_AXES];
    int32_t size[FRAME_AXES];    /* of a cut axis in a tile */
    int32_t windows[FRAME_AXES]; /* along this axis, the other one cut */
    int32_t tiles;               /* of one field, the corners included */
    int32_t steps, reach, slot;
    const struct plan *plan; /* the slot's, in global memory: lanes read different words of it */
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

/* The contract itself, called: it is long. Axis `along` has the lanes. */
static __device__ __noinline__ float frame_point(const struct plan *plan, const float *tile,
                                                 int along, int i, int j)
{
    const int64_t at[AXIS_COUNT] = {along == AXIS_X ? i : j, along == AXIS_X ? j : i, 0};
    return point_evaluate_f32(plan, tile, at);
}
static __device__ __noinline__ double frame_point(const struct plan *plan, const double *tile,
                                                  int along, int i, int j)
{
    const int64_t at[AXIS_COUNT] = {along == AXIS_X ? i : j, along == AXIS_X ? j : i, 0};
    return point_evaluate_f64(plan, tile, at);
}

/* A point that is centred on both axes, with all its neighbours beside it. */
template <typename T, int R>
static __device__ __forceinline__ T frame_centred(const T *f, const T (&weights)[AXIS_Z][R + 1],
                                                  bool shared, int stride_x, int stride_y)
{
    T acc = weights[AXIS_X][0] * *f, y[R];
#pragma unroll
    for (int m = 1; m <= R; m++)
        y[m - 1] = f[m * stride_y] + f[-m * stride_y];
#pragma unroll
    for (int m = 1; m <= R; m++) {
        const T x = f[m * stride_x] + f[-m * stride_x];
        acc = fused(weights[AXIS_X][m], shared ? x + y[m - 1] : x, acc);
    }
#pragma unroll
    for (int m = 1; m <= R; m++)
        acc = shared ? acc : fused(weights[AXIS_Y][m], y[m - 1], acc);
    return acc;
}

/* The whole block computes tile number `item`. Lanes lie along the window, so that a warp meets
 * one kind of point. */
template <typename T, int R>
static __device__ __forceinline__ void frame_tile(const frame_shape &shape, int64_t item,
                                                  const T *in, T *out)
{
    struct plan *plan = (struct plan *)shared_memory;
    T *from = (T *)(shared_memory + (sizeof *plan + 127) / 128 * 128);
    const struct plan *whole = &table[shape.slot].plan;
    const int reach = shape.reach;

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
    T *to = from + rows.size * FRAME_PITCH;
    const int stride_x = along == AXIS_X ? 1 : FRAME_PITCH;
    const int stride_y = along == AXIS_Y ? 1 : FRAME_PITCH;
    const bool shared = whole->shared;
    T weights[AXIS_Z][R + 1];
#pragma unroll
    for (int m = 1; m <= R; m++) {
        weights[AXIS_X][m] = weight(shape.slot, AXIS_X, m, T());
        weights[AXIS_Y][m] = weight(shape.slot, AXIS_Y, m, T());
    }
    weights[AXIS_X][0] = centre_weight(shape.slot, T());

    for (unsigned i = threadIdx.x; i < sizeof *plan / sizeof(int32_t); i += blockDim.x)
        ((int32_t *)plan)[i] = __ldg((const int32_t *)shape.plan + i);
    /* To and from memory along x, whatever the lanes lie along. */
    const int i = (int)threadIdx.x % FRAME_WINDOW, first = (int)threadIdx.x / FRAME_WINDOW;
    const int step = (int)blockDim.x / FRAME_WINDOW;
    const frame_axis xs = along == AXIS_X ? lanes : rows, ys = along == AXIS_X ? rows : lanes;
    const struct plan_axis *y_axis = &whole->axis[AXIS_Y];
    const int64_t column = i < xs.size ? frame_index(xs, &whole->axis[AXIS_X], i) : 0;
    if (i < xs.size) {
#pragma unroll 8
        for (int y = first; y < ys.size; y += step)
            from[i * stride_x + y * stride_y] =
                __ldg(in + column + frame_index(ys, y_axis, y) * y_axis->stride);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        plan->axis[along].n = lanes.size;
        plan->axis[across].n = rows.size;
        plan->axis[along].stride = 1;
        plan->axis[across].stride = FRAME_PITCH;
        for (int side = 0; side < SIDE_COUNT && !lanes.cut; side++)
            plan->axis[along].side[side] = {PLAN_MAP_NONE, 0, 0, 0, 0};
    }
    __syncthreads();

    /* Rules reach a radius from an edge. Points so near, few and slow, are dealt out to all. */
    const int j_plain = max(rows.size - 2 * R, 0), i_plain = max(lanes.size - 2 * R, 0);
    const int special_rows = rows.size - j_plain, in_rows = special_rows * lanes.size;
    const int special_columns = lanes.cut ? lanes.size - i_plain : 0;
    const int special = in_rows + special_columns * j_plain;
    for (int s = 1; s <= shape.steps; s++) {
        const int wrong = lanes.cut ? R : s * R;
        if (i >= wrong && i < lanes.size - wrong) {
#pragma unroll 4
            for (int j = R + first; j < rows.size - R; j += step)
                to[j * FRAME_PITCH + i] = frame_centred<T, R>(from + j * FRAME_PITCH + i, weights,
                                                              shared, stride_x, stride_y);
        }
        for (int k = (int)threadIdx.x; k < special; k += (int)blockDim.x) {
            int x = k % lanes.size, y = k / lanes.size;
            if (k >= in_rows) {
                x = (k - in_rows) % special_columns;
                y = (k - in_rows) / special_columns + R;
                x += x < R ? 0 : i_plain;
            } else {
                y += y < R ? 0 : j_plain;
            }
            if (lanes.cut || (x >= wrong && x < lanes.size - wrong))
                to[y * FRAME_PITCH + x] = frame_point(plan, from, along, x, y);
        }
        __syncthreads();
        T *const swap = from;
        from = to;
        to = swap;
    }
    if (i < xs.size && frame_result(xs, reach, i))
        for (int y = first; y < ys.size; y += step)
            if (frame_result(ys, reach, y))
                out[column + frame_index(ys, y_axis, y) * y_axis->stride] =
                    from[i * stride_x + y * stride_y];
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

static inline cudaError_t frame_init(frame_shape &shape, const struct geometry *g, int steps)
{
    const struct plan *plan = g->plan;
    void *constants = NULL;
    const cudaError_t error = cudaGetSymbolAddress(&constants, table);
    if (error != cudaSuccess)
        return error;
    shape.plan = &((const struct passes_constants *)constants)[g->slot].plan;
    shape.steps = steps;
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
    return cudaSuccess;
}

static inline size_t frame_shared_bytes(const frame_shape &shape, size_t element)
{
    const int rows =
        shape.size[AXIS_X] > shape.size[AXIS_Y] ? shape.size[AXIS_X] : shape.size[AXIS_Y];
    return shape.tiles
               ? (sizeof(struct plan) + 127) / 128 * 128 + 2 * element * FRAME_PITCH * (size_t)rows
               : 0;
}

#endif
