/* Solves where κ is a field: the matrix is made and eliminated on the way. How many lines a
 * multiprocessor has room for bounds the speed, so that of a point one number is kept there: first
 * κ, then the factor p. The numbers themselves, and the corner's solution z, pass through rings of
 * a few chunks from device memory and back; the second cache holds most of what comes back. */
#pragma once

#include "gpu/cuda/adi_tile.cuh"

/* What the first sweep knows of the row before, and of the row that is next to be eliminated. */
template <typename T> struct eliminated {
    T q, above, y, z;
    T k, own, sum, flux; /* sum: of κ there and in the row before; flux: what flows between them */
    uint32_t far; /* the largest distance of a divisor's bits: beyond NEAR some q may be wrong */
};

/* The equation of a row: minus what is beside the diagonal. */
template <typename T> struct equation {
    T below, diagonal, above, right;
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

/* A row is known up to its elimination; right_z: of the corner's solution. */
template <bool CORNER, bool EXACT, typename T>
static __device__ __forceinline__ void eliminate_row(eliminated<T> &row, const equation<T> &of,
                                                     T right_z, T *s, T *p, T *z)
{
    const T m = of.below * row.q;
    const T diagonal = fused(-m, row.above, of.diagonal);
    row.y = fused(m, row.y, of.right);
    row.q = EXACT ? (T)1 / diagonal : reciprocal(diagonal, row.far);
    row.above = of.above;
    *s = row.q * row.y;
    *p = of.above * row.q;
    if (CORNER) {
        row.z = fused(m, row.z, right_z);
        *z = row.q * row.z;
    }
}

template <typename T, class Lines, bool CORNER> struct field_lines {
    enum { STEP = Lines::STEP, ROWS = FIELD_ROWS, RING = FIELD_SLOTS * ROWS };
    typedef pack<T, Lines::WIDTH> chunk_of_base[Lines::EACH];
    const solve_work<T> &work;
    const Lines at;
    const struct adi *adi;
    const bool works; /* all copy */
    const int n, chunks;
    T *const tile, *const p, *const s, *const z;
    equation<T> low, high;
    bool held;
    T weight, half, dt, source_value;
    const T *source;
    eliminated<T> row;
    T x, corner; /* the solution, and that of the corner's column, in the row before */

    __device__ __forceinline__ field_lines(const solve_work<T> &of)
        : work(of), at(of), adi(adi_of(of.slot)), works(threadIdx.x < Lines::COUNT), n((int)of.n),
          chunks((n + ROWS - 1) / ROWS), tile((T *)shared_memory), p(at.at(tile, 0)),
          s(at.at(tile, n)), z(at.at(tile, n + RING))
    {
    }
    __device__ __forceinline__ int rows_of(int c) const
    {
        return min(n - c * ROWS, (int)ROWS);
    }
    /* The row of the tile where a chunk is in the ring. */
    __device__ __forceinline__ int slot_of(int c) const
    {
        return n + c % FIELD_SLOTS * ROWS;
    }
    static __device__ __forceinline__ int ring(int i)
    {
        return i % RING * STEP;
    }

    __device__ __forceinline__ void bring_equations(int c)
    {
        if (c < chunks) {
            at.load(tile, slot_of(c), work.read, c * ROWS, rows_of(c));
            at.load(tile, c * ROWS, work.k, c * ROWS, rows_of(c));
        }
        __pipeline_commit();
    }
    /* A chunk leaves its place in the ring to `next`, if there is such a one. */
    __device__ __forceinline__ void keep(int c, int next)
    {
        __syncwarp();
        if (next < 0 || next >= chunks)
            return;
        at.store(tile, slot_of(c), 0, work.kept, c * ROWS, rows_of(c));
        if (CORNER)
            at.store(tile, RING + slot_of(c), 0, work.spare[1], c * ROWS, rows_of(c));
        __syncwarp();
    }
    __device__ __forceinline__ void bring_back(int c)
    {
        if (c >= 0 && c < chunks) {
            at.load(tile, slot_of(c), work.kept, c * ROWS, rows_of(c));
            if (CORNER)
                at.load(tile, RING + slot_of(c), work.spare[1], c * ROWS, rows_of(c));
        }
        __pipeline_commit();
    }
    __device__ __forceinline__ void foresee_base(int c) const
    {
        if (work.base && c >= 0 && c < chunks)
            at.foresee_rows(work.base, c * ROWS, rows_of(c));
    }
    __device__ __forceinline__ void load_base(int c, chunk_of_base &base) const
    {
        const tile_part part = at.part(slot_of(c), c * ROWS, rows_of(c));
#pragma unroll
        for (int k = 0; k < Lines::EACH; k++)
            if (work.base && k < part.count)
                base[k] = plain_pack<Lines::WIDTH>(work.base + part.at + k * part.stride);
    }
    __device__ __forceinline__ void store(int c, const chunk_of_base &base) const
    {
        const tile_part part = at.part(slot_of(c), c * ROWS, rows_of(c));
        __syncwarp();
#pragma unroll
        for (int k = 0; k < Lines::EACH; k++) {
            if (k >= part.count)
                break;
            auto own = plain_pack<Lines::WIDTH>(tile + part.place + k * part.step);
#pragma unroll
            for (int v = 0; v < Lines::WIDTH; v++)
                own.v[v] = work.base ? base[k].v[v] + own.v[v] : own.v[v];
            store_pack(work.write + part.at + k * part.stride, own);
        }
        __syncwarp();
    }

    /* The ends' rows, by the contract's own functions, which read the line where it lies. */
    __device__ __forceinline__ equation<T> end_row(int side, int64_t (&point)[AXIS_COUNT],
                                                   int64_t field) const
    {
        equation<T> end;
        const int64_t i = side == SIDE_LOW ? 0 : n - 1;
        matrix_row(&adi->axis[work.axis], work.k + at.own, i, &end.below, &end.diagonal,
                   &end.above);
        point[work.axis] = i;
        end.right = work.rated ? rate(adi, &work.operands, work.axis,
                                      work.read + field * (int64_t)adi->points, field, point)
                               : (T)0;
        return end;
    }
    __device__ __forceinline__ void read_ends()
    {
        low = high = {(T)0, (T)1, (T)0, (T)0};
        held = false;
        if (!at.solves)
            return;
        const int64_t place = at.own % (int64_t)adi->points, field = at.own / (int64_t)adi->points;
        const int64_t nx = adi->axis[AXIS_X].n, ny = adi->axis[AXIS_Y].n;
        int64_t point[AXIS_COUNT] = {place % nx, place / nx % ny, place / nx / ny};
        low = end_row(SIDE_LOW, point, field);
        high = end_row(SIDE_HIGH, point, field);
        point[work.axis] = 1;
        held = holder(adi, point, (T)0) >= 0;
    }
    __device__ __forceinline__ void begin()
    {
        const struct adi_axis *axis = &adi->axis[work.axis];
        bring_equations(0);
        read_ends(); /* loads wait for the copies that were asked for before them */
        for (int c = 1; c < FIELD_SLOTS; c++)
            bring_equations(c);
        weight = (T)axis->weight;
        half = (T)0.5 * weight;
        dt = (T)adi->dt;
        source_value = (T)adi->source_value;
        source = work.rated && work.axis == AXIS_Z && adi->source && at.solves
                     ? (const T *)work.operands.at[OPERAND_SOURCE] + at.own
                     : nullptr;
        /* 0 · −0 leaves every right side as it is */
        row = {(T)0, (T)0, (T)-0.0, (T)0, (T)0, (T)0, (T)0, (T)0, 0};
    }

    /* To the next row: the conductance to it, and what flows. */
    __device__ __forceinline__ void step(T k_next, T next)
    {
        row.sum = k_next + row.k;
        row.flux = row.sum * (next - row.own);
        row.k = k_next;
        row.own = next;
    }
    /* The row before the one whose κ and number are given, which are still in the tile. RATED: its
     * right side is the rate along the line. */
    template <bool EXACT, bool RATED>
    __device__ __forceinline__ void eliminate_next(T k_next, T next, T from_source, T *to_s,
                                                   T *to_p, T *to_z)
    {
        const T below = half * row.sum, flux_below = row.flux;
        T right = row.own;
        step(k_next, next);
        const T above = half * row.sum;
        if (RATED) {
            right = fused(weight, row.flux - flux_below, (T)0);
            right = work.axis == AXIS_Z ? fused(dt, from_source, right) : right;
            right = held ? (T)0 : right;
        }
        const equation<T> of = {below, (T)1 + (below + above), above, right};
        eliminate_row<CORNER, EXACT>(row, of, (T)0, to_s, to_p, to_z);
    }
    template <bool SOURCED> __device__ __forceinline__ T source_of(int i) const
    {
        return SOURCED ? source[i * at.stride] : source_value;
    }
    template <bool RATED, bool SOURCED> __device__ __forceinline__ void eliminate_one(int next)
    {
        const int i = next - 1, to = ring(i);
        eliminate_next<true, RATED>(p[next * STEP], s[ring(next)], source_of<SOURCED>(i), s + to,
                                    p + i * STEP, z + to);
    }
    /* The rows before DIVIDED ones from `next` on, a multiple of DIVIDED: their data are read
     * before the first of them is eliminated. */
    template <bool RATED, bool SOURCED> __device__ __forceinline__ void eliminate_batch(int next)
    {
        T *const p_next = p + next * STEP;
        const int own = ring(next), before = ring(next - 1);
        T k[DIVIDED], number[DIVIDED], from_source[DIVIDED];
#pragma unroll
        for (int j = 0; j < DIVIDED; j++) {
            k[j] = p_next[j * STEP];
            number[j] = s[own + j * STEP];
            from_source[j] = source_of<SOURCED>(next - 1 + j);
        }
        auto eliminate = [&](auto exact) {
#pragma unroll
            for (int j = 0; j < DIVIDED; j++) {
                const int to = j == 0 ? before : own + (j - 1) * STEP;
                eliminate_next<decltype(exact)::value, RATED>(
                    k[j], number[j], from_source[j], s + to, p_next + (j - 1) * STEP, z + to);
            }
        };
        const eliminated<T> at_first = row;
        eliminate(std::false_type());
        if (row.far >= NEAR) {
            row = at_first;
            row.far = 0;
            eliminate(std::true_type());
        }
    }
    template <bool RATED, bool SOURCED> __device__ __forceinline__ void eliminate_rows(int c)
    {
        const int end = works ? c * ROWS + rows_of(c) : 0;
        for (int next = c > 0 ? c * ROWS : 2; next < end;)
            if (next % DIVIDED == 0 && next + DIVIDED <= end) {
                eliminate_batch<RATED, SOURCED>(next);
                next += DIVIDED;
            } else {
                eliminate_one<RATED, SOURCED>(next++);
            }
    }
    __device__ __forceinline__ void eliminate_first()
    {
        row.k = p[0];
        row.own = s[0];
        equation<T> first = low;
        first.below = (T)0;
        first.diagonal = CORNER ? low.diagonal + low.diagonal : low.diagonal;
        first.right = work.rated ? low.right : row.own;
        step(p[STEP], s[STEP]);
        eliminate_row<CORNER, true>(row, first, -low.diagonal, s, p, z);
    }
    __device__ __forceinline__ void eliminate_last()
    {
        const int to = ring(n - 1);
        equation<T> last = high;
        last.diagonal =
            CORNER ? fused(low.below, last.above / low.diagonal, last.diagonal) : last.diagonal;
        last.right = work.rated ? last.right : row.own;
        eliminate_row<CORNER, true>(row, last, -last.above, s + to, p + (n - 1) * STEP, z + to);
        x = s[to];
        corner = CORNER ? z[to] : (T)0;
    }
    __device__ __forceinline__ void eliminate()
    {
        for (int c = 0; c < chunks; c++) {
            __pipeline_wait_prior(FIELD_SLOTS - 2);
            __syncwarp();
            if (c == 0 && works)
                eliminate_first();
            if (!work.rated)
                eliminate_rows<false, false>(c);
            else if (!source)
                eliminate_rows<true, false>(c);
            else
                eliminate_rows<true, true>(c);
            if (c > 0) { /* its last row waited for this chunk's first */
                keep(c - 1, c - 1 + FIELD_SLOTS);
                bring_equations(c - 1 + FIELD_SLOTS);
            }
        }
        if (works)
            eliminate_last();
    }

    __device__ __forceinline__ void substitute_row(int i, T f, T r, T r_z)
    {
        s[ring(i)] = x = fused(f, x, r);
        if (CORNER)
            z[ring(i)] = corner = fused(f, corner, r_z);
    }
    __device__ __forceinline__ void substitute_rows(int c)
    {
        const int begin = c * ROWS;
        for (int i = works ? min(begin + ROWS, n - 1) - 1 : -1; i >= begin;) {
            if (i % DIVIDED < DIVIDED - 1) {
                substitute_row(i, p[i * STEP], s[ring(i)], CORNER ? z[ring(i)] : (T)0);
                i--;
                continue;
            }
            T f[DIVIDED], r[DIVIDED], r_z[DIVIDED];
            const int from = i - (DIVIDED - 1), at_from = ring(from);
#pragma unroll
            for (int j = 0; j < DIVIDED; j++) {
                f[j] = p[(from + j) * STEP];
                r[j] = s[at_from + j * STEP];
                r_z[j] = CORNER ? z[at_from + j * STEP] : (T)0;
            }
#pragma unroll
            for (int j = DIVIDED - 1; j >= 0; j--) {
                s[at_from + j * STEP] = x = fused(f[j], x, r[j]);
                if (CORNER)
                    z[at_from + j * STEP] = corner = fused(f[j], corner, r_z[j]);
            }
            i = from - 1;
        }
    }
    __device__ __forceinline__ void substitute()
    {
        __syncwarp();
        for (int c = chunks - 1; c >= 0; c--) {
            chunk_of_base base;
            if (!CORNER) {
                load_base(c, base);
                foresee_base(c - 2);
            }
            __pipeline_wait_prior(FIELD_SLOTS - 1);
            __syncwarp();
            substitute_rows(c);
            if (CORNER)
                keep(c, c - FIELD_SLOTS);
            else
                store(c, base);
            bring_back(c - FIELD_SLOTS);
        }
    }
    __device__ __forceinline__ void correct(T last, T corner_last)
    {
        const T factor = low.below / low.diagonal;
        const T around = fused(factor, last, x) / ((T)1 + fused(factor, corner_last, corner));
        x = fused(-corner, around, x);
        for (int c = 0; c < chunks; c++) {
            chunk_of_base base;
            load_base(c, base);
            foresee_base(c + 2);
            __pipeline_wait_prior(FIELD_SLOTS - 1);
            __syncwarp();
            for (int i = c * ROWS; works && i < c * ROWS + rows_of(c); i++)
                s[ring(i)] = fused(-z[ring(i)], around, s[ring(i)]);
            store(c, base);
            bring_back(c + FIELD_SLOTS);
        }
    }
    __device__ __forceinline__ void repeat() const
    {
        const int64_t to = at.own + n * at.stride;
        if (adi->axis[work.axis].lines.repeats && at.solves)
            work.write[to] = work.base ? work.base[to] + x : x;
    }
};

template <typename T, class Lines, bool CORNER>
static __global__ void __launch_bounds__(WARP)
    adi_field_kernel(const __grid_constant__ solve_work<T> work)
{
    field_lines<T, Lines, CORNER> lines(work);
    lines.begin();
    lines.eliminate();
    const T last = lines.x, corner_last = lines.corner;
    lines.substitute();
    if (CORNER)
        lines.correct(last, corner_last);
    lines.repeat();
}
