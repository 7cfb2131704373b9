/* dt (A u + s) along all axes where κ is a number: a thread marches along z with V neighbours along
 * x, three planes of which are in registers and one more on its way. Rows of edges are evaluated
 * with all others, in the order of numerics/adi_point.h. */
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

/* What a point's term along an axis is: that between two neighbours, or the row of an edge. */
template <typename T> struct rate_row {
    int side;    /* −1: between two */
    bool varies; /* its datum is an array's */
    T next, own, datum, g;

    __device__ __forceinline__ rate_row() : side(-1), varies(false)
    {
    }
    __device__ __forceinline__ rate_row(const struct adi_axis *axis, int64_t i)
    {
        side = axis->active ? adi_edge_of(axis, i) : -1;
        next = own = datum = g = (T)0;
        varies = false;
        if (side < 0)
            return;
        const struct side *of = side == SIDE_LOW ? &axis->side[SIDE_LOW] : &axis->side[SIDE_HIGH];
        const struct adi_edge *edge =
            side == SIDE_LOW ? &axis->edge[SIDE_LOW] : &axis->edge[SIDE_HIGH];
        const struct side_number *number =
            of->datum >= SIDE_DATUM_MIXED_NODE ? &of->constant : &of->value;
        next = (T)edge->next;
        own = (T)edge->own;
        datum = (T)edge->datum;
        varies = number->operand >= 0;
        g = varies ? (T)0 : (T)number->number;
    }
    __device__ __forceinline__ T term(T weight, T below, T f, T above, T acc) const
    {
        const T down = below - f, up = above - f;
        if (side < 0)
            return fused(weight, down + up, acc);
        acc = fused(next, side == SIDE_LOW ? up : down, acc);
        acc = fused(own, f, acc);
        return fused(datum, g, acc);
    }
};

/* Is the point i of an axis held? */
static __device__ __forceinline__ bool held_at(const struct adi_axis *axis, int64_t i)
{
    return i < axis->side[SIDE_LOW].held || axis->n - 1 - i < axis->side[SIDE_HIGH].held;
}

/* From point i to its neighbours; where it has none, to itself. */
template <typename T>
static __device__ __forceinline__ int64_t step_of(const struct adi_axis *axis, int64_t i,
                                                  int64_t to)
{
    const bool outside = to < 0 || to >= axis->n;
    return !axis->active || (outside && !axis->periodic) ? 0 : periodic_step(axis, i, to, (T)0);
}

template <typename T, int V>
static __device__ __forceinline__ void march_rate(const rate_work<T> &work, const struct adi *adi,
                                                  int64_t x, int64_t y, int64_t begin, int64_t end,
                                                  int64_t field)
{
    const struct adi_axis *const axes = adi->axis;
    const int64_t nx = axes[AXIS_X].n, ny = axes[AXIS_Y].n, nz = axes[AXIS_Z].n;
    const int64_t plane = nx * ny, from = field * plane * nz;
    const T *u = work.read + from;
    const T *source = adi->source ? (const T *)work.operands.at[OPERAND_SOURCE] + from : nullptr;
    const T dt = (T)adi->dt, source_value = (T)adi->source_value;
    const bool has_x = axes[AXIS_X].active, has_y = axes[AXIS_Y].active;
    const bool has_z = axes[AXIS_Z].active;
    const T weight_x = (T)axes[AXIS_X].weight, weight_y = (T)axes[AXIS_Y].weight;
    const T weight_z = (T)axes[AXIS_Z].weight;
    const int64_t left = step_of<T>(&axes[AXIS_X], x, x - 1);
    const int64_t right = V - 1 + step_of<T>(&axes[AXIS_X], x + V - 1, x + V);
    const int64_t low = step_of<T>(&axes[AXIS_Y], y, y - 1);
    const int64_t high = step_of<T>(&axes[AXIS_Y], y, y + 1);
    rate_row<T> first_x(&axes[AXIS_X], x), last_x(&axes[AXIS_X], x + V - 1);
    rate_row<T> row_y(&axes[AXIS_Y], y);
    const bool held_y = held_at(&axes[AXIS_Y], y);
    auto number_of = [&](rate_row<T> &row, int axis, int64_t at_x, int64_t z) {
        const int64_t at[AXIS_COUNT] = {at_x, y, z};
        if (row.varies)
            row.g = edge_number(adi, &work.operands, axis, row.side, field, at, (T)0);
    };
    int64_t i = (begin * ny + y) * nx + x;
    pack<T, V> own = plain_pack<V>(u + i);
    pack<T, V> below = plain_pack<V>(u + i + step_of<T>(&axes[AXIS_Z], begin, begin - 1));
    pack<T, V> above = plain_pack<V>(u + i + step_of<T>(&axes[AXIS_Z], begin, begin + 1));
    for (int64_t z = begin; z < end; z++, i += plane) {
        const bool at_end = z + 1 >= nz;
        pack<T, V> ahead = above, result;
        if (z + 1 < end) /* what is above the next plane */
            ahead = plain_pack<V>(u + i + plane + step_of<T>(&axes[AXIS_Z], z + 1, z + 2));
        const pack<T, V> y_low = plain_pack<V>(u + i + low), y_high = plain_pack<V>(u + i + high);
        const T x_low = u[i + left], x_high = u[i + right];
        rate_row<T> row_z;
        if (z == 0 || at_end)
            row_z = rate_row<T>(&axes[AXIS_Z], z);
        number_of(first_x, AXIS_X, x, z);
        number_of(last_x, AXIS_X, x + V - 1, z);
        const bool held = held_y || held_at(&axes[AXIS_Z], z);
#pragma unroll
        for (int v = 0; v < V; v++) {
            const T f = own.v[v];
            T acc = (T)0;
            if (has_x) {
                const T before = v == 0 ? x_low : own.v[v == 0 ? 0 : v - 1];
                const T after = v == V - 1 ? x_high : own.v[v == V - 1 ? v : v + 1];
                acc = v == 0       ? first_x.term(weight_x, before, f, after, acc)
                      : v == V - 1 ? last_x.term(weight_x, before, f, after, acc)
                                   : fused(weight_x, (before - f) + (after - f), acc);
            }
            number_of(row_y, AXIS_Y, x + v, z);
            if (has_y)
                acc = row_y.term(weight_y, y_low.v[v], f, y_high.v[v], acc);
            number_of(row_z, AXIS_Z, x + v, z);
            if (has_z)
                acc = row_z.term(weight_z, below.v[v], f, above.v[v], acc);
            acc = fused(dt, source ? source[i + v] : source_value, acc);
            const bool held_x = (v == 0 || v == V - 1 || V == 1) && held_at(&axes[AXIS_X], x + v);
            result.v[v] = held || held_x ? (T)0 : acc;
        }
        store_pack(work.write + from + i, result);
        below = own;
        own = above;
        above = ahead;
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(256)
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
            march_rate<T, V>(work, adi, x, y, first,
                             first + work.planes < nz ? first + work.planes : nz, field);
}
