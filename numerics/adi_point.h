/* A step of Crank–Nicolson split by axes (numerics/adi.h), evaluated: the contract of
 * docs/NUMERICS.md in code, for C and CUDA alike. The host's and the device's fast loops must give
 * these bits.
 *
 * Included once per element type with REAL, REAL_FMA(a, b, c), POINT_NAME(name) and POINT_FUNCTION
 * defined. Arrays begin at one field of the batch, number `field`. */

#include <stdint.h>

/* The number of a side at a point next to it. */
POINT_FUNCTION REAL POINT_NAME(adi_number)(const struct adi *adi, const struct operands *operands,
                                           int a, int side, int64_t field, const int64_t at[3])
{
    const struct adi_axis *axis = adi->axis;
    const struct side *of = &axis[a].side[side];
    const struct side_number *number =
        of->datum >= SIDE_DATUM_MIXED_NODE ? &of->constant : &of->value;
    if (number->operand < 0) /* there may be no operands at all */
        return (REAL)number->number;
    const REAL *array = (const REAL *)side_array(number, (const void *const *)operands->at, field,
                                                 axis[a].face_points, sizeof(REAL));
    return array[side_element(a, at[AXIS_X], at[AXIS_Y], at[AXIS_Z], axis[AXIS_X].n,
                              axis[AXIS_Y].n)];
}

/* The first of x low, x high, y low, … that holds the point: SIDE_COUNT · axis + side; −1: none. */
POINT_FUNCTION int POINT_NAME(adi_holder)(const struct adi *adi, const int64_t at[3])
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct adi_axis *axis = &adi->axis[a];
        if (at[a] < axis->side[SIDE_LOW].held)
            return SIDE_COUNT * a + SIDE_LOW;
        if (axis->n - 1 - at[a] < axis->side[SIDE_HIGH].held)
            return SIDE_COUNT * a + SIDE_HIGH;
    }
    return -1;
}

/* The point, with a value that is stated at it in its place. */
POINT_FUNCTION REAL POINT_NAME(adi_impose)(const struct adi *adi, const struct operands *operands,
                                           REAL f, int64_t field, const int64_t at[3])
{
    const int holder = POINT_NAME(adi_holder)(adi, at), a = holder / SIDE_COUNT;
    const int side = holder % SIDE_COUNT;
    if (holder < 0 || adi->axis[a].side[side].halo)
        return f;
    return POINT_NAME(adi_number)(adi, operands, a, side, field, at);
}

/* Index i of a periodic axis, which lies at most one outside, as a distance from point `from`. */
POINT_FUNCTION int64_t POINT_NAME(adi_step)(const struct adi_axis *axis, int64_t from, int64_t i)
{
    const int64_t over = axis->period > 1 ? axis->n - axis->period : 0;
    const int64_t inside = i < 0 ? axis->period - 1 : i < axis->n ? i : over;
    return (inside - from) * axis->stride;
}

/* acc + dt A u along one axis. f: the point; k: its κ, NULL where that is a number; g: of the side
 * whose row it has. */
POINT_FUNCTION REAL POINT_NAME(adi_term)(const struct adi_axis *axis, int64_t i, const REAL *f,
                                         const REAL *k, REAL g, REAL acc)
{
    const int side = adi_edge_of(axis, i);
    if (side >= 0) {
        const struct adi_edge *edge = &axis->edge[side];
        const int64_t inner = i == 0 ? axis->stride : -axis->stride;
        const REAL difference = f[inner] - *f;
        if (!k) {
            acc = REAL_FMA((REAL)edge->next, difference, acc);
            acc = REAL_FMA((REAL)edge->own, *f, acc);
            return REAL_FMA((REAL)edge->datum, g, acc);
        }
        acc = REAL_FMA((REAL)edge->next, (k[inner] + *k) * difference, acc);
        acc = REAL_FMA((REAL)edge->own, *k * *f, acc);
        return REAL_FMA((REAL)edge->datum, *k * g, acc);
    }
    const int64_t below = POINT_NAME(adi_step)(axis, i, i - 1);
    const int64_t above = POINT_NAME(adi_step)(axis, i, i + 1);
    const REAL down = f[below] - *f, up = f[above] - *f;
    if (!k)
        return REAL_FMA((REAL)axis->weight, down + up, acc);
    return REAL_FMA((REAL)axis->weight, (k[below] + *k) * down + (k[above] + *k) * up, acc);
}

/* dt (A u + s) at a point. along: AXIS_COUNT, or an axis whose part of it is asked for; s is in
 * that of z. */
POINT_FUNCTION REAL POINT_NAME(adi_rate)(const struct adi *adi, const struct operands *operands,
                                         int along, const REAL *u, int64_t field,
                                         const int64_t at[3])
{
    int64_t place = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        place += at[a] * adi->axis[a].stride;
    if (POINT_NAME(adi_holder)(adi, at) >= 0)
        return (REAL)0;
    const int64_t begin = field * (int64_t)adi->points + place;
    const REAL *k = adi->coefficient ? (const REAL *)operands->at[OPERAND_COEFFICIENT] + begin
                                     : (const REAL *)0;
    REAL acc = (REAL)0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct adi_axis *axis = &adi->axis[a];
        if (!axis->active || (along != a && along != AXIS_COUNT))
            continue;
        const int side = adi_edge_of(axis, at[a]);
        const REAL g =
            side < 0 ? (REAL)0 : POINT_NAME(adi_number)(adi, operands, a, side, field, at);
        acc = POINT_NAME(adi_term)(axis, at[a], u + place, k, g, acc);
    }
    if (along < AXIS_Z)
        return acc;
    const REAL s =
        adi->source ? ((const REAL *)operands->at[OPERAND_SOURCE])[begin] : (REAL)adi->source_value;
    return REAL_FMA((REAL)adi->dt, s, acc);
}

/* The row of a table of factors that unknown i has. */
POINT_FUNCTION int64_t POINT_NAME(lines_row)(const struct tridiagonal *lines, int64_t i)
{
    const int64_t high = lines->count - lines->half;
    return i < lines->half        ? i
           : i >= lines->n - high ? i - (lines->n - lines->count)
                                  : lines->half - 1;
}

/* --- a line's rows from `begin` to before `end`, with all arrays at row begin: the whole line, or
 * what a subdomain has of it (struct leg). factors: lines->at of the table --- */

POINT_FUNCTION void POINT_NAME(lines_forward)(const struct tridiagonal *lines, const REAL *factors,
                                              REAL *x, int64_t stride, int64_t begin, int64_t end)
{
    REAL y = begin > 0 ? x[-stride] : (REAL)0;
    for (int64_t i = begin; i < end; i++, x += stride) {
        if (i > 0)
            *x = REAL_FMA(factors[POINT_NAME(lines_row)(lines, i)], y, *x);
        y = *x;
    }
}

POINT_FUNCTION void POINT_NAME(lines_back)(const struct tridiagonal *lines, const REAL *factors,
                                           REAL *x, int64_t stride, int64_t begin, int64_t end)
{
    const REAL *p = factors + lines->count, *q = p + lines->count;
    x += (end - begin) * stride;
    REAL next = end < lines->n ? *x : (REAL)0;
    for (int64_t i = end - 1; i >= begin; i--) {
        const int64_t row = POINT_NAME(lines_row)(lines, i);
        x -= stride;
        *x = next = i == lines->n - 1 ? q[row] * *x : REAL_FMA(p[row], next, q[row] * *x);
    }
}

/* What the unknowns of a periodic line are corrected by: of the first one and the last. */
POINT_FUNCTION REAL POINT_NAME(lines_around)(const struct tridiagonal *lines, REAL first, REAL last)
{
    return REAL_FMA((REAL)lines->last, last, first);
}

POINT_FUNCTION void POINT_NAME(lines_close)(const struct tridiagonal *lines, const REAL *factors,
                                            REAL *x, int64_t stride, int64_t begin, int64_t end,
                                            REAL around)
{
    const REAL *z = factors + 3 * lines->count;
    for (int64_t i = begin; i < end; i++, x += stride)
        *x = REAL_FMA(z[POINT_NAME(lines_row)(lines, i)], around, *x);
}

/* Solve one line in place. */
POINT_FUNCTION void POINT_NAME(lines_solve)(const struct tridiagonal *lines, const REAL *factors,
                                            REAL *x, int64_t stride)
{
    const int64_t n = lines->n;
    POINT_NAME(lines_forward)(lines, factors, x, stride, 0, n);
    POINT_NAME(lines_back)(lines, factors, x, stride, 0, n);
    if (lines->corner) {
        const REAL around = POINT_NAME(lines_around)(lines, x[0], x[(n - 1) * stride]);
        POINT_NAME(lines_close)(lines, factors, x, stride, 0, n, around);
    }
    if (lines->repeats)
        x[n * stride] = x[0];
}

/* Row i of 1 − dt/2 A along a line whose κ is k[] at row i: minus what is beside the diagonal, and
 * that. around: rows from the first one to what comes before it, as from what comes behind the last
 * one to that: n − 1, or where subdomains' ghost planes lie there −1. */
POINT_FUNCTION void POINT_NAME(adi_row)(const struct adi_axis *axis, const REAL *k, int64_t i,
                                        int64_t around, REAL *below, REAL *diagonal, REAL *above)
{
    const int64_t n = axis->lines.n, stride = axis->stride;
    const REAL own = *k;
    const int side = adi_edge_of(axis, i);
    *below = *above = (REAL)0;
    *diagonal = (REAL)1;
    if ((i == 0 && axis->side[SIDE_LOW].held) || (i == n - 1 && axis->side[SIDE_HIGH].held))
        return;
    if (side >= 0) {
        const struct adi_edge *edge = &axis->edge[side];
        const REAL next = (REAL)0.5 * (REAL)edge->next * (k[i == 0 ? stride : -stride] + own);
        *(i == 0 ? above : below) = next;
        *diagonal = REAL_FMA((REAL)-0.5 * (REAL)edge->own, own, (REAL)1 + next);
        return;
    }
    if (n == 1)
        return;
    const REAL weight = (REAL)0.5 * (REAL)axis->weight;
    *below = weight * (k[(i == 0 ? around : -1) * stride] + own);
    *above = weight * (k[(i == n - 1 ? -around : 1) * stride] + own);
    *diagonal = (REAL)1 + (*below + *above);
    if (n == 2) { /* both neighbours are one */
        const REAL both = *below + *above;
        *below = i ? both : (REAL)0;
        *above = i ? (REAL)0 : both;
    }
}

/* Is κ's line closed by a corner's solution, z? */
POINT_FUNCTION int POINT_NAME(adi_corner)(const struct adi_axis *axis)
{
    return axis->periodic && axis->lines.n > 2;
}

/* κ is a field, k[] along this line; zero: at row 0, which the last one asks for. q and z: room for
 * as many numbers. */
POINT_FUNCTION void POINT_NAME(adi_forward)(const struct adi_axis *axis, const REAL *k,
                                            const REAL *zero, int64_t around, REAL *x, REAL *q,
                                            REAL *z, int64_t begin, int64_t end)
{
    const int64_t n = axis->lines.n, stride = axis->stride;
    const int corner = POINT_NAME(adi_corner)(axis);
    REAL below, diagonal, above, before = (REAL)0;
    if (begin > 0)
        POINT_NAME(adi_row)(axis, k - stride, begin - 1, around, &below, &diagonal, &before);
    for (int64_t at = 0, i = begin; i < end; i++, at += stride) {
        POINT_NAME(adi_row)(axis, k + at, i, around, &below, &diagonal, &above);
        if (corner && i == 0) {
            z[at] = -diagonal;
            diagonal = diagonal + diagonal;
        }
        if (corner && i == n - 1) {
            REAL low, first, next;
            POINT_NAME(adi_row)(axis, zero, 0, around, &low, &first, &next);
            diagonal = REAL_FMA(low, above / first, diagonal);
        }
        if (i > 0) {
            const REAL m = below * q[at - stride];
            diagonal = REAL_FMA(-m, before, diagonal);
            x[at] = REAL_FMA(m, x[at - stride], x[at]);
            if (corner)
                z[at] = REAL_FMA(m, z[at - stride], i == n - 1 ? -above : (REAL)0);
        }
        q[at] = (REAL)1 / diagonal;
        before = above;
    }
}

POINT_FUNCTION void POINT_NAME(adi_back)(const struct adi_axis *axis, const REAL *k, int64_t around,
                                         REAL *x, const REAL *q, REAL *z, int64_t begin,
                                         int64_t end)
{
    const int64_t n = axis->lines.n, stride = axis->stride;
    const int corner = POINT_NAME(adi_corner)(axis);
    REAL below, diagonal, above;
    for (int64_t i = end - 1; i >= begin; i--) {
        const int64_t at = (i - begin) * stride;
        POINT_NAME(adi_row)(axis, k + at, i, around, &below, &diagonal, &above);
        const REAL p = above * q[at];
        x[at] = i == n - 1 ? q[at] * x[at] : REAL_FMA(p, x[at + stride], q[at] * x[at]);
        if (corner)
            z[at] = i == n - 1 ? q[at] * z[at] : REAL_FMA(p, z[at + stride], q[at] * z[at]);
    }
}

/* zero: κ at row 0, where x and z are these, as are they at the last row. */
POINT_FUNCTION REAL POINT_NAME(adi_around)(const struct adi_axis *axis, const REAL *zero,
                                           int64_t around, REAL x, REAL x_last, REAL z, REAL z_last)
{
    REAL low, first, next;
    POINT_NAME(adi_row)(axis, zero, 0, around, &low, &first, &next);
    const REAL last = low / first;
    return REAL_FMA(last, x_last, x) / ((REAL)1 + REAL_FMA(last, z_last, z));
}

POINT_FUNCTION void POINT_NAME(adi_close)(const struct adi_axis *axis, REAL *x, const REAL *z,
                                          int64_t begin, int64_t end, REAL around)
{
    for (int64_t at = 0, i = begin; i < end; i++, at += axis->stride)
        x[at] = REAL_FMA(-z[at], around, x[at]);
}

/* Solve one line in place where κ is a field. */
POINT_FUNCTION void POINT_NAME(adi_solve)(const struct adi_axis *axis, const REAL *k, REAL *x,
                                          REAL *q, REAL *z)
{
    const int64_t n = axis->lines.n, last = (n - 1) * axis->stride;
    POINT_NAME(adi_forward)(axis, k, k, n - 1, x, q, z, 0, n);
    POINT_NAME(adi_back)(axis, k, n - 1, x, q, z, 0, n);
    if (POINT_NAME(adi_corner)(axis)) {
        const REAL around = POINT_NAME(adi_around)(axis, k, n - 1, x[0], x[last], z[0], z[last]);
        POINT_NAME(adi_close)(axis, x, z, 0, n, around);
    }
    if (axis->lines.repeats)
        x[n * axis->stride] = x[0];
}

/* A leg's sweep along one line. k, q, z: NULL where κ is a number. */
POINT_FUNCTION void POINT_NAME(adi_sweep)(const struct adi *adi, int a, const struct leg *leg,
                                          const REAL *k, REAL *x, REAL *q, REAL *z)
{
    const struct adi_axis *axis = &adi->axis[a];
    const struct tridiagonal *lines = &axis->lines;
    const REAL *factors = (const REAL *)((const char *)adi + lines->at);
    const int64_t stride = axis->stride, begin = (int64_t)leg->begin, end = adi_leg_end(axis, leg);
    const REAL *zero = k ? k + (end - begin) * stride : k; /* as the last row has it */
    switch ((enum sweep)leg->sweep) {
    case SWEEP_FORWARD:
        if (k)
            POINT_NAME(adi_forward)(axis, k, zero, -1, x, q, z, begin, end);
        else
            POINT_NAME(lines_forward)(lines, factors, x, stride, begin, end);
        break;
    case SWEEP_BACK:
        if (k)
            POINT_NAME(adi_back)(axis, k, -1, x, q, z, begin, end);
        else
            POINT_NAME(lines_back)(lines, factors, x, stride, begin, end);
        break;
    case SWEEP_AROUND:
        x[-stride] = k ? POINT_NAME(adi_around)(axis, k, -1, x[0], x[-stride], z[0], z[-stride])
                       : POINT_NAME(lines_around)(lines, x[0], x[-stride]);
        break;
    default:
        if (k)
            POINT_NAME(adi_close)(axis, x, z, begin, end, x[-stride]);
        else
            POINT_NAME(lines_close)(lines, factors, x, stride, begin, end, x[-stride]);
        break;
    }
}
