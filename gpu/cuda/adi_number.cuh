/* Solves where κ is a number: all lines share factors that were made beforehand. Where a line is
 * longer than the ring, what was eliminated passes through device memory. */
#pragma once

#include "gpu/cuda/adi_tile.cuh"

/* The factors that a warp's rows from i on have, one a thread; beyond the line its last one's. */
template <typename T>
static __device__ __forceinline__ T load_factor(const T *from, const struct tridiagonal &lines,
                                                int64_t i)
{
    i += threadIdx.x;
    i = i < 0 ? 0 : i < lines.n ? i : lines.n - 1;
    return __ldg(from + factors_row(&lines, i, (T)0));
}

/* Where the rows of a batch are: anywhere, also beyond the line, which the sweep passes by; within
 * it; or where the factors of all rows are one row's, so that each thread has them. */
enum place { ANYWHERE, WITHIN, LEVEL };

/* Those of row k of them, of all threads. */
template <place PLACE, typename T> static __device__ __forceinline__ T factor_of(T own, int k)
{
    return PLACE == LEVEL ? own : __shfl_sync(0xffffffffu, own, k);
}

/* BATCH rows from i on of the first sweep, of the second one, and of a periodic line's third. x:
 * row i; f and g: the thread's factors, of which the BATCH from k on are these rows'. */
template <class Lines, place PLACE, typename T>
static __device__ __forceinline__ void eliminate(const struct tridiagonal &lines, int64_t i, T f,
                                                 int first, T *x, bool works, T &y)
{
    const int64_t left = lines.n - i;
    T r[BATCH];
    Lines::get(x, r);
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
        const T next = fused(factor_of<PLACE>(f, first + k), y, r[k]);
        y = PLACE == ANYWHERE && k >= left ? y : PLACE != LEVEL && k == 0 && i == 0 ? r[k] : next;
        r[k] = y;
    }
    if (works)
        Lines::put(x, r);
}

template <class Lines, place PLACE, typename T>
static __device__ __forceinline__ void substitute(const struct tridiagonal &lines, int64_t i, T p,
                                                  T q, int first, T *x, bool works, T &next)
{
    const int64_t left = lines.n - i;
    T r[BATCH];
    Lines::get(x, r);
#pragma unroll
    for (int k = 0; k < BATCH; k++)
        r[k] = factor_of<PLACE>(q, first + k) * r[k];
#pragma unroll
    for (int k = BATCH - 1; k >= 0; k--) {
        const T own = fused(factor_of<PLACE>(p, first + k), next, r[k]);
        next = PLACE != ANYWHERE || k < left - 1 ? own : k == left - 1 ? r[k] : next;
        r[k] = next;
    }
    if (works)
        Lines::put(x, r);
}

template <class Lines, typename T>
static __device__ __forceinline__ void correct(T z, int first, T *x, bool works, T around)
{
    T r[BATCH];
    Lines::get(x, r);
#pragma unroll
    for (int k = 0; k < BATCH; k++)
        r[k] = fused(factor_of<WITHIN>(z, first + k), around, r[k]);
    if (works)
        Lines::put(x, r);
}

template <typename T, class Lines>
static __global__ void __launch_bounds__(WARP)
    adi_shared_kernel(const __grid_constant__ solve_work<T> work)
{
    T *tile = (T *)shared_memory;
    const Lines at(work);
    const bool works = threadIdx.x < Lines::COUNT; /* all copy */
    const struct adi *adi = adi_of(work.slot);
    const struct tridiagonal lines = adi->axis[work.axis].lines;
    const T *m = factors_of<T>(adi, work.axis), *p = m + lines.count, *q = p + lines.count;
    const T *z = q + lines.count;
    const int chunks = (int)((work.n + work.rows - 1) / work.rows);
    const bool corner = lines.corner;
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
    /* Have the warp's rows from `row` on the same factors? The first and the last one are apart. */
    auto is_level = [&](int64_t row) {
        return row > 0 && row >= lines.level_begin && row + WARP <= lines.level_end &&
               row + WARP < lines.n;
    };
    /* A base is asked for two chunks ahead. */
    auto foresee_base = [&](int c) {
        if (work.base && c >= 0 && c < chunks)
            at.foresee_rows(work.base, first_of(c), rows_of(c));
    };
    for (int c = 0; c < SLOTS; c++)
        bring(c);
    T next = (T)0, last = (T)0;
    T f_next = load_factor(m, lines, 0), g_next = (T)0;
    for (int c = 0; c < chunks; c++) {
        wait();
        if (!corner && c >= chunks - 2)
            foresee_base(c);
        for (int i = 0; i < rows_of(c); i += WARP) {
            const int64_t row = first_of(c) + i;
            const T f = f_next;
            T *x = at.at(tile, slot_of(c) + i);
            if (!is_level(row) || !is_level(row + WARP))
                f_next = load_factor(m, lines, row + WARP);
#pragma unroll
            for (int k = 0; k < WARP; k += BATCH)
                if (is_level(row))
                    eliminate<Lines, LEVEL>(lines, row + k, f, k, x + k * Lines::STEP, works, next);
                else if (row + k + BATCH <= work.n)
                    eliminate<Lines, WITHIN>(lines, row + k, f, k, x + k * Lines::STEP, works,
                                             next);
                else
                    eliminate<Lines, ANYWHERE>(lines, row + k, f, k, x + k * Lines::STEP, works,
                                               next);
        }
        leave(c, false, c + SLOTS);
    }
    const int64_t top = (work.n - 1) / WARP * WARP;
    f_next = load_factor(p, lines, top);
    g_next = load_factor(q, lines, top);
    for (int c = chunks - 1; c >= 0; c--) {
        wait();
        if (!corner)
            foresee_base(c - 2);
        for (int i = (rows_of(c) - 1) / WARP * WARP; i >= 0; i -= WARP) {
            const int64_t row = first_of(c) + i;
            const T f = f_next, g = g_next;
            T *x = at.at(tile, slot_of(c) + i);
            if (!is_level(row) || !is_level(row - WARP)) {
                f_next = load_factor(p, lines, row - WARP);
                g_next = load_factor(q, lines, row - WARP);
            }
#pragma unroll
            for (int k = WARP - BATCH; k >= 0; k -= BATCH)
                if (is_level(row))
                    substitute<Lines, LEVEL>(lines, row + k, f, g, k, x + k * Lines::STEP, works,
                                             next);
                else if (row + k + BATCH < work.n)
                    substitute<Lines, WITHIN>(lines, row + k, f, g, k, x + k * Lines::STEP, works,
                                              next);
                else
                    substitute<Lines, ANYWHERE>(lines, row + k, f, g, k, x + k * Lines::STEP, works,
                                                next);
        }
        if (corner && c == chunks - 1) {
            __syncwarp();
            last = *at.at(tile, slot_of(c) + rows_of(c) - 1);
        }
        leave(c, !corner, c - SLOTS);
    }
    const T around = fused((T)lines.last, last, next);
    if (corner) {
        next = fused(__ldg(z), around, next);
        f_next = load_factor(z, lines, 0);
    }
    for (int c = 0; corner && c < chunks; c++) {
        wait();
        foresee_base(c + 2);
        for (int i = 0; i < rows_of(c); i += WARP) {
            const T f = f_next;
            T *x = at.at(tile, slot_of(c) + i);
            f_next = load_factor(z, lines, first_of(c) + i + WARP);
#pragma unroll
            for (int k = 0; k < WARP; k += BATCH)
                correct<Lines>(f, k, x + k * Lines::STEP, works, around);
        }
        leave(c, true, c + SLOTS);
    }
    const int64_t repeat = at.own + work.n * at.stride;
    if (lines.repeats && at.solves)
        work.write[repeat] = work.base ? work.base[repeat] + next : next;
}
