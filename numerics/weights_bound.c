#include "numerics/weights.h"

#include "numerics/conductances.h"

#include <math.h>
#include <string.h>

enum { SQUARINGS = 9 };

typedef double matrix[WEIGHTS_EDGE][WEIGHTS_EDGE];

/* The largest sum of magnitudes in a row. */
static double norm(const matrix m, int n)
{
    double largest = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += fabs(m[i][j]);
        if (sum > largest || isnan(sum)) /* no number stays none */
            largest = sum;
    }
    return largest;
}

/* ‖A^k‖^(1/k), k = 2^SQUARINGS. Writes over A. */
static double gelfand(matrix a, int n)
{
    double logarithm = 0; /* of the k-th root of what has been divided out */
    for (int k = 0;; k++) {
        const double size = norm(a, n);
        if (size == 0)
            return 0;
        if (!(size < INFINITY))
            return INFINITY;
        logarithm += ldexp(log(size), -k);
        if (k == SQUARINGS)
            return exp(logarithm);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                a[i][j] /= size;
        matrix square = {{0}};
        for (int i = 0; i < n; i++)
            for (int l = 0; l < n; l++)
                for (int j = 0; j < WEIGHTS_EDGE; j++) /* the last columns are 0 where n is less */
                    square[i][j] += a[i][l] * a[l][j];
        memcpy(a, square, sizeof square);
    }
}

/* Does the point keep its value, whatever its neighbours are? */
static bool is_held(const struct weights_axis *axis, int accuracy, int64_t i)
{
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct weights_side *side = &axis->side[s];
        const int64_t d = s == SIDE_LOW ? i : axis->n - 1 - i;
        if (((side->kind == WEIGHTS_VALUE || side->kind == WEIGHTS_ODD) && !side->at_face &&
             d == 0) ||
            (side->kind == WEIGHTS_HALO && d < weights_radius(axis, 2, accuracy, STAGGER_NONE)))
            return true;
    }
    return false;
}

/* Some columns of a row of a matrix; all others are left out. */
struct columns {
    int64_t begin;
    int count;
    double *entry;
};

static void add_to_column(const struct columns *columns, int64_t at, double value)
{
    if (at >= columns->begin && at < columns->begin + columns->count)
        columns->entry[at - columns->begin] += value;
}

/* Row i of the second derivative with all data 0; a mixed boundary's is −v f_b. False where there
 * is none. */
static bool matrix_row(const struct weights_axis *axis, int accuracy, int64_t i,
                       const struct columns *columns)
{
    struct weights_row row, face;
    if (!weights_make(axis, 2, accuracy, STAGGER_NONE, i, &row))
        return false;
    for (int j = 0; j < row.count; j++) {
        const struct weights_place place = weights_map(axis, row.first + (int64_t)j * row.step);
        add_to_column(columns, place.at, place.sign * (double)row.w[j]);
    }
    for (int s = 0; s < SIDE_COUNT; s++) { /* of EVEN, at accuracy 2, where k is 1 */
        const struct weights_side *side = &axis->side[s];
        const double v = side->mixed, h = axis->spacing;
        if (side->kind == WEIGHTS_EVEN && i == (s == SIDE_LOW ? 0 : axis->n - 1))
            add_to_column(columns, i, side->at_face ? -v / (h + v * h * h / 2) : -2 * v / h);
    }
    if (row.side == WEIGHTS_CENTRED || axis->side[row.side].mixed == 0)
        return true;
    const struct weights_side *side = &axis->side[row.side];
    const double pull = -side->mixed * (double)row.data[row.side];
    if (!side->at_face) {
        add_to_column(columns, row.side == SIDE_LOW ? 0 : axis->n - 1, pull);
        return true;
    }
    if (!weights_face(axis, 2, accuracy, row.side, &face))
        return false;
    const double whole = 1 + side->mixed * (double)face.data[row.side];
    for (int j = 0; j < face.count; j++)
        add_to_column(columns, face.first + (int64_t)j * face.step,
                      pull * (double)face.w[j] / whole);
    return true;
}

static double block_bound(const struct weights_axis *axis, int accuracy, int64_t begin, int count)
{
    matrix a = {{0}};
    for (int i = 0; i < count; i++) {
        const struct columns columns = {.begin = begin, .count = count, .entry = a[i]};
        if (!is_held(axis, accuracy, begin + i) && !matrix_row(axis, accuracy, begin + i, &columns))
            return INFINITY;
    }
    return gelfand(a, count);
}

/* Distances that differ more than that make no bound: products of them must stay in range. */
static const double FINEST = 0x1p-64;

/* Σ|w| of the centred row of the second derivative at point i of an axis with coordinates, never
 * less and hardly more: what weights_make() sums, in a fiftieth of its time. Infinity where
 * coordinates do not increase, or by factors beyond FINEST.
 *
 * With d_j = x_i − x_j, c_j = Π_{l≠j} (x_j − x_l) and S = Σ 1/d_l the weights are
 * w_j = 2 c_i/(c_j d_j) (S − 1/d_j), and w_i = −Σ w_j (Welfert, SIAM J. Numer. Anal. 34 (1997)
 * 1640). Distances are sums of gaps, in which nothing cancels: in double the quotients are good to
 * 300 roundings and S to 24 of Σ|1/d_l|, which are added. */
static double centred_sum(const struct weights_axis *axis, int64_t i, const struct weights_row *row)
{
    enum { MOST = WEIGHTS_POINTS };
    static const double margin = 4e-14;
    const int count = row->count, self = (int)(i - row->first);
    double gap[MOST] = {0}, distance[MOST] = {0}, product[MOST], span = 0;
    for (int j = 0; j < count; j++) {
        gap[j] = j ? (double)weights_gap(axis, row->first + j - 1) : 0; /* below it */
        span += gap[j];
        product[j] = 1;
    }
    for (int j = 1; j < count; j++)
        if (!((gap[j] /= span) >= FINEST))
            return INFINITY;
    for (int j = 0; j < count; j++) {
        double apart = 0;
        for (int l = j + 1; l < count; l++) {
            apart += gap[l];
            product[j] *= -apart;
            product[l] *= apart;
            if (l == self)
                distance[j] = apart;
            else if (j == self)
                distance[l] = -apart;
        }
    }
    double sum = 0, size = 0, own = 0, all = 0;
    for (int j = 0; j < count; j++)
        if (j != self) {
            sum += 1 / distance[j];
            size += fabs(1 / distance[j]);
        }
    for (int j = 0; j < count; j++)
        if (j != self) {
            const double twice = 2 * product[self] / product[j] / distance[j];
            const double weight = twice * (sum - 1 / distance[j]);
            own -= weight;
            all += fabs(weight) + 2 * margin * fabs(twice) * size; /* once for it, once for own */
        }
    return (all + fabs(own)) / span / span;
}

/* The largest Σ|w| of the rows that are no closures. Uniform, the weights alternate: it is the
 * symbol at the grid's highest frequency, of a row that all points have. */
static double centred_bound(const struct weights_axis *axis, int accuracy)
{
    double bound = 0;
    struct weights_row row;
    if (!axis->x) {
        const struct weights_axis endless = {.n = 1, .spacing = axis->spacing};
        if (!weights_make(&endless, 2, accuracy, STAGGER_NONE, 0, &row))
            return INFINITY;
        for (int j = 0; j < row.count; j++)
            bound += fabs((double)row.w[j]);
        return bound;
    }
    for (int64_t i = 0; i < axis->n; i++) {
        if (is_held(axis, accuracy, i))
            continue;
        weights_choose_points(axis, 2, accuracy, STAGGER_NONE, i, &row);
        if (row.side != WEIGHTS_CENTRED)
            continue;
        if (!weights_has_points(axis, &row))
            return INFINITY;
        bound = fmax(bound, centred_sum(axis, i, &row));
    }
    return bound;
}

double weights_bound(const struct weights_axis *axis, int accuracy)
{
    if (!weights_takes(axis, 2, accuracy, STAGGER_NONE))
        return INFINITY;
    if (axis->conducts)
        return conductances_bound(axis);
    const double centred = centred_bound(axis, accuracy);
    const int count = axis->n < WEIGHTS_EDGE ? (int)axis->n : WEIGHTS_EDGE;
    double edges = 0;
    if (axis->x) {
        edges = block_bound(axis, accuracy, 0, count);
        if (axis->n > count)
            edges = fmax(edges, block_bound(axis, accuracy, axis->n - count, count));
    } else if (weights_is_stiff(&axis->side[SIDE_LOW]) ||
               weights_is_stiff(&axis->side[SIDE_HIGH])) {
        struct weights_axis block = *axis;
        block.n = count;
        edges = block_bound(&block, accuracy, 0, count);
    }
    return fmax(edges, centred);
}
