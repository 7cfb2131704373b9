/* The row of weights that a point of an axis has for a derivative along it: which points, and what
 * each counts, at any order, accuracy, boundary and spacing. Pure arithmetic, the same on every
 * machine, safe on any thread; docs/NUMERICS.md is the contract for what is done with a row.
 *
 * The weights are those of the polynomial through the row's points (and its datum, where a boundary
 * states one), differentiated at the point (numerics/lagrange.h). On a uniform axis these are
 * quotients of integers below 2^113 and rounded once; with coordinates they are good to about 1e-30
 * of the row's largest. Then they are scaled by the spacing in the same arithmetic. The caller
 * rounds to the field's type. */
#pragma once

#include "numerics/job.h"
#include "numerics/lagrange.h"

enum {
    WEIGHTS_ORDER = LAGRANGE_ORDER,   /* highest derivative */
    WEIGHTS_ACCURACY = 10,            /* 2, 4, 6, 8; 10 for the estimate of the error of 8 */
    WEIGHTS_POINTS = LAGRANGE_POINTS, /* points in a row: order + accuracy */
    WEIGHTS_EDGE = 32 /* points at each edge that weights_bound() looks at together */
};

/* What a side gives to the rows next to it. ∂n is the derivative along the outward normal; h the
 * spacing there. */
enum weights_kind {
    /* Indices outside are brought back by weights_map(); the rows are the centred ones. */
    WEIGHTS_PERIODIC,  /* f(i) = f(i mod n). Both sides or none */
    WEIGHTS_ENDPOINT,  /* … mod (n − 1): the last point repeats the first. Both sides or none */
    WEIGHTS_SYMMETRIC, /* about the face half a cell outside: NumPy's pad "symmetric" */
    WEIGHTS_MIRROR,    /* about the edge node: NumPy's pad "reflect" */
    WEIGHTS_ANTISYMMETRIC, /* −f about the face half a cell outside */
    WEIGHTS_REFLECT, /* ∂n f = g, and all further odd derivatives 0: the mirror image about the node
                     (or the face), and twice the distance to it × g. Uniform axes only */
    /* Of (k f′)′, k a field that is continued evenly (numerics/conductances.h). With coordinates
     * only where the axis conducts. */
    WEIGHTS_ODD,  /* f = g: 2g − the image about the node (or the face) */
    WEIGHTS_EVEN, /* ∂n f = g: the image about the node (or the face); what g adds is
                  conductances_inflow(). A mixed boundary at accuracy 2 */
    /* Rows of their own, whose points are all inside. */
    WEIGHTS_ONE_SIDED,  /* nothing: order + accuracy points at the edge */
    WEIGHTS_VALUE,      /* f = g. At the node it is the node's own: the same points */
    WEIGHTS_DERIVATIVE, /* ∂n f = g. A mixed boundary too: see weights_face() */
    WEIGHTS_CURVATURE,  /* ∂n² f = g */
    /* No rows: the outermost weights_radius() points are data. */
    WEIGHTS_HALO,
    /* What stencils read beyond a side; rows of weights do not take these. */
    WEIGHTS_NEAREST,  /* f at the edge node */
    WEIGHTS_CONSTANT, /* a number */
    WEIGHTS_KINDS
};

struct weights_side {
    uint8_t kind;    /* enum weights_kind */
    uint8_t at_face; /* REFLECT, ODD, EVEN, VALUE, DERIVATIVE, CURVATURE: g is half a cell outside,
                        not at the edge node; with coordinates (x₁ − x₀)/2 outside. Else 0 */
    double mixed;    /* DERIVATIVE, EVEN: v of ∂n f + v f = c; else 0. No row depends on it */
};

/* Are there closures next to it? */
bool weights_has_closures(const struct weights_side *side);

/* Do its rows have a weight for a number that is no point's own? */
bool weights_has_datum(const struct weights_side *side);

/* May rows next to it make a larger step unstable than the centred ones do? */
bool weights_is_stiff(const struct weights_side *side);

/* One axis of a grid. The caller owns the coordinates. */
struct weights_axis {
    int64_t n;       /* points */
    double spacing;  /* between them; where x is NULL */
    const double *x; /* n coordinates, finite and strictly increasing; where periodic n + 1, the
                        last one where the first comes again. NULL: uniform */
    struct weights_side side[SIDE_COUNT];
    /* With coordinates, of (k f′)′ at accuracy 2, k a field: rows have three points, so that k
     * times a difference flows between neighbours and nothing is lost on the way. Sides are maps or
     * halos. */
    bool conducts;
    /* With coordinates, of a part of an axis that is periodic: the points of the whole, whose
     * coordinates these are; which one is the part's first; PERIODIC or ENDPOINT. 0: no part. */
    int64_t whole_n, whole_first;
    uint8_t whole_kind;
};

/* Are these arguments that weights_make() takes, of some axis long enough? */
bool weights_takes(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger);

enum { WEIGHTS_CENTRED = -1 };

/* D^k f at a point = Σ w[j] f(first + j·step) + Σ_side data[side] g(side). */
struct weights_row {
    int64_t first; /* index of the point of w[0]; outside where weights_map() brings it back */
    int32_t step; /* 1; −1 for the rows of the high side of a uniform axis, which are those of the
                     low side counted from their edge, times (−1)^order to the bit */
    int32_t count; /* of points */
    int32_t side; /* SIDE_… whose closure it is; WEIGHTS_CENTRED: its points lie around the point */
    weights_real w[WEIGHTS_POINTS];
    weights_real data[SIDE_COUNT]; /* of g as the user states it: the normal's sign is in it */
};

/* The row of point i for the derivative of `order` (0, a value, only where staggered), in the
 * axis's own units: 1/length^order, data 1/length^(order − that of g). The centred row of a uniform
 * axis has exactly (anti)symmetric weights, and all its points have the same one but for REFLECT's
 * data. Where the datum is what is asked for (the derivative at a node that states it), its weight
 * is ±1 and all others are 0. A point that both sides would close has the row of the low one.
 * False, and nothing written: the arguments are outside what is said above, the axis has too few
 * points (or its coordinates do not increase, or by factors beyond the numbers' range), or the
 * point is in a halo. */
bool weights_make(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger,
                  int64_t i, struct weights_row *row);

/* Of an axis with coordinates, which points the row of point i has: row->first, step, count, side.
 * As many as the order needs everywhere, around the point; where one more is on one side, it is the
 * nearer of the two that could be (then the lower). Three where the axis conducts. */
void weights_choose_points(const struct weights_axis *axis, int order, int accuracy,
                           enum stagger stagger, int64_t i, struct weights_row *row);
/* Are a centred row's points inside, or have an image there? */
bool weights_has_points(const struct weights_axis *axis, const struct weights_row *row);

/* f at the face of a side whose kind is DERIVATIVE at_face, by the polynomial of that side's rows
 * of `order` and `accuracy`: E·f + e·g, e > 0. A mixed boundary ∂n f + v f = c then has the datum
 * g = c − v f_b with f_b = (E·f + e·c)/(1 + e·v), to the same order. (Stated at the node, f_b is
 * the node's value.) Order 0: by the polynomial of weights_ghost(). Of a side whose kind is EVEN
 * the same to second order, f_b = f at the edge's point + h/2 g. As weights_make() otherwise. */
bool weights_face(const struct weights_axis *axis, int order, int accuracy, int side,
                  struct weights_row *row);

/* f at the index m ≥ 1 beyond a side of a uniform axis (−m, n − 1 + m) whose kind has rows: the
 * polynomial through its first points, `accuracy` of them, or one fewer and its datum. Exact for
 * polynomials of a degree below that. False as weights_make(). */
bool weights_ghost(const struct weights_axis *axis, int accuracy, int side, int64_t m,
                   struct weights_row *row);

/* Points that a centred row reads at most to either side of i; the width of a halo. */
int weights_radius(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger);

/* Points at an end of a uniform axis that have rows of their own: closures, or REFLECT's data. All
 * others that are in no halo have the centred one. */
int weights_apart(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger,
                  int side);

/* Points with which every point outside halos has a row; on a uniform axis the fewest. For a
 * diffusion (order 2), also those without which a pair of sides is unstable. axis->n and the
 * coordinates are not read. */
int64_t weights_points_needed(const struct weights_axis *axis, int order, int accuracy,
                              enum stagger stagger, bool diffusion);

/* Where the value at index i, which may be outside, is found:
 * f(i) = sign · f(at) + Σ_side lift[side] · h · g(side); beyond ODD 2 g beside it. */
struct weights_place {
    int64_t at;
    int32_t sign;             /* 1, or −1 */
    int64_t lift[SIDE_COUNT]; /* REFLECT only */
};

/* Sides that are no map are left as they are: an index beyond one is given back. n ≥ 1 (ENDPOINT
 * 2), |i| < 2^62. Takes |i|/n turns where it is reflected. */
struct weights_place weights_map(const struct weights_axis *axis, int64_t i);

/* The distance between points i and i + 1, one of which may be an image. */
weights_real weights_gap(const struct weights_axis *axis, int64_t i);

/* An upper bound of the spectral radius, in 1/length², of the second derivative along the axis with
 * its two sides; uniform, at most 0.5 % above the larger of it and the periodic one. Of (k f′)′
 * between sides of ODD, EVEN and maps, times the largest k: its rows are a sum of k_j ≥ 0 times
 * matrices without a positive eigenvalue, so that no other k has a larger radius than that all
 * points have (with `mixed` from 0 up). The larger of Σ|w| of the centred rows and, where a side's
 * own rows are stiffer, Gelfand's ‖A^k‖^(1/k), k = 512, of the WEIGHTS_EDGE points at each edge.
 * Nodes with a VALUE and halos do not move. Infinity where a point has no row. With coordinates it
 * looks at every point; Σ|w| is then found in double, and what that may be off is added: about
 * 1e-12 of it.
 *
 * On uniform axes forward Euler is stable for dt ≤ 2/(κ·bound). With coordinates this keeps modes
 * of real rates in range, no more: on abruptly stretched axes some may grow at any step. An axis
 * that conducts has the bound of conductances_bound(). */
double weights_bound(const struct weights_axis *axis, int accuracy);
