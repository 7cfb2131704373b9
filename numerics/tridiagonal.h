/* Elimination along a line of (1 − A) x = r, where A has three diagonals: Thomas' algorithm, from
 * the first row to the last and back (Golub and Van Loan, Matrix Computations, 4.3), with the
 * factors of a matrix that all lines share made beforehand in 113 bits and rounded once. Around a
 * periodic line by Sherman and Morrison's formula (Ann. Math. Stat. 21 (1950) 124).
 *
 *   y_i = m_i y_{i−1} + r_i,   x_i = p_i x_{i+1} + q_i y_i,   x_i = x_i + z_i (x_0 + last x_{n−1})
 *
 * Away from the ends the factors do not change in 113 bits, so that a long line's are those of a
 * shorter one, whose middle row stands for all that it lacks. numerics/adi_point.h is the
 * elimination.
 */
#pragma once

#include "numerics/plan.h"
#ifndef __CUDACC__ /* which has no numbers of 113 bits */
#include "numerics/weights.h"
#endif

__BEGIN_DECLS

/* The lines of one axis. */
struct tridiagonal {
    int64_t n;       /* unknowns */
    int64_t count;   /* rows in the table, at most n */
    int64_t half;    /* of them at the low end; count where all are there */
    int32_t corner;  /* periodic: is there a third sweep? */
    int32_t repeats; /* the point after the last unknown is a copy of the first */
    uint64_t at; /* m, p, q, z, each `count` elements of the dtype: bytes from the table's first */
    double last;
};

/* Rows of the table for n unknowns and an off-diagonal of that size: n, or what a longer line
 * needs.
 */
uint64_t tridiagonal_count(uint64_t n, double weight);

#ifndef __CUDACC__
/* One line's matrix: −weight beside the diagonal, 1 + 2 weight on it. An end's row has 1 + next −
 * own on it, and −next beside it. */
struct tridiagonal_line {
    weights_real weight;
    struct {
        weights_real next, own;
    } end[SIDE_COUNT];
    bool periodic;
};

/* Write m, p, q, z to lines->at of the table, rounded to the dtype. n, repeats and at are given,
 * all else is set. False: no memory. */
bool tridiagonal_make(struct tridiagonal *lines, const struct tridiagonal_line *line, int dtype,
                      void *table);
#endif

__END_DECLS
