/* The weights of (k u′)′ on centred rows of a uniform axis, where k is a field: what flows between
 * two points of an axis is a conductance, a sum of k around them, times the difference of their u.
 * As a matrix that is symmetric, and for no k ≥ 0 has it a positive eigenvalue; docs/NUMERICS.md,
 * "div(k grad u)". Pure arithmetic, safe on any thread. */
#ifndef PROTOCOL_CONDUCTANCES_H
#define PROTOCOL_CONDUCTANCES_H

#include "protocol/rows.h"

enum { CONDUCTANCES_RADIUS = ROWS_ACCURACY / 2 };

/* By r = accuracy/2: between a point i and i ± m flows Σ_l c[m − 1][r − m + l] k_{i±l} / under,
 * over h², times u_{i±m} − u_i; m = 1 … r, l = m − r … r. */
struct conductances {
    int32_t under, c[CONDUCTANCES_RADIUS][2 * CONDUCTANCES_RADIUS];
};

/* accuracy: 2, 4, … ROWS_ACCURACY. */
const struct conductances *conductances_of(int accuracy);

/* What ∂n u = g at a ROWS_EVEN side adds to (k u′)′ at the point at the distance d < accuracy/2
 * from the edge: g/h Σ_j w[j] k_j, over the points j = 0 … accuracy − 1 counted from the edge. It
 * is what mirrored rows miss of a function L of the slope g: (k L′)′, with k′ by the polynomial
 * through the accuracy/2 + 1 points at the edge, less what they make of L. At accuracy 2 all of it
 * goes to the edge's point: what flows in is g times k at the node, 2k₀ over h, or k at the face,
 * (3k₀ − k₁)/2 over h. */
void conductances_inflow(int accuracy, bool at_face, int d, rows_real w[ROWS_ACCURACY]);

#endif
