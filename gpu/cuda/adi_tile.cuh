/* What a block of a solve has: its lines, and tiles in shared memory that they are brought to. */
#pragma once

#include "gpu/cuda/adi.cuh"

#include <cuda_pipeline.h>
#include <type_traits>

enum {
    WARP = 32,
    SLOTS = 8,       /* chunks of rows in the ring */
    LONG_ROWS = 64,  /* of a chunk, where not all chunks are in the ring */
    BATCH = 16,      /* rows whose loads are under way at once; chunks are multiples of a warp */
    DIVIDED = 8,     /* the same where each row has a division */
    FIELD_ROWS = 16, /* of a chunk where κ is a field */
    FIELD_SLOTS = 4,
    BLOCKS_MOST = 32 /* of a multiprocessor */
};

template <typename T> struct solve_work {
    int64_t count, n, stride, length; /* lines; unknowns of one; elements along it, of all of it */
    int32_t slot, axis;
    int32_t rows, pitch; /* of a chunk; elements from line to line of a tile along x */
    int32_t base_slot;   /* the row of a tile from which on a chunk of a base has room */
    bool rated;
    const T *read, *base, *k;
    T *write, *kept, *spare[2]; /* kept: what does not stay in the ring */
    struct operands operands;
};

/* The first element of a line. */
template <typename T>
static __device__ __forceinline__ int64_t begin_of(const solve_work<T> &work, int64_t line)
{
    return line / work.stride * work.length + line % work.stride;
}

/* A thread's packs of a chunk: elements from the beginning of a tile and of an array, and from one
 * pack to the next. */
struct tile_part {
    int count, place, step;
    int64_t at, stride;
};

/* COUNT packs of a tile, `step` elements apart there and `stride` in device memory, with what lies
 * to_base elements further added. */
template <int COUNT, int V, bool BASED, typename T>
static __device__ __forceinline__ void store_packs(const T *tile, int step, int to_base, T *to,
                                                   int64_t stride)
{
    pack<T, V> own[COUNT], more[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        own[k] = plain_pack<V>(tile + k * step);
        if (BASED)
            more[k] = plain_pack<V>(tile + to_base + k * step);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++, to += stride) {
#pragma unroll
        for (int v = 0; v < V; v++)
            own[k].v[v] = BASED ? more[k].v[v] + own[k].v[v] : own[k].v[v];
        store_pack(to, own[k]);
    }
}

/* The same for as many as there are, COUNT at once; to_base 0: no base. */
template <int COUNT, int V, typename T>
static __device__ __forceinline__ void store_all(int packs, const T *tile, int step, int to_base,
                                                 T *to, int64_t stride)
{
    auto all = [&](auto based) {
        constexpr bool BASED = decltype(based)::value;
        int k = 0;
        for (; k + COUNT <= packs; k += COUNT, tile += COUNT * step, to += COUNT * stride)
            store_packs<COUNT, V, BASED>(tile, step, to_base, to, stride);
        for (; k < packs; k++, tile += step, to += stride)
            store_packs<1, V, BASED>(tile, step, to_base, to, stride);
    };
    if (to_base)
        all(std::true_type());
    else
        all(std::false_type());
}

/* LINES lines that lie side by side, as a tile with rows of as many elements; V of them, 16 bytes,
 * are copied at once where rows along x are whole packs. */
template <typename T, int LINES, int V> struct across {
    enum {
        COUNT = LINES,
        STEP = LINES,
        PACKS = LINES / V,
        TOGETHER = WARP / PACKS,
        STORED = TOGETHER < 4 ? 8 : WARP / TOGETHER,
        WIDTH = V,
        EACH = FIELD_ROWS / TOGETHER
    };
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
    /* BATCH rows of a thread's line. */
    static __device__ __forceinline__ void get(const T *x, T (&r)[BATCH])
    {
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            r[k] = x[k * STEP];
    }
    static __device__ __forceinline__ void put(T *x, const T (&r)[BATCH])
    {
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            x[k * STEP] = r[k];
    }
    __device__ __forceinline__ tile_part part(int row, int64_t first, int rows) const
    {
        const int lane = threadIdx.x % PACKS * V, i = threadIdx.x / PACKS;
        return {copies && i < rows ? (rows - i + TOGETHER - 1) / TOGETHER : 0,
                (row + i) * LINES + lane, TOGETHER * LINES, pack + (first + i) * stride,
                TOGETHER * stride};
    }
    /* Begin to copy rows from `first` of the lines on to rows of the tile. */
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        const tile_part part = this->part(row, first, rows);
        tile += part.place;
        from += part.at;
#pragma unroll 8
        for (int k = 0; k < part.count; k++, tile += part.step, from += part.stride)
            __pipeline_memcpy_async(tile, from, V * sizeof(T));
    }
    /* The rows of the tile, with what lies to_base elements further added, unless that is 0. */
    __device__ __forceinline__ void store(const T *tile, int row, int to_base, T *to, int64_t first,
                                          int rows) const
    {
        const tile_part part = this->part(row, first, rows);
        store_all<STORED, V>(part.count, tile + part.place, part.step, to_base, to + part.at,
                             part.stride);
    }
    /* Rows of a base that store() is to read. */
    __device__ __forceinline__ void foresee_rows(const T *base, int64_t first, int rows) const
    {
        if (copies)
            for (int i = threadIdx.x; i < rows; i += WARP)
                prefetch_l2(base + pack + (first + i) * stride - threadIdx.x % PACKS * V);
    }
};

/* LINES lines along x, one after another in the tile. Where a thread has single rows of its line
 * (V is 1), these are an odd number of elements apart, so that the threads' rows lie in different
 * banks; where it has packs, these do. */
template <typename T, int LINES, int V, int ROWS = WARP> struct along {
    enum { COUNT = LINES, STEP = 1, WIDE = 16 / sizeof(T), PACKS = ROWS / V, STORED = 8 };
    enum { WIDTH = V, TOGETHER = WARP / PACKS, EACH = LINES / TOGETHER };
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
    static __device__ __forceinline__ void get(const T *x, T (&r)[BATCH])
    {
#pragma unroll
        for (int k = 0; k < BATCH; k += WIDE) {
            const auto own = shared_pack(x + k);
#pragma unroll
            for (int v = 0; v < WIDE; v++)
                r[k + v] = own.v[v];
        }
    }
    static __device__ __forceinline__ void put(T *x, const T (&r)[BATCH])
    {
#pragma unroll
        for (int k = 0; k < BATCH; k += WIDE) {
            pack<T, WIDE> own;
#pragma unroll
            for (int v = 0; v < WIDE; v++)
                own.v[v] = r[k + v];
            store_shared(x + k, own);
        }
    }
    /* Of ROWS rows at most. */
    __device__ __forceinline__ tile_part part(int row, int64_t first, int rows) const
    {
        const int line = threadIdx.x / PACKS, i = threadIdx.x % PACKS * V;
        return {line < lines && i < rows ? (lines - line + TOGETHER - 1) / TOGETHER : 0,
                line * pitch + row + i, TOGETHER * pitch,
                ((int64_t)blockIdx.x * LINES + line) * length + first + i, TOGETHER * length};
    }
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        for (int i = 0; i < rows; i += ROWS) {
            const tile_part part = this->part(row + i, first + i, rows - i);
            T *to = tile + part.place;
            const T *f = from + part.at;
#pragma unroll 8
            for (int k = 0; k < part.count; k++, to += part.step, f += part.stride)
                __pipeline_memcpy_async(to, f, V * sizeof(T));
        }
    }
    __device__ __forceinline__ void store(const T *tile, int row, int to_base, T *to, int64_t first,
                                          int rows) const
    {
        for (int i = 0; i < rows; i += ROWS) {
            const tile_part part = this->part(row + i, first + i, rows - i);
            store_all<STORED, V>(part.count, tile + part.place, part.step, to_base, to + part.at,
                                 part.stride);
        }
    }
    __device__ __forceinline__ void foresee_rows(const T *base, int64_t first, int rows) const
    {
        if (solves)
            for (int i = 0; i < rows; i += 128 / sizeof(T))
                prefetch_l2(base + own + first + i);
    }
};

extern __shared__ __align__(128) unsigned char shared_memory[];
