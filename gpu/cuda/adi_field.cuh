/* Solves where κ is a field: the matrix is made and eliminated on the way, from what the line's κ
 * and numbers are in two tiles; its factors take their place there. Lines are never longer than the
 * ring. */
#pragma once

#include "gpu/cuda/adi_tile.cuh"

/* What a sweep knows of the row before. */
template <typename T> struct eliminated {
    T q, above, y, z;
    uint32_t far; /* the largest distance of a divisor's bits: beyond NEAR some q may be wrong */
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

/* A row is known up to its elimination; of the corner's solution z: what stands on its right. */
template <bool CORNER, bool EXACT, typename T>
static __device__ __forceinline__ void eliminate_row(eliminated<T> &row, T below, T diagonal,
                                                     T above, T right, T right_z, T *s, T *p, T *z)
{
    const T m = below * row.q;
    diagonal = fused(-m, row.above, diagonal);
    row.y = fused(m, row.y, right);
    row.q = EXACT ? (T)1 / diagonal : reciprocal(diagonal, row.far);
    row.above = above;
    *s = row.q * row.y;
    *p = above * row.q;
    if (CORNER) {
        row.z = fused(m, row.z, right_z);
        *z = row.q * row.z;
    }
}

template <typename T, class Lines, bool CORNER>
static __global__ void __launch_bounds__(WARP)
    adi_field_kernel(const __grid_constant__ solve_work<T> work)
{
    enum { STEP = Lines::STEP };
    const Lines at(work);
    const bool works = threadIdx.x < Lines::COUNT; /* all copy */
    const struct adi *adi = adi_of(work.slot);
    const struct adi_axis *axis = &adi->axis[work.axis];
    T *tile = (T *)shared_memory, *tile_k = tile + work.size, *tile_z = tile_k + work.size;
    T *const s = at.at(tile, 0), *const p = at.at(tile_k, 0), *const z = at.at(tile_z, 0);
    const int n = (int)work.n, chunks = (n + work.rows - 1) / work.rows;
    auto rows_of = [&](int c) { return min(n - c * work.rows, work.rows); };
    auto bring = [&](int c) {
        if (c < chunks) {
            at.load(tile, c * work.rows, work.read, c * work.rows, rows_of(c));
            at.load(tile_k, c * work.rows, work.k, c * work.rows, rows_of(c));
        }
        __pipeline_commit();
    };
    bring(0);

    /* The ends' rows, by the contract's own functions, which read the line where it lies: loads
     * wait for the copies that were asked for before them, so the low end's is between copies, and
     * the high end's after all. */
    const int64_t place = at.own % (int64_t)adi->points, field = at.own / (int64_t)adi->points;
    const int64_t nx = adi->axis[AXIS_X].n, ny = adi->axis[AXIS_Y].n;
    const T *u = work.read + field * (int64_t)adi->points;
    int64_t point[AXIS_COUNT] = {place % nx, place / nx % ny, place / nx / ny};
    auto make_end = [&](int side, T *below, T *diagonal, T *above) {
        const int64_t i = side == SIDE_LOW ? 0 : n - 1;
        matrix_row(axis, work.k + at.own, i, below, diagonal, above);
        point[work.axis] = i;
        return work.rated ? rate(adi, &work.operands, work.axis, u, field, point) : (T)0;
    };
    T below = 0, diagonal = 1, above = 0, end_rate = (T)0;
    bool held = false;
    if (at.solves) {
        end_rate = make_end(SIDE_LOW, &below, &diagonal, &above);
        point[work.axis] = 1;
        held = holder(adi, point, (T)0) >= 0;
    }
    for (int c = 1; c < SLOTS; c++)
        bring(c);
    const T corner_first = diagonal, corner_low = below;
    const T weight = (T)axis->weight, half = (T)0.5 * weight, dt = (T)adi->dt;
    const bool has_source = work.rated && work.axis == AXIS_Z;
    const T *source = has_source && adi->source && at.solves
                          ? (const T *)work.operands.at[OPERAND_SOURCE] + at.own
                          : nullptr;
    const T source_value = (T)adi->source_value;

    __pipeline_wait_prior(SLOTS - 1);
    __syncwarp();
    T k_own = 0, own = 0, sum = 0, flux = 0; /* sum: of κ here and in the next row */
    /* 0 · −0 leaves every right side as it is */
    eliminated<T> row = {(T)0, (T)0, (T)-0.0, (T)0, 0};
    /* The conductance to the next row, and what flows. */
    auto step = [&](T k_next, T next) {
        sum = k_next + k_own;
        flux = sum * (next - own);
        k_own = k_next;
        own = next;
    };
    /* Row i, given the next row's κ and number, which are still in the tile. rated: its right side
     * is the rate along the line. */
    auto eliminate_next = [&](auto exact, auto rated, int i, T k_next, T next, T from_source) {
        const T low = half * sum, flux_low = flux;
        T right = own;
        step(k_next, next);
        const T high = half * sum;
        if (decltype(rated)::value) {
            right = fused(weight, flux - flux_low, (T)0);
            right = has_source ? fused(dt, from_source, right) : right;
            right = held ? (T)0 : right;
        }
        eliminate_row<CORNER, decltype(exact)::value>(row, low, (T)1 + (low + high), high, right,
                                                      (T)0, s + i * STEP, p + i * STEP,
                                                      z + i * STEP);
    };
    auto choose_form = [&](auto eliminate) {
        if (!work.rated)
            eliminate(std::false_type(), std::false_type());
        else if (!source)
            eliminate(std::true_type(), std::false_type());
        else
            eliminate(std::true_type(), std::true_type());
    };
    /* DIVIDED rows from i on; their data are read before the first of them is eliminated. */
    auto eliminate_batch = [&](auto rated, auto sourced, int i) {
        T k_next[DIVIDED], next[DIVIDED], from_source[DIVIDED];
#pragma unroll
        for (int j = 0; j < DIVIDED; j++) {
            k_next[j] = p[(i + j + 1) * STEP];
            next[j] = s[(i + j + 1) * STEP];
            from_source[j] = decltype(sourced)::value ? source[(i + j) * at.stride] : source_value;
        }
        auto eliminate_all = [&](auto exact) {
#pragma unroll
            for (int j = 0; j < DIVIDED; j++)
                eliminate_next(exact, rated, i + j, k_next[j], next[j], from_source[j]);
        };
        const eliminated<T> before = row;
        const T k_before = k_own, own_before = own, sum_before = sum, flux_before = flux;
        eliminate_all(std::false_type());
        if (row.far >= NEAR) {
            row = before;
            row.far = 0;
            k_own = k_before;
            own = own_before;
            sum = sum_before;
            flux = flux_before;
            eliminate_all(std::true_type());
        }
    };

    if (works) {
        k_own = p[0];
        own = s[0];
        const T first_right = work.rated ? end_rate : own;
        step(p[STEP], s[STEP]);
        eliminate_row<CORNER, true>(row, (T)0, CORNER ? diagonal + diagonal : diagonal, above,
                                    first_right, -corner_first, s, p, z);
    }
    for (int c = 0, i = 1; c < chunks; c++) {
        /* The last row's next one is yet to come. */
        const int end = works ? c * work.rows + rows_of(c) - 1 : 0;
        if (c > 0) {
            __pipeline_wait_prior(SLOTS - 1);
            __syncwarp();
        }
        if (!CORNER && work.base && c >= chunks - 2)
            at.foresee_rows(work.base, c * work.rows, rows_of(c));
        choose_form([&](auto rated, auto sourced) {
            for (; i + DIVIDED <= end; i += DIVIDED)
                eliminate_batch(rated, sourced, i);
            for (; i < end; i++)
                eliminate_next(std::true_type(), rated, i, p[(i + 1) * STEP], s[(i + 1) * STEP],
                               decltype(sourced)::value ? source[i * at.stride] : source_value);
        });
        __pipeline_commit();
    }
    T last_below = 0, last_diagonal = 1, last_above = 0;
    if (at.solves)
        end_rate = make_end(SIDE_HIGH, &last_below, &last_diagonal, &last_above);
    if (CORNER)
        last_diagonal = fused(corner_low, last_above / corner_first, last_diagonal);
    T x = 0, corner = 0;
    if (works) {
        const int end = (n - 1) * STEP;
        eliminate_row<CORNER, true>(row, last_below, last_diagonal, last_above,
                                    work.rated ? end_rate : own, -last_above, s + end, p + end,
                                    z + end);
        x = s[end];
        corner = CORNER ? z[end] : (T)0;
    }
    const T last = x, corner_last = corner;
    for (int c = chunks - 1, i = works ? n - 2 : -1; c >= 0; c--) {
        const int begin = c * work.rows;
        if (!CORNER && work.base)
            at.load(tile, work.base_slot, work.base, begin, rows_of(c));
        __pipeline_commit();
        auto substitute_row = [&](int k, T f, T r, T r_z) {
            s[k * STEP] = x = fused(f, x, r);
            if (CORNER)
                z[k * STEP] = corner = fused(f, corner, r_z);
        };
        for (; i - DIVIDED + 1 >= begin; i -= DIVIDED) {
            T f[DIVIDED], r[DIVIDED], r_z[DIVIDED];
#pragma unroll
            for (int j = 0; j < DIVIDED; j++) {
                f[j] = p[(i - j) * STEP];
                r[j] = s[(i - j) * STEP];
                r_z[j] = CORNER ? z[(i - j) * STEP] : (T)0;
            }
#pragma unroll
            for (int j = 0; j < DIVIDED; j++)
                substitute_row(i - j, f[j], r[j], r_z[j]);
        }
        for (; i >= begin; i--)
            substitute_row(i, p[i * STEP], s[i * STEP], CORNER ? z[i * STEP] : (T)0);
        if (!CORNER && work.base && c >= 2)
            at.foresee_rows(work.base, begin - 2 * work.rows, work.rows);
        __pipeline_wait_prior(0);
        __syncwarp();
        if (!CORNER) {
            at.store(tile, begin, work.base ? (work.base_slot - begin) * (int)STEP : 0, work.write,
                     begin, rows_of(c));
            __syncwarp();
        }
    }
    if (CORNER) {
        const T factor = corner_low / corner_first;
        const T around = fused(factor, last, x) / ((T)1 + fused(factor, corner_last, corner));
        x = fused(-corner, around, x);
        if (work.base) /* what took κ's place is not needed any more */
            at.load(tile_k, 0, work.base, 0, n);
        __pipeline_commit();
        for (int i = 0; works && i < n; i++)
            s[i * STEP] = fused(-z[i * STEP], around, s[i * STEP]);
        __pipeline_wait_prior(0);
        __syncwarp();
        at.store(tile, 0, work.base ? work.size : 0, work.write, 0, n);
    }
    const int64_t repeat = at.own + n * at.stride;
    if (axis->lines.repeats && at.solves)
        work.write[repeat] = work.base ? work.base[repeat] + x : x;
}
