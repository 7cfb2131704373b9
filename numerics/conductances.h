/* The weights of (k u′)′ on centred rows of a uniform axis, where k is a field: what flows between
 * two points of an axis is a conductance, a sum of k around them, times the difference of their u.
 * As a matrix that is symmetric, and for no k ≥ 0 has it a positive eigenvalue; docs/NUMERICS.md,
 * "div(k grad u)". With coordinates that holds of rows of three points (weights_axis.conducts), in
 * the sum over the points times the lengths that are theirs. Pure arithmetic, safe on any thread.
 */
#pragma once

#include "numerics/weights.h"

enum { CONDUCTANCES_RADIUS = WEIGHTS_ACCURACY / 2 };

/* By r = accuracy/2: between a point i and i ± m flows Σ_l c[m − 1][r − m + l] k_{i±l} / under,
 * over h², times u_{i±m} − u_i; m = 1 … r, l = m − r … r. */
struct conductances {
    int32_t under, c[CONDUCTANCES_RADIUS][2 * CONDUCTANCES_RADIUS];
};

/* accuracy: 2, 4, … WEIGHTS_ACCURACY. */
const struct conductances *conductances_of(int accuracy);

/* What ∂n u = g at a WEIGHTS_EVEN side adds to (k u′)′ at the point at the distance d < accuracy/2
 * from the edge: g/h Σ_j w[j] k_j, over the points j = 0 … accuracy − 1 counted from the edge. It
 * is what mirrored rows miss of a function L of the slope g: (k L′)′, with k′ by the polynomial
 * through the accuracy/2 + 1 points at the edge, less what they make of L. At accuracy 2 all of it
 * goes to the edge's point: what flows in is g times k at the node, 2k₀ over h, or k at the face,
 * (3k₀ − k₁)/2 over h. With coordinates h is the distance of the two points at the edge. */
void conductances_inflow(int accuracy, bool at_face, int d, weights_real w[WEIGHTS_ACCURACY]);

/* A bound of the rates of an axis that conducts, over the largest k, whatever all others are: so
 * that forward Euler is stable for dt ≤ 2/(k·bound). Where all k are one it is at most a hundredth
 * over the largest rate. Infinity where numbers are out of range, or there are more points than
 * LIMIT_STABLE_COORDINATES. */
double conductances_bound(const struct weights_axis *axis);
