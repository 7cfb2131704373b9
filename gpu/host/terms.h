/* A line's points as a sum of terms in their order, whatever they are: closures, pairs, and lines
 * too short for the loops of stencil.h. */

/* weight × a[0], or weight × (a[0] ± b[0] + a[1] ± b[1] …) of as many pairs. */
struct NAME(term) {
    REAL weight;
    int pairs;
    const REAL *a[AXIS_COUNT], *b[AXIS_COUNT];
};

struct NAME(terms) {
    bool odd;   /* pairs are differences, and the first term begins the sum */
    bool begun; /* there is a centre, 0 or its weight × a point, before the first term */
    int count;
    struct NAME(term) term[PLAN_RADIUS + 2 * PLAN_ROW_POINTS];
};

static void NAME(terms_begin)(struct NAME(terms) * terms, bool odd, bool begun)
{
    terms->odd = odd;
    terms->begun = begun;
    terms->count = 0;
}

/* One more term: a pair, or one point where b is NULL. */
static void NAME(terms_put)(struct NAME(terms) * terms, REAL weight, const REAL *a, const REAL *b)
{
    struct NAME(term) *term = &terms->term[terms->count++];
    term->weight = weight;
    term->pairs = b ? 1 : 0;
    term->a[0] = a;
    term->b[0] = b;
}

/* The pairs of one axis: line[m] is m points above. */
static void NAME(terms_pairs)(struct NAME(terms) * terms, int radius, const REAL *weights,
                              const REAL *const *line)
{
    for (int m = 1; m <= radius; m++)
        NAME(terms_put)(terms, weights[m], line[m], line[-m]);
}

/* acc and the terms, `lanes` points from i on. */
static NAME(vector)
    NAME(terms_add)(const struct NAME(terms) * terms, NAME(vector) acc, int64_t i, int lanes)
{
    for (int t = 0; t < terms->count; t++) {
        const struct NAME(term) *term = &terms->term[t];
        const NAME(vector) weight = NAME(fill)(term->weight);
        NAME(vector) sum = NAME(read)(term->a[0] + i, lanes);
        for (int p = 0; p < term->pairs; p++) {
            const NAME(vector) a = p == 0 ? sum : NAME(read)(term->a[p] + i, lanes);
            const NAME(vector) b = NAME(read)(term->b[p] + i, lanes);
            const NAME(vector) pair = terms->odd ? a - b : a + b;
            sum = p == 0 ? pair : sum + pair;
        }
        acc = t == 0 && !terms->begun ? weight * sum : NAME(fma)(weight, sum, acc);
    }
    return acc;
}

/* All points of a stretch of one line. centre: its weight × f begins the sum; f is NULL where there
 * is none. */
static void NAME(terms_run)(const struct NAME(terms) * terms, REAL centre, const REAL *f, REAL *out,
                            int64_t points)
{
    for (int64_t i = 0; i < points; i += NAME(LANES)) {
        const int lanes = points - i < NAME(LANES) ? (int)(points - i) : NAME(LANES);
        NAME(vector) acc = NAME(fill)(0);
        if (f)
            acc = NAME(fill)(centre) * NAME(read)(f + i, lanes);
        NAME(write)(out + i, NAME(terms_add)(terms, acc, i, lanes), lanes);
    }
}
