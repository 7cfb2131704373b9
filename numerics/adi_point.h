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

/* Solve one line in place. factors: lines->at of the table. */
POINT_FUNCTION void POINT_NAME(lines_solve)(const struct tridiagonal *lines, const REAL *factors,
                                            REAL *x, int64_t stride)
{
    const REAL *m = factors, *p = m + lines->count, *q = p + lines->count, *z = q + lines->count;
    const int64_t n = lines->n;
    REAL y = x[0];
    for (int64_t i = 1; i < n; i++) {
        y = REAL_FMA(m[POINT_NAME(lines_row)(lines, i)], y, x[i * stride]);
        x[i * stride] = y;
    }
    const REAL last = q[POINT_NAME(lines_row)(lines, n - 1)] * y;
    REAL next = last;
    x[(n - 1) * stride] = last;
    for (int64_t i = n - 2; i >= 0; i--) {
        const int64_t row = POINT_NAME(lines_row)(lines, i);
        next = REAL_FMA(p[row], next, q[row] * x[i * stride]);
        x[i * stride] = next;
    }
    if (lines->corner) {
        const REAL around = REAL_FMA((REAL)lines->last, last, next);
        for (int64_t i = 0; i < n; i++)
            x[i * stride] = REAL_FMA(z[POINT_NAME(lines_row)(lines, i)], around, x[i * stride]);
    }
    if (lines->repeats)
        x[n * stride] = x[0];
}

/* Row i of 1 − dt/2 A along a line whose κ is k[]: minus what is beside the diagonal, and that. */
POINT_FUNCTION void POINT_NAME(adi_row)(const struct adi_axis *axis, const REAL *k, int64_t i,
                                        REAL *below, REAL *diagonal, REAL *above)
{
    const int64_t n = axis->lines.n, stride = axis->stride;
    const REAL own = k[i * stride];
    const int side = adi_edge_of(axis, i);
    *below = *above = (REAL)0;
    *diagonal = (REAL)1;
    if ((i == 0 && axis->side[SIDE_LOW].held) || (i == n - 1 && axis->side[SIDE_HIGH].held))
        return;
    if (side >= 0) {
        const struct adi_edge *edge = &axis->edge[side];
        const int64_t inner = i == 0 ? 1 : n - 2;
        const REAL next = (REAL)0.5 * (REAL)edge->next * (k[inner * stride] + own);
        *(i == 0 ? above : below) = next;
        *diagonal = REAL_FMA((REAL)-0.5 * (REAL)edge->own, own, (REAL)1 + next);
        return;
    }
    if (n == 1)
        return;
    const REAL weight = (REAL)0.5 * (REAL)axis->weight;
    *below = weight * (k[(i == 0 ? n - 1 : i - 1) * stride] + own);
    *above = weight * (k[(i == n - 1 ? 0 : i + 1) * stride] + own);
    *diagonal = (REAL)1 + (*below + *above);
    if (n == 2) { /* both neighbours are one */
        const REAL both = *below + *above;
        *below = i ? both : (REAL)0;
        *above = i ? (REAL)0 : both;
    }
}

/* The same where κ is a field, k[] along this line; q and z: room for as many numbers. */
POINT_FUNCTION void POINT_NAME(adi_solve)(const struct adi_axis *axis, const REAL *k, REAL *x,
                                          REAL *q, REAL *z)
{
    const int64_t n = axis->lines.n, stride = axis->stride;
    const int corner = axis->periodic && n > 2;
    REAL below, diagonal, above, first = (REAL)0, before = (REAL)0, low = (REAL)0;
    for (int64_t i = 0; i < n; i++) {
        POINT_NAME(adi_row)(axis, k, i, &below, &diagonal, &above);
        if (corner && i == 0) {
            first = diagonal;
            low = below;
            diagonal = diagonal + diagonal;
            z[0] = -first;
        }
        if (corner && i == n - 1)
            diagonal = REAL_FMA(low, above / first, diagonal);
        if (i > 0) {
            const REAL m = below * q[(i - 1) * stride];
            diagonal = REAL_FMA(-m, before, diagonal);
            x[i * stride] = REAL_FMA(m, x[(i - 1) * stride], x[i * stride]);
            if (corner)
                z[i * stride] = REAL_FMA(m, z[(i - 1) * stride], i == n - 1 ? -above : (REAL)0);
        }
        q[i * stride] = (REAL)1 / diagonal;
        before = above;
    }
    x[(n - 1) * stride] = q[(n - 1) * stride] * x[(n - 1) * stride];
    if (corner)
        z[(n - 1) * stride] = q[(n - 1) * stride] * z[(n - 1) * stride];
    for (int64_t i = n - 2; i >= 0; i--) {
        POINT_NAME(adi_row)(axis, k, i, &below, &diagonal, &above);
        const REAL p = above * q[i * stride];
        x[i * stride] = REAL_FMA(p, x[(i + 1) * stride], q[i * stride] * x[i * stride]);
        if (corner)
            z[i * stride] = REAL_FMA(p, z[(i + 1) * stride], q[i * stride] * z[i * stride]);
    }
    if (corner) {
        const REAL last = low / first;
        const REAL around = REAL_FMA(last, x[(n - 1) * stride], x[0]) /
                            ((REAL)1 + REAL_FMA(last, z[(n - 1) * stride], z[0]));
        for (int64_t i = 0; i < n; i++)
            x[i * stride] = REAL_FMA(-z[i * stride], around, x[i * stride]);
    }
    if (axis->lines.repeats)
        x[n * stride] = x[0];
}
