/* The table of a plan of the engine PLAN_STENCIL: offsets and weights as the user gave them, and
 * what lies beyond each side. Made once from a job and its block, rounded once to the job's type;
 * the same bytes on the host and on a device. numerics/stencil_point.h evaluates a point by it,
 * docs/NUMERICS.md is the contract.
 *
 * A point all of whose reads find a field's own values is in the interior: it may be evaluated by
 * the distances alone. */
#pragma once

#include "numerics/plan.h"

__BEGIN_DECLS

enum { STENCIL_ROW = 8 }; /* points in the row of a ghost: the accuracy */

/* The ghosts of a side: the value at the distance 1 + m outside from the points at 0, 1, … from the
 * edge (none: it is the datum), and from the datum; `free`: of what is data itself, without one. */
struct stencil_ghosts {
    int32_t points, free_points; /* of `ghost`, of `free` */
    double ghost[JOB_STENCIL_RADIUS][STENCIL_ROW], data[JOB_STENCIL_RADIUS];
    double free[JOB_STENCIL_RADIUS][STENCIL_ROW];
    double face[STENCIL_ROW], face_data;
};

struct stencil_axis {
    int64_t n, stride;         /* points; elements between neighbours */
    int64_t face_points;       /* of an array over a face */
    int64_t low, high;         /* the interior: [low, high); may be empty */
    int32_t below, above;      /* how far offsets reach */
    int64_t apart[SIDE_COUNT]; /* points next to a side that are not of the interior */
    struct side side[SIDE_COUNT];
    struct stencil_ghosts ghosts[SIDE_COUNT];
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
    int32_t held, imposes; /* has any side held points? A value that nodes are read as? */
    uint64_t field_points; /* of one field of the batch */
    struct stencil_axis axis[AXIS_COUNT];
};

/* Make plan->table for a job that passed job_check(), and its block, which passed
 * job_check_block(), and set plan->radius. False: no memory. */
bool stencil_make(struct plan *plan, const struct job *job, const void *block);

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

__END_DECLS
