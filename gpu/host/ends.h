/* Points of lines along x next to an end with closures, which are lanes of a vector, and lines that
 * are not centred along y and z: sums of terms. */

/* Points [begin, end) of lines that are computed together: `count` along z from z on, `rows` along
 * y from y on. Where they are more than one, all are centred along y and z, and those that they
 * read along y lie evenly. y and z are inside, or past a periodic edge. */
struct NAME(run) {
    const struct NAME(source) * sources; /* by component of the input */
    int count, rows;
    int64_t y, z, begin, end;
    REAL *out[LINES]; /* point `begin` of the first row of each */
    int64_t out_row;  /* from a row to the next */
    bool stream;      /* write out past the caches where that can be done */
};

/* Is the index inside of the box along the axis? */
static bool NAME(is_boxed)(const struct NAME(box) * box, int a, int64_t at)
{
    return at >= box->low[a] && at < box->high[a];
}

static const TABLE_ROW *NAME(row_of)(const struct NAME(work) * work, int a, int64_t r)
{
    return (const TABLE_ROW *)(work->view.bytes + work->view.table->rows[0][a].at) + r;
}

/* Can row d of that side be a lane beside the others? All read the same points, from the end on,
 * and have a datum or not. */
static bool NAME(is_lane)(const struct NAME(work) * work, int side, int d, const TABLE_ROW *row)
{
    const struct table_axis *x = &work->view.table->axis_of[AXIS_X];
    const struct NAME(edge) *edge = &work->edge[side];
    const bool has_datum = row->data[side] != (REAL)0;
    return row->step == (side == SIDE_LOW ? 1 : -1) &&
           row->first == (side == SIDE_LOW ? 0 : x->n - 1) &&
           row->count <= (side == SIDE_LOW ? x->last + 1 : x->n - x->first) && /* not imposed */
           (!has_datum || x->side[side].datum == SIDE_DATUM_NUMBER) &&
           (d == 0 || (row->count == edge->points && has_datum == edge->has_datum));
}

static void NAME(edge_init)(struct NAME(work) * work, int side)
{
    const struct table_header *table = work->view.table;
    const struct table_axis *x = &table->axis_of[AXIS_X];
    const struct table_rows *rows = &table->rows[0][AXIS_X];
    const int apart = (int)(side == SIDE_LOW ? x->low : x->n - x->high);
    struct NAME(edge) *edge = &work->edge[side];
    memset(edge, 0, sizeof *edge);
    edge->rows = !(table->active & 1) ? 0 : side == SIDE_LOW ? rows->low : rows->high;
    edge->imposed = (int)(side == SIDE_LOW ? x->first : x->n - 1 - x->last);
    for (int i = 0; i < 2 * NAME(LANES); i++)
        edge->value[i] = (REAL)x->side[side].value.number;
    edge->by_table = (apart > edge->rows && apart > x->side[side].held) ||
                     edge->imposed > edge->rows ||
                     (x->side[side].halo && table->operator_id != OPERATOR_DIFFUSION);
    for (int d = 0; d < edge->rows; d++) {
        const TABLE_ROW *row = NAME(row_of)(work, AXIS_X, side == SIDE_LOW ? d : rows->low + d);
        const int lane = side == SIDE_LOW ? d : edge->rows - 1 - d;
        edge->by_table |= !NAME(is_lane)(work, side, d, row);
        if (edge->by_table)
            return;
        edge->points = row->count;
        edge->has_datum = row->data[side] != (REAL)0;
        edge->datum[lane] = row->data[side];
        for (int k = 0; k < row->count; k++)
            edge->weight[k][lane] = row->w[k];
    }
}

/* acc and the closures of `lanes` points of the line f, which are the rows from `row` on as lanes:
 * all of the same points. Where not `begun` the first product is the first term. */
static NAME(vector) NAME(edge_add)(const struct NAME(work) * work, int side, int row, const REAL *f,
                                   int lanes, bool begun, NAME(vector) acc)
{
    const int64_t last = work->view.table->axis_of[AXIS_X].n - 1;
    const struct NAME(edge) *edge = &work->edge[side];
    for (int k = 0; k < edge->points; k++) {
        const REAL point = k < edge->imposed ? edge->value[0] : f[side == SIDE_LOW ? k : last - k];
        const NAME(vector) value = NAME(fill)(point);
        const NAME(vector) weight = NAME(load_some)(&edge->weight[k][row], lanes);
        acc = begun || k > 0 ? NAME(fma)(weight, value, acc) : weight * value;
    }
    if (edge->has_datum) {
        const NAME(vector) value = NAME(fill)(edge->value[0]);
        const NAME(vector) weight = NAME(load_some)(&edge->datum[row], lanes);
        acc = begun || edge->points > 0 ? NAME(fma)(weight, value, acc) : weight * value;
    }
    return acc;
}

/* Points [begin, end) of line b in all rows, which the side holds; NULL: they are copied. */
static void NAME(run_held)(const struct NAME(work) * work, const struct NAME(run) * run,
                           const struct side *side, int b, int64_t begin, int64_t end)
{
    const bool copies = !side || (side->halo && work->tile->pass->impose);
    const REAL value = side ? (REAL)side->value.number : 0;
    for (int row = 0; begin < end && row < run->rows; row++) {
        const REAL *f = NAME(source_line)(run->sources, work->view.table, run->y + row, run->z + b);
        REAL *out = run->out[b] + row * run->out_row - run->begin;
        for (int64_t i = begin; i < end; i++)
            out[i] = copies ? f[i] : side->halo ? value * f[i] : value;
    }
}

/* The terms of axis a, which is y or z, at the line that the view is at: f, which lies at y and z.
 * True: they are those of the centred row. */
static bool NAME(put_across)(struct NAME(work) * work, struct NAME(terms) * terms,
                             const struct NAME(source) * source, int component, int a,
                             struct NAME(place) at, const REAL *f)
{
    const struct table_header *table = work->view.table;
    const struct table_axis *axis = &table->axis_of[a];
    const TABLE_ROW *row = TABLE_NAME(row)(&work->view, 0, a);
    const int64_t i = a == AXIS_Y ? at.y : at.z, stride = source->stride[a], reach = work->radius;
    const bool lies = a == AXIS_Y || !source->planes;
    if (lies && row->step == 0 && i >= axis->low && i < axis->high && i >= reach &&
        i + reach < axis->n) {
        for (int m = 1; m <= reach; m++)
            NAME(terms_put)(terms, work->c[a][m], f + m * stride, f - m * stride);
    } else if (lies && row->step != 0) {
        for (int k = 0; k < row->count; k++)
            NAME(terms_put)
        (terms, row->w[k], f + (row->first + (int64_t)k * row->step - i) * stride, NULL);
        NAME(table_put_data)(work, terms, 0, component, a, at.y, at.z);
    } else {
        NAME(table_put_along)(work, terms, 0, component, a, at.y, at.z, NULL);
    }
    return row->step == 0;
}

/* A line as sums of terms, those of y and z in their order, each from point run->begin on: one sum
 * of an even operator, else one for each derivative, which are then added. */
struct NAME(sums) {
    int count;
    struct NAME(terms) across[AXIS_COUNT];
    const REAL *line[AXIS_COUNT]; /* the line itself, of the component that is read */
    const REAL *centre;           /* what has the centre's weight */
    int of[AXIS_COUNT];           /* … which that is */
    bool along_x[AXIS_COUNT];     /* is there a derivative along x in it? */
    int centred;                  /* bits of y and z: even, and by the centred row */
    struct NAME(place) at;
};

static void NAME(sums_init)(struct NAME(sums) * sums, struct NAME(work) * work,
                            const struct NAME(run) * run, int component, int b)
{
    const struct table_header *table = work->view.table;
    const bool even = !table->odd;
    int k = 0, of = 0, along = AXIS_X;
    const struct NAME(place) at = NAME(table_begin)(work, run->sources, run->y, run->z + b);
    work->begin = run->begin;
    work->end = run->end;
    TABLE_NAME(move)(&work->view, run->begin, at.y, at.z);
    sums->at = at;
    sums->centred = 0;
    for (; even ? k < 1 : table_part(table, component, k, &of, &along); k++) {
        const struct NAME(source) *source = &run->sources[of];
        NAME(terms_begin)(&sums->across[k], !even, even);
        sums->line[k] = NAME(source_line)(source, table, run->y, run->z + b) + run->begin;
        sums->of[k] = of;
        sums->along_x[k] = even || along == AXIS_X;
        for (int a = AXIS_Y; a < AXIS_COUNT; a++)
            if (even ? table->active >> a & 1 : along == a)
                sums->centred |=
                    NAME(put_across)(work, &sums->across[k], source, of, a, at, sums->line[k]) << a;
    }
    sums->count = k;
    sums->centre = sums->line[0];
}

/* Points [begin, end) of line b in all rows, next to an end of x. even: of an even operator;
 * several: sums. */
ALWAYS_INLINE void NAME(run_edge_of)(const struct NAME(work) * work, const struct NAME(run) * run,
                                     const struct NAME(sums) * sums, int side, int b, int64_t begin,
                                     int64_t end, bool even, bool several)
{
    const struct table_header *table = work->view.table;
    const int64_t in_row = run->sources->stride[AXIS_Y];
    const int64_t first = side == SIDE_LOW ? 0 : table->axis_of[AXIS_X].n - work->edge[side].rows;
    const bool begun = even && (sums->centred || table->identity);
    const REAL centre = (REAL)table->centre[0][sums->centred];
    REAL *out = run->out[b] - run->begin;
    for (int row = 0; row < run->rows; row++, out += run->out_row)
        for (int64_t i = begin; i < end; i += NAME(LANES)) {
            const int lanes = end - i < NAME(LANES) ? (int)(end - i) : NAME(LANES);
            const int64_t at = row * in_row + i - run->begin;
            NAME(vector) sum = NAME(fill)(0);
            for (int k = 0; k < (several ? sums->count : 1); k++) {
                const REAL *f = sums->line[k] + row * in_row - run->begin;
                NAME(vector) part = NAME(fill)(0);
                if (begun)
                    part = NAME(fill)(centre) * NAME(load_some)(sums->centre + at, lanes);
                if (even || sums->along_x[k])
                    part = NAME(edge_add)(work, side, (int)(i - first), f, lanes, even, part);
                if (sums->across[k].count > 0)
                    part = NAME(terms_add)(&sums->across[k], part, at, lanes);
                sum = k == 0 ? part : table->operator_id == OPERATOR_CURL ? sum - part : sum + part;
            }
            NAME(store_some)(out + i, sum, lanes);
        }
}

static void NAME(run_edge)(const struct NAME(work) * work, const struct NAME(run) * run,
                           const struct NAME(sums) * sums, int side, int b, int64_t begin,
                           int64_t end)
{
    if (!work->view.table->odd)
        NAME(run_edge_of)(work, run, sums, side, b, begin, end, true, false);
    else if (sums->count == 1)
        NAME(run_edge_of)(work, run, sums, side, b, begin, end, false, false);
    else
        NAME(run_edge_of)(work, run, sums, side, b, begin, end, false, true);
}

/* Imposed points [begin, end) of line b, next to an end of x: all that lies beside them along y and
 * z is imposed, too, as the sums have it afterwards. */
static void NAME(run_imposed)(const struct NAME(work) * work, const struct NAME(run) * run,
                              struct NAME(sums) * sums, int side, int b, int64_t begin, int64_t end)
{
    const REAL *const value = work->edge[side].value - (begin - run->begin);
    if (begin == end)
        return;
    sums->centre = value;
    for (int k = 0; k < sums->count; k++)
        for (int t = 0; t < sums->across[k].count; t++) {
            struct NAME(term) *term = &sums->across[k].term[t];
            for (int p = 0; p < term->pairs; p++)
                term->a[p] = term->b[p] = value;
        }
    NAME(run_edge)(work, run, sums, side, b, begin, end);
}

/* Sum k of points [begin, end) of a line, which are centred along x. out: from point run->begin on.
 */
static void NAME(run_sum)(struct NAME(work) * work, const struct NAME(sums) * sums, int k,
                          int64_t begin, int64_t end, REAL *out)
{
    const struct table_header *table = work->view.table;
    const int centred = sums->centred | (table->active & 1);
    const bool begins = !table->odd && (centred || table->identity);
    const REAL *x = sums->line[k];
    struct NAME(terms) terms;
    if (table->odd && !sums->along_x[k]) {
        NAME(terms_sum)(&sums->across[k], NULL, out, begin - work->begin, end - work->begin);
        return;
    }
    NAME(terms_begin)(&terms, table->odd, !table->odd && !begins);
    if (table->active & 1 && sums->along_x[k])
        x = NAME(table_neighbours)(work, 0, sums->of[k], sums->at.y, sums->at.z);
    if (begins)
        NAME(terms_put)(&terms, (REAL)table->centre[0][centred], x, NULL);
    for (int m = 1; table->active & 1 && sums->along_x[k] && m <= work->radius; m++)
        NAME(terms_put)(&terms, work->c[AXIS_X][m], x + m, x - m);
    const bool together = table->shared && centred == table->active && table->active & 1;
    for (int t = 0, pair = 0; t < sums->across[k].count; t++) {
        const struct NAME(term) *term = &sums->across[k].term[t];
        struct NAME(term) *first = &terms.term[1 + pair % work->radius];
        if (together && term->pairs) { /* the pairs of a weight are added first */
            first->a[first->pairs] = term->a[0];
            first->b[first->pairs++] = term->b[0];
            pair++;
        } else {
            terms.term[terms.count++] = *term;
        }
    }
    NAME(terms_sum)(&terms, NULL, out, begin - work->begin, end - work->begin);
}

/* All of its sums. */
static void NAME(run_sums)(struct NAME(work) * work, const struct NAME(sums) * sums, int64_t begin,
                           int64_t end, REAL *out)
{
    const bool less = work->view.table->operator_id == OPERATOR_CURL;
    NAME(run_sum)(work, sums, 0, begin, end, out);
    for (int k = 1; k < sums->count; k++) {
        const int used = work->used;
        REAL *part = NAME(table_scratch)(work);
        NAME(run_sum)(work, sums, k, begin, end, part);
        for (int64_t i = begin - work->begin; i < end - work->begin; i++)
            out[i] = less ? out[i] - part[i] : out[i] + part[i];
        work->used = used;
    }
}

/* Points [from, to) of the lines are in the box along x, but not all of them along y and z, or are
 * left to others (`centred`). Those of a line next to the ends of x share what they read with each
 * other, and with these. */
static void NAME(run_ends)(struct NAME(work) * work, const struct NAME(run) * run, int component,
                           bool centred, int64_t from, int64_t to)
{
    const struct table_header *table = work->view.table;
    const struct table_axis *x = &table->axis_of[AXIS_X];
    const struct side *sides = x->side;
    const int64_t begin = run->begin, end = run->end;
    const int64_t low = sides[SIDE_LOW].held < begin  ? begin
                        : sides[SIDE_LOW].held < from ? sides[SIDE_LOW].held
                                                      : from;
    const int64_t last = x->n - sides[SIDE_HIGH].held;
    const int64_t high = last > end ? end : last > to ? last : to;
    struct NAME(run) part = *run;
    struct NAME(sums) sums;
    if (!centred || table->imposes) /* what it reads of scratch lines is of one row */
        part.rows = 1;
    if (table->imposes) { /* else lines beside it would be read as at its first point: imposed */
        part.begin = low;
        part.end = high;
        for (int b = 0; b < run->count; b++)
            part.out[b] += low - begin;
    }
    for (; part.y < run->y + run->rows; part.y += part.rows)
        for (int b = 0; b < run->count; b++) {
            if (!table->imposes) {
                NAME(run_held)(work, &part, &sides[SIDE_LOW], b, begin, low);
                NAME(run_held)(work, &part, &sides[SIDE_HIGH], b, high, end);
            }
            if (begin < from || to < end || !centred)
                NAME(sums_init)(&sums, work, &part, component, b);
            if (low < from)
                NAME(run_edge)(work, &part, &sums, SIDE_LOW, b, low, from);
            if (to < high)
                NAME(run_edge)(work, &part, &sums, SIDE_HIGH, b, to, high);
            if (!centred)
                NAME(run_sums)(work, &sums, from, to, part.out[b]);
            if (table->imposes) {
                NAME(run_imposed)(work, &part, &sums, SIDE_LOW, b, begin, low);
                NAME(run_imposed)(work, &part, &sums, SIDE_HIGH, b, high, end);
            }
            part.out[b] += part.rows * part.out_row;
        }
}
