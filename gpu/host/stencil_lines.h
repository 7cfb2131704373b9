/* Lines along x of a stencil of the user's own: one weight after another over as many vectors as
 * the registers hold. */

enum {
    NAME(STENCIL_TOGETHER) = 8, /* vectors of a line, so that few loads are of weights */
    NAME(STENCIL_ROWS) = 4      /* short lines */
};

/* What a box's lines have in common. */
struct NAME(stencil_sum) {
    int points;
    int64_t step[JOB_STENCIL_POINTS]; /* from a point to what it reads */
    REAL weight[JOB_STENCIL_POINTS];
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
        NAME(put)(to + v * NAME(LANES), acc[v], stream);
}

/* At least so many vectors: the last ones are those that end with the line, whatever they have in
 * common with the ones before. */
ALWAYS_INLINE void NAME(stencil_blocks)(const struct NAME(stencil_sum) * sum, const REAL *from,
                                        REAL *to, int64_t count, int vectors, bool stream)
{
    const int64_t length = vectors * NAME(LANES);
    const int64_t apart = (int64_t)((uintptr_t)to % VECTOR_BYTES / sizeof(REAL));
    int64_t i = 0;
    if (stream && apart) { /* to where whole vectors begin */
        NAME(stencil_vectors)(sum, from, to, vectors, false);
        i = length - apart;
    }
    for (; i + length <= count; i += length)
        NAME(stencil_vectors)(sum, from + i, to + i, vectors, stream);
    if (i < count)
        NAME(stencil_vectors)(sum, from + count - length, to + count - length, vectors, false);
}

/* `count` points of a line. */
static void NAME(stencil_line)(const struct NAME(stencil_sum) * sum, const REAL *from, REAL *to,
                               int64_t count, bool stream)
{
    if (count >= NAME(STENCIL_TOGETHER) * NAME(LANES) && stream)
        NAME(stencil_blocks)(sum, from, to, count, NAME(STENCIL_TOGETHER), true);
    else if (count >= NAME(STENCIL_TOGETHER) * NAME(LANES))
        NAME(stencil_blocks)(sum, from, to, count, NAME(STENCIL_TOGETHER), false);
    else if (count >= 3 * NAME(LANES))
        NAME(stencil_blocks)(sum, from, to, count, 3, false);
    else
        NAME(stencil_blocks)(sum, from, to, count, 1, false);
}

/* So many lines of fewer points than a vector: `rows` is 1 or more at once, for no sum to wait for
 * another. */
ALWAYS_INLINE void NAME(stencil_few)(const struct NAME(stencil_sum) * sum, const REAL *from,
                                     int64_t from_row, REAL *to, int64_t to_row, int count,
                                     int rows)
{
    NAME(vector) acc[NAME(STENCIL_ROWS)];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] =
            NAME(fill)(sum->weight[0]) * NAME(load_some)(from + sum->step[0] + r * from_row, count);
    for (int k = 1; k < sum->points; k++) {
        const NAME(vector) weight = NAME(fill)(sum->weight[k]);
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = NAME(fma)(weight, NAME(load_some)(from + sum->step[k] + r * from_row, count),
                               acc[r]);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        NAME(store_some)(to + r * to_row, acc[r], count);
}

/* Lines of `count` points, from_row and to_row apart. */
static void NAME(stencil_plane)(const struct NAME(stencil_sum) * sum, const REAL *from,
                                int64_t from_row, REAL *to, int64_t to_row, int64_t count,
                                int64_t rows, bool stream)
{
    int64_t r = 0;
    for (; count >= NAME(LANES) && r < rows; r++)
        NAME(stencil_line)(sum, from + r * from_row, to + r * to_row, count, stream);
    for (; r + NAME(STENCIL_ROWS) <= rows; r += NAME(STENCIL_ROWS))
        NAME(stencil_few)
    (sum, from + r * from_row, from_row, to + r * to_row, to_row, (int)count, NAME(STENCIL_ROWS));
    for (; r < rows; r++)
        NAME(stencil_few)
    (sum, from + r * from_row, from_row, to + r * to_row, to_row, (int)count, 1);
}

/* What lines are brought from. */
struct NAME(stencil_bringer) {
    struct STENCIL_NAME(source) source;
    /* Of the points −1 − k and n + k of a line: where along x they are found, −1 where they are
     * ghosts; and the sign. */
    int64_t image[SIDE_COUNT][JOB_STENCIL_RADIUS];
    REAL sign[SIDE_COUNT][JOB_STENCIL_RADIUS];
    int64_t low, high; /* points of a line that no side along x holds */
};

static void NAME(stencil_bringer_init)(struct NAME(stencil_bringer) * b,
                                       const struct stencil_box *box)
{
    const struct stencil_axis *x = &box->table->axis[AXIS_X];
    b->source = (struct STENCIL_NAME(source)){box->table, box->in, box->operands, box->field};
    for (int k = 0; k < SIDE_COUNT * JOB_STENCIL_RADIUS; k++) {
        const int side = k % SIDE_COUNT, distance = k / SIDE_COUNT;
        const struct STENCIL_NAME(place) place = STENCIL_NAME(find)(
            box->table, side == SIDE_LOW ? -1 - distance : x->n + distance, 0, 0);
        b->image[side][distance] = place.side[AXIS_X] < 0 ? place.at[AXIS_X] : -1;
        b->sign[side][distance] = place.sign;
    }
    b->low = box->table->imposes ? x->side[SIDE_LOW].held : 0;
    b->high = x->n - (box->table->imposes ? x->side[SIDE_HIGH].held : 0);
}

/* A number of a side of axis a at points [begin, begin + count) of a line. */
static void NAME(stencil_numbers)(const struct STENCIL_NAME(source) * s, int a,
                                  const struct side_number *number,
                                  struct STENCIL_NAME(place) place, int64_t begin, int count,
                                  REAL *to)
{
    for (int i = 0; i < count; i++) {
        place.at[AXIS_X] = begin + i;
        to[i] = i > 0 && number->operand < 0 ? to[0] : STENCIL_NAME(number)(s, a, number, &place);
    }
}

static void NAME(stencil_bring)(const struct NAME(stencil_bringer) * b, int64_t y, int64_t z,
                                int64_t begin, int64_t end, REAL *to);

/* Points of the line of a ghost along y or z, which lie inside along x: as read() gives them. */
static void NAME(stencil_ghosts)(const struct NAME(stencil_bringer) * b,
                                 const struct STENCIL_NAME(place) * place, int64_t begin, int count,
                                 REAL *to)
{
    const struct STENCIL_NAME(source) *s = &b->source;
    const int a = place->side[AXIS_Z] >= 0 ? AXIS_Z : AXIS_Y;
    const int side = place->side[a], ghost = place->ghost[a];
    const struct stencil_axis *axis = &s->table->axis[a];
    const struct side *of = &axis->side[side];
    const struct stencil_ghosts *ghosts = &axis->ghosts[side];
    REAL value[STENCIL_GHOSTS], edge[STENCIL_GHOSTS], number[STENCIL_GHOSTS];
    for (int i = 0; i < count && ghosts->points == 0; i++)
        to[i] = (REAL)0;
    for (int k = 0; k < ghosts->points; k++) {
        int64_t at[AXIS_COUNT] = {0, place->at[AXIS_Y], place->at[AXIS_Z]};
        at[a] = STENCIL_NAME(inwards)(axis, side, k);
        if (a == AXIS_Z && place->side[AXIS_Y] >= 0) {
            struct STENCIL_NAME(place) inner = *place;
            inner.at[AXIS_Z] = at[AXIS_Z];
            inner.side[AXIS_Z] = -1;
            inner.sign = (REAL)1;
            NAME(stencil_ghosts)(b, &inner, begin, count, value);
        } else {
            NAME(stencil_bring)(b, at[AXIS_Y], at[AXIS_Z], begin, begin + count, value);
        }
        for (int i = 0; i < count; i++)
            to[i] = STENCIL_NAME(term)(ghosts->ghost[ghost], k, value[i], to[i]);
        for (int i = 0; i < count && of->datum == SIDE_DATUM_MIXED_FACE; i++)
            edge[i] = STENCIL_NAME(term)(ghosts->face, k, value[i], edge[i]);
        if (k == 0 && of->datum == SIDE_DATUM_MIXED_NODE)
            memcpy(edge, value, (size_t)count * sizeof *edge);
    }
    if (of->datum != SIDE_DATUM_NONE) {
        const REAL data = (REAL)ghosts->data[ghost], face = (REAL)ghosts->face_data;
        NAME(stencil_numbers)(s, a, &of->value, *place, begin, count, value);
        if (of->datum != SIDE_DATUM_NUMBER) {
            NAME(stencil_numbers)(s, a, &of->constant, *place, begin, count, number);
            for (int i = 0; i < count; i++) {
                if (of->datum == SIDE_DATUM_MIXED_FACE)
                    edge[i] =
                        REAL_FMA(face, number[i], edge[i]) / REAL_FMA(face, value[i], (REAL)1);
                value[i] = REAL_FMA(-value[i], edge[i], number[i]);
            }
        }
        for (int i = 0; i < count; i++)
            to[i] = REAL_FMA(data, value[i], to[i]);
    }
    for (int i = 0; i < count; i++)
        to[i] = place->sign * to[i];
}

/* Points [begin, end) of the line at y and z, any of which may be outside, as they are read. */
static void NAME(stencil_bring)(const struct NAME(stencil_bringer) * b, int64_t y, int64_t z,
                                int64_t begin, int64_t end, REAL *to)
{
    const struct STENCIL_NAME(source) *s = &b->source;
    const struct stencil_axis *axis = s->table->axis;
    const int64_t n = axis[AXIS_X].n;
    const struct STENCIL_NAME(place) place = STENCIL_NAME(find)(s->table, 0, y, z);
    const bool is_image = place.side[AXIS_Y] < 0 && place.side[AXIS_Z] < 0;
    const REAL *from =
        s->f + place.at[AXIS_Y] * axis[AXIS_Y].stride + place.at[AXIS_Z] * axis[AXIS_Z].stride;
    const int64_t middle[AXIS_COUNT] = {b->low, place.at[AXIS_Y], place.at[AXIS_Z]};
    const int holder = s->table->imposes && is_image && b->low < b->high
                           ? STENCIL_NAME(holder)(s->table, middle)
                           : -1;
    const struct side *side_of_line =
        holder < 0 ? NULL : &axis[holder / SIDE_COUNT].side[holder % SIDE_COUNT];
    const bool is_held = side_of_line && !side_of_line->halo;
    const bool is_own = is_image && !is_held;
    /* Points that are done as a line; the others one by one. */
    const int64_t first = b->low > begin ? b->low : begin, last = b->high < end ? b->high : end;
    for (int64_t i = begin; i < end; i++) {
        const int side = i < 0 ? SIDE_LOW : SIDE_HIGH;
        if (i == first && first < last) {
            i = last - 1;
            continue;
        }
        const int64_t beyond = i < 0 ? -1 - i : i - n;
        const int64_t image = beyond >= 0 ? b->image[side][beyond] : -1;
        to[i - begin] = is_own && image >= b->low && image < b->high
                            ? place.sign * b->sign[side][beyond] * from[image]
                            : STENCIL_NAME(read)(s, i, y, z);
    }
    for (int64_t i = first, count; i < last; i += count) {
        count = last - i < STENCIL_GHOSTS ? last - i : STENCIL_GHOSTS;
        if (!is_image) {
            NAME(stencil_ghosts)(b, &place, i, (int)count, to + (i - begin));
        } else if (is_held) {
            struct STENCIL_NAME(place) node = place;
            node.at[AXIS_X] = i;
            NAME(stencil_numbers)
            (s, holder / SIDE_COUNT, &side_of_line->value, node, i, (int)count, to + (i - begin));
            for (int64_t k = i; k < i + count; k++)
                to[k - begin] = place.sign * to[k - begin];
        } else {
            for (int64_t k = i; k < i + count; k++)
                to[k - begin] = place.sign * from[k];
        }
    }
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
    const int64_t row = axis[AXIS_Y].stride, rows = box->end[AXIS_Y] - box->begin[AXIS_Y];
    for (int64_t z = box->begin[AXIS_Z]; z < box->end[AXIS_Z]; z++) {
        const int64_t at = box->begin[AXIS_X] + box->begin[AXIS_Y] * row + z * axis[AXIS_Z].stride;
        NAME(stencil_plane)
        (&sum, (const REAL *)box->in + at, row, (REAL *)box->out + at, row, length, rows,
         box->stream);
    }
}

/* The box's points, of which some are held, are the sums of what is brought to a ring of planes;
 * then the held ones are put right. */
static void NAME(stencil_edge)(const struct stencil_box *box)
{
    const struct stencil_table *table = box->table;
    const struct stencil_axis *axis = table->axis;
    const struct stencil_offset *offsets = stencil_offsets(table);
    const int64_t *begin = box->begin, *end = box->end;
    int64_t first[AXIS_COUNT], last[AXIS_COUNT]; /* what is brought */
    for (int a = 0; a < AXIS_COUNT; a++) {
        first[a] = begin[a] - axis[a].below;
        last[a] = end[a] + axis[a].above;
    }
    const int64_t row = last[AXIS_X] - first[AXIS_X], rows = last[AXIS_Y] - first[AXIS_Y];
    const int64_t planes = axis[AXIS_Z].below + axis[AXIS_Z].above + 1;
    struct NAME(stencil_bringer) bringer;
    struct NAME(stencil_sum) sum;
    NAME(stencil_bringer_init)(&bringer, box);
    NAME(stencil_weights)(&sum, table);
    REAL *room = box->room, *out = box->out;
    for (int64_t brought = first[AXIS_Z], z = begin[AXIS_Z]; z < end[AXIS_Z]; z++) {
        for (; brought <= z + axis[AXIS_Z].above; brought++)
            for (int64_t k = 0; k < rows; k++)
                NAME(stencil_bring)
        (&bringer, first[AXIS_Y] + k, brought, first[AXIS_X], last[AXIS_X],
         room + ((brought - first[AXIS_Z]) % planes * rows + k) * row);
        for (int k = 0; k < sum.points; k++) {
            const int32_t *o = offsets[k].at;
            sum.step[k] = (z + o[AXIS_Z] - first[AXIS_Z]) % planes * rows * row +
                          (int64_t)o[AXIS_Y] * row + o[AXIS_X];
        }
        const int64_t plane = z * axis[AXIS_Z].stride;
        NAME(stencil_plane)
        (&sum, room + axis[AXIS_Y].below * row + axis[AXIS_X].below, row,
         out + plane + begin[AXIS_Y] * axis[AXIS_Y].stride + begin[AXIS_X], axis[AXIS_Y].stride,
         end[AXIS_X] - begin[AXIS_X], end[AXIS_Y] - begin[AXIS_Y], false);
        for (int64_t y = begin[AXIS_Y]; table->held && y < end[AXIS_Y]; y++)
            for (int64_t x = begin[AXIS_X]; x < end[AXIS_X]; x++) {
                const int64_t at[AXIS_COUNT] = {x, y, z};
                const int holder = STENCIL_NAME(holder)(table, at);
                if (holder >= 0)
                    out[plane + y * axis[AXIS_Y].stride + x] =
                        STENCIL_NAME(held)(&bringer.source, holder, at);
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
