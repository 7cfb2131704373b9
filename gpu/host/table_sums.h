/* Lines along x of a pass by the rows of a table. All points of a line that have the
 * centred row along x are the same sum of lines, so they are done by vectors. Points with rows of
 * their own along x get what lies along it one by one, and the rest by vectors. The bits are those
 * of numerics/table_point.h. */

/* The points of the strip whose row along x is the centred one: [*from, *to). All of them where
 * nothing is derived along x. */
static void NAME(table_centred)(const struct NAME(work) * work, int use, int64_t *from, int64_t *to)
{
    const struct table_header *table = work->view.table;
    const struct table_rows *rows = &table->rows[use][AXIS_X];
    const int64_t high = table->axis_of[AXIS_X].n - rows->high;
    *from = rows->low < work->begin ? work->begin : rows->low < work->end ? rows->low : work->end;
    *to = high > work->end ? work->end : high > *from ? high : *from;
}

/* The first point from x on that is not in [from, to). */
static int64_t NAME(table_apart)(int64_t x, int64_t from, int64_t to)
{
    return x >= from && x < to ? to : x;
}

/* The terms of the data that axis a's row gives to the line at y and z, where the view is. */
static void NAME(table_put_data)(struct NAME(work) * work, struct NAME(terms) * terms, int use,
                                 int component, int a, int64_t y, int64_t z)
{
    const TABLE_ROW *row = TABLE_NAME(row)(&work->view, use, a);
    for (int s = 0; s < SIDE_COUNT && a != AXIS_X; s++)
        if (row->data[s] != (REAL)0)
            NAME(terms_put)
    (terms, row->data[s], NAME(table_data)(work, component, a, s, y, z), NULL);
}

/* The terms of the derivative along axis a, as numerics/table_point.h's along(). Of x the centred
 * row's, x being the line with its neighbours. */
static void NAME(table_put_along)(struct NAME(work) * work, struct NAME(terms) * terms, int use,
                                  int component, int a, int64_t y, int64_t z, const REAL *x)
{
    const TABLE_ROW *row = TABLE_NAME(row)(&work->view, use, a);
    for (int k = 0; k < row->count; k++) {
        const REAL *above, *below = NULL;
        if (row->step == 0)
            NAME(table_pair)(work, component, a, k + 1, y, z, x, &above, &below);
        else
            above =
                NAME(table_image)(work, component, a, row->first + (int64_t)k * row->step, y, z);
        NAME(terms_put)(terms, row->w[k], above, below);
    }
    NAME(table_put_data)(work, terms, use, component, a, y, z);
}

/* The terms of the pairs of all active axes, which have the same weights, without data. */
static void NAME(table_put_pairs)(struct NAME(work) * work, struct NAME(terms) * terms, int use,
                                  int64_t y, int64_t z, const REAL *x)
{
    const struct table_header *table = work->view.table;
    int first = 0;
    while (!(table->active >> first & 1))
        first++;
    const TABLE_ROW *row = TABLE_NAME(row)(&work->view, use, first);
    for (int m = 1; m <= row->count; m++)
        for (int a = first; a < table->axes; a++) {
            const REAL *above, *below;
            if (!(table->active >> a & 1))
                continue;
            NAME(table_pair)(work, 0, a, m, y, z, x, &above, &below);
            if (a == first)
                NAME(terms_put)(terms, row->w[m - 1], above, below);
            else
                NAME(terms_join)(terms, above, below);
        }
}

/* acc + the derivative along x at a point with a row of its own, as numerics/table_point.h's
 * along(). f: the line with its neighbours. */
static REAL NAME(table_own)(struct NAME(work) * work, int component, int use, int64_t x, int64_t y,
                            int64_t z, const REAL *f, int begun, REAL acc)
{
    struct TABLE_NAME(view) *view = &work->view;
    TABLE_NAME(move)(view, x, y, z);
    const TABLE_ROW *row = TABLE_NAME(row)(view, use, AXIS_X);
    if (row->step == 0)
        return TABLE_NAME(along)(view, component, AXIS_X, row, begun, acc);
    for (int k = 0; k < row->count; k++) {
        const REAL value = f[row->first + k * row->step - work->begin];
        acc = begun ? REAL_FMA(row->w[k], value, acc) : row->w[k] * value;
        begun = 1;
    }
    return TABLE_NAME(data)(view, component, AXIS_X, row, &begun, acc);
}

/* Is point x one of the slide's? Its offset is lowered where it has to be. */
static bool NAME(table_slides)(struct NAME(table_slide) * slide, const TABLE_ROW *row, int64_t x,
                               int64_t *highest)
{
    const int64_t offset = row[x].first - x;
    const int64_t low = offset < slide->offset ? offset : slide->offset;
    const int64_t high = offset > *highest ? offset : *highest;
    if (row[x].step != 1 || row[x].count != slide->count || high - low > 1 ||
        row[x].data[SIDE_LOW] != (REAL)0 || row[x].data[SIDE_HIGH] != (REAL)0)
        return false;
    slide->offset = low;
    *highest = high;
    return true;
}

/* What the rows of kind `use` have of such points, put together once for all lines. */
static const struct NAME(table_slide) * NAME(table_slide)(struct NAME(work) * work, int use)
{
    const struct table_rows *rows = &work->view.table->rows[use][AXIS_X];
    const TABLE_ROW *row = (const TABLE_ROW *)(work->view.bytes + rows->at);
    struct NAME(table_slide) *slide = &work->slide[use == TABLE_ROWS_INNER];
    if (slide->begin == work->begin && slide->end == work->end)
        return slide;
    const int64_t end = rows->low < work->end ? rows->low : work->end;
    const int64_t middle = (work->begin + end) / 2;
    slide->begin = work->begin;
    slide->end = work->end;
    slide->from = slide->to = work->begin;
    if (end <= work->begin || row[middle].step != 1)
        return slide;
    int64_t highest = slide->offset = row[middle].first - middle;
    slide->count = row[middle].count;
    for (slide->from = middle; slide->from > work->begin; slide->from--)
        if (!NAME(table_slides)(slide, row, slide->from - 1, &highest))
            break;
    for (slide->to = middle; slide->to < end; slide->to++)
        if (!NAME(table_slides)(slide, row, slide->to, &highest))
            break;
    for (int64_t x = slide->from; x < slide->to; x++) {
        slide->later[x - slide->from] = (REAL)(row[x].first - x - slide->offset);
        for (int k = 0; k < slide->count; k++)
            slide->w[k][x - slide->from] = row[x].w[k];
    }
    return slide;
}

/* The derivative along x at points [first, last) of the strip, all of the slide's, as table_own().
 * from: what it is added to; NULL: 0 or, where not `begun`, nothing. */
static void NAME(table_slide_run)(const struct NAME(table_slide) * slide, const REAL *f, int begun,
                                  const REAL *from, REAL *out, int64_t first, int64_t last)
{
    const int64_t shift = slide->begin - slide->from;
    for (int64_t i = first; i < last; i += NAME(LANES)) {
        const int lanes = last - i < NAME(LANES) ? (int)(last - i) : NAME(LANES);
        NAME(vector) acc = from ? NAME(read)(from + i, lanes) : NAME(fill)(0);
        const NAME(vector) later = NAME(read)(slide->later + shift + i, lanes);
        NAME(vector) next = NAME(read)(f + slide->offset + i, lanes);
        for (int k = 0; k < slide->count; k++) {
            const NAME(vector) w = NAME(read)(slide->w[k] + shift + i, lanes), here = next;
            next = NAME(read)(f + slide->offset + k + 1 + i, lanes);
            const NAME(vector) value = NAME(select)(later, next, here);
            acc = k == 0 && !begun ? w * value : NAME(fma)(w, value, acc);
        }
        NAME(write)(out + i, acc, lanes);
    }
}

/* One derivative along axis a of the line at y and z, rounded as it is alone, for the strip. Of
 * even ones with the centre's weight where the row is a centred one. */
static void NAME(table_derivative)(struct NAME(work) * work, int use, int component, int a,
                                   REAL centre, int64_t y, int64_t z, REAL *out)
{
    struct TABLE_NAME(view) *view = &work->view;
    const bool odd = view->table->odd;
    const int used = work->used;
    const REAL *line = a == AXIS_X ? NAME(table_neighbours)(work, use, component, y, z)
                                   : NAME(table_line)(work, component, y, z);
    int64_t from = work->begin, to = work->end;
    if (a == AXIS_X)
        NAME(table_centred)(work, use, &from, &to);
    if (from < to) {
        struct NAME(terms) terms;
        TABLE_NAME(move)(view, from, y, z);
        const bool centred = !odd && TABLE_NAME(row)(view, use, a)->step == 0;
        NAME(terms_begin)(&terms, odd, !odd && !centred);
        if (centred)
            NAME(terms_put)(&terms, centre, line, NULL);
        NAME(table_put_along)(work, &terms, use, component, a, y, z, line);
        NAME(terms_sum)(&terms, NULL, out, from - work->begin, to - work->begin);
    } else {
        const struct NAME(table_slide) *slide = NAME(table_slide)(work, use);
        from = slide->from;
        to = slide->to;
        NAME(table_slide_run)
        (slide, line, !odd, NULL, out, from - work->begin, to - work->begin);
    }
    for (int64_t x = NAME(table_apart)(work->begin, from, to); x < work->end;
         x = NAME(table_apart)(x + 1, from, to)) {
        TABLE_NAME(move)(view, x, y, z);
        const bool centred = !odd && TABLE_NAME(row)(view, use, a)->step == 0;
        const REAL acc = centred ? centre * line[x - work->begin] : (REAL)0;
        out[x - work->begin] = NAME(table_own)(work, component, use, x, y, z, line, !odd, acc);
    }
    work->used = used;
}

/* A component of a result that is a sum of derivatives along one axis each: as
 * numerics/table_point.h's parts(). */
static void NAME(table_parts)(struct NAME(work) * work, int component, int64_t y, int64_t z,
                              REAL *out)
{
    const struct table_header *table = work->view.table;
    int of, along;
    for (int k = 0; table_part(table, component, k, &of, &along); k++) {
        const int used = work->used;
        REAL *part = k == 0 ? out : NAME(table_scratch)(work);
        NAME(table_derivative)(work, TABLE_ROWS_OF_FACTORS, of, along, 0, y, z, part);
        for (int64_t i = 0; k > 0 && i < work->end - work->begin; i++)
            out[i] = table->operator_id == OPERATOR_CURL ? out[i] - part[i] : out[i] + part[i];
        work->used = used;
    }
}

/* The terms of y and z, or only their data where the pairs of all axes were `together`. */
static void NAME(table_put_across)(struct NAME(work) * work, struct NAME(terms) * terms, int use,
                                   bool together, int64_t y, int64_t z)
{
    const struct table_header *table = work->view.table;
    for (int a = AXIS_Y; a < table->axes; a++) {
        if (!(table->active >> a & 1))
            continue;
        if (together)
            NAME(table_put_data)(work, terms, use, 0, a, y, z);
        else
            NAME(table_put_along)(work, terms, use, 0, a, y, z, NULL);
    }
}

/* The term of the source, where there is one. */
static void NAME(table_put_source)(struct NAME(work) * work, struct NAME(terms) * terms, int64_t y,
                                   int64_t z)
{
    const struct table_header *table = work->view.table;
    const struct table_pass *pass = work->view.pass;
    if (table->source == TABLE_SOURCE_NONE)
        return;
    const REAL *source = (const REAL *)pass->operand[OPERAND_SOURCE];
    if (table->source == TABLE_SOURCE_NUMBER)
        source = NAME(table_fill)(work, (REAL)table->source_value);
    else
        source += (int64_t)(work->view.batch * table->points) + work->begin +
                  y * table->axis_of[AXIS_Y].stride + z * table->axis_of[AXIS_Z].stride;
    NAME(terms_put)(terms, (REAL)table->factor[pass->set], source, NULL);
}

/* What lies along x at points [from, to) with rows of their own, added to out; only its data where
 * the pairs of all axes were `together`. */
static void NAME(table_own_rows)(struct NAME(work) * work, int use, bool together, int64_t y,
                                 int64_t z, const REAL *line, int64_t from, int64_t to, REAL *out)
{
    struct TABLE_NAME(view) *view = &work->view;
    const struct NAME(table_slide) *slide = NAME(table_slide)(work, use);
    const int64_t begin = work->begin, low = slide->from > from ? slide->from : from;
    const int64_t high = slide->to < to ? slide->to : to;
    if (low < high)
        NAME(table_slide_run)(slide, line, 1, out, out, low - begin, high - begin);
    for (int64_t x = NAME(table_apart)(from, low, high); x < to;
         x = NAME(table_apart)(x + 1, low, high)) {
        REAL *acc = &out[x - begin];
        int begun = 1;
        if (together) {
            TABLE_NAME(move)(view, x, y, z);
            const TABLE_ROW *row = TABLE_NAME(row)(view, use, AXIS_X);
            *acc = TABLE_NAME(data)(view, 0, AXIS_X, row, &begun, *acc);
        } else {
            *acc = NAME(table_own)(work, 0, use, x, y, z, line, 1, *acc);
        }
    }
}

/* The sum over the active axes of even derivatives, what it is added to, and the source, at points
 * [from, to) of one kind: all have the centred row along x or, `apart`, rows of their own of which
 * either all are centred ones or none. line: with its neighbours. */
static void NAME(table_sum_of)(struct NAME(work) * work, bool apart, int64_t y, int64_t z,
                               const REAL *line, int64_t from, int64_t to, REAL *out)
{
    struct TABLE_NAME(view) *view = &work->view;
    const struct table_header *table = view->table;
    const int set = view->pass->set, use = TABLE_ROWS_OF_FACTORS + set, used = work->used;
    const int64_t first = from - work->begin, last = to - work->begin;
    TABLE_NAME(move)(view, from, y, z);
    const int centred = TABLE_NAME(centred)(view, use);
    const bool together = table->shared && centred == table->active;
    const bool has_centre = centred || table->identity;
    const REAL *base = view->base ? view->base + view->place - first : NULL;
    struct NAME(terms) terms;
    NAME(terms_begin)(&terms, false, base || !has_centre);
    if (has_centre)
        NAME(terms_put)(&terms, (REAL)table->centre[set][centred], line, NULL);
    if (together)
        NAME(table_put_pairs)(work, &terms, use, y, z, line);
    else if (!apart && table->active >> AXIS_X & 1)
        NAME(table_put_along)(work, &terms, use, 0, AXIS_X, y, z, line);
    if (apart) {
        NAME(terms_sum)(&terms, base, out, first, last);
        NAME(table_own_rows)(work, use, together, y, z, line, from, to, out);
        NAME(terms_begin)(&terms, false, true);
        base = out;
    }
    NAME(table_put_across)(work, &terms, use, together, y, z);
    NAME(table_put_source)(work, &terms, y, z);
    NAME(terms_sum)(&terms, base, out, first, last);
    work->used = used;
}

/* The same at points [from, to) with rows of their own. */
static void NAME(table_sum_apart)(struct NAME(work) * work, int64_t y, int64_t z, const REAL *line,
                                  int64_t from, int64_t to, REAL *out)
{
    const int use = TABLE_ROWS_OF_FACTORS + work->view.pass->set;
    for (int64_t end; from < to; from = end) {
        bool centred = false;
        for (end = from; end < to; end++) {
            TABLE_NAME(move)(&work->view, end, y, z);
            const bool is_centred = TABLE_NAME(row)(&work->view, use, AXIS_X)->step == 0;
            if (end > from && is_centred != centred)
                break;
            centred = is_centred;
        }
        NAME(table_sum_of)(work, true, y, z, line, from, end, out);
    }
}

static void NAME(table_sum)(struct NAME(work) * work, int64_t y, int64_t z, REAL *out)
{
    const int use = TABLE_ROWS_OF_FACTORS + work->view.pass->set, used = work->used;
    const bool along_x = work->view.table->active >> AXIS_X & 1;
    const REAL *line =
        along_x ? NAME(table_neighbours)(work, use, 0, y, z) : NAME(table_line)(work, 0, y, z);
    int64_t from = work->begin, to = work->end;
    if (along_x)
        NAME(table_centred)(work, use, &from, &to);
    if (from < to)
        NAME(table_sum_of)(work, false, y, z, line, from, to, out);
    NAME(table_sum_apart)(work, y, z, line, work->begin, from, out);
    NAME(table_sum_apart)(work, y, z, line, to, work->end, out);
    work->used = used;
}
