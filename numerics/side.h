/* A side of an axis as every engine sees it, made from a job in one place. Plain data, the same
 * bytes on the host and on a device. */
#pragma once

#include "numerics/job.h"

__BEGIN_DECLS

/* The number that a side gives to the rows next to it, or to its ghosts. */
enum side_datum {
    SIDE_DATUM_NONE,
    SIDE_DATUM_NUMBER,     /* the side's value */
    SIDE_DATUM_MIXED_NODE, /* constant − value × f at the edge node */
    SIDE_DATUM_MIXED_FACE  /* constant − value × f at the face */
};

/* One number, or an array over the face. */
struct side_number {
    double number;   /* rounded to the dtype */
    int32_t operand; /* enum operand: of the array; −1: it is `number` */
    int32_t batched; /* the array has the fields of the batch */
};

struct side {
    int32_t map; /* enum side_map */
    /* Points at the distance d < held from the edge need no row: the edge node, which holds the
     * side's value, or those of a halo, which are data and come out multiplied by it. */
    int32_t held, halo;
    int32_t datum; /* enum side_datum */
    int32_t rows;  /* of a plan: points d < rows have closures, of a plain one plan_axis.row[d] */
    int32_t apart; /* of a plan: d < apart are not in its interior */
    struct side_number value, constant;
};

/* All but `rows` and `apart`, of a job that passed job_check(). */
struct side side_of(const struct job *job, int axis, int side);

#ifdef __CUDACC__
#define SIDE_FUNCTION static __host__ __device__ __forceinline__
#else
#define SIDE_FUNCTION static inline
#endif

/* The index inside whose value stands for that of index j of a line of n points; *negative: with
 * its sign changed. Beyond a side that has ghosts there is none: it is an index outside. */
SIDE_FUNCTION int64_t side_image(const struct side side[SIDE_COUNT], int64_t n, int64_t j,
                                 int *negative)
{
    const int low = side[SIDE_LOW].map;
    *negative = 0;
    if (low == SIDE_MAP_PERIODIC || low == SIDE_MAP_ENDPOINT) {
        const int64_t period = low == SIDE_MAP_ENDPOINT ? n - 1 : n;
        j += j < 0 ? period : -period;
        if (j >= 0 && j < period)
            return j; /* mostly, and divisions are slow */
        j %= period;
        return j < 0 ? j + period : j;
    }
    if (n == 1 && low == SIDE_MAP_NODE && side[SIDE_HIGH].map == SIDE_MAP_NODE)
        return 0; /* its images never end, and all are the only point */
    while (j < 0 || j >= n) {
        const int s = j < 0 ? SIDE_LOW : SIDE_HIGH, map = side[s].map;
        if (map == SIDE_MAP_GHOST)
            return j;
        if (map == SIDE_MAP_NONE || map == SIDE_MAP_NEAREST)
            return s == SIDE_LOW ? 0 : n - 1;
        j = (s == SIDE_LOW ? 0 : 2 * (n - 1)) - j;
        if (map != SIDE_MAP_NODE && map != SIDE_MAP_ODD_NODE)
            j += s == SIDE_LOW ? -1 : 1;
        if (map >= SIDE_MAP_ANTISYMMETRIC)
            *negative = !*negative;
    }
    return j;
}

/* The array of a number for one field of the batch, `size` bytes an element; NULL: it has none.
 * operands: by enum operand. */
SIDE_FUNCTION const void *side_array(const struct side_number *number, const void *const *operands,
                                     int64_t field, int64_t face_points, int64_t size)
{
    if (number->operand < 0)
        return (const void *)0;
    return (const char *)operands[number->operand] + number->batched * field * face_points * size;
}

/* A point's element of an array over a face of the axis a. */
SIDE_FUNCTION int64_t side_element(int a, int64_t x, int64_t y, int64_t z, int64_t nx, int64_t ny)
{
    return a == AXIS_X ? z * ny + y : (a == AXIS_Y ? z : y) * nx + x;
}

__END_DECLS
