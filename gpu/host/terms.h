/* A line's points as a sum of terms in their order, whatever they are: closures, pairs, rows of
 * tables, and lines too short for the loops of stencil.h. */

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
    struct NAME(term) term[TERMS];
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

/* One more pair in the last term. */
static void NAME(terms_join)(struct NAME(terms) * terms, const REAL *a, const REAL *b)
{
    struct NAME(term) *term = &terms->term[terms->count - 1];
    term->a[term->pairs] = a;
    term->b[term->pairs++] = b;
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

/* The terms, several vectors from point i on, whose sums are under way at the same time. */
ALWAYS_INLINE void NAME(terms_group)(const struct NAME(terms) * terms, bool odd, const REAL *from,
                                     REAL *out, int64_t i)
{
    NAME(vector) acc[GROUP], sum[GROUP];
    UNROLL
    for (int v = 0; v < GROUP; v++)
        acc[v] = from ? NAME(load)(from + i + v * NAME(LANES)) : NAME(fill)(0);
    for (int t = 0; t < terms->count; t++) {
        const struct NAME(term) *term = &terms->term[t];
        const NAME(vector) weight = NAME(fill)(term->weight);
        const REAL *a = term->a[0] + i;
        UNROLL
        for (int v = 0; v < GROUP; v++)
            sum[v] = NAME(load)(a + v * NAME(LANES));
        for (int p = 0; p < term->pairs; p++) {
            const REAL *b = term->b[p] + i;
            a = term->a[p] + i;
            UNROLL
            for (int v = 0; v < GROUP; v++) {
                const NAME(vector) above = p == 0 ? sum[v] : NAME(load)(a + v * NAME(LANES));
                const NAME(vector) below = NAME(load)(b + v * NAME(LANES));
                const NAME(vector) pair = odd ? above - below : above + below;
                sum[v] = p == 0 ? pair : sum[v] + pair;
            }
        }
        const bool begins = t == 0 && !terms->begun;
        UNROLL
        for (int v = 0; v < GROUP; v++)
            acc[v] = begins ? weight * sum[v] : NAME(fma)(weight, sum[v], acc[v]);
    }
    UNROLL
    for (int v = 0; v < GROUP; v++)
        NAME(store)(out + i + v * NAME(LANES), acc[v]);
}

/* Points [begin, end) of lines that are all given from point 0 on. from: the sum before the first
 * term; NULL: 0, or none. out may be from. */
static void NAME(terms_sum)(const struct NAME(terms) * terms, const REAL *from, REAL *out,
                            int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + GROUP * NAME(LANES) <= end; i += GROUP * NAME(LANES))
        if (terms->odd)
            NAME(terms_group)(terms, true, from, out, i);
        else
            NAME(terms_group)(terms, false, from, out, i);
    for (; i < end; i += NAME(LANES)) {
        const int lanes = end - i < NAME(LANES) ? (int)(end - i) : NAME(LANES);
        const NAME(vector) acc = from ? NAME(read)(from + i, lanes) : NAME(fill)(0);
        NAME(write)(out + i, NAME(terms_add)(terms, acc, i, lanes), lanes);
    }
}
