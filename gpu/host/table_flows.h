/* (k u′)′ along an axis by its centred row, as numerics/table_point.h's flows(), by vectors. */

/* Lines of u and k around the line: u[TABLE_RADIUS + j] is that at j. */
struct NAME(flows) {
    const TABLE_ROW *row;
    const double *across;
    const REAL *u[2 * TABLE_RADIUS + 1], *k[2 * TABLE_RADIUS + 1];
};

/* As numerics/table_point.h's between(). */
ALWAYS_INLINE NAME(vector)
    NAME(flows_between)(const NAME(vector) * k, const double *across, int r, int m, int s)
{
    NAME(vector) acc = k[0] + k[s * m];
    UNROLL
    for (int e = 1; 2 * e <= m; e++) {
        const NAME(vector) inside = 2 * e == m ? k[s * e] : k[s * e] + k[s * (m - e)];
        acc = NAME(fma)(NAME(fill)((REAL)*across++), inside, acc);
    }
    UNROLL
    for (int e = 1; m + e <= r; e++)
        acc = NAME(fma)(NAME(fill)((REAL)*across++), k[-s * e] + k[s * (m + e)], acc);
    return acc;
}

/* Points [begin, end), added to out. r: a constant where this is called. */
ALWAYS_INLINE void NAME(flows_of)(const struct NAME(flows) * flows, int r, REAL *out, int64_t begin,
                                  int64_t end)
{
    const REAL *const *u = flows->u + TABLE_RADIUS, *const *k = flows->k + TABLE_RADIUS;
    for (int64_t i = begin; i < end; i += NAME(LANES)) {
        const int lanes = end - i < NAME(LANES) ? (int)(end - i) : NAME(LANES);
        const double *across = flows->across;
        NAME(vector) around[2 * TABLE_RADIUS + 1];
        UNROLL
        for (int j = 0; j <= 2 * r; j++)
            around[j] = NAME(read)(k[j - r] + i, lanes);
        const NAME(vector) own = NAME(read)(u[0] + i, lanes);
        NAME(vector) acc = NAME(read)(out + i, lanes);
        UNROLL
        for (int m = 1; m <= r; m++) {
            const NAME(vector) above = NAME(flows_between)(around + r, across, r, m, 1) *
                                       (NAME(read)(u[m] + i, lanes) - own);
            const NAME(vector) below = NAME(flows_between)(around + r, across, r, m, -1) *
                                       (NAME(read)(u[-m] + i, lanes) - own);
            acc = NAME(fma)(NAME(fill)(flows->row->w[m - 1]), above + below, acc);
            across += m / 2 + r - m;
        }
        NAME(write)(out + i, acc, lanes);
    }
}

static void NAME(flows_run)(const struct NAME(flows) * flows, REAL *out, int64_t begin, int64_t end)
{
    switch (flows->row->count) {
    case 1:
        NAME(flows_of)(flows, 1, out, begin, end);
        break;
    case 2:
        NAME(flows_of)(flows, 2, out, begin, end);
        break;
    case 3:
        NAME(flows_of)(flows, 3, out, begin, end);
        break;
    case 4:
        NAME(flows_of)(flows, 4, out, begin, end);
        break;
    case TABLE_RADIUS:
        NAME(flows_of)(flows, TABLE_RADIUS, out, begin, end);
        break;
    }
}
