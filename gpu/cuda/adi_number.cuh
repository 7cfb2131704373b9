/* Solves where κ is a number: all lines share factors that were made beforehand. Where a line is
 * longer than the ring, what was eliminated passes through device memory. */
#pragma once

#include "gpu/cuda/adi_tile.cuh"

/* Of B rows from i on, whose loads do not wait for each other: rows at the ends have their own
 * factors, those between them share one. */
template <int B, typename T>
static __device__ __forceinline__ void load_factors(T (&f)[B], const T *from,
                                                    const struct tridiagonal *lines, int64_t i)
{
    const int64_t first = factors_row(lines, i, (T)0), last = factors_row(lines, i + B - 1, (T)0);
    if (last - first == B - 1) {
#pragma unroll
        for (int k = 0; k < B; k++)
            f[k] = __ldg(from + first + k);
    } else if (last == first) {
        const T all = __ldg(from + first);
#pragma unroll
        for (int k = 0; k < B; k++)
            f[k] = all;
    } else {
#pragma unroll
        for (int k = 0; k < B; k++)
            f[k] = __ldg(from + factors_row(lines, i + k, (T)0));
    }
}

/* Rows i … of the first sweep, of the second one, and of a periodic line's third; x: row i. */
template <int B, int STEP, typename T>
static __device__ __forceinline__ void eliminate(const struct tridiagonal *lines, const T *m,
                                                 int64_t i, T *x, T &y)
{
    T f[B], r[B];
    load_factors(f, m, lines, i);
#pragma unroll
    for (int k = 0; k < B; k++)
        r[k] = x[k * STEP];
#pragma unroll
    for (int k = 0; k < B; k++)
        x[k * STEP] = y = k == 0 && i == 0 ? r[k] : fused(f[k], y, r[k]);
}

template <int B, int STEP, typename T>
static __device__ __forceinline__ void substitute(const struct tridiagonal *lines, const T *p,
                                                  const T *q, int64_t i, T *x, T &next)
{
    T f[B], r[B];
    load_factors(f, q, lines, i);
#pragma unroll
    for (int k = 0; k < B; k++)
        r[k] = f[k] * x[k * STEP];
    load_factors(f, p, lines, i);
#pragma unroll
    for (int k = B - 1; k >= 0; k--)
        x[k * STEP] = next = k == B - 1 && i + B == lines->n ? r[k] : fused(f[k], next, r[k]);
}

template <int B, int STEP, typename T>
static __device__ __forceinline__ void correct(const struct tridiagonal *lines, const T *z,
                                               int64_t i, T *x, T around)
{
    T f[B];
    load_factors(f, z, lines, i);
#pragma unroll
    for (int k = 0; k < B; k++)
        x[k * STEP] = fused(f[k], around, x[k * STEP]);
}

template <typename T, class Lines>
static __global__ void __launch_bounds__(WARP)
    adi_shared_kernel(const __grid_constant__ solve_work<T> work)
{
    enum { STEP = Lines::STEP };
    T *tile = (T *)shared_memory;
    const Lines at(work);
    const bool works = threadIdx.x < Lines::COUNT; /* all copy */
    const struct adi *adi = adi_of(work.slot);
    const struct tridiagonal *lines = &adi->axis[work.axis].lines;
    const T *m = factors_of<T>(adi, work.axis), *p = m + lines->count, *q = p + lines->count;
    const T *z = q + lines->count;
    const int chunks = (int)((work.n + work.rows - 1) / work.rows);
    const bool corner = lines->corner;
    T *kept = const_cast<T *>(work.read); /* what does not stay in the ring */
    auto first_of = [&](int c) { return (int64_t)c * work.rows; };
    auto rows_of = [&](int c) {
        return (int)(work.n - first_of(c) < work.rows ? work.n - first_of(c) : work.rows);
    };
    auto slot_of = [&](int c) { return c % SLOTS * work.rows; };
    auto bring = [&](int c) {
        if (c >= 0 && c < chunks)
            at.load(tile, slot_of(c), work.read, first_of(c), rows_of(c));
        __pipeline_commit();
    };
    /* Chunk c is there, of all threads; its slot's next one, `next`, is to come. */
    auto wait = [&]() {
        __pipeline_wait_prior(SLOTS - 1);
        __syncwarp();
    };
    auto leave = [&](int c, bool is_solved, int next) {
        const bool comes = next >= 0 && next < chunks;
        __syncwarp();
        if (is_solved)
            at.store(tile, slot_of(c), work.write, work.base, first_of(c), rows_of(c));
        else if (comes)
            at.store(tile, slot_of(c), kept, (const T *)nullptr, first_of(c), rows_of(c));
        if (comes)
            __syncwarp();
        bring(next);
    };
    for (int c = 0; c < SLOTS; c++)
        bring(c);
    T next = (T)0, last = (T)0;
    for (int c = 0; c < chunks; c++) {
        wait();
        T *x = at.at(tile, slot_of(c));
        const int rows = works ? rows_of(c) : 0;
        int i = 0;
        for (; i + BATCH <= rows; i += BATCH)
            eliminate<BATCH, STEP>(lines, m, first_of(c) + i, x + i * STEP, next);
        for (; i < rows; i++)
            eliminate<1, STEP>(lines, m, first_of(c) + i, x + i * STEP, next);
        leave(c, false, c + SLOTS);
    }
    for (int c = chunks - 1; c >= 0; c--) {
        wait();
        T *x = at.at(tile, slot_of(c));
        int i = works ? rows_of(c) : 0;
        if (c == chunks - 1 && works) {
            i--;
            substitute<1, STEP>(lines, p, q, first_of(c) + i, x + i * STEP, next);
            last = next;
        }
        for (; i % BATCH; i--)
            substitute<1, STEP>(lines, p, q, first_of(c) + i - 1, x + (i - 1) * STEP, next);
        for (i -= BATCH; i >= 0; i -= BATCH)
            substitute<BATCH, STEP>(lines, p, q, first_of(c) + i, x + i * STEP, next);
        leave(c, !corner, c - SLOTS);
    }
    const T around = fused((T)lines->last, last, next);
    if (corner)
        next = fused(__ldg(z), around, next);
    for (int c = 0; corner && c < chunks; c++) {
        wait();
        T *x = at.at(tile, slot_of(c));
        const int rows = works ? rows_of(c) : 0;
        int i = 0;
        for (; i + BATCH <= rows; i += BATCH)
            correct<BATCH, STEP>(lines, z, first_of(c) + i, x + i * STEP, around);
        for (; i < rows; i++)
            correct<1, STEP>(lines, z, first_of(c) + i, x + i * STEP, around);
        leave(c, true, c + SLOTS);
    }
    const int64_t repeat = at.own + work.n * at.stride;
    if (lines->repeats && at.solves)
        work.write[repeat] = work.base ? work.base[repeat] + next : next;
}
