/* What kernels of faces share. A layer of a face is its points at one distance d from the side's
 * edge: below the radius R a closure, of points of the line from the edge inwards; at R, where the
 * edge node is read as a value that the side states, the centred stencil. The bits are those of
 * numerics/table_point.h. All rows come as a parameter, in constant memory. */
#pragma once

#include "gpu/cuda/faces.h"
#include "gpu/cuda/early.cuh"
#include "gpu/cuda/grid.cuh"

enum { FACE_THREADS = 128 };

/* What a point's result is: a sum of even derivatives along the active axes, or vectors of odd ones
 * in 3D. */
enum face_form { FACE_SUM, FACE_GRADIENT, FACE_DIVERGENCE, FACE_CURL };

/* Of a side: rows of its layers, from the edge inwards. */
template <typename T, int R> struct face_side {
    T closure[R][2 * R + 2], datum[R];
    T value, constant;
    int32_t points;  /* of a closure */
    int32_t alone;   /* bit d: the row of layer d is its datum alone */
    int32_t layers;  /* 0: no face */
    int32_t imposed; /* is the edge node read as the value? */
    int32_t held;    /* layers that come out as the value */
    int32_t mixed;   /* the datum is constant − value × f at the edge node, not the value */
};

/* The faces of both sides of an axis. */
template <typename T, int R> struct face_pair {
    face_side<T, R> side[SIDE_COUNT];
    int64_t begin[2], end[2]; /* along the other axes, the faster one first */
    int32_t tiles, blocks;    /* along the faster one; of a side */
    T centre;                 /* in closures, of the other axes */
    int32_t begins;           /* a closure's sum begins with that */
};

/* What faces of all axes have in common. */
template <typename T, int R> struct face_plan {
    const T *in[AXIS_COUNT];
    T *out[AXIS_COUNT];
    int64_t n[AXIS_COUNT], stride[AXIS_COUNT], points;
    T pairs[AXIS_COUNT][R], centre; /* of the centred stencil */
    int32_t active, shared;
    vector_jobs jobs;
};

/* Kernels of one boundary run beside one another, since none reads or writes what another writes:
 * each lets the next one begin, and a kernel that began early ends no sooner than those before it.
 */
static __device__ __forceinline__ void face_end()
{
    if (blockIdx.x + 1 == gridDim.x)
        wait_for_previous();
}

static __host__ __device__ constexpr int face_outputs(int form)
{
    return form == FACE_GRADIENT || form == FACE_CURL ? AXIS_COUNT : 1;
}
static __host__ __device__ constexpr int face_parts(int form)
{
    return form == FACE_DIVERGENCE ? AXIS_COUNT : form == FACE_CURL ? 2 : 1;
}
/* table_part(): along which axis part k of component c is, and of which component of the input. */
static __host__ __device__ constexpr int face_along(int form, int c, int k)
{
    return form == FACE_GRADIENT ? c : form == FACE_CURL ? (c + 1 + k) % AXIS_COUNT : k;
}
static __host__ __device__ constexpr int face_of(int form, int c, int k)
{
    return form == FACE_DIVERGENCE ? k : form == FACE_CURL ? (c + 2 - k) % AXIS_COUNT : 0;
}
/* The component of the input whose derivative along an axis component c has; −1: none. */
static __host__ __device__ constexpr int face_source(int form, int c, int axis)
{
    int of = form == FACE_SUM ? 0 : -1;
    for (int k = 0; form != FACE_SUM && k < face_parts(form); k++)
        of = face_along(form, c, k) == axis ? face_of(form, c, k) : of;
    return of;
}

/* Points that closures of a radius read. */
static __host__ __device__ constexpr int face_line(int form, int radius)
{
    return 2 * radius + 1 + (form == FACE_SUM);
}

/* Arithmetic of V points of a layer. */
template <typename T, int R, int V, int FORM> struct face_sums {
    static constexpr int LINE = face_line(FORM, R);
    using value = pack<T, V>;

    /* The sum of a pair of points, or their difference. */
    static __device__ __forceinline__ value paired(const value &up, const value &down)
    {
        return FORM == FACE_SUM ? up + down : up - down;
    }
    static __device__ __forceinline__ void fold(const T (&w)[R], const value (&pair)[R], bool begun,
                                                value &acc)
    {
#pragma unroll
        for (int m = 0; m < R; m++)
            acc = fused(w[m], pair[m], acc, begun || m > 0);
    }
    static __device__ __forceinline__ void join(value (&total)[R], const value (&pair)[R],
                                                bool begun)
    {
#pragma unroll
        for (int m = 0; m < R; m++)
            total[m] = begun ? total[m] + pair[m] : pair[m];
    }
    /* The pairs along the side's axis about layer R. */
    static __device__ __forceinline__ void pairs_inward(const value (&line)[LINE], bool high,
                                                        value (&pair)[R])
    {
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] = FORM != FACE_SUM && high ? paired(line[R - m], line[R + m])
                                                   : paired(line[R + m], line[R - m]);
    }
    /* acc + a closure. full: it has LINE points, not one less; alone: none. */
    static __device__ __forceinline__ void close(const T (&w)[2 * R + 2], T datum, bool full,
                                                 bool alone, const value (&line)[LINE],
                                                 const value &given, bool begun, value &acc)
    {
        if (!alone)
#pragma unroll
            for (int k = 0; k < LINE; k++)
                if (k + 1 < LINE || full)
                    acc = fused(w[k], line[k], acc, begun || k > 0);
        if (datum != (T)0)
            acc = fused(datum, given, acc, begun || !alone);
    }
    /* The side's number, along a line that begins with f. */
    static __device__ __forceinline__ value datum_of(const face_side<T, R> &side, const value &f)
    {
        return pack_of<T, V>([&](int v) {
            return side.mixed ? fused(-side.value, f.v[v], side.constant) : side.value;
        });
    }
    static __device__ __forceinline__ value combined(const value &sum, const value &part, int k)
    {
        return k == 0 ? part : FORM == FACE_CURL ? sum - part : sum + part;
    }
};
