/* The equations of rows where κ is a field: those of a line's ends, and the elimination of one. */
#pragma once

#include "gpu/cuda/adi_part.cuh"

/* What a row needs of the one before. */
template <typename T> struct eliminated {
    T q, above, y, z;
    uint32_t far; /* the largest distance of a divisor's bits: beyond NEAR some q may be wrong */
};

/* The equation of a row: minus what is beside the diagonal. right_z: of the corner's solution. */
template <typename T> struct equation {
    T below, diagonal, above, right, right_z;
};

/* 1 / d. A division branches to what the ends of the exponent's range need, and every row waits for
 * the one before: between these ends the hardware's approximation and a step of Newton's method are
 * rounded right, as the division does it there. */
#ifdef __CUDA_ARCH__
enum { EXPONENT = 100 };
#else
enum { EXPONENT = 3 }; /* for tests */
#endif
enum : uint32_t { FLOAT_ONE = 127, NEAR_BEGIN = (FLOAT_ONE - EXPONENT) << 23 };
enum : uint32_t { NEAR = 2u * EXPONENT << 23 };

static __device__ __forceinline__ double reciprocal(double d, uint32_t &)
{
    return 1 / d;
}
static __device__ __forceinline__ float reciprocal(float d, uint32_t &far)
{
    uint32_t bits;
    memcpy(&bits, &d, sizeof bits);
    far = max(far, bits - NEAR_BEGIN); /* of what is not above 0, too */
#ifdef __CUDA_ARCH__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return __fmaf_rn(r, __fmaf_rn(-d, r, 1.0f), r);
#else
    return far >= NEAR ? 0.0f : 1 / d;
#endif
}

template <bool CORNER, bool EXACT, typename T>
static __device__ __forceinline__ void eliminate_row(eliminated<T> &row, const equation<T> &of,
                                                     T &s, T &p, T &z)
{
    const T m = of.below * row.q;
    const T diagonal = fused(-m, row.above, of.diagonal);
    row.y = fused(m, row.y, of.right);
    row.q = EXACT ? (T)1 / diagonal : reciprocal(diagonal, row.far);
    row.above = of.above;
    s = row.q * row.y;
    p = of.above * row.q;
    if (CORNER) {
        row.z = fused(m, row.z, of.right_z);
        z = row.q * row.z;
    }
}

/* The first point of a thread's line; returns its field. */
template <typename T, class Lines>
static __device__ __forceinline__ int64_t line_point(const solve_work<T> &work, const Lines &at,
                                                     int64_t (&point)[AXIS_COUNT])
{
    const int64_t nx = work.adi.axis[AXIS_X].n, ny = work.adi.axis[AXIS_Y].n;
    const int64_t field = quotient(at.own, (int64_t)work.adi.points);
    const int64_t in_field = at.own - field * (int64_t)work.adi.points;
    const int64_t line = quotient(in_field, nx);
    point[AXIS_Z] = quotient(line, ny);
    point[AXIS_Y] = line - point[AXIS_Z] * ny;
    point[AXIS_X] = in_field - line * nx;
    return field;
}

/* Is a face of another axis imposed on the line? */
template <typename T, class Lines>
static __device__ __forceinline__ bool is_held(const solve_work<T> &work, const Lines &at)
{
    int64_t point[AXIS_COUNT];
    if (!work.rated || !at.solves)
        return false;
    line_point(work, at, point);
    point[work.axis] = 1;
    return holder(&work.adi, point, (T)0) >= 0;
}

/* A line's ends in shared memory, WARP numbers apart: of the low one, then of the high one what is
 * below the diagonal, this, what is above it, and the right side.
 *
 * An end, by the contract's own functions, which read the line where it lies. */
template <typename T, class Lines>
static __device__ __forceinline__ void make_end(const solve_work<T> &work, const Lines &at,
                                                int side, T *ends)
{
    T *const end = ends + (side == SIDE_LOW ? 0 : END_NUMBERS * WARP);
    T below = (T)0, diagonal = (T)1, above = (T)0, right = (T)0;
    if (at.solves) {
        int64_t point[AXIS_COUNT];
        const int64_t i = side == SIDE_LOW ? 0 : work.n - 1, field = line_point(work, at, point);
        matrix_row(&work.adi.axis[work.axis], work.k + at.own + i * at.stride, i, work.n - 1,
                   &below, &diagonal, &above);
        point[work.axis] = i;
        right = work.rated ? rate(&work.adi, &work.operands, work.axis,
                                  work.read + field * (int64_t)work.adi.points, field, point)
                           : work.read[at.own + i * at.stride];
    }
    end[0] = below;
    end[WARP] = diagonal;
    end[2 * WARP] = above;
    end[3 * WARP] = right;
}

template <bool CORNER, typename T>
static __device__ __forceinline__ equation<T> low_end(const T *ends)
{
    const T diagonal = ends[WARP];
    return {(T)0, CORNER ? diagonal + diagonal : diagonal, ends[2 * WARP], ends[3 * WARP],
            -diagonal};
}

template <bool CORNER, typename T>
static __device__ __forceinline__ equation<T> high_end(const T *ends)
{
    const T *const end = ends + END_NUMBERS * WARP;
    const T diagonal = end[WARP], above = end[2 * WARP];
    return {end[0], CORNER ? fused(ends[0], above / ends[WARP], diagonal) : diagonal, above,
            end[3 * WARP], -above};
}
