/* What is more than sums of derivatives along one axis each, and any strip of any line of a pass.
 */

/* The second derivative along axis a, rounded as it is alone, of the line at y and z whose index
 * along axis b is j instead. */
static const REAL *NAME(table_inner)(struct NAME(work) * work, int a, int b, int64_t j, int64_t y,
                                     int64_t z)
{
    const struct table_header *table = work->view.table;
    REAL *line = NAME(table_scratch)(work);
    int negative = 0;
    if (j < 0 || j >= table->axis_of[b].n)
        j = side_image(table->axis_of[b].side, table->axis_of[b].n, j, &negative);
    NAME(table_derivative)
    (work, TABLE_ROWS_INNER, 0, a, (REAL)table->inner_centre[a], b == AXIS_Y ? j : y,
     b == AXIS_Z ? j : z, line);
    for (int64_t i = 0; negative && i < work->end - work->begin; i++)
        line[i] = -line[i];
    return line;
}

/* out + the mixed derivatives of a biharmonic. */
static void NAME(table_mixed)(struct NAME(work) * work, int64_t y, int64_t z, REAL *out)
{
    const struct table_header *table = work->view.table;
    for (int pair = 0; pair < 3; pair++) {
        const int a = pair < 2 ? AXIS_X : AXIS_Y, b = pair < 1 ? AXIS_Y : AXIS_Z;
        if (b >= table->axes)
            continue;
        const int used = work->used;
        const int64_t i = b == AXIS_Y ? y : z;
        struct NAME(terms) terms;
        NAME(terms_begin)(&terms, false, true);
        TABLE_NAME(move)(&work->view, work->begin, y, z);
        const TABLE_ROW *row = TABLE_NAME(row)(&work->view, TABLE_ROWS_OUTER, b);
        if (row->step == 0)
            NAME(terms_put)
        (&terms, (REAL)table->outer_centre[b], NAME(table_inner)(work, a, b, i, y, z), NULL);
        for (int m = 0; m < row->count; m++) {
            const int64_t j = row->step == 0 ? i + m + 1 : row->first + (int64_t)m * row->step;
            const REAL *above = NAME(table_inner)(work, a, b, j, y, z), *below = NULL;
            if (row->step == 0)
                below = NAME(table_inner)(work, a, b, i - m - 1, y, z);
            NAME(terms_put)(&terms, row->w[m], above, below);
        }
        NAME(terms_sum)(&terms, out, out, 0, work->end - work->begin);
        work->used = used;
    }
}

/* What flows in at a side of axis a, which is y or z, added to out: inflow() of
 * numerics/table_point.h. */
static void NAME(table_inflow)(struct NAME(work) * work, int a, int64_t y, int64_t z, REAL *out)
{
    const struct TABLE_NAME(view) *view = &work->view;
    const struct table_rows *rows = &view->table->rows[TABLE_ROWS_INFLOW][a];
    const struct table_axis *axis = &view->table->axis_of[a];
    const int64_t i = a == AXIS_Y ? y : z, count = work->end - work->begin;
    if (i >= rows->low && axis->n - 1 - i >= rows->high)
        return;
    const int s = i < rows->low ? SIDE_LOW : SIDE_HIGH;
    const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_INFLOW, a);
    const REAL *edge = NAME(table_image)(work, AXIS_COUNT, a, row->first, y, z);
    const REAL factor = (REAL)view->table->factor[view->pass->set];
    const bool limited = axis->side[s].datum == SIDE_DATUM_MIXED_FACE;
    REAL *k = NAME(table_scratch)(work);
    for (int64_t x = 0; x < count; x++)
        k[x] = row->w[0] * edge[x];
    for (int m = 1; m < row->count; m++) {
        const int64_t j = row->first + (int64_t)m * row->step;
        const REAL *next = NAME(table_image)(work, AXIS_COUNT, a, j, y, z);
        for (int64_t x = 0; x < count; x++) {
            const REAL twice = edge[x] + edge[x];
            k[x] = REAL_FMA(row->w[m], limited && next[x] > twice ? twice : next[x], k[x]);
        }
    }
    const REAL *datum = NAME(table_data)(work, 0, a, s, y, z);
    for (int64_t x = 0; x < count; x++) {
        const REAL flow = k[x] * datum[x];
        out[x] = REAL_FMA(factor, flow, out[x]);
    }
}

/* (k u′)′ along axis a, which is y or z, added to out. u, k: the line's own. */
static void NAME(table_flows_across)(struct NAME(work) * work, int a, int64_t y, int64_t z,
                                     const REAL *u, const REAL *k, REAL *out)
{
    const struct TABLE_NAME(view) *view = &work->view;
    const int set = view->pass->set, used = work->used;
    const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_OF_FACTORS + set, a);
    const int64_t i = a == AXIS_Y ? y : z, count = work->end - work->begin;
    if (row->step == 0) {
        struct NAME(flows) flows = {row, view->table->across, {u}, {k}};
        for (int j = -row->count; j <= row->count; j++) {
            flows.u[TABLE_RADIUS + j] = NAME(table_image)(work, 0, a, i + j, y, z);
            flows.k[TABLE_RADIUS + j] = NAME(table_image)(work, AXIS_COUNT, a, i + j, y, z);
        }
        NAME(flows_run)(&flows, out, 0, count);
    } else if (row->count == TABLE_SPLIT) {
        REAL *part[3]; /* u″, u′, k′ */
        for (int p = 0; p < 3; p++) {
            struct NAME(terms) terms;
            NAME(terms_begin)(&terms, false, false);
            part[p] = NAME(table_scratch)(work);
            const int kept = work->used;
            NAME(table_put_along)
            (work, &terms, TABLE_ROWS_SECOND + p, p < 2 ? 0 : AXIS_COUNT, a, y, z, NULL);
            NAME(terms_sum)(&terms, NULL, part[p], 0, count);
            work->used = kept;
        }
        for (int64_t x = 0; x < count; x++) {
            const REAL sum = REAL_FMA(part[2][x], part[1][x], k[x] * part[0][x]);
            out[x] = REAL_FMA((REAL)view->table->factor[set], sum, out[x]);
        }
    } else {
        for (int m = 0; m < row->count; m++) {
            const int64_t j = row->first + (int64_t)m * row->step;
            if (j == i)
                continue;
            const REAL *there = NAME(table_image)(work, 0, a, j, y, z);
            const REAL *k_there = NAME(table_image)(work, AXIS_COUNT, a, j, y, z);
            for (int64_t x = 0; x < count; x++) {
                const REAL sum = k[x] + k_there[x], difference = there[x] - u[x];
                out[x] = REAL_FMA(row->w[m], sum * difference, out[x]);
            }
        }
    }
    if (view->table->conducts >> a & 1)
        NAME(table_inflow)(work, a, y, z, out);
    work->used = used;
}

/* div(k grad u), what it is added to, and the source. */
static void NAME(table_divergence)(struct NAME(work) * work, int64_t y, int64_t z, REAL *out)
{
    struct TABLE_NAME(view) *view = &work->view;
    const struct table_header *table = view->table;
    const int use = TABLE_ROWS_OF_FACTORS + view->pass->set;
    const int64_t count = work->end - work->begin;
    const REAL *u = NAME(table_neighbours)(work, use, 0, y, z);
    const REAL *k = NAME(table_neighbours)(work, use, AXIS_COUNT, y, z);
    int64_t from, to;
    NAME(table_centred)(work, use, &from, &to);
    TABLE_NAME(move)(view, work->begin, y, z);
    const REAL *base = view->base ? view->base + view->place : table->identity ? u : NULL;
    struct NAME(terms) terms;
    NAME(terms_begin)(&terms, false, true);
    NAME(terms_sum)(&terms, base, out, 0, count);
    if (from < to) {
        TABLE_NAME(move)(view, from, y, z);
        struct NAME(flows) flows = {TABLE_NAME(row)(view, use, AXIS_X), table->across, {u}, {k}};
        for (int j = -TABLE_RADIUS; j <= TABLE_RADIUS; j++) {
            flows.u[TABLE_RADIUS + j] = u + j;
            flows.k[TABLE_RADIUS + j] = k + j;
        }
        NAME(flows_run)(&flows, out, from - work->begin, to - work->begin);
    }
    for (int64_t x = NAME(table_apart)(work->begin, from, to); x < work->end;
         x = NAME(table_apart)(x + 1, from, to)) {
        const int64_t i = x - work->begin;
        TABLE_NAME(move)(view, x, y, z);
        out[i] = TABLE_NAME(flows_along)(view, AXIS_X, u[i], k[i], out[i]);
    }
    const struct table_rows *inflow = &table->rows[TABLE_ROWS_INFLOW][AXIS_X];
    const int64_t last = table->axis_of[AXIS_X].n - inflow->high;
    for (int64_t x = NAME(table_apart)(work->begin, inflow->low, last);
         table->conducts & 1 && x < work->end; x = NAME(table_apart)(x + 1, inflow->low, last)) {
        const int64_t i = x - work->begin;
        TABLE_NAME(move)(view, x, y, z);
        out[i] = TABLE_NAME(inflow)(view, AXIS_X, out[i]);
    }
    for (int a = AXIS_Y; a < table->axes; a++)
        NAME(table_flows_across)(work, a, y, z, u, k, out);
    NAME(table_put_source)(work, &terms, y, z);
    NAME(terms_sum)(&terms, out, out, 0, count);
}

/* A strip that a side holds. */
static void NAME(table_held)(struct NAME(work) * work, int component, int holder, int64_t y,
                             int64_t z, REAL *out)
{
    const struct table_header *table = work->view.table;
    const struct table_pass *pass = work->view.pass;
    const int a = holder / SIDE_COUNT, used = work->used;
    const struct side *side = &table->axis_of[a].side[holder % SIDE_COUNT];
    const bool diffusion = table->operator_id == OPERATOR_DIFFUSION;
    const size_t count = (size_t)(work->end - work->begin);
    TABLE_NAME(move)(&work->view, work->begin, y, z);
    const REAL *old = NAME(table_line)(work, table->inputs == 1 ? 0 : component, y, z);
    if (work->view.base)
        old = work->view.base + work->view.place;
    if (!side->halo) {
        memcpy(out, NAME(table_numbers)(work, a, &side->value, y, z), count * sizeof *out);
    } else if (diffusion && (pass->impose || pass->held == TABLE_KEEP)) {
        memmove(out, old, count * sizeof *out);
    } else if (table->inputs > table->outputs) {
        memset(out, 0, count * sizeof *out);
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = (REAL)side->value.number * old[i];
    }
    work->used = used;
}

/* A component of the strip of the line at y and z. */
static void NAME(table_strip)(struct NAME(work) * work, int component, int64_t y, int64_t z,
                              REAL *out)
{
    struct TABLE_NAME(view) *view = &work->view;
    const struct table_header *table = view->table;
    const bool diffusion = table->operator_id == OPERATOR_DIFFUSION;
    const int64_t at[AXIS_COUNT] = {work->begin, y, z};
    const int holder = diffusion || table->halos ? TABLE_NAME(holder)(table, !diffusion, at) : -1;
    work->used = 0;
    if (holder >= 0) {
        NAME(table_held)(work, component, holder, y, z, out);
    } else if (view->pass->impose) {
        const size_t bytes = (size_t)(work->end - work->begin) * sizeof *out;
        memcpy(out, NAME(table_line)(work, 0, y, z), bytes);
    } else if (table->odd) {
        NAME(table_parts)(work, component, y, z, out);
    } else if (table->form == TABLE_FORM_DIVERGENCE) {
        NAME(table_divergence)(work, y, z, out);
    } else {
        NAME(table_sum)(work, y, z, out);
        if (table->operator_id == OPERATOR_BIHARMONIC)
            NAME(table_mixed)(work, y, z, out);
    }
}

/* The line at y and z, which lie inside or past an edge where the sources have a copy, is the one
 * that is worked on; returns where it is inside. */
static struct NAME(place)
    NAME(table_begin)(struct NAME(work) * work, const struct NAME(source) * sources, int64_t y,
                      int64_t z)
{
    const struct table_header *table = work->view.table;
    const struct table_axis *axis = table->axis_of;
    const struct NAME(place) at = {NAME(index)(&axis[AXIS_Y], y), NAME(index)(&axis[AXIS_Z], z)};
    work->source = sources;
    work->used = 0;
    work->past[AXIS_Y] = sources->wraps[AXIS_Y] ? 0 : y - at.y;
    work->past[AXIS_Z] = sources->wraps[AXIS_Z] ? 0 : z - at.z;
    for (int c = 0; c < table->inputs; c++)
        work->view.field[c] = NAME(source_line)(&sources[c], table, y, z) -
                              at.y * axis[AXIS_Y].stride - at.z * axis[AXIS_Z].stride;
    return at;
}

/* A component at points [begin, end) of such a line. */
static void NAME(table_points)(struct NAME(work) * work, const struct NAME(source) * sources,
                               int component, int64_t y, int64_t z, int64_t begin, int64_t end,
                               REAL *out)
{
    const struct NAME(place) at = NAME(table_begin)(work, sources, y, z);
    for (work->begin = begin; work->begin < end; work->begin = work->end) {
        const int64_t alike = work->begin < work->low    ? work->low
                              : work->begin < work->high ? work->high
                                                         : end;
        work->end = alike < end ? alike : end;
        NAME(table_strip)(work, component, at.y, at.z, out + (work->begin - begin));
    }
}

/* The same one by one, which is sooner done where they are few. The sources are fields. */
static void NAME(table_each)(struct NAME(work) * work, const struct NAME(source) * sources,
                             int component, int64_t y, int64_t z, int64_t begin, int64_t end,
                             REAL *out)
{
    const struct NAME(place) at = NAME(table_begin)(work, sources, y, z);
    for (int64_t x = begin; x < end; x++) {
        TABLE_NAME(move)(&work->view, x, at.y, at.z);
        out[x - begin] = work->view.pass->impose ? TABLE_NAME(impose)(&work->view)
                                                 : TABLE_NAME(evaluate)(&work->view, component);
    }
}

static void NAME(table_lines)(void *context, int64_t from, int64_t to)
{
    const struct table_lines *lines = context;
    const struct table_header *table = lines->table;
    const int64_t first = lines->first + from, stop = lines->first + to;
    const struct table_axis *axis = table->axis_of;
    const int64_t n = axis[AXIS_X].n, ny = axis[AXIS_Y].n, field_lines = ny * axis[AXIS_Z].n;
    struct NAME(source) sources[AXIS_COUNT + 1];
    struct NAME(work) work;
    for (int64_t begin = 0; begin < n; begin += STRIP) {
        const int64_t end = n - begin < STRIP ? n : begin + STRIP;
        for (int64_t line = first; line < stop; line++) {
            if (line == first || line % field_lines == 0) {
                NAME(work_begin)
                (&work, table, table, lines->pass, (uint64_t)(line / field_lines));
                for (int c = 0; c <= AXIS_COUNT; c++)
                    sources[c] = NAME(field)(table, work.view.field[c]);
            }
            for (int c = 0; c < table->outputs; c++)
                NAME(table_points)
            (&work, sources, c, line % ny, line % field_lines / ny, begin, end,
             (REAL *)lines->pass->out[c] + line * n + begin);
        }
    }
}
