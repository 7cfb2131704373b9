/* A step of Crank–Nicolson split by axes (numerics/adi.h), evaluated: the contract of
 * docs/NUMERICS.md in code, for C and CUDA alike. The host's and the device's fast loops must give
 * these bits.
 *
 * Included once per element type with REAL, REAL_FMA(a, b, c), POINT_NAME(name) and POINT_FUNCTION
 * defined, and ADI_LANES, the most lines of a field κ that are swept at once, unless it is 1.
 * Arrays begin at one field of the batch, number `field`. */

#include <stdint.h>

#ifndef ADI_LANES
#define ADI_LANES 1
#endif

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
    const int64_t period = axis->lines.n, over = period > 1 ? axis->n - period : 0;
    const int64_t inside = i < 0 ? period - 1 : i < axis->n ? i : over;
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

/* --- κ is a number: rows [begin, end) of `count` lines, LINES_TOGETHER at most, whose sums do not
 * wait for each other ---
 *
 * From one line to the next it is `apart` elements; all arrays are at row begin: the whole line, or
 * what a subdomain has of it (struct leg). factors: the table's at lines->at. */

POINT_FUNCTION void POINT_NAME(lines_forward)(const struct tridiagonal *lines, const REAL *factors,
                                              REAL *x, int64_t stride, int64_t apart, int count,
                                              int64_t begin, int64_t end)
{
    REAL y[LINES_TOGETHER];
    for (int l = 0; l < count; l++)
        y[l] = begin > 0 ? x[l * apart - stride] : x[l * apart];
    x += begin > 0 ? 0 : stride;
    for (int64_t i = begin > 0 ? begin : 1; i < end; i++, x += stride) {
        const REAL m = factors[POINT_NAME(lines_row)(lines, i)];
        for (int l = 0; l < count; l++)
            x[l * apart] = y[l] = REAL_FMA(m, y[l], x[l * apart]);
    }
}

POINT_FUNCTION void POINT_NAME(lines_back)(const struct tridiagonal *lines, const REAL *factors,
                                           REAL *x, int64_t stride, int64_t apart, int count,
                                           int64_t begin, int64_t end)
{
    const REAL *p = factors + lines->count, *q = p + lines->count;
    REAL next[LINES_TOGETHER];
    x += (end - begin) * stride;
    if (begin < end && end == lines->n) {
        const REAL scale = q[POINT_NAME(lines_row)(lines, --end)];
        x -= stride;
        for (int l = 0; l < count; l++)
            x[l * apart] = scale * x[l * apart];
    }
    for (int l = 0; l < count; l++)
        next[l] = x[l * apart];
    for (int64_t i = end - 1; i >= begin; i--) {
        const int64_t row = POINT_NAME(lines_row)(lines, i);
        const REAL weight = p[row], scale = q[row];
        x -= stride;
        for (int l = 0; l < count; l++)
            x[l * apart] = next[l] = REAL_FMA(weight, next[l], scale * x[l * apart]);
    }
}

/* What the unknowns of a periodic line are corrected by: of the first one and the last. */
POINT_FUNCTION REAL POINT_NAME(lines_around)(const struct tridiagonal *lines, REAL first, REAL last)
{
    return REAL_FMA((REAL)lines->last, last, first);
}

POINT_FUNCTION void POINT_NAME(lines_close)(const struct tridiagonal *lines, const REAL *factors,
                                            REAL *x, int64_t stride, int64_t apart, int count,
                                            int64_t begin, int64_t end, const REAL *around)
{
    const REAL *z = factors + 3 * lines->count;
    REAL by[LINES_TOGETHER];
    for (int l = 0; l < count; l++)
        by[l] = around[l];
    for (int64_t i = begin; i < end; i++, x += stride) {
        const REAL weight = z[POINT_NAME(lines_row)(lines, i)];
        for (int l = 0; l < count; l++)
            x[l * apart] = REAL_FMA(weight, by[l], x[l * apart]);
    }
}

/* Solve whole lines in place. */
POINT_FUNCTION void POINT_NAME(lines_solve_together)(const struct tridiagonal *lines,
                                                     const REAL *factors, REAL *x, int64_t stride,
                                                     int64_t apart, int count)
{
    const int64_t n = lines->n;
    REAL around[LINES_TOGETHER];
    POINT_NAME(lines_forward)(lines, factors, x, stride, apart, count, 0, n);
    POINT_NAME(lines_back)(lines, factors, x, stride, apart, count, 0, n);
    for (int l = 0; l < count; l++)
        around[l] = POINT_NAME(lines_around)(lines, x[l * apart], x[l * apart + (n - 1) * stride]);
    if (lines->corner)
        POINT_NAME(lines_close)(lines, factors, x, stride, apart, count, 0, n, around);
    for (int l = 0; lines->repeats && l < count; l++)
        x[l * apart + n * stride] = x[l * apart];
}

POINT_FUNCTION void POINT_NAME(lines_solve)(const struct tridiagonal *lines, const REAL *factors,
                                            REAL *x, int64_t stride)
{
    POINT_NAME(lines_solve_together)(lines, factors, x, stride, 0, 1);
}

/* --- κ is a field --- */

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

/* Lines, ADI_LANES at most, and of each the rows [begin, end), at the first of which the arrays
 * begin: the whole line, or what a subdomain has of it (struct leg). */
struct POINT_NAME(adi_lines) {
    const struct adi_axis *axis;
    const REAL *k, *zero; /* zero: at row 0, which the last row asks for, `around` from it */
    REAL *x, *q, *z;      /* q and z: room for as many numbers; z: NULL unless the line is closed */
    int64_t apart, count; /* elements from one line to the next; lines */
    int64_t begin, end, around; /* around: adi_row()'s */
};

/* Row i of each: its elements, and what the row before has above its diagonal. */
struct POINT_NAME(adi_rows) {
    REAL below[ADI_LANES], diagonal[ADI_LANES], above[ADI_LANES], before[ADI_LANES];
};

POINT_FUNCTION void POINT_NAME(adi_rows_of)(const struct POINT_NAME(adi_lines) lines, int64_t i,
                                            struct POINT_NAME(adi_rows) * rows)
{
    const int64_t stride = lines.axis->stride, apart = lines.apart;
    const bool is_last = i == lines.axis->lines.n - 1;
    const REAL *k =
        is_last ? lines.zero + lines.around * stride : lines.k + (i - lines.begin) * stride;
    if (i == 0 || is_last) {
        for (int64_t l = 0; l < lines.count; l++)
            POINT_NAME(adi_row)
        (lines.axis, k + l * apart, i, lines.around, &rows->below[l], &rows->diagonal[l],
         &rows->above[l]);
        return;
    }
    const REAL weight = (REAL)0.5 * (REAL)lines.axis->weight;
    for (int64_t l = 0; l < lines.count; l++) {
        rows->below[l] = weight * (k[l * apart - stride] + k[l * apart]);
        rows->above[l] = weight * (k[l * apart + stride] + k[l * apart]);
        rows->diagonal[l] = (REAL)1 + (rows->below[l] + rows->above[l]);
    }
}

/* The corner's part in the last row's diagonal. */
POINT_FUNCTION void POINT_NAME(adi_last_row)(const struct POINT_NAME(adi_lines) lines,
                                             struct POINT_NAME(adi_rows) * rows)
{
    for (int64_t l = 0; l < lines.count; l++) {
        REAL low, first, next;
        POINT_NAME(adi_row)
        (lines.axis, lines.zero + l * lines.apart, 0, lines.around, &low, &first, &next);
        rows->diagonal[l] = REAL_FMA(low, rows->above[l] / first, rows->diagonal[l]);
    }
}

POINT_FUNCTION void POINT_NAME(adi_forward)(const struct POINT_NAME(adi_lines) lines)
{
    const int64_t n = lines.axis->lines.n, stride = lines.axis->stride, apart = lines.apart;
    struct POINT_NAME(adi_rows) rows;
    if (lines.begin > 0)
        POINT_NAME(adi_rows_of)(lines, lines.begin - 1, &rows);
    for (int64_t l = 0; lines.begin > 0 && l < lines.count; l++)
        rows.before[l] = rows.above[l];
    for (int64_t i = lines.begin; i < lines.end; i++) {
        const int64_t at = (i - lines.begin) * stride;
        REAL *x = lines.x + at, *q = lines.q + at, *z = lines.z ? lines.z + at : lines.z;
        POINT_NAME(adi_rows_of)(lines, i, &rows);
        for (int64_t l = 0; lines.z && i == 0 && l < lines.count; l++) {
            z[l * apart] = -rows.diagonal[l];
            rows.diagonal[l] += rows.diagonal[l];
        }
        if (lines.z && i == n - 1)
            POINT_NAME(adi_last_row)(lines, &rows);
        for (int64_t l = 0; i > 0 && l < lines.count; l++) {
            const REAL m = rows.below[l] * q[l * apart - stride];
            rows.diagonal[l] = REAL_FMA(-m, rows.before[l], rows.diagonal[l]);
            x[l * apart] = REAL_FMA(m, x[l * apart - stride], x[l * apart]);
            rows.below[l] = m;
        }
        for (int64_t l = 0; lines.z && i > 0 && l < lines.count; l++)
            z[l * apart] = REAL_FMA(rows.below[l], z[l * apart - stride],
                                    i == n - 1 ? -rows.above[l] : (REAL)0);
        for (int64_t l = 0; l < lines.count; l++) {
            q[l * apart] = (REAL)1 / rows.diagonal[l];
            rows.before[l] = rows.above[l];
        }
    }
}

POINT_FUNCTION void POINT_NAME(adi_back)(const struct POINT_NAME(adi_lines) lines)
{
    const int64_t n = lines.axis->lines.n, stride = lines.axis->stride, apart = lines.apart;
    struct POINT_NAME(adi_rows) rows;
    for (int64_t i = lines.end - 1; i >= lines.begin; i--) {
        const int64_t at = (i - lines.begin) * stride;
        REAL *x = lines.x + at, *z = lines.z ? lines.z + at : lines.z;
        const REAL *q = lines.q + at;
        if (i == n - 1) {
            for (int64_t l = 0; l < lines.count; l++)
                x[l * apart] = q[l * apart] * x[l * apart];
            for (int64_t l = 0; lines.z && l < lines.count; l++)
                z[l * apart] = q[l * apart] * z[l * apart];
            continue;
        }
        POINT_NAME(adi_rows_of)(lines, i, &rows);
        for (int64_t l = 0; l < lines.count; l++) {
            rows.above[l] = rows.above[l] * q[l * apart];
            x[l * apart] =
                REAL_FMA(rows.above[l], x[l * apart + stride], q[l * apart] * x[l * apart]);
        }
        for (int64_t l = 0; lines.z && l < lines.count; l++)
            z[l * apart] =
                REAL_FMA(rows.above[l], z[l * apart + stride], q[l * apart] * z[l * apart]);
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

/* around: of one line beside another. */
POINT_FUNCTION void POINT_NAME(adi_close)(const struct POINT_NAME(adi_lines) lines,
                                          const REAL *around)
{
    const int64_t end = (lines.end - lines.begin) * lines.axis->stride;
    for (int64_t i = 0; i < end; i += lines.axis->stride)
        for (int64_t l = 0; l < lines.count; l++)
            lines.x[i + l * lines.apart] =
                REAL_FMA(-lines.z[i + l * lines.apart], around[l], lines.x[i + l * lines.apart]);
}

/* Whole lines. z: room where they may be closed, by a corner's solution. */
POINT_FUNCTION struct POINT_NAME(adi_lines)
    POINT_NAME(adi_lines_of)(const struct adi_axis *axis, const REAL *k, REAL *x, REAL *q, REAL *z,
                             int64_t apart, int64_t count)
{
    struct POINT_NAME(adi_lines) lines;
    lines.axis = axis;
    lines.k = lines.zero = k;
    lines.x = x;
    lines.q = q;
    lines.z = axis->periodic && axis->lines.n > 2 ? z : (REAL *)0;
    lines.apart = apart;
    lines.count = count;
    lines.begin = 0;
    lines.end = axis->lines.n;
    lines.around = axis->lines.n - 1;
    return lines;
}

POINT_FUNCTION void POINT_NAME(adi_solve_lines)(const struct POINT_NAME(adi_lines) lines)
{
    const int64_t stride = lines.axis->stride, last = (lines.end - 1) * stride;
    REAL around[ADI_LANES];
    POINT_NAME(adi_forward)(lines);
    POINT_NAME(adi_back)(lines);
    for (int64_t l = 0, at = 0; lines.z && l < lines.count; l++, at += lines.apart)
        around[l] = POINT_NAME(adi_around)(lines.axis, lines.zero + at, lines.around, lines.x[at],
                                           lines.x[last + at], lines.z[at], lines.z[last + at]);
    if (lines.z)
        POINT_NAME(adi_close)(lines, around);
    for (int64_t l = 0; lines.axis->lines.repeats && l < lines.count; l++)
        lines.x[lines.end * stride + l * lines.apart] = lines.x[l * lines.apart];
}

POINT_FUNCTION void POINT_NAME(adi_solve)(const struct adi_axis *axis, const REAL *k, REAL *x,
                                          REAL *q, REAL *z)
{
    POINT_NAME(adi_solve_lines)(POINT_NAME(adi_lines_of)(axis, k, x, q, z, 0, 1));
}

/* --- a leg's sweep --- */

POINT_FUNCTION void POINT_NAME(adi_sweep_lines)(struct POINT_NAME(adi_lines) lines,
                                                const struct leg *leg)
{
    const int64_t stride = lines.axis->stride;
    lines.begin = (int64_t)leg->begin;
    lines.end = adi_leg_end(lines.axis, leg);
    lines.around = -1;
    /* As the last row has it or, where an end point lies there, behind the rows of z (struct
     * leg_copy). */
    const int64_t behind = (lines.end - lines.begin) * stride;
    lines.zero = lines.axis->lines.repeats ? lines.z + behind + 2 * stride : lines.k + behind;
    if (leg->sweep == SWEEP_FORWARD)
        POINT_NAME(adi_forward)(lines);
    else if (leg->sweep == SWEEP_BACK)
        POINT_NAME(adi_back)(lines);
    else if (leg->sweep == SWEEP_CLOSE)
        POINT_NAME(adi_close)(lines, lines.x - stride);
    else
        for (int64_t l = 0, at = 0; l < lines.count; l++, at += lines.apart)
            lines.x[at - stride] =
                POINT_NAME(adi_around)(lines.axis, lines.k + at, -1, lines.x[at],
                                       lines.x[at - stride], lines.z[at], lines.z[at - stride]);
}

/* Along one line. k, q, z: NULL where κ is a number. */
POINT_FUNCTION void POINT_NAME(adi_sweep)(const struct adi *adi, int a, const struct leg *leg,
                                          const REAL *k, REAL *x, REAL *q, REAL *z)
{
    const struct adi_axis *axis = &adi->axis[a];
    const struct tridiagonal *lines = &axis->lines;
    const REAL *factors = (const REAL *)((const char *)adi + lines->at);
    const int64_t stride = axis->stride, begin = (int64_t)leg->begin, end = adi_leg_end(axis, leg);
    if (k)
        POINT_NAME(adi_sweep_lines)(POINT_NAME(adi_lines_of)(axis, k, x, q, z, 0, 1), leg);
    else if (leg->sweep == SWEEP_FORWARD)
        POINT_NAME(lines_forward)(lines, factors, x, stride, 0, 1, begin, end);
    else if (leg->sweep == SWEEP_BACK)
        POINT_NAME(lines_back)(lines, factors, x, stride, 0, 1, begin, end);
    else if (leg->sweep == SWEEP_CLOSE)
        POINT_NAME(lines_close)(lines, factors, x, stride, 0, 1, begin, end, x - stride);
    else
        x[-stride] = POINT_NAME(lines_around)(lines, x[0], x[-stride]);
}
