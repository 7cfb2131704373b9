/* Centred stencils on whole vectors: the fast loops. They run along x over several lines at once,
 * which lie beside each other along z, so that a neighbour is loaded once for all the lines that
 * read it. Each lane does the operations of numerics/table_point.h in their order. */

/* `rows` rows of lines that lie beside each other along z, each of at least a vector of points. */
struct NAME(stretch) {
    void (*loop)(const struct NAME(stretch) * stretch);
    bool along_x, along_z; /* is there a derivative along x, along z? */
    int64_t points, rows;
    REAL *out[LINES];
    bool stream; /* past the caches: out is aligned to the vector */
    /* Line b with its neighbours along x beside it, those along y, and those along z, if any, at
     * b + PLAN_RADIUS. These are lines of one field or of several. */
    const REAL *x[LINES], *f[LINES], *in[LINES + 2 * PLAN_RADIUS];
    int64_t y[2 * PLAN_RADIUS + 1]; /* from f to its neighbours along y; of lines that are computed
                                       together they lie evenly */
    int64_t out_row, x_row, in_row; /* from a row to the next */
    int64_t ahead;                  /* from points that are new to those that will be soon after */
    const REAL *weight[AXIS_COUNT]; /* from m = 1 on: [m] */
    REAL centre;
};

/* What a loop is compiled for. */
struct NAME(kind) {
    int lines, radius;
    bool odd;     /* parity; else even */
    bool x, y, z; /* active axes */
    bool shared;  /* the table's */
    bool less;    /* of an odd sum: the difference; of x and z that of z and x */
};

ALWAYS_INLINE void NAME(put)(REAL *to, NAME(vector) v, bool stream)
{
    if (stream)
        NAME(stream)(to, v);
    else
        NAME(store)(to, v);
}

/* m lines further, where lines lie evenly: few of them need a register of their own. */
ALWAYS_INLINE const REAL *NAME(beyond)(const REAL *from, int64_t one, int64_t three, const int m)
{
    return m == 1 ? from + one : m == 2 ? from + 2 * one : m == 3 ? from + three : from + 4 * one;
}

/* Weights in every lane; [m] from m = 1 on. */
struct NAME(weights) {
    NAME(vector) centre, x[PLAN_RADIUS + 1], y[PLAN_RADIUS + 1], z[PLAN_RADIUS + 1];
};

ALWAYS_INLINE struct NAME(weights)
    NAME(weights_fill)(const struct NAME(kind) kind, const struct NAME(stretch) * stretch)
{
    struct NAME(weights) w = {.centre = NAME(fill)(stretch->centre)};
    UNROLL
    for (int m = 1; m <= kind.radius; m++) {
        w.x[m] = kind.x ? NAME(fill)(stretch->weight[AXIS_X][m]) : w.centre;
        w.y[m] = kind.y ? NAME(fill)(stretch->weight[AXIS_Y][m]) : w.centre;
        w.z[m] = kind.z ? NAME(fill)(stretch->weight[AXIS_Z][m]) : w.centre;
    }
    return w;
}

/* The neighbours of a vector of points: in its line, those along y from f on, and those along z,
 * which have been loaded. */
struct NAME(neighbours) {
    const REAL *x, *f;
    const int64_t *y;
    const NAME(vector) * column; /* the points' own */
};

#define PAIR(a, b) (kind.odd ? (a) - (b) : (a) + (b))
#define PAIR_X(m) PAIR(NAME(load)(at->x + (m)), NAME(load)(at->x - (m)))
#define ABOVE(m) (kind.lines == 1 ? at->f + at->y[m] : NAME(beyond)(at->f, up, up3, m))
#define BELOW(m) (kind.lines == 1 ? at->f + at->y[-(m)] : NAME(beyond)(at->f, -up, -up3, m))
#define PAIR_Y(m) PAIR(NAME(load)(ABOVE(m)), NAME(load)(BELOW(m)))
#define PAIR_Z(m) PAIR(at->column[m], at->column[-(m)])

ALWAYS_INLINE NAME(vector)
    NAME(sum_odd)(const struct NAME(kind) kind, const struct NAME(weights) * w,
                  const struct NAME(neighbours) * at)
{
    const int64_t up = kind.y ? at->y[1] : 0, up3 = 3 * up;
    NAME(vector) dx = w->centre, dy = w->centre, dz = w->centre;
    UNROLL
    for (int m = 1; m <= kind.radius; m++) {
        if (kind.x)
            dx = m == 1 ? w->x[1] * PAIR_X(1) : NAME(fma)(w->x[m], PAIR_X(m), dx);
        if (kind.y)
            dy = m == 1 ? w->y[1] * PAIR_Y(1) : NAME(fma)(w->y[m], PAIR_Y(m), dy);
        if (kind.z)
            dz = m == 1 ? w->z[1] * PAIR_Z(1) : NAME(fma)(w->z[m], PAIR_Z(m), dz);
    }
    if (kind.less)
        return kind.x && kind.z ? dz - dx : kind.x ? dx - dy : dy - dz;
    if (kind.x)
        return !kind.y ? dx : !kind.z ? dx + dy : dx + dy + dz;
    return kind.y ? dy : dz;
}

ALWAYS_INLINE NAME(vector)
    NAME(sum_even)(const struct NAME(kind) kind, const struct NAME(weights) * w,
                   const struct NAME(neighbours) * at)
{
    const int64_t up = kind.y ? at->y[1] : 0, up3 = 3 * up;
    NAME(vector) acc = w->centre * (kind.z ? at->column[0] : NAME(load)(at->x));
    if (kind.shared) {
        UNROLL
        for (int m = 1; m <= kind.radius; m++) {
            NAME(vector) sum = kind.x ? PAIR_X(m) : PAIR_Z(m);
            if (kind.y)
                sum = sum + PAIR_Y(m);
            if (kind.x && kind.z)
                sum = sum + PAIR_Z(m);
            acc = NAME(fma)(kind.x ? w->x[m] : w->z[m], sum, acc);
        }
        return acc;
    }
    UNROLL
    for (int m = 1; m <= kind.radius; m++)
        acc = NAME(fma)(w->x[m], PAIR_X(m), acc);
    if (kind.y) {
        UNROLL
        for (int m = 1; m <= kind.radius; m++)
            acc = NAME(fma)(w->y[m], PAIR_Y(m), acc);
    }
    UNROLL
    for (int m = 1; m <= kind.radius; m++)
        acc = NAME(fma)(w->z[m], PAIR_Z(m), acc);
    return acc;
}

/* One row of each line: its first points, and how far their neighbours are fetched ahead. */
struct NAME(rows) {
    REAL *out[LINES];
    const REAL *x[LINES], *f[LINES], *newest[LINES], *in[LINES + 2 * PLAN_RADIUS];
};

ALWAYS_INLINE void NAME(row_run)(const struct NAME(kind) kind, const struct NAME(weights) * w,
                                 const struct NAME(stretch) * stretch,
                                 const struct NAME(rows) * rows)
{
    enum { MID = PLAN_RADIUS };
    const int64_t last = stretch->points - NAME(LANES);
    const bool stream = stretch->stream;
    NAME(vector) result[LINES];
    int64_t held = -1;
    /* The last vector may hold points of the one before it: they are written twice. A result is
     * held back until the next one's points have been loaded: a load waits for a store before it
     * whose address ends in the same 12 bits, which that of the point itself often does. */
    for (int64_t i = 0;; i = i + NAME(LANES) < last ? i + NAME(LANES) : last) {
        NAME(vector) column[LINES + 2 * PLAN_RADIUS], next[LINES];
        if (kind.z) {
            UNROLL
            for (int k = MID - kind.radius; k < MID + kind.lines + kind.radius; k++)
                column[k] = NAME(load)(rows->in[k] + i);
        }
        UNROLL
        for (int b = 0; b < kind.lines; b++) {
            const struct NAME(neighbours)
                at = {rows->x[b] + i, rows->f[b] + i, stretch->y + MID, column + MID + b};
            next[b] = kind.odd ? NAME(sum_odd)(kind, w, &at) : NAME(sum_even)(kind, w, &at);
        }
        UNROLL
        for (int b = 0; b < kind.lines; b++) {
            __builtin_prefetch(rows->newest[b] + i, 0, 2);
            if (held >= 0)
                NAME(put)(rows->out[b] + held, result[b], stream);
            result[b] = next[b];
        }
        held = i;
        if (i == last)
            break;
    }
    UNROLL
    for (int b = 0; b < kind.lines; b++)
        NAME(put)(rows->out[b] + held, result[b], stream);
}

ALWAYS_INLINE void NAME(stretch_run)(const struct NAME(kind) kind,
                                     const struct NAME(stretch) * stretch)
{
    enum { MID = PLAN_RADIUS };
    const struct NAME(weights) w = NAME(weights_fill)(kind, stretch);
    struct NAME(rows) rows;
    UNROLL
    for (int b = 0; b < kind.lines; b++) {
        rows.out[b] = stretch->out[b];
        rows.x[b] = stretch->x[b];
        rows.f[b] = kind.y ? stretch->f[b] : rows.x[b];
        rows.newest[b] = (kind.z   ? stretch->in[MID + kind.radius + b]
                          : kind.y ? rows.f[b] + stretch->y[MID + kind.radius]
                                   : rows.x[b]) +
                         stretch->ahead;
    }
    if (kind.z) {
        UNROLL
        for (int k = MID - kind.radius; k < MID + kind.lines + kind.radius; k++)
            rows.in[k] = stretch->in[k];
    }
    for (int64_t row = 0; row < stretch->rows; row++) {
        NAME(row_run)(kind, &w, stretch, &rows);
        UNROLL
        for (int b = 0; b < kind.lines; b++) {
            rows.out[b] += stretch->out_row;
            rows.x[b] += stretch->x_row;
            rows.f[b] += kind.y ? stretch->in_row : stretch->x_row;
            rows.newest[b] += stretch->in_row;
        }
        if (kind.z) {
            UNROLL
            for (int k = MID - kind.radius; k < MID + kind.lines + kind.radius; k++)
                rows.in[k] += stretch->in_row;
        }
    }
}

/* The kinds of sums that there are loops for. */
#define LOOPS(X)                                                                                   \
    X(odd_x, .odd = true, .x = true)                                                               \
    X(odd_z, .odd = true, .z = true)                                                               \
    X(odd_y, .odd = true, .y = true)                                                               \
    X(odd_xy, .odd = true, .x = true, .y = true)                                                   \
    X(odd_xyz, .odd = true, .x = true, .y = true, .z = true)                                       \
    X(curl_yz, .odd = true, .y = true, .z = true, .less = true)                                    \
    X(curl_zx, .odd = true, .x = true, .z = true, .less = true)                                    \
    X(curl_xy, .odd = true, .x = true, .y = true, .less = true)                                    \
    X(even_x, .x = true, .shared = true)                                                           \
    X(even_z, .z = true, .shared = true)                                                           \
    X(plane, .x = true, .z = true)                                                                 \
    X(plane_shared, .x = true, .z = true, .shared = true)                                          \
    X(space, .x = true, .y = true, .z = true)                                                      \
    X(space_shared, .x = true, .y = true, .z = true, .shared = true)

/* A function for each kind and radius: of one line, and of LINES. */
#define LOOP(name, ...)                                                                            \
    LOOP_OF(name##_1, 1, 1, __VA_ARGS__)                                                           \
    LOOP_OF(name##_2, 1, 2, __VA_ARGS__)                                                           \
    LOOP_OF(name##_3, 1, 3, __VA_ARGS__)                                                           \
    LOOP_OF(name##_4, 1, 4, __VA_ARGS__)                                                           \
    LOOP_OF(name##_lines_1, LINES, 1, __VA_ARGS__)                                                 \
    LOOP_OF(name##_lines_2, LINES, 2, __VA_ARGS__)                                                 \
    LOOP_OF(name##_lines_3, LINES, 3, __VA_ARGS__)                                                 \
    LOOP_OF(name##_lines_4, LINES, 4, __VA_ARGS__)
#define LOOP_OF(name, lines, radius, ...)                                                          \
    static void NAME(name)(const struct NAME(stretch) * stretch)                                   \
    {                                                                                              \
        NAME(stretch_run)((struct NAME(kind)){lines, radius, __VA_ARGS__}, stretch);               \
    }
LOOPS(LOOP)

#define RADII(name)                                                                                \
    {                                                                                              \
        NAME(name##_1), NAME(name##_2), NAME(name##_3), NAME(name##_4)                             \
    }
#define ROW_OF(name, ...) {{__VA_ARGS__}, {RADII(name), RADII(name##_lines)}},
static const struct NAME(loops) {
    struct NAME(kind) kind; /* but for lines and radius */
    /* By whether of LINES, and radius − 1. */
    void (*run[2][PLAN_RADIUS])(const struct NAME(stretch) * stretch);
} NAME(loops)[] = {LOOPS(ROW_OF)};
#undef LOOPS
#undef LOOP
#undef LOOP_OF
#undef ROW_OF
#undef RADII
#undef PAIR
#undef PAIR_X
#undef PAIR_Y
#undef ABOVE
#undef BELOW
#undef PAIR_Z

/* The loops for sums over the axes of the set; NULL: there are none, which no plan of tiles asks
 * for. */
static const struct NAME(loops) * NAME(loops_of)(int set, bool odd, bool shared, bool less)
{
    for (size_t i = 0; i < sizeof NAME(loops) / sizeof *NAME(loops); i++) {
        const struct NAME(kind) *kind = &NAME(loops)[i].kind;
        if ((kind->x | kind->y << AXIS_Y | kind->z << AXIS_Z) == set && kind->odd == odd &&
            kind->shared == shared && kind->less == less)
            return &NAME(loops)[i];
    }
    return NULL;
}
