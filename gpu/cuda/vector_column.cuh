/* The tiles and planes of vector_operators.cu, and what its kernel is told. */
#pragma once

#include "gpu/cuda/vector_operators.cuh"

enum { ALONG_X = 1 << AXIS_X, ALONG_Y = 1 << AXIS_Y, ALONG_Z = 1 << AXIS_Z };

/* R: the radius, or one more than it. */
template <typename Real, int R_, int FORM, int AXES> struct vector_column {
    using T = Real;
    static constexpr int R = R_, INPUTS = FORM == PLAN_GRADIENT ? 1 : AXES;
    static constexpr int V = 16 / sizeof(T);
    /* Of a block, by measurement (bench/NOTES.md): as many threads as have registers for all that
     * they hold, since what is spilled costs half the speed. */
    static constexpr int WIDE = FORM == PLAN_GRADIENT ? 128 / V : FORM == PLAN_DIVERGENCE ? 32 : 16;
    static constexpr int HIGH = FORM == PLAN_GRADIENT ? 4 * V : FORM == PLAN_DIVERGENCE ? 8 : 12;
    static constexpr int THREADS = WIDE * HIGH;
    static constexpr int ROWS = FORM == PLAN_DIVERGENCE ? 2 : 1; /* packs of a plane, a thread */
    static constexpr int BLOCKS = FORM == PLAN_CURL ? 2 : 1;     /* on a multiprocessor */
    /* Planes on their way. One more lets blocks drift so far apart that what neighbours share has
     * left L2; of one alone its latency shows. */
    static constexpr int AHEAD = 2;
    static constexpr int X = WIDE * V, Y = HIGH * ROWS; /* points of a column in a plane */
    static constexpr int HALO = (R + V - 1) / V * V;    /* along x: whole packs */
    /* Do rows begin whole lines in shared memory, as in device memory, and what is left and right
     * of each lies behind all of them? Copies from one place in a sector to another read it twice,
     * but finding what is beside takes instructions. By measurement. */
    static constexpr bool LINES = FORM == PLAN_CURL && R <= 2;
    /* The axes that an input is differentiated along. */
    static constexpr int along(int input)
    {
        return FORM == PLAN_GRADIENT     ? (1 << AXES) - 1
               : FORM == PLAN_DIVERGENCE ? 1 << input
                                         : ((1 << AXES) - 1) & ~(1 << input);
    }
    /* Its planes in shared memory. */
    template <int I> struct tile {
        static constexpr int ALONG = along(I);
        static constexpr int SIDE_X = ALONG & ALONG_X ? HALO : 0, SIDE_Y = ALONG & ALONG_Y ? R : 0;
        /* Planes that it comes before it is the centre. */
        static constexpr int REACH = ALONG & ALONG_Z ? R : 0;
        static constexpr int PITCH = LINES ? X : X + 2 * SIDE_X, FIRST = LINES ? 0 : SIDE_X;
        static constexpr int ROWS_ALL = Y + 2 * SIDE_Y, SIDES = PITCH * ROWS_ALL;
        static constexpr int PLANE = (X + 2 * SIDE_X) * ROWS_ALL;
        static_assert(!LINES || (PITCH * sizeof(T) % 128 == 0 && PLANE * sizeof(T) % 128 == 0),
                      "whole lines");
        static constexpr int RING = AHEAD + 1 + (ALONG == ALONG_Z ? 0 : REACH);
        static constexpr int COPIES = (PLANE / V + THREADS - 1) / THREADS; /* of packs, a thread */
    };
    /* A block's shared memory: the rings, in elements from the first; then maps, and all in bytes.
     */
    static constexpr int BEGIN_1 = tile<0>::PLANE * tile<0>::RING;
    static constexpr int BEGIN_2 = BEGIN_1 + (INPUTS > 1 ? tile<1>::PLANE * tile<1>::RING : 0);
    static constexpr int POINTS = BEGIN_2 + (INPUTS > 2 ? tile<2>::PLANE * tile<2>::RING : 0);
    static constexpr int MAPS = X + 2 * HALO + Y + 2 * R;
    static constexpr int BYTES = POINTS * sizeof(T) + MAPS * sizeof(int64_t);
};

template <typename T> struct vector_shape : marched_grid {
    const T *in[AXIS_COUNT];
    T *out[AXIS_COUNT];
    bool whole;   /* the radius is R, not R − 1 */
    bool aligned; /* rows are whole packs, and so is what lies past their ends */
    T c[AXIS_COUNT][PLAN_RADIUS + 1];
};
