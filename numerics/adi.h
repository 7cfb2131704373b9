/* The table of a plan of the engine PLAN_ADI: an increment δ of a diffusion step, by Crank–Nicolson
 * split by axes, so that each solve has three diagonals (Peaceman and Rachford, J. SIAM 3 (1955)
 * 28; Douglas and Gunn, Numer. Math. 6 (1964) 428):
 *
 *   (1 − dt/2 A_x) (1 − dt/2 A_y) (1 − dt/2 A_z) δ = dt (A u + s),   u + δ
 *
 * A is the second derivative of accuracy 2, the same on both sides; data of boundaries and s stand
 * on the right alone. In space with a field κ, where the factors do not commute and this form
 * grows, a step is symmetric: a Crank–Nicolson step along x alone over dt/2, along y, along z over
 * dt with s, along y, along x (Strang, SIAM J. Numer. Anal. 5 (1968) 506). Each is a contraction in
 * the one norm in which all A_a are symmetric, so that no dt and no κ ≥ 0 makes it grow.
 *
 * numerics/adi_point.h evaluates it, for the host and devices; docs/NUMERICS.md is the contract. */
#pragma once

#include "numerics/side.h"
#include "numerics/subdomain.h"
#include "numerics/tridiagonal.h"

__BEGIN_DECLS

enum { LINES_TOGETHER = 8 }; /* lines that are swept at once in registers */

/* dt A u = next (f_inner − f) + own f + datum g at the edge's point of a side that neither holds
 * it, so that its δ is 0, nor is periodic. g is the side's value, of a mixed one its constant. */
struct adi_edge {
    double next, own, datum;
};

struct adi_axis {
    int64_t n, stride;
    int64_t face_points;
    int32_t active; /* 0: one point, which has no neighbour */
    int32_t periodic;
    /* κ τ/h². With a field κ: τ/(2 h²), half of it for each of the two points. τ is the time that a
     * factor of the axis goes on: dt, where the step is symmetric dt/2 along x and y. */
    double weight;
    struct side side[SIDE_COUNT];
    struct adi_edge edge[SIDE_COUNT];
    struct tridiagonal lines; /* where κ is a number, with a table */
};

/* The table's first bytes. All numbers are rounded to the dtype. With a field κ the weights of rows
 * are those of its values, κ_i + κ_inner for `next`. */
struct adi {
    int32_t coefficient; /* κ is OPERAND_COEFFICIENT */
    int32_t source;      /* 1: s is OPERAND_SOURCE; 0: it is source_value */
    uint64_t points;     /* of one field of the batch */
    double dt, source_value;
    struct adi_axis axis[AXIS_COUNT];
};

#ifdef __CUDACC__
#define ADI_FUNCTION static __host__ __device__ inline
#else
#define ADI_FUNCTION static inline
#endif

/* Has the point i of the axis the row of an edge? Its side; −1: it has none. */
ADI_FUNCTION int adi_edge_of(const struct adi_axis *axis, int64_t i)
{
    const int side = i == 0 ? SIDE_LOW : SIDE_HIGH;
    const bool is_edge = i == 0 || i == axis->n - 1;
    return is_edge && !axis->periodic && !axis->side[side].held ? side : -1;
}

/* A leg's sweep ends before this row: an end point is no unknown. */
ADI_FUNCTION int64_t adi_leg_end(const struct adi_axis *axis, const struct leg *leg)
{
    return (int64_t)leg->end < axis->lines.n ? (int64_t)leg->end : axis->lines.n;
}

/* Make plan->table for a job that passed job_check(). False: no memory. */
bool adi_make(struct plan *plan, const struct job *job);

__END_DECLS
