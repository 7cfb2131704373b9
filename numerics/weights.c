#include "numerics/weights.h"

#include "numerics/conductances.h"

#include <math.h>
#include <string.h>

/* A side's statement about f: its derivative of this order at this position is given. */
struct datum {
    rows_real at;
    int order;
};

static bool is_map(const struct rows_side *side)
{
    return side->kind <= ROWS_EVEN;
}

bool rows_has_closures(const struct rows_side *side)
{
    return side->kind >= ROWS_ONE_SIDED && side->kind <= ROWS_CURVATURE;
}

bool rows_has_datum(const struct rows_side *side)
{
    return side->kind == ROWS_DERIVATIVE || side->kind == ROWS_CURVATURE ||
           (side->kind == ROWS_VALUE && side->at_face);
}

static int datum_order(const struct rows_side *side)
{
    return side->kind == ROWS_VALUE ? 0 : side->kind == ROWS_CURVATURE ? 2 : 1;
}

static bool is_periodic(const struct rows_side *side)
{
    return side->kind == ROWS_PERIODIC || side->kind == ROWS_ENDPOINT;
}

/* An image about the place where a number is stated. */
static bool is_stated_map(const struct rows_side *side)
{
    return side->kind >= ROWS_REFLECT && side->kind <= ROWS_EVEN;
}

/* Of the sides that take an image: about the edge node, not the face? */
static bool is_about_node(const struct rows_side *side)
{
    return side->kind == ROWS_MIRROR || (is_stated_map(side) && !side->at_face);
}

static bool is_valid(const struct rows_axis *axis, int order, int accuracy,
                     enum rows_stagger stagger)
{
    if (order < 0 || order > ROWS_ORDER || accuracy < 2 || accuracy > ROWS_ACCURACY ||
        accuracy % 2 != 0 || (unsigned)stagger > ROWS_BACKWARD ||
        (order == 0 && stagger == ROWS_AT_NODE) || axis->n < 1 || axis->n > INT64_MAX / 8)
        return false;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct rows_side *side = &axis->side[s];
        const struct rows_side *other = &axis->side[!s];
        const bool may_be_at_face = rows_has_datum(side) || is_stated_map(side);
        if (side->kind >= ROWS_KINDS || side->at_face > may_be_at_face ||
            (is_periodic(side) && other->kind != side->kind) ||
            (is_stated_map(side) && axis->x && !(axis->conducts && side->kind != ROWS_REFLECT)) ||
            (axis->conducts && rows_has_closures(side)))
            return false;
    }
    if (axis->conducts && !(axis->x && accuracy == 2))
        return false;
    if (!axis->x)
        return axis->spacing > 0 && axis->spacing < INFINITY &&
               (axis->n > 1 || axis->side[SIDE_LOW].kind != ROWS_ENDPOINT);
    return axis->n > 1 || axis->side[SIDE_LOW].kind == ROWS_PERIODIC;
}

static rows_real power(rows_real base, int exponent)
{
    rows_real product = 1;
    for (int k = 0; k < (exponent < 0 ? -exponent : exponent); k++)
        product *= base;
    return exponent < 0 ? 1 / product : product;
}

/* Multiply the polynomial whose coefficients up to `order` are c by its variable + root. */
static void take_factor(rows_real *c, int order, rows_real root)
{
    for (int k = order; k > 0; k--)
        c[k] = c[k] * root + c[k - 1];
    c[0] *= root;
}

/* The derivatives of `order` at t = at of Π (t − a[l]) over all l but j, for each j; and, returned,
 * over all. Each is what lies below j times what lies above. */
static rows_real product_derivatives(const rows_real *a, int count, rows_real at, int order,
                                     rows_real *without)
{
    rows_real below[ROWS_POINTS + 1][ROWS_ORDER + 1] = {{1}}, above[ROWS_ORDER + 1] = {1};
    rows_real factorial = 1;
    for (int k = 2; k <= order; k++)
        factorial *= k;
    for (int j = 0; j < count; j++) {
        memcpy(below[j + 1], below[j], sizeof below[j]);
        take_factor(below[j + 1], order, at - a[j]);
    }
    for (int j = count - 1; j >= 0; j--) {
        without[j] = 0;
        for (int k = 0; k <= order; k++)
            without[j] += below[j][k] * above[order - k];
        without[j] *= factorial;
        take_factor(above, order, at - a[j]);
    }
    return factorial * below[count][order];
}

/* Weights w of f(a[0]), f(a[1]), … and, where there is a datum, of what it states, for the
 * derivative of `order` at 0.
 *
 * Without a datum, w_j = N_j / D_j: the derivative of Π_{l≠j} (t − a_l) over its value at a_j. With
 * the datum L f = g, the interpolant P has c·ω added, ω = Π (t − a_l), c = (g − L P)/(L ω): so
 * w_j = N_j / D_j − ρ·L_j / D_j and g counts ρ = ω^(order)(0) / (L ω). Over one denominator nothing
 * is rounded before the division where all a are integers. False where the datum and the points do
 * not define a polynomial. */
static bool weigh(const rows_real *a, int count, int order, const struct datum *datum, rows_real *w,
                  rows_real *rho)
{
    rows_real denominator[ROWS_POINTS];
    for (int j = 0; j < count; j++) {
        denominator[j] = 1;
        for (int l = 0; l < j; l++) {
            const rows_real apart = a[j] - a[l];
            denominator[j] *= apart;
            denominator[l] *= -apart;
        }
    }
    const rows_real over = product_derivatives(a, count, 0, order, w);
    if (datum) {
        rows_real stated[ROWS_POINTS];
        const rows_real under = product_derivatives(a, count, datum->at, datum->order, stated);
        if (under == 0)
            return false;
        *rho = over / under;
        for (int j = 0; j < count; j++) {
            w[j] = under * w[j] - over * stated[j];
            denominator[j] *= under;
        }
    }
    for (int j = 0; j < count; j++) {
        if (denominator[j] == 0) /* distances too different for the range of the numbers */
            return false;
        w[j] /= denominator[j];
    }
    return true;
}

struct rows_place rows_map(const struct rows_axis *axis, int64_t i)
{
    struct rows_place place = {.at = i, .sign = 1};
    const int64_t n = axis->n;
    if (is_periodic(&axis->side[SIDE_LOW])) {
        const int64_t period = axis->side[SIDE_LOW].kind == ROWS_ENDPOINT ? n - 1 : n;
        if (i < 0 || i >= n)
            place.at = i % period + (i % period < 0 ? period : 0);
        return place;
    }
    if (n == 1 && is_about_node(&axis->side[SIDE_LOW]) && is_about_node(&axis->side[SIDE_HIGH])) {
        /* The images of the only node never end, and all are the node. */
        const int s = i < 0 ? SIDE_LOW : SIDE_HIGH;
        place.at = 0;
        place.lift[s] = axis->side[s].kind == ROWS_REFLECT ? (i < 0 ? -i : i) : 0;
        return place;
    }
    while (place.at < 0 || place.at >= n) {
        const int s = place.at < 0 ? SIDE_LOW : SIDE_HIGH;
        const struct rows_side *side = &axis->side[s];
        if (!is_map(side))
            break;
        const int64_t outside = s == SIDE_LOW ? -place.at : place.at - (n - 1);
        const int64_t twice = 2 * outside - !is_about_node(side); /* the distance to its centre */
        if (side->kind == ROWS_REFLECT)
            place.lift[s] += place.sign * twice;
        if (side->kind == ROWS_ANTISYMMETRIC || side->kind == ROWS_ODD)
            place.sign = -place.sign;
        place.at += s == SIDE_LOW ? twice : -twice;
    }
    return place;
}

/* The coordinate of index i; outside, where the sides' maps put the images. */
static rows_real position(const struct rows_axis *axis, int64_t i)
{
    const double *x = axis->x;
    const int64_t n = axis->n;
    if (i >= 0 && i < n)
        return x[i];
    if (is_periodic(&axis->side[SIDE_LOW])) {
        const int64_t period = axis->side[SIDE_LOW].kind == ROWS_ENDPOINT ? n - 1 : n;
        const int64_t turns = i / period - (i % period < 0);
        return x[i - turns * period] + turns * ((rows_real)x[period] - x[0]);
    }
    rows_real at = 0, sign = 1; /* at + sign × the position of i */
    while (i < 0 || i >= n) {
        const int s = i < 0 ? SIDE_LOW : SIDE_HIGH;
        const int64_t edge = s == SIDE_LOW ? 0 : n - 1, inner = s == SIDE_LOW ? 1 : n - 2;
        const bool node = is_about_node(&axis->side[s]);
        at += sign * (node ? 2 * (rows_real)x[edge] : 3 * (rows_real)x[edge] - x[inner]);
        sign = -sign;
        i = 2 * edge - i + (node ? 0 : s == SIDE_LOW ? -1 : 1);
    }
    return at + sign * x[i];
}

double rows_gap(const struct rows_axis *axis, int64_t i)
{
    if (!axis->x)
        return axis->spacing;
    if (i >= 0 && i + 1 < axis->n)
        return axis->x[i + 1] - axis->x[i];
    return (double)(position(axis, i + 1) - position(axis, i));
}

/* The coordinate of a side's datum. */
static rows_real edge_position(const struct rows_axis *axis, int s, bool at_face)
{
    const int64_t edge = s == SIDE_LOW ? 0 : axis->n - 1, inner = s == SIDE_LOW ? 1 : edge - 1;
    return at_face ? (3 * (rows_real)axis->x[edge] - axis->x[inner]) / 2 : axis->x[edge];
}

/* The coordinate that point i's row is for: the node's, or half way to its neighbour; at an end
 * without images, half a cell outside. */
static rows_real evaluated_at(const struct rows_axis *axis, enum rows_stagger stagger, int64_t i)
{
    if (stagger == ROWS_AT_NODE)
        return position(axis, i);
    const int64_t next = stagger == ROWS_FORWARD ? i + 1 : i - 1;
    const int s = next < 0 ? SIDE_LOW : SIDE_HIGH;
    if ((next < 0 || next >= axis->n) && !is_map(&axis->side[s]))
        return edge_position(axis, s, true);
    return (position(axis, i) + position(axis, next)) / 2;
}

/* Points that the centred row of a uniform axis has below and above i. Symmetry gives even
 * derivatives at a node, and odd ones half way, one order more than their points alone. */
static void centred_reach(int order, int accuracy, enum rows_stagger stagger, int *below,
                          int *above)
{
    const int radius =
        stagger == ROWS_AT_NODE ? (accuracy + order - 1) / 2 : accuracy / 2 + order / 2;
    *below = radius - (stagger == ROWS_FORWARD);
    *above = radius - (stagger == ROWS_BACKWARD);
}

int rows_radius(const struct rows_axis *axis, int order, int accuracy, enum rows_stagger stagger)
{
    if (axis->x && !axis->conducts)
        return (order + accuracy + (stagger != ROWS_AT_NODE)) / 2;
    int below, above;
    centred_reach(order, accuracy, stagger, &below, &above);
    return below > above ? below : above;
}

int rows_apart(const struct rows_axis *axis, int order, int accuracy, enum rows_stagger stagger,
               int side)
{
    const struct rows_side *given = &axis->side[side];
    int below, above;
    centred_reach(order, accuracy, stagger, &below, &above);
    return rows_has_closures(given) || given->kind == ROWS_REFLECT
               ? side == SIDE_LOW ? below : above
               : 0;
}

/* Counted from the high edge, forward is backward. */
static enum rows_stagger seen_from(int s, enum rows_stagger stagger)
{
    if (s == SIDE_LOW || stagger == ROWS_AT_NODE)
        return stagger;
    return stagger == ROWS_FORWARD ? ROWS_BACKWARD : ROWS_FORWARD;
}

static int closure_points(const struct rows_side *side, int order, int accuracy)
{
    const int points = order + accuracy - rows_has_datum(side);
    return points < datum_order(side) ? datum_order(side) : points; /* one point has no curvature */
}

int64_t rows_points_needed(const struct rows_axis *axis, int order, int accuracy,
                           enum rows_stagger stagger, bool diffusion)
{
    int64_t need = axis->x && axis->side[SIDE_LOW].kind != ROWS_PERIODIC ? 2 : 1;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct rows_side *side = &axis->side[s];
        const enum rows_stagger seen = seen_from(s, stagger);
        int below, above;
        centred_reach(order, accuracy, seen, &below, &above);
        int64_t points = side->kind == ROWS_ENDPOINT ? 2 : 1;
        if (is_map(side) &&
            rows_has_closures(&axis->side[!s])) /* one image, and no further one of it */
            points = (axis->x ? rows_radius(axis, order, accuracy, stagger) : below) +
                     is_about_node(side);
        if (rows_has_closures(side) && (axis->x || below > 0)) {
            points = closure_points(side, order, accuracy);
            if (diffusion && points < accuracy + 2)
                points = accuracy + 2;
            /* Shorter axes of this pair grow, by 1e-3 a step at accuracy + 2 points. */
            if (diffusion && side->kind == ROWS_CURVATURE && side->at_face &&
                axis->side[!s].kind == ROWS_HALO)
                points = 3 * accuracy + 1;
        }
        if (diffusion && (side->kind == ROWS_ODD || side->kind == ROWS_EVEN))
            points = accuracy + 2; /* so that no image has another one */
        need = points > need ? points : need;
    }
    return need;
}

/* A row of a uniform axis as seen from its side's edge, in units of half the spacing: for the
 * position `at`, from the first points. */
static bool uniform_row(const struct rows_axis *axis, int order, int accuracy, int s, int64_t at,
                        struct rows_row *row)
{
    const struct rows_side *side = &axis->side[s];
    const int count = closure_points(side, order, accuracy);
    if (count > axis->n)
        return false;
    rows_real a[ROWS_POINTS];
    for (int j = 0; j < count; j++)
        a[j] = 2 * j - at;
    const struct datum datum = {.at = -(int)side->at_face - at, .order = datum_order(side)};
    rows_real data = 0;
    if (!weigh(a, count, order, rows_has_datum(side) ? &datum : NULL, row->w, &data))
        return false;
    row->first = s == SIDE_LOW ? 0 : axis->n - 1;
    row->step = s == SIDE_LOW ? 1 : -1;
    row->count = count;
    row->side = s;
    /* Counted from the edge, the outward normal looks down. */
    row->data[s] = side->kind == ROWS_DERIVATIVE ? -data : data;
    return true;
}

static bool uniform_closure(const struct rows_axis *axis, int order, int accuracy,
                            enum rows_stagger stagger, int s, int64_t i, struct rows_row *row)
{
    const int64_t d = s == SIDE_LOW ? i : axis->n - 1 - i;
    stagger = seen_from(s, stagger);
    const int64_t at = 2 * d + (stagger == ROWS_FORWARD) - (stagger == ROWS_BACKWARD);
    return uniform_row(axis, order, accuracy, s, at, row);
}

static void uniform_centred(int order, int below, int above, enum rows_stagger stagger, int64_t i,
                            struct rows_row *row)
{
    rows_real a[ROWS_POINTS] = {0};
    const int count = below + 1 + above;
    for (int j = 0; j < count; j++)
        a[j] = 2 * (j - below) - (stagger == ROWS_FORWARD) + (stagger == ROWS_BACKWARD);
    weigh(a, count, order, NULL, row->w, NULL);
    row->first = i - below;
    row->step = 1;
    row->count = count;
    row->side = ROWS_CENTRED;
}

/* From half spacings to the axis's unit; and REFLECT's data, which need it. */
static void uniform_scale(const struct rows_axis *axis, int order, struct rows_row *row)
{
    const rows_real scale = power(axis->spacing, -order);
    const rows_real sign = row->step < 0 && order % 2 ? -1 : 1;
    for (int s = 0; s < SIDE_COUNT; s++) {
        if (row->data[s] == 0)
            continue;
        const int lower = order - datum_order(&axis->side[s]);
        row->data[s] *= sign * power(2, lower) * power(axis->spacing, -lower);
    }
    for (int j = 0; j < row->count; j++)
        row->w[j] *= sign * power(2, order);
    if (row->side == ROWS_CENTRED) {
        rows_real lift[SIDE_COUNT] = {0};
        for (int j = 0; j < row->count; j++) /* from each side's outermost point inwards */
            for (int s = 0; s < SIDE_COUNT; s++) {
                const int k = s == SIDE_LOW ? j : row->count - 1 - j;
                lift[s] += row->w[k] * rows_map(axis, row->first + k).lift[s];
            }
        for (int s = 0; s < SIDE_COUNT; s++)
            row->data[s] = lift[s] * power(axis->spacing, 1 - order);
    }
    for (int j = 0; j < row->count; j++)
        row->w[j] *= scale;
}

/* The points of a row with coordinates: as many as the order needs everywhere, around the point;
 * where one more is on one side, it is the nearer of the two that could be (then the lower). Three
 * where the axis conducts. */
static void choose_points(const struct rows_axis *axis, int order, int accuracy,
                          enum rows_stagger stagger, int64_t i, struct rows_row *row)
{
    const struct rows_side *side = axis->side;
    const int64_t n = axis->n;
    const int count = axis->conducts ? 3 : order + accuracy;
    const bool halfway = stagger != ROWS_AT_NODE;
    const int64_t base = i - (stagger == ROWS_BACKWARD);
    int64_t first = base - (count - halfway) / 2;
    if ((count % 2 == 0) != halfway) {
        const bool low = first >= 0 || is_map(&side[SIDE_LOW]);
        const bool high = first + count < n || is_map(&side[SIDE_HIGH]);
        const rows_real at = evaluated_at(axis, stagger, i);
        if (!low || (high && position(axis, first + count) - at < at - position(axis, first)))
            first++;
    }
    row->side = first < 0 && rows_has_closures(&side[SIDE_LOW])            ? SIDE_LOW
                : first + count > n && rows_has_closures(&side[SIDE_HIGH]) ? SIDE_HIGH
                                                                           : ROWS_CENTRED;
    row->count = count;
    if (row->side != ROWS_CENTRED) {
        row->count = closure_points(&side[row->side], order, accuracy);
        first = row->side == SIDE_LOW ? 0 : n - row->count;
    }
    row->first = first;
    row->step = 1;
}

/* The weights of a row with coordinates, at the position `at`; and of the datum of its side. */
static bool coordinate_weights(const struct rows_axis *axis, int order, rows_real at,
                               struct rows_row *row)
{
    if (row->side != ROWS_CENTRED && (row->first < 0 || row->first + row->count > axis->n))
        return false;
    rows_real a[ROWS_POINTS] = {0};
    for (int j = 0; j < row->count; j++) {
        a[j] = position(axis, row->first + j) - at;
        if (j > 0 && !(a[j] > a[j - 1]))
            return false;
    }
    rows_real span = a[row->count - 1] - a[0];
    if (row->count == 1) { /* and the datum: the edge's cell */
        span = 2 * (edge_position(axis, row->side, true) - axis->x[row->first]);
        span = row->side == SIDE_LOW ? -span : span;
    }
    if (!(span > 0 && span < (rows_real)INFINITY))
        return false;
    /* A unit of the size of the window, a power of two, keeps the products in range. */
    const int exponent = span > 1 ? 2 + ilogb((double)(span / 4)) : ilogb((double)span);
    const rows_real unit = (rows_real)ldexp(1, exponent / 2) * ldexp(1, exponent - exponent / 2);
    const rows_real per_unit = 1 / unit; /* exact, and a product is cheaper */
    for (int j = 0; j < row->count; j++)
        a[j] *= per_unit;
    struct datum datum = {0};
    const struct rows_side *side = row->side == ROWS_CENTRED ? NULL : &axis->side[row->side];
    if (side && rows_has_datum(side)) {
        datum.at = (edge_position(axis, row->side, side->at_face) - at) / unit;
        datum.order = datum_order(side);
    } else {
        side = NULL;
    }
    rows_real data = 0;
    if (!weigh(a, row->count, order, side ? &datum : NULL, row->w, &data))
        return false;
    const rows_real scale = power(per_unit, order);
    for (int j = 0; j < row->count; j++)
        row->w[j] *= scale;
    if (side) {
        const bool inwards = side->kind == ROWS_DERIVATIVE && row->side == SIDE_LOW;
        row->data[row->side] = (inwards ? -data : data) * power(unit, datum.order - order);
    }
    return true;
}

/* Are a centred row's points inside, or have an image there? */
static bool has_points(const struct rows_axis *axis, const struct rows_row *row)
{
    const struct rows_place first = rows_map(axis, row->first);
    const struct rows_place last = rows_map(axis, row->first + row->count - 1);
    return first.at >= 0 && first.at < axis->n && last.at >= 0 && last.at < axis->n;
}

bool rows_make(const struct rows_axis *axis, int order, int accuracy, enum rows_stagger stagger,
               int64_t i, struct rows_row *row)
{
    if (!is_valid(axis, order, accuracy, stagger) || i < 0 || i >= axis->n)
        return false;
    const struct rows_side *side = axis->side;
    const int halo = rows_radius(axis, order, accuracy, stagger);
    if ((side[SIDE_LOW].kind == ROWS_HALO && i < halo) ||
        (side[SIDE_HIGH].kind == ROWS_HALO && axis->n - 1 - i < halo))
        return false;
    struct rows_row made = {0};
    if (axis->x) {
        /* The first point and the one that repeats it have the same weights to the bit. */
        const bool repeats = side[SIDE_LOW].kind == ROWS_ENDPOINT && i == axis->n - 1;
        const int64_t j = repeats ? 0 : i;
        choose_points(axis, order, accuracy, stagger, j, &made);
        if (!coordinate_weights(axis, order, evaluated_at(axis, stagger, j), &made))
            return false;
        made.first += i - j;
    } else {
        int below, above;
        centred_reach(order, accuracy, stagger, &below, &above);
        const bool low = i < below && rows_has_closures(&side[SIDE_LOW]);
        const bool high = axis->n - 1 - i < above && rows_has_closures(&side[SIDE_HIGH]);
        if (!low && !high)
            uniform_centred(order, below, above, stagger, i, &made);
        else if (!uniform_closure(axis, order, accuracy, stagger, low ? SIDE_LOW : SIDE_HIGH, i,
                                  &made))
            return false;
        uniform_scale(axis, order, &made);
    }
    if (made.side == ROWS_CENTRED && !has_points(axis, &made))
        return false;
    *row = made;
    return true;
}

bool rows_face(const struct rows_axis *axis, int order, int accuracy, int side,
               struct rows_row *row)
{
    const enum rows_stagger outwards = side == SIDE_LOW ? ROWS_BACKWARD : ROWS_FORWARD;
    if ((unsigned)side >= SIDE_COUNT || !is_valid(axis, order, accuracy, outwards) ||
        !axis->side[side].at_face)
        return false;
    const int64_t edge = side == SIDE_LOW ? 0 : axis->n - 1;
    if (axis->side[side].kind == ROWS_EVEN) {
        *row = (struct rows_row){.first = edge, .step = 1, .count = 1, .side = side, .w = {1}};
        row->data[side] = (rows_real)rows_gap(axis, side == SIDE_LOW ? -1 : edge) / 2;
        return true;
    }
    if (axis->side[side].kind != ROWS_DERIVATIVE)
        return false;
    /* A value of order + accuracy takes the points that the derivative takes. */
    struct rows_row made = {0};
    if (axis->x) {
        made.side = side;
        made.count = closure_points(&axis->side[side], 0, order + accuracy);
        made.first = side == SIDE_LOW ? 0 : axis->n - made.count;
        made.step = 1;
        if (!coordinate_weights(axis, 0, edge_position(axis, side, true), &made))
            return false;
    } else {
        if (!uniform_closure(axis, 0, order + accuracy, outwards, side, edge, &made))
            return false;
        uniform_scale(axis, 0, &made);
    }
    *row = made;
    return true;
}

bool rows_ghost(const struct rows_axis *axis, int accuracy, int side, int64_t m,
                struct rows_row *row)
{
    struct rows_row made = {0};
    if ((unsigned)side >= SIDE_COUNT || axis->x || m < 1 || m > INT32_MAX ||
        !is_valid(axis, 0, accuracy, ROWS_FORWARD) || !rows_has_closures(&axis->side[side]) ||
        !uniform_row(axis, 0, accuracy, side, -2 * m, &made))
        return false;
    uniform_scale(axis, 0, &made);
    *row = made;
    return true;
}

enum { SQUARINGS = 9 };

typedef double matrix[ROWS_EDGE][ROWS_EDGE];

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
                for (int j = 0; j < ROWS_EDGE; j++) /* the last columns are 0 where n is less */
                    square[i][j] += a[i][l] * a[l][j];
        memcpy(a, square, sizeof square);
    }
}

/* Does the point keep its value, whatever its neighbours are? */
static bool is_held(const struct rows_axis *axis, int accuracy, int64_t i)
{
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct rows_side *side = &axis->side[s];
        const int64_t d = s == SIDE_LOW ? i : axis->n - 1 - i;
        if (((side->kind == ROWS_VALUE || side->kind == ROWS_ODD) && !side->at_face && d == 0) ||
            (side->kind == ROWS_HALO && d < rows_radius(axis, 2, accuracy, ROWS_AT_NODE)))
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
static bool matrix_row(const struct rows_axis *axis, int accuracy, int64_t i,
                       const struct columns *columns)
{
    struct rows_row row, face;
    if (!rows_make(axis, 2, accuracy, ROWS_AT_NODE, i, &row))
        return false;
    for (int j = 0; j < row.count; j++) {
        const struct rows_place place = rows_map(axis, row.first + (int64_t)j * row.step);
        add_to_column(columns, place.at, place.sign * (double)row.w[j]);
    }
    for (int s = 0; s < SIDE_COUNT; s++) { /* of EVEN, at accuracy 2, where k is 1 */
        const struct rows_side *side = &axis->side[s];
        const double v = side->mixed, h = axis->spacing;
        if (side->kind == ROWS_EVEN && i == (s == SIDE_LOW ? 0 : axis->n - 1))
            add_to_column(columns, i, side->at_face ? -v / (h + v * h * h / 2) : -2 * v / h);
    }
    if (row.side == ROWS_CENTRED || axis->side[row.side].mixed == 0)
        return true;
    const struct rows_side *side = &axis->side[row.side];
    const double pull = -side->mixed * (double)row.data[row.side];
    if (!side->at_face) {
        add_to_column(columns, row.side == SIDE_LOW ? 0 : axis->n - 1, pull);
        return true;
    }
    if (!rows_face(axis, 2, accuracy, row.side, &face))
        return false;
    const double whole = 1 + side->mixed * (double)face.data[row.side];
    for (int j = 0; j < face.count; j++)
        add_to_column(columns, face.first + (int64_t)j * face.step,
                      pull * (double)face.w[j] / whole);
    return true;
}

static double block_bound(const struct rows_axis *axis, int accuracy, int64_t begin, int count)
{
    matrix a = {{0}};
    for (int i = 0; i < count; i++) {
        const struct columns columns = {.begin = begin, .count = count, .entry = a[i]};
        if (!is_held(axis, accuracy, begin + i) && !matrix_row(axis, accuracy, begin + i, &columns))
            return INFINITY;
    }
    return gelfand(a, count);
}

bool rows_is_stiff(const struct rows_side *side)
{
    return side->kind == ROWS_ONE_SIDED || side->kind == ROWS_DERIVATIVE ||
           (side->kind == ROWS_VALUE && side->at_face) ||
           (side->kind == ROWS_EVEN && side->mixed != 0);
}

/* Distances that differ more than that make no bound: products of them must stay in range. */
static const double FINEST = 0x1p-64;

/* Σ|w| of the centred row of the second derivative at point i of an axis with coordinates, never
 * less and hardly more: what rows_make() sums, in a fiftieth of its time. Infinity where
 * coordinates do not increase, or by factors beyond FINEST.
 *
 * With d_j = x_i − x_j, c_j = Π_{l≠j} (x_j − x_l) and S = Σ 1/d_l the weights are
 * w_j = 2 c_i/(c_j d_j) (S − 1/d_j), and w_i = −Σ w_j (Welfert, SIAM J. Numer. Anal. 34 (1997)
 * 1640). Distances are sums of gaps, in which nothing cancels: in double the quotients are good to
 * 300 roundings and S to 24 of Σ|1/d_l|, which are added. */
static double centred_sum(const struct rows_axis *axis, int64_t i, const struct rows_row *row)
{
    enum { MOST = ROWS_POINTS };
    static const double margin = 4e-14;
    const int count = row->count, self = (int)(i - row->first);
    double gap[MOST] = {0}, distance[MOST] = {0}, product[MOST], span = 0;
    for (int j = 0; j < count; j++) {
        gap[j] = j ? rows_gap(axis, row->first + j - 1) : 0; /* below it */
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
static double centred_bound(const struct rows_axis *axis, int accuracy)
{
    double bound = 0;
    struct rows_row row;
    if (!axis->x) {
        const struct rows_axis endless = {.n = 1, .spacing = axis->spacing};
        if (!rows_make(&endless, 2, accuracy, ROWS_AT_NODE, 0, &row))
            return INFINITY;
        for (int j = 0; j < row.count; j++)
            bound += fabs((double)row.w[j]);
        return bound;
    }
    for (int64_t i = 0; i < axis->n; i++) {
        if (is_held(axis, accuracy, i))
            continue;
        choose_points(axis, 2, accuracy, ROWS_AT_NODE, i, &row);
        if (row.side != ROWS_CENTRED)
            continue;
        if (!has_points(axis, &row))
            return INFINITY;
        bound = fmax(bound, centred_sum(axis, i, &row));
    }
    return bound;
}

double rows_bound(const struct rows_axis *axis, int accuracy)
{
    if (!is_valid(axis, 2, accuracy, ROWS_AT_NODE))
        return INFINITY;
    if (axis->conducts)
        return conductances_bound(axis);
    const double centred = centred_bound(axis, accuracy);
    const int count = axis->n < ROWS_EDGE ? (int)axis->n : ROWS_EDGE;
    double edges = 0;
    if (axis->x) {
        edges = block_bound(axis, accuracy, 0, count);
        if (axis->n > count)
            edges = fmax(edges, block_bound(axis, accuracy, axis->n - count, count));
    } else if (rows_is_stiff(&axis->side[SIDE_LOW]) || rows_is_stiff(&axis->side[SIDE_HIGH])) {
        struct rows_axis block = *axis;
        block.n = count;
        edges = block_bound(&block, accuracy, 0, count);
    }
    return fmax(edges, centred);
}
