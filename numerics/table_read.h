/* What a point of a pass reads: values, images, numbers of sides, and the derivative along one axis
 * by a row. A part of numerics/table_point.h, which says what must be defined. */

/* What a point is evaluated from. */
struct TABLE_NAME(view) {
    const struct table_header *table;
    const char *bytes; /* the table's first byte */
    const struct table_pass *pass;
    /* By component: the first element of the field of the batch; and of the coefficient. */
    const REAL *field[AXIS_COUNT + 1];
    const REAL *base;
    uint64_t batch;
    int64_t at[AXIS_COUNT], place; /* the point: its indices, its element in a field */
    int imposed;                   /* what it reads may have a side's value in its place */
    int held;                      /* bit a: the point itself has it, from a side of axis a */
};

TABLE_FUNCTION struct TABLE_NAME(view)
    TABLE_NAME(begin)(const struct table_header *table, const void *bytes,
                      const struct table_pass *pass, uint64_t batch)
{
    struct TABLE_NAME(view) view;
    view.table = table;
    view.bytes = (const char *)bytes;
    view.pass = pass;
    view.batch = batch;
    for (int c = 0; c < AXIS_COUNT; c++) {
        view.field[c] = (const REAL *)pass->in[c];
        if (pass->in[c])
            view.field[c] += batch * table->points;
        view.at[c] = 0;
    }
    view.field[AXIS_COUNT] = (const REAL *)pass->operand[OPERAND_COEFFICIENT];
    if (view.field[AXIS_COUNT])
        view.field[AXIS_COUNT] += batch * table->points;
    view.base = (const REAL *)pass->base;
    if (pass->base)
        view.base += batch * table->points;
    view.place = 0;
    view.imposed = 0;
    view.held = 0;
    return view;
}

TABLE_FUNCTION void TABLE_NAME(move)(struct TABLE_NAME(view) * view, int64_t x, int64_t y,
                                     int64_t z)
{
    const struct table_header *table = view->table;
    view->at[AXIS_X] = x;
    view->at[AXIS_Y] = y;
    view->at[AXIS_Z] = z;
    view->place = x + y * table->axis_of[AXIS_Y].stride + z * table->axis_of[AXIS_Z].stride;
    view->imposed = view->held = 0;
    if (!table->imposes)
        return;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct table_axis *axis = &table->axis_of[a];
        if (view->at[a] < axis->first || view->at[a] > axis->last)
            view->held |= 1 << a;
        view->imposed |= (axis->first > 0 && view->at[a] <= TABLE_POINTS) |
                         (axis->last < axis->n - 1 && axis->n - 1 - view->at[a] <= TABLE_POINTS);
    }
}

/* at[a], and the field of a component: by comparing, since an array in registers has no index that
 * varies. */
TABLE_FUNCTION int64_t TABLE_NAME(pick)(const int64_t at[AXIS_COUNT], int a)
{
    return a == AXIS_X ? at[AXIS_X] : a == AXIS_Y ? at[AXIS_Y] : at[AXIS_Z];
}

TABLE_FUNCTION const REAL *TABLE_NAME(input)(const struct TABLE_NAME(view) * view, int component)
{
    return component == 0   ? view->field[0]
           : component == 1 ? view->field[1]
           : component == 2 ? view->field[2]
                            : view->field[AXIS_COUNT];
}

/* A number of a side of axis a where it meets the line or plane of at[]. */
TABLE_FUNCTION REAL TABLE_NAME(number)(const struct TABLE_NAME(view) * view, int a,
                                       const struct side_number *number,
                                       const int64_t at[AXIS_COUNT])
{
    const struct table_axis *axis = view->table->axis_of;
    const REAL *array = (const REAL *)side_array(number, view->pass->operand, (int64_t)view->batch,
                                                 axis[a].face_points, sizeof(REAL));
    if (!array)
        return (REAL)number->number;
    return TABLE_LOAD(array + side_element(a, at[AXIS_X], at[AXIS_Y], at[AXIS_Z], axis[AXIS_X].n,
                                           axis[AXIS_Y].n));
}

/* The first of x low, x high, y low, … that holds the point at[], or where `halos` that has it in
 * its halo: SIDE_COUNT × axis + side; −1 where none does. */
TABLE_FUNCTION int TABLE_NAME(holder)(const struct table_header *table, int halos,
                                      const int64_t at[AXIS_COUNT])
{
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct table_axis *axis = &table->axis_of[a];
            if ((s == SIDE_LOW ? at[a] : axis->n - 1 - at[a]) < axis->side[s].held &&
                (!halos || axis->side[s].halo))
                return SIDE_COUNT * a + s;
        }
    return -1;
}

/* The side whose value the point at[] has, and its axis; NULL: none, or a halo goes first. */
TABLE_FUNCTION const struct side *TABLE_NAME(stated)(const struct table_header *table,
                                                     const int64_t at[AXIS_COUNT], int *axis)
{
    const int holder = TABLE_NAME(holder)(table, 0, at);
    if (holder < 0)
        return (const struct side *)0;
    *axis = holder / SIDE_COUNT;
    const struct side *side = &table->axis_of[*axis].side[holder % SIDE_COUNT];
    return side->halo ? (const struct side *)0 : side;
}

/* Are points low to high of the line along axis a through the point inside, and none
 * imposed on? */
TABLE_FUNCTION int TABLE_NAME(reads)(const struct TABLE_NAME(view) * view, int a, int64_t low,
                                     int64_t high)
{
#ifdef TABLE_FETCHES
    return 0;
#endif
    const struct table_axis *axis = &view->table->axis_of[a];
    return low >= axis->first && high <= axis->last && (view->held & ~(1 << a)) == 0;
}

/* f at index j, which is inside, of the line along axis a through the point. */
TABLE_FUNCTION REAL TABLE_NAME(read)(const struct TABLE_NAME(view) * view, int component, int a,
                                     int64_t j)
{
    const struct table_header *table = view->table;
    if (view->imposed && component < AXIS_COUNT && !TABLE_NAME(reads)(view, a, j, j)) {
        const int64_t at[AXIS_COUNT] = {a == AXIS_X ? j : view->at[AXIS_X],
                                        a == AXIS_Y ? j : view->at[AXIS_Y],
                                        a == AXIS_Z ? j : view->at[AXIS_Z]};
        int of;
        const struct side *side = TABLE_NAME(stated)(table, at, &of);
        if (side)
            return TABLE_NAME(number)(view, of, &side->value, at);
    }
    return TABLE_NAME(input)(
        view,
        component)[view->place + (j - TABLE_NAME(pick)(view->at, a)) * table->axis_of[a].stride];
}

/* The side of axis a whose value counts twice at index j, of which there is an image; −1: none. */
TABLE_FUNCTION int TABLE_NAME(lifts)(const struct table_axis *axis, int64_t j)
{
    const int s = j < 0 ? SIDE_LOW : SIDE_HIGH;
    return (j < 0 || j >= axis->n) && axis->side[s].map >= SIDE_MAP_ODD_FACE ? s : -1;
}

/* f at any index. */
TABLE_FUNCTION REAL TABLE_NAME(fetch)(const struct TABLE_NAME(view) * view, int component, int a,
                                      int64_t j)
{
    const struct table_axis *axis = &view->table->axis_of[a];
    if (j >= 0 && j < axis->n)
        return TABLE_NAME(read)(view, component, a, j);
    int negative;
    const int64_t image = side_image(axis->side, axis->n, j, &negative);
    const REAL value = TABLE_NAME(read)(view, component, a, image);
    const int s = component < AXIS_COUNT ? TABLE_NAME(lifts)(axis, j) : -1;
    if (s >= 0)
        return REAL_FMA((REAL)2, TABLE_NAME(number)(view, a, &axis->side[s].value, view->at),
                        -value);
    return negative && component < AXIS_COUNT ? -value : value;
}

/* The row of the point along axis a. */
TABLE_FUNCTION const TABLE_ROW *TABLE_NAME(row)(const struct TABLE_NAME(view) * view, int use,
                                                int a)
{
    const struct table_rows *rows = &view->table->rows[use][a];
    return (const TABLE_ROW *)(view->bytes + rows->at) +
           table_row_number(rows, view->table->axis_of[a].n, TABLE_NAME(pick)(view->at, a));
}

/* The number that side s of axis a gives to rows at the point. */
TABLE_FUNCTION REAL TABLE_NAME(datum)(const struct TABLE_NAME(view) * view, int component, int a,
                                      int s)
{
    const struct table_axis *axis = &view->table->axis_of[a];
    const struct side *side = &axis->side[s];
    const REAL value = TABLE_NAME(number)(view, a, &side->value, view->at);
    if (side->datum == SIDE_DATUM_NUMBER)
        return value;
    const REAL constant = TABLE_NAME(number)(view, a, &side->constant, view->at);
    if (side->datum == SIDE_DATUM_MIXED_NODE)
        return REAL_FMA(-value,
                        TABLE_NAME(read)(view, component, a, s == SIDE_LOW ? 0 : axis->n - 1),
                        constant);
    const TABLE_ROW *face = (const TABLE_ROW *)(view->bytes + axis->face[s]);
    REAL acc = (REAL)0;
    for (int k = 0; k < face->count; k++) {
        const int64_t j = face->first + (int64_t)k * face->step;
        const REAL f = TABLE_NAME(read)(view, component, a, j), w = TABLE_LOAD(&face->w[k]);
        acc = k == 0 ? w * f : REAL_FMA(w, f, acc);
    }
    const REAL weight = TABLE_LOAD(&face->data[s]);
    const REAL edge = REAL_FMA(weight, constant, acc) / REAL_FMA(weight, value, (REAL)1);
    return REAL_FMA(-value, edge, constant);
}

/* Are `count` pairs of points about the point? */
TABLE_FUNCTION int TABLE_NAME(reads_pairs)(const struct TABLE_NAME(view) * view, int a, int count)
{
    const int shift = view->table->shift;
    return TABLE_NAME(reads)(view, a, TABLE_NAME(pick)(view->at, a) - count + (shift > 0),
                             TABLE_NAME(pick)(view->at, a) + count - (shift < 0));
}

/* The pair of points m away from the point, or from half way to its neighbour. */
TABLE_FUNCTION REAL TABLE_NAME(pair)(const struct TABLE_NAME(view) * view, int component, int a,
                                     int m)
{
    const int shift = view->table->shift;
    const REAL above =
        TABLE_NAME(fetch)(view, component, a, TABLE_NAME(pick)(view->at, a) + m - (shift < 0));
    const REAL below =
        TABLE_NAME(fetch)(view, component, a, TABLE_NAME(pick)(view->at, a) - m + (shift > 0));
    return view->table->odd ? above - below : above + below;
}

/* acc + pairs of points that can be read where they lie, f[±stride], f[±2 stride], …: of a shift
 * above and below half a stride from f. */
TABLE_FUNCTION REAL TABLE_NAME(pairs)(const struct table_header *table, const REAL *f,
                                      int64_t stride, const TABLE_ROW *row, int begun, REAL acc)
{
    const int count = TABLE_LOAD(&row->count);
    const REAL *above = table->shift < 0 ? f - stride : f;
    const REAL *below = table->shift > 0 ? f + stride : f;
    for (int m = 1; m <= TABLE_PAIRS; m++)
        if (m <= count) {
            const REAL w = TABLE_LOAD(&row->w[m - 1]);
            const REAL high = TABLE_LOAD(above + m * stride), low = TABLE_LOAD(below - m * stride);
            const REAL pair = table->odd ? high - low : high + low;
            acc = begun || m > 1 ? REAL_FMA(w, pair, acc) : w * pair;
        }
    return acc;
}

/* acc + the data of the row; *begun: is there an acc? */
TABLE_FUNCTION REAL TABLE_NAME(data)(const struct TABLE_NAME(view) * view, int component, int a,
                                     const TABLE_ROW *row, int *begun, REAL acc)
{
    for (int s = 0; s < SIDE_COUNT; s++) {
        const REAL weight = TABLE_LOAD(&row->data[s]);
        if (weight == (REAL)0)
            continue;
        const REAL g = TABLE_NAME(datum)(view, component, a, s);
        acc = *begun ? REAL_FMA(weight, g, acc) : weight * g;
        *begun = 1;
    }
    return acc;
}

/* acc + the derivative along axis a by the row; the point's own value and its weight where it is a
 * centred one aside. Where there is no acc (not `begun`) it begins with the first product. */
TABLE_FUNCTION REAL TABLE_NAME(along)(const struct TABLE_NAME(view) * view, int component, int a,
                                      const TABLE_ROW *row, int begun, REAL acc)
{
    const int64_t first = TABLE_LOAD(&row->first);
    const int step = TABLE_LOAD(&row->step), count = TABLE_LOAD(&row->count);
    if (step == 0 && TABLE_NAME(reads_pairs)(view, a, count)) {
        acc = TABLE_NAME(pairs)(view->table, TABLE_NAME(input)(view, component) + view->place,
                                view->table->axis_of[a].stride, row, begun, acc);
        begun |= count > 0;
    } else if (step != 0 &&
               TABLE_NAME(reads)(view, a, step > 0 ? first : first + (count - 1) * step,
                                 step > 0 ? first + (count - 1) * step : first)) {
        const int64_t stride = view->table->axis_of[a].stride;
        const REAL *f = TABLE_NAME(input)(view, component) + view->place +
                        (first - TABLE_NAME(pick)(view->at, a)) * stride;
        for (int k = 0; k < count; k++) {
            const REAL w = TABLE_LOAD(&row->w[k]), value = TABLE_LOAD(f + k * (step * stride));
            acc = begun ? REAL_FMA(w, value, acc) : w * value;
            begun = 1;
        }
    } else {
        for (int k = 0; k < count; k++) {
            const REAL w = TABLE_LOAD(&row->w[k]);
            const REAL f = step == 0
                               ? TABLE_NAME(pair)(view, component, a, k + 1)
                               : TABLE_NAME(fetch)(view, component, a, first + (int64_t)k * step);
            acc = begun ? REAL_FMA(w, f, acc) : w * f;
            begun = 1;
        }
    }
    return TABLE_NAME(data)(view, component, a, row, &begun, acc);
}
