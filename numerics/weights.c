#include "numerics/weights.h"

#include "numerics/lagrange.h"

#include <math.h>

static bool is_map(const struct weights_side *side)
{
    return side->kind <= WEIGHTS_EVEN;
}

bool weights_has_closures(const struct weights_side *side)
{
    return side->kind >= WEIGHTS_ONE_SIDED && side->kind <= WEIGHTS_CURVATURE;
}

bool weights_has_datum(const struct weights_side *side)
{
    return side->kind == WEIGHTS_DERIVATIVE || side->kind == WEIGHTS_CURVATURE ||
           (side->kind == WEIGHTS_VALUE && side->at_face);
}

bool weights_is_stiff(const struct weights_side *side)
{
    return side->kind == WEIGHTS_ONE_SIDED || side->kind == WEIGHTS_DERIVATIVE ||
           (side->kind == WEIGHTS_VALUE && side->at_face) ||
           (side->kind == WEIGHTS_EVEN && side->mixed != 0);
}

static int datum_order(const struct weights_side *side)
{
    return side->kind == WEIGHTS_VALUE ? 0 : side->kind == WEIGHTS_CURVATURE ? 2 : 1;
}

static bool is_periodic(const struct weights_side *side)
{
    return side->kind == WEIGHTS_PERIODIC || side->kind == WEIGHTS_ENDPOINT;
}

/* An image about the place where a number is stated. */
static bool is_stated_map(const struct weights_side *side)
{
    return side->kind >= WEIGHTS_REFLECT && side->kind <= WEIGHTS_EVEN;
}

/* Of the sides that take an image: about the edge node, not the face? */
static bool is_about_node(const struct weights_side *side)
{
    return side->kind == WEIGHTS_MIRROR || (is_stated_map(side) && !side->at_face);
}

bool weights_takes(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger)
{
    if (order < 0 || order > WEIGHTS_ORDER || accuracy < 2 || accuracy > WEIGHTS_ACCURACY ||
        accuracy % 2 != 0 || (unsigned)stagger > STAGGER_BACKWARD ||
        (order == 0 && stagger == STAGGER_NONE) || axis->n < 1 || axis->n > INT64_MAX / 8)
        return false;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct weights_side *side = &axis->side[s];
        const struct weights_side *other = &axis->side[!s];
        const bool may_be_at_face = weights_has_datum(side) || is_stated_map(side);
        if (side->kind > WEIGHTS_HALO || side->at_face > may_be_at_face ||
            (is_periodic(side) && other->kind != side->kind) ||
            (is_stated_map(side) && axis->x &&
             !(axis->conducts && side->kind != WEIGHTS_REFLECT)) ||
            (axis->conducts && weights_has_closures(side)))
            return false;
    }
    if (axis->conducts && !(axis->x && accuracy == 2))
        return false;
    if (!axis->x)
        return axis->spacing > 0 && axis->spacing < INFINITY &&
               (axis->n > 1 || axis->side[SIDE_LOW].kind != WEIGHTS_ENDPOINT);
    return axis->n > 1 || axis->side[SIDE_LOW].kind == WEIGHTS_PERIODIC;
}

static weights_real power(weights_real base, int exponent)
{
    weights_real product = 1;
    for (int k = 0; k < (exponent < 0 ? -exponent : exponent); k++)
        product *= base;
    return exponent < 0 ? 1 / product : product;
}

struct weights_place weights_map(const struct weights_axis *axis, int64_t i)
{
    struct weights_place place = {.at = i, .sign = 1};
    const int64_t n = axis->n;
    if (is_periodic(&axis->side[SIDE_LOW])) {
        const int64_t period = axis->side[SIDE_LOW].kind == WEIGHTS_ENDPOINT ? n - 1 : n;
        if (i < 0 || i >= n)
            place.at = i % period + (i % period < 0 ? period : 0);
        return place;
    }
    if (n == 1 && is_about_node(&axis->side[SIDE_LOW]) && is_about_node(&axis->side[SIDE_HIGH])) {
        /* The images of the only node never end, and all are the node. */
        const int s = i < 0 ? SIDE_LOW : SIDE_HIGH;
        place.at = 0;
        place.lift[s] = axis->side[s].kind == WEIGHTS_REFLECT ? (i < 0 ? -i : i) : 0;
        return place;
    }
    while (place.at < 0 || place.at >= n) {
        const int s = place.at < 0 ? SIDE_LOW : SIDE_HIGH;
        const struct weights_side *side = &axis->side[s];
        if (!is_map(side))
            break;
        const int64_t outside = s == SIDE_LOW ? -place.at : place.at - (n - 1);
        const int64_t twice = 2 * outside - !is_about_node(side); /* the distance to its centre */
        if (side->kind == WEIGHTS_REFLECT)
            place.lift[s] += place.sign * twice;
        if (side->kind == WEIGHTS_ANTISYMMETRIC || side->kind == WEIGHTS_ODD)
            place.sign = -place.sign;
        place.at += s == SIDE_LOW ? twice : -twice;
    }
    return place;
}

/* The coordinate of index i; outside, where the sides' maps put the images. */
static weights_real position(const struct weights_axis *axis, int64_t i)
{
    const double *x = axis->x;
    const int64_t n = axis->n;
    if (i >= 0 && i < n)
        return x[i];
    if (is_periodic(&axis->side[SIDE_LOW])) {
        const int64_t period = axis->side[SIDE_LOW].kind == WEIGHTS_ENDPOINT ? n - 1 : n;
        const int64_t turns = i / period - (i % period < 0);
        return x[i - turns * period] + turns * ((weights_real)x[period] - x[0]);
    }
    weights_real at = 0, sign = 1; /* at + sign × the position of i */
    while (i < 0 || i >= n) {
        const int s = i < 0 ? SIDE_LOW : SIDE_HIGH;
        const int64_t edge = s == SIDE_LOW ? 0 : n - 1, inner = s == SIDE_LOW ? 1 : n - 2;
        const bool node = is_about_node(&axis->side[s]);
        at += sign * (node ? 2 * (weights_real)x[edge] : 3 * (weights_real)x[edge] - x[inner]);
        sign = -sign;
        i = 2 * edge - i + (node ? 0 : s == SIDE_LOW ? -1 : 1);
    }
    return at + sign * x[i];
}

weights_real weights_gap(const struct weights_axis *axis, int64_t i)
{
    if (!axis->x)
        return axis->spacing;
    if (i >= 0 && i + 1 < axis->n)
        return (weights_real)axis->x[i + 1] - axis->x[i];
    return position(axis, i + 1) - position(axis, i);
}

/* The coordinate of a side's datum. */
static weights_real edge_position(const struct weights_axis *axis, int s, bool at_face)
{
    const int64_t edge = s == SIDE_LOW ? 0 : axis->n - 1, inner = s == SIDE_LOW ? 1 : edge - 1;
    return at_face ? (3 * (weights_real)axis->x[edge] - axis->x[inner]) / 2 : axis->x[edge];
}

/* The coordinate that point i's row is for: the node's, or half way to its neighbour; at an end
 * without images, half a cell outside. */
static weights_real evaluated_at(const struct weights_axis *axis, enum stagger stagger, int64_t i)
{
    if (stagger == STAGGER_NONE)
        return position(axis, i);
    const int64_t next = stagger == STAGGER_FORWARD ? i + 1 : i - 1;
    const int s = next < 0 ? SIDE_LOW : SIDE_HIGH;
    if ((next < 0 || next >= axis->n) && !is_map(&axis->side[s]))
        return edge_position(axis, s, true);
    return (position(axis, i) + position(axis, next)) / 2;
}

/* Points that the centred row of a uniform axis has below and above i. Symmetry gives even
 * derivatives at a node, and odd ones half way, one order more than their points alone. */
static void centred_reach(int order, int accuracy, enum stagger stagger, int *below, int *above)
{
    const int radius =
        stagger == STAGGER_NONE ? (accuracy + order - 1) / 2 : accuracy / 2 + order / 2;
    *below = radius - (stagger == STAGGER_FORWARD);
    *above = radius - (stagger == STAGGER_BACKWARD);
}

int weights_radius(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger)
{
    if (axis->x && !axis->conducts)
        return (order + accuracy + (stagger != STAGGER_NONE)) / 2;
    int below, above;
    centred_reach(order, accuracy, stagger, &below, &above);
    return below > above ? below : above;
}

int weights_apart(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger,
                  int side)
{
    const struct weights_side *given = &axis->side[side];
    int below, above;
    centred_reach(order, accuracy, stagger, &below, &above);
    return weights_has_closures(given) || given->kind == WEIGHTS_REFLECT
               ? side == SIDE_LOW ? below : above
               : 0;
}

/* Counted from the high edge, forward is backward. */
static enum stagger seen_from(int s, enum stagger stagger)
{
    if (s == SIDE_LOW || stagger == STAGGER_NONE)
        return stagger;
    return stagger == STAGGER_FORWARD ? STAGGER_BACKWARD : STAGGER_FORWARD;
}

static int closure_points(const struct weights_side *side, int order, int accuracy)
{
    const int points = order + accuracy - weights_has_datum(side);
    return points < datum_order(side) ? datum_order(side) : points; /* one point has no curvature */
}

int64_t weights_points_needed(const struct weights_axis *axis, int order, int accuracy,
                              enum stagger stagger, bool diffusion)
{
    int64_t need = axis->x && axis->side[SIDE_LOW].kind != WEIGHTS_PERIODIC ? 2 : 1;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct weights_side *side = &axis->side[s];
        const enum stagger seen = seen_from(s, stagger);
        int below, above;
        centred_reach(order, accuracy, seen, &below, &above);
        int64_t points = side->kind == WEIGHTS_ENDPOINT ? 2 : 1;
        if (is_map(side) &&
            weights_has_closures(&axis->side[!s])) /* one image, and no further one of it */
            points = (axis->x ? weights_radius(axis, order, accuracy, stagger) : below) +
                     is_about_node(side);
        if (weights_has_closures(side) && (axis->x || below > 0)) {
            points = closure_points(side, order, accuracy);
            if (diffusion && points < accuracy + 2)
                points = accuracy + 2;
            /* Shorter axes of this pair grow, by 1e-3 a step at accuracy + 2 points. */
            if (diffusion && side->kind == WEIGHTS_CURVATURE && side->at_face &&
                axis->side[!s].kind == WEIGHTS_HALO)
                points = 3 * accuracy + 1;
        }
        if (diffusion && (side->kind == WEIGHTS_ODD || side->kind == WEIGHTS_EVEN))
            points = accuracy + 2; /* so that no image has another one */
        need = points > need ? points : need;
    }
    return need;
}

/* A row of a uniform axis as seen from its side's edge, in units of half the spacing: for the
 * position `at`, from the first points. */
static bool uniform_row(const struct weights_axis *axis, int order, int accuracy, int s, int64_t at,
                        struct weights_row *row)
{
    const struct weights_side *side = &axis->side[s];
    const int count = closure_points(side, order, accuracy);
    if (count > axis->n)
        return false;
    const struct lagrange_datum datum = {.at = -(int)side->at_face - at,
                                         .order = datum_order(side)};
    weights_real data = 0;
    if (!lagrange_weights_even(at, count, order, weights_has_datum(side) ? &datum : NULL, row->w,
                               &data))
        return false;
    row->first = s == SIDE_LOW ? 0 : axis->n - 1;
    row->step = s == SIDE_LOW ? 1 : -1;
    row->count = count;
    row->side = s;
    /* Counted from the edge, the outward normal looks down. */
    row->data[s] = side->kind == WEIGHTS_DERIVATIVE ? -data : data;
    return true;
}

static bool uniform_closure(const struct weights_axis *axis, int order, int accuracy,
                            enum stagger stagger, int s, int64_t i, struct weights_row *row)
{
    const int64_t d = s == SIDE_LOW ? i : axis->n - 1 - i;
    stagger = seen_from(s, stagger);
    const int64_t at = 2 * d + (stagger == STAGGER_FORWARD) - (stagger == STAGGER_BACKWARD);
    return uniform_row(axis, order, accuracy, s, at, row);
}

static void uniform_centred(int order, int below, int above, enum stagger stagger, int64_t i,
                            struct weights_row *row)
{
    const int count = below + 1 + above;
    const int at = 2 * below + (stagger == STAGGER_FORWARD) - (stagger == STAGGER_BACKWARD);
    weights_real none;
    lagrange_weights_even(at, count, order, NULL, row->w, &none);
    row->first = i - below;
    row->step = 1;
    row->count = count;
    row->side = WEIGHTS_CENTRED;
}

/* From half spacings to the axis's unit; and REFLECT's data, which need it. */
static void uniform_scale(const struct weights_axis *axis, int order, struct weights_row *row)
{
    const weights_real scale = power(axis->spacing, -order);
    const weights_real sign = row->step < 0 && order % 2 ? -1 : 1;
    for (int s = 0; s < SIDE_COUNT; s++) {
        if (row->data[s] == 0)
            continue;
        const int lower = order - datum_order(&axis->side[s]);
        row->data[s] *= sign * power(2, lower) * power(axis->spacing, -lower);
    }
    for (int j = 0; j < row->count; j++)
        row->w[j] *= sign * power(2, order);
    if (row->side == WEIGHTS_CENTRED) {
        weights_real lift[SIDE_COUNT] = {0};
        for (int j = 0; j < row->count; j++) /* from each side's outermost point inwards */
            for (int s = 0; s < SIDE_COUNT; s++) {
                const int k = s == SIDE_LOW ? j : row->count - 1 - j;
                lift[s] += row->w[k] * weights_map(axis, row->first + k).lift[s];
            }
        for (int s = 0; s < SIDE_COUNT; s++)
            row->data[s] = lift[s] * power(axis->spacing, 1 - order);
    }
    for (int j = 0; j < row->count; j++)
        row->w[j] *= scale;
}

void weights_choose_points(const struct weights_axis *axis, int order, int accuracy,
                           enum stagger stagger, int64_t i, struct weights_row *row)
{
    const struct weights_side *side = axis->side;
    const int64_t n = axis->n;
    const int count = axis->conducts ? 3 : order + accuracy;
    const bool halfway = stagger != STAGGER_NONE;
    const int64_t base = i - (stagger == STAGGER_BACKWARD);
    int64_t first = base - (count - halfway) / 2;
    if ((count % 2 == 0) != halfway) {
        const bool low = first >= 0 || is_map(&side[SIDE_LOW]);
        const bool high = first + count < n || is_map(&side[SIDE_HIGH]);
        const weights_real at = evaluated_at(axis, stagger, i);
        if (!low || (high && position(axis, first + count) - at < at - position(axis, first)))
            first++;
    }
    row->side = first < 0 && weights_has_closures(&side[SIDE_LOW])            ? SIDE_LOW
                : first + count > n && weights_has_closures(&side[SIDE_HIGH]) ? SIDE_HIGH
                                                                              : WEIGHTS_CENTRED;
    row->count = count;
    if (row->side != WEIGHTS_CENTRED) {
        row->count = closure_points(&side[row->side], order, accuracy);
        first = row->side == SIDE_LOW ? 0 : n - row->count;
    }
    row->first = first;
    row->step = 1;
}

/* The weights of a row with coordinates, at the position `at`; and of the datum of its side. */
static bool coordinate_weights(const struct weights_axis *axis, int order, weights_real at,
                               struct weights_row *row)
{
    if (row->side != WEIGHTS_CENTRED && (row->first < 0 || row->first + row->count > axis->n))
        return false;
    weights_real a[WEIGHTS_POINTS] = {0};
    for (int j = 0; j < row->count; j++) {
        a[j] = position(axis, row->first + j) - at;
        if (j > 0 && !(a[j] > a[j - 1]))
            return false;
    }
    weights_real span = a[row->count - 1] - a[0];
    if (row->count == 1) { /* and the datum: the edge's cell */
        span = 2 * (edge_position(axis, row->side, true) - axis->x[row->first]);
        span = row->side == SIDE_LOW ? -span : span;
    }
    if (!(span > 0 && span < (weights_real)INFINITY))
        return false;
    /* A unit of the size of the window, a power of two, keeps the products in range. */
    const int exponent = span > 1 ? 2 + ilogb((double)(span / 4)) : ilogb((double)span);
    const weights_real unit =
        (weights_real)ldexp(1, exponent / 2) * ldexp(1, exponent - exponent / 2);
    const weights_real per_unit = 1 / unit; /* exact, and a product is cheaper */
    for (int j = 0; j < row->count; j++)
        a[j] *= per_unit;
    struct lagrange_datum datum = {0};
    const struct weights_side *side = row->side == WEIGHTS_CENTRED ? NULL : &axis->side[row->side];
    if (side && weights_has_datum(side)) {
        datum.at = (edge_position(axis, row->side, side->at_face) - at) / unit;
        datum.order = datum_order(side);
    } else {
        side = NULL;
    }
    weights_real data = 0;
    if (!lagrange_weights(a, row->count, order, side ? &datum : NULL, row->w, &data))
        return false;
    const weights_real scale = power(per_unit, order);
    for (int j = 0; j < row->count; j++)
        row->w[j] *= scale;
    if (side) {
        const bool inwards = side->kind == WEIGHTS_DERIVATIVE && row->side == SIDE_LOW;
        row->data[row->side] = (inwards ? -data : data) * power(unit, datum.order - order);
    }
    return true;
}

bool weights_has_points(const struct weights_axis *axis, const struct weights_row *row)
{
    const struct weights_place first = weights_map(axis, row->first);
    const struct weights_place last = weights_map(axis, row->first + row->count - 1);
    return first.at >= 0 && first.at < axis->n && last.at >= 0 && last.at < axis->n;
}

/* Point i's row in the whole axis that this one is a part of. */
static bool make_of_whole(const struct weights_axis *axis, int order, int accuracy,
                          enum stagger stagger, int64_t i, struct weights_row *row)
{
    const struct weights_side side = {.kind = axis->whole_kind};
    const struct weights_axis whole = {
        .n = axis->whole_n, .x = axis->x, .side = {side, side}, .conducts = axis->conducts};
    const int64_t j = weights_map(&whole, axis->whole_first + i).at;
    if (!weights_make(&whole, order, accuracy, stagger, j, row))
        return false;
    row->first += i - j;
    return true;
}

bool weights_make(const struct weights_axis *axis, int order, int accuracy, enum stagger stagger,
                  int64_t i, struct weights_row *row)
{
    if (!weights_takes(axis, order, accuracy, stagger) || i < 0 || i >= axis->n)
        return false;
    const struct weights_side *side = axis->side;
    const int halo = weights_radius(axis, order, accuracy, stagger);
    if ((side[SIDE_LOW].kind == WEIGHTS_HALO && i < halo) ||
        (side[SIDE_HIGH].kind == WEIGHTS_HALO && axis->n - 1 - i < halo))
        return false;
    struct weights_row made = {0};
    if (axis->whole_n) {
        if (!make_of_whole(axis, order, accuracy, stagger, i, &made))
            return false;
    } else if (axis->x) {
        /* The first point and the one that repeats it have the same weights to the bit. */
        const bool repeats = side[SIDE_LOW].kind == WEIGHTS_ENDPOINT && i == axis->n - 1;
        const int64_t j = repeats ? 0 : i;
        weights_choose_points(axis, order, accuracy, stagger, j, &made);
        if (!coordinate_weights(axis, order, evaluated_at(axis, stagger, j), &made))
            return false;
        made.first += i - j;
    } else {
        int below, above;
        centred_reach(order, accuracy, stagger, &below, &above);
        const bool low = i < below && weights_has_closures(&side[SIDE_LOW]);
        const bool high = axis->n - 1 - i < above && weights_has_closures(&side[SIDE_HIGH]);
        if (!low && !high)
            uniform_centred(order, below, above, stagger, i, &made);
        else if (!uniform_closure(axis, order, accuracy, stagger, low ? SIDE_LOW : SIDE_HIGH, i,
                                  &made))
            return false;
        uniform_scale(axis, order, &made);
    }
    if (made.side == WEIGHTS_CENTRED && !weights_has_points(axis, &made))
        return false;
    *row = made;
    return true;
}

bool weights_face(const struct weights_axis *axis, int order, int accuracy, int side,
                  struct weights_row *row)
{
    const enum stagger outwards = side == SIDE_LOW ? STAGGER_BACKWARD : STAGGER_FORWARD;
    if ((unsigned)side >= SIDE_COUNT || !weights_takes(axis, order, accuracy, outwards) ||
        !axis->side[side].at_face)
        return false;
    const int64_t edge = side == SIDE_LOW ? 0 : axis->n - 1;
    if (axis->side[side].kind == WEIGHTS_EVEN) {
        *row = (struct weights_row){.first = edge, .step = 1, .count = 1, .side = side, .w = {1}};
        row->data[side] = weights_gap(axis, side == SIDE_LOW ? -1 : edge) / 2;
        return true;
    }
    if (axis->side[side].kind != WEIGHTS_DERIVATIVE)
        return false;
    /* A value of order + accuracy takes the points that the derivative takes. */
    struct weights_row made = {0};
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

bool weights_ghost(const struct weights_axis *axis, int accuracy, int side, int64_t m,
                   struct weights_row *row)
{
    struct weights_row made = {0};
    if ((unsigned)side >= SIDE_COUNT || axis->x || m < 1 || m > INT32_MAX ||
        !weights_takes(axis, 0, accuracy, STAGGER_FORWARD) ||
        !weights_has_closures(&axis->side[side]) ||
        !uniform_row(axis, 0, accuracy, side, -2 * m, &made))
        return false;
    uniform_scale(axis, 0, &made);
    *row = made;
    return true;
}
