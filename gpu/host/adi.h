/* The stages of Crank–Nicolson split by axes, on lines: the bits of numerics/adi_point.h, which is
 * also called where a point is at an edge. Loops along x are plain, for the compiler to make
 * vectors of.
 */

/* Where a line along x begins, and what it is: its y, its z, its field. */
static int64_t NAME(adi_line)(const struct adi *adi, int64_t line, int64_t at[AXIS_COUNT],
                              int64_t *field)
{
    const int64_t ny = adi->axis[AXIS_Y].n, nz = adi->axis[AXIS_Z].n;
    at[AXIS_X] = 0;
    at[AXIS_Y] = line % ny;
    at[AXIS_Z] = line / ny % nz;
    *field = line / ny / nz;
    return line * adi->axis[AXIS_X].n;
}

static void NAME(adi_impose)(const struct adi_work *work, int64_t line)
{
    int64_t at[AXIS_COUNT], field;
    const int64_t begin = NAME(adi_line)(work->adi, line, at, &field);
    const REAL *in = (const REAL *)work->base + begin;
    REAL *out = (REAL *)work->write + begin;
    for (int64_t *i = &at[AXIS_X]; *i < work->adi->axis[AXIS_X].n; ++*i)
        out[*i] = POINT_NAME(adi_impose)(work->adi, work->operands, in[*i], field, at);
}

static void NAME(adi_add)(const struct adi_work *work, int64_t line)
{
    const int64_t n = work->adi->axis[AXIS_X].n;
    const REAL *u = (const REAL *)work->base + line * n, *d = (const REAL *)work->read + line * n;
    REAL *out = (REAL *)work->write + line * n; /* which may be u */
    for (int64_t i = 0; i < n; i++)
        out[i] = u[i] + d[i];
}

/* out += weight × the differences to two other lines. */
static void NAME(adi_lines)(REAL weight, const REAL *f, const REAL *below, const REAL *above,
                            REAL *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = REAL_FMA(weight, (below[i] - f[i]) + (above[i] - f[i]), out[i]);
}

/* The same where κ is a field. */
static void NAME(adi_lines_of)(REAL weight, const REAL *k, const REAL *f, int64_t below,
                               int64_t above, REAL *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const REAL down = (k[below + i] + k[i]) * (f[below + i] - f[i]);
        const REAL up = (k[above + i] + k[i]) * (f[above + i] - f[i]);
        out[i] = REAL_FMA(weight, down + up, out[i]);
    }
}

/* The term of x on the whole of a line, or that of another axis. */
static void NAME(adi_terms)(const struct adi_work *work, int a, const REAL *f, const REAL *k,
                            int64_t field, int64_t at[AXIS_COUNT], REAL *out)
{
    const struct adi *adi = work->adi;
    const struct adi_axis *axis = &adi->axis[a];
    const int64_t n = adi->axis[AXIS_X].n, i = at[a];
    int64_t begin = 0, end = n;
    if (a == AXIS_X) { /* its ends point by point */
        begin = 1;
        end = n - 1;
    } else if (adi_edge_of(axis, i) >= 0) {
        end = 0; /* all of it */
    }
    for (int64_t *x = &at[AXIS_X]; *x < n; ++*x)
        if (*x < begin || *x >= end) {
            const int s = adi_edge_of(axis, at[a]);
            const REAL g =
                s < 0 ? (REAL)0 : POINT_NAME(adi_number)(adi, work->operands, a, s, field, at);
            if (POINT_NAME(adi_holder)(adi, at) < 0)
                out[*x] = POINT_NAME(adi_term)(axis, at[a], f + *x, k ? k + *x : NULL, g, out[*x]);
        }
    at[AXIS_X] = 0;
    if (end <= begin)
        return;
    const int64_t below = a == AXIS_X ? -1 : POINT_NAME(adi_step)(axis, i, i - 1);
    const int64_t above = a == AXIS_X ? 1 : POINT_NAME(adi_step)(axis, i, i + 1);
    f += begin;
    if (k)
        NAME(adi_lines_of)
    ((REAL)axis->weight, k + begin, f, below, above, out + begin, end - begin);
    else NAME(adi_lines)((REAL)axis->weight, f, f + below, f + above, out + begin, end - begin);
}

static void NAME(adi_rate)(const struct adi_work *work, int64_t line)
{
    const struct adi *adi = work->adi;
    const int64_t n = adi->axis[AXIS_X].n;
    int64_t at[AXIS_COUNT], field;
    const int64_t begin = NAME(adi_line)(adi, line, at, &field);
    const REAL *u = (const REAL *)work->base + begin;
    REAL *out = (REAL *)work->write + begin;
    const REAL *k =
        adi->coefficient ? (const REAL *)work->operands->at[OPERAND_COEFFICIENT] + begin : NULL;
    memset(out, 0, (size_t)n * sizeof *out);
    bool held = false;
    for (int a = AXIS_Y; a < AXIS_COUNT; a++)
        held |= at[a] < adi->axis[a].side[SIDE_LOW].held ||
                adi->axis[a].n - 1 - at[a] < adi->axis[a].side[SIDE_HIGH].held;
    if (held)
        return;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (adi->axis[a].active && (work->axis == a || work->axis == AXIS_COUNT))
            NAME(adi_terms)(work, a, u, k, field, at, out);
    const REAL *s = adi->source ? (const REAL *)work->operands->at[OPERAND_SOURCE] + begin : NULL;
    for (int64_t i = 0; work->axis >= AXIS_Z && i < n; i++) /* the source is z's */
        out[i] = REAL_FMA((REAL)adi->dt, s ? s[i] : (REAL)adi->source_value, out[i]);
    if (adi->axis[AXIS_X].side[SIDE_LOW].held)
        out[0] = 0;
    if (adi->axis[AXIS_X].side[SIDE_HIGH].held)
        out[n - 1] = 0;
}

/* --- solves --- */

/* Lines side by side, of which each has one of `points` neighbours in memory: of each the rows
 * [begin, end), with x at row begin, as in numerics/adi_point.h. */
static void NAME(adi_forward_across)(const struct tridiagonal *lines, const REAL *m, REAL *x,
                                     int64_t stride, int64_t points, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        if (i == 0)
            continue;
        const REAL weight = m[POINT_NAME(lines_row)(lines, i)];
        REAL *own = x + (i - begin) * stride;
        const REAL *before = own - stride;
        for (int64_t k = 0; k < points; k++)
            own[k] = REAL_FMA(weight, before[k], own[k]);
    }
}

static void NAME(adi_back_across)(const struct tridiagonal *lines, const REAL *m, REAL *x,
                                  int64_t stride, int64_t points, int64_t begin, int64_t end)
{
    const REAL *p = m + lines->count, *q = p + lines->count;
    for (int64_t i = end - 1; i >= begin; i--) {
        const int64_t row = POINT_NAME(lines_row)(lines, i);
        const REAL weight = p[row], scale = q[row];
        REAL *own = x + (i - begin) * stride;
        const REAL *after = own + stride;
        if (i == lines->n - 1)
            for (int64_t k = 0; k < points; k++)
                own[k] = scale * own[k];
        else
            for (int64_t k = 0; k < points; k++)
                own[k] = REAL_FMA(weight, after[k], scale * own[k]);
    }
}

static void NAME(adi_close_across)(const struct tridiagonal *lines, const REAL *m, REAL *x,
                                   const REAL *around, int64_t stride, int64_t points,
                                   int64_t begin, int64_t end)
{
    const REAL *z = m + 3 * lines->count;
    for (int64_t i = begin; i < end; i++) {
        const REAL weight = z[POINT_NAME(lines_row)(lines, i)];
        REAL *own = x + (i - begin) * stride;
        for (int64_t k = 0; k < points; k++)
            own[k] = REAL_FMA(weight, around[k], own[k]);
    }
}

static void NAME(adi_across)(const struct tridiagonal *lines, const REAL *m, REAL *x,
                             int64_t stride, int64_t points)
{
    const int64_t n = lines->n;
    REAL around[ADI_LANES];
    NAME(adi_forward_across)(lines, m, x, stride, points, 0, n);
    NAME(adi_back_across)(lines, m, x, stride, points, 0, n);
    for (int64_t k = 0; lines->corner && k < points; k++)
        around[k] = POINT_NAME(lines_around)(lines, x[k], x[(n - 1) * stride + k]);
    if (lines->corner)
        NAME(adi_close_across)(lines, m, x, around, stride, points, 0, n);
    if (lines->repeats)
        memcpy(x + n * stride, x, (size_t)points * sizeof *x);
}

/* LINES_TOGETHER lines along x. */
__attribute__((flatten)) static void NAME(adi_along)(const struct tridiagonal *lines, const REAL *m,
                                                     REAL *x, int64_t length)
{
    POINT_NAME(lines_solve_together)(lines, m, x, 1, length, LINES_TOGETHER);
}

/* `count` lines from element `begin` on, `apart` elements from one to the next. */
static struct POINT_NAME(adi_lines)
    NAME(adi_field_of)(const struct adi_work *work, int64_t begin, int64_t apart, int64_t count)
{
    REAL *z = work->spare[1] ? (REAL *)work->spare[1] + begin : NULL;
    return POINT_NAME(adi_lines_of)(
        &work->adi->axis[work->axis], (const REAL *)work->operands->at[OPERAND_COEFFICIENT] + begin,
        (REAL *)work->write + begin, (REAL *)work->spare[0] + begin, z, apart, count);
}

/* Side by side or, along x, of which each is a row: two calls, so that side by side the compiler
 * knows the distance and uses vectors. */
__attribute__((flatten)) static void NAME(adi_solve_field)(const struct adi_work *work,
                                                           int64_t begin, int64_t count)
{
    if (work->axis == AXIS_X)
        POINT_NAME(adi_solve_lines)
    (NAME(adi_field_of)(work, begin, work->adi->axis[AXIS_X].n, count));
    else POINT_NAME(adi_solve_lines)(NAME(adi_field_of)(work, begin, 1, count));
}

/* A leg's sweep of the lines through `count` points of a plane. */
__attribute__((flatten)) static void NAME(adi_sweep_lines)(const struct adi_work *work,
                                                           int64_t first, int64_t count)
{
    const struct leg *leg = work->leg;
    const struct adi_axis *axis = &work->adi->axis[work->axis];
    const struct tridiagonal *lines = &axis->lines;
    const REAL *m = (const REAL *)((const char *)work->adi + lines->at);
    const int64_t begin = (int64_t)leg->begin, end = adi_leg_end(axis, leg), stride = axis->stride;
    REAL *x = (REAL *)work->write + first;
    if (work->adi->coefficient)
        POINT_NAME(adi_sweep_lines)(NAME(adi_field_of)(work, first, 1, count), leg);
    else if (leg->sweep == SWEEP_FORWARD)
        NAME(adi_forward_across)(lines, m, x, stride, count, begin, end);
    else if (leg->sweep == SWEEP_BACK)
        NAME(adi_back_across)(lines, m, x, stride, count, begin, end);
    else if (leg->sweep == SWEEP_CLOSE)
        NAME(adi_close_across)(lines, m, x, x - stride, stride, count, begin, end);
    else
        for (int64_t l = 0; l < count; l++)
            x[l - stride] = POINT_NAME(lines_around)(lines, x[l], x[l - stride]);
}

/* One of adi_units() of a solve. Not inline: beside it the compiler made the rate, which takes half
 * of a step, an eighth slower. */
__attribute__((noinline)) static void NAME(adi_solve)(const struct adi_work *work, int64_t unit)
{
    const struct adi *adi = work->adi;
    const struct adi_axis *axis = &adi->axis[work->axis];
    const int64_t points = axis->stride, length = axis->n * points; /* lines side by side */
    if (work->leg->sweep) {
        const int64_t first = (int64_t)work->leg->first + unit * ADI_LANES;
        const int64_t left = (int64_t)work->leg->last - first;
        NAME(adi_sweep_lines)(work, first, left < ADI_LANES ? left : ADI_LANES);
        return;
    }
    const REAL *factors = (const REAL *)((const char *)adi + axis->lines.at);
    if (work->axis == AXIS_X) {
        const int64_t first = unit * LINES_TOGETHER, left = work->lines - first;
        REAL *x = (REAL *)work->write + first * length;
        if (adi->coefficient) {
            NAME(adi_solve_field)
            (work, first * length, left < LINES_TOGETHER ? left : LINES_TOGETHER);
        } else if (left >= LINES_TOGETHER) {
            NAME(adi_along)(&axis->lines, factors, x, length);
        } else {
            for (int64_t l = first; l < work->lines; l++, x += length)
                POINT_NAME(lines_solve)(&axis->lines, factors, x, 1);
        }
        return;
    }
    const int64_t chunks = (points + ADI_LANES - 1) / ADI_LANES;
    const int64_t first = unit % chunks * ADI_LANES, left = points - first;
    const int64_t begin = unit / chunks * length + first;
    const int64_t count = left < ADI_LANES ? left : ADI_LANES;
    if (adi->coefficient)
        NAME(adi_solve_field)(work, begin, count);
    else
        NAME(adi_across)(&axis->lines, factors, (REAL *)work->write + begin, points, count);
}

static int64_t NAME(adi_units)(const struct adi_work *work)
{
    if (work->kind != STAGE_SOLVE)
        return work->lines;
    const struct adi_axis *axis = &work->adi->axis[work->axis];
    if (!axis->active)
        return 0;
    if (work->leg->sweep)
        return ((int64_t)(work->leg->last - work->leg->first) + ADI_LANES - 1) / ADI_LANES;
    const int64_t all = work->lines * work->adi->axis[AXIS_X].n / axis->n;
    if (work->axis == AXIS_X)
        return (all + LINES_TOGETHER - 1) / LINES_TOGETHER;
    return all / axis->stride * ((axis->stride + ADI_LANES - 1) / ADI_LANES);
}

static void NAME(adi_stage)(void *context, int64_t from, int64_t to)
{
    const struct adi_work *work = context;
    for (int64_t unit = from; unit < to; unit++)
        switch (work->kind) {
        case STAGE_IMPOSE:
            NAME(adi_impose)(work, unit);
            break;
        case STAGE_RATE:
            NAME(adi_rate)(work, unit);
            break;
        case STAGE_ADD:
            NAME(adi_add)(work, unit);
            break;
        default:
            NAME(adi_solve)(work, unit);
            break;
        }
}
