/* Gradient, divergence and curl of one element type: REAL, REAL_FMA, POINT_NAME and NAME are
 * defined by kernels.c. A line is worked on a block at a time: the first derivatives of a block are
 * computed one after another, each as it is alone, and added while they are in the first cache, so
 * that memory is read and written once. */

/* A first derivative of points that are all centred: rows above and below them. */
ALWAYS_INLINE void NAME(nabla_radius)(const int radius, REAL *restrict out,
                                      const REAL *const *above, const REAL *const *below,
                                      const double *weights, int64_t n)
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

static void NAME(nabla_centred)(int radius, REAL *restrict out, const REAL *const *above,
                                const REAL *const *below, const double *c, int64_t n)
{
    switch (radius) {
    case 1:
        NAME(nabla_radius)(1, out, above, below, c, n);
        break;
    case 2:
        NAME(nabla_radius)(2, out, above, below, c, n);
        break;
    case 3:
        NAME(nabla_radius)(3, out, above, below, c, n);
        break;
    default:
        NAME(nabla_radius)(4, out, above, below, c, n);
    }
}

/* ∂f/∂x of points [begin, end) of the line at y and z whose first point is *f. */
static void NAME(nabla_x)(const struct plan *plan, const REAL *f, const int64_t place[AXIS_COUNT],
                          int64_t begin, int64_t end, REAL *restrict out)
{
    const struct plan_axis *x = &plan->axis[AXIS_X];
    const REAL *above[PLAN_RADIUS + 1], *below[PLAN_RADIUS + 1];
    int64_t at[AXIS_COUNT] = {begin, place[AXIS_Y], place[AXIS_Z]};
    int64_t stop = x->n - plan->radius < end ? x->n - plan->radius : end;
    for (; at[AXIS_X] < end && at[AXIS_X] < plan->radius; at[AXIS_X]++)
        out[at[AXIS_X] - begin] = POINT_NAME(first)(plan, AXIS_X, f + at[AXIS_X], at);
    if (at[AXIS_X] < stop) {
        for (int m = 1; m <= plan->radius; m++) {
            above[m] = f + at[AXIS_X] + m;
            below[m] = f + at[AXIS_X] - m;
        }
        NAME(nabla_centred)
        (plan->radius, out + (at[AXIS_X] - begin), above, below, x->c, stop - at[AXIS_X]);
        at[AXIS_X] = stop;
    }
    for (; at[AXIS_X] < end; at[AXIS_X]++)
        out[at[AXIS_X] - begin] = POINT_NAME(first)(plan, AXIS_X, f + at[AXIS_X], at);
}

/* ∂f/∂a of the same points, a = y or z. */
static void NAME(nabla_across)(const struct plan *plan, int a, const REAL *f,
                               const int64_t at[AXIS_COUNT], int64_t begin, int64_t end,
                               REAL *restrict out)
{
    const struct plan_axis *axis = &plan->axis[a];
    const REAL *above[PLAN_RADIUS + 1], *below[PLAN_RADIUS + 1];
    const int64_t n = end - begin;
    int side = 0;
    const int row = POINT_NAME(row)(axis, at[a], &side);
    f += begin;
    for (int k = 0; row >= 0 && k < axis->row_points; k++) {
        const int64_t distance = axis->start[row] + k;
        const int64_t j = side == SIDE_LOW ? distance : axis->n - 1 - distance;
        const REAL *g = f + (j - at[a]) * axis->stride;
        const REAL weight = (REAL)axis->row[row][k], w = side == SIDE_HIGH ? -weight : weight;
        if (k == 0) {
            INDEPENDENT
            for (int64_t i = 0; i < n; i++)
                out[i] = w * g[i];
        } else {
            INDEPENDENT
            for (int64_t i = 0; i < n; i++)
                out[i] = REAL_FMA(w, g[i], out[i]);
        }
    }
    if (row >= 0)
        return;
    for (int m = 1; m <= plan->radius; m++) {
        above[m] = f + (POINT_NAME(index)(axis, at[a] + m) - at[a]) * axis->stride;
        below[m] = f + (POINT_NAME(index)(axis, at[a] - m) - at[a]) * axis->stride;
    }
    NAME(nabla_centred)(plan->radius, out, above, below, axis->c, n);
}

/* One component of the result, for points [begin, end) of a line; at most BLOCK. fields: the line's
 * first point, by component. */
static void NAME(nabla_block)(const struct plan *plan, const REAL *const fields[AXIS_COUNT],
                              int component, const int64_t at[AXIS_COUNT], int64_t begin,
                              int64_t end, REAL *restrict out)
{
    /* The derivatives that are added: along which axis, of which component. */
    int axis[AXIS_COUNT] = {component}, of[AXIS_COUNT] = {0}, terms = 1;
    if (plan->form == PLAN_DIVERGENCE) {
        for (terms = 0; terms < plan->inputs; terms++)
            axis[terms] = of[terms] = terms;
    } else if (plan->form == PLAN_CURL) {
        const int along = plan->outputs == 1 ? AXIS_Z : component;
        axis[0] = of[1] = (along + 1) % AXIS_COUNT;
        axis[1] = of[0] = (along + 2) % AXIS_COUNT;
        terms = 2;
    }
    for (int t = 0; t < terms; t++) {
        REAL next[BLOCK] __attribute__((aligned(64)));
        REAL *const to = t == 0 ? out : next;
        if (axis[t] == AXIS_X)
            NAME(nabla_x)(plan, fields[of[t]], at, begin, end, to);
        else
            NAME(nabla_across)(plan, axis[t], fields[of[t]], at, begin, end, to);
        const int64_t n = t == 0 ? 0 : end - begin;
        if (plan->form == PLAN_CURL)
            for (int64_t i = 0; i < n; i++)
                out[i] = out[i] - next[i];
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = out[i] + next[i];
    }
}

/* Points of a line of the tile; offset: of the line's first point in the arrays. */
static void NAME(nabla_line)(const struct tile *tile, int64_t offset, const int64_t at[AXIS_COUNT])
{
    const struct plan *plan = tile->plan;
    const REAL *fields[AXIS_COUNT] = {NULL};
    for (int i = 0; i < plan->inputs; i++)
        fields[i] = (const REAL *)tile->launch->in[i] + offset;
    int64_t end;
    for (int64_t begin = tile->begin[AXIS_X]; begin < tile->end[AXIS_X]; begin = end) {
        end = tile->end[AXIS_X] - begin > BLOCK ? begin + BLOCK : tile->end[AXIS_X];
        for (int i = 0; i < plan->outputs; i++) {
            REAL *out = (REAL *)tile->launch->even[i] + offset + begin;
            REAL block[BLOCK] __attribute__((aligned(64)));
            NAME(nabla_block)(plan, fields, i, at, begin, end, tile->stream ? block : out);
            if (tile->stream)
                stream_copy(out, block, (size_t)(end - begin) * sizeof *block);
        }
    }
}
