/* A box of a field: plane by plane, a strip of each line at a time. */

/* A level of a tile: the box that one pass computes, and where it lies. */
struct NAME(level) {
    struct NAME(source) at[AXIS_COUNT]; /* by component */
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
};

/* The levels' boxes: each is wider than the next by what the next reads, but never past an edge
 * that is not periodic. levels[0] is the input. */
static void NAME(levels_init)(struct NAME(level) * levels, const struct tile *tile)
{
    const struct table_header *table = tile->table;
    REAL *ring = tile->rings;
    for (int t = 0; t <= tile->levels; t++) {
        struct NAME(level) *level = &levels[t];
        struct NAME(source) *at = level->at;
        const bool is_ring = t > 0 && t < tile->levels;
        for (int c = 0; c < AXIS_COUNT; c++)
            at[c] = NAME(field)(table, t == 0 ? tile->in[c] : tile->out[c]);
        for (int a = 0; a < AXIS_COUNT; a++) {
            const struct table_axis *axis = &table->axis_of[a];
            const int64_t margin = a == AXIS_X ? 0 : (tile->levels - t) * tile_reach(tile, a);
            const bool whole = tile->begin[a] == 0 && tile->end[a] == axis->n;
            const bool past = axis->side[SIDE_LOW].map == SIDE_MAP_PERIODIC &&
                              (a == AXIS_Z || !whole) && tile->levels > 1;
            const int64_t begin = tile->begin[a] - margin, end = tile->end[a] + margin;
            level->begin[a] = past || begin > 0 ? begin : 0;
            level->end[a] = past || end < axis->n ? end : axis->n;
            if (is_ring) {
                at->origin[a] = level->begin[a];
                at->wraps[a] = !past;
            }
        }
        if (is_ring) {
            at->planes = RING_PLANES(tile_reach(tile, AXIS_Z), LINES);
            at->first = ring;
            at->stride[AXIS_Y] = level->end[AXIS_X] - level->begin[AXIS_X];
            at->stride[AXIS_Z] = at->stride[AXIS_Y] * (level->end[AXIS_Y] - level->begin[AXIS_Y]);
            ring += at->planes * at->stride[AXIS_Z];
        }
    }
}

/* Lines that do not begin and end with whole vectors, or not all alike, are sooner streamed from
 * where they wait, many at a time: what is left of a vector costs more than a copy. */
static bool NAME(waits)(const struct tile *tile)
{
    const struct table_axis *x = &tile->table->axis_of[AXIS_X], *z = &tile->table->axis_of[AXIS_Z];
    bool whole = x->n % NAME(LANES) == 0 && x->low == 0 && x->high == x->n;
    for (int c = 0; c < tile->table->outputs; c++)
        whole &= (uintptr_t)tile->out[c] % VECTOR_BYTES == 0;
    if (x->n >= STRIP)
        return tile->stream && tile->table->active >> AXIS_Z & 1 && z->stride % NAME(LANES) != 0;
    return tile->stream && !whole;
}

/* Where lines wait: at the same place in a page as the first, so that a load is seldom held up by a
 * store before it whose address ends in the same 12 bits. */
static REAL *NAME(waiting)(REAL *room, const REAL *line)
{
    return room + ((uintptr_t)line - (uintptr_t)room) % PAGE / sizeof(REAL);
}

/* `count` planes from z on of a level; all are in the box along z, or it is one. from and to: by
 * component. */
static void NAME(planes)(struct NAME(work) * work, const struct NAME(source) * from,
                         const struct NAME(source) * to, const struct NAME(level) * box, int64_t z,
                         int count)
{
    const struct tile *tile = work->tile;
    const bool last = to->planes == 0, waits = last && NAME(waits)(tile);
    struct NAME(run) run = {.sources = from,
                            .count = count,
                            .z = z,
                            .out_row = to->stride[AXIS_Y],
                            .stream = tile->stream && last && !waits};
    for (int64_t x = box->begin[AXIS_X]; x < box->end[AXIS_X]; x = run.end) {
        run.begin = x;
        run.end = box->end[AXIS_X] - x < STRIP ? box->end[AXIS_X] : x + STRIP;
        for (run.y = box->begin[AXIS_Y]; run.y < box->end[AXIS_Y]; run.y += run.rows) {
            const int rows = NAME(rows_together)(work, from, run.y, box->end[AXIS_Y], run.end - x);
            run.rows = rows ? rows : 1;
            if (waits) { /* in a strip, together; of one plane, in all strips */
                const int room = count == 1 ? LINES * STRIP : STRIP;
                const int fit = run.end - x == to->stride[AXIS_Y] ? (int)(room / (run.end - x)) : 1;
                run.rows = run.rows < fit ? run.rows : fit;
            }
            for (int c = 0; c < tile->table->outputs; c++) {
                REAL *line[LINES];
                for (int b = 0; b < count; b++) {
                    line[b] = (REAL *)NAME(source_line)(&to[c], tile->table, run.y, z + b) + x;
                    run.out[b] =
                        waits ? NAME(waiting)(work->waiting + b * WAITING, line[b]) : line[b];
                }
                NAME(run_lines)(work, &run, c, rows > 0);
                for (int b = 0; waits && b < count; b++)
                    stream_copy(line[b], run.out[b],
                                (size_t)((run.rows - 1) * run.out_row + run.end - x) *
                                    sizeof(REAL));
            }
        }
    }
}

/* How many planes from z on are done at once. */
static int NAME(group)(const struct table_axis *axis, int64_t z, int64_t end)
{
    const int most = end - z < LINES ? (int)(end - z) : LINES;
    int count = 0;
    while (count < most && NAME(index)(axis, z + count) >= axis->low &&
           NAME(index)(axis, z + count) < axis->high)
        count++;
    return count > 1 ? count : 1;
}

static void NAME(tile)(const struct tile *tile)
{
    const struct table_axis *axis = &tile->table->axis_of[AXIS_Z];
    const int64_t reach = tile_reach(tile, AXIS_Z);
    struct NAME(level) levels[LEVELS + 1];
    struct NAME(work) work;
    NAME(work_init)(&work, tile);
    NAME(levels_init)(levels, tile);
    /* Each level is `reach` planes behind the one before. */
    const int64_t behind = (tile->levels - 1) * reach;
    for (int64_t at = levels[1].begin[AXIS_Z]; at - behind < tile->end[AXIS_Z]; at += LINES)
        for (int t = 1; t <= tile->levels; t++) {
            const int64_t first = at - (t - 1) * reach, stop = first + LINES;
            const int64_t begin = levels[t].begin[AXIS_Z], end = levels[t].end[AXIS_Z];
            int count;
            for (int64_t z = first > begin ? first : begin; z < stop && z < end; z += count) {
                count = NAME(group)(axis, z, stop < end ? stop : end);
                NAME(planes)(&work, levels[t - 1].at, levels[t].at, &levels[t], z, count);
            }
        }
    if (tile->stream)
        stream_end();
}
