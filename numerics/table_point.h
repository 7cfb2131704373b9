/* One point of one pass of a plan of the engine PLAN_TABLE, evaluated: the contract of
 * docs/NUMERICS.md in code, for C and CUDA alike. Every loop over points must give these bits.
 *
 * Included once per element type, after numerics/table.h, with REAL, REAL_FMA(a, b, c), TABLE_ROW
 * (struct table_row_f32 or _f64), TABLE_NAME(name), TABLE_LOAD(pointer) (of what no launch writes)
 * and TABLE_FUNCTION (such as `static inline`, or `static __device__`) defined.
 *
 *   table_evaluate()   a point of a pass: fill a view, move it with table_move()
 *   table_evaluate_form()  the same, of a form that the caller knows
 *   table_impose()     the same of a pass that only imposes values
 *   table_along()      a derivative along one axis by one kind of rows
 *   table_datum()      the number that a side gives to a row
 *
 * What any index of a line holds is found by table_fetch(). Where nothing that a row reads is
 * mapped or imposed, table_reads() says so, and it is read where it lies. With TABLE_FETCHES
 * defined all is fetched: tests compare. */

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

/* The index inside whose value stands for that of j; *negative: with its sign changed. */
TABLE_FUNCTION int64_t TABLE_NAME(image)(const struct table_axis *axis, int64_t j, int *negative)
{
    const int64_t n = axis->n;
    const int low = axis->side[SIDE_LOW].map;
    *negative = 0;
    if (low == SIDE_MAP_PERIODIC || low == SIDE_MAP_ENDPOINT) {
        const int64_t period = low == SIDE_MAP_ENDPOINT ? n - 1 : n;
        j += j < 0 ? period : -period;
        if (j >= 0 && j < period)
            return j; /* mostly, and divisions are slow */
        j %= period;
        return j < 0 ? j + period : j;
    }
    if (n == 1 && low == SIDE_MAP_NODE && axis->side[SIDE_HIGH].map == SIDE_MAP_NODE)
        return 0; /* its images never end, and all are the only point */
    while (j < 0 || j >= n) {
        const int s = j < 0 ? SIDE_LOW : SIDE_HIGH;
        const int map = axis->side[s].map;
        if (map == SIDE_MAP_NONE)
            return s == SIDE_LOW ? 0 : n - 1;
        j = (s == SIDE_LOW ? 0 : 2 * (n - 1)) - j;
        if (map != SIDE_MAP_NODE && map != SIDE_MAP_ODD_NODE)
            j += s == SIDE_LOW ? -1 : 1;
        if (map >= SIDE_MAP_ANTISYMMETRIC)
            *negative = !*negative;
    }
    return j;
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
    const int64_t image = TABLE_NAME(image)(axis, j, &negative);
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
    const int64_t i = TABLE_NAME(pick)(view->at, a), d = view->table->axis_of[a].n - 1 - i;
    const int64_t row = i < rows->low ? i : d < rows->high ? rows->low + d : rows->low + rows->high;
    return (const TABLE_ROW *)(view->bytes + rows->at) + row;
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

/* A component of a result that is a sum of derivatives along one axis each, rounded as they are
 * alone: one, or those of a divergence or a curl. */
TABLE_FUNCTION REAL TABLE_NAME(parts)(const struct TABLE_NAME(view) * view, int component)
{
    const struct table_header *table = view->table;
    int of, along;
    REAL sum = (REAL)0;
    for (int k = 0; table_part(table, component, k, &of, &along); k++) {
        const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_OF_FACTORS, along);
        const REAL part = TABLE_NAME(along)(view, of, along, row, 0, (REAL)0);
        sum = k == 0 ? part : table->operator_id == OPERATOR_CURL ? sum - part : sum + part;
    }
    return sum;
}

/* acc + the pairs of points of all active axes, which have the weights of the first one's row, and
 * then their data. */
TABLE_FUNCTION REAL TABLE_NAME(together)(const struct TABLE_NAME(view) * view,
                                         const TABLE_ROW *const rows[AXIS_COUNT],
                                         const TABLE_ROW *first, REAL acc)
{
    const struct table_header *table = view->table;
    const REAL *f = view->field[0] + view->place;
    int begun = 1, reads = 1;
    const int count = TABLE_LOAD(&first->count);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (table->active >> a & 1)
            reads &= TABLE_NAME(reads_pairs)(view, a, count);
    for (int m = 1; m <= TABLE_PAIRS; m++) {
        REAL pairs = (REAL)0;
        int any = 0;
        if (m > count)
            continue;
        for (int a = 0; a < AXIS_COUNT; a++)
            if (table->active >> a & 1) {
                const int64_t away = m * table->axis_of[a].stride;
                const REAL pair = reads ? TABLE_LOAD(f + away) + TABLE_LOAD(f - away)
                                        : TABLE_NAME(pair)(view, 0, a, m);
                pairs = any ? pairs + pair : pair;
                any = 1;
            }
        acc = REAL_FMA(TABLE_LOAD(&first->w[m - 1]), pairs, acc);
    }
    for (int a = 0; a < AXIS_COUNT; a++)
        if (table->active >> a & 1)
            acc = TABLE_NAME(data)(view, 0, a, rows[a], &begun, acc);
    return acc;
}

/* The active axes whose row at the point is a centred one with a centre. */
TABLE_FUNCTION int TABLE_NAME(centred)(const struct TABLE_NAME(view) * view, int use)
{
    int centred = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (view->table->active >> a & 1 && view->table->shift == 0 &&
            TABLE_LOAD(&TABLE_NAME(row)(view, use, a)->step) == 0)
            centred |= 1 << a;
    return centred;
}

/* The sum over the active axes of even derivatives of the only component, and what it is added to.
 */
TABLE_FUNCTION REAL TABLE_NAME(sum)(const struct TABLE_NAME(view) * view)
{
    const struct table_header *table = view->table;
    const int set = view->pass->set;
    const TABLE_ROW *rows[AXIS_COUNT] = {0, 0, 0}, *first = 0;
    const int centred = TABLE_NAME(centred)(view, TABLE_ROWS_OF_FACTORS + set);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (table->active >> a & 1) {
            rows[a] = TABLE_NAME(row)(view, TABLE_ROWS_OF_FACTORS + set, a);
            first = first ? first : rows[a];
        }
    REAL acc = view->base ? view->base[view->place] : (REAL)0;
    if (centred || table->identity) {
        const REAL f = TABLE_NAME(read)(view, 0, AXIS_X, view->at[AXIS_X]);
        const REAL centre = (REAL)table->centre[set][centred];
        acc = view->base ? REAL_FMA(centre, f, acc) : centre * f;
    }
    if (table->shared && centred == table->active)
        return TABLE_NAME(together)(view, rows, first, acc);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (table->active >> a & 1)
            acc = TABLE_NAME(along)(view, 0, a, rows[a], 1, acc);
    return acc;
}

/* What flows between the point, where u and k are given, and the one at index j of the line along
 * axis a: (k + k_j)(u_j − u). */
TABLE_FUNCTION REAL TABLE_NAME(flow)(const struct TABLE_NAME(view) * view, int a, int64_t j, REAL u,
                                     REAL k)
{
    const REAL sum = k + TABLE_NAME(fetch)(view, AXIS_COUNT, a, j);
    const REAL difference = TABLE_NAME(fetch)(view, 0, a, j) - u;
    return sum * difference;
}

/* f at the 2r + 1 points around the point, on the line along axis a. */
TABLE_FUNCTION void TABLE_NAME(window)(const struct TABLE_NAME(view) * view, int component, int a,
                                       int r, REAL *f)
{
    const int64_t i = TABLE_NAME(pick)(view->at, a), stride = view->table->axis_of[a].stride;
    if (TABLE_NAME(reads)(view, a, i - r, i + r)) {
        const REAL *first = TABLE_NAME(input)(view, component) + view->place - r * stride;
        for (int j = 0; j <= 2 * r; j++)
            f[j] = TABLE_LOAD(first + j * stride);
        return;
    }
    for (int j = 0; j <= 2 * r; j++)
        f[j] = TABLE_NAME(fetch)(view, component, a, i + j - r);
}

/* The conductance between a point and the one m away on the side s, by what that is a multiple of.
 * k: at the point; across: from those of m on. */
TABLE_FUNCTION REAL TABLE_NAME(between)(const REAL *k, const double *across, int r, int m, int s)
{
    REAL acc = k[0] + k[s * m];
    for (int e = 1; 2 * e <= m; e++) {
        const REAL inward = 2 * e == m ? k[s * e] : k[s * e] + k[s * (m - e)];
        acc = REAL_FMA((REAL)*across++, inward, acc);
    }
    for (int e = 1; m + e <= r; e++)
        acc = REAL_FMA((REAL)*across++, k[-s * e] + k[s * (m + e)], acc);
    return acc;
}

/* acc + (k u′)′ along axis a by its centred row, of the radius r: a constant where this is called,
 * so that what is around the point stays in registers. */
TABLE_FUNCTION REAL TABLE_NAME(flows)(const struct TABLE_NAME(view) * view, int a,
                                      const TABLE_ROW *row, int r, REAL acc)
{
    const double *across = view->table->across;
    REAL around[2 * TABLE_RADIUS + 1], k_around[2 * TABLE_RADIUS + 1];
    TABLE_NAME(window)(view, 0, a, r, around);
    TABLE_NAME(window)(view, AXIS_COUNT, a, r, k_around);
    const REAL *u = around + r, *k = k_around + r;
    for (int m = 1; m <= r; m++) {
        const REAL above = TABLE_NAME(between)(k, across, r, m, 1) * (u[m] - u[0]);
        const REAL below = TABLE_NAME(between)(k, across, r, m, -1) * (u[-m] - u[0]);
        acc = REAL_FMA(TABLE_LOAD(&row->w[m - 1]), above + below, acc);
        across += m / 2 + r - m;
    }
    return acc;
}

/* acc + what flows in at the side of axis a that the point is next to, where one's datum does. */
TABLE_FUNCTION REAL TABLE_NAME(inflow)(const struct TABLE_NAME(view) * view, int a, REAL acc)
{
    const struct table_rows *rows = &view->table->rows[TABLE_ROWS_INFLOW][a];
    const struct table_axis *axis = &view->table->axis_of[a];
    const int64_t i = TABLE_NAME(pick)(view->at, a);
    if (i >= rows->low && axis->n - 1 - i >= rows->high)
        return acc;
    const int s = i < rows->low ? SIDE_LOW : SIDE_HIGH;
    const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_INFLOW, a);
    const int64_t first = TABLE_LOAD(&row->first), step = TABLE_LOAD(&row->step);
    const int count = TABLE_LOAD(&row->count);
    const REAL edge = TABLE_NAME(read)(view, AXIS_COUNT, a, first);
    REAL k = TABLE_LOAD(&row->w[0]) * edge;
    for (int m = 1; m < count; m++) {
        REAL next = TABLE_NAME(read)(view, AXIS_COUNT, a, first + m * step);
        if (axis->side[s].datum == SIDE_DATUM_MIXED_FACE && next > edge + edge)
            next = edge + edge; /* so that k at the face is half of it at least */
        k = REAL_FMA(TABLE_LOAD(&row->w[m]), next, k);
    }
    const REAL flow = k * TABLE_NAME(datum)(view, 0, a, s);
    return REAL_FMA((REAL)view->table->factor[view->pass->set], flow, acc);
}

/* acc + (k u′)′ along axis a by the point's row. u, k: at the point. */
TABLE_FUNCTION REAL TABLE_NAME(flows_along)(const struct TABLE_NAME(view) * view, int a, REAL u,
                                            REAL k, REAL acc)
{
    const int set = view->pass->set;
    const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_OF_FACTORS + set, a);
    const int step = TABLE_LOAD(&row->step), count = TABLE_LOAD(&row->count);
    if (step == 0) {
        switch (count) {
        case 1:
            acc = TABLE_NAME(flows)(view, a, row, 1, acc);
            break;
        case 2:
            acc = TABLE_NAME(flows)(view, a, row, 2, acc);
            break;
        case 3:
            acc = TABLE_NAME(flows)(view, a, row, 3, acc);
            break;
        case 4:
            acc = TABLE_NAME(flows)(view, a, row, 4, acc);
            break;
        case TABLE_RADIUS:
            acc = TABLE_NAME(flows)(view, a, row, TABLE_RADIUS, acc);
            break;
        }
        return acc;
    }
    if (count == TABLE_SPLIT) {
        REAL part[3]; /* u″, u′, k′ */
        for (int p = 0; p < 3; p++)
            part[p] =
                TABLE_NAME(along)(view, p < 2 ? 0 : AXIS_COUNT, a,
                                  TABLE_NAME(row)(view, TABLE_ROWS_SECOND + p, a), 0, (REAL)0);
        const REAL sum = REAL_FMA(part[2], part[1], k * part[0]);
        return REAL_FMA((REAL)view->table->factor[set], sum, acc);
    }
    const int64_t first = TABLE_LOAD(&row->first);
    for (int m = 0; m < count; m++) {
        const int64_t j = first + (int64_t)m * step;
        if (j != TABLE_NAME(pick)(view->at, a))
            acc = REAL_FMA(TABLE_LOAD(&row->w[m]), TABLE_NAME(flow)(view, a, j, u, k), acc);
    }
    return acc;
}

/* div(k grad u), and what it is added to. */
TABLE_FUNCTION REAL TABLE_NAME(divergence)(const struct TABLE_NAME(view) * view)
{
    const struct table_header *table = view->table;
    const REAL u = TABLE_NAME(read)(view, 0, AXIS_X, view->at[AXIS_X]);
    const REAL k = TABLE_LOAD(view->field[AXIS_COUNT] + view->place);
    REAL acc = view->base ? view->base[view->place] : table->identity ? u : (REAL)0;
    for (int a = 0; a < table->axes; a++) {
        acc = TABLE_NAME(flows_along)(view, a, u, k, acc);
        acc = table->conducts >> a & 1 ? TABLE_NAME(inflow)(view, a, acc) : acc;
    }
    return acc;
}

/* The second derivative along axis a, rounded as it is alone, at the point whose index along axis b
 * is j instead. */
TABLE_FUNCTION REAL TABLE_NAME(inner)(const struct TABLE_NAME(view) * view, int a, int b, int64_t j)
{
    const struct table_header *table = view->table;
    struct TABLE_NAME(view) there = *view;
    int negative = 0;
    if (j < 0 || j >= table->axis_of[b].n)
        j = TABLE_NAME(image)(&table->axis_of[b], j, &negative);
    TABLE_NAME(move)
    (&there, b == AXIS_X ? j : view->at[AXIS_X], b == AXIS_Y ? j : view->at[AXIS_Y],
     b == AXIS_Z ? j : view->at[AXIS_Z]);
    const TABLE_ROW *row = TABLE_NAME(row)(&there, TABLE_ROWS_INNER, a);
    REAL acc = (REAL)0;
    if (TABLE_LOAD(&row->step) == 0)
        acc = (REAL)table->inner_centre[a] *
              TABLE_NAME(read)(&there, 0, a, TABLE_NAME(pick)(there.at, a));
    acc = TABLE_NAME(along)(&there, 0, a, row, 1, acc);
    return negative ? -acc : acc;
}

/* acc + the mixed derivatives of a biharmonic: twice u_xxyy, u_xxzz, u_yyzz. */
TABLE_FUNCTION REAL TABLE_NAME(mixed)(const struct TABLE_NAME(view) * view, REAL acc)
{
    const struct table_header *table = view->table;
    for (int pair = 0; pair < 3; pair++) {
        const int a = pair < 2 ? AXIS_X : AXIS_Y, b = pair < 1 ? AXIS_Y : AXIS_Z;
        if (b >= table->axes)
            continue;
        const TABLE_ROW *row = TABLE_NAME(row)(view, TABLE_ROWS_OUTER, b);
        const int64_t first = TABLE_LOAD(&row->first), i = TABLE_NAME(pick)(view->at, b);
        const int step = TABLE_LOAD(&row->step), count = TABLE_LOAD(&row->count);
        for (int m = step == 0 ? -1 : 0; m < count; m++) {
            const int64_t j = step == 0 ? i + m + 1 : first + (int64_t)m * step;
            const REAL w = m < 0 ? (REAL)table->outer_centre[b] : TABLE_LOAD(&row->w[m]);
            REAL f = TABLE_NAME(inner)(view, a, b, j);
            if (step == 0 && m >= 0)
                f = f + TABLE_NAME(inner)(view, a, b, i - m - 1);
            acc = REAL_FMA(w, f, acc);
        }
    }
    return acc;
}

/* acc + the part of dt that the pass is × s. */
TABLE_FUNCTION REAL TABLE_NAME(source)(const struct TABLE_NAME(view) * view, REAL acc)
{
    const struct table_header *table = view->table;
    const REAL dt = (REAL)table->factor[view->pass->set];
    if (table->source == TABLE_SOURCE_NUMBER)
        return REAL_FMA(dt, (REAL)table->source_value, acc);
    const REAL *s = (const REAL *)view->pass->operand[OPERAND_SOURCE];
    return REAL_FMA(dt, TABLE_LOAD(s + view->batch * table->points + view->place), acc);
}

/* All that is a sum of even derivatives. */
TABLE_FUNCTION REAL TABLE_NAME(whole)(const struct TABLE_NAME(view) * view, int form)
{
    const struct table_header *table = view->table;
    REAL acc = form == TABLE_FORM_DIVERGENCE ? TABLE_NAME(divergence)(view) : TABLE_NAME(sum)(view);
    if (form == TABLE_FORM_BIHARMONIC)
        acc = TABLE_NAME(mixed)(view, acc);
    return table->source == TABLE_SOURCE_NONE ? acc : TABLE_NAME(source)(view, acc);
}

/* A point that a side of a diffusion holds. */
TABLE_FUNCTION REAL TABLE_NAME(held)(const struct TABLE_NAME(view) * view, int holder)
{
    const int a = holder / SIDE_COUNT;
    const struct side *side = &view->table->axis_of[a].side[holder % SIDE_COUNT];
    if (!side->halo)
        return TABLE_NAME(number)(view, a, &side->value, view->at);
    const REAL old = (view->base ? view->base : view->field[0])[view->place];
    return view->pass->held == TABLE_KEEP ? old : (REAL)side->value.number * old;
}

/* A component of the result at a point in a halo of an operator: of the input where that has it. */
TABLE_FUNCTION REAL TABLE_NAME(halo)(const struct TABLE_NAME(view) * view, int component,
                                     int holder)
{
    const struct table_header *table = view->table;
    const struct side *side = &table->axis_of[holder / SIDE_COUNT].side[holder % SIDE_COUNT];
    if (table->inputs > table->outputs)
        return (REAL)0;
    const int from = table->inputs == 1 ? 0 : component;
    return (REAL)side->value.number * TABLE_NAME(read)(view, from, AXIS_X, view->at[AXIS_X]);
}

/* A component of the result at the point, of a table of that form: a constant, where it can be. */
TABLE_FUNCTION REAL TABLE_NAME(evaluate_form)(const struct TABLE_NAME(view) * view, int component,
                                              int form)
{
    const struct table_header *table = view->table;
    const int diffusion = table->operator_id == OPERATOR_DIFFUSION;
    if (diffusion || table->halos) {
        const int holder = TABLE_NAME(holder)(table, !diffusion, view->at);
        if (holder >= 0)
            return diffusion ? TABLE_NAME(held)(view, holder)
                             : TABLE_NAME(halo)(view, component, holder);
    }
    return form == TABLE_FORM_PARTS ? TABLE_NAME(parts)(view, component)
                                    : TABLE_NAME(whole)(view, form);
}

TABLE_FUNCTION REAL TABLE_NAME(evaluate)(const struct TABLE_NAME(view) * view, int component)
{
    return TABLE_NAME(evaluate_form)(view, component, view->table->form);
}

/* The first input at the point, with the sides' values in their nodes. */
TABLE_FUNCTION REAL TABLE_NAME(impose)(const struct TABLE_NAME(view) * view)
{
    const struct table_header *table = view->table;
    int a;
    const struct side *side = TABLE_NAME(stated)(table, view->at, &a);
    return side ? TABLE_NAME(number)(view, a, &side->value, view->at) : view->field[0][view->place];
}
