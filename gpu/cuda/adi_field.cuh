/* Solves where κ is a field: the matrix is made and eliminated on the way. A row waits some 40
 * cycles for the one before, so that many lines must be under way at once. Of a point two numbers
 * last from the first sweep to the second: the factor p, in shared memory in the place of κ, and
 * s, the eliminated right side, in registers in the place of the number itself. A warp makes its
 * rows' equations while others eliminate. */
#pragma once

#include "gpu/cuda/adi_equation.cuh"

template <typename T, class Lines, bool CORNER> struct field_line : line_part<T, Lines> {
    typedef line_part<T, Lines> base;
    enum { ROWS = base::ROWS };
    using base::ask, base::at, base::begin, base::between, base::ends, base::enter, base::foresee;
    using base::foresee_base, base::has_last, base::is_kept, base::meet, base::n, base::number;
    using base::keep_numbers, base::numbers_of, base::part, base::place, base::rows, base::store;
    using base::take_kept, base::take_numbers, base::tile, base::wait, base::warp, base::warps,
        base::work, base::x;
    const struct adi *const adi;
    T *const tile_z;
    eliminated<T> row;
    T corner; /* the solution of the corner's column in the row after */

    __device__ __forceinline__ field_line(const solve_work<T> &of, int64_t block, bool reversed)
        : base(of, block, reversed), adi(&of.adi), tile_z(tile + of.tile), corner((T)0)
    {
    }

    static __device__ __forceinline__ int batches_of(int rows)
    {
        return (rows + DIVIDED - 1) / DIVIDED;
    }
    /* Work on so many batches of numbers, from the first row on, always in the same registers,
     * through which the numbers rotate: unrolled, the loop is no faster and too long for the cache
     * of instructions. work(row of the first, the batch, the number after it). */
    template <class Work> __device__ __forceinline__ void upwards(int batches, Work work)
    {
        auto once = [&](auto works, int b) {
            T some[DIVIDED];
#pragma unroll
            for (int v = 0; v < DIVIDED; v++)
                some[v] = number[v];
            const T next = number[DIVIDED];
#pragma unroll
            for (int j = 0; j + DIVIDED < ROWS; j++)
                number[j] = number[j + DIVIDED];
            if (decltype(works)::value)
                work(b * DIVIDED, some, next);
#pragma unroll
            for (int v = 0; v < DIVIDED; v++)
                number[ROWS - DIVIDED + v] = some[v];
        };
#pragma unroll 1
        for (int b = 0; b < batches; b++)
            once(std::true_type(), b);
#pragma unroll 1
        for (int b = batches; b < ROWS / DIVIDED; b++)
            once(std::false_type(), b);
    }
    /* The same downwards, without what has left the last registers. */
    __device__ __forceinline__ void sink()
    {
#pragma unroll
        for (int j = ROWS - 1; j >= DIVIDED; j--)
            number[j] = number[j - DIVIDED];
    }

    /* --- from warp to warp --- */

    __device__ __forceinline__ void hand_on() const
    {
        T *to = numbers_of(between(false), ON);
        to[0] = row.q;
        to[WARP] = row.above;
        to[2 * WARP] = row.y;
        if (CORNER)
            to[3 * WARP] = row.z;
        meet(between(false));
    }
    /* What was handed on to the warp; to its first row nothing, and 0 · −0 leaves the right side
     * as it is. */
    __device__ __forceinline__ void receive()
    {
        const T *from = numbers_of(between(true), ON);
        row = {(T)0, (T)0, (T)-0.0, (T)0, 0};
        if (begin > 0)
            row = {from[0], from[WARP], from[2 * WARP], CORNER ? from[3 * WARP] : (T)0, 0};
    }
    __device__ __forceinline__ void hand_back() const
    {
        T *to = numbers_of(between(true), BACK);
        to[0] = x;
        to[WARP] = corner;
        meet(between(true));
    }
    __device__ __forceinline__ void receive_back()
    {
        const T *from = numbers_of(between(false), BACK);
        meet(between(false));
        x = from[0];
        corner = from[WARP];
    }

    /* --- the equations --- */

    /* What lies beside the rows: the number and κ of the row before them, and of the row after. */
    struct beside {
        T before, k_before, after, k_after;
    };
    __device__ __forceinline__ beside look_beside() const
    {
        const int64_t i = at.own + begin * at.stride, end = at.own + (begin + rows) * at.stride;
        const bool precedes = at.solves && rows > 0 && begin > 0;
        const bool follows = at.solves && begin + rows < n;
        return {precedes ? work.read[i - at.stride] : (T)0, precedes ? work.k[i - at.stride] : (T)0,
                follows ? work.read[end] : (T)0, follows ? work.k[end] : (T)0};
    }
    __device__ __forceinline__ void take_source(int row, T (&source)[DIVIDED]) const
    {
        const T *from = (const T *)work.operands.at[OPERAND_SOURCE];
#pragma unroll
        for (int v = 0; v < DIVIDED; v++) {
            source[v] = (T)adi->source_value;
            if (is_sourced() && begin + row + v < n)
                source[v] = from[at.own + (begin + row + v) * at.stride];
        }
    }
    __device__ __forceinline__ bool is_sourced() const
    {
        return work.rated && work.axis == AXIS_Z && adi->source && at.solves;
    }
    /* The rows' numbers to registers and their κ to the tile, then in the place of these what is
     * above the diagonal, and in the place of those the right sides: the numbers, or their rates
     * along the line. */
    __device__ __forceinline__ void make_equations()
    {
        const T weight = (T)adi->axis[work.axis].weight, half = (T)0.5 * weight, dt = (T)adi->dt;
        ask(tile, work.read);
        const beside beside = look_beside();
        const bool held = is_held(work, at);
        if (begin == 0)
            make_end(work, at, SIDE_LOW, ends);
        if (has_last())
            make_end(work, at, SIDE_HIGH, ends);
        wait();
        take_numbers(beside.after);
        ask(tile, work.k);
        wait();
        T flux_below =
            rows > 0 ? (*place(tile, 0) + beside.k_before) * (number[0] - beside.before) : (T)0;
        upwards(batches_of(rows), [&](int j, T(&some)[DIVIDED], T following) {
            const bool ends = j + DIVIDED >= rows;
            T k[DIVIDED + 1], own[DIVIDED + 1], source[DIVIDED], above[DIVIDED];
            Lines::get(place(tile, j), above);
            take_source(j, source);
#pragma unroll
            for (int v = 0; v < DIVIDED; v++) {
                k[v] = above[v];
                own[v] = some[v];
            }
            k[DIVIDED] = ends ? beside.k_after : *place(tile, j + DIVIDED);
            own[DIVIDED] = ends && rows % DIVIDED == 0 ? beside.after : following;
#pragma unroll
            for (int v = 0; v < DIVIDED; v++) {
                const T sum = k[v + 1] + k[v], flux = sum * (own[v + 1] - own[v]);
                const T change = fused(weight, flux - flux_below, (T)0);
                const T right = work.axis == AXIS_Z ? fused(dt, source[v], change) : change;
                some[v] = !work.rated ? own[v] : held ? (T)0 : right;
                flux_below = flux;
                above[v] = half * sum;
            }
            Lines::put(place(tile, j), above);
        });
        __syncwarp();
    }

    /* --- the first sweep --- */

    /* DIVIDED rows from row i of the warp on, none of which is the line's last. */
    __device__ __forceinline__ void eliminate_batch(int i, T (&some)[DIVIDED])
    {
        const bool first = begin + i == 0;
        T above[DIVIDED], p[DIVIDED], z[DIVIDED];
        Lines::get(place(tile, i), above);
#pragma unroll
        for (int v = 0; v < DIVIDED; v++) {
            equation<T> of = {row.above, (T)1 + (row.above + above[v]), above[v], some[v], (T)0};
            if (v == 0 && first)
                of = low_end<CORNER>(ends);
            if (v == 1 && first) { /* the first row may have another number above the diagonal */
                of.below = above[0];
                of.diagonal = (T)1 + (above[0] + above[v]);
            }
            eliminate_row<CORNER, false>(row, of, some[v], p[v], z[v]);
        }
        Lines::put(place(tile, i), p);
        if (CORNER)
            Lines::put(place(tile_z, i), z);
    }
    /* The same with divisions, of as many as there are, in the warp's numbers. Rows of the batch
     * from the line's last on, whose solution is s, get what leaves a solution that passes them as
     * it is: p = 1 and s = −0. */
    __device__ __forceinline__ void eliminate_by_row(int first)
    {
        T *const some = numbers_of(warp, 0);
        T below = row.above;
#pragma unroll 1
        for (int v = 0; v < DIVIDED; v++) {
            T *const to_p = place(tile, first + v), above = *to_p;
            T s = (T)-0.0, p = (T)1, z = (T)-0.0;
            const int i = begin + first + v;
            if (i < n) {
                equation<T> of = {below, (T)1 + (below + above), above, some[v * WARP], (T)0};
                if (i == 0)
                    of = low_end<CORNER>(ends);
                if (i == n - 1)
                    of = high_end<CORNER>(ends);
                eliminate_row<CORNER, true>(row, of, s, p, z);
                below = above;
            }
            if (i == n - 1) {
                ends[AROUND * WARP] = x = s;
                ends[(AROUND + 1) * WARP] = corner = CORNER ? z : (T)0;
                s = z = (T)-0.0;
                p = (T)1;
            }
            some[v * WARP] = s;
            *to_p = p;
            if (CORNER)
                *place(tile_z, first + v) = z;
        }
    }
    /* The batches from the one with row i of the warp on. */
    __device__ __forceinline__ void eliminate_slowly(int i)
    {
        for (; i < rows; i += DIVIDED) {
#pragma unroll
            for (int j = 0; j < ROWS; j++)
                if (i == j / DIVIDED * DIVIDED)
                    numbers_of(warp, 0)[j % DIVIDED * WARP] = number[j];
            eliminate_by_row(i);
#pragma unroll
            for (int j = 0; j < ROWS; j++)
                if (i == j / DIVIDED * DIVIDED)
                    number[j] = numbers_of(warp, 0)[j % DIVIDED * WARP];
        }
    }
    __device__ __forceinline__ void eliminate_rows()
    {
        receive();
        const int inner = has_last() ? (rows - 1) / DIVIDED : batches_of(rows);
        upwards(inner, [&](int j, T(&some)[DIVIDED], T) { eliminate_batch(j, some); });
        int slow = inner * DIVIDED;
        if (__any_sync(~0u, at.solves && row.far >= NEAR)) {
            make_equations();
            receive();
            slow = 0;
        }
        eliminate_slowly(slow);
    }
    __device__ __forceinline__ void eliminate(int segment)
    {
        enter(segment);
        make_equations();
        if (begin > 0)
            meet(between(true));
        eliminate_rows();
        if (is_kept(segment) || part + 1 < warps)
            hand_on();
        foresee_base();
        if (segment == 0) {
            foresee(work.read);
            foresee(work.k);
        }
        if (is_kept(segment)) {
            store(tile, work.spare[0], nullptr);
            keep_numbers();
            if (CORNER)
                store(tile_z, work.spare[1], nullptr);
        }
    }

    /* --- the second sweep, and a periodic line's third --- */

    /* The last of the rows is the last of the registers. */
    __device__ __forceinline__ void substitute_rows()
    {
#pragma unroll 1
        for (int j = (batches_of(rows) - 1) * DIVIDED; j >= 0; j -= DIVIDED) {
            T f[DIVIDED], z[DIVIDED] = {};
            Lines::get(place(tile, j), f);
            if (CORNER)
                Lines::get(place(tile_z, j), z);
#pragma unroll
            for (int v = DIVIDED - 1; v >= 0; v--) {
                x = fused(f[v], x, number[ROWS - DIVIDED + v]);
                corner = CORNER ? fused(f[v], corner, z[v]) : (T)0;
                f[v] = x;
                z[v] = corner;
            }
            Lines::put(place(tile, j), f);
            if (CORNER)
                Lines::put(place(tile_z, j), z);
            sink();
        }
    }
    __device__ __forceinline__ void substitute(int segment)
    {
        enter(segment);
        if (is_kept(segment)) {
            take_kept();
            ask(tile, work.spare[0]);
            if (CORNER)
                ask(tile_z, work.spare[1]);
            wait();
        }
#pragma unroll 1
        for (int b = batches_of(rows); b < ROWS / DIVIDED; b++)
            sink();
        if (is_kept(segment) || part + 1 < warps)
            receive_back();
        if (has_last()) {
            x = ends[AROUND * WARP];
            corner = ends[(AROUND + 1) * WARP];
        }
        substitute_rows();
        if (begin > 0)
            hand_back();
        if (!CORNER) {
            store(tile, work.write, work.base);
        } else if (work.segments > 1) {
            store(tile, work.kept, nullptr);
            store(tile_z, work.spare[1], nullptr);
        }
    }
    /* What goes around the corner, of each line: by the warp that has the first row. */
    __device__ __forceinline__ void turn()
    {
        T *const around = ends + AROUND * WARP;
        __syncthreads();
        if (part == 0) {
            const T factor = ends[0] / ends[WARP];
            around[0] = fused(factor, around[0], x) / ((T)1 + fused(factor, around[WARP], corner));
            x = fused(-corner, around[0], x);
        }
        __syncthreads();
    }
    __device__ __forceinline__ void correct(int segment)
    {
        enter(segment);
        if (work.segments > 1) {
            ask(tile, work.kept);
            ask(tile_z, work.spare[1]);
            wait();
        }
        const T around = ends[AROUND * WARP];
        for (int i = 0; i < rows; i++)
            *place(tile, i) = fused(-*place(tile_z, i), around, *place(tile, i));
        store(tile, work.write, work.base);
    }
};

template <typename T, class Lines, bool CORNER>
static __global__ void __launch_bounds__(part_sizes<T>::WARPS *WARP,
                                         sizeof(T) == 4 && !CORNER ? 2 : 1)
    adi_field_kernel(const __grid_constant__ solve_work<T> work)
{
    bool reversed = false;
    for (int64_t block = blockIdx.x; block < work.blocks; block += gridDim.x) {
        field_line<T, Lines, CORNER> line(work, block, reversed);
        for (int segment = 0; segment < work.segments; segment++)
            line.eliminate(segment);
        for (int segment = work.segments - 1; segment >= 0; segment--)
            line.substitute(segment);
        if (CORNER) {
            line.turn();
            for (int segment = 0; segment < work.segments; segment++)
                line.correct(segment);
        }
        line.repeat();
        reversed = !reversed;
    }
}
