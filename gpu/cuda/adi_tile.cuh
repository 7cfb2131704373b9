/* What a solve works on: lines, and tiles in shared memory that parts of them are brought to. */
#pragma once

#include "gpu/cuda/adi.cuh"

#include <cuda_pipeline.h>
#include <type_traits>

enum { WARP = 32, DIVIDED = 8 /* rows of a batch: what they need is read before the first */ };

/* Warps of a block, and the rows that each has at most, so that two blocks (float64: one) have room
 * for them in the registers of a multiprocessor. */
template <typename T> struct part_sizes {
    enum { WARPS = sizeof(T) == 4 ? 6 : 8, ROWS = sizeof(T) == 4 ? 88 : 72 };
    enum { FACTORS = 4 * ROWS }; /* m, p, q and z, where κ is a number */
};

static __device__ __forceinline__ int lane()
{
    return (int)threadIdx.x % WARP;
}

template <typename T> struct solve_work {
    int64_t count, n, stride, length; /* lines; unknowns of one; elements along it, of all of it */
    int64_t blocks;                   /* of lines */
    int32_t slot, axis;
    int32_t rows, segments; /* of a warp, and how often it has so many of a line */
    int32_t tiles, tile;    /* in shared memory, and elements of one */
    int32_t pitch;          /* elements from line to line of a tile along x */
    bool rated;
    const T *read, *base, *k;
    T *write, *kept, *spare[2]; /* kept: what does not stay in the block */
    struct operands operands;
    struct adi adi; /* in constant memory it keeps no row waiting */
};

/* a / b, neither negative; of 32 bits it takes a fifth of the time. */
static __device__ __forceinline__ int64_t quotient(int64_t a, int64_t b)
{
    return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* The first element of a line. */
template <typename T>
static __device__ __forceinline__ int64_t begin_of(const solve_work<T> &work, int64_t line)
{
    const int64_t whole = quotient(line, work.stride);
    return whole * work.length + line - whole * work.stride;
}

/* A thread's packs of some rows: elements from the beginning of a tile and of an array, and from
 * one pack to the next. */
struct tile_part {
    int count, place, step;
    int64_t at, stride;
};

/* Begin to copy them to a tile. */
template <int V, typename T>
static __device__ __forceinline__ void load_part(const tile_part &part, T *tile, const T *from)
{
    tile += part.place;
    from += part.at;
#pragma unroll 8
    for (int k = 0; k < part.count; k++, tile += part.step, from += part.stride)
        __pipeline_memcpy_async(tile, from, V * sizeof(T));
}

/* Store `count` of them, COUNT at most, with those of a base added, if there is one. */
template <int COUNT, int V, typename T>
static __device__ __forceinline__ void store_some(int count, const tile_part &part, const T *tile,
                                                  const T *base, T *to)
{
    pack<T, V> own[COUNT] = {}, more[COUNT] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        if (k < count)
            own[k] = plain_pack<V>(tile + k * part.step);
        if (base && k < count)
            more[k] = plain_pack<V>(base + k * part.stride);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
#pragma unroll
        for (int v = 0; v < V; v++)
            own[k].v[v] = base ? more[k].v[v] + own[k].v[v] : own[k].v[v];
        if (k < count)
            store_pack(to + k * part.stride, own[k]);
    }
}

template <int V, typename T>
static __device__ __forceinline__ void store_part(const tile_part &part, const T *tile,
                                                  const T *base, T *to)
{
    enum { COUNT = 8 };
    tile += part.place;
    base += base ? part.at : 0;
    to += part.at;
    for (int left = part.count; left > 0; left -= COUNT) {
        if (left >= COUNT)
            store_some<COUNT, V>(COUNT, part, tile, base, to);
        else
            store_some<COUNT, V>(left, part, tile, base, to);
        tile += COUNT * part.step;
        base += base ? COUNT * part.stride : 0;
        to += COUNT * part.stride;
    }
}

/* Lines that lie side by side, as a tile with rows of as many elements; V of them, 16 bytes, are
 * copied at once where rows along x are whole packs. */
template <typename T, int V> struct across {
    enum { STEP = WARP, PACKS = WARP / V, TOGETHER = WARP / PACKS };
    int64_t own, pack, stride;
    bool solves, copies;

    __device__ __forceinline__ across(const solve_work<T> &work, int64_t block)
    {
        const int64_t first = block * WARP, copied = first + lane() % PACKS * V;
        solves = first + lane() < work.count;
        copies = copied < work.count;
        own = begin_of(work, first + lane());
        pack = begin_of(work, copied);
        stride = work.stride;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + row * WARP + lane();
    }
    /* N rows of a thread's line. */
    template <int N> static __device__ __forceinline__ void get(const T *x, T (&r)[N])
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            r[k] = x[k * STEP];
    }
    template <int N> static __device__ __forceinline__ void put(T *x, const T (&r)[N])
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k * STEP] = r[k];
    }
    __device__ __forceinline__ tile_part part(int row, int64_t first, int rows) const
    {
        const int i = lane() / PACKS;
        return {copies && i < rows ? (rows - i + TOGETHER - 1) / TOGETHER : 0,
                (row + i) * WARP + lane() % PACKS * V, TOGETHER * WARP, pack + (first + i) * stride,
                TOGETHER * stride};
    }
    /* Begin to copy rows from `first` of the lines on to rows of the tile, … */
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        load_part<V>(part(row, first, rows), tile, from);
    }
    /* … and store them, with a base. */
    __device__ __forceinline__ void store(const T *tile, int row, const T *base, T *to,
                                          int64_t first, int rows) const
    {
        store_part<V>(part(row, first, rows), tile, base, to);
    }
    /* Rows that are read soon. */
    __device__ __forceinline__ void foresee_rows(const T *of, int64_t first, int rows) const
    {
        if (copies)
            for (int i = lane(); i < rows; i += WARP)
                for (int j = 0; j < WARP; j += 128 / (int)sizeof(T))
                    prefetch_l2(of + pack + (first + i) * stride - lane() % PACKS * V + j);
    }
};

/* Lines along x, one after another in the tile, so far apart that the packs of threads lie in
 * different banks. */
template <typename T, int V> struct along {
    enum {
        STEP = 1,
        WIDE = 16 / sizeof(T),
        ROWS = WARP,
        PACKS = ROWS / V,
        TOGETHER = WARP / PACKS
    };
    int64_t first, own, stride, length;
    int lines, pitch;
    bool solves;

    __device__ __forceinline__ along(const solve_work<T> &work, int64_t block)
    {
        first = block * WARP;
        lines = work.count - first < WARP ? (int)(work.count - first) : (int)WARP;
        solves = lane() < lines;
        length = work.length;
        own = (first + lane()) * length;
        stride = 1;
        pitch = work.pitch;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + lane() * pitch + row;
    }
    template <int N> static __device__ __forceinline__ void get(const T *x, T (&r)[N])
    {
#pragma unroll
        for (int k = 0; k < N; k += WIDE) {
            const auto own = shared_pack(x + k);
#pragma unroll
            for (int v = 0; v < WIDE; v++)
                r[k + v] = own.v[v];
        }
    }
    template <int N> static __device__ __forceinline__ void put(T *x, const T (&r)[N])
    {
#pragma unroll
        for (int k = 0; k < N; k += WIDE) {
            pack<T, WIDE> own;
#pragma unroll
            for (int v = 0; v < WIDE; v++)
                own.v[v] = r[k + v];
            store_shared(x + k, own);
        }
    }
    /* Of ROWS rows at most. */
    __device__ __forceinline__ tile_part part(int row, int64_t from, int rows) const
    {
        const int line = lane() / PACKS, i = lane() % PACKS * V;
        return {line < lines && i < rows ? (lines - line + TOGETHER - 1) / TOGETHER : 0,
                line * pitch + row + i, TOGETHER * pitch, (first + line) * length + from + i,
                TOGETHER * length};
    }
    __device__ __forceinline__ void load(T *tile, int row, const T *from, int64_t first,
                                         int rows) const
    {
        for (int i = 0; i < rows; i += ROWS)
            load_part<V>(part(row + i, first + i, rows - i), tile, from);
    }
    __device__ __forceinline__ void store(const T *tile, int row, const T *base, T *to,
                                          int64_t first, int rows) const
    {
        for (int i = 0; i < rows; i += ROWS)
            store_part<V>(part(row + i, first + i, rows - i), tile, base, to);
    }
    __device__ __forceinline__ void foresee_rows(const T *of, int64_t first, int rows) const
    {
        enum { EACH = 128 / sizeof(T) }; /* and the line that the last of them is in */
        if (solves && rows > 0)
            for (int i = 0; i < rows + EACH - 1; i += EACH)
                prefetch_l2(of + own + first + min(i, rows - 1));
    }
};

extern __shared__ __align__(128) unsigned char shared_memory[];
