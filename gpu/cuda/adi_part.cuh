/* A block of a solve: its warps share 32 lines, of which each has some rows, in registers. They
 * hand the elimination on, one to the next, and the substitution back. Blocks stay, and take other
 * lines; what a warp waits for, others' rows hide. Lines with more rows than the warps have are
 * solved in segments, which pass through device memory between the sweeps. */
#pragma once

#include "gpu/cuda/adi_tile.cuh"
#include "gpu/cuda/barrier.cuh"

/* Numbers of each line in shared memory. Of each warp: those of a batch, what it and the warp after
 * it hand on to each other, and what they hand back. From `ends` on: the equations of the ends, and
 * what goes around the corner. */
enum { ON = DIVIDED, BACK = ON + 4, NUMBERS = BACK + 2 };
enum { END_NUMBERS = 4, AROUND = 2 * END_NUMBERS, ENDS = AROUND + 2 };

/* A thread's line, and the rows of it that its warp has. */
template <typename T, class Lines> struct line_part {
    enum { ROWS = part_sizes<T>::ROWS };
    const solve_work<T> &work;
    const int64_t block;
    const Lines at;
    /* Lines are solved from the first warp on, the next from the last on, which has solved the end
     * of those before: it is the first that is free. */
    const bool reversed;
    const int n, warp, warps, part;
    T *const tile, *const numbers, *const ends; /* the last: of the line */
    int begin, rows;                            /* those of the warp, in the present segment */
    T number[ROWS];                             /* of these: the right side, then s */
    T x;                                        /* the solution in the row after */

    __device__ __forceinline__ line_part(const solve_work<T> &of, int64_t block, bool reversed)
        : work(of), block(block), at(of, block), reversed(reversed), n((int)of.n),
          warp((int)threadIdx.x / WARP), warps((int)blockDim.x / WARP),
          part(reversed ? warps - 1 - warp : warp), tile((T *)shared_memory),
          numbers(tile + of.tiles * of.tile), ends(numbers + warps * NUMBERS * WARP + lane()),
          x((T)0)
    {
    }

    __device__ __forceinline__ void enter(int segment)
    {
        begin = (segment * warps + part) * work.rows;
        rows = max(0, min(n - begin, work.rows));
    }
    __device__ __forceinline__ bool is_kept(int segment) const
    {
        return segment + 1 < work.segments;
    }
    __device__ __forceinline__ bool has_last() const
    {
        return begin < n && begin + rows == n;
    }
    __device__ __forceinline__ T *place(T *of, int i) const
    {
        return at.at(of, warp * work.rows + i);
    }
    __device__ __forceinline__ void ask(T *to, const T *from) const
    {
        __syncwarp();
        at.load(to, warp * work.rows, from, begin, rows);
        __pipeline_commit();
    }
    __device__ __forceinline__ void wait() const
    {
        __pipeline_wait_prior(0);
        __syncwarp();
    }
    __device__ __forceinline__ void store(const T *from, T *to, const T *base) const
    {
        __syncwarp();
        at.store(from, warp * work.rows, base, to, begin, rows);
        __syncwarp();
    }

    /* The rows' numbers to registers; after: those of the rows after the last. */
    __device__ __forceinline__ void take_numbers(T after)
    {
#pragma unroll
        for (int j = 0; j < ROWS; j += DIVIDED) {
            T some[DIVIDED];
#pragma unroll
            for (int v = 0; v < DIVIDED; v++)
                some[v] = after;
            if (j < rows)
                Lines::get(place(tile, j), some);
#pragma unroll
            for (int v = 0; v < DIVIDED; v++)
                number[j + v] = some[v];
        }
    }
    __device__ __forceinline__ void put_numbers() const
    {
#pragma unroll
        for (int j = 0; j < ROWS; j += DIVIDED) {
            T some[DIVIDED];
#pragma unroll
            for (int v = 0; v < DIVIDED; v++)
                some[v] = number[j + v];
            if (j < rows)
                Lines::put(place(tile, j), some);
        }
    }
    /* Through the tile to where the numbers are kept between the sweeps, and back. */
    __device__ __forceinline__ void keep_numbers() const
    {
        put_numbers();
        store(tile, work.kept, nullptr);
    }
    __device__ __forceinline__ void take_kept()
    {
        ask(tile, work.kept);
        wait();
        take_numbers((T)0);
    }
    /* What the warp needs of the base, and of an array of the lines that come next, while others
     * eliminate. */
    __device__ __forceinline__ void foresee_base() const
    {
        if (work.base)
            at.foresee_rows(work.base, begin, rows);
    }
    __device__ __forceinline__ void foresee(const T *array) const
    {
        if (block + gridDim.x >= work.blocks)
            return;
        const int first = (warps - 1 - part) * work.rows;
        Lines(work, block + gridDim.x).foresee_rows(array, first, min(n - first, work.rows));
    }

    /* --- from warp to warp --- */

    __device__ __forceinline__ T *numbers_of(int warp, int which) const
    {
        return numbers + (warp * NUMBERS + which) * WARP + lane();
    }
    /* The warp whose numbers pass between the warps of a part and of the one before it, or after:
     * the lower one, of the last part and the first one the last. */
    __device__ __forceinline__ int between(int before) const
    {
        const int low = before != reversed ? warp - 1 : warp;
        return low < 0 ? warps - 1 : low;
    }
    /* Until both have come there. */
    __device__ __forceinline__ void meet(int between) const
    {
        if (warps > 1)
            barrier_wait(1 + between, 2 * WARP);
    }
    /* The last point of an axis whose ends are one point. */
    __device__ __forceinline__ void repeat() const
    {
        const int64_t to = at.own + n * at.stride;
        if (work.adi.axis[work.axis].lines.repeats && at.solves && part == 0)
            work.write[to] = work.base ? work.base[to] + x : x;
    }
};
