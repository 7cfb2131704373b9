/* Lines along x of a scalar operator, a block of each at a time: held, next to an edge, with a
 * closure, or whole. What the loops of stencil.h can do goes to them. */

/* Closures along x, with their rows as lanes: weight k of the points next to a side. */
struct NAME(edge) {
    int rows;
    REAL weight[PLAN_ROW_POINTS][PLAN_ROWS];
};

/* What is the same for all lines of a tile, and memory for those that are worked on. */
struct NAME(work) {
    const struct tile *tile;
    const struct plan *plan;
    enum NAME(loop) loop;
    int active; /* bits of the axes */
    REAL c[AXIS_COUNT][PLAN_RADIUS + 1];
    struct NAME(edge) edge[SIDE_COUNT];
    int64_t below[PLAN_RADIUS], above[PLAN_RADIUS]; /* points −1 − k and n + k of a line, mapped */
    REAL row[LINES * ROW];       /* points with their neighbours along x beside them */
    REAL block[LINES * WAITING]; /* lines that wait to be streamed */
};

/* Where the lines of a pass are read: a field, or the ring of the level before. */
struct NAME(source) {
    const REAL *first; /* the point at origin[] */
    int64_t origin[AXIS_COUNT], stride[AXIS_COUNT];
    int64_t planes;         /* of the ring; 0 for a field */
    bool wraps[AXIS_COUNT]; /* are indices past an edge mapped? A box that was cut along a periodic
                               axis has what is beyond it instead */
};

/* Points [begin, end) of lines that are computed together: `count` along z from z on, `rows` along
 * y from y on. More than one are all plain, and those that they read along y lie evenly. y and z
 * are inside, or past a periodic edge. */
struct NAME(run) {
    const struct NAME(source) * source;
    int count, rows;
    int64_t y, z, begin, end;
    REAL *out[LINES]; /* point `begin` of the first row of each */
    int64_t out_row;  /* from a row to the next */
    bool stream;      /* write out past the caches where that can be done */
};

static void NAME(work_init)(struct NAME(work) * work, const struct tile *tile)
{
    const struct plan *plan = tile->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X];
    work->tile = tile;
    work->plan = plan;
    work->loop = NAME(loop_of)(plan);
    work->active = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        work->active |= plan->axis[a].active << a;
        for (int m = 1; m <= plan->radius; m++)
            work->c[a][m] = (REAL)plan->axis[a].c[m];
    }
    for (int side = 0; side < SIDE_COUNT; side++) {
        struct NAME(edge) *edge = &work->edge[side];
        edge->rows = x->active ? x->side[side].rows : 0;
        for (int row = 0; row < edge->rows; row++)
            for (int k = 0; k < x->row_points; k++) {
                const REAL weight = (REAL)x->row[row][k];
                if (side == SIDE_LOW)
                    edge->weight[k][row] = weight;
                else
                    edge->weight[k][edge->rows - 1 - row] =
                        plan->parity == PLAN_ODD ? -weight : weight;
            }
    }
    for (int k = 0; k < plan->radius; k++) {
        const bool mapped = x->active && !tile->impose;
        work->below[k] = mapped && x->side[SIDE_LOW].map ? POINT_NAME(index)(x, -1 - k) : 0;
        work->above[k] = mapped && x->side[SIDE_HIGH].map ? POINT_NAME(index)(x, x->n + k) : 0;
    }
}

/* The point at x = 0 of a line. */
static const REAL *NAME(source_line)(const struct NAME(source) * source, const struct plan *plan,
                                     int64_t y, int64_t z)
{
    if (source->wraps[AXIS_Y])
        y = POINT_NAME(index)(&plan->axis[AXIS_Y], y);
    if (source->wraps[AXIS_Z])
        z = POINT_NAME(index)(&plan->axis[AXIS_Z], z);
    int64_t plane = z - source->origin[AXIS_Z];
    if (source->planes)
        plane = (int64_t)((uint32_t)plane % (uint32_t)source->planes);
    return source->first + (y - source->origin[AXIS_Y]) * source->stride[AXIS_Y] +
           plane * source->stride[AXIS_Z];
}

/* Points [begin, end) of the line f, at `row`, with their neighbours along x beside them: those
 * outside are brought back. */
static void NAME(row_fill)(const struct NAME(work) * work, REAL *row, const REAL *f, int64_t begin,
                           int64_t end)
{
    const int64_t n = work->plan->axis[AXIS_X].n, radius = work->plan->radius;
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
 * all of the same points. */
static NAME(vector) NAME(edge_add)(const struct NAME(work) * work, int side, int row, const REAL *f,
                                   int lanes, NAME(vector) acc)
{
    const struct plan_axis *x = &work->plan->axis[AXIS_X];
    const struct NAME(edge) *edge = &work->edge[side];
    for (int k = 0; k < x->row_points; k++) {
        const NAME(vector) value = NAME(fill)(f[side == SIDE_LOW ? k : x->n - 1 - k]);
        const NAME(vector) weight = NAME(load_some)(&edge->weight[k][row], lanes);
        acc = work->plan->parity == PLAN_ODD && k == 0 ? weight * value
                                                       : NAME(fma)(weight, value, acc);
    }
    return acc;
}

/* The terms of y and z, each axis with its own, from point `begin` of the line at y and z on;
 * returns the bits of those that are centred. */
static int NAME(terms_across)(struct NAME(terms) * terms, const struct NAME(work) * work,
                              const struct NAME(source) * source, int64_t y, int64_t z,
                              int64_t begin)
{
    const struct plan *plan = work->plan;
    const int64_t at[AXIS_COUNT] = {0, y, z};
    int centred = 0;
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        const REAL *line[2 * PLAN_RADIUS + 1];
        int64_t to[AXIS_COUNT] = {0, y, z};
        int side = 0;
        if (!axis->active)
            continue;
        const int row = POINT_NAME(row)(axis, POINT_NAME(index)(axis, at[a]), &side);
        for (int k = 0; row >= 0 && k < axis->row_points; k++) {
            const REAL weight = (REAL)axis->row[row][k];
            to[a] = side == SIDE_LOW ? k : axis->n - 1 - k;
            NAME(terms_put)
            (terms, plan->parity == PLAN_ODD && side == SIDE_HIGH ? -weight : weight,
             NAME(source_line)(source, plan, to[AXIS_Y], to[AXIS_Z]) + begin, NULL);
        }
        if (row >= 0)
            continue;
        for (int m = -plan->radius; m <= plan->radius; m++) {
            to[a] = at[a] + m;
            line[PLAN_RADIUS + m] = NAME(source_line)(source, plan, to[AXIS_Y], to[AXIS_Z]) + begin;
        }
        NAME(terms_pairs)(terms, plan->radius, work->c[a], line + PLAN_RADIUS);
        centred |= 1 << a;
    }
    return centred;
}

/* Points [begin, end) of line b in all rows, next to a side with closures along x. */
static void NAME(run_edge)(const struct NAME(work) * work, const struct NAME(run) * run, int side,
                           int b, int64_t begin, int64_t end)
{
    const struct plan *plan = work->plan;
    const int64_t first = side == SIDE_LOW ? 0 : plan->axis[AXIS_X].n - work->edge[side].rows;
    const int64_t in_row = run->source->stride[AXIS_Y];
    const REAL *f = NAME(source_line)(run->source, plan, run->y, run->z + b);
    REAL *out = run->out[b] + (begin - run->begin);
    struct NAME(terms) terms;
    NAME(terms_begin)(&terms, plan->parity == PLAN_ODD, true);
    int centred = 0;
    if (plan->parity == PLAN_EVEN)
        centred = NAME(terms_across)(&terms, work, run->source, run->y, run->z + b, 0);
    for (int row = 0; row < run->rows; row++, out += run->out_row)
        for (int64_t i = begin; i < end; i += NAME(LANES)) {
            const int lanes = end - i < NAME(LANES) ? (int)(end - i) : NAME(LANES);
            const REAL *line = f + row * in_row;
            NAME(vector) acc = NAME(fill)(0);
            if (centred || plan->identity)
                acc = NAME(fill)((REAL)plan->centre[centred]) * NAME(load_some)(line + i, lanes);
            acc = NAME(edge_add)(work, side, (int)(i - first), line, lanes, acc);
            acc = NAME(terms_add)(&terms, acc, row * in_row + i, lanes);
            NAME(store_some)(out + (i - begin), acc, lanes);
        }
}

/* Points [begin, end), at least a vector, of a stretch whose lines are set for point 0. Where
 * neighbours along x may be outside, the points are brought beside them first. */
static void NAME(stretch_part)(struct NAME(work) * work, const struct NAME(stretch) * lines,
                               int count, int64_t begin, int64_t end, bool bring, bool stream)
{
    const int reach = work->plan->radius;
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
    const struct plan_axis *x = &work->plan->axis[AXIS_X];
    const int64_t radius = work->plan->radius, lanes = NAME(LANES);
    const bool low = lines->along_x && begin < radius;
    const bool high = lines->along_x && end > x->n - radius;
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

/* Points [begin, end), at least a vector, of plain lines. */
static void NAME(run_centred)(struct NAME(work) * work, const struct NAME(run) * run, int b,
                              int count, int64_t begin, int64_t end)
{
    const struct plan *plan = work->plan;
    const struct plan_axis *axis = plan->axis;
    const int reach = plan->radius;
    struct NAME(stretch) lines = {.rows = 0};
    lines.loop = NAME(loops)[work->loop][count == LINES][plan->radius - 1];
    lines.along_x = axis[AXIS_X].active;
    lines.rows = run->rows;
    lines.out_row = run->out_row;
    lines.x_row = lines.in_row = run->source->stride[AXIS_Y];
    lines.ahead = NAME(ahead)(lines.in_row);
    lines.centre = (REAL)plan->centre[work->active];
    for (int a = 0; a < AXIS_COUNT; a++)
        lines.weight[a] = work->c[a];
    for (int k = -reach; k < count + reach; k++)
        lines.in[PLAN_RADIUS + k] = NAME(source_line)(run->source, plan, run->y, run->z + b + k);
    for (int m = -plan->radius; axis[AXIS_Y].active && m <= plan->radius; m++)
        lines.y[PLAN_RADIUS + m] =
            NAME(source_line)(run->source, plan, run->y + m, run->z + b) - lines.in[PLAN_RADIUS];
    for (int k = 0; k < count; k++) {
        lines.x[k] = lines.f[k] = lines.in[PLAN_RADIUS + k];
        lines.out[k] = run->out[b + k] - run->begin;
    }
    NAME(stretch_parts)(work, &lines, count, begin, end, run->stream);
}

/* Points [begin, end) of a line, whatever it needs along y and z. */
static void NAME(run_terms)(struct NAME(work) * work, const struct NAME(run) * run, int b,
                            int64_t begin, int64_t end)
{
    const struct plan *plan = work->plan;
    const int64_t z = run->z + b;
    const REAL *f = NAME(source_line)(run->source, plan, run->y, z) + begin;
    REAL *out = run->out[b] + (begin - run->begin);
    struct NAME(terms) across, terms;
    NAME(terms_begin)(&across, plan->parity == PLAN_ODD, false);
    NAME(terms_begin)(&terms, plan->parity == PLAN_ODD, plan->parity == PLAN_EVEN);
    int centred = NAME(terms_across)(&across, work, run->source, run->y, z, begin);
    if (plan->axis[AXIS_X].active) {
        const REAL *line[2 * PLAN_RADIUS + 1];
        REAL *row = NAME(row_place)(work, out);
        NAME(row_fill)(work, row, f - begin, begin, end);
        for (int m = -plan->radius; m <= plan->radius; m++)
            line[PLAN_RADIUS + m] = row + m;
        NAME(terms_pairs)(&terms, plan->radius, work->c[AXIS_X], line + PLAN_RADIUS);
        centred |= 1 << AXIS_X;
        f = row;
    }
    const bool shared = plan->shared && centred == work->active && terms.count > 0;
    for (int t = 0; t < across.count; t++) {
        struct NAME(term) *first = &terms.term[t % plan->radius];
        if (shared) { /* the pairs of a weight are added first */
            first->a[first->pairs] = across.term[t].a[0];
            first->b[first->pairs++] = across.term[t].b[0];
        } else {
            terms.term[terms.count++] = across.term[t];
        }
    }
    if (plan->parity == PLAN_ODD || !(centred || plan->identity))
        f = NULL;
    NAME(terms_run)(&terms, (REAL)plan->centre[centred], f, out, end - begin);
}

/* Is the line at[a] along axis `a` centred, and not held? */
static bool NAME(plain)(const struct plan_axis *axis, int64_t at)
{
    const struct side *low = &axis->side[SIDE_LOW], *high = &axis->side[SIDE_HIGH];
    const int64_t below = axis->n - 1 - at;
    return at >= low->rows && at >= low->held && below >= high->rows && below >= high->held;
}

/* The side of y or z that holds a whole line; NULL where none does. */
static const struct side *NAME(holder_of_line)(const struct plan *plan,
                                               const int64_t at[AXIS_COUNT])
{
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (at[a] < axis->side[SIDE_LOW].held)
            return &axis->side[SIDE_LOW];
        if (axis->n - 1 - at[a] < axis->side[SIDE_HIGH].held)
            return &axis->side[SIDE_HIGH];
    }
    return NULL;
}

/* Points [begin, end) of all lines: held by that side, or copied where there is none. */
static void NAME(run_held)(const struct NAME(work) * work, const struct NAME(run) * run,
                           const struct side *side, int64_t begin, int64_t end)
{
    const bool copies = !side || (side->halo && work->tile->impose);
    const REAL value = side ? (REAL)side->value.number : 0;
    for (int b = 0; begin < end && b < run->count; b++)
        for (int row = 0; row < run->rows; row++) {
            const REAL *f = NAME(source_line)(run->source, work->plan, run->y + row, run->z + b);
            REAL *out = run->out[b] + row * run->out_row - run->begin;
            for (int64_t i = begin; i < end; i++)
                out[i] = copies ? f[i] : side->halo ? value * f[i] : value;
        }
}

/* How many rows from y on can be computed together, of those before `end`. Lines past an edge do
 * not lie evenly. */
static int NAME(rows_together)(const struct NAME(work) * work, const struct NAME(source) * source,
                               int64_t y, int64_t end, int64_t points)
{
    const struct plan_axis *axis = &work->plan->axis[AXIS_Y];
    const struct side *low = &axis->side[SIDE_LOW], *high = &axis->side[SIDE_HIGH];
    /* Of long rows only the ends are brought beside each other, see stretch_parts(). */
    const bool brought = points < SHORT * NAME(LANES) + 2 * PLAN_ROWS;
    const int64_t most = BLOCK / NAME(row_length)(brought ? points : 2 * NAME(LANES));
    const int64_t reach = work->plan->radius;
    int64_t first = 0, stop = end;
    if (axis->active && source->wraps[AXIS_Y]) {
        first = low->rows > low->held ? low->rows : low->held;
        stop = high->rows > high->held ? high->rows : high->held;
        first = first > reach ? first : reach;
        stop = axis->n - (stop > reach ? stop : reach);
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

static void NAME(run_lines)(struct NAME(work) * work, const struct NAME(run) * run, bool even)
{
    const struct plan *plan = work->plan;
    const struct plan_axis *axis = plan->axis, *x = &axis[AXIS_X];
    const int64_t at[AXIS_COUNT] = {0, POINT_NAME(index)(&axis[AXIS_Y], run->y),
                                    POINT_NAME(index)(&axis[AXIS_Z], run->z)};
    int64_t begin = run->begin, end = run->end;
    if (plan->holds) {
        const struct side *holder = NAME(holder_of_line)(plan, at);
        const int64_t low = x->side[SIDE_LOW].held, high = x->n - x->side[SIDE_HIGH].held;
        begin = low < begin ? begin : low < end ? low : end;
        end = high > end ? end : high > begin ? high : begin;
        NAME(run_held)(work, run, &x->side[SIDE_LOW], run->begin, begin);
        NAME(run_held)(work, run, &x->side[SIDE_HIGH], end, run->end);
        if (holder || work->tile->impose)
            NAME(run_held)(work, run, holder, begin, end);
        if (holder || work->tile->impose)
            return;
    }
    const int64_t low = work->edge[SIDE_LOW].rows, high = x->n - work->edge[SIDE_HIGH].rows;
    const int64_t from = low < begin ? begin : low < end ? low : end;
    const int64_t to = high > end ? end : high > from ? high : from;
    for (int b = 0; b < run->count; b++) {
        if (begin < from)
            NAME(run_edge)(work, run, SIDE_LOW, b, begin, from);
        if (to < end)
            NAME(run_edge)(work, run, SIDE_HIGH, b, to, end);
    }
    const bool plain =
        NAME(plain)(&axis[AXIS_Y], at[AXIS_Y]) && NAME(plain)(&axis[AXIS_Z], at[AXIS_Z]);
    const bool centred = plain && to - from >= NAME(LANES);
    if (centred && even && run->count == LINES && (!run->stream || NAME(alike)(run))) {
        NAME(run_centred)(work, run, 0, run->count, from, to);
        return;
    }
    struct NAME(run) row = *run;
    row.rows = 1;
    for (; from < to && row.y < run->y + run->rows; row.y++)
        for (int b = 0; b < run->count; b++) {
            if (centred)
                NAME(run_centred)(work, &row, b, 1, from, to);
            else
                NAME(run_terms)(work, &row, b, from, to);
            row.out[b] += run->out_row;
        }
}
