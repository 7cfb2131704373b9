/* dt (A u + s) along all axes. Between the edges a thread marches along z with V neighbours along
 * x, three planes of which are in registers and one more on its way. The points of the edges, which
 * have rows of their own, are evaluated after them by numerics/adi_point.h, a thread each. */
#pragma once

#include "gpu/cuda/adi.cuh"

template <typename T> struct rate_work {
    int32_t slot, planes; /* of a march */
    uint32_t blocks_x, blocks_y;
    int64_t batch;
    const T *read;
    T *write;
    struct operands operands;
};

/* From point i to its neighbours; where it has none, to itself. */
template <typename T>
static __device__ __forceinline__ int64_t step_of(const struct adi_axis *axis, int64_t i,
                                                  int64_t to)
{
    const bool outside = to < 0 || to >= axis->n;
    return !axis->active || (outside && !axis->periodic) ? 0 : periodic_step(axis, i, to, (T)0);
}

/* V points of an array, and where a march finds their neighbours. */
template <typename T, int V> struct marching {
    const T *at;
    pack<T, V> below, own, above, ahead, low, high;
    T left, right;

    __device__ __forceinline__ void begin(const T *points, int64_t to_below, int64_t to_above)
    {
        at = points;
        own = plain_pack<V>(at);
        below = plain_pack<V>(at + to_below);
        ahead = above = plain_pack<V>(at + to_above);
    }
    __device__ __forceinline__ void load(const int64_t (&beside)[4])
    {
        low = plain_pack<V>(at + beside[0]);
        high = plain_pack<V>(at + beside[1]);
        left = at[beside[2]];
        right = at[beside[3]];
    }
    __device__ __forceinline__ void next(int64_t plane)
    {
        below = own;
        own = above;
        above = ahead;
        at += plane;
    }
    __device__ __forceinline__ T before(int v) const
    {
        return v == 0 ? left : own.v[v == 0 ? 0 : v - 1];
    }
    __device__ __forceinline__ T after(int v) const
    {
        return v == V - 1 ? right : own.v[v == V - 1 ? v : v + 1];
    }
};

template <typename T>
static __device__ __forceinline__ T term(T weight, T below, T f, T above, T acc)
{
    return fused(weight, (below - f) + (above - f), acc);
}

/* The same of a field κ. */
template <typename T>
static __device__ __forceinline__ T term(T weight, T below, T f, T above, T k_below, T k, T k_above,
                                         T acc)
{
    return fused(weight, (k_below + k) * (below - f) + (k_above + k) * (above - f), acc);
}

template <typename T, int V, bool FIELD>
static __device__ __forceinline__ void march_rate(const rate_work<T> &work, const struct adi *adi,
                                                  int64_t x, int64_t y, int64_t begin, int64_t end,
                                                  int64_t field)
{
    const struct adi_axis *const axes = adi->axis;
    const int64_t nx = axes[AXIS_X].n, ny = axes[AXIS_Y].n, nz = axes[AXIS_Z].n;
    const int64_t plane = nx * ny;
    const int64_t first = field * plane * nz + (begin * ny + y) * nx + x;
    const T *source = adi->source ? (const T *)work.operands.at[OPERAND_SOURCE] + first : nullptr;
    const T dt = (T)adi->dt, source_value = (T)adi->source_value;
    const bool has_x = axes[AXIS_X].active, has_y = axes[AXIS_Y].active;
    const bool has_z = axes[AXIS_Z].active;
    const T weight_x = (T)axes[AXIS_X].weight, weight_y = (T)axes[AXIS_Y].weight;
    const T weight_z = (T)axes[AXIS_Z].weight;
    const int64_t beside[] = {
        step_of<T>(&axes[AXIS_Y], y, y - 1), step_of<T>(&axes[AXIS_Y], y, y + 1),
        step_of<T>(&axes[AXIS_X], x, x - 1), V - 1 + step_of<T>(&axes[AXIS_X], x + V - 1, x + V)};
    const int64_t to_below = step_of<T>(&axes[AXIS_Z], begin, begin - 1);
    const int64_t to_above = step_of<T>(&axes[AXIS_Z], begin, begin + 1);
    const int64_t over_end = nz > 1 ? plane + step_of<T>(&axes[AXIS_Z], nz - 1, nz) : 0;
    marching<T, V> u, k;
    u.begin(work.read + first, to_below, to_above);
    if (FIELD)
        k.begin((const T *)work.operands.at[OPERAND_COEFFICIENT] + first, to_below, to_above);
    T *to = work.write + first;
#pragma unroll 1
    for (int64_t z = begin; z < end; z++, to += plane) {
        const int64_t to_ahead = z + 2 < nz ? 2 * plane : over_end;
        pack<T, V> result;
        if (z + 1 < end) {
            u.ahead = plain_pack<V>(u.at + to_ahead);
            if (FIELD)
                k.ahead = plain_pack<V>(k.at + to_ahead);
        }
        u.load(beside);
        if (FIELD)
            k.load(beside);
#pragma unroll
        for (int v = 0; v < V; v++) {
            const T f = u.own.v[v];
            T acc = (T)0;
            if (FIELD) {
                const T own = k.own.v[v];
                if (has_x)
                    acc = term(weight_x, u.before(v), f, u.after(v), k.before(v), own, k.after(v),
                               acc);
                if (has_y)
                    acc = term(weight_y, u.low.v[v], f, u.high.v[v], k.low.v[v], own, k.high.v[v],
                               acc);
                if (has_z)
                    acc = term(weight_z, u.below.v[v], f, u.above.v[v], k.below.v[v], own,
                               k.above.v[v], acc);
            } else {
                if (has_x)
                    acc = term(weight_x, u.before(v), f, u.after(v), acc);
                if (has_y)
                    acc = term(weight_y, u.low.v[v], f, u.high.v[v], acc);
                if (has_z)
                    acc = term(weight_z, u.below.v[v], f, u.above.v[v], acc);
            }
            result.v[v] = fused(dt, source ? source[v] : source_value, acc);
        }
        store_pack(to, result);
        u.next(plane);
        if (FIELD)
            k.next(plane);
        source += source ? plane : 0;
    }
}

template <typename T, int V, bool FIELD>
static __global__ void __launch_bounds__(256, FIELD ? 2 : 3)
    adi_rate_kernel(const __grid_constant__ rate_work<T> work)
{
    const struct adi *adi = adi_of(work.slot);
    const int64_t nz = adi->axis[AXIS_Z].n;
    uint32_t block = blockIdx.x;
    const int64_t x = ((int64_t)(block % work.blocks_x) * blockDim.x + threadIdx.x) * V;
    block /= work.blocks_x;
    const int64_t y = (int64_t)(block % work.blocks_y) * blockDim.y + threadIdx.y;
    const int64_t first = (int64_t)(block / work.blocks_y) * work.planes;
    if (x < adi->axis[AXIS_X].n && y < adi->axis[AXIS_Y].n)
        for (int64_t field = blockIdx.y; field < work.batch; field += gridDim.y)
            march_rate<T, V, FIELD>(work, adi, x, y, first,
                                    first + work.planes < nz ? first + work.planes : nz, field);
}

/* Points of both faces of axis `a`: 0 where it has no edges. */
static __host__ __device__ __forceinline__ int64_t edge_points(const struct adi *adi, int a)
{
    const struct adi_axis *axis = &adi->axis[a];
    return axis->active && !axis->periodic ? 2 * axis->face_points : 0;
}

template <typename T>
static __global__ void __launch_bounds__(256)
    adi_edges_kernel(const __grid_constant__ rate_work<T> work)
{
    const struct adi *adi = adi_of(work.slot);
    const struct adi_axis *const axes = adi->axis;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int a = 0;
    for (; a < AXIS_COUNT && i >= edge_points(adi, a); a++)
        i -= edge_points(adi, a);
    if (a == AXIS_COUNT)
        return;
    const int inner = a == AXIS_X ? AXIS_Y : AXIS_X, outer = a == AXIS_Z ? AXIS_Y : AXIS_Z;
    const bool high = i >= axes[a].face_points;
    i -= high ? axes[a].face_points : 0;
    int64_t at[AXIS_COUNT];
    at[a] = high ? axes[a].n - 1 : 0;
    at[outer] = i / axes[inner].n;
    at[inner] = i - at[outer] * axes[inner].n;
    const int64_t place = (at[AXIS_Z] * axes[AXIS_Y].n + at[AXIS_Y]) * axes[AXIS_X].n + at[AXIS_X];
    for (int64_t field = blockIdx.y; field < work.batch; field += gridDim.y) {
        const int64_t begin = field * (int64_t)adi->points;
        work.write[begin + place] =
            rate(adi, &work.operands, AXIS_COUNT, work.read + begin, field, at);
    }
}
