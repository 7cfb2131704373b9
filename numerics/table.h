/* The table of an operator's plan: which row of weights each point has along each
 * axis, and what is done with its sides. Made once from a job, rounded once to its type; the same
 * bytes on the host and on a device. numerics/table_point.h evaluates a point by it,
 * docs/NUMERICS.md is the contract.
 *
 * A pass computes, of every point that no side holds,
 *
 *   out = [base + ] L in
 *
 * where L is the operator with one of the table's sets of factors: for operators there is one, of
 * factor 1; "forward-euler" has one, of factor dt, with the identity folded into it (so that it
 * takes no base: out = in + dt L in); "rk4" four, dt/4, dt/3, dt/2 and dt, none
 * of which holds it. gpu/host/pass.c and gpu/cuda/passes.c choose the kernels of a pass.
 */
#pragma once

#include "numerics/plan.h"

__BEGIN_DECLS

enum {
    TABLE_POINTS = 14, /* in a row: order 4, accuracy 10 */
    TABLE_PAIRS = TABLE_POINTS / 2,
    TABLE_FACTORS = 4, /* sets of them: rk4 */
    TABLE_ROWS = 8,    /* kinds of rows along an axis */
    TABLE_RADIUS = 5,  /* of a centred second derivative: accuracy 10 */
    TABLE_ACROSS = 16  /* of ratios in such a one of div(k grad) */
};

/* Which derivatives along an axis the rows are of. */
enum table_use {
    TABLE_ROWS_OF_FACTORS, /* the operator's, one for each set of factors: + set. With a
                              coefficient half the second derivative's; centred ones of a uniform
                              axis are those of `across` */
    /* With a coefficient, beside a side with a datum: where the row above is TABLE_SPLIT. */
    TABLE_ROWS_SECOND = TABLE_FACTORS, /* of u, by 1 */
    TABLE_ROWS_FIRST,                  /* of u, by 1 */
    TABLE_ROWS_OF_K,                   /* of k: the first derivative, one-sided there */
    /* With a coefficient, next to sides whose map is even and whose datum flows in: of k, what the
     * datum counts, by 1. As many rows as points that have them; the last one is empty. */
    TABLE_ROWS_INFLOW = TABLE_FACTORS,
    /* Biharmonic: second derivatives along one axis, of which those along another one are taken. */
    TABLE_ROWS_INNER = TABLE_FACTORS,
    TABLE_ROWS_OUTER /* twice; one-sided where the side has a datum */
};

enum { TABLE_SPLIT = -1 }; /* a row's count: k u″ + k′ u′ in the place of its sum */

struct table_axis {
    int64_t n, stride; /* points; elements between neighbours */
    int64_t face_points;
    int64_t first, last; /* between them, both included, no value is imposed on a node */
    /* The box: from low to high − 1, along all axes, rows are centred, and read nothing that is
     * mapped, imposed or held. */
    int64_t low, high;
    struct side side[SIDE_COUNT];
    uint64_t face[SIDE_COUNT]; /* of MIXED_FACE: f at the face by the row there, as table_rows.at */
};

/* The rows of one kind along one axis: low + high + 1 of them. The point at index i has row i below
 * `low`, row low + (n − 1 − i) from n − high on, and the last one between. */
struct table_rows {
    uint64_t at; /* where the first one is: bytes from the table's first byte */
    int32_t low, high;
};

/* What is added to dt (L u) beside it: dt s. */
enum table_source { TABLE_SOURCE_NONE, TABLE_SOURCE_NUMBER, TABLE_SOURCE_FIELD };

/* What a point's result is. */
enum table_form {
    TABLE_FORM_PARTS, /* derivatives along one axis each, rounded alone, then added */
    TABLE_FORM_SUM,   /* of even derivatives along the active axes */
    TABLE_FORM_BIHARMONIC,
    TABLE_FORM_DIVERGENCE /* of k grad u */
};

/* The table's first bytes. All weights here are rounded to the dtype and held in double. */
struct table_header {
    int32_t dtype, operator_id; /* enum dtype, enum operator_id */
    int32_t form;               /* enum table_form */
    int32_t axes, axis; /* of space; the last active one, which is a derivative's only one */
    int32_t active;     /* bit a: there is a derivative along axis a */
    int32_t odd;        /* differences first: derivatives of order 1 and 3 */
    int32_t shift;      /* staggered: 1 forward, −1 backward */
    int32_t shared; /* all active axes have the same centred weights: their pairs are added first */
    int32_t identity; /* out = in + L in */
    int32_t conducts; /* bit a: with one, axis a has TABLE_ROWS_INFLOW */
    int32_t imposes;  /* operators: nodes read as the value that they state */
    int32_t halos;    /* has any side a halo? */
    int32_t inputs, outputs;
    int32_t source;  /* of a diffusion: enum table_source */
    uint64_t points; /* of one field of the batch */
    struct table_axis axis_of[AXIS_COUNT];
    struct table_rows rows[TABLE_ROWS][AXIS_COUNT];
    /* The weight of a point itself by the set (bit a) of active axes whose row is centred there. */
    double centre[TABLE_FACTORS][1 << AXIS_COUNT];
    double inner_centre[AXIS_COUNT], outer_centre[AXIS_COUNT];
    double factor[TABLE_FACTORS];
    double source_value;
    /* With a coefficient, on centred rows: between points m apart flows w[m − 1] × the difference
     * of u × (the sum of both k + Σ ratio × the sum of two other k). The ratios by m: m/2 of points
     * between those two, then radius − m of points beyond them, the nearest first. */
    double across[TABLE_ACROSS];
};

/* A row, once for each type. Of points first, first + step, …; or, where step is 0, the centred
 * one, of whose weights w[m − 1] is that of the pair of points m away. The point's own is in
 * `centre`. */
struct table_row_f32 {
    int64_t first;
    int32_t step, count;
    float w[TABLE_POINTS];
    float data[SIDE_COUNT]; /* of the sides' data */
};
struct table_row_f64 {
    int64_t first;
    int32_t step, count;
    double w[TABLE_POINTS];
    double data[SIDE_COUNT];
};

/* What comes out at held points. */
enum table_held {
    TABLE_STEP, /* a value; a halo's own old one (of base, where there is one) times its factor */
    TABLE_KEEP  /* a value; a halo's own old one */
};

/* One pass over a field, of the whole batch. out is no in; it may be base. Arrays by component; a
 * base goes with one in and one out alone. */
struct table_pass {
    const void *in[AXIS_COUNT];
    const void *base; /* NULL: none */
    void *out[AXIS_COUNT];
    const void *operand[OPERANDS]; /* by enum operand; NULL: the job has none such */
    int32_t set;                   /* of factors */
    int32_t held;                  /* enum table_held */
    int32_t impose; /* no evaluation: out = in, with the sides' values in their nodes */
};

/* Make it for a job that passed job_check(), and its block: plan->table, of one user, and what the
 * plan says of the box. False: no memory. */
bool table_make(struct plan *plan, const struct job *job, const void *block);

/* … and its first bytes. */
static inline const struct table_header *table_of(const struct plan *plan)
{
    return (const struct table_header *)plan_table_rows(plan->table);
}

/* The row r of one kind, in double; bytes: the table's first. Of float32 its count and weights
 * alone. */
struct table_row_f64 table_row(const struct table_header *table, const void *bytes,
                               const struct table_rows *rows, int64_t r);

/* Points on either side that rows of an axis with coordinates read where no side is near. */
int table_indexed_reach(const struct job *job);

/* Set the plan's members for kernels of centred stencils from its table; table_make() calls it. */
void table_to_plan(struct plan *plan, const struct job *job);

/* Which of an axis's rows of one kind the point at index i of n has. */
SIDE_FUNCTION int64_t table_row_number(const struct table_rows *rows, int64_t n, int64_t i)
{
    const int64_t d = n - 1 - i;
    return i < rows->low ? i : d < rows->high ? rows->low + d : rows->low + rows->high;
}

/* Part k of a component of a result of TABLE_FORM_PARTS: the derivative along which axis, of which
 * component of the input. False: it has no such part. Parts are added, but for a curl's second one,
 * which is subtracted. */
SIDE_FUNCTION bool table_part(const struct table_header *table, int component, int k, int *of,
                              int *along)
{
    /* Of a curl, the axes that follow this component's, round and round; that of a plane is along
     * z. */
    const int around = table->outputs == 1 ? AXIS_Z : component;
    const int next = (around + 1) % AXIS_COUNT, last = (around + 2) % AXIS_COUNT;
    *of = 0;
    *along = table->operator_id == OPERATOR_GRADIENT ? component : table->axis;
    if (table->operator_id == OPERATOR_DIVERGENCE) {
        *of = *along = k;
        return k < table->inputs;
    }
    if (table->operator_id == OPERATOR_CURL) {
        *of = k == 0 ? last : next;
        *along = k == 0 ? next : last;
        return k < 2;
    }
    return k < 1;
}

__END_DECLS
