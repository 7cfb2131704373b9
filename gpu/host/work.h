/* What a thread works with: where lines along x are read, what its tile's lines have in common, and
 * memory for those that are worked on. */

/* Points at an end of a line along x with rows of their own, as lanes: weight k of all of them,
 * which are those of the same points. */
struct NAME(edge) {
    int rows, points; /* lanes; weights of each */
    bool by_table;    /* its points, or some of them, are left to the table's lines */
    int imposed;      /* points that are read as the side's value */
    bool has_datum;   /* do rows have the side's datum? */
    REAL value[2 * NAME(LANES)], datum[PLAN_ROWS];
    REAL weight[PLAN_ROW_POINTS][PLAN_ROWS];
};

/* Where the lines of a pass are read: a field, or the ring of the level before. */
struct NAME(source) {
    const REAL *first; /* the point at origin[] */
    int64_t origin[AXIS_COUNT], stride[AXIS_COUNT];
    int64_t planes;         /* of the ring; 0 for a field */
    bool wraps[AXIS_COUNT]; /* are indices past an edge mapped? A box that was cut along a periodic
                               axis has what is beyond it instead */
};

/* Points of the strip with rows of their own along x, all of as many points that lie alike about
 * them, from `offset` on or from the one after it: as with coordinates, but next to sides. */
struct NAME(table_slide) {
    int64_t begin, end; /* of the strip that this is of; −1: of none */
    int64_t from, to, offset;
    int count;
    REAL later[STRIP];           /* 1: from offset + 1 on; by point, from `from` on */
    REAL w[TABLE_POINTS][STRIP]; /* by point of a row */
};

/* Where no rules but images of plain maps bring the points of a component's centred stencils
 * inside: from low to high − 1 along each axis. */
struct NAME(box) {
    int64_t low[AXIS_COUNT], high[AXIS_COUNT];
};

/* Of a line, inside. */
struct NAME(place) {
    int64_t y, z;
};

struct NAME(work) {
    const struct tile *tile;
    /* Lines whose points are centred along y and z. By component of the result: the loops, and of
     * which component of the input it has a derivative along each axis. */
    const struct NAME(loops) * loops[AXIS_COUNT];
    int of[AXIS_COUNT][AXIS_COUNT];
    struct NAME(box) box[AXIS_COUNT];
    int radius;
    bool holds; /* are there lines that a side of y or z holds? */
    REAL c[AXIS_COUNT][PLAN_RADIUS + 1];
    struct NAME(edge) edge[SIDE_COUNT];
    /* Points −1 − k and n + k of a line. */
    struct NAME(image) {
        int64_t at;    /* the point inside: they have its value f, … */
        bool negative; /* … or −f, … */
        int lifts;     /* … or twice the value of this side of x, minus f; −1: no side's */
    } outside[SIDE_COUNT][PLAN_RADIUS];
    bool plain;                    /* all of these have f, and no point is imposed */
    REAL row[LINES * ROW];         /* points with their neighbours along x beside them */
    REAL waiting[LINES * WAITING]; /* lines that wait to be streamed */
    /* A strip of any line, by its table. */
    struct TABLE_NAME(view) view;       /* at a point of the line */
    const struct NAME(source) * source; /* by component of the input; AXIS_COUNT: the coefficient */
    int64_t past[AXIS_COUNT]; /* from an index inside to that of the line's copy in the source */
    int64_t low, high;        /* no side of x holds points [low, high) of a line */
    int64_t begin, end;       /* the strip: at most STRIP points, all held, or none */
    int used;                 /* scratch lines */
    struct NAME(table_slide) slide[2]; /* the last one a biharmonic's inner rows */
    REAL scratch[TABLE_SCRATCH][MARGIN + STRIP + MARGIN];
};

/* The index inside that stands for i; without the sign that some maps have. */
static int64_t NAME(index)(const struct table_axis *axis, int64_t i)
{
    int negative;
    return i >= 0 && i < axis->n ? i : side_image(axis->side, axis->n, i, &negative);
}

static struct NAME(source) NAME(field)(const struct table_header *table, const void *field)
{
    return (struct NAME(source)){
        .first = field,
        .stride = {1, table->axis_of[AXIS_Y].stride, table->axis_of[AXIS_Z].stride},
        .wraps = {true, true, true}};
}

/* The point at x = 0 of a line. */
static const REAL *NAME(source_line)(const struct NAME(source) * source,
                                     const struct table_header *table, int64_t y, int64_t z)
{
    if (source->wraps[AXIS_Y])
        y = NAME(index)(&table->axis_of[AXIS_Y], y);
    if (source->wraps[AXIS_Z])
        z = NAME(index)(&table->axis_of[AXIS_Z], z);
    int64_t plane = z - source->origin[AXIS_Z];
    if (source->planes)
        plane = (int64_t)((uint32_t)plane % (uint32_t)source->planes);
    return source->first + (y - source->origin[AXIS_Y]) * source->stride[AXIS_Y] +
           plane * source->stride[AXIS_Z];
}

/* For lines by their table. */
static void NAME(work_begin)(struct NAME(work) * work, const struct table_header *table,
                             const void *rows, const struct table_pass *pass, uint64_t batch)
{
    const struct table_axis *x = &table->axis_of[AXIS_X];
    const int64_t low = x->side[SIDE_LOW].held, high = x->n - x->side[SIDE_HIGH].held;
    work->view = TABLE_NAME(begin)(table, rows, pass, batch);
    work->low = low < x->n ? low : x->n;
    work->high = high > work->low ? high : work->low;
    work->slide[0].begin = work->slide[1].begin = -1;
}
