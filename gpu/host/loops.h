/* The loops of one element type: REAL, REAL_FMA, POINT_NAME and NAME are defined by kernels.c. Each
 * loop runs along x and gives, point by point, the operations of gpu/point.h in their order. */

/* One addend of a point: weight × a, or weight × (a + b). */
struct NAME(term) {
    REAL weight;
    const REAL *a, *b; /* b: NULL where there is one */
};

/* What the points of one line need beside the line itself. */
struct NAME(line) {
    const struct plan *plan;
    const REAL *f; /* its first point */
    int centred;   /* bits of y and z where they are active and centred here */
    int others;    /* active axes of y and z … */
    bool pairs;    /* … all of them centred */
    /* The rows m points above and below, y before z. */
    const REAL *above[2][PLAN_RADIUS + 1], *below[2][PLAN_RADIUS + 1];
    const double *c[2];
    /* The same and closures as terms in their order; for lines and points that are not all centred.
     */
    int terms;
    struct NAME(term) term[2 * PLAN_ROW_POINTS];
};

/* First derivative, centred. */
ALWAYS_INLINE void NAME(odd_radius)(const int radius, REAL *restrict out, const REAL *const *above,
                                    const REAL *const *below, const double *weights, int64_t n)
{
    REAL c[PLAN_RADIUS + 1];
    const REAL *a[PLAN_RADIUS + 1], *b[PLAN_RADIUS + 1];
    for (int m = 1; m <= radius; m++) {
        c[m] = (REAL)weights[m];
        a[m] = above[m];
        b[m] = below[m];
    }
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        REAL acc = c[1] * (a[1][i] - b[1][i]);
        UNROLL
        for (int m = 2; m <= radius; m++)
            acc = REAL_FMA(c[m], a[m][i] - b[m][i], acc);
        out[i] = acc;
    }
}

static void NAME(odd)(int radius, REAL *restrict out, const REAL *const *above,
                      const REAL *const *below, const double *c, int64_t n)
{
    switch (radius) {
    case 1:
        NAME(odd_radius)(1, out, above, below, c, n);
        break;
    case 2:
        NAME(odd_radius)(2, out, above, below, c, n);
        break;
    case 3:
        NAME(odd_radius)(3, out, above, below, c, n);
        break;
    default:
        NAME(odd_radius)(4, out, above, below, c, n);
    }
}

/* A sum of even derivatives along x (where x is true) and `others` of y and z, all centred. f is
 * the line's point `begin`, with its neighbours along x beside it. */
ALWAYS_INLINE void NAME(even_case)(const int radius, const bool x, const int others,
                                   const bool shared, REAL *restrict out, const REAL *f,
                                   const struct NAME(line) * line, int64_t begin, int64_t n)
{
    const struct plan *plan = line->plan;
    const REAL centre = (REAL)plan->centre[line->centred | (x ? 1 << AXIS_X : 0)];
    REAL cx[PLAN_RADIUS + 1], c[2][PLAN_RADIUS + 1];
    const REAL *a[2][PLAN_RADIUS + 1], *b[2][PLAN_RADIUS + 1];
    for (int m = 1; m <= radius; m++) {
        cx[m] = (REAL)(x ? plan->axis[AXIS_X].c[m] : line->c[0][m]);
        UNROLL
        for (int t = 0; t < others; t++) {
            c[t][m] = (REAL)line->c[t][m];
            a[t][m] = line->above[t][m] + begin;
            b[t][m] = line->below[t][m] + begin;
        }
    }
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        REAL acc = centre * f[i];
        if (shared) {
            UNROLL
            for (int m = 1; m <= radius; m++) {
                REAL sum = x ? f[i + m] + f[i - m] : a[0][m][i] + b[0][m][i];
                UNROLL
                for (int t = x ? 0 : 1; t < others; t++)
                    sum = sum + (a[t][m][i] + b[t][m][i]);
                acc = REAL_FMA(cx[m], sum, acc);
            }
        } else {
            UNROLL
            for (int m = 1; x && m <= radius; m++)
                acc = REAL_FMA(cx[m], f[i + m] + f[i - m], acc);
            UNROLL
            for (int t = 0; t < others; t++)
                UNROLL
            for (int m = 1; m <= radius; m++)
                acc = REAL_FMA(c[t][m], a[t][m][i] + b[t][m][i], acc);
        }
        out[i] = acc;
    }
}

ALWAYS_INLINE void NAME(even_radius)(const int radius, REAL *restrict out, const REAL *f,
                                     const struct NAME(line) * line, int64_t begin, int64_t n)
{
    const bool shared = line->plan->shared;
    if (!line->plan->axis[AXIS_X].active)
        NAME(even_case)(radius, false, 1, true, out, f, line, begin, n);
    else if (line->others == 0)
        NAME(even_case)(radius, true, 0, true, out, f, line, begin, n);
    else if (line->others == 1 && shared)
        NAME(even_case)(radius, true, 1, true, out, f, line, begin, n);
    else if (line->others == 1)
        NAME(even_case)(radius, true, 1, false, out, f, line, begin, n);
    else if (shared)
        NAME(even_case)(radius, true, 2, true, out, f, line, begin, n);
    else
        NAME(even_case)(radius, true, 2, false, out, f, line, begin, n);
}

static void NAME(even)(REAL *restrict out, const REAL *f, const struct NAME(line) * line,
                       int64_t begin, int64_t n)
{
    switch (line->plan->radius) {
    case 1:
        NAME(even_radius)(1, out, f, line, begin, n);
        break;
    case 2:
        NAME(even_radius)(2, out, f, line, begin, n);
        break;
    case 3:
        NAME(even_radius)(3, out, f, line, begin, n);
        break;
    default:
        NAME(even_radius)(4, out, f, line, begin, n);
    }
}

/* out = acc + the term, for points from `begin`. */
static void NAME(add_term)(REAL *restrict out, const struct NAME(term) * term, int64_t begin,
                           int64_t n)
{
    const REAL w = term->weight;
    const REAL *a = term->a + begin;
    if (term->b) {
        const REAL *b = term->b + begin;
        INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            out[i] = REAL_FMA(w, a[i] + b[i], out[i]);
    } else {
        INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            out[i] = REAL_FMA(w, a[i], out[i]);
    }
}

/* The same sum as NAME(even), one term after another, for lines where y or z uses a closure. */
static void NAME(even_terms)(REAL *restrict out, const REAL *f, const struct NAME(line) * line,
                             int64_t begin, int64_t n)
{
    const struct plan *plan = line->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X];
    const int centred = line->centred | (x->active ? 1 << AXIS_X : 0);
    const REAL centre = (REAL)plan->centre[centred];
    if (centred || plan->identity) {
        INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            out[i] = centre * f[i];
    } else {
        memset(out, 0, (size_t)n * sizeof *out);
    }
    for (int m = 1; x->active && m <= plan->radius; m++) {
        const struct NAME(term) pair = {(REAL)x->c[m], f + m, f - m};
        NAME(add_term)(out, &pair, 0, n);
    }
    for (int t = 0; t < line->terms; t++)
        NAME(add_term)(out, &line->term[t], begin, n);
}

/* One point where x uses closure `row` of `side`. */
static REAL NAME(closure_point)(const struct NAME(line) * line, int64_t i, int side, int row)
{
    const struct plan *plan = line->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X];
    const REAL *f = line->f + i;
    if (plan->parity == PLAN_ODD)
        return POINT_NAME(closure)(x, side, row, i, f, 1, 1, (REAL)0);
    REAL acc = line->centred || plan->identity ? (REAL)plan->centre[line->centred] * *f : (REAL)0;
    acc = POINT_NAME(closure)(x, side, row, i, f, 0, 0, acc);
    for (int t = 0; t < line->terms; t++) {
        const struct NAME(term) *term = &line->term[t];
        acc = REAL_FMA(term->weight, term->b ? term->a[i] + term->b[i] : term->a[i], acc);
    }
    return acc;
}

/* Find the rows that the line at (y, z) reads. */
static void NAME(line_init)(struct NAME(line) * line, const struct plan *plan, const REAL *f,
                            const int64_t at[AXIS_COUNT])
{
    line->plan = plan;
    line->f = f;
    line->centred = line->others = line->terms = 0;
    line->pairs = true;
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (!axis->active)
            continue;
        int side = 0;
        const int row = POINT_NAME(row)(axis, at[a], &side);
        if (row >= 0) {
            line->pairs = false;
            for (int k = 0; k < axis->row_points; k++) {
                const int64_t distance = axis->start[row] + k;
                const int64_t j = side == SIDE_LOW ? distance : axis->n - 1 - distance;
                const REAL w = (REAL)axis->row[row][k];
                line->term[line->terms++] =
                    (struct NAME(term)){plan->parity == PLAN_ODD && side == SIDE_HIGH ? -w : w,
                                        f + (j - at[a]) * axis->stride, NULL};
            }
            continue;
        }
        const int t = line->others++;
        line->centred |= 1 << a;
        line->c[t] = axis->c;
        for (int m = 1; m <= plan->radius; m++) {
            const REAL *above = f + (POINT_NAME(index)(axis, at[a] + m) - at[a]) * axis->stride;
            const REAL *below = f + (POINT_NAME(index)(axis, at[a] - m) - at[a]) * axis->stride;
            line->above[t][m] = above;
            line->below[t][m] = below;
            line->term[line->terms++] = (struct NAME(term)){(REAL)axis->c[m], above, below};
        }
    }
}

/* n points from `begin` on, none of them claimed or with a closure along x. f is point `begin`;
 * where x is active its neighbours stand beside it. */
static void NAME(centred_points)(const struct NAME(line) * line, const REAL *f, int64_t begin,
                                 int64_t n, REAL *restrict out)
{
    const struct plan *plan = line->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X];
    if (plan->parity == PLAN_EVEN) {
        if (line->pairs)
            NAME(even)(out, f, line, begin, n);
        else
            NAME(even_terms)(out, f, line, begin, n);
        return;
    }
    if (!line->pairs) {
        const struct NAME(term) *term = line->term;
        for (int64_t i = 0; i < n; i++)
            out[i] = term->weight * term->a[begin + i];
        for (int t = 1; t < line->terms; t++)
            NAME(add_term)(out, &term[t], begin, n);
        return;
    }
    const REAL *above[PLAN_RADIUS + 1], *below[PLAN_RADIUS + 1];
    for (int m = 1; m <= plan->radius; m++) {
        above[m] = x->active ? f + m : line->above[0][m] + begin;
        below[m] = x->active ? f - m : line->below[0][m] + begin;
    }
    NAME(odd)(plan->radius, out, above, below, x->active ? x->c : line->c[0], n);
}

/* The same for points whose neighbours along x may lie outside: they are brought beside them first.
 */
static void NAME(centred_edge)(const struct NAME(line) * line, int64_t begin, int64_t end,
                               REAL *restrict out)
{
    const struct plan_axis *x = &line->plan->axis[AXIS_X];
    const int radius = line->plan->radius;
    REAL padded[SHORT + 2 * PLAN_RADIUS];
    REAL *first = padded + PLAN_RADIUS; /* point `begin` */
    const int64_t low = begin < radius ? 0 : begin - radius;
    const int64_t high = end > x->n - radius ? x->n : end + radius;
    for (int64_t i = begin - radius; i < low; i++)
        first[i - begin] = line->f[POINT_NAME(index)(x, i)];
    memcpy(first + (low - begin), line->f + low, (size_t)(high - low) * sizeof *first);
    for (int64_t i = high; i < end + radius; i++)
        first[i - begin] = line->f[POINT_NAME(index)(x, i)];
    NAME(centred_points)(line, first, begin, end - begin, out);
}

/* Points [begin, end), wherever they are. */
static void NAME(centred_block)(const struct NAME(line) * line, int64_t begin, int64_t end,
                                REAL *restrict out)
{
    const struct plan_axis *x = &line->plan->axis[AXIS_X];
    const int64_t radius = x->active ? line->plan->radius : 0;
    if (end - begin <= SHORT && (begin < radius || end > x->n - radius)) {
        NAME(centred_edge)(line, begin, end, out);
        return;
    }
    const int64_t from = begin < radius ? radius : begin;
    const int64_t to = end > x->n - radius ? x->n - radius : end;
    if (begin < from)
        NAME(centred_edge)(line, begin, from, out);
    NAME(centred_points)(line, line->f + from, from, to - from, out + (from - begin));
    if (to < end)
        NAME(centred_edge)(line, to, end, out + (to - begin));
}

/* Points [begin, end) of a line, none of them claimed. */
static void NAME(line_compute)(const struct NAME(line) * line, int64_t begin, int64_t end,
                               REAL *out, bool stream)
{
    const struct plan_axis *x = &line->plan->axis[AXIS_X];
    const int64_t low = x->side[SIDE_LOW].rows, high = x->n - x->side[SIDE_HIGH].rows;
    for (; begin < end && begin < low; begin++)
        out[begin] = NAME(closure_point)(line, begin, SIDE_LOW, (int)begin);
    for (; end > begin && end > high; end--)
        out[end - 1] = NAME(closure_point)(line, end - 1, SIDE_HIGH, (int)(x->n - end));
    for (int64_t next; begin < end; begin = next) {
        next = end - begin > BLOCK ? begin + BLOCK : end;
        if (stream) {
            REAL buffer[BLOCK] __attribute__((aligned(64)));
            NAME(centred_block)(line, begin, next, buffer);
            stream_copy(out + begin, buffer, (size_t)(next - begin) * sizeof *buffer);
        } else {
            NAME(centred_block)(line, begin, next, out + begin);
        }
    }
}

/* Points [begin, end) that a side claims. */
static void NAME(line_claim)(const struct tile *tile, const struct plan_side *side, const REAL *f,
                             REAL *out, int64_t begin, int64_t end)
{
    const REAL value = (REAL)side->claim_value;
    if (!side->claim_scales)
        for (int64_t i = begin; i < end; i++)
            out[i] = value;
    else if (tile->impose)
        for (int64_t i = begin; i < end; i++)
            out[i] = f[i];
    else
        for (int64_t i = begin; i < end; i++)
            out[i] = value * f[i];
}

/* The side of y or z that claims a whole line; NULL where none does. */
static const struct plan_side *NAME(claim_of_line)(const struct plan *plan,
                                                   const int64_t at[AXIS_COUNT])
{
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (at[a] < axis->side[SIDE_LOW].claim)
            return &axis->side[SIDE_LOW];
        if (axis->n - 1 - at[a] < axis->side[SIDE_HIGH].claim)
            return &axis->side[SIDE_HIGH];
    }
    return NULL;
}

static void NAME(line_run)(const struct tile *tile, const REAL *f, REAL *out,
                           const int64_t at[AXIS_COUNT])
{
    const struct plan *plan = tile->plan;
    int64_t begin = tile->begin[AXIS_X], end = tile->end[AXIS_X];
    if (plan->claims) {
        const struct plan_axis *x = &plan->axis[AXIS_X];
        const int64_t low = x->side[SIDE_LOW].claim, high = x->n - x->side[SIDE_HIGH].claim;
        if (begin < low) {
            const int64_t stop = low < end ? low : end;
            NAME(line_claim)(tile, &x->side[SIDE_LOW], f, out, begin, stop);
            begin = stop;
        }
        if (end > high) {
            const int64_t start = high > begin ? high : begin;
            NAME(line_claim)(tile, &x->side[SIDE_HIGH], f, out, start, end);
            end = start;
        }
        const struct plan_side *claim = NAME(claim_of_line)(plan, at);
        if (claim) {
            NAME(line_claim)(tile, claim, f, out, begin, end);
            return;
        }
    }
    if (begin >= end)
        return;
    if (tile->impose) {
        memcpy(out + begin, f + begin, (size_t)(end - begin) * sizeof *out);
        return;
    }
    struct NAME(line) line;
    NAME(line_init)(&line, plan, f, at);
    NAME(line_compute)(&line, begin, end, out, tile->stream);
}

static void NAME(tile)(const struct tile *tile)
{
    const struct plan_axis *axis = tile->plan->axis;
    int64_t at[AXIS_COUNT] = {0};
    for (at[AXIS_Z] = tile->begin[AXIS_Z]; at[AXIS_Z] < tile->end[AXIS_Z]; at[AXIS_Z]++)
        for (at[AXIS_Y] = tile->begin[AXIS_Y]; at[AXIS_Y] < tile->end[AXIS_Y]; at[AXIS_Y]++) {
            const int64_t line =
                (tile->field * axis[AXIS_Z].n + at[AXIS_Z]) * axis[AXIS_Y].n + at[AXIS_Y];
            if ((uint64_t)line < tile->from || (uint64_t)line >= tile->to)
                continue;
            const int64_t offset = line * axis[AXIS_X].n;
            if (tile->plan->form != PLAN_SCALAR) {
                NAME(nabla_line)(tile, offset, at);
                continue;
            }
            NAME(line_run)(tile, (const REAL *)tile->in + offset, (REAL *)tile->out + offset, at);
        }
    if (tile->stream)
        stream_end();
}
