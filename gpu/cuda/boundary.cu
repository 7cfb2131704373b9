/* The points near edges that have closures or are held: a few layers of them. 512³ with radius
 * 4 has 5 % of its points there. Where an operator is even:
 *
 *   faces   a thread has all R points between the edge and the interior, of one row (faces of x) or
 * of a pack of them (y, z), far enough from the other axes' edges to be centred there: their
 * closures share what they read, and all loads are under way at once rims    what is left of the
 * boundary, a thread a point: some 150 instructions, which wait for one axis after another
 *
 * All else is evaluated point by point (points.cu), at ten times that. */
#include "gpu/cuda/grid.cuh"

#include <string.h>

enum {
    BOUNDARY_THREADS = 128,
    FACE_BLOCKS = 5 /* on a multiprocessor: what binds is waiting for memory */
};

/* --- even operators: fields of less than 2^31 points, closures of 2R + 2 points --- */

enum { RIM_BOXES = BOUNDARY_BOXES * 4 };

/* Threads with a part of a face each: of x one for a row, else one for a pack of R rows. */
struct boundary_face {
    int32_t axis, side;
    uint32_t begin[AXIS_COUNT], size[AXIS_COUNT]; /* of threads; along x in packs */
};

struct even_shape {
    struct boundary_face face[BOUNDARY_BOXES];
    uint32_t face_end[BOUNDARY_BOXES]; /* threads of this face and those before it */
    uint32_t rim_begin[RIM_BOXES][AXIS_COUNT], rim_size[RIM_BOXES][AXIS_COUNT];
    uint32_t rim_end[RIM_BOXES];             /* points of this box and those before it */
    uint32_t faces, rims, batch, rim_blocks; /* blocks from rim_blocks on have faces */
    int32_t slot;
};

template <typename T, int R> struct boundary_weights {
    static constexpr int POINTS = 2 * R + 2;
    T row[AXIS_COUNT][PLAN_ROWS][POINTS];
};

static __device__ __forceinline__ void find_in(uint32_t i, const uint32_t begin[AXIS_COUNT],
                                               const uint32_t size[AXIS_COUNT], int at[AXIS_COUNT])
{
    at[AXIS_X] = (int)(begin[AXIS_X] + i % size[AXIS_X]);
    at[AXIS_Y] = (int)(begin[AXIS_Y] + i / size[AXIS_X] % size[AXIS_Y]);
    at[AXIS_Z] = (int)(begin[AXIS_Z] + i / size[AXIS_X] / size[AXIS_Y]);
}

/* acc + the centred stencil along y or z of the P packs at f. */
template <int R, int P, int V, typename T>
static __device__ __forceinline__ void add_across(pack<T, V> (&acc)[P], const T *f, int axis,
                                                  int slot)
{
    if (!table[slot].plan.axis[axis].active)
        return;
    const int stride = (int)table[slot].plan.axis[axis].stride;
#pragma unroll
    for (int m = 1; m <= R; m++)
#pragma unroll
        for (int p = 0; p < P; p++) {
            const pack<T, V> up = load_pack<V>(f + m * stride + p * V);
            const pack<T, V> down = load_pack<V>(f - m * stride + p * V);
#pragma unroll
            for (int v = 0; v < V; v++)
                acc[p].v[v] = fused(weight(slot, axis, m, T()), up.v[v] + down.v[v], acc[p].v[v]);
        }
}

/* acc + the centred stencil along x of the pack at x0 of a row. */
template <int R, int V, typename T>
static __device__ __forceinline__ void add_along(pack<T, V> &acc, const T *row, int x0,
                                                 const pack<T, V> &own, int slot)
{
    const struct plan_axis *axis = &table[slot].plan.axis[AXIS_X];
    if (!axis->active)
        return;
    T xs[V + 2 * R];
    const row_edges inside = {axis->n, true, true, false, false};
    load_row<R, V>(xs, row, x0, inside, own, axis);
#pragma unroll
    for (int m = 1; m <= R; m++)
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(weight(slot, AXIS_X, m, T()), xs[R + v + m] + xs[R + v - m], acc.v[v]);
}

/* acc + a closure, where line[] has the points from the edge on. */
template <int R, int LINE, typename T>
static __device__ __forceinline__ T closed(const T (&row)[2 * R + 2], const T (&line)[LINE], T acc)
{
#pragma unroll
    for (int k = 0; k < 2 * R + 2; k++)
        acc = fused(row[k], line[k], acc);
    return acc;
}

/* The set of active axes but for one. */
template <int AXIS> static __device__ __forceinline__ int others(const struct plan *plan)
{
    int set = 0;
#pragma unroll
    for (int a = 0; a < AXIS_COUNT; a++)
        set |= a != AXIS && plan->axis[a].active ? 1 << a : 0;
    return set;
}

/* What the point at distance d from a side is, unless it is held. */
template <typename T>
static __device__ __forceinline__ T held_or(const struct side *side, int d, T own, T computed)
{
    if (d >= side->held)
        return computed;
    return side->halo ? (T)side->value.number * own : (T)side->value.number;
}

/* The R points at one end of a row. */
template <typename T, int R, int V>
static __device__ __forceinline__ void face_of_x(const boundary_weights<T, R> &weights, int slot,
                                                 int side, const T *f, T *target)
{
    constexpr int P = (R + V - 1) / V, PACKS = (2 * R + 2 + V - 1) / V;
    const struct plan *plan = &table[slot].plan;
    const struct plan_axis *axis = &plan->axis[AXIS_X];
    const bool high = side == SIDE_HIGH;
    const int n = (int)axis->n;
    T line[PACKS * V];
    pack<T, V> acc[P];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const pack<T, V> q = load_pack<V>(f + (high ? n - (p + 1) * V : p * V));
#pragma unroll
        for (int v = 0; v < V; v++)
            line[p * V + v] = q.v[high ? V - 1 - v : v];
    }
    const int centred = others<AXIS_X>(plan);
    const bool begins = centred || plan->identity;
    const T centre = (T)plan->centre[centred];
    const int near = high ? n - P * V : 0; /* the packs of the R points, in the row's order */
#pragma unroll
    for (int d = 0; d < P * V; d++) {
        const int from_low = d, from_high = P * V - 1 - d;
        T sum = T();
        if (d < R)
            sum = closed<R>(weights.row[AXIS_X][d], line, begins ? centre * line[d] : T());
        if (high)
            acc[from_high / V].v[from_high % V] = sum;
        else
            acc[from_low / V].v[from_low % V] = sum;
    }
    add_across<R, P, V>(acc, f + near, AXIS_Y, slot);
    add_across<R, P, V>(acc, f + near, AXIS_Z, slot);
#pragma unroll
    for (int d = 0; d < R; d++) {
        const int at = P * V - 1 - d;
        const T computed = high ? acc[at / V].v[at % V] : acc[d / V].v[d % V];
        target[high ? n - 1 - d : d] = held_or(&axis->side[side], d, line[d], computed);
    }
}

/* The R rows next to a face of y or z, a pack of each. */
template <int AXIS, typename T, int R, int V>
static __device__ __forceinline__ void face_across(const boundary_weights<T, R> &weights, int slot,
                                                   int side, int x0, const T *f, T *target)
{
    constexpr int LINE = 2 * R + 2;
    const struct plan *plan = &table[slot].plan;
    const struct plan_axis *axis = &plan->axis[AXIS];
    const int stride = side == SIDE_HIGH ? -(int)axis->stride : (int)axis->stride;
    const int edge = side == SIDE_HIGH ? (int)((axis->n - 1) * axis->stride) : 0;
    pack<T, V> line[LINE];
#pragma unroll
    for (int k = 0; k < LINE; k++)
        line[k] = load_pack<V>(f + edge + k * stride + x0);
    const int centred = others<AXIS>(plan);
    const bool begins = centred || plan->identity;
    const T centre = (T)plan->centre[centred];
#pragma unroll
    for (int d = 0; d < R; d++) {
        const T *row = f + edge + d * stride;
        pack<T, V> acc[1];
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[0].v[v] = begins ? centre * line[d].v[v] : T();
        add_along<R, V>(acc[0], row, x0, line[d], slot);
        if (AXIS == AXIS_Z)
            add_across<R, 1, V>(acc, row + x0, AXIS_Y, slot);
#pragma unroll
        for (int v = 0; v < V; v++) {
            T points[LINE];
#pragma unroll
            for (int k = 0; k < LINE; k++)
                points[k] = line[k].v[v];
            acc[0].v[v] = closed<R>(weights.row[AXIS][d], points, acc[0].v[v]);
        }
        if (AXIS == AXIS_Y)
            add_across<R, 1, V>(acc, row + x0, AXIS_Z, slot);
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[0].v[v] = held_or(&axis->side[side], d, line[d].v[v], acc[0].v[v]);
        store_pack(target + edge + d * stride + x0, acc[0]);
    }
}

/* A point of the rims. */
template <typename T, int R>
static __device__ __forceinline__ void rim_point(const boundary_weights<T, R> &weights, int slot,
                                                 const int at[AXIS_COUNT], const T *field,
                                                 T *target)
{
    const struct plan *plan = &table[slot].plan;
    const int stride[AXIS_COUNT] = {1, (int)plan->axis[AXIS_Y].stride,
                                    (int)plan->axis[AXIS_Z].stride};
    const int place = at[AXIS_X] + at[AXIS_Y] * stride[AXIS_Y] + at[AXIS_Z] * stride[AXIS_Z];
    const T *f = field + place;
    target += place;

    int centred = 0, row[AXIS_COUNT];
    bool high[AXIS_COUNT];
#pragma unroll
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        const int below = at[a], above = (int)axis->n - 1 - at[a];
        const struct side *low_side = &axis->side[SIDE_LOW], *high_side = &axis->side[SIDE_HIGH];
        if (plan->holds && (below < low_side->held || above < high_side->held)) {
            const struct side *holder = below < low_side->held ? low_side : high_side;
            *target = holder->halo ? (T)holder->value.number * *f : (T)holder->value.number;
            return;
        }
        high[a] = below >= low_side->rows;
        row[a] = !high[a] ? below : above < high_side->rows ? above : -1;
        if (axis->active && row[a] < 0)
            centred |= 1 << a;
    }
    T acc = centred || plan->identity ? (T)plan->centre[centred] * *f : (T)0;
#pragma unroll
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (!axis->active)
            continue;
        if (row[a] >= 0) {
            const T *p = f + ((high[a] ? (int)axis->n - 1 : 0) - at[a]) * stride[a];
            const int step = high[a] ? -stride[a] : stride[a];
#pragma unroll
            for (int k = 0; k < 2 * R + 2; k++)
                acc = fused(weights.row[a][row[a]][k], __ldg(p + k * step), acc);
        } else {
            const bool inside = at[a] >= R && at[a] + R < axis->n;
#pragma unroll
            for (int m = 1; m <= R; m++) {
                const int up = inside ? m : (int)source(axis, at[a] + m) - at[a];
                const int down = inside ? -m : (int)source(axis, at[a] - m) - at[a];
                acc = fused(weight(slot, a, m, T()),
                            __ldg(f + up * stride[a]) + __ldg(f + down * stride[a]), acc);
            }
        }
    }
    *target = acc;
}

template <typename T, int R, int V>
static __device__ __forceinline__ void face_part(const boundary_weights<T, R> &weights, int slot,
                                                 const struct boundary_face &face, uint32_t i,
                                                 const T *field, T *target)
{
    const struct plan_axis *axis = table[slot].plan.axis;
    int at[AXIS_COUNT];
    find_in(i, face.begin, face.size, at);
    const int y = at[AXIS_Y] * (int)axis[AXIS_Y].stride, z = at[AXIS_Z] * (int)axis[AXIS_Z].stride;
    if (face.axis == AXIS_X)
        face_of_x<T, R, V>(weights, slot, face.side, field + y + z, target + y + z);
    else if (face.axis == AXIS_Y)
        face_across<AXIS_Y, T, R, V>(weights, slot, face.side, at[AXIS_X] * V, field + z,
                                     target + z);
    else
        face_across<AXIS_Z, T, R, V>(weights, slot, face.side, at[AXIS_X] * V, field + y,
                                     target + y);
}

template <typename T, int R, int V, class Jobs>
__global__ void __launch_bounds__(BOUNDARY_THREADS, FACE_BLOCKS)
    boundary_even_kernel(const __grid_constant__ even_shape shape, const T *__restrict__ in,
                         T *__restrict__ out, const __grid_constant__ Jobs jobs)
{
    extern __shared__ __align__(128) unsigned char shared_memory[];
    boundary_weights<T, R> &weights = *(boundary_weights<T, R> *)shared_memory;
    constexpr int POINTS = 2 * R + 2, WEIGHTS = AXIS_COUNT * PLAN_ROWS * POINTS;
    const struct plan *plan = &table[shape.slot].plan;
    for (int i = threadIdx.x; i < WEIGHTS; i += BOUNDARY_THREADS)
        weights.row[i / POINTS / PLAN_ROWS][i / POINTS % PLAN_ROWS][i % POINTS] =
            (T)plan->axis[i / POINTS / PLAN_ROWS].row[i / POINTS % PLAN_ROWS][i % POINTS];
    __syncthreads();

    const bool is_rim = blockIdx.x < shape.rim_blocks;
    const uint32_t *const end = is_rim ? shape.rim_end : shape.face_end;
    const uint32_t all = is_rim ? end[shape.rims - 1] : end[shape.faces - 1];
    uint32_t i = (blockIdx.x - (is_rim ? 0 : shape.rim_blocks)) * BOUNDARY_THREADS + threadIdx.x;
    if (i >= all * shape.batch)
        return;
    own_arrays(in, out, jobs);
    const int64_t field = (int64_t)(i / all) * (int64_t)plan->points;
    i %= all;
    int part = 0;
    while (i >= end[part])
        part++;
    i -= part ? end[part - 1] : 0;
    if (is_rim) {
        int at[AXIS_COUNT];
        find_in(i, shape.rim_begin[part], shape.rim_size[part], at);
        rim_point<T, R>(weights, shape.slot, at, in + field, out + field);
    } else {
        face_part<T, R, V>(weights, shape.slot, shape.face[part], i, in + field, out + field);
    }
}

static void add_rim(struct even_shape *shape, const int64_t begin[AXIS_COUNT],
                    const int64_t end[AXIS_COUNT])
{
    uint32_t points = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (end[a] <= begin[a])
            return;
        shape->rim_begin[shape->rims][a] = (uint32_t)begin[a];
        shape->rim_size[shape->rims][a] = (uint32_t)(end[a] - begin[a]);
        points *= (uint32_t)(end[a] - begin[a]);
    }
    shape->rim_end[shape->rims] = points + (shape->rims ? shape->rim_end[shape->rims - 1] : 0);
    shape->rims++;
}

/* Has a box of the boundary a face: R points with closures, whose lines are long enough? Then
 * [low, high) is where it is centred along the other axes, in whole packs. */
static bool find_face(const struct plan *plan, int a, int side, int R, int V,
                      const int64_t begin[AXIS_COUNT], const int64_t end[AXIS_COUNT],
                      int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT])
{
    const struct plan_axis *axis = &plan->axis[a];
    if (axis->side[side].rows != R || end[a] - begin[a] != R || axis->n < 3 * R + V)
        return false;
    for (int b = 0; b < AXIS_COUNT; b++) {
        const struct plan_axis *other = &plan->axis[b];
        const int reach = b == a ? 0 : other->active ? R : 0;
        low[b] = begin[b] > reach ? begin[b] : reach;
        high[b] = end[b] < other->n - reach ? end[b] : other->n - reach;
        for (int s = 0; s < SIDE_COUNT && b != a; s++) { /* whole planes reach other boundaries */
            const int64_t rows = other->side[s].rows, held = other->side[s].held;
            const int64_t thick = rows > held ? rows : held;
            if (s == SIDE_LOW && low[b] < thick)
                low[b] = thick;
            if (s == SIDE_HIGH && high[b] > other->n - thick)
                high[b] = other->n - thick;
        }
    }
    if (a != AXIS_X) {
        low[AXIS_X] = (low[AXIS_X] + V - 1) / V * V;
        high[AXIS_X] = high[AXIS_X] / V * V;
    }
    return high[AXIS_X] > low[AXIS_X] && high[AXIS_Y] > low[AXIS_Y] && high[AXIS_Z] > low[AXIS_Z];
}

/* Faces and rims of the boundary. */
static void even_shape_init(struct even_shape *shape, const struct geometry *g, int V)
{
    const struct plan *plan = g->plan;
    memset(shape, 0, sizeof *shape);
    shape->slot = g->slot;
    shape->batch = (uint32_t)plan->batch;
    for (int box = 0; box < g->boundary.boxes; box++) {
        int64_t begin[AXIS_COUNT], end[AXIS_COUNT], low[AXIS_COUNT], high[AXIS_COUNT];
        for (int b = 0; b < AXIS_COUNT; b++) {
            begin[b] = g->boundary.begin[box][b];
            end[b] = begin[b] + g->boundary.size[box][b];
        }
        const int a = g->boundary.axis[box], side = g->boundary.side[box];
        if (!find_face(plan, a, side, plan->radius, V, begin, end, low, high)) {
            add_rim(shape, begin, end);
            continue;
        }
        struct boundary_face *face = &shape->face[shape->faces];
        uint32_t threads = 1;
        face->axis = a;
        face->side = side;
        for (int b = 0; b < AXIS_COUNT; b++) {
            const int unit = b == AXIS_X ? V : 1;
            face->begin[b] = b == a ? 0 : (uint32_t)(low[b] / unit);
            face->size[b] = b == a ? 1 : (uint32_t)((high[b] - low[b]) / unit);
            threads *= face->size[b];
        }
        shape->face_end[shape->faces] =
            threads + (shape->faces ? shape->face_end[shape->faces - 1] : 0);
        shape->faces++;
        cut_around(begin, end, low, high,
                   [&](const int64_t *from, const int64_t *to) { add_rim(shape, from, to); });
    }
}

template <typename T, int R, int V> struct even_launcher {
    static cudaError_t run(const struct geometry *g, const struct table_pass *pass)
    {
        struct even_shape shape;
        even_shape_init(&shape, g, V);
        const int64_t rims = shape.rims ? (int64_t)shape.rim_end[shape.rims - 1] * shape.batch : 0;
        const int64_t faces =
            shape.faces ? (int64_t)shape.face_end[shape.faces - 1] * shape.batch : 0;
        shape.rim_blocks = (uint32_t)((rims + BOUNDARY_THREADS - 1) / BOUNDARY_THREADS);
        const int64_t blocks = shape.rim_blocks + (faces + BOUNDARY_THREADS - 1) / BOUNDARY_THREADS;
        const kernel_pair<struct even_shape, T> kernel = {
            boundary_even_kernel<T, R, V, one_job>, boundary_even_kernel<T, R, V, job_arrays>};
        return launch_blocks(kernel, blocks, dim3(BOUNDARY_THREADS), g, &shape, pass->in[0],
                             pass->out[0], sizeof(boundary_weights<T, R>));
    }
};

static bool is_even(const struct geometry *g, bool impose)
{
    const struct plan *plan = g->plan;
    bool even = plan->parity == PLAN_EVEN && plan->form == PLAN_SCALAR && !impose &&
                plan->points <= INT32_MAX &&
                (uint64_t)g->boundary.points * plan->batch <= INT32_MAX;
    for (int a = 0; a < AXIS_COUNT; a++)
        even = even &&
               (plan->axis[a].row_points == 0 || plan->axis[a].row_points == 2 * plan->radius + 2);
    return even;
}

extern "C" cudaError_t boundary_launch(const struct geometry *g, const struct table_pass *pass)
{
    return is_even(g, pass->impose)
               ? launch_typed<even_launcher, PLAN_RADIUS>(g, g->plan->axis[AXIS_X].n, pass)
               : points_launch(g, pass);
}
