/* A job → weights, maps and passes: all that the kernels of every backend read, computed once on
 * the CPU and rounded once, so that backends cannot differ. docs/NUMERICS.md is the contract. An
 * operator's points are evaluated by numerics/table_point.h, a user's stencil by
 * numerics/stencil_point.h and ADI by numerics/adi_point.h; every kernel gives their bits. */
#pragma once

#include "numerics/side.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum {
    PLAN_RADIUS = 4,     /* accuracy 8, orders 1 and 2 */
    PLAN_ROWS = 4,       /* points next to an edge that have a closure of their own */
    PLAN_ROW_POINTS = 10 /* points in a closure: accuracy + 2 */
};

enum plan_parity {
    PLAN_ODD, /* antisymmetric weights: first derivatives */
    PLAN_EVEN /* a sum over axes of symmetric weights: second derivatives, Laplacian, diffusion */
};

/* What is done with the derivatives along the active axes. */
enum plan_form {
    PLAN_SCALAR, /* odd: there is one; even: their sum */
    PLAN_GRADIENT,
    PLAN_DIVERGENCE,
    PLAN_CURL
};

struct plan_axis {
    int64_t n;
    int64_t stride;     /* elements between neighbours along this axis */
    int32_t active;     /* is there a derivative along it? */
    int32_t row_points; /* in each closure */
    struct side side[SIDE_COUNT];
    double c[PLAN_RADIUS + 1]; /* c[1 … radius]; c[0] is in plan.centre */
    /* Of the first row_points points, seen from the low edge; from the high edge they are counted
     * from there, and odd weights change their sign. */
    double row[PLAN_ROWS][PLAN_ROW_POINTS];
};

/* Which code evaluates a plan. */
enum plan_engine {
    PLAN_TABLE,   /* each point by its row of the table */
    PLAN_MEASURE, /* numerics/measure.h: of one array, of the distances of two, or of results */
    PLAN_ADI,     /* tridiagonal solves along each axis (numerics/adi.h) */
    PLAN_STENCIL  /* each point by the same offsets and weights: numerics/stencil_plan.h */
};

/* Rows of weights and whatever else is too much for a plan: bytes without pointers, in an order
 * that its engine knows, made once and never changed. */
struct plan_table {
    uint64_t serial; /* never used twice in a process: a device's copy is known by it */
    uint64_t bytes;
    /* bytes follow, at a multiple of 64: plan_table_rows() */
};

enum { PLAN_TABLE_ALIGN = 64 };

struct plan {
    int32_t parity; /* enum plan_parity */
    int32_t radius;
    int32_t shared; /* even: all active axes have the same c[1 … radius]: their pair sums are added
                       first */
    int32_t identity; /* even: u + … (a diffusion step): 1 is part of every centre */
    int32_t holds;    /* has any side held points? */
    int32_t impose;   /* pass 0 copies the input with values imposed; the steps follow */
    int32_t dtype;    /* enum dtype */
    int32_t form;     /* enum plan_form */
    int32_t inputs;   /* arrays that a pass reads: 1, or one for each axis of space */
    int32_t outputs;  /* … and writes */
    int32_t engine;   /* enum plan_engine */
    /* Of PLAN_TABLE, for kernels of centred stencils and their closures, each of which is the one
     * before, too. inner: the interior is a sum of centred rows, of `radius` pairs, beside what the
     * pass adds. simple: of no more than PLAN_RADIUS, and nothing is added; axis[].c and centre are
     * its weights. plain: what follows here tells all of all points, which may then be computed in
     * parts, and for several jobs at once. */
    int32_t inner, simple, plain;
    /* inner: bit a, axis a has coordinates, and each of its points a row of its own, which reads
     * `radius` points on either side at most. */
    int32_t indexed;
    int32_t staged;      /* scratch arrays of a scheme of several passes; 0: they go to and fro */
    int32_t scheme;      /* enum scheme; what each pass does of it: numerics/stage.h */
    int32_t step_passes; /* of one step */
    int32_t symmetric;   /* job_is_symmetric_split() */
    struct plan_table *table; /* NULL: there is nothing to be in it */
    uint64_t probes;          /* elements of the field that are kept after every step */
    uint64_t probes_at;       /* where the table has their places, int64_t[probes]: bytes */
    uint64_t batch;
    uint64_t lines;  /* rows along x in one pass: n[y] n[z] batch */
    uint64_t points; /* of one field of the batch: n[x] n[y] n[z] */
    uint64_t passes;
    struct plan_axis axis[AXIS_COUNT];
    double centre[1 << AXIS_COUNT]; /* even: the centre weight by the set (bit a) of active axes
                                       that use the centred stencil at the point; closures hold
                                       their own centre */
};

/* All weights are rounded to the job's dtype and stored as double, which holds both exactly.
 * The job must have passed job_check(); block: its job.more.block_bytes bytes, which passed
 * job_check_block(). False: no memory for the table. */
bool plan_init(struct plan *plan, const struct job *job, const void *block);
/* Is it one whose plan is `plain`? */
bool job_is_plain(const struct job *job);
/* Of a measure of so many points, from 1 up, of one array or of two: lines are its blocks, its
 * output is of plan_measure_bytes(). inputs 0: of so many results of blocks, with which its output
 * begins. */
void plan_init_measure(struct plan *plan, enum dtype dtype, uint64_t points, int inputs);
uint64_t plan_measure_bytes(const struct plan *plan);
/* Where plan_init() was true: free the table. */
void plan_release(struct plan *plan);

/* Of a point; of each of the job's arrays, the whole batch of it. */
uint64_t plan_element_bytes(const struct plan *plan);
uint64_t plan_array_bytes(const struct plan *plan);

/* A table of so many bytes, all 0: free() it. NULL: no memory. */
struct plan_table *plan_table_new(uint64_t bytes);
void *plan_table_rows(const struct plan_table *table);

__END_DECLS
