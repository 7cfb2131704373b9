/* Solves where κ is a number: all lines share factors that were made beforehand. */
#pragma once

#include "gpu/cuda/adi_part.cuh"

/* SEGMENTED: lines have several segments, what is kept of which takes registers. */
template <typename T, class Lines, bool SEGMENTED> struct number_line : line_part<T, Lines> {
    typedef line_part<T, Lines> base;
    enum { ROWS = base::ROWS, FACTOR_M = 0, FACTOR_P = ROWS, FACTOR_Q = 2 * ROWS };
    enum { FACTOR_Z = 3 * ROWS };
    using base::ask, base::at, base::begin, base::between, base::ends, base::enter, base::foresee;
    using base::foresee_base, base::has_last, base::meet, base::n, base::number;
    using base::keep_numbers, base::numbers_of, base::part, base::place, base::rows, base::store;
    using base::take_kept, base::take_numbers, base::tile, base::wait, base::warp, base::warps,
        base::work, base::x;
    const struct tridiagonal &lines;
    T *const factors;
    T y, last; /* the eliminated right side in the row before; the last row's solution */

    __device__ __forceinline__ number_line(const solve_work<T> &of, int64_t block, bool reversed)
        : base(of, block, reversed), lines(of.adi.axis[of.axis].lines),
          factors(base::numbers + (warps * NUMBERS + ENDS) * WARP + warp * part_sizes<T>::FACTORS)
    {
    }
    __device__ __forceinline__ bool is_kept(int segment) const
    {
        return SEGMENTED && base::is_kept(segment);
    }
    /* The first row's m is 0, and from the last on p is 1, so that all rows are computed alike: 0 ·
     * −0 leaves a right side as it is, and s = −0 a solution that passes. */
    __device__ __forceinline__ void bring_factors() const
    {
        const T *m = factors_of<T>(adi_of(work.slot), work.axis), *p = m + lines.count;
        const T *q = p + lines.count, *z = q + lines.count;
        __syncwarp();
        for (int k = lane(); k < ROWS; k += WARP) {
            const int i = min(begin + k, n - 1);
            const int64_t row = factors_row(&lines, i, (T)0);
            factors[FACTOR_M + k] = i > 0 ? __ldg(m + row) : (T)0;
            factors[FACTOR_P + k] = i < n - 1 ? __ldg(p + row) : (T)1;
            factors[FACTOR_Q + k] = __ldg(q + row);
            if (lines.corner)
                factors[FACTOR_Z + k] = __ldg(z + row);
        }
        __syncwarp();
    }
    /* Those of a batch, which all threads read. */
    __device__ __forceinline__ void take_factors(int of, int row, T (&some)[DIVIDED]) const
    {
        enum { V = 16 / sizeof(T) };
#pragma unroll
        for (int v = 0; v < DIVIDED; v += V) {
            const auto own = shared_pack(factors + of + row + v);
#pragma unroll
            for (int k = 0; k < V; k++)
                some[v + k] = own.v[k];
        }
    }

    __device__ __forceinline__ void eliminate_rows()
    {
#pragma unroll
        for (int j = 0; j < ROWS; j += DIVIDED) {
            T m[DIVIDED], q[DIVIDED];
            if (j >= rows)
                continue;
            take_factors(FACTOR_M, j, m);
            take_factors(FACTOR_Q, j, q);
#pragma unroll
            for (int v = 0; v < DIVIDED; v++) {
                y = fused(m[v], y, number[j + v]);
                number[j + v] = q[v] * y;
            }
        }
        if (!has_last())
            return;
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            last = j == rows - 1 ? number[j] : last;
            number[j] = j >= rows - 1 ? (T)-0.0 : number[j];
        }
        ends[AROUND * WARP] = last;
    }
    __device__ __forceinline__ void eliminate(int segment)
    {
        enter(segment);
        ask(tile, work.read);
        bring_factors();
        wait();
        take_numbers((T)0);
        y = (T)-0.0;
        if (begin > 0) {
            meet(between(true));
            y = *numbers_of(between(true), ON);
        }
        eliminate_rows();
        if (is_kept(segment) || part + 1 < warps) {
            *numbers_of(between(false), ON) = y;
            meet(between(false));
        }
        foresee_base();
        if (segment == 0)
            foresee(work.read);
        if (is_kept(segment))
            keep_numbers();
    }

    __device__ __forceinline__ void substitute_rows()
    {
#pragma unroll
        for (int j = ROWS - DIVIDED; j >= 0; j -= DIVIDED) {
            T p[DIVIDED];
            if (j >= rows)
                continue;
            take_factors(FACTOR_P, j, p);
#pragma unroll
            for (int v = DIVIDED - 1; v >= 0; v--)
                p[v] = x = fused(p[v], x, number[j + v]);
            Lines::put(place(tile, j), p);
        }
    }
    __device__ __forceinline__ void substitute(int segment)
    {
        enter(segment);
        if (is_kept(segment)) {
            bring_factors();
            take_kept();
        }
        if (is_kept(segment) || part + 1 < warps) {
            meet(between(false));
            x = *numbers_of(between(false), BACK);
        }
        x = has_last() ? last : x;
        substitute_rows();
        if (begin > 0) {
            *numbers_of(between(true), BACK) = x;
            meet(between(true));
        }
        if (!lines.corner)
            store(tile, work.write, work.base);
        else if (SEGMENTED)
            store(tile, work.kept, nullptr);
    }
    /* A periodic line's third sweep, with what goes around the corner. */
    __device__ __forceinline__ void turn()
    {
        T *const around = ends + AROUND * WARP;
        __syncthreads();
        if (part == 0)
            *around = fused((T)lines.last, *around, x);
        __syncthreads();
    }
    __device__ __forceinline__ void correct(int segment)
    {
        const T around = ends[AROUND * WARP];
        enter(segment);
        if (SEGMENTED) {
            ask(tile, work.kept);
            bring_factors();
            wait();
        }
        for (int i = 0; i < rows; i++)
            *place(tile, i) = fused(factors[FACTOR_Z + i], around, *place(tile, i));
        if (part == 0 && segment == 0)
            x = *place(tile, 0);
        store(tile, work.write, work.base);
    }
};

template <typename T, class Lines, bool SEGMENTED>
static __global__ void __launch_bounds__(part_sizes<T>::WARPS *WARP, sizeof(T) == 4 ? 2 : 1)
    adi_number_kernel(const __grid_constant__ solve_work<T> work)
{
    bool reversed = false;
    for (int64_t block = blockIdx.x; block < work.blocks; block += gridDim.x) {
        number_line<T, Lines, SEGMENTED> line(work, block, reversed);
        for (int segment = 0; segment < work.segments; segment++)
            line.eliminate(segment);
        for (int segment = work.segments - 1; segment >= 0; segment--)
            line.substitute(segment);
        if (line.lines.corner) {
            line.turn();
            for (int segment = 0; segment < work.segments; segment++)
                line.correct(segment);
        }
        line.repeat();
        reversed = !reversed;
    }
}
