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

/* BATCH rows from i on of n in the first sweep, in the second one, and in a periodic line's third.
 * x: row i; f and g: the thread's factors, of which the BATCH from k on are these rows'. */
template <class Lines, place PLACE, typename T>
static __device__ __forceinline__ void eliminate(int n, int i, T f, int first, T *x, bool works,
                                                 T &y)
{
    T r[BATCH];
    Lines::get(x, r);
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
        const T next = fused(factor_of<PLACE>(f, first + k), y, r[k]);
        y = PLACE == ANYWHERE && k >= n - i ? y : PLACE != LEVEL && k == 0 && i == 0 ? r[k] : next;
        r[k] = y;
    }
    if (works)
        Lines::put(x, r);
}

template <class Lines, place PLACE, typename T>
static __device__ __forceinline__ void substitute(int n, int i, T p, T q, int first, T *x,
                                                  bool works, T &next)
{
    const int left = n - i;
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
    const Lines at(work, blockIdx.x);
    const bool works = (int)Lines::COUNT == WARP || threadIdx.x < Lines::COUNT; /* all copy */
    const struct adi *adi = adi_of(work.slot);
    const struct tridiagonal lines = adi->axis[work.axis].lines;
    const T *m = factors_of<T>(adi, work.axis), *p = m + lines.count, *q = p + lines.count;
    const T *z = q + lines.count;
    const int n = (int)work.n, chunks = (n + work.rows - 1) / work.rows;
    const bool corner = lines.corner;
    auto rows_of = [&](int c) { return min(n - c * work.rows, work.rows); };
    auto slot_of = [&](int c) { return c % SLOTS * work.rows; };
    auto bring = [&](int c) {
        if (c >= 0 && c < chunks)
            at.load(tile, slot_of(c), work.read, c * work.rows, rows_of(c));
        __pipeline_commit();
    };
    /* Chunk c is there, of all threads; its slot's next one, `next`, is to come. */
    auto wait = [&]() {
        __pipeline_wait_prior(SLOTS - 1);
        __syncwarp();
    };
    /* A chunk of a base comes to where a chunk was that is stored: that of chunk c, the j-th to be
     * stored on the way by `way`, to the place of the one two before. There is a place apart for
     * the first two, and for all where the ring's places are taken again. */
    const bool rings = chunks <= SLOTS;
    auto base_of = [&](int j, int c, int way) {
        return j < 2 || !rings ? work.base_slot : slot_of(c - 2 * way);
    };
    auto bring_base = [&](int j, int c, int way) {
        if (work.base && c >= 0 && c < chunks)
            at.load(tile, base_of(j, c, way), work.base, c * work.rows, rows_of(c));
        __pipeline_commit();
    };
    auto bring_bases = [&](int j, int c, int way) {
        if (!rings || j == 1)
            bring_base(j, c, way);
        if (rings && j > 0)
            bring_base(j + 1, c + way, way);
    };
    auto store = [&](int j, int c, int way) {
        if (rings && j > 0)
            __pipeline_wait_prior(1);
        else if (work.base)
            __pipeline_wait_prior(0);
        __syncwarp();
        const int rows = base_of(j, c, way) - slot_of(c);
        at.store(tile, slot_of(c), work.base ? rows * (int)Lines::STEP : 0, work.write,
                 c * work.rows, rows_of(c));
        __syncwarp();
        bring(c + way * SLOTS);
    };
    /* A base is brought to the second cache two chunks before. */
    auto foresee_base = [&](int c) {
        if (work.base && c >= 0 && c < chunks)
            at.foresee_rows(work.base, c * work.rows, rows_of(c));
    };
    /* Of a chunk that is not solved yet, in a line that is longer than the ring. */
    auto keep = [&](int c, int next) {
        __syncwarp();
        if (next >= 0 && next < chunks) {
            at.store(tile, slot_of(c), 0, work.kept, c * work.rows, rows_of(c));
            __syncwarp();
        }
        bring(next);
    };
    /* Rows from level_begin on, before level_end, have the same factors: whole warps of them. */
    const int level_begin = (max((int)lines.level_begin, 1) + WARP - 1) / WARP * WARP;
    const int level_end = min((int)lines.level_end, n - 1) / WARP * WARP;
    const T level_m = __ldg(m + lines.level_begin), level_p = __ldg(p + lines.level_begin);
    const T level_q = __ldg(q + lines.level_begin);
    auto is_level = [&](int row) { return row >= level_begin && row < level_end; };
    T f_next = load_factor(m, lines, 0), g_next = (T)0; /* before they would wait for the copies */
    for (int c = 0; c < SLOTS; c++)
        bring(c);
    T next = (T)0, last = (T)0;
    for (int c = 0; c < chunks; c++) {
        wait();
        if (!corner && c >= chunks - 2)
            foresee_base(c);
        if (!corner && c == chunks - 1 && rings)
            bring_base(0, c, -1);
        T *x = at.at(tile, slot_of(c));
        const int end = c * work.rows + rows_of(c);
        for (int row = c * work.rows; row < end; row += WARP) {
            const T f = f_next;
            if (!is_level(row + WARP))
                f_next = load_factor(m, lines, row + WARP);
#pragma unroll
            for (int k = 0; k < WARP; k += BATCH, x += BATCH * Lines::STEP)
                if (is_level(row))
                    eliminate<Lines, LEVEL>(n, row + k, level_m, k, x, works, next);
                else if (row + k + BATCH <= n)
                    eliminate<Lines, WITHIN>(n, row + k, f, k, x, works, next);
                else
                    eliminate<Lines, ANYWHERE>(n, row + k, f, k, x, works, next);
        }
        keep(c, c + SLOTS);
    }
    const int top = (n - 1) / WARP * WARP;
    f_next = load_factor(p, lines, top);
    g_next = load_factor(q, lines, top);
    for (int c = chunks - 1; c >= 0; c--) {
        wait();
        if (!corner) {
            bring_bases(chunks - 1 - c, c, -1);
            foresee_base(c - 2);
        } else if (c == 0 && rings) {
            bring_base(0, 0, 1);
        }
        const int begin = c * work.rows, end = begin + rows_of(c);
        for (int row = (end - 1) / WARP * WARP; row >= begin; row -= WARP) {
            const T f = f_next, g = g_next;
            T *x = at.at(tile, slot_of(c) + row - begin);
            if (!is_level(row - WARP)) {
                f_next = load_factor(p, lines, row - WARP);
                g_next = load_factor(q, lines, row - WARP);
            }
#pragma unroll
            for (int k = WARP - BATCH; k >= 0; k -= BATCH)
                if (is_level(row))
                    substitute<Lines, LEVEL>(n, row + k, level_p, level_q, k, x + k * Lines::STEP,
                                             works, next);
                else if (row + k + BATCH < n)
                    substitute<Lines, WITHIN>(n, row + k, f, g, k, x + k * Lines::STEP, works,
                                              next);
                else
                    substitute<Lines, ANYWHERE>(n, row + k, f, g, k, x + k * Lines::STEP, works,
                                                next);
        }
        if (corner && c == chunks - 1) {
            __syncwarp();
            last = *at.at(tile, slot_of(c) + rows_of(c) - 1);
        }
        if (corner)
            keep(c, c - SLOTS);
        else
            store(chunks - 1 - c, c, -1);
    }
    const T around = fused((T)lines.last, last, next);
    if (corner) {
        next = fused(__ldg(z), around, next);
        f_next = load_factor(z, lines, 0);
    }
    for (int c = 0; corner && c < chunks; c++) {
        wait();
        bring_bases(c, c, 1);
        foresee_base(c + 2);
        T *x = at.at(tile, slot_of(c));
        for (int i = 0; i < rows_of(c); i += WARP) {
            const T f = f_next;
            f_next = load_factor(z, lines, c * work.rows + i + WARP);
#pragma unroll
            for (int k = 0; k < WARP; k += BATCH, x += BATCH * Lines::STEP)
                correct<Lines>(f, k, x, works, around);
        }
        store(c, c, 1);
    }
    const int64_t repeat = at.own + work.n * at.stride;
    if (lines.repeats && at.solves)
        work.write[repeat] = work.base ? work.base[repeat] + next : next;
}
