#include "numerics/lagrange.h"

#include <string.h>

/* Multiply the polynomial whose coefficients up to `order` are c by its variable + root. */
static void take_factor(weights_real *c, int order, weights_real root)
{
    for (int k = order; k > 0; k--)
        c[k] = c[k] * root + c[k - 1];
    c[0] *= root;
}

/* The derivatives of `order` at t = at of Π (t − a[l]) over all l but j, for each j; and, returned,
 * over all. Each is what lies below j times what lies above. */
static weights_real product_derivatives(const weights_real *a, int count, weights_real at,
                                        int order, weights_real *without)
{
    weights_real below[LAGRANGE_POINTS + 1][LAGRANGE_ORDER + 1] = {{1}},
                                                             above[LAGRANGE_ORDER + 1] = {1};
    weights_real factorial = 1;
    for (int k = 2; k <= order; k++)
        factorial *= k;
    for (int j = 0; j < count; j++) {
        memcpy(below[j + 1], below[j], sizeof below[j]);
        take_factor(below[j + 1], order, at - a[j]);
    }
    for (int j = count - 1; j >= 0; j--) {
        without[j] = 0;
        for (int k = 0; k <= order; k++)
            without[j] += below[j][k] * above[order - k];
        without[j] *= factorial;
        take_factor(above, order, at - a[j]);
    }
    return factorial * below[count][order];
}

/* Without a datum, w_j = N_j / D_j: the derivative of Π_{l≠j} (t − a_l) over its value at a_j. With
 * the datum L f = g, the interpolant P has c·ω added, ω = Π (t − a_l), c = (g − L P)/(L ω): so
 * w_j = N_j / D_j − ρ·L_j / D_j and g counts ρ = ω^(order)(0) / (L ω). */
bool lagrange_weights(const weights_real *a, int count, int order,
                      const struct lagrange_datum *datum, weights_real *w, weights_real *rho)
{
    weights_real denominator[LAGRANGE_POINTS];
    for (int j = 0; j < count; j++) {
        denominator[j] = 1;
        for (int l = 0; l < j; l++) {
            const weights_real apart = a[j] - a[l];
            denominator[j] *= apart;
            denominator[l] *= -apart;
        }
    }
    const weights_real over = product_derivatives(a, count, 0, order, w);
    if (datum) {
        weights_real stated[LAGRANGE_POINTS];
        const weights_real under = product_derivatives(a, count, datum->at, datum->order, stated);
        if (under == 0)
            return false;
        *rho = over / under;
        for (int j = 0; j < count; j++) {
            w[j] = under * w[j] - over * stated[j];
            denominator[j] *= under;
        }
    }
    for (int j = 0; j < count; j++) {
        if (denominator[j] == 0) /* distances too different for the range of the numbers */
            return false;
        w[j] /= denominator[j];
    }
    return true;
}

bool lagrange_weights_even(int64_t at, int count, int order, const struct lagrange_datum *datum,
                           weights_real *w, weights_real *rho)
{
    enum { REMEMBERED = 64 };
    struct key {
        int64_t at, datum_at;
        int32_t count, order, has_datum, datum_order;
    } key = {.at = at, .count = count, .order = order, .has_datum = datum != NULL};
    static _Thread_local struct {
        struct key key;
        weights_real w[LAGRANGE_POINTS], rho;
    } remembered[REMEMBERED];
    if (datum) {
        key.datum_at = (int64_t)datum->at;
        key.datum_order = datum->order;
    }
    const uint64_t place = (uint64_t)at + 5 * (uint64_t)count + 19 * (uint64_t)order +
                           3 * (uint64_t)key.has_datum + 7 * (uint64_t)key.datum_order;
    weights_real *known = remembered[place % REMEMBERED].w, of_datum = 0;
    struct key *known_key = &remembered[place % REMEMBERED].key;
    if (memcmp(known_key, &key, sizeof key) != 0) {
        weights_real a[LAGRANGE_POINTS] = {0};
        for (int j = 0; j < count; j++)
            a[j] = 2 * j - at;
        if (!lagrange_weights(a, count, order, datum, w, &of_datum))
            return false;
        *known_key = key;
        memcpy(known, w, (size_t)count * sizeof *w);
        remembered[place % REMEMBERED].rho = of_datum;
    }
    memcpy(w, known, (size_t)count * sizeof *w);
    *rho = remembered[place % REMEMBERED].rho;
    return true;
}
