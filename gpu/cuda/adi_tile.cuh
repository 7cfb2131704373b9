/* What a block of a solve has: its lines, and tiles in shared memory that they are brought to. */
#pragma once

#include "gpu/cuda/adi.cuh"

#include <cuda_pipeline.h>

enum {
    WARP = 32,
    SLOTS = 8,       /* chunks of rows in the ring */
    LONG_ROWS = 64,  /* of a chunk, where not all chunks are in the ring */
    BATCH = 16,      /* rows whose loads are under way at once; chunks are multiples */
    DIVIDED = 8,     /* the same where each row has a division */
    STORED = 8,      /* rows, or lines, of a store with a base */
    BLOCKS_MOST = 32 /* of a multiprocessor */
};

template <typename T> struct solve_work {
    int64_t count, n, stride, length; /* lines; unknowns of one; elements along it, of all of it */
    int32_t slot, axis;
    int32_t rows, pitch; /* of a chunk; elements from line to line of a tile along x */
    int32_t size;        /* elements of a tile */
    bool rated;
    const T *read, *base, *k;
    T *write, *spare[2];
    struct operands operands;
};

/* The first element of a line. */
template <typename T>
static __device__ __forceinline__ int64_t begin_of(const solve_work<T> &work, int64_t line)
{
    return line / work.stride * work.length + line % work.stride;
}

/* LINES lines that lie side by side, as a tile with rows of as many elements; V of them, 16 bytes,
 * are copied at once where rows along x are whole packs. */
template <typename T, int LINES, int V> struct across {
    enum { COUNT = LINES, STEP = LINES, PACKS = LINES / V, TOGETHER = WARP / PACKS };
    int64_t own, pack, stride;
    bool solves, copies;

    __device__ __forceinline__ across(const solve_work<T> &work)
    {
        const int64_t first = (int64_t)blockIdx.x * LINES;
        const int64_t copied = first + threadIdx.x % PACKS * V;
        solves = threadIdx.x < LINES && first + threadIdx.x < work.count;
        copies = copied < work.count;
        own = begin_of(work, first + threadIdx.x % LINES);
        pack = begin_of(work, copied);
        stride = work.stride;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + row * LINES + threadIdx.x % LINES;
    }
    /* Begin to copy rows from `first` of the lines on to rows of the tile. */
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        const int lane = threadIdx.x % PACKS * V;
        if (copies)
#pragma unroll 8
            for (int i = threadIdx.x / PACKS; i < rows; i += TOGETHER)
                __pipeline_memcpy_async(tile + (row + i) * LINES + lane,
                                        from + pack + (first + i) * stride, V * sizeof(T));
    }
    /* The rows of the tile, with a base added. */
    __device__ __forceinline__ void store(const T *tile, int row, T *to, const T *base,
                                          int64_t first, int rows) const
    {
        const T *f = tile + row * LINES + threadIdx.x % LINES;
        const int64_t begin = own + first * stride;
        if (!solves)
            return;
        for (int i = 0; i < rows; i += STORED) {
            T x[STORED];
#pragma unroll
            for (int k = 0; k < STORED; k++)
                if (i + k < rows)
                    x[k] = base ? base[begin + (i + k) * stride] : (T)0;
#pragma unroll
            for (int k = 0; k < STORED; k++)
                if (i + k < rows)
                    to[begin + (i + k) * stride] =
                        base ? x[k] + f[(i + k) * LINES] : f[(i + k) * LINES];
        }
    }
};

/* LINES lines along x, one after another in the tile, an odd number of elements apart so that the
 * threads' rows lie in different banks. */
template <typename T, int LINES> struct along {
    enum { COUNT = LINES, STEP = 1 };
    int64_t own, stride, length;
    int lines, pitch;
    bool solves;

    __device__ __forceinline__ along(const solve_work<T> &work)
    {
        const int64_t first = (int64_t)blockIdx.x * LINES;
        lines = work.count - first < LINES ? (int)(work.count - first) : LINES;
        solves = threadIdx.x < lines;
        length = work.length;
        own = (first + threadIdx.x % LINES) * length;
        stride = 1;
        pitch = work.pitch;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + threadIdx.x % LINES * pitch + row;
    }
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        const T *f = from + (int64_t)blockIdx.x * LINES * length + first;
        for (int i = threadIdx.x; i < rows; i += WARP)
#pragma unroll 8
            for (int k = 0; k < lines; k++)
                __pipeline_memcpy_async(tile + k * pitch + row + i, f + k * length + i, sizeof(T));
    }
    __device__ __forceinline__ void store(const T *tile, int row, T *to, const T *base,
                                          int64_t first, int rows) const
    {
        const int64_t begin = (int64_t)blockIdx.x * LINES * length + first;
        for (int i = threadIdx.x; i < rows; i += WARP)
            for (int l = 0; l < lines; l += STORED) {
                T x[STORED];
#pragma unroll
                for (int k = 0; k < STORED; k++)
                    if (l + k < lines)
                        x[k] = base ? base[begin + (l + k) * length + i] : (T)0;
#pragma unroll
                for (int k = 0; k < STORED; k++)
                    if (l + k < lines) {
                        const T own = tile[(l + k) * pitch + row + i];
                        to[begin + (l + k) * length + i] = base ? x[k] + own : own;
                    }
            }
    }
};

extern __shared__ __align__(128) unsigned char shared_memory[];
