/* The table of a plan of the engine PLAN_STENCIL: offsets and weights as the user gave them, and
 * what lies beyond each side. Made once from a job and its block, rounded once to the job's type;
 * the same bytes on the host and on a device. numerics/stencil_point.h evaluates a point by it,
 * docs/NUMERICS.md is the contract.
 *
 * A point all of whose reads find a field's own values is in the interior: it may be evaluated by
 * the distances alone. */
#ifndef NUMERICS_STENCIL_PLAN_H
#define NUMERICS_STENCIL_PLAN_H

#include "numerics/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STENCIL_ROW = 8 }; /* points in the row of a ghost: the accuracy */

/* The number that a side gives to its ghosts. */
enum stencil_datum {
    STENCIL_DATUM_NONE,
    STENCIL_DATUM_NUMBER,     /* the side's value */
    STENCIL_DATUM_MIXED_NODE, /* constant − value × f at the edge node */
    STENCIL_DATUM_MIXED_FACE  /* constant − value × f at the face, by the row `face` */
};

struct stencil_side {
    int32_t map;                         /* enum side_map */
    int32_t claim, claim_scales;         /* as struct plan_side's */
    int32_t datum;                       /* enum stencil_datum */
    int32_t points;                      /* of `ghost` */
    int32_t face_points;                 /* of `face` */
    int32_t free_points;                 /* of `free` */
    int32_t value_array, constant_array; /* enum boundary_number */
    int32_t reserved;
    double value, constant; /* rounded to the dtype; where they are no array */
    /* The value at the distance 1 + m outside from the points at 0, 1, … from the edge, and from
     * the datum; `free`: of what is data itself, without one. */
    double ghost[JOB_STENCIL_RADIUS][STENCIL_ROW], data[JOB_STENCIL_RADIUS];
    double free[JOB_STENCIL_RADIUS][STENCIL_ROW];
    double face[STENCIL_ROW], face_data;
};

struct stencil_axis {
    int64_t n, stride;    /* points; elements between neighbours */
    int64_t face_points;  /* of an array over a face */
    int64_t low, high;    /* the interior: [low, high); may be empty */
    int32_t below, above; /* how far offsets reach */
    struct stencil_side side[SIDE_COUNT];
};

/* A term of the sum. */
struct stencil_tap {
    int64_t step; /* to the point that it reads: elements */
    union {
        float f32;
        double f64;
    } weight;
};

struct stencil_offset {
    int32_t at[AXIS_COUNT];
};

/* The table's first bytes; `points` taps and then as many offsets follow it. */
struct stencil_table {
    int32_t points;
    int32_t claims, holds; /* has any side a claim? One that nodes are read as? */
    int32_t reserved;
    uint64_t field_points; /* of one field of the batch */
    struct stencil_axis axis[AXIS_COUNT];
};

/* Make it for a job that passed job_check(), and its block, which passed job_check_block(). One
 * user. NULL: no memory. */
struct plan_table *stencil_table_new(const struct job *job, const void *block);

#ifdef __CUDACC__
#define STENCIL_FUNCTION static __host__ __device__ inline
#else
#define STENCIL_FUNCTION static inline
#endif

STENCIL_FUNCTION const struct stencil_tap *stencil_taps(const struct stencil_table *table)
{
    return (const struct stencil_tap *)(table + 1);
}

STENCIL_FUNCTION const struct stencil_offset *stencil_offsets(const struct stencil_table *table)
{
    return (const struct stencil_offset *)(stencil_taps(table) + table->points);
}

static inline const struct stencil_table *stencil_table_of(const struct plan_table *table)
{
    return (const struct stencil_table *)((const char *)table + PLAN_TABLE_ALIGN);
}

#ifdef __cplusplus
}
#endif
#endif
