/* What a line along x reads by its table: other lines, the numbers
 * of sides in the place of values and as data, and images beyond the sides. All of them are given
 * as lines that lie in memory, from point work->begin on; what does not lie there is put into
 * scratch lines. The values are those of numerics/table_point.h. */

static REAL *NAME(table_scratch)(struct NAME(work) * work)
{
    return work->scratch[work->used++] + MARGIN;
}

/* The same value everywhere, beside the strip too. */
static const REAL *NAME(table_fill)(struct NAME(work) * work, REAL value)
{
    REAL *line = NAME(table_scratch)(work);
    for (int64_t i = -MARGIN; i < work->end - work->begin + MARGIN; i++)
        line[i] = value;
    return line;
}

/* A number of a side of axis a along the line at y and z. A side of x has one for the line, that of
 * a strip of one point. */
static const REAL *NAME(table_numbers)(struct NAME(work) * work, int a,
                                       const struct side_number *number, int64_t y, int64_t z)
{
    const struct table_axis *axis = work->view.table->axis_of;
    const REAL *array = side_array(number, work->view.pass->operand, (int64_t)work->view.batch,
                                   axis[a].face_points, sizeof(REAL));
    if (!array)
        return NAME(table_fill)(work, (REAL)number->number);
    return array + side_element(a, work->begin, y, z, axis[AXIS_X].n, axis[AXIS_Y].n);
}

/* f along the line at y and z, which is inside. */
static const REAL *NAME(table_line)(struct NAME(work) * work, int component, int64_t y, int64_t z)
{
    const struct table_header *table = work->view.table;
    if (table->imposes && component < AXIS_COUNT) {
        const int64_t at[AXIS_COUNT] = {work->begin, y, z};
        int a;
        const struct side *side = TABLE_NAME(stated)(table, at, &a);
        if (side)
            return NAME(table_numbers)(work, a, &side->value, y, z);
    }
    return NAME(source_line)(&work->source[component], table, y + work->past[AXIS_Y],
                             z + work->past[AXIS_Z]) +
           work->begin;
}

/* −f along a line. */
static const REAL *NAME(table_negative)(struct NAME(work) * work, const REAL *f)
{
    REAL *line = NAME(table_scratch)(work);
    for (int64_t i = 0; i < work->end - work->begin; i++)
        line[i] = -f[i];
    return line;
}

/* Twice the value of side s of axis a, which is y or z, − f along a line. */
static const REAL *NAME(table_odd)(struct NAME(work) * work, int a, int s, int64_t y, int64_t z,
                                   const REAL *f)
{
    REAL *line = NAME(table_scratch)(work);
    const int used = work->used;
    const REAL *value =
        NAME(table_numbers)(work, a, &work->view.table->axis_of[a].side[s].value, y, z);
    for (int64_t i = 0; i < work->end - work->begin; i++)
        line[i] = REAL_FMA((REAL)2, value[i], -f[i]);
    work->used = used;
    return line;
}

/* f along the line at y and z, but at any index j along axis a, which is y or z. */
static const REAL *NAME(table_image)(struct NAME(work) * work, int component, int a, int64_t j,
                                     int64_t y, int64_t z)
{
    const struct table_axis *axis = &work->view.table->axis_of[a];
    const int lifts = component < AXIS_COUNT ? TABLE_NAME(lifts)(axis, j) : -1;
    int negative = 0;
    if ((j < 0 || j >= axis->n) && work->source[component].wraps[a])
        j = side_image(axis->side, axis->n, j, &negative);
    const REAL *line = NAME(table_line)(work, component, a == AXIS_Y ? j : y, a == AXIS_Z ? j : z);
    if (lifts >= 0)
        return NAME(table_odd)(work, a, lifts, y, z, line);
    return negative && component < AXIS_COUNT ? NAME(table_negative)(work, line) : line;
}

/* f along the line at y and z with all its neighbours beside the strip that rows of kind `use`
 * read. */
static const REAL *NAME(table_neighbours)(struct NAME(work) * work, int use, int component,
                                          int64_t y, int64_t z)
{
    const struct table_rows *rows = &work->view.table->rows[use][AXIS_X];
    const int64_t n = work->view.table->axis_of[AXIS_X].n, begin = work->begin, end = work->end;
    const REAL *line = NAME(table_line)(work, component, y, z);
    const TABLE_ROW *row = (const TABLE_ROW *)(work->view.bytes + rows->at);
    const int outside = rows->low < n ? row[rows->low + rows->high].count : TABLE_POINTS;
    const int reach = rows->low <= begin && end <= n - rows->high ? outside : TABLE_POINTS;
    int64_t from = begin - reach, to = end + reach; /* what is wanted */
    if (from >= work->low && to <= work->high)
        return line;
    from = from < -outside ? -outside : from;
    to = to > n + outside ? n + outside : to;
    int64_t low = begin, high = end; /* what can be copied */
    if (begin >= work->low && end <= work->high) {
        low = from < work->low ? work->low : from;
        high = to > work->high ? work->high : to;
    }
    REAL *copy = NAME(table_scratch)(work);
    struct TABLE_NAME(view) view = work->view;
    memcpy(copy + (low - begin), line + (low - begin), (size_t)(high - low) * sizeof *copy);
    TABLE_NAME(move)(&view, begin, y, z);
    for (int64_t x = from; x < low; x++)
        copy[x - begin] = TABLE_NAME(fetch)(&view, component, AXIS_X, x);
    TABLE_NAME(move)(&view, end - 1, y, z);
    for (int64_t x = high; x < to; x++)
        copy[x - begin] = TABLE_NAME(fetch)(&view, component, AXIS_X, x);
    return copy;
}

/* The pair of lines m away along axis a from the line at y and z, or from half way to its
 * neighbour. x: that line with its neighbours. */
static void NAME(table_pair)(struct NAME(work) * work, int component, int a, int m, int64_t y,
                             int64_t z, const REAL *x, const REAL **above, const REAL **below)
{
    const int shift = work->view.table->shift;
    const int up = m - (shift < 0), down = m - (shift > 0);
    if (a == AXIS_X) {
        *above = x + up;
        *below = x - down;
    } else {
        const int64_t i = a == AXIS_Y ? y : z;
        *above = NAME(table_image)(work, component, a, i + up, y, z);
        *below = NAME(table_image)(work, component, a, i - down, y, z);
    }
}

/* The data that side s of axis a, which is y or z, gives to rows along the line at y and z. */
static const REAL *NAME(table_data)(struct NAME(work) * work, int component, int a, int s,
                                    int64_t y, int64_t z)
{
    const struct table_axis *axis = &work->view.table->axis_of[a];
    const struct side *side = &axis->side[s];
    const int64_t count = work->end - work->begin;
    if (side->datum == SIDE_DATUM_NUMBER)
        return NAME(table_numbers)(work, a, &side->value, y, z);
    REAL *data = NAME(table_scratch)(work);
    const int used = work->used;
    const REAL *value = NAME(table_numbers)(work, a, &side->value, y, z);
    const REAL *constant = NAME(table_numbers)(work, a, &side->constant, y, z);
    if (side->datum == SIDE_DATUM_MIXED_NODE) {
        const REAL *edge =
            NAME(table_image)(work, component, a, s == SIDE_LOW ? 0 : axis->n - 1, y, z);
        for (int64_t i = 0; i < count; i++)
            data[i] = REAL_FMA(-value[i], edge[i], constant[i]);
    } else {
        const TABLE_ROW *face = (const TABLE_ROW *)(work->view.bytes + axis->face[s]);
        const REAL weight = face->data[s];
        struct NAME(terms) terms;
        NAME(terms_begin)(&terms, false, false);
        for (int k = 0; k < face->count; k++)
            NAME(terms_put)
        (&terms, face->w[k],
         NAME(table_image)(work, component, a, face->first + (int64_t)k * face->step, y, z), NULL);
        NAME(terms_sum)(&terms, NULL, data, 0, count);
        for (int64_t i = 0; i < count; i++) {
            const REAL edge =
                REAL_FMA(weight, constant[i], data[i]) / REAL_FMA(weight, value[i], (REAL)1);
            data[i] = REAL_FMA(-value[i], edge, constant[i]);
        }
    }
    work->used = used;
    return data;
}
