#include "numerics/conductances.h"

#include "base/limits.h"

#include <math.h>

const struct conductances *conductances_of(int accuracy)
{
    static const struct conductances all[CONDUCTANCES_RADIUS] = {
        {2, {{1, 1}}},
        {24, {{4, 12, 12, 4}, {-3, 4, -3}}},
        {360, {{9, 108, 153, 153, 108, 9}, {-18, -63, 108, -63, -18}, {11, -9, -9, 11}}},
        {10080,
         {{48, 672, 3744, 3600, 3600, 3744, 672, 48},
          {-108, -1056, -1860, 4032, -1860, -1056, -108},
          {144, 560, -576, -576, 560, 144},
          {-75, 48, 36, 48, -75}}},
        {151200,
         {{150, 2750, 15500, 61500, 46100, 46100, 61500, 15500, 2750, 150},
          {-400, -4500, -22000, -27100, 72000, -27100, -22000, -4500, -400},
          {600, 5250, 10650, -13500, -13500, 10650, 5250, 600},
          {-600, -2525, 2000, 1500, 2000, -2525, -600},
          {274, -150, -100, -100, -150, 274}}},
    };
    return &all[accuracy / 2 - 1];
}

/* The weight of f(j) in the derivative at d of the polynomial through f(0) … f(last). */
static weights_real slope_weight(int last, int j, int d)
{
    weights_real sum = 0;
    for (int without = 0; without <= last; without++) {
        weights_real product = 1;
        for (int l = 0; l <= last; l++)
            product *= l == j || l == without ? 1 : d - l;
        sum += without == j ? 0 : product;
    }
    for (int l = 0; l <= last; l++)
        sum /= l == j ? 1 : j - l;
    return sum;
}

void conductances_inflow(int accuracy, bool at_face, int d, weights_real w[WEIGHTS_ACCURACY])
{
    const struct conductances *given = conductances_of(accuracy);
    const int r = accuracy / 2;
    /* L falls by 1 from a point to the next one, so that its slope along the outward normal is 1.
     */
    for (int j = 0; j < accuracy; j++)
        w[j] = j <= r ? -slope_weight(r, j, d) : 0;
    for (int s = -1; s <= 1; s += 2)
        for (int m = 1; m <= r; m++) {
            const int beyond = d + s * m, found = beyond < 0 ? -beyond - at_face : beyond;
            for (int l = m - r; l <= r; l++) {
                const int at = d + s * l, k = at < 0 ? -at - at_face : at;
                w[k] -= (weights_real)(d - found) * given->c[m - 1][r - m + l] / given->under;
            }
        }
}

/* What flows at a point of an axis where k is 1, over the difference; index 0 and n + 1 are beyond
 * the edges. */
struct flows {
    int64_t n;
    int64_t beyond[SIDE_COUNT]; /* where the image of that index is; −1: nothing moves there */
    double rate[SIDE_COUNT][LIMIT_STABLE_COORDINATES + 2]; /* to the point before, after it */
    bool held[SIDE_COUNT];                                 /* the edge's point does not move */
    double pull[SIDE_COUNT]; /* a mixed boundary's: over u at the edge's point */
    bool limits[SIDE_COUNT]; /* … with k at the face */
};

static bool flows_init(const struct weights_axis *axis, struct flows *flows)
{
    const int64_t n = flows->n = axis->n;
    double before = (double)weights_gap(axis, -1);
    for (int64_t i = 0; i < n; i++) {
        const double after = (double)weights_gap(axis, i);
        if (!(before > 0 && after > 0))
            return false;
        flows->rate[SIDE_LOW][i + 1] = 2 / before / (before + after);
        flows->rate[SIDE_HIGH][i + 1] = 2 / after / (before + after);
        before = after;
    }
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct weights_side *side = &axis->side[s];
        const int64_t edge = s == SIDE_LOW ? 0 : n - 1;
        const struct weights_place place = weights_map(axis, s == SIDE_LOW ? -1 : n);
        const double h = (double)weights_gap(axis, s == SIDE_LOW ? -1 : n - 1),
                     v = fabs(side->mixed);
        flows->beyond[s] = place.at >= 0 && place.at < n ? place.at + 1 : -1;
        if (place.at == edge && place.sign > 0 && n > 1) /* its own image: nothing flows */
            flows->rate[s][edge + 1] = 0;
        flows->held[s] =
            side->kind == WEIGHTS_HALO || (side->kind == WEIGHTS_ODD && !side->at_face);
        flows->limits[s] = side->at_face;
        flows->pull[s] = side->kind != WEIGHTS_EVEN ? 0
                         : side->at_face            ? v / (1 + v * h / 2) / h
                                                    : 2 * v / h;
    }
    return true;
}

/* y = |A| x, A the matrix of these flows, as large as any k ≤ 1 make it; returns the largest
 * y_i/x_i. */
static double flows_apply(const struct flows *flows, double *x, double *y)
{
    const int64_t n = flows->n;
    double most = 0;
    for (int s = 0; s < SIDE_COUNT; s++)
        x[s == SIDE_LOW ? 0 : n + 1] = flows->beyond[s] < 0 ? 0 : x[flows->beyond[s]];
    for (int64_t i = 1; i <= n; i++) {
        const double flow[SIDE_COUNT] = {flows->rate[SIDE_LOW][i] * (x[i] + x[i - 1]),
                                         flows->rate[SIDE_HIGH][i] * (x[i] + x[i + 1])};
        y[i] = flow[SIDE_LOW] + flow[SIDE_HIGH];
        for (int s = 0; s < SIDE_COUNT; s++) {
            if (i != (s == SIDE_LOW ? 1 : n))
                continue;
            /* At the face k is (3k₀ − k₁)/2, largest where k₁ is 0: then half as much flows to
             * that point. */
            const double pulled = flows->pull[s] * x[i], more = (pulled - flow[!s]) / 2;
            y[i] += pulled + (flows->limits[s] && more > 0 ? more : 0);
        }
        y[i] = x[i] > 0 ? y[i] : 0; /* a point that is held */
        most = x[i] > 0 ? fmax(most, y[i] / x[i]) : most;
    }
    return most;
}

/* All x > 0 have largest y_i/x_i that are bounds of the largest eigenvalue of |A| (Collatz and
 * Wielandt), which none of A is above in magnitude; those of the power method come down to it. */
double conductances_bound(const struct weights_axis *axis)
{
    enum { ITERATIONS = 64 };
    static const double least = 1e-200;
    struct flows flows;
    double x[LIMIT_STABLE_COORDINATES + 2], y[LIMIT_STABLE_COORDINATES + 2], bound = INFINITY;
    if (axis->n > LIMIT_STABLE_COORDINATES || !flows_init(axis, &flows))
        return INFINITY;
    for (int64_t i = 1; i <= flows.n; i++)
        x[i] = !(i == 1 && flows.held[SIDE_LOW]) && !(i == flows.n && flows.held[SIDE_HIGH]);
    for (int k = 0; k < ITERATIONS; k++) {
        const double most = flows_apply(&flows, x, y);
        bound = fmin(bound, most);
        if (!(most < INFINITY && most > 0))
            break;
        for (int64_t i = 1; i <= flows.n; i++)
            x[i] = x[i] > 0 ? fmax(y[i] / most, least) : 0;
    }
    return bound;
}
