#include "numerics/tridiagonal.h"

#include <math.h>
#include <stdlib.h>

/* Factors and corner solution approach those of an endless line as e^−kθ, cosh θ = 1 + 1/(2
 * weight), k rows from an end: here to less than 2^−120 of what they are. */
uint64_t tridiagonal_count(uint64_t n, double weight)
{
    const double rows =
        weight > 0 ? 2 * ceil(120 * 0.6931471805599453 / acosh(1 + 0.5 / weight) + 4) : 8;
    return rows < (double)n ? (uint64_t)rows : n;
}

/* One row of 1 − A. */
struct row {
    weights_real below, diagonal, above;
};

static struct row row_of(const struct tridiagonal_line *line, int64_t n, int64_t i)
{
    struct row row = {-line->weight, 1 + 2 * line->weight, -line->weight};
    if (n == 1 && line->periodic)
        return (struct row){0, 1, 0};
    if (n == 2 && line->periodic) /* both neighbours are one */
        return (struct row){i ? 2 * row.below : 0, row.diagonal, i ? 0 : 2 * row.above};
    for (int side = 0; side < SIDE_COUNT && !line->periodic; side++)
        if (i == (side == SIDE_LOW ? 0 : n - 1)) {
            row.diagonal = 1 + line->end[side].next - line->end[side].own;
            *(side == SIDE_LOW ? &row.above : &row.below) = -line->end[side].next;
        }
    if (i == 0)
        row.below = 0;
    if (i == n - 1)
        row.above = 0;
    return row;
}

static void put_rounded(void *table, uint64_t at, int64_t i, int dtype, weights_real value)
{
    char *to = (char *)table + at;
    if (dtype == DTYPE_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = (double)value;
}

bool tridiagonal_make(struct tridiagonal *lines, const struct tridiagonal_line *line, int dtype,
                      void *table)
{
    const int64_t count = (int64_t)tridiagonal_count((uint64_t)lines->n, (double)line->weight);
    const uint64_t size = (uint64_t)count * dtype_element_bytes(dtype);
    weights_real *z = malloc((size_t)count * 2 * sizeof *z), *p = z + count;
    if (!z)
        return false;
    lines->count = count;
    lines->half = count < lines->n ? count / 2 : count;
    lines->corner = line->periodic && lines->n > 2;
    /* Of a periodic line: the first row's diagonal is doubled, and u, the corner's column, is minus
     * that diagonal on top and −weight at the end. */
    const weights_real first = row_of(line, count, 0).diagonal;
    const weights_real corner = lines->corner ? line->weight : 0, last = corner / first;
    weights_real q = 0, above = 0;
    for (int64_t i = 0; i < count; i++) {
        struct row row = row_of(line, count, i);
        if (lines->corner && i == 0)
            row.diagonal += first;
        if (lines->corner && i == count - 1)
            row.diagonal += corner * last;
        const weights_real m = -row.below * q;
        q = 1 / (row.diagonal + m * above);
        above = row.above;
        p[i] = -row.above * q;
        z[i] = ((i == 0           ? -first
                 : i == count - 1 ? -corner
                                  : 0) +
                (i ? -row.below * z[i - 1] : 0)) *
               q;
        put_rounded(table, lines->at, i, dtype, m);
        put_rounded(table, lines->at + size, i, dtype, p[i]);
        put_rounded(table, lines->at + 2 * size, i, dtype, q);
    }
    for (int64_t i = count - 2; i >= 0; i--)
        z[i] += p[i] * z[i + 1];
    const weights_real scale = lines->corner ? -1 / (1 + z[0] + last * z[count - 1]) : 0;
    for (int64_t i = 0; i < count; i++) {
        /* The middle row stands for all that the table lacks: nothing reaches there. */
        const bool nothing = !lines->corner || (count < lines->n && i == lines->half - 1);
        put_rounded(table, lines->at + 3 * size, i, dtype, nothing ? 0 : scale * z[i]);
    }
    lines->last = dtype == DTYPE_F32 ? (double)(float)last : (double)last;
    free(z);
    return true;
}
