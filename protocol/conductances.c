#include "protocol/conductances.h"

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
static rows_real slope_weight(int last, int j, int d)
{
    rows_real sum = 0;
    for (int without = 0; without <= last; without++) {
        rows_real product = 1;
        for (int l = 0; l <= last; l++)
            product *= l == j || l == without ? 1 : d - l;
        sum += without == j ? 0 : product;
    }
    for (int l = 0; l <= last; l++)
        sum /= l == j ? 1 : j - l;
    return sum;
}

void conductances_inflow(int accuracy, bool at_face, int d, rows_real w[ROWS_ACCURACY])
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
                w[k] -= (rows_real)(d - found) * given->c[m - 1][r - m + l] / given->under;
            }
        }
}
