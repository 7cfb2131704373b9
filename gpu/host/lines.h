/* Lines along x of the operators that have centred stencils of orders 1 and 2, a strip of each at a
 * time: what the loops of stencil.h can do goes to them, points next to an end of x with closures
 * to ends.h, and all else to table_lines.h. */

/* The loops of a component, what it reads, and where. */
static void NAME(loop_init)(struct NAME(work) * work, int component)
{
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
    const bool one_axis = (set & (set - 1)) == 0;
    work->loops[component] =
        NAME(loops_of)(set, table->odd, !table->odd && (table->shared || one_axis),
                       table->operator_id == OPERATOR_CURL);
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
    work->plain = x->first == 0 && x->last == x->n - 1;
    for (int side = 0; side < SIDE_COUNT && table->active & 1; side++)
        for (int k = 0; k < work->radius; k++) {
            struct NAME(image) *image = &work->outside[side][k];
            const int64_t i = side == SIDE_LOW ? -1 - k : x->n + k;
            int negative = 0;
            image->at = side_image(x->side, x->n, i, &negative);
            image->lifts = TABLE_NAME(lifts)(x, i);
            image->negative = negative;
            work->plain &=
                image->lifts < 0 && !negative && image->at >= x->first && image->at <= x->last;
        }
}

/* A point of the line f that lies beyond a side. */
static REAL NAME(outside)(const struct NAME(work) * work, const REAL *f,
                          const struct NAME(image) * image)
{
    const struct table_axis *x = &work->view.table->axis_of[AXIS_X];
    const REAL value = image->at < x->first  ? (REAL)x->side[SIDE_LOW].value.number
                       : image->at > x->last ? (REAL)x->side[SIDE_HIGH].value.number
                                             : f[image->at];
    if (image->lifts >= 0)
        return REAL_FMA((REAL)2, (REAL)x->side[image->lifts].value.number, -value);
    return image->negative ? -value : value;
}

/* The points of row_fill()'s row that lie beyond a side or are imposed. A function of its own, so
 * that the common case is short. */
__attribute__((noinline)) static void NAME(row_outside)(const struct NAME(work) * work, REAL *row,
                                                        const REAL *f, int64_t begin, int64_t end)
{
    const struct table_axis *x = &work->view.table->axis_of[AXIS_X];
    const int64_t from = begin - work->radius, to = end + work->radius;
    for (int64_t i = from; i < 0; i++)
        row[i - begin] = NAME(outside)(work, f, &work->outside[SIDE_LOW][-1 - i]);
    for (int64_t i = x->n; i < to; i++)
        row[i - begin] = NAME(outside)(work, f, &work->outside[SIDE_HIGH][i - x->n]);
    for (int64_t i = from < 0 ? 0 : from; i < x->first; i++)
        row[i - begin] = (REAL)x->side[SIDE_LOW].value.number;
    for (int64_t i = (to > x->n ? x->n : to) - 1; i > x->last; i--)
        row[i - begin] = (REAL)x->side[SIDE_HIGH].value.number;
}

/* Points [begin, end) of the line f, at `row`, with their neighbours along x beside them, as sides
 * of x have them. */
static void NAME(row_fill)(const struct NAME(work) * work, REAL *row, const REAL *f, int64_t begin,
                           int64_t end)
{
    const int64_t n = work->view.table->axis_of[AXIS_X].n, radius = work->radius;
    const int64_t low = begin < radius ? 0 : begin - radius;
    const int64_t high = end > n - radius ? n : end + radius;
    memcpy(row + (low - begin), f + low, (size_t)(high - low) * sizeof *f);
    if (!work->plain) {
        NAME(row_outside)(work, row, f, begin, end);
        return;
    }
    for (int64_t i = begin - radius; i < 0; i++)
        row[i - begin] = f[work->outside[SIDE_LOW][-1 - i].at];
    for (int64_t i = n; i < end + radius; i++)
        row[i - begin] = f[work->outside[SIDE_HIGH][i - n].at];
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

/* Points [begin, end), at least a vector, of a stretch whose lines are set for point 0. Where
 * neighbours along x may be outside, the points are brought beside them first. */
static void NAME(stretch_part)(struct NAME(work) * work, const struct NAME(stretch) * lines,
                               int count, int64_t begin, int64_t end, bool bring, bool stream)
{
    const int reach = work->radius;
    struct NAME(stretch) part = *lines;
    part.points = end - begin;
    part.stream = stream;
    for (int k = -reach; lines->along_z && k < count + reach; k++)
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
    const struct table_axis *x = &work->view.table->axis_of[AXIS_X];
    const int64_t first = x->first + work->radius, last = x->last - work->radius;
    const int64_t lanes = NAME(LANES);
    const bool low = lines->along_x && begin < first;
    const bool high = lines->along_x && end - 1 > last;
    const int64_t shift =
        stream ? (int64_t)((uintptr_t)lines->out[0] / sizeof(REAL)) : -begin; /* to alignment */
    int64_t from = low ? first : begin, to = high ? last + 1 : end;
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
    return row > LINES * STRIP ? STRIP : AHEAD * row;
}

/* A component of points [begin, end), at least a vector, of `count` lines from b on. */
static void NAME(run_centred)(struct NAME(work) * work, const struct NAME(run) * run, int component,
                              int b, int count, int64_t begin, int64_t end)
{
    const struct table_header *table = work->view.table;
    const int *of = work->of[component], reach = work->radius;
    const struct NAME(loops) *loops = work->loops[component];
    const struct NAME(source) *sources = run->sources;
    const int64_t y = run->y, z = run->z + b;
    struct NAME(stretch) lines = {.rows = run->rows};
    lines.loop = loops->run[count == LINES][reach - 1];
    lines.along_x = loops->kind.x;
    lines.along_z = loops->kind.z;
    lines.out_row = run->out_row;
    lines.x_row = lines.in_row = sources->stride[AXIS_Y];
    lines.ahead = NAME(ahead)(lines.in_row);
    lines.centre = (REAL)table->centre[0][table->active];
    for (int a = 0; a < AXIS_COUNT; a++)
        lines.weight[a] = work->c[a];
    for (int k = -reach; lines.along_z && k < count + reach; k++)
        lines.in[PLAN_RADIUS + k] = NAME(source_line)(&sources[of[AXIS_Z]], table, y, z + k);
    for (int k = 0; k < count; k++) {
        lines.x[k] = lines.along_z && of[AXIS_X] == of[AXIS_Z]
                         ? lines.in[PLAN_RADIUS + k]
                         : NAME(source_line)(&sources[of[AXIS_X]], table, y, z + k);
        lines.f[k] = loops->kind.y && of[AXIS_Y] != of[AXIS_X]
                         ? NAME(source_line)(&sources[of[AXIS_Y]], table, y, z + k)
                         : lines.x[k];
        lines.out[k] = run->out[b + k] - run->begin;
    }
    for (int m = -reach; loops->kind.y && m <= reach; m++)
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
    const int64_t most = STRIP / NAME(row_length)(brought ? points : 2 * NAME(LANES));
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
    const struct NAME(source) *field = run->sources;
    const bool few =
        end - begin < FEW && !field->planes && field->wraps[AXIS_Y] && field->wraps[AXIS_Z];
    for (int b = 0; begin < end && b < run->count; b++)
        for (int row = 0; row < run->rows; row++)
            (few ? NAME(table_each) : NAME(table_points))(
                work, run->sources, component, run->y + row, run->z + b, begin, end,
                run->out[b] + row * run->out_row + (begin - run->begin));
}

/* A line that a side of y or z holds (`holder`; −1: none does), and whose ends those of x do. */
static void NAME(run_holder)(struct NAME(work) * work, const struct NAME(run) * run, int holder)
{
    const struct table_axis *axes = work->view.table->axis_of, *x = &axes[AXIS_X];
    const struct side *side =
        holder < 0 ? NULL : &axes[holder / SIDE_COUNT].side[holder % SIDE_COUNT];
    const int64_t begin = run->begin, end = run->end;
    const int64_t free = work->low < begin ? begin : work->low < end ? work->low : end;
    const int64_t stop = work->high > end ? end : work->high > free ? work->high : free;
    for (int b = 0; b < run->count; b++) {
        NAME(run_held)(work, run, &x->side[SIDE_LOW], b, begin, free);
        NAME(run_held)(work, run, side, b, free, stop);
        NAME(run_held)(work, run, &x->side[SIDE_HIGH], b, stop, end);
    }
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
    if ((table->imposes && !boxed) || (by_table && (!boxed || to - from < SHORT * NAME(LANES))) ||
        (holder >= 0 && table->operator_id != OPERATOR_DIFFUSION)) {
        NAME(run_table)(work, run, component, begin, end);
        return;
    }
    if (holder >= 0 || work->tile->pass->impose) {
        NAME(run_holder)(work, run, holder);
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
