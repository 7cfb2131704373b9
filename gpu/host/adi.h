/* The stages of Crank–Nicolson split by axes, on lines: the bits of numerics/adi_point.h, which is
 * also called where a point is at an edge. Loops along x are plain, for the compiler to make
 * vectors of.
 */

enum { NAME(ADI_CHUNK) = 2048 / sizeof(REAL) };

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
    REAL around[NAME(ADI_CHUNK)];
    NAME(adi_forward_across)(lines, m, x, stride, points, 0, n);
    NAME(adi_back_across)(lines, m, x, stride, points, 0, n);
    for (int64_t k = 0; lines->corner && k < points; k++)
        around[k] = POINT_NAME(lines_around)(lines, x[k], x[(n - 1) * stride + k]);
    if (lines->corner)
        NAME(adi_close_across)(lines, m, x, around, stride, points, 0, n);
    if (lines->repeats)
        memcpy(x + n * stride, x, (size_t)points * sizeof *x);
}

/* ADI_TOGETHER lines along x, whose sums do not wait for each other. */
static void NAME(adi_along)(const struct tridiagonal *lines, const REAL *m, REAL *x, int64_t length)
{
    const REAL *p = m + lines->count, *q = p + lines->count, *z = q + lines->count;
    const int64_t n = lines->n;
    REAL next[ADI_TOGETHER], last[ADI_TOGETHER];
    for (int l = 0; l < ADI_TOGETHER; l++)
        next[l] = x[l * length];
    for (int64_t i = 1; i < n; i++) {
        const REAL weight = m[POINT_NAME(lines_row)(lines, i)];
        for (int l = 0; l < ADI_TOGETHER; l++)
            x[l * length + i] = next[l] = REAL_FMA(weight, next[l], x[l * length + i]);
    }
    const REAL end = q[POINT_NAME(lines_row)(lines, n - 1)];
    for (int l = 0; l < ADI_TOGETHER; l++)
        x[l * length + n - 1] = next[l] = last[l] = end * next[l];
    for (int64_t i = n - 2; i >= 0; i--) {
        const int64_t row = POINT_NAME(lines_row)(lines, i);
        const REAL weight = p[row], scale = q[row];
        for (int l = 0; l < ADI_TOGETHER; l++)
            x[l * length + i] = next[l] = REAL_FMA(weight, next[l], scale * x[l * length + i]);
    }
    for (int l = 0; l < ADI_TOGETHER; l++)
        last[l] = REAL_FMA((REAL)lines->last, last[l], next[l]);
    for (int64_t i = 0; lines->corner && i < n; i++) {
        const REAL weight = z[POINT_NAME(lines_row)(lines, i)];
        for (int l = 0; l < ADI_TOGETHER; l++)
            x[l * length + i] = REAL_FMA(weight, last[l], x[l * length + i]);
    }
    for (int l = 0; lines->repeats && l < ADI_TOGETHER; l++)
        x[l * length + n] = x[l * length];
}

/* Solves where κ is a field: lines `apart` elements from one to the next, and of each the rows
 * [begin, end), at the first of which the arrays begin. */
struct NAME(adi_field_lines) {
    const struct adi_axis *axis;
    const REAL *k, *zero; /* zero: at row 0 */
    REAL *x, *q, *z;      /* z: NULL unless the line is closed */
    int64_t apart, count, begin, end, around;
};

/* Row i of each: its elements, and what the row before has above its diagonal. */
struct NAME(adi_rows) {
    REAL below[NAME(ADI_CHUNK)], diagonal[NAME(ADI_CHUNK)], above[NAME(ADI_CHUNK)];
    REAL before[NAME(ADI_CHUNK)];
};

ALWAYS_INLINE void NAME(adi_rows_of)(const struct NAME(adi_field_lines) lines, int64_t i,
                                     struct NAME(adi_rows) * rows)
{
    const int64_t stride = lines.axis->stride, apart = lines.apart;
    const REAL *k = lines.k + (i - lines.begin) * stride;
    if (i == 0 || i == lines.axis->lines.n - 1) {
        for (int64_t l = 0; l < lines.count; l++) {
            POINT_NAME(adi_row)
            (lines.axis, k + l * apart, i, lines.around, &rows->below[l], &rows->diagonal[l],
             &rows->above[l]);
        }
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
ALWAYS_INLINE void NAME(adi_last_row)(const struct NAME(adi_field_lines) lines,
                                      struct NAME(adi_rows) * rows)
{
    for (int64_t l = 0; l < lines.count; l++) {
        REAL low, first, next;
        POINT_NAME(adi_row)
        (lines.axis, lines.zero + l * lines.apart, 0, lines.around, &low, &first, &next);
        rows->diagonal[l] = REAL_FMA(low, rows->above[l] / first, rows->diagonal[l]);
    }
}

ALWAYS_INLINE void NAME(adi_eliminate)(const struct NAME(adi_field_lines) lines)
{
    const int64_t n = lines.axis->lines.n, stride = lines.axis->stride, apart = lines.apart;
    struct NAME(adi_rows) rows;
    if (lines.begin > 0)
        NAME(adi_rows_of)(lines, lines.begin - 1, &rows);
    for (int64_t l = 0; lines.begin > 0 && l < lines.count; l++)
        rows.before[l] = rows.above[l];
    for (int64_t i = lines.begin; i < lines.end; i++) {
        const int64_t at = (i - lines.begin) * stride;
        REAL *x = lines.x + at, *q = lines.q + at, *z = lines.z ? lines.z + at : NULL;
        NAME(adi_rows_of)(lines, i, &rows);
        for (int64_t l = 0; lines.z && i == 0 && l < lines.count; l++) {
            z[l * apart] = -rows.diagonal[l];
            rows.diagonal[l] += rows.diagonal[l];
        }
        if (lines.z && i == n - 1)
            NAME(adi_last_row)(lines, &rows);
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

ALWAYS_INLINE void NAME(adi_substitute)(const struct NAME(adi_field_lines) lines)
{
    const int64_t n = lines.axis->lines.n, stride = lines.axis->stride, apart = lines.apart;
    struct NAME(adi_rows) rows;
    for (int64_t i = lines.end - 1; i >= lines.begin; i--) {
        const int64_t at = (i - lines.begin) * stride;
        REAL *x = lines.x + at, *z = lines.z ? lines.z + at : NULL;
        const REAL *q = lines.q + at;
        const bool is_last = i == n - 1;
        if (!is_last)
            NAME(adi_rows_of)(lines, i, &rows);
        for (int64_t l = 0; is_last && l < lines.count; l++)
            x[l * apart] = q[l * apart] * x[l * apart];
        for (int64_t l = 0; is_last && lines.z && l < lines.count; l++)
            z[l * apart] = q[l * apart] * z[l * apart];
        for (int64_t l = 0; !is_last && l < lines.count; l++) {
            rows.above[l] = rows.above[l] * q[l * apart];
            x[l * apart] =
                REAL_FMA(rows.above[l], x[l * apart + stride], q[l * apart] * x[l * apart]);
        }
        for (int64_t l = 0; !is_last && lines.z && l < lines.count; l++)
            z[l * apart] =
                REAL_FMA(rows.above[l], z[l * apart + stride], q[l * apart] * z[l * apart]);
    }
}

/* around: of one line beside another. */
ALWAYS_INLINE void NAME(adi_close)(const struct NAME(adi_field_lines) lines, const REAL *around)
{
    const int64_t end = (lines.end - lines.begin) * lines.axis->stride;
    for (int64_t i = 0; i < end; i += lines.axis->stride)
        for (int64_t l = 0; l < lines.count; l++)
            lines.x[i + l * lines.apart] =
                REAL_FMA(-lines.z[i + l * lines.apart], around[l], lines.x[i + l * lines.apart]);
}

ALWAYS_INLINE void NAME(adi_field)(const struct NAME(adi_field_lines) lines)
{
    const int64_t last = (lines.end - 1) * lines.axis->stride;
    REAL around[NAME(ADI_CHUNK)];
    NAME(adi_eliminate)(lines);
    NAME(adi_substitute)(lines);
    for (int64_t l = 0, at = 0; lines.z && l < lines.count; l++, at += lines.apart)
        around[l] = POINT_NAME(adi_around)(lines.axis, lines.zero + at, lines.around, lines.x[at],
                                           lines.x[last + at], lines.z[at], lines.z[last + at]);
    if (lines.z)
        NAME(adi_close)(lines, around);
    for (int64_t l = 0; lines.axis->lines.repeats && l < lines.count; l++)
        lines.x[lines.axis->lines.n * lines.axis->stride + l * lines.apart] =
            lines.x[l * lines.apart];
}

/* `count` lines from element `begin` on, of which one is next to another. */
static struct NAME(adi_field_lines)
    NAME(adi_field_of)(const struct adi_work *work, int64_t begin, int64_t count)
{
    const struct adi_axis *axis = &work->adi->axis[work->axis];
    const REAL *k = (const REAL *)work->operands->at[OPERAND_COEFFICIENT] + begin;
    return (struct NAME(adi_field_lines)){
        .axis = axis,
        .k = k,
        .zero = k,
        .x = (REAL *)work->write + begin,
        .q = (REAL *)work->spare[0] + begin,
        .z = POINT_NAME(adi_corner)(axis) ? (REAL *)work->spare[1] + begin : NULL,
        .apart = 1,
        .count = count,
        .end = axis->lines.n,
        .around = axis->lines.n - 1};
}

/* The same or, along x, one is a row. */
static void NAME(adi_solve_field)(const struct adi_work *work, int64_t begin, int64_t count)
{
    struct NAME(adi_field_lines) lines = NAME(adi_field_of)(work, begin, count);
    /* Called twice, so that side by side the compiler knows the distance and uses vectors. */
    if (work->axis == AXIS_X) {
        lines.apart = lines.axis->n;
        NAME(adi_field)(lines);
    } else {
        lines.apart = 1;
        NAME(adi_field)(lines);
    }
}

/* A leg's sweep of the lines through `count` points of a plane. */
static void NAME(adi_sweep_lines)(const struct adi_work *work, int64_t first, int64_t count)
{
    const struct adi_axis *axis = &work->adi->axis[work->axis];
    const struct tridiagonal *of = &axis->lines;
    const REAL *m = (const REAL *)((const char *)work->adi + of->at);
    const int64_t begin = (int64_t)work->leg->begin, end = adi_leg_end(axis, work->leg);
    const int64_t stride = axis->stride;
    const bool is_field = work->adi->coefficient;
    struct NAME(adi_field_lines) lines = {0};
    REAL *x = (REAL *)work->write + first;
    if (is_field) {
        lines = NAME(adi_field_of)(work, first, count);
        lines.zero += (end - begin) * stride; /* as the last row has it */
        lines.begin = begin;
        lines.end = end;
        lines.around = -1;
    }
    if (work->leg->sweep == SWEEP_FORWARD && is_field)
        NAME(adi_eliminate)(lines);
    else if (work->leg->sweep == SWEEP_FORWARD)
        NAME(adi_forward_across)(of, m, x, stride, count, begin, end);
    else if (work->leg->sweep == SWEEP_BACK && is_field)
        NAME(adi_substitute)(lines);
    else if (work->leg->sweep == SWEEP_BACK)
        NAME(adi_back_across)(of, m, x, stride, count, begin, end);
    else if (work->leg->sweep == SWEEP_CLOSE && is_field)
        NAME(adi_close)(lines, x - stride);
    else if (work->leg->sweep == SWEEP_CLOSE)
        NAME(adi_close_across)(of, m, x, x - stride, stride, count, begin, end);
    else
        for (int64_t l = 0; l < count; l++)
            POINT_NAME(adi_sweep)
    (work->adi, work->axis, work->leg, is_field ? lines.k + l : NULL, x + l, NULL,
     is_field ? lines.z + l : NULL);
}

/* One of adi_units() of a solve. Not inline: beside it the compiler made the rate, which takes half
 * of a step, an eighth slower. */
__attribute__((noinline)) static void NAME(adi_solve)(const struct adi_work *work, int64_t unit)
{
    const struct adi *adi = work->adi;
    const struct adi_axis *axis = &adi->axis[work->axis];
    const int64_t points = axis->stride, length = axis->n * points; /* lines side by side */
    if (work->leg->sweep) {
        const int64_t first = (int64_t)work->leg->first + unit * NAME(ADI_CHUNK);
        const int64_t left = (int64_t)work->leg->last - first;
        NAME(adi_sweep_lines)(work, first, left < NAME(ADI_CHUNK) ? left : NAME(ADI_CHUNK));
        return;
    }
    const REAL *factors = (const REAL *)((const char *)adi + axis->lines.at);
    if (work->axis == AXIS_X) {
        const int64_t first = unit * ADI_TOGETHER, left = work->lines - first;
        REAL *x = (REAL *)work->write + first * length;
        if (adi->coefficient) {
            NAME(adi_solve_field)(work, first * length, left < ADI_TOGETHER ? left : ADI_TOGETHER);
        } else if (left >= ADI_TOGETHER) {
            NAME(adi_along)(&axis->lines, factors, x, length);
        } else {
            for (int64_t l = first; l < work->lines; l++, x += length)
                POINT_NAME(lines_solve)(&axis->lines, factors, x, 1);
        }
        return;
    }
    const int64_t chunks = (points + NAME(ADI_CHUNK) - 1) / NAME(ADI_CHUNK);
    const int64_t first = unit % chunks * NAME(ADI_CHUNK), left = points - first;
    const int64_t begin = unit / chunks * length + first;
    const int64_t count = left < NAME(ADI_CHUNK) ? left : NAME(ADI_CHUNK);
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
        return ((int64_t)(work->leg->last - work->leg->first) + NAME(ADI_CHUNK) - 1) /
               NAME(ADI_CHUNK);
    const int64_t all = work->lines * work->adi->axis[AXIS_X].n / axis->n;
    if (work->axis == AXIS_X)
        return (all + ADI_TOGETHER - 1) / ADI_TOGETHER;
    return all / axis->stride * ((axis->stride + NAME(ADI_CHUNK) - 1) / NAME(ADI_CHUNK));
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
