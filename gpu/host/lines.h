/* Lines along x of the operators that have centred stencils of orders 1 and 2, a block of each at a
 * time: what the loops of stencil.h can do goes to them, points next to an end of x with closures
 * are lanes of a vector, and all else is left to table_lines.h. */

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

static void NAME(edge_init)(struct NAME(work) * work, int side)
{
    const struct table_header *table = work->view.table;
    const struct table_axis *x = &table->axis_of[AXIS_X];
    const struct table_rows *rows = &table->rows[0][AXIS_X];
    const int64_t apart = side == SIDE_LOW ? x->low : x->n - x->high;
    struct NAME(edge) *edge = &work->edge[side];
    edge->rows = !(table->active & 1) ? 0 : side == SIDE_LOW ? rows->low : rows->high;
    edge->points = 0;
    edge->by_table = apart > edge->rows && apart > x->side[side].held;
    edge->by_table |= x->side[side].held && table->operator_id != OPERATOR_DIFFUSION;
    for (int d = 0; d < edge->rows; d++) {
        const TABLE_ROW *row = NAME(row_of)(work, AXIS_X, side == SIDE_LOW ? d : rows->low + d);
        edge->by_table |= row->step == 0 || row->data[side] != (REAL)0;
        if (edge->by_table)
            return;
        edge->points = row->count;
        for (int k = 0; k < row->count; k++)
            edge->weight[k][side == SIDE_LOW ? d : edge->rows - 1 - d] = row->w[k];
    }
}

/* The loop of a component, what it reads, and where. */
static void NAME(loop_init)(struct NAME(work) * work, int component)
{
    static const enum NAME(loop) odd[] = {[1] = NAME(ODD_X),
                                          [2] = NAME(ODD_Y),
                                          [4] = NAME(ODD_Z),
                                          [3] = NAME(ODD_XY),
                                          [7] = NAME(ODD_XYZ)};
    static const enum NAME(loop)
        curl[] = {[3] = NAME(CURL_XY), [5] = NAME(CURL_ZX), [6] = NAME(CURL_YZ)};
    static const enum NAME(loop) even[][2] = {[1] = {NAME(EVEN_X), NAME(EVEN_X)},
                                              [4] = {NAME(EVEN_Z), NAME(EVEN_Z)},
                                              [5] = {NAME(PLANE), NAME(PLANE_SHARED)},
                                              [7] = {NAME(SPACE), NAME(SPACE_SHARED)}};
    const struct table_header *table = work->view.table;
    int of, along, set = 0;
    memset(work->of[component], 0, sizeof work->of[component]);
    for (int k = 0; table->odd && table_part(table, component, k, &of, &along); k++) {
        work->of[component][along] = of;
        set |= 1 << along;
    }
    if (!table->odd)
        set = table->active;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct table_axis *axis = &table->axis_of[a];
        const int64_t high = axis->n - axis->side[SIDE_HIGH].held;
        work->box[component].low[a] = set >> a & 1 ? axis->low : axis->side[SIDE_LOW].held;
        work->box[component].high[a] = set >> a & 1 ? axis->high : high;
    }
    work->loop[component] = !table->odd ? even[table->active][table->shared]
                            : table->operator_id == OPERATOR_CURL ? curl[set]
                                                                  : odd[set];
}

static void NAME(work_init)(struct NAME(work) * work, const struct tile *tile)
{
    const struct table_header *table = tile->table;
    const struct table_axis *x = &table->axis_of[AXIS_X];
    NAME(work_begin)(work, table, tile->rows, tile->pass, 0);
    work->tile = tile;
    work->radius = tile->radius;
    work->holds = table->halos || table->imposes;
    for (int a = AXIS_Y; a < AXIS_COUNT && table->operator_id == OPERATOR_DIFFUSION; a++)
        work->holds |=
            table->axis_of[a].side[SIDE_LOW].held || table->axis_of[a].side[SIDE_HIGH].held;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct table_rows *rows = &table->rows[0][a];
        for (int m = 1; table->active >> a & 1 && m <= work->radius; m++)
            work->c[a][m] = NAME(row_of)(work, a, rows->low + rows->high)->w[m - 1];
    }
    for (int side = 0; side < SIDE_COUNT; side++)
        NAME(edge_init)(work, side);
    for (int c = 0; c < table->outputs; c++)
        NAME(loop_init)(work, c);
    for (int k = 0; k < work->radius; k++) {
        work->below[k] = table->active & 1 ? NAME(index)(x, -1 - k) : 0;
        work->above[k] = table->active & 1 ? NAME(index)(x, x->n + k) : 0;
    }
}

/* Points [begin, end) of the line f, at `row`, with their neighbours along x beside them: those
 * outside are brought back. */
static void NAME(row_fill)(const struct NAME(work) * work, REAL *row, const REAL *f, int64_t begin,
                           int64_t end)
{
    const int64_t n = work->view.table->axis_of[AXIS_X].n, radius = work->radius;
    const int64_t low = begin < radius ? 0 : begin - radius;
    const int64_t high = end > n - radius ? n : end + radius;
    for (int64_t i = begin - radius; i < 0; i++)
        row[i - begin] = f[work->below[-1 - i]];
    for (int64_t i = n; i < end + radius; i++)
        row[i - begin] = f[work->above[i - n]];
    memcpy(row + (low - begin), f + low, (size_t)(high - low) * sizeof *f);
}

/* Where the first row is put. Its address differs by half a page from that of `out`, which is
 * written soon after: a load is held up by a store before it whose address ends in the same 12
 * bits. */
static REAL *NAME(row_place)(struct NAME(work) * work, const REAL *out)
{
    const uintptr_t first = (uintptr_t)(work->row + MARGIN);
    return work->row + MARGIN + ((uintptr_t)out + PAGE / 2 - first) % PAGE / sizeof(REAL);
}

/* From a row of so many points to the next. */
static int64_t NAME(row_length)(int64_t points)
{
    return (points + 2 * MARGIN - 1) / MARGIN * MARGIN;
}

/* acc and the closures of `lanes` points of the line f, which are the rows from `row` on as lanes:
 * all of the same points. Where not `begun` the first product is the first term. */
static NAME(vector) NAME(edge_add)(const struct NAME(work) * work, int side, int row, const REAL *f,
                                   int lanes, bool begun, NAME(vector) acc)
{
    const int64_t last = work->view.table->axis_of[AXIS_X].n - 1;
    const struct NAME(edge) *edge = &work->edge[side];
    for (int k = 0; k < edge->points; k++) {
        const NAME(vector) value = NAME(fill)(f[side == SIDE_LOW ? k : last - k]);
        const NAME(vector) weight = NAME(load_some)(&edge->weight[k][row], lanes);
        acc = begun || k > 0 ? NAME(fma)(weight, value, acc) : weight * value;
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
    const bool lies = (a == AXIS_Y || !source->planes) && !table->imposes;
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
                    part = NAME(fill)(centre) * NAME(load_some)(f + i, lanes);
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
    if (!centred) /* what it reads of scratch lines is of one row */
        part.rows = 1;
    for (; part.y < run->y + run->rows; part.y += part.rows)
        for (int b = 0; b < run->count; b++) {
            NAME(run_held)(work, &part, &sides[SIDE_LOW], b, begin, low);
            NAME(run_held)(work, &part, &sides[SIDE_HIGH], b, high, end);
            if (low < from || to < high || !centred)
                NAME(sums_init)(&sums, work, &part, component, b);
            if (low < from)
                NAME(run_edge)(work, &part, &sums, SIDE_LOW, b, low, from);
            if (to < high)
                NAME(run_edge)(work, &part, &sums, SIDE_HIGH, b, to, high);
            if (!centred)
                NAME(run_sums)(work, &sums, from, to, part.out[b]);
            part.out[b] += part.rows * part.out_row;
        }
}

/* Points [begin, end), at least a vector, of a stretch whose lines are set for point 0. Where
 * neighbours along x may be outside, the points are brought beside them first. */
static void NAME(stretch_part)(struct NAME(work) * work, const struct NAME(stretch) * lines,
                               int count, int64_t begin, int64_t end, bool bring, bool stream)
{
    const int reach = work->radius;
    struct NAME(stretch) part = *lines;
    part.points = end - begin;
    part.stream = stream;
    for (int k = -reach; k < count + reach; k++)
        part.in[PLAN_RADIUS + k] += begin;
    for (int b = 0; b < count; b++) {
        part.out[b] += begin;
        part.x[b] += begin;
        part.f[b] += begin;
    }
    if (bring) {
        REAL *place = NAME(row_place)(work, part.out[0]);
        part.x_row = NAME(row_length)(part.points);
        for (int b = 0; b < count; b++) {
            part.x[b] = place + b * ROW;
            for (int row = 0; row < part.rows; row++)
                NAME(row_fill)
            (work, place + b * ROW + row * part.x_row, lines->x[b] + row * part.in_row, begin, end);
        }
    }
    lines->loop(&part);
}

/* The same, in up to three parts: next to the ends whole vectors that may write points of the
 * middle too, and the middle, where nothing is brought and what is streamed is aligned. */
static void NAME(stretch_parts)(struct NAME(work) * work, const struct NAME(stretch) * lines,
                                int count, int64_t begin, int64_t end, bool stream)
{
    const int64_t n = work->view.table->axis_of[AXIS_X].n;
    const int64_t radius = work->radius, lanes = NAME(LANES);
    const bool low = lines->along_x && begin < radius;
    const bool high = lines->along_x && end > n - radius;
    const int64_t shift =
        stream ? (int64_t)((uintptr_t)lines->out[0] / sizeof(REAL)) : -begin; /* to alignment */
    int64_t from = low ? begin + radius : begin, to = high ? end - radius : end;
    from += (lanes - (from + shift) % lanes) % lanes;
    to -= (to + shift) % lanes;
    if (end - begin < SHORT * lanes && (low || high || from > begin || to < end)) {
        NAME(stretch_part)(work, lines, count, begin, end, low || high, false);
        return;
    }
    const int64_t head = (from - begin + lanes - 1) / lanes * lanes;
    const int64_t tail = (end - to + lanes - 1) / lanes * lanes;
    /* The middle first: it runs through memory in order, and what the ends read is then cached. */
    NAME(stretch_part)(work, lines, count, from, to, false, stream);
    if (head > 0)
        NAME(stretch_part)
    (work, lines, count, begin, begin + head, low, stream && head == from - begin);
    if (tail > 0)
        NAME(stretch_part)
    (work, lines, count, end - tail, end, high, stream && tail == end - to);
}

/* How far ahead is fetched: along lines that are longer than what the caches should hold of them,
 * else by rows. */
static int64_t NAME(ahead)(int64_t row)
{
    return row > LINES * BLOCK ? BLOCK : AHEAD * row;
}

/* A component of points [begin, end), at least a vector, of `count` lines from b on. */
static void NAME(run_centred)(struct NAME(work) * work, const struct NAME(run) * run, int component,
                              int b, int count, int64_t begin, int64_t end)
{
    const struct table_header *table = work->view.table;
    const int *of = work->of[component], reach = work->radius;
    const enum NAME(loop) loop = work->loop[component];
    const struct NAME(source) *sources = run->sources;
    const int64_t y = run->y, z = run->z + b;
    struct NAME(stretch) lines = {.rows = run->rows};
    lines.loop = NAME(loops)[loop][count == LINES][reach - 1];
    lines.along_x =
        table->active & 1 && loop != NAME(ODD_Y) && loop != NAME(ODD_Z) && loop != NAME(CURL_YZ);
    lines.out_row = run->out_row;
    lines.x_row = lines.in_row = sources->stride[AXIS_Y];
    lines.ahead = NAME(ahead)(lines.in_row);
    lines.centre = (REAL)table->centre[0][table->active];
    for (int a = 0; a < AXIS_COUNT; a++)
        lines.weight[a] = work->c[a];
    for (int k = -reach; k < count + reach; k++)
        lines.in[PLAN_RADIUS + k] = NAME(source_line)(&sources[of[AXIS_Z]], table, y, z + k);
    for (int k = 0; k < count; k++) {
        lines.x[k] = NAME(source_line)(&sources[of[AXIS_X]], table, y, z + k);
        lines.f[k] = NAME(source_line)(&sources[of[AXIS_Y]], table, y, z + k);
        lines.out[k] = run->out[b + k] - run->begin;
    }
    for (int m = -reach; table->active >> AXIS_Y & 1 && m <= reach; m++)
        lines.y[PLAN_RADIUS + m] =
            NAME(source_line)(&sources[of[AXIS_Y]], table, y + m, z) - lines.f[0];
    NAME(stretch_parts)(work, &lines, count, begin, end, run->stream);
}

/* How many rows from y on can be computed together, of those before `end`. Lines past an edge do
 * not lie evenly. */
static int NAME(rows_together)(const struct NAME(work) * work, const struct NAME(source) * source,
                               int64_t y, int64_t end, int64_t points)
{
    const struct table_axis *axis = &work->view.table->axis_of[AXIS_Y];
    /* Of long rows only the ends are brought beside each other, see stretch_parts(). */
    const bool brought = points < SHORT * NAME(LANES) + 2 * PLAN_ROWS;
    const int64_t most = BLOCK / NAME(row_length)(brought ? points : 2 * NAME(LANES));
    const int64_t reach = work->radius;
    int64_t stop = end;
    if (work->view.table->active >> AXIS_Y & 1 && source->wraps[AXIS_Y]) {
        const int64_t first = axis->low > reach ? axis->low : reach;
        stop = axis->high < axis->n - reach ? axis->high : axis->n - reach;
        stop = stop < end ? stop : end;
        if (y < first || y >= stop)
            return 0;
    }
    return most < 1 ? 1 : stop - y < most ? (int)(stop - y) : (int)most;
}

/* Do all lines begin at the same place of a vector? */
static bool NAME(alike)(const struct NAME(run) * run)
{
    bool alike = run->rows == 1 || run->out_row % NAME(LANES) == 0;
    for (int b = 1; b < run->count; b++)
        alike &= ((uintptr_t)run->out[b] - (uintptr_t)run->out[0]) % VECTOR_BYTES == 0;
    return alike;
}

/* Points [begin, end) of all lines, by their table. */
static void NAME(run_table)(struct NAME(work) * work, const struct NAME(run) * run, int component,
                            int64_t begin, int64_t end)
{
    for (int b = 0; begin < end && b < run->count; b++)
        for (int row = 0; row < run->rows; row++)
            NAME(table_points)
    (work, run->sources, component, run->y + row, run->z + b, begin, end,
     run->out[b] + row * run->out_row + (begin - run->begin));
}

/* A component of the lines; even: those that they read along y lie evenly. */
static void NAME(run_lines)(struct NAME(work) * work, const struct NAME(run) * run, int component,
                            bool even)
{
    const struct table_header *table = work->view.table;
    const struct NAME(box) *box = &work->box[component];
    const int64_t begin = run->begin, end = run->end;
    const int64_t y = NAME(index)(&table->axis_of[AXIS_Y], run->y);
    const int64_t z = NAME(index)(&table->axis_of[AXIS_Z], run->z);
    const int64_t at[AXIS_COUNT] = {work->low, y, z};
    const int64_t low = box->low[AXIS_X], high = box->high[AXIS_X];
    const int64_t from = low < begin ? begin : low < end ? low : end;
    const int64_t to = high > end ? end : high > from ? high : from;
    const bool by_table = (begin < from && work->edge[SIDE_LOW].by_table) ||
                          (to < end && work->edge[SIDE_HIGH].by_table);
    const bool boxed = NAME(is_boxed)(box, AXIS_Y, y) && NAME(is_boxed)(box, AXIS_Z, z);
    const bool centred = boxed && to - from >= NAME(LANES);
    const int holder = work->holds ? TABLE_NAME(holder)(table, 0, at) : -1;
    if ((by_table && (!boxed || to - from < SHORT * NAME(LANES))) ||
        (holder >= 0 && table->operator_id != OPERATOR_DIFFUSION)) {
        NAME(run_table)(work, run, component, begin, end);
        return;
    }
    if (holder >= 0 || work->tile->pass->impose) {
        const struct side *side =
            holder < 0 ? NULL : &table->axis_of[holder / SIDE_COUNT].side[holder % SIDE_COUNT];
        const int64_t first = work->low < begin ? begin : work->low < end ? work->low : end;
        const int64_t last = work->high > end ? end : work->high > first ? work->high : first;
        for (int b = 0; b < run->count; b++) {
            NAME(run_held)(work, run, &table->axis_of[AXIS_X].side[SIDE_LOW], b, begin, first);
            NAME(run_held)(work, run, side, b, first, last);
            NAME(run_held)(work, run, &table->axis_of[AXIS_X].side[SIDE_HIGH], b, last, end);
        }
        return;
    }
    if (by_table) {
        NAME(run_table)(work, run, component, begin, from);
        NAME(run_table)(work, run, component, to, end);
    } else if (begin < from || to < end || !boxed) {
        NAME(run_ends)(work, run, component, boxed, from, to);
    }
    if (boxed && !centred && from < to) {
        struct NAME(run) middle = *run;
        middle.begin = from;
        middle.end = to;
        for (int b = 0; b < run->count; b++)
            middle.out[b] += from - begin;
        NAME(run_ends)(work, &middle, component, false, from, to);
    }
    if (!centred)
        return;
    if (even && run->count == LINES && (!run->stream || NAME(alike)(run))) {
        NAME(run_centred)(work, run, component, 0, run->count, from, to);
        return;
    }
    struct NAME(run) row = *run;
    for (row.rows = 1; row.y < run->y + run->rows; row.y++)
        for (int b = 0; b < run->count; b++) {
            NAME(run_centred)(work, &row, component, b, 1, from, to);
            row.out[b] += run->out_row;
        }
}
