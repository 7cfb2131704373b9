/* Gradient, divergence and curl: a line's first derivatives are computed a block at a time, each as
 * it is alone, and added while they are in the first cache, so that memory is read and written
 * once. */

/* ∂f/∂a of points [begin, end) of the line at y and z. */
static void NAME(vector_operators_derivative)(struct NAME(work) * work,
                                              const struct NAME(source) * source, int a, int64_t y,
                                              int64_t z, int64_t begin, int64_t end, REAL *out)
{
    const struct plan *plan = work->plan;
    const struct plan_axis *axis = &plan->axis[a];
    const REAL *f = NAME(source_line)(source, plan, y, z);
    struct NAME(stretch) stretch;
    struct NAME(terms) terms;
    NAME(terms_begin)(&terms, true, false);
    if (a == AXIS_X) {
        const int64_t low = axis->side[SIDE_LOW].rows, high = axis->n - axis->side[SIDE_HIGH].rows;
        for (int64_t lanes; begin < end && begin < low; begin += lanes, out += lanes) {
            lanes = low < end ? low - begin : end - begin;
            lanes = lanes < NAME(LANES) ? lanes : NAME(LANES);
            NAME(store_some)
            (out, NAME(edge_add)(work, SIDE_LOW, (int)begin, f, (int)lanes, NAME(fill)(0)),
             (int)lanes);
        }
        while (begin < end && end > high) {
            const int64_t first = end - NAME(LANES) > high ? end - NAME(LANES) : high;
            const int64_t i = first > begin ? first : begin;
            NAME(store_some)
            (out + (i - begin),
             NAME(edge_add)(work, SIDE_HIGH, (int)(i - high), f, (int)(end - i), NAME(fill)(0)),
             (int)(end - i));
            end = i;
        }
        if (begin >= end)
            return;
        REAL *row = NAME(row_place)(work, out);
        NAME(row_fill)(work, row, f, begin, end);
        stretch.x[0] = row;
    } else {
        const int64_t at = a == AXIS_Y ? y : z;
        int side = 0;
        const int row = POINT_NAME(row)(axis, at, &side);
        f += begin;
        for (int k = 0; row >= 0 && k < axis->row_points; k++) {
            const int64_t j = side == SIDE_LOW ? k : axis->n - 1 - k;
            const REAL weight = (REAL)axis->row[row][k];
            NAME(terms_put)
            (&terms, side == SIDE_HIGH ? -weight : weight, f + (j - at) * axis->stride, NULL);
        }
        if (row >= 0) {
            NAME(terms_run)(&terms, 0, NULL, out, end - begin);
            return;
        }
        for (int m = -plan->radius; m <= plan->radius; m++)
            stretch.in[PLAN_RADIUS + m] = f + (POINT_NAME(index)(axis, at + m) - at) * axis->stride;
    }
    stretch.points = end - begin;
    stretch.rows = 1;
    stretch.out[0] = out;
    stretch.weight[AXIS_X] = stretch.weight[AXIS_Z] = work->c[a];
    stretch.centre = 0;
    stretch.stream = false;
    stretch.ahead = 0;
    stretch.x_row = stretch.in_row = stretch.out_row = 0;
    if (stretch.points >= NAME(LANES)) {
        NAME(loops)[a == AXIS_X ? NAME(ODD_X) : NAME(ODD_Z)][0][plan->radius - 1](&stretch);
        return;
    }
    for (int m = 1; m <= plan->radius; m++) {
        const REAL *const *in = stretch.in + PLAN_RADIUS;
        NAME(terms_put)
        (&terms, work->c[a][m], a == AXIS_X ? stretch.x[0] + m : in[m],
         a == AXIS_X ? stretch.x[0] - m : in[-m]);
    }
    NAME(terms_run)(&terms, 0, NULL, out, stretch.points);
}

/* One component of the result, for points [begin, end) of a line. */
static void NAME(vector_operators_line)(struct NAME(work) * work,
                                        const struct NAME(source) * sources, int component,
                                        int64_t y, int64_t z, int64_t begin, int64_t end, REAL *out)
{
    /* The derivatives that are added: along which axis, of which component. */
    const struct plan *plan = work->plan;
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
    NAME(vector_operators_derivative)(work, &sources[of[0]], axis[0], y, z, begin, end, out);
    for (int t = 1; t < terms; t++) {
        REAL *next = work->row + ROW;
        NAME(vector_operators_derivative)(work, &sources[of[t]], axis[t], y, z, begin, end, next);
        for (int64_t i = 0; i < end - begin; i += NAME(LANES)) {
            const int lanes = end - begin - i < NAME(LANES) ? (int)(end - begin - i) : NAME(LANES);
            const NAME(vector) a = NAME(read)(out + i, lanes), b = NAME(read)(next + i, lanes);
            NAME(write)(out + i, plan->form == PLAN_CURL ? a - b : a + b, lanes);
        }
    }
}

/* A component of lines together: as in struct run, with a source for each component of the input.
 * All of y and z is centred there, and [begin, end) is at least a vector without closures. */
static void NAME(vector_operators_centred)(struct NAME(work) * work,
                                           const struct NAME(source) * sources,
                                           const struct NAME(run) * run, int component, int b,
                                           int count, int64_t begin, int64_t end)
{
    const struct plan *plan = work->plan;
    int of[AXIS_COUNT] = {0}; /* which input has a derivative along …: −1 for none */
    enum NAME(loop) loop;
    if (plan->form == PLAN_GRADIENT) {
        loop = component == AXIS_X ? NAME(ODD_X) : component == AXIS_Y ? NAME(ODD_Y) : NAME(ODD_Z);
    } else if (plan->form == PLAN_DIVERGENCE) {
        loop = plan->inputs == 1 ? NAME(ODD_X) : plan->inputs == 2 ? NAME(ODD_XY) : NAME(ODD_XYZ);
        for (int a = 0; a < plan->inputs; a++)
            of[a] = a;
    } else {
        const int along = plan->outputs == 1 ? AXIS_Z : component;
        loop = along == AXIS_X ? NAME(CURL_YZ) : along == AXIS_Y ? NAME(CURL_ZX) : NAME(CURL_XY);
        of[(along + 1) % AXIS_COUNT] = (along + 2) % AXIS_COUNT;
        of[(along + 2) % AXIS_COUNT] = (along + 1) % AXIS_COUNT;
    }
    struct NAME(stretch) lines = {.rows = run->rows};
    lines.loop = NAME(loops)[loop][count == LINES][plan->radius - 1];
    lines.along_x = loop != NAME(ODD_Y) && loop != NAME(ODD_Z) && loop != NAME(CURL_YZ);
    lines.out_row = run->out_row;
    lines.x_row = lines.in_row = sources->stride[AXIS_Y];
    lines.ahead = NAME(ahead)(lines.in_row);
    for (int a = 0; a < AXIS_COUNT; a++)
        lines.weight[a] = work->c[a];
    const int64_t y = run->y, z = run->z + b;
    for (int k = -plan->radius; k < count + plan->radius; k++)
        lines.in[PLAN_RADIUS + k] = NAME(source_line)(&sources[of[AXIS_Z]], plan, y, z + k);
    for (int k = 0; k < count; k++) {
        lines.x[k] = NAME(source_line)(&sources[of[AXIS_X]], plan, y, z + k);
        lines.f[k] = NAME(source_line)(&sources[of[AXIS_Y]], plan, y, z + k);
        lines.out[k] = run->out[b + k] - run->begin;
    }
    for (int m = -plan->radius; m <= plan->radius; m++)
        lines.y[PLAN_RADIUS + m] =
            NAME(source_line)(&sources[of[AXIS_Y]], plan, y + m, z) - lines.f[0];
    NAME(stretch_parts)(work, &lines, count, begin, end, run->stream);
}

/* A component of the lines of a run. */
static void NAME(vector_operators_run)(struct NAME(work) * work,
                                       const struct NAME(source) * sources,
                                       const struct NAME(run) * run, int component, bool even)
{
    const struct plan_axis *axis = work->plan->axis, *x = &axis[AXIS_X];
    const int64_t low = work->edge[SIDE_LOW].rows, high = x->n - work->edge[SIDE_HIGH].rows;
    int64_t from = low < run->begin ? run->begin : low < run->end ? low : run->end;
    int64_t to = high > run->end ? run->end : high > from ? high : from;
    if (to - from < NAME(LANES) || !NAME(plain)(&axis[AXIS_Y], run->y) ||
        !NAME(plain)(&axis[AXIS_Z], run->z))
        from = to = run->end; /* all are left to the other loop */
    for (int b = 0; b < run->count; b++)
        for (int row = 0; row < run->rows; row++) {
            const int64_t y = run->y + row, z = run->z + b;
            REAL *out = run->out[b] + row * run->out_row;
            if (run->begin < from)
                NAME(vector_operators_line)(work, sources, component, y, z, run->begin, from, out);
            if (to < run->end)
                NAME(vector_operators_line)
            (work, sources, component, y, z, to, run->end, out + (to - run->begin));
        }
    if (from == to)
        return;
    if (even && run->count == LINES && (!run->stream || NAME(alike)(run))) {
        NAME(vector_operators_centred)(work, sources, run, component, 0, run->count, from, to);
        return;
    }
    struct NAME(run) row = *run;
    for (row.rows = 1; row.y < run->y + run->rows; row.y++)
        for (int b = 0; b < run->count; b++) {
            NAME(vector_operators_centred)(work, sources, &row, component, b, 1, from, to);
            row.out[b] += run->out_row;
        }
}
