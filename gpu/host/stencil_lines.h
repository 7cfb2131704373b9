/* Lines along x of a stencil of the user's own: one weight after another over as many vectors as
 * the registers hold. */

enum { NAME(STENCIL_TOGETHER) = 8 }; /* vectors of a line, so that few loads are of weights */

/* What a box's lines have in common. */
struct NAME(stencil_sum) {
    int points;
    int64_t step[STENCIL_POINTS]; /* from a point to what it reads */
    REAL weight[STENCIL_POINTS];
};

ALWAYS_INLINE void NAME(stencil_vectors)(const struct NAME(stencil_sum) * sum, const REAL *from,
                                         REAL *to, int vectors, bool stream)
{
    NAME(vector) acc[NAME(STENCIL_TOGETHER)];
    NAME(vector) weight = NAME(fill)(sum->weight[0]);
    UNROLL
    for (int v = 0; v < vectors; v++)
        acc[v] = weight * NAME(load)(from + sum->step[0] + v * NAME(LANES));
    for (int k = 1; k < sum->points; k++) {
        const REAL *at = from + sum->step[k];
        weight = NAME(fill)(sum->weight[k]);
        UNROLL
        for (int v = 0; v < vectors; v++)
            acc[v] = NAME(fma)(weight, NAME(load)(at + v * NAME(LANES)), acc[v]);
    }
    UNROLL
    for (int v = 0; v < vectors; v++)
        if (stream)
            NAME(stream)(to + v * NAME(LANES), acc[v]);
        else
            NAME(store)(to + v * NAME(LANES), acc[v]);
}

/* Fewer points than a vector. */
static void NAME(stencil_few)(const struct NAME(stencil_sum) * sum, const REAL *from, REAL *to,
                              int count)
{
    NAME(vector) acc = NAME(fill)(sum->weight[0]) * NAME(load_some)(from + sum->step[0], count);
    for (int k = 1; k < sum->points; k++)
        acc =
            NAME(fma)(NAME(fill)(sum->weight[k]), NAME(load_some)(from + sum->step[k], count), acc);
    NAME(store_some)(to, acc, count);
}

ALWAYS_INLINE void NAME(stencil_whole)(const struct NAME(stencil_sum) * sum, const REAL *from,
                                       REAL *to, int64_t count, bool stream)
{
    const int64_t together = NAME(STENCIL_TOGETHER) * NAME(LANES);
    int64_t i = 0;
    for (; i + together <= count; i += together)
        NAME(stencil_vectors)(sum, from + i, to + i, NAME(STENCIL_TOGETHER), stream);
    for (; i + NAME(LANES) <= count; i += NAME(LANES))
        NAME(stencil_vectors)(sum, from + i, to + i, 1, stream);
    if (i < count)
        NAME(stencil_few)(sum, from + i, to + i, (int)(count - i));
}

/* `count` points of a line. */
static void NAME(stencil_line)(const struct NAME(stencil_sum) * sum, const REAL *from, REAL *to,
                               int64_t count, bool stream)
{
    const int64_t apart = (int64_t)((uintptr_t)to % VECTOR_BYTES / sizeof(REAL));
    const int64_t head = apart ? NAME(LANES) - apart : 0;
    if (!stream || count < head + NAME(LANES)) {
        NAME(stencil_whole)(sum, from, to, count, false);
        return;
    }
    if (head)
        NAME(stencil_few)(sum, from, to, (int)head);
    NAME(stencil_whole)(sum, from + head, to + head, count - head, true);
}

/* Points [begin, end) of the line at y and z, any of which may be outside, as they are read. */
static void NAME(stencil_bring)(const struct STENCIL_NAME(source) * s, int64_t y, int64_t z,
                                int64_t begin, int64_t end, REAL *to)
{
    const struct stencil_axis *x = &s->table->axis[AXIS_X];
    const struct STENCIL_NAME(place) place = STENCIL_NAME(find)(s->table, 0, y, z);
    const bool is_image = place.side[AXIS_Y] < 0 && place.side[AXIS_Z] < 0;
    /* Points of the line that are the field's own: those that no claim along x has, where there is
     * none along y and z. */
    int64_t low = 0, high = x->n;
    if (s->table->holds) {
        low = x->side[SIDE_LOW].claim;
        high = x->n - x->side[SIDE_HIGH].claim;
        const int64_t middle[AXIS_COUNT] = {low, place.at[AXIS_Y], place.at[AXIS_Z]};
        if (low < high && STENCIL_NAME(claim)(s->table, middle) >= 0)
            high = low;
    }
    low = low > begin ? low : begin;
    high = high < end ? high : end;
    if (!is_image || low >= high)
        low = high = end;
    for (int64_t i = begin; i < low; i++)
        to[i - begin] = STENCIL_NAME(read)(s, i, y, z);
    const REAL *from = s->f + place.at[AXIS_Y] * s->table->axis[AXIS_Y].stride +
                       place.at[AXIS_Z] * s->table->axis[AXIS_Z].stride;
    for (int64_t i = low; i < high; i++)
        to[i - begin] = place.sign * from[i];
    for (int64_t i = high; i < end; i++)
        to[i - begin] = STENCIL_NAME(read)(s, i, y, z);
}

static void NAME(stencil_weights)(struct NAME(stencil_sum) * sum, const struct stencil_table *table)
{
    const struct stencil_tap *taps = stencil_taps(table);
    sum->points = table->points;
    for (int k = 0; k < table->points; k++) {
        sum->step[k] = taps[k].step;
        sum->weight[k] = taps[k].weight.STENCIL_WEIGHT;
    }
}

static void NAME(stencil_interior)(const struct stencil_box *box)
{
    const struct stencil_axis *axis = box->table->axis;
    const int64_t length = box->end[AXIS_X] - box->begin[AXIS_X];
    struct NAME(stencil_sum) sum;
    NAME(stencil_weights)(&sum, box->table);
    for (int64_t z = box->begin[AXIS_Z]; z < box->end[AXIS_Z]; z++)
        for (int64_t y = box->begin[AXIS_Y]; y < box->end[AXIS_Y]; y++) {
            const int64_t at =
                box->begin[AXIS_X] + y * axis[AXIS_Y].stride + z * axis[AXIS_Z].stride;
            NAME(stencil_line)
            (&sum, (const REAL *)box->in + at, (REAL *)box->out + at, length, box->stream);
        }
}

/* The box's points, of which some are claimed, are the sums of what is brought to a ring of planes;
 * then the claims are made good. */
static void NAME(stencil_edge)(const struct stencil_box *box)
{
    const struct stencil_table *table = box->table;
    const struct stencil_axis *axis = table->axis;
    const struct stencil_offset *offsets = stencil_offsets(table);
    const struct STENCIL_NAME(source) source = {table, box->in, box->operands, box->field};
    const int64_t *begin = box->begin, *end = box->end;
    int64_t first[AXIS_COUNT], last[AXIS_COUNT]; /* what is brought */
    for (int a = 0; a < AXIS_COUNT; a++) {
        first[a] = begin[a] - axis[a].below;
        last[a] = end[a] + axis[a].above;
    }
    const int64_t row = last[AXIS_X] - first[AXIS_X], rows = last[AXIS_Y] - first[AXIS_Y];
    const int64_t planes = axis[AXIS_Z].below + axis[AXIS_Z].above + 1;
    struct NAME(stencil_sum) sum;
    NAME(stencil_weights)(&sum, table);
    REAL *room = box->room, *out = box->out;
    for (int64_t brought = first[AXIS_Z], z = begin[AXIS_Z]; z < end[AXIS_Z]; z++) {
        for (; brought <= z + axis[AXIS_Z].above; brought++)
            for (int64_t k = 0; k < rows; k++)
                NAME(stencil_bring)
        (&source, first[AXIS_Y] + k, brought, first[AXIS_X], last[AXIS_X],
         room + ((brought - first[AXIS_Z]) % planes * rows + k) * row);
        for (int k = 0; k < sum.points; k++) {
            const int32_t *o = offsets[k].at;
            sum.step[k] = (z + o[AXIS_Z] - first[AXIS_Z]) % planes * rows * row +
                          (int64_t)o[AXIS_Y] * row + o[AXIS_X];
        }
        for (int64_t y = begin[AXIS_Y]; y < end[AXIS_Y]; y++) {
            const int64_t line = y * axis[AXIS_Y].stride + z * axis[AXIS_Z].stride;
            NAME(stencil_line)
            (&sum, room + (y - first[AXIS_Y]) * row + axis[AXIS_X].below,
             out + line + begin[AXIS_X], end[AXIS_X] - begin[AXIS_X], false);
            for (int64_t x = begin[AXIS_X]; table->claims && x < end[AXIS_X]; x++) {
                const int64_t at[AXIS_COUNT] = {x, y, z};
                const int claim = STENCIL_NAME(claim)(table, at);
                if (claim >= 0)
                    out[line + x] = STENCIL_NAME(claimed)(&source, claim, at);
            }
        }
    }
}

static void NAME(stencil_points)(const struct stencil_box *box)
{
    const struct stencil_axis *axis = box->table->axis;
    const struct STENCIL_NAME(source) source = {box->table, box->in, box->operands, box->field};
    int64_t at[AXIS_COUNT];
    for (at[AXIS_Z] = box->begin[AXIS_Z]; at[AXIS_Z] < box->end[AXIS_Z]; at[AXIS_Z]++)
        for (at[AXIS_Y] = box->begin[AXIS_Y]; at[AXIS_Y] < box->end[AXIS_Y]; at[AXIS_Y]++)
            for (at[AXIS_X] = box->begin[AXIS_X]; at[AXIS_X] < box->end[AXIS_X]; at[AXIS_X]++)
                ((REAL *)box->out)[at[AXIS_X] + at[AXIS_Y] * axis[AXIS_Y].stride +
                                   at[AXIS_Z] * axis[AXIS_Z].stride] =
                    STENCIL_NAME(evaluate)(&source, at);
}

static void NAME(stencil_run)(const struct stencil_box *box)
{
    bool inside = true;
    for (int a = 0; a < AXIS_COUNT; a++)
        inside &=
            box->begin[a] >= box->table->axis[a].low && box->end[a] <= box->table->axis[a].high;
    if (inside)
        NAME(stencil_interior)(box);
    else if (box->room)
        NAME(stencil_edge)(box);
    else
        NAME(stencil_points)(box);
    if (box->stream)
        stream_end();
}
