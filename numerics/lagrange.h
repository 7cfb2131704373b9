/* Weights of the polynomial through given points, differentiated at 0: Fornberg, Math. Comp. 51
 * (1988) 699 and SIAM Rev. 40 (1998) 685, here by the products of Lagrange's form. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __SIZEOF_FLOAT128__
typedef __float128 weights_real;
#else
typedef long double weights_real; /* 113 bits on most of what is not x86-64 */
#endif

enum {
    LAGRANGE_ORDER = 4, /* highest derivative */
    LAGRANGE_POINTS = 14
};

/* A number that is given beside the points: the derivative of this order at this position. */
struct lagrange_datum {
    weights_real at;
    int order;
};

/* The weights w of f(a[0]), f(a[1]), … for the derivative of `order` at 0 and, where there is a
 * datum, its weight *rho. Over one denominator: nothing is rounded before the division where all a
 * are integers. False where the datum and the points do not define a polynomial. */
bool lagrange_weights(const weights_real *a, int count, int order,
                      const struct lagrange_datum *datum, weights_real *w, weights_real *rho);

/* The same for a = −at, 2 − at, 4 − at, …: the rows of uniform axes. There are few of them, so each
 * thread remembers the last ones. */
bool lagrange_weights_even(int64_t at, int count, int order, const struct lagrange_datum *datum,
                           weights_real *w, weights_real *rho);
