/* One point of one pass of an operator, evaluated by its table: the contract of
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

#include "numerics/table_read.h"

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
        j = side_image(table->axis_of[b].side, table->axis_of[b].n, j, &negative);
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
