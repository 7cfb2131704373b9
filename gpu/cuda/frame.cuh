/* Several steps of the points near edges, for kernels that do several steps of all others at once.
 *
 * An axis with closures, held points or a doubled end point (endpoint) has rules of its own near
 * its edges. After s steps they have spread to `reach` = s · radius points from each edge: the
 * frame. The kernel of the interior leaves it out, and a few blocks beside it compute it in tiles:
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
 * A tile lies in shared memory, and goes step after step from one copy to the other. A point near
 * an edge by numerics/table_point.h, whose bits these are, would be some 600 instructions, a fifth
 * of which its rules need. */
#pragma once

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
    int32_t steps, reach, slot;
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

/* The index on the axis of the tile's point i. Of those outside, no result depends on any but the
 * images one step over the edge. */
static __device__ __forceinline__ int64_t frame_index(const frame_axis &a,
                                                      const struct plan_axis *axis, int i)
{
    const int64_t n = axis->n, x = a.first + i;
    if (a.cut)
        return 2 * i < a.size ? i : n - a.size + i;
    const bool reflect = axis->side[x < 0 ? SIDE_LOW : SIDE_HIGH].map == SIDE_MAP_NODE;
    const int64_t below = reflect ? -x : x + n, above = reflect ? 2 * (n - 1) - x : x - n;
    return x < 0 ? below : x < n ? x : min(max(above, (int64_t)0), n - 1);
}

static __device__ __forceinline__ bool frame_result(const frame_axis &a, int reach, int i)
{
    const bool inner = i >= reach && i < a.size - reach;
    return a.cut ? !inner : inner && a.first + i < a.end;
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

/* --- points near edges --- */

/* From the point at i to the one at `to` of an axis: */
static __device__ __forceinline__ int frame_way(const struct plan_axis *axis, const frame_axis &a,
                                                int i, int to)
{
    const int map = axis->side[to < 0 ? SIDE_LOW : SIDE_HIGH].map;
    const int period = a.size - (map == SIDE_MAP_ENDPOINT);
    if (to < 0)
        return (map == SIDE_MAP_NODE ? -to : to + period) - i;
    if (to >= a.size)
        return (map == SIDE_MAP_NODE ? 2 * (a.size - 1) - to : to - period) - i;
    return to - i;
}

template <typename T>
static __device__ __forceinline__ T frame_pair(const struct plan_axis *axis, const frame_axis &a,
                                               int i, int m, const T *f, int stride)
{
    return f[frame_way(axis, a, i, i + m) * stride] + f[frame_way(axis, a, i, i - m) * stride];
}

static __device__ __forceinline__ bool frame_is_centred(const struct plan_axis *axis,
                                                        const frame_axis &a, int i)
{
    return !a.cut ||
           (i >= axis->side[SIDE_LOW].rows && a.size - 1 - i >= axis->side[SIDE_HIGH].rows);
}

/* acc + what the axis adds. */
template <typename T, int R>
static __device__ __forceinline__ T frame_along(const struct plan_axis *axis, const frame_axis &a,
                                                int i, const T (&weights)[R + 1], const T *f,
                                                int stride, T acc)
{
    if (frame_is_centred(axis, a, i)) {
#pragma unroll
        for (int m = 1; m <= R; m++)
            acc = fused(weights[m], frame_pair(axis, a, i, m, f, stride), acc);
        return acc;
    }
    const bool low = i < axis->side[SIDE_LOW].rows;
    const int row = low ? i : a.size - 1 - i, step = low ? stride : -stride;
    f -= row * step;
#pragma unroll
    for (int k = 0; k < 2 * R + 2; k++)
        acc = fused((T)axis->row[row][k], f[k * step], acc);
    return acc;
}

static __device__ __forceinline__ const struct side *frame_holder(const struct plan_axis *axis,
                                                                  const frame_axis &a, int i)
{
    if (a.cut && i < axis->side[SIDE_LOW].held)
        return &axis->side[SIDE_LOW];
    return a.cut && a.size - 1 - i < axis->side[SIDE_HIGH].held ? &axis->side[SIDE_HIGH] : NULL;
}

/* A point near an edge. */
template <typename T, int R>
static __device__ __forceinline__ T frame_special(const struct plan *plan,
                                                  const T (&weights)[AXIS_Z][R + 1],
                                                  const frame_axis &xs, const frame_axis &ys, int x,
                                                  int y, const T *f, int stride_x, int stride_y)
{
    const struct plan_axis *x_axis = &plan->axis[AXIS_X], *y_axis = &plan->axis[AXIS_Y];
    const struct side *holder = frame_holder(x_axis, xs, x);
    holder = holder ? holder : frame_holder(y_axis, ys, y);
    if (holder)
        return holder->halo ? (T)holder->value.number * *f : (T)holder->value.number;
    const bool x_centred = frame_is_centred(x_axis, xs, x);
    const bool y_centred = frame_is_centred(y_axis, ys, y);
    const int centred = x_centred << AXIS_X | y_centred << AXIS_Y;
    T acc = (T)plan->centre[centred] * *f;
    if (plan->shared && x_centred && y_centred) {
#pragma unroll
        for (int m = 1; m <= R; m++)
            acc = fused(weights[AXIS_X][m],
                        frame_pair(x_axis, xs, x, m, f, stride_x) +
                            frame_pair(y_axis, ys, y, m, f, stride_y),
                        acc);
        return acc;
    }
    acc = frame_along<T, R>(x_axis, xs, x, weights[AXIS_X], f, stride_x, acc);
    return frame_along<T, R>(y_axis, ys, y, weights[AXIS_Y], f, stride_y, acc);
}

/* The whole block computes tile number `item`. Lanes lie along the window, so that a warp meets
 * one kind of point. */
template <typename T, int R>
static __device__ __forceinline__ void frame_tile(const frame_shape &shape, int64_t item,
                                                  const T *in, T *out)
{
    T *from = (T *)shared_memory;
    const struct plan *plan = &table[shape.slot].plan;
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
    T *to = from + rows.size * FRAME_WINDOW;
    const int stride_x = along == AXIS_X ? 1 : FRAME_WINDOW;
    const int stride_y = along == AXIS_Y ? 1 : FRAME_WINDOW;
    const bool shared = plan->shared;
    T weights[AXIS_Z][R + 1];
#pragma unroll
    for (int m = 1; m <= R; m++) {
        weights[AXIS_X][m] = weight(shape.slot, AXIS_X, m, T());
        weights[AXIS_Y][m] = weight(shape.slot, AXIS_Y, m, T());
    }
    weights[AXIS_X][0] = centre_weight(shape.slot, T());

    const int i = (int)threadIdx.x % FRAME_WINDOW, first = (int)threadIdx.x / FRAME_WINDOW;
    const int step = (int)blockDim.x / FRAME_WINDOW;
    const frame_axis xs = along == AXIS_X ? lanes : rows, ys = along == AXIS_X ? rows : lanes;
    /* Along x windows x is 1 apart, along y windows y a row: one index of a lane for all. */
    const struct plan_axis *along_axis = &plan->axis[along], *across_axis = &plan->axis[across];
    const int64_t lane =
        i < lanes.size ? frame_index(lanes, along_axis, i) * along_axis->stride : 0;
    if (i < lanes.size) {
#pragma unroll 8
        for (int j = first; j < rows.size; j += step)
            from[j * FRAME_WINDOW + i] =
                __ldg(in + lane + frame_index(rows, across_axis, j) * across_axis->stride);
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
                to[j * FRAME_WINDOW + i] = frame_centred<T, R>(from + j * FRAME_WINDOW + i, weights,
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
                to[y * FRAME_WINDOW + x] = frame_special<T, R>(
                    plan, weights, xs, ys, along == AXIS_X ? x : y, along == AXIS_X ? y : x,
                    from + y * FRAME_WINDOW + x, stride_x, stride_y);
        }
        __syncthreads();
        T *const swap = from;
        from = to;
        to = swap;
    }
    if (i < lanes.size && frame_result(lanes, reach, i))
        for (int j = first; j < rows.size; j += step)
            if (frame_result(rows, reach, j))
                out[lane + frame_index(rows, across_axis, j) * across_axis->stride] =
                    from[j * FRAME_WINDOW + i];
}

/* --- on the host --- */

/* Has the axis rules near its edges that images of its points do not follow? */
static inline bool frame_needed(const struct plan_axis *axis)
{
    bool needed = false;
    for (int side = 0; side < SIDE_COUNT; side++)
        needed |= axis->side[side].rows > 0 || axis->side[side].held > 0 ||
                  axis->side[side].map == SIDE_MAP_ENDPOINT;
    return needed;
}

static inline frame_shape frame_init(const struct geometry *g, int steps)
{
    const struct plan *plan = g->plan;
    frame_shape shape = {};
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
            shape.windows[a] = (int32_t)blocks_of(results, step);
    }
    shape.tiles = shape.windows[AXIS_X] + shape.windows[AXIS_Y] +
                  (shape.cut[AXIS_X] && shape.cut[AXIS_Y] ? 1 : 0);
    return shape;
}

static inline size_t frame_shared_bytes(const frame_shape &shape, size_t element)
{
    const int rows =
        shape.size[AXIS_X] > shape.size[AXIS_Y] ? shape.size[AXIS_X] : shape.size[AXIS_Y];
    return shape.tiles ? 2 * element * FRAME_WINDOW * (size_t)rows : 0;
}
