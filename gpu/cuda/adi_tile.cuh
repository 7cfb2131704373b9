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
    BLOCKS_MOST = 32 /* of a multiprocessor */
};

/* Where κ is a field: warps of a block, and the rows that each has at most, so that two blocks
 * (float64: one) have room for them in the registers of a multiprocessor. */
template <typename T> struct field_sizes {
    enum { WARPS = sizeof(T) == 4 ? 6 : 8, ROWS = sizeof(T) == 4 ? 88 : 72 };
};

static __device__ __forceinline__ int lane()
{
    return (int)threadIdx.x % WARP;
}

template <typename T> struct solve_work {
    int64_t count, n, stride, length; /* lines; unknowns of one; elements along it, of all of it */
    int64_t blocks;                   /* of lines */
    int32_t slot, axis;
    int32_t rows, pitch; /* of a chunk; elements from line to line of a tile along x */
    int32_t base_slot;   /* the row of a tile from which on a chunk of a base has room */
    int32_t segments;    /* of lines, where κ is a field; then a chunk is what a warp has */
    int32_t tile;        /* elements of one */
    bool rated;
    const T *read, *base, *k;
    T *write, *kept, *spare[2]; /* kept: what does not stay in the block */
    struct operands operands;
    struct adi adi; /* where κ is a field: what lies in constant memory keeps no row waiting */
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

/* A thread's packs of a chunk: elements from the beginning of a tile and of an array, and from one
 * pack to the next. */
struct tile_part {
    int count, place, step;
    int64_t at, stride;
};

/* `count` packs of a tile, COUNT at most, `step` elements apart there and `stride` in device
 * memory, with those of a base added, if there is one, which are `base_step` apart. */
template <int COUNT, int V, bool BASED, typename T>
static __device__ __forceinline__ void store_packs(int count, const T *tile, int step,
                                                   const T *base, int64_t base_step, T *to,
                                                   int64_t stride)
{
    pack<T, V> own[COUNT] = {}, more[COUNT] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        if (k < count)
            own[k] = plain_pack<V>(tile + k * step);
        if (BASED && k < count)
            more[k] = plain_pack<V>(base + k * base_step);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++, to += stride) {
#pragma unroll
        for (int v = 0; v < V; v++)
            own[k].v[v] = BASED ? more[k].v[v] + own[k].v[v] : own[k].v[v];
        if (k < count)
            store_pack(to, own[k]);
    }
}

/* The same for as many as there are, COUNT at once. */
template <int COUNT, int V, typename T>
static __device__ __forceinline__ void store_all(int packs, const T *tile, int step, const T *base,
                                                 int64_t base_step, T *to, int64_t stride)
{
    auto all = [&](auto based) {
        const T *add = base;
        for (int k = 0; k < packs; k += COUNT) {
            if (k + COUNT <= packs)
                store_packs<COUNT, V, decltype(based)::value>(COUNT, tile, step, add, base_step, to,
                                                              stride);
            else
                store_packs<COUNT, V, decltype(based)::value>(packs - k, tile, step, add, base_step,
                                                              to, stride);
            tile += COUNT * step;
            to += COUNT * stride;
            add += decltype(based)::value ? COUNT * base_step : 0;
        }
    };
    if (base)
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
        STORED = TOGETHER < 4 ? 8 : WARP / TOGETHER
    };
    int64_t own, pack, stride;
    bool solves, copies;

    __device__ __forceinline__ across(const solve_work<T> &work, int64_t block)
    {
        const int64_t first = block * LINES;
        const int64_t copied = first + lane() % PACKS * V;
        solves = lane() < LINES && first + lane() < work.count;
        copies = copied < work.count;
        own = begin_of(work, first + lane() % LINES);
        pack = begin_of(work, copied);
        stride = work.stride;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + row * LINES + lane() % LINES;
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
                (row + i) * LINES + lane() % PACKS * V, TOGETHER * LINES,
                pack + (first + i) * stride, TOGETHER * stride};
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
    /* The rows of the tile, with those of a base added, if there is one: the same of an array, or
     * rows of the tile, to_base elements further. */
    __device__ __forceinline__ void store(const T *tile, int row, const T *base, T *to,
                                          int64_t first, int rows) const
    {
        const tile_part part = this->part(row, first, rows);
        store_all<STORED, V>(part.count, tile + part.place, part.step,
                             base ? base + part.at : nullptr, part.stride, to + part.at,
                             part.stride);
    }
    __device__ __forceinline__ void store(const T *tile, int row, int to_base, T *to, int64_t first,
                                          int rows) const
    {
        const tile_part part = this->part(row, first, rows);
        tile += part.place;
        store_all<STORED, V>(part.count, tile, part.step, to_base ? tile + to_base : nullptr,
                             part.step, to + part.at, part.stride);
    }
    /* Rows that are read soon. */
    __device__ __forceinline__ void foresee_rows(const T *of, int64_t first, int rows) const
    {
        if (copies)
            for (int i = lane(); i < rows; i += WARP)
                for (int j = 0; j < LINES; j += 128 / (int)sizeof(T))
                    prefetch_l2(of + pack + (first + i) * stride - lane() % PACKS * V + j);
    }
};

/* LINES lines along x, one after another in the tile. Where a thread has single rows of its line
 * (V is 1), these are an odd number of elements apart, so that the threads' rows lie in different
 * banks; where it has packs, these do. */
template <typename T, int LINES, int V> struct along {
    enum { COUNT = LINES, STEP = 1, WIDE = 16 / sizeof(T), ROWS = WARP, PACKS = ROWS / V };
    enum { STORED = 8, TOGETHER = WARP / PACKS };
    int64_t first, own, stride, length;
    int lines, pitch;
    bool solves;

    __device__ __forceinline__ along(const solve_work<T> &work, int64_t block)
    {
        first = block * LINES;
        lines = work.count - first < LINES ? (int)(work.count - first) : LINES;
        solves = lane() < lines;
        length = work.length;
        own = (first + lane() % LINES) * length;
        stride = 1;
        pitch = work.pitch;
    }
    __device__ __forceinline__ T *at(T *tile, int row) const
    {
        return tile + lane() % LINES * pitch + row;
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
        for (int i = 0; i < rows; i += ROWS) {
            const tile_part part = this->part(row + i, first + i, rows - i);
            T *to = tile + part.place;
            const T *f = from + part.at;
#pragma unroll 8
            for (int k = 0; k < part.count; k++, to += part.step, f += part.stride)
                __pipeline_memcpy_async(to, f, V * sizeof(T));
        }
    }
    __device__ __forceinline__ void store(const T *tile, int row, const T *base, T *to,
                                          int64_t first, int rows) const
    {
        for (int i = 0; i < rows; i += ROWS) {
            const tile_part part = this->part(row + i, first + i, rows - i);
            store_all<STORED, V>(part.count, tile + part.place, part.step,
                                 base ? base + part.at : nullptr, part.stride, to + part.at,
                                 part.stride);
        }
    }
    __device__ __forceinline__ void store(const T *tile, int row, int to_base, T *to, int64_t first,
                                          int rows) const
    {
        for (int i = 0; i < rows; i += ROWS) {
            const tile_part part = this->part(row + i, first + i, rows - i);
            const T *own = tile + part.place;
            store_all<STORED, V>(part.count, own, part.step, to_base ? own + to_base : nullptr,
                                 part.step, to + part.at, part.stride);
        }
    }
    __device__ __forceinline__ void foresee_rows(const T *of, int64_t first, int rows) const
    {
        enum { EACH = 128 / sizeof(T) }; /* and the line that the last of them is in */
        if (solves)
            for (int i = 0; i < rows + EACH - 1; i += EACH)
                prefetch_l2(of + own + first + min(i, rows - 1));
    }
};

extern __shared__ __align__(128) unsigned char shared_memory[];
