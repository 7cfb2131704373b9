/* The windows of along_y_z.cu: where a block's is, its points and their derivatives. */
#pragma once

#include "gpu/cuda/point_sum.cuh"

enum { LEAST_WINDOW = 8 }; /* points, which with R more on one side hold those of a closure */

template <typename T, int R> struct along_y_z_shape {
    axis_images<int64_t> along;
    int32_t closed[SIDE_COUNT]; /* has the side closures? */
    int64_t stride, total;      /* elements */
    int64_t begin, end;         /* the points along the axis that are computed */
    int64_t from;               /* the first window of this launch */
    uint32_t columns;           /* packs in all; unaligned: columns of a block */
    uint32_t inner;             /* packs of stride; unaligned: blocks of it */
    uint32_t magic;             /* x magic >> 32 is x / inner or 1 less */
    uint32_t blocks;            /* unaligned: of columns */
    int32_t odd;
    T centre, c[R + 1];
    index_rows by_index;
    int32_t axis;
    T closure[R][2 * R + 2];
};

/* Where a block is: windows follow each other along y, so that what they share is in L2; x and z
 * are columns or, where there are several jobs, x alone. */
template <typename T, int R, int S> struct window {
    int64_t first;   /* point */
    bool low, high;  /* does it begin, end with closures? */
    bool inside;     /* all S + 2R points are */
    unsigned stored; /* bit s: point s is. The last R of the axis are, by the last window */

    __device__ __forceinline__ window(const along_y_z_shape<T, R> &shape, bool can_be_short)
    {
        const int64_t begin = shape.begin + (shape.from + blockIdx.y) * S;
        const int64_t room = shape.along.n - S - begin;
        first = room < 0 ? shape.along.n - S : begin;
        low = shape.closed[SIDE_LOW] && begin == 0;
        high = shape.closed[SIDE_HIGH] && room <= 0 && shape.end == shape.along.n;
        inside = first >= R && first + S + R <= shape.along.n;
        const int skip = room < 0 ? min((int)-room, S - R) : 0;
        int stop = room > 0 && room < R ? S - R + (int)room : S;
        stop = (int)min((int64_t)stop, shape.end - first);
        stored = (1u << stop) - (1u << skip);
        if (can_be_short && shape.along.n < S && begin == shape.begin) {
            const int points = (int)(shape.end - begin) - (high ? R : 0);
            first = begin;
            high = false;
            stored = (1u << max(points, 0)) - 1;
        }
    }
};

/* The closure of the point at a distance from the edge, which is f[edge], towards −STEP. */
template <int STEP, typename T, int R, int V, int COUNT>
static __device__ __forceinline__ pack<T, V> derive_closed(const along_y_z_shape<T, R> &shape,
                                                           const pack<T, V> (&f)[COUNT], int edge,
                                                           int distance)
{
    pack<T, V> acc;
#pragma unroll
    for (int v = 0; v < V; v++)
        acc.v[v] = shape.odd ? -T(0) : T(0); /* −0 + a product is the product */
#pragma unroll
    for (int k = 0; k < 2 * R + 2; k++) {
        if (k == 2 * R + 1 && shape.odd)
            continue;
        T w = shape.closure[distance][k];
        if (STEP < 0 && shape.odd)
            w = -w;
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = fused(w, f[edge + k * STEP].v[v], acc.v[v]);
    }
    return acc;
}

/* The taps of a window's points, and whether they have the first and the last. */
template <typename T, int R, int S> struct window_taps {
    T taps[S][2 * R + 2];
    bool has[2][S];
};

/* All of the block's threads copy them to its shared memory. */
template <typename T, int R, int S>
static __device__ __forceinline__ void load_taps(const along_y_z_shape<T, R> &shape, int64_t first,
                                                 window_taps<T, R, S> *to)
{
    for (int i = (int)threadIdx.x; i < S * (2 * R + 1); i += (int)blockDim.x) {
        const int s = i / (2 * R + 1), t = i % (2 * R + 1);
        const auto row = row_of<T, R>(shape.by_index, shape.axis, first + s);
        to->taps[s][t] = tap_of<T, R>(row, t);
        to->has[0][s] = row.first;
        to->has[1][s] = row.last;
    }
    __syncthreads();
}

/* The points of a window of an axis with coordinates. */
template <typename T, int R, int S, int V, typename Store>
static __device__ __forceinline__ void
derive_indexed(const along_y_z_shape<T, R> &shape, const pack<T, V> (&f)[S + 2 * R],
               const window<T, R, S> &at, const window_taps<T, R, S> &rows, const Store &store)
{
#pragma unroll
    for (int s = 0; s < S; s++) {
        pack<T, V> acc[1];
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[0].v[v] = shape.odd ? -T(0) : T(0); /* −0 + a product is the product */
        /* The sum of the window's points from that one on. */
        auto add = [&](int first) {
            add_taps<R>(
                acc, [&](int t, int, int) { return rows.taps[s][t]; },
                [&](int t, int, int v) { return f[first + t].v[v]; },
                [&](int t, int, int) { return rows.has[t > 0][s]; });
        };
        /* Closures: R points next to a side, of even orders R − 1. */
        const int closed = R - (shape.odd ? 0 : 1);
        if (at.low && s < closed)
            add(R);
        else if (at.high && s >= S - closed)
            add(S - R - 1);
        else
            add(s);
        if (at.stored >> s & 1)
            store(s, acc[0]);
    }
}

/* The points of a window from the S + 2R around it. */
template <typename T, int R, int S, int V, typename Store>
static __device__ __forceinline__ void derive(const along_y_z_shape<T, R> &shape,
                                              const pack<T, V> (&f)[S + 2 * R],
                                              const window<T, R, S> &at, const Store &store)
{
    static_assert(S >= LEAST_WINDOW && S + R >= 2 * R + 2, "a window holds its closures' points");
    constexpr unsigned LOW = (1u << R) - 1, HIGH = LOW << (S - R);
    const unsigned centred = at.stored & ~(at.low ? LOW : 0u) & ~(at.high ? HIGH : 0u);
    if (shape.odd) {
#pragma unroll
        for (int s = 0; s < S; s++) {
            pack<T, V> acc;
#pragma unroll
            for (int v = 0; v < V; v++) {
                acc.v[v] = shape.c[1] * (f[R + s + 1].v[v] - f[R + s - 1].v[v]);
#pragma unroll
                for (int m = 2; m <= R; m++)
                    acc.v[v] = fused(shape.c[m], f[R + s + m].v[v] - f[R + s - m].v[v], acc.v[v]);
            }
            if (centred >> s & 1)
                store(s, acc);
        }
    } else {
#pragma unroll
        for (int s = 0; s < S; s++) {
            pack<T, V> acc;
#pragma unroll
            for (int v = 0; v < V; v++) {
                acc.v[v] = shape.centre * f[R + s].v[v];
#pragma unroll
                for (int m = 1; m <= R; m++)
                    acc.v[v] = fused(shape.c[m], f[R + s + m].v[v] + f[R + s - m].v[v], acc.v[v]);
            }
            if (centred >> s & 1)
                store(s, acc);
        }
    }
    if (at.low) {
#pragma unroll
        for (int d = 0; d < R; d++)
            store(d, derive_closed<1>(shape, f, R, d));
    }
    if (at.high) {
#pragma unroll
        for (int d = 0; d < R; d++)
            store(S - 1 - d, derive_closed<-1>(shape, f, R + S - 1, d));
    }
}

/* The S + 2R points around a window. */
template <typename T, int R, int S, int V>
static __device__ __forceinline__ void
load_window(const along_y_z_shape<T, R> &shape, pack<T, V> (&f)[S + 2 * R],
            const window<T, R, S> &at, bool can_be_short, const T *columns)
{
    if (at.inside) {
        const T *p = columns + (at.first - R) * shape.stride;
#pragma unroll
        for (int j = 0; j < S + 2 * R; j++)
            f[j] = load_pack<V>(p + j * shape.stride);
    } else if (can_be_short && shape.along.n < S) {
        /* What the window's points read, alone: of closures 2R + 2 points. */
        const int n = (int)shape.along.n;
        const int begin = at.high ? n - 2 * R - 2 : -R, end = at.high ? n : n + R;
        const axis_images<int> along = {
            n,
            {(int)shape.along.base[SIDE_LOW], (int)shape.along.base[SIDE_HIGH]},
            {shape.along.sign[SIDE_LOW], shape.along.sign[SIDE_HIGH]}};
#pragma unroll
        for (int j = 0; j < S + 2 * R; j++) {
            const int i = (int)at.first - R + j;
            f[j] = {};
            if (i >= begin && i < end)
                f[j] = load_pack<V>(columns + along.source(i) * shape.stride);
        }
    } else {
#pragma unroll
        for (int j = 0; j < S + 2 * R; j++) {
            const int64_t i = at.first - R + j;
            /* The window itself is. Told so of single points, the compiler takes more registers. */
            const bool is_inside = V > 1 && j >= R && j < R + S;
            f[j] = load_pack<V>(columns + (is_inside ? i : shape.along.source(i)) * shape.stride);
        }
    }
}
