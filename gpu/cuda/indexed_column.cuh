/* A block of streaming_3d_indexed.cu: its shared memory, what its threads know of their points, and
 * how they copy planes. */
#pragma once

#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

template <typename T, int R, bool ALIGNED> struct indexed_column {
    enum {
        V = 16 / sizeof(T),
        ROWS = 2,  /* of a pack each that a thread computes of a plane */
        WARPS = 4, /* of a block, one beside another along y */
        /* Of a multiprocessor: while one's threads wait for each other, the other's sum. */
        BLOCKS = 2,
        STEPS = 3, /* from one turn of the queue to the next */
        AHEAD = 2, /* planes under way */
        RING = R + 1 + AHEAD,
        X = 32 * V,
        HALO = (R + V - 1) / V * V, /* along x: whole packs */
        LINE = 128 / sizeof(T),
        PITCH = X + LINE, /* a row's right side and the next one's left side fill a line */
        HEIGHT = WARPS * ROWS + 2 * R,
        PLANE = PITCH * HEIGHT,
        TAPS = (2 * R + V) / V * V /* room for 2R + 1 */
    };
    static_assert(2 * HALO <= LINE, "two sides fit in a line");
    using Row = std::remove_const_t<std::remove_pointer_t<decltype(table_row_at(0, 0, T()))>>;
    alignas(16) Row row_z[RING]; /* of the ring's planes */
    int32_t beyond[2 * R];       /* the sources of R planes before the march and R past the grid */
    alignas(16) T taps_y[WARPS][ROWS][TAPS];
    alignas(128) T ring[LINE + RING * PLANE]; /* before the first row a place for its left side */
    alignas(16) T stage[ALIGNED ? 1 : WARPS][ROWS][X]; /* what a warp stores, unless in packs */
};

template <typename T, int R> struct streaming_3d_indexed_shape : marched_grid {
    point_weights<T, R> weights;
    point_terms<T> terms;
    index_rows by_index;
};

/* What a thread knows of its points: a bit each, from these on. */
template <int V, int ROWS> struct point_bits {
    enum {
        FIRST_X = 0,          /* has the row along x of point v the first tap … */
        LAST_X = FIRST_X + V, /* … and the last one? */
        FIRST_Y = LAST_X + V, /* those along y of its row r? */
        LAST_Y = FIRST_Y + ROWS,
        OWN = LAST_Y + ROWS, /* is point v computed? */
        STORED = OWN + V     /* the point 32v from the warp's first on and the lane? */
    };
};

/* How a block's threads copy a plane: a warp every so many rows between the column's sides, a lane
 * every 32nd unit of them; and each thread some of what lies past the sides. Past the last point
 * that the column's points reach, that one again. */
template <typename T, int R, bool ALIGNED> struct plane_copies {
    using Column = indexed_column<T, R, ALIGNED>;
    enum {
        UNIT = ALIGNED ? (int)Column::V : 1,
        WARPS = Column::WARPS,
        THREADS = 32 * WARPS,
        COPIES_X = Column::V / UNIT,
        COPIES_Y = (Column::HEIGHT + WARPS - 1) / WARPS,
        SIDES = (2 * Column::HALO / UNIT * Column::HEIGHT + THREADS - 1) / THREADS
    };
    uint32_t inner_x[COPIES_X], inner_y[COPIES_Y], side[SIDES];
    int side_to[SIDES];

    __device__ __forceinline__ plane_copies(const streaming_3d_indexed_shape<T, R> &shape,
                                            int64_t x0, int64_t lowest)
    {
        constexpr int HALO = Column::HALO;
        const struct plan_axis *const axis = table[shape.slot].plan.axis;
        const int thread = threadIdx.x;
        auto from_x = [&](int i) {
            const int64_t at = min(x0 + i, shape.n + HALO - 1);
            return (uint32_t)(source(&axis[AXIS_X], at) / UNIT * UNIT);
        };
        auto from_y = [&](int row) {
            const int64_t at = min(lowest + row, shape.high[AXIS_Y] + R - 1);
            return (uint32_t)(source(&axis[AXIS_Y], at) * shape.n);
        };
#pragma unroll
        for (int j = 0; j < COPIES_X; j++)
            inner_x[j] = from_x((thread % 32 + j * 32) * UNIT);
#pragma unroll
        for (int j = 0; j < COPIES_Y; j++)
            inner_y[j] = from_y(thread / 32 + j * WARPS);
#pragma unroll
        for (int j = 0; j < SIDES; j++) {
            const int i = (thread + j * THREADS) * UNIT, row = i / (2 * HALO);
            const int at = i % (2 * HALO) - HALO, in_row = at < 0 ? at : at + Column::X;
            side[j] = from_x(in_row) + from_y(row);
            side_to[j] = row < Column::HEIGHT ? row * Column::PITCH + in_row : -1;
        }
    }
    /* Begin to copy the plane to one of the ring. */
    __device__ __forceinline__ void begin(T *to, const T *plane) const
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < COPIES_Y; i++)
            if (warp + i * WARPS < Column::HEIGHT)
#pragma unroll
                for (int j = 0; j < COPIES_X; j++)
                    __pipeline_memcpy_async(to + (warp + i * WARPS) * Column::PITCH +
                                                (lane + j * 32) * UNIT,
                                            plane + (inner_y[i] + inner_x[j]), UNIT * sizeof(T));
#pragma unroll
        for (int j = 0; j < SIDES; j++)
            if (side_to[j] >= 0)
                __pipeline_memcpy_async(to + side_to[j], plane + side[j], UNIT * sizeof(T));
    }
};
