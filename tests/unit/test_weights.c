/* Rows of weights against exact fractions and against the polynomials that define them. */
#include "numerics/weights.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 40, ACCURACIES = WEIGHTS_ACCURACY / 2 };

/* The rounding of a sum of 113-bit terms. */
static const double NOISE = 1e-28;

#define BIG(high, low) ((weights_real)(high) * (1LL << 60) + (low))

static const struct exact {
    int order, accuracy, kind, at_face, stagger, distance, first, count;
    weights_real under, data, over[WEIGHTS_POINTS];
} exact[] = {
#include "weights_exact.inc" /* printed by weights_exact.py */
};

static double magnitude(weights_real value)
{
    return fabs((double)value);
}

static struct weights_axis axis_of(int64_t n, int low, int high)
{
    return (struct weights_axis){
        .n = n, .spacing = 1, .side = {{.kind = (uint8_t)low}, {.kind = (uint8_t)high}}};
}

static void made(const struct weights_axis *axis, int order, int accuracy, int stagger, int64_t i,
                 struct weights_row *row)
{
    if (!weights_make(axis, order, accuracy, (enum stagger)stagger, i, row))
        fail_msg("no row: order %d, accuracy %d, stagger %d, sides %d %d, point %d of %d", order,
                 accuracy, stagger, axis->side[0].kind, axis->side[1].kind, (int)i, (int)axis->n);
}

/* To all 113 bits. */
TEST(test_fractions)
{
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        const struct exact *e = &exact[k];
        struct weights_axis axis = axis_of(MANY, e->kind, e->kind);
        axis.side[SIDE_LOW].at_face = axis.side[SIDE_HIGH].at_face = (uint8_t)e->at_face;
        const bool centred = e->kind == WEIGHTS_PERIODIC;
        const int64_t i = centred ? MANY / 2 : e->distance;
        struct weights_row row;
        if (e->distance < 0)
            assert_true(weights_ghost(&axis, e->accuracy, SIDE_LOW, -i, &row));
        else
            made(&axis, e->order, e->accuracy, e->stagger, i, &row);
        assert_int_equal(row.side, centred ? WEIGHTS_CENTRED : SIDE_LOW);
        assert_int_equal(row.first, centred ? i + e->first : e->first);
        assert_int_equal(row.step, 1);
        assert_int_equal(row.count, e->count);
        for (int j = 0; j < row.count; j++)
            if (row.w[j] != e->over[j] / e->under)
                fail_msg("row %zu of the table: weight %d is off by %g", k, j,
                         (double)(row.w[j] - e->over[j] / e->under));
        assert_true(row.data[SIDE_LOW] == e->data / e->under);
        assert_true(row.data[SIDE_HIGH] == 0);
    }
}

static weights_real monomial(weights_real t, int degree, int derivative)
{
    weights_real value = 1;
    for (int k = 0; k < degree; k++)
        value *= k < derivative ? degree - k : t;
    return degree < derivative ? 0 : value;
}

/* The ghosts of the high side are those of the low one, counted from the high edge; the datum has
 * the normal's sign. With too few points, without rows, or with coordinates there is no ghost. */
TEST(test_ghosts)
{
    const double x[] = {0, 1, 3, 4, 5, 6, 8, 9};
    for (int kind = WEIGHTS_ONE_SIDED; kind <= WEIGHTS_CURVATURE; kind++)
        for (int m = 1; m <= 8; m++) {
            struct weights_axis axis = axis_of(MANY, kind, kind);
            struct weights_row low, high;
            axis.spacing = 0.5;
            assert_true(weights_ghost(&axis, 8, SIDE_LOW, m, &low));
            assert_true(weights_ghost(&axis, 8, SIDE_HIGH, m, &high));
            assert_int_equal(low.first, 0);
            assert_int_equal(high.first, MANY - 1);
            assert_int_equal(high.step, -1);
            assert_int_equal(low.count, high.count);
            for (int j = 0; j < low.count; j++)
                assert_true(low.w[j] == high.w[j]);
            assert_true(low.data[SIDE_LOW] == high.data[SIDE_HIGH]);
            assert_true(low.data[SIDE_HIGH] == 0);
            axis.n = low.count;
            assert_true(weights_ghost(&axis, 8, SIDE_LOW, m, &low));
            axis.n--;
            assert_false(weights_ghost(&axis, 8, SIDE_LOW, m, &low));
            axis.n = 8;
            axis.x = x;
            assert_false(weights_ghost(&axis, 8, SIDE_LOW, m, &low));
        }
    const struct weights_axis mirror = axis_of(MANY, WEIGHTS_MIRROR, WEIGHTS_ONE_SIDED);
    struct weights_row row;
    assert_false(weights_ghost(&mirror, 8, SIDE_LOW, 1, &row));
    assert_true(weights_ghost(&mirror, 8, SIDE_HIGH, 1, &row));
    assert_false(weights_ghost(&mirror, 8, SIDE_HIGH, 0, &row));
    assert_false(weights_ghost(&mirror, 7, SIDE_HIGH, 1, &row));
}

/* The face's value is that of the ghosts' polynomial: through `accuracy` numbers, one the datum. */
TEST(test_ghosts_face)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
        struct weights_axis axis = axis_of(MANY, WEIGHTS_DERIVATIVE, WEIGHTS_ONE_SIDED);
        struct weights_row row;
        axis.side[SIDE_LOW].at_face = 1;
        assert_true(weights_face(&axis, 0, accuracy, SIDE_LOW, &row));
        assert_int_equal(row.count, accuracy - 1);
        for (int degree = 0; degree < accuracy; degree++) {
            weights_real sum = -row.data[SIDE_LOW] * monomial(0, degree, 1);
            for (int j = 0; j < row.count; j++)
                sum += row.w[j] * monomial(row.first + j + (weights_real)0.5, degree, 0);
            assert_true(magnitude(sum - (degree == 0)) < 1e-24);
        }
    }
}

/* Every kind of side that a derivative may have. */
static const struct weights_side sides[] = {
    {.kind = WEIGHTS_PERIODIC},      {.kind = WEIGHTS_ENDPOINT},
    {.kind = WEIGHTS_SYMMETRIC},     {.kind = WEIGHTS_MIRROR},
    {.kind = WEIGHTS_ANTISYMMETRIC}, {.kind = WEIGHTS_REFLECT},
    {.kind = WEIGHTS_ONE_SIDED},     {.kind = WEIGHTS_REFLECT, .at_face = 1},
    {.kind = WEIGHTS_VALUE},         {.kind = WEIGHTS_VALUE, .at_face = 1},
    {.kind = WEIGHTS_DERIVATIVE},    {.kind = WEIGHTS_DERIVATIVE, .at_face = 1},
    {.kind = WEIGHTS_CURVATURE},     {.kind = WEIGHTS_CURVATURE, .at_face = 1},
    {.kind = WEIGHTS_HALO},
};
enum { SIDES = sizeof sides / sizeof *sides };

static bool is_cyclic(const struct weights_side *side)
{
    return side->kind == WEIGHTS_PERIODIC || side->kind == WEIGHTS_ENDPOINT;
}

/* Whether an axis may have this pair of sides. */
static bool fit(const struct weights_side *low, const struct weights_side *high)
{
    return low->kind == high->kind || (!is_cyclic(low) && !is_cyclic(high));
}

/* What a row whose points are all inside (or x for all its indices, which may be virtual) gives for
 * the monomials of (t − at)/unit; datum: where its datum is. The degree from which on it is wrong.
 */
static int exact_below(const struct weights_row *row, const struct weights_axis *axis, int order,
                       weights_real at, weights_real datum, weights_real unit,
                       weights_real (*where)(const struct weights_axis *, int64_t))
{
    for (int degree = 0;; degree++) {
        weights_real sum = 0;
        double terms = degree == order ? 1 : 0;
        for (int j = 0; j < row->count; j++) {
            const weights_real t = (where(axis, row->first + j * row->step) - at) / unit;
            const weights_real term = row->w[j] * monomial(t, degree, 0);
            sum += term;
            terms += magnitude(term);
        }
        for (int s = 0; s < SIDE_COUNT; s++) {
            const int kind = axis->side[s].kind;
            const int given = kind == WEIGHTS_VALUE ? 0 : kind == WEIGHTS_CURVATURE ? 2 : 1;
            weights_real g = monomial((datum - at) / unit, degree, given);
            for (int k = 0; k < given; k++)
                g /= unit;
            if (given == 1 && s == SIDE_LOW)
                g = -g;
            sum += row->data[s] * g;
            terms += magnitude(row->data[s] * g);
        }
        weights_real expected = monomial(0, degree, order);
        for (int k = 0; k < order; k++)
            expected /= unit;
        if (degree > WEIGHTS_POINTS + 1 || /* where it is the datum itself */
            magnitude(sum - expected) > NOISE * (terms + magnitude(expected)))
            return degree;
    }
}

static weights_real on_lattice(const struct weights_axis *axis, int64_t i)
{
    return axis->spacing * (weights_real)i;
}

/* Every row of a uniform axis is exact to the degree that its order and accuracy require. */
static void polynomials_of(const struct weights_axis *axis, int order, int accuracy,
                           enum stagger stagger)
{
    const int radius = weights_radius(axis, order, accuracy, stagger);
    for (int64_t i = 0; i < axis->n; i++) {
        struct weights_row row;
        if ((axis->side[SIDE_LOW].kind == WEIGHTS_HALO && i < radius) ||
            (axis->side[SIDE_HIGH].kind == WEIGHTS_HALO && axis->n - 1 - i < radius)) {
            assert_false(weights_make(axis, order, accuracy, stagger, i, &row));
            continue;
        }
        if (i > radius && i < axis->n - 1 - radius)
            continue; /* centred, as its neighbours */
        made(axis, order, accuracy, stagger, i, &row);
        if (row.side == WEIGHTS_CENTRED)
            row.data[SIDE_LOW] = row.data[SIDE_HIGH] = 0; /* the image's */
        else
            assert_true((row.side == SIDE_LOW ? i : axis->n - 1 - i) <
                        weights_apart(axis, order, accuracy, stagger, row.side));
        const weights_real half = 0.5, shift = stagger == STAGGER_FORWARD    ? half
                                               : stagger == STAGGER_BACKWARD ? -half
                                                                             : 0;
        const bool high = row.side == SIDE_HIGH;
        const weights_real face = axis->side[high].at_face ? half : 0;
        const weights_real datum = high ? axis->n - 1 + face : -face;
        const int degree = exact_below(&row, axis, order, axis->spacing * (i + shift),
                                       axis->spacing * datum, 1, on_lattice);
        assert_true(degree >= order + accuracy);
        if (row.side == WEIGHTS_CENTRED)
            assert_int_equal(degree, order + accuracy);
    }
}

TEST(test_polynomials)
{
    for (int order = 0; order <= WEIGHTS_ORDER; order++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 2)
            for (int stagger = order ? 0 : 1; stagger < 3; stagger++)
                for (int l = 0; l < SIDES; l++) {
                    const int other = (l + accuracy / 2) % SIDES;
                    const int h = fit(&sides[l], &sides[other]) ? other : l;
                    const struct weights_axis axis = {
                        .n = MANY, .spacing = 0.375, .side = {sides[l], sides[h]}};
                    polynomials_of(&axis, order, accuracy, (enum stagger)stagger);
                }
}

static void assert_twins(const struct weights_row *a, const struct weights_row *b, int order,
                         int64_t n)
{
    const bool same_way = a->side == WEIGHTS_CENTRED;
    assert_int_equal(a->count, b->count);
    assert_int_equal(b->step, same_way ? 1 : -a->step);
    for (int j = 0; j < a->count; j++) {
        const int other = same_way ? a->count - 1 - j : j;
        assert_int_equal(a->first + j * a->step, n - 1 - (b->first + other * b->step));
        assert_true(a->w[j] == (order % 2 ? -b->w[other] : b->w[other]));
    }
    for (int s = 0; s < SIDE_COUNT; s++)
        assert_true(a->data[s] == (order % 2 ? -b->data[!s] : b->data[!s]));
}

/* The axis reversed has the rows reversed, forward for backward, to the bit. */
TEST(test_twins)
{
    for (int order = 0; order <= WEIGHTS_ORDER; order++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 4)
            for (int stagger = order ? 0 : 1; stagger < 3; stagger++)
                for (int k = 0; k < SIDES - 1; k++) { /* but HALO */
                    const int other = is_cyclic(&sides[k]) ? k : SIDES - 2;
                    const struct weights_axis axis = {
                        .n = MANY, .spacing = 0.3, .side = {sides[k], sides[other]}};
                    const struct weights_axis reversed = {
                        .n = MANY, .spacing = 0.3, .side = {sides[other], sides[k]}};
                    for (int64_t i = 0; i < MANY; i += i == 8 ? MANY - 17 : 1) {
                        struct weights_row a, b;
                        made(&axis, order, accuracy, stagger, i, &a);
                        made(&reversed, order, accuracy,
                             stagger ? STAGGER_FORWARD + STAGGER_BACKWARD - stagger : 0,
                             MANY - 1 - i, &b);
                        assert_twins(&a, &b, order, MANY);
                    }
                }
}

/* If the datum is the result, no other weight is used. */
TEST(test_datum_alone)
{
    const struct {
        int kind, at_face, order, stagger;
    } alone[] = {
        {WEIGHTS_DERIVATIVE, 0, 1, STAGGER_NONE},    {WEIGHTS_CURVATURE, 0, 2, STAGGER_NONE},
        {WEIGHTS_VALUE, 1, 0, STAGGER_BACKWARD},     {WEIGHTS_DERIVATIVE, 1, 1, STAGGER_BACKWARD},
        {WEIGHTS_CURVATURE, 1, 2, STAGGER_BACKWARD},
    };
    double x[MANY];
    for (int i = 0; i < MANY; i++)
        x[i] = 0.1 * i + 0.01 * i * i;
    for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 2)
            for (int variant = 0; variant < 4; variant++) {
                const int s = variant & 1;
                struct weights_axis axis = axis_of(MANY, WEIGHTS_ONE_SIDED, WEIGHTS_ONE_SIDED);
                axis.spacing = 0.7;
                axis.x = variant & 2 ? x : NULL;
                axis.side[s].kind = (uint8_t)alone[k].kind;
                axis.side[s].at_face = (uint8_t)alone[k].at_face;
                struct weights_row row;
                made(&axis, alone[k].order, accuracy,
                     alone[k].stagger && s ? STAGGER_FORWARD : alone[k].stagger, s ? MANY - 1 : 0,
                     &row);
                for (int j = 0; j < row.count; j++)
                    assert_true(row.w[j] == 0);
                assert_true(row.data[s] == (alone[k].kind == WEIGHTS_DERIVATIVE && !s ? -1 : 1));
                assert_true(row.data[!s] == 0);
            }
}

static double random_in(double low, double high)
{
    return low + (high - low) * rand() / RAND_MAX;
}

/* A smoothly and a wildly stretched axis. */
static double stretched[2][MANY + 1];

static void stretch(void)
{
    srand(2);
    for (int i = 0; i <= MANY; i++) {
        stretched[0][i] = 0.1 * i + 0.6 * sin(0.15 * i);
        stretched[1][i] = i ? stretched[1][i - 1] + exp(random_in(-4, 2)) : -3;
    }
}

/* Where the sides' images are, by their definition: one reflection or turn. */
static weights_real on_coordinates(const struct weights_axis *axis, int64_t i)
{
    const double *x = axis->x;
    const int64_t n = axis->n;
    if (i >= 0 && i < n)
        return x[i];
    const weights_real first = x[0], last = x[n - 1];
    switch (axis->side[i < 0 ? SIDE_LOW : SIDE_HIGH].kind) {
    case WEIGHTS_PERIODIC:
        return i < 0 ? x[i + n] - (x[n] - first) : x[i - n] + (x[n] - first);
    case WEIGHTS_ENDPOINT:
        return i < 0 ? x[i + n - 1] - (last - first) : x[i - (n - 1)] + (last - first);
    case WEIGHTS_MIRROR:
        return i < 0 ? 2 * first - x[-i] : 2 * last - x[2 * (n - 1) - i];
    default:
        return i < 0 ? 2 * (first - (x[1] - first) / 2) - x[-1 - i]
                     : 2 * (last + (last - x[n - 2]) / 2) - x[2 * n - 1 - i];
    }
}

static void coordinates_of(const struct weights_axis *axis, int order, int accuracy,
                           enum stagger stagger)
{
    const double *x = axis->x;
    const int radius = weights_radius(axis, order, accuracy, stagger);
    for (int64_t i = 0; i < axis->n; i++) {
        struct weights_row row;
        const bool inside = i >= radius && i < axis->n - radius;
        if ((axis->side[SIDE_LOW].kind == WEIGHTS_HALO && !inside) || (inside && i % 8))
            continue;
        made(axis, order, accuracy, stagger, i, &row);
        assert_int_equal(row.step, 1);
        if (row.side == WEIGHTS_CENTRED) {
            assert_int_equal(row.count, order + accuracy);
            assert_true(i - row.first <= radius);
            assert_true(row.first + row.count - 1 - i <= radius);
        }
        const int64_t next = stagger == STAGGER_FORWARD    ? i + 1
                             : stagger == STAGGER_BACKWARD ? i - 1
                                                           : i;
        const weights_real at = (on_coordinates(axis, i) + on_coordinates(axis, next)) / 2;
        const bool high = row.side == SIDE_HIGH;
        const weights_real edge = high ? x[MANY - 1] : x[0];
        const weights_real cell = edge - (high ? x[MANY - 2] : x[1]);
        const weights_real datum = edge + (axis->side[high].at_face ? cell / 2 : 0);
        const weights_real unit =
            on_coordinates(axis, row.first + 1) - on_coordinates(axis, row.first);
        assert_true(exact_below(&row, axis, order, at, datum, unit, on_coordinates) >=
                    order + accuracy);
    }
}

TEST(test_coordinates)
{
    stretch();
    for (int order = 0; order <= WEIGHTS_ORDER; order++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 2)
            for (int stagger = order ? 0 : 1; stagger < 3; stagger++)
                for (int k = 0; k < SIDES; k++) {
                    const struct weights_axis axis = {.n = MANY,
                                                      .x = stretched[(k + accuracy / 2) % 2],
                                                      .side = {sides[k], sides[k]}};
                    if (sides[k].kind != WEIGHTS_REFLECT)
                        coordinates_of(&axis, order, accuracy, (enum stagger)stagger);
                }
}

/* Equal values at both ends remain equal. */
TEST(test_endpoint)
{
    stretch();
    for (int k = 0; k < 2; k++)
        for (int order = 1; order <= WEIGHTS_ORDER; order++)
            for (int stagger = 0; stagger < 3; stagger++) {
                struct weights_axis axis = axis_of(MANY, WEIGHTS_ENDPOINT, WEIGHTS_ENDPOINT);
                axis.x = stretched[k];
                struct weights_row first, last;
                made(&axis, order, 6, stagger, 0, &first);
                made(&axis, order, 6, stagger, MANY - 1, &last);
                assert_int_equal(last.first, first.first + MANY - 1);
                assert_memory_equal(first.w, last.w, sizeof first.w);
            }
}

/* Units near both ends of double's range. */
TEST(test_scales)
{
    const double units[] = {0x1p-1030, 0x1p-300, 0x1p300, 0x1p1018};
    for (int k = 0; k < 4; k++)
        for (int kind = WEIGHTS_ONE_SIDED; kind <= WEIGHTS_CURVATURE; kind++)
            for (int order = 1; order <= WEIGHTS_ORDER; order++) {
                double x[2][20];
                for (int i = 0; i < 20; i++) {
                    x[0][i] = i;
                    x[1][i] = i * units[k];
                }
                struct weights_axis axis = axis_of(20, kind, kind);
                struct weights_row a, b, c;
                axis.x = x[0];
                made(&axis, order, 8, STAGGER_NONE, 1, &a);
                axis.x = x[1];
                made(&axis, order, 8, STAGGER_NONE, 1, &b);
                axis.x = NULL;
                axis.spacing = units[k];
                made(&axis, order, 8, STAGGER_NONE, 1, &c);
                for (int j = 0; j < a.count; j++) {
                    weights_real scaled = b.w[j], uniform = c.w[j];
                    for (int m = 0; m < order; m++) {
                        scaled *= units[k];
                        uniform *= units[k];
                    }
                    assert_true(scaled == a.w[j]);
                    assert_true(uniform == a.w[j]);
                }
            }
}

/* As NumPy's pad: wrap, symmetric, reflect. */
TEST(test_maps)
{
    enum { N = 3, OUT = 5 };
    static const struct {
        int kind, at_face, at[OUT + N + OUT];
    } maps[] = {
        {WEIGHTS_PERIODIC, 0, {1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1}},
        {WEIGHTS_ENDPOINT, 0, {1, 0, 1, 0, 1, 0, 1, 2, 1, 0, 1, 0, 1}},
        {WEIGHTS_SYMMETRIC, 0, {1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1}},
        {WEIGHTS_ANTISYMMETRIC, 0, {1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1}},
        {WEIGHTS_MIRROR, 0, {1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1}},
        {WEIGHTS_REFLECT, 0, {1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1}},
        {WEIGHTS_REFLECT, 1, {1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1}},
    };
    for (size_t k = 0; k < sizeof maps / sizeof *maps; k++) {
        struct weights_axis axis = axis_of(N, maps[k].kind, maps[k].kind);
        axis.side[0].at_face = axis.side[1].at_face = (uint8_t)maps[k].at_face;
        for (int i = -OUT; i < N + OUT; i++) {
            const struct weights_place place = weights_map(&axis, i);
            assert_int_equal(place.at, maps[k].at[i + OUT]);
            const bool once = i < 0 ? i >= -N : i < 2 * N; /* beyond, −f again */
            const bool outside = i < 0 || i >= N;
            assert_int_equal(place.sign,
                             maps[k].kind == WEIGHTS_ANTISYMMETRIC && outside && once ? -1 : 1);
            /* f = x is continued unchanged if its slope is stated: −1 and 1 along the normals. */
            if (maps[k].kind == WEIGHTS_REFLECT)
                assert_int_equal(place.at - place.lift[SIDE_LOW] + place.lift[SIDE_HIGH], i);
            else
                assert_true(!place.lift[SIDE_LOW] && !place.lift[SIDE_HIGH]);
        }
    }
    for (int kind = WEIGHTS_SYMMETRIC; kind <= WEIGHTS_REFLECT; kind++)
        for (int other = WEIGHTS_SYMMETRIC; other <= WEIGHTS_REFLECT; other++)
            for (int i = -9; i <= 9; i++) { /* one point, two mirrors: it ends */
                const struct weights_axis axis = axis_of(1, kind, other);
                assert_int_equal(weights_map(&axis, i).at, 0);
            }
    const struct weights_axis open = axis_of(N, WEIGHTS_ONE_SIDED, WEIGHTS_MIRROR);
    assert_int_equal(weights_map(&open, -2).at, -2);
    assert_int_equal(weights_map(&open, 4).at, 0);
}

/* The value at the face that a mixed boundary needs comes from the polynomial of its rows. */
TEST(test_face)
{
    stretch();
    for (int order = 1; order <= WEIGHTS_ORDER; order++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 2)
            for (int variant = 0; variant < 4; variant++) {
                const int s = variant & 1;
                struct weights_axis axis = axis_of(20, WEIGHTS_DERIVATIVE, WEIGHTS_DERIVATIVE);
                axis.side[0].at_face = axis.side[1].at_face = 1;
                axis.spacing = 0.3;
                axis.x = variant & 2 ? stretched[0] : NULL;
                struct weights_row face, row;
                assert_true(weights_face(&axis, order, accuracy, s, &face));
                made(&axis, order, accuracy, STAGGER_NONE, s ? 19 : 0, &row);
                assert_int_equal(face.first, row.first);
                assert_int_equal(face.count, row.count);
                assert_int_equal(face.step, row.step);
                assert_true(face.data[s] > 0);
                const double *x = stretched[0];
                const weights_real at =
                    axis.x ? s ? x[19] + (x[19] - (weights_real)x[18]) / 2
                               : x[0] - (x[1] - (weights_real)x[0]) / 2
                           : (s ? (weights_real)19.5 : (weights_real)-0.5) * axis.spacing;
                assert_true(exact_below(&face, &axis, 0, at, at, 1,
                                        axis.x ? on_coordinates : on_lattice) >= order + accuracy);
            }
    struct weights_row row;
    struct weights_axis axis = axis_of(20, WEIGHTS_DERIVATIVE, WEIGHTS_VALUE);
    assert_false(weights_face(&axis, 2, 2, SIDE_LOW, &row)); /* at the node: no row is needed */
    axis.side[1].at_face = 1;
    assert_false(weights_face(&axis, 2, 2, SIDE_HIGH, &row));
}

static bool has_all_rows(const struct weights_axis *axis, int order, int accuracy,
                         enum stagger stagger)
{
    const int radius = weights_radius(axis, order, accuracy, stagger);
    bool all = axis->n > 0;
    for (int64_t i = 0; all && i < axis->n; i++) {
        struct weights_row row;
        all = (axis->side[SIDE_LOW].kind == WEIGHTS_HALO && i < radius) ||
              (axis->side[SIDE_HIGH].kind == WEIGHTS_HALO && axis->n - 1 - i < radius) ||
              weights_make(axis, order, accuracy, stagger, i, &row);
    }
    return all;
}

/* The stated number of points suffices; on a uniform axis without halos, one fewer does not. */
static void points_needed_by(struct weights_axis *axis, int order, int accuracy,
                             enum stagger stagger)
{
    const int64_t need = weights_points_needed(axis, order, accuracy, stagger, false);
    const bool halo =
        axis->side[SIDE_LOW].kind == WEIGHTS_HALO || axis->side[SIDE_HIGH].kind == WEIGHTS_HALO;
    for (axis->n = need - 1; axis->n <= need + 1; axis->n++) {
        const bool all = has_all_rows(axis, order, accuracy, stagger);
        if (axis->n >= need ? !all : all && !halo && !axis->x)
            fail_msg("order %d, accuracy %d, stagger %d, sides %d %d, coordinates %d: %d points "
                     "needed, %d had",
                     order, accuracy, stagger, axis->side[SIDE_LOW].kind,
                     axis->side[SIDE_HIGH].kind, axis->x != NULL, (int)need, (int)axis->n);
    }
}

TEST(test_points_needed)
{
    stretch();
    for (int order = 0; order <= WEIGHTS_ORDER; order++)
        for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 4)
            for (int stagger = order ? 0 : 1; stagger < 3; stagger++)
                for (int pair = 0; pair < 2 * SIDES * SIDES; pair++) {
                    const struct weights_side *low = &sides[pair / 2 / SIDES];
                    const struct weights_side *high = &sides[pair / 2 % SIDES];
                    struct weights_axis axis = {.n = 1,
                                                .spacing = 1,
                                                .x = pair % 2 ? stretched[0] : NULL,
                                                .side = {*low, *high}};
                    const bool reflects =
                        low->kind == WEIGHTS_REFLECT || high->kind == WEIGHTS_REFLECT;
                    if (fit(low, high) && !(axis.x && reflects) &&
                        (accuracy == 2 || (pair + order) % 5 == 0))
                        points_needed_by(&axis, order, accuracy, (enum stagger)stagger);
                }
    const struct weights_axis one_sided = axis_of(1, WEIGHTS_ONE_SIDED, WEIGHTS_ONE_SIDED);
    assert_int_equal(weights_points_needed(&one_sided, 2, 8, STAGGER_NONE, false), 10);
    struct weights_axis pair = axis_of(1, WEIGHTS_CURVATURE, WEIGHTS_HALO);
    assert_int_equal(weights_points_needed(&pair, 2, 8, STAGGER_NONE, true), 10);
    pair.side[0].at_face = 1;
    assert_int_equal(weights_points_needed(&pair, 2, 8, STAGGER_NONE, true), 25);
}

TEST(test_refused)
{
    const struct weights_axis good = axis_of(MANY, WEIGHTS_ONE_SIDED, WEIGHTS_ONE_SIDED);
    struct weights_row row, before;
    memset(&row, 0xa5, sizeof row);
    before = row;
    assert_false(weights_make(&good, -1, 2, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 5, 2, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 0, 2, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 1, 0, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 1, 3, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 1, 12, STAGGER_NONE, 0, &row));
    assert_false(weights_make(&good, 1, 2, (enum stagger)3, 0, &row));
    assert_false(weights_make(&good, 1, 2, STAGGER_NONE, -1, &row));
    assert_false(weights_make(&good, 1, 2, STAGGER_NONE, MANY, &row));
    struct weights_axis bad = good;
    bad.n = 0;
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    bad = good;
    bad.side[SIDE_HIGH].kind = WEIGHTS_KINDS;
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    bad.side[SIDE_HIGH].kind = WEIGHTS_PERIODIC;
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    bad = good;
    bad.side[SIDE_LOW].at_face = 1;
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    bad.side[SIDE_LOW] = (struct weights_side){.kind = WEIGHTS_VALUE, .at_face = 2};
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    bad = axis_of(1, WEIGHTS_ENDPOINT, WEIGHTS_ENDPOINT);
    assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    const double spacings[] = {0, -1, INFINITY, NAN};
    for (int k = 0; k < 4; k++) {
        bad = good;
        bad.spacing = spacings[k];
        assert_false(weights_make(&bad, 1, 2, STAGGER_NONE, 0, &row));
    }
    double x[MANY];
    const double wrong[] = {2, 1, 0, INFINITY, -INFINITY, NAN};
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < MANY; i++)
            x[i] = i;
        x[3] = wrong[k];
        bad = good;
        bad.x = x;
        for (int64_t i = 0; i < 5; i++)
            assert_false(weights_make(&bad, 2, 4, STAGGER_NONE, i, &row));
    }
    x[3] = 3;
    bad.side[0].kind = bad.side[1].kind = WEIGHTS_REFLECT;
    assert_false(weights_make(&bad, 2, 2, STAGGER_NONE, 0, &row));
    assert_memory_equal(&row, &before, sizeof row);
}

/* The edges' spectral radii over the periodic one, from the eigenvalues of the step's matrix. */
TEST(test_bound)
{
    static const double symbol[] = {4, 16. / 3, 272. / 45, 2048. / 315};
    static const struct {
        int kind, at_face;
        double mixed, ratio[4];
    } known[] = {
        {WEIGHTS_PERIODIC, 0, 0, {1, 1, 1, 1}},
        {WEIGHTS_REFLECT, 0, 0, {1, 1, 1, 1}},
        {WEIGHTS_HALO, 0, 0, {1, 1, 1, 1}},
        {WEIGHTS_VALUE, 0, 0, {1, 1, 1, 1}},
        {WEIGHTS_CURVATURE, 1, 0, {1, 1, 1, 1}},
        {WEIGHTS_VALUE, 1, 0, {1.405, 1.274, 1.061, 1.00}},
        {WEIGHTS_DERIVATIVE, 1, 0, {1, 1, 1, 1}},
        {WEIGHTS_DERIVATIVE, 0, 0, {1.265, 1.665, 1.864, 1.993}},
        {WEIGHTS_DERIVATIVE, 0, 1, {1.83, 2.28, 2.52, 2.69}},
        {WEIGHTS_DERIVATIVE, 0, 9, {7.7, 8.3, 8.8, 9.2}},
        {WEIGHTS_DERIVATIVE, 1, 1, {1, 1, 1, 1}},
        {WEIGHTS_DERIVATIVE, 1, 9, {1.20, 1.07, 1, 1}},
    };
    const double h = 0.25;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (int p = 0; p < 4; p++)
            for (int n = 31; n <= 1000; n += 969) {
                struct weights_axis axis = axis_of(n, known[k].kind, known[k].kind);
                axis.spacing = h;
                for (int s = 0; s < SIDE_COUNT; s++) {
                    axis.side[s].at_face = (uint8_t)known[k].at_face;
                    axis.side[s].mixed = known[k].mixed / h;
                }
                const double ratio = weights_bound(&axis, 2 * p + 2) * h * h / symbol[p];
                assert_true(ratio > known[k].ratio[p] * 0.993 - 1e-9);
                assert_true(ratio < known[k].ratio[p] * 1.013 + 1e-9);
            }
    /* Periodic: the symbol itself. One point moves nothing less. */
    const struct weights_axis periodic = axis_of(1, WEIGHTS_PERIODIC, WEIGHTS_PERIODIC);
    for (int p = 0; p < 4; p++)
        assert_true(weights_bound(&periodic, 2 * p + 2) == symbol[p]);
}

/* With coordinates the centred rows' part of the bound is found without weights_make(): never below
 * what its weights sum to, and between index maps, where no closure counts, hardly above it. */
TEST(test_bound_sums)
{
    srand(5);
    double x[MANY + 1];
    for (int accuracy = 2; accuracy <= WEIGHTS_ACCURACY; accuracy += 2)
        for (int k = 0; k < SIDES; k++)
            for (int spread = 0; spread < 9; spread++) { /* of neighbouring gaps: to 2^32 */
                struct weights_axis axis = {.n = MANY, .x = x, .side = {sides[k], sides[k]}};
                x[0] = spread % 2 ? 0 : 1e-3;
                for (int i = 0; i < MANY; i++)
                    x[i + 1] = x[i] + (i + 0.5) * exp2(random_in(-2 * spread, 2 * spread) - 40);
                if (sides[k].kind == WEIGHTS_REFLECT)
                    continue;
                double largest = 0;
                for (int i = 0; i < MANY; i++) {
                    struct weights_row row;
                    double sum = 0;
                    if (!weights_make(&axis, 2, accuracy, STAGGER_NONE, i, &row) ||
                        row.side != WEIGHTS_CENTRED)
                        continue;
                    for (int j = 0; j < row.count; j++)
                        sum += magnitude(row.w[j]);
                    largest = fmax(largest, sum);
                }
                const double bound = weights_bound(&axis, accuracy);
                assert_true(largest > 0 && bound >= largest);
                if (sides[k].kind < WEIGHTS_REFLECT)
                    assert_true(bound <= largest * (1 + 1e-9));
            }
    for (int i = 0; i <= MANY; i++) /* beyond the range in which it is found */
        x[i] = i < MANY / 2 ? i * 1e-40 : i;
    const struct weights_axis apart = {.n = MANY, .x = x};
    assert_true(weights_bound(&apart, 8) == INFINITY);
}

/* A vector's growth under the matrix, step by step, is no larger than the bound allows. */
TEST(test_bound_holds)
{
    stretch();
    srand(3);
    for (int accuracy = 2; accuracy <= 8; accuracy += 2)
        for (int k = 0; k < SIDES; k++)
            for (int given = 0; given < 2; given++) {
                struct weights_axis axis = {.n = MANY,
                                            .spacing = 1,
                                            .x = given ? stretched[0] : NULL,
                                            .side = {sides[k], sides[k]}};
                if (sides[k].kind == WEIGHTS_ONE_SIDED ||
                    (given && sides[k].kind == WEIGHTS_REFLECT))
                    continue;
                const double bound = weights_bound(&axis, accuracy);
                assert_true(bound < INFINITY);
                static double a[MANY][MANY];
                memset(a, 0, sizeof a);
                double u[MANY], v[MANY];
                for (int i = 0; i < MANY; i++) {
                    struct weights_row row;
                    u[i] = random_in(-1, 1);
                    if ((sides[k].kind == WEIGHTS_VALUE && !sides[k].at_face &&
                         (i == 0 || i == MANY - 1)) ||
                        !weights_make(&axis, 2, accuracy, STAGGER_NONE, i, &row))
                        continue;
                    for (int j = 0; j < row.count; j++) {
                        const struct weights_place place =
                            weights_map(&axis, row.first + j * row.step);
                        a[i][place.at] += place.sign * (double)row.w[j];
                    }
                }
                double logarithm = 0, last = 0; /* growth a step, late */
                for (int step = 0; step < 400; step++) {
                    double size = 0;
                    for (int i = 0; i < MANY; i++) {
                        v[i] = 0;
                        for (int j = 0; j < MANY; j++)
                            v[i] += a[i][j] * u[j];
                        size = fmax(size, fabs(v[i]));
                    }
                    for (int i = 0; i < MANY; i++)
                        u[i] = size > 0 ? v[i] / size : 0;
                    logarithm += step >= 200 ? log(size) : 0;
                    last = step >= 200 ? exp(logarithm / (step - 199)) : 0;
                }
                if (!(last <= bound * (1 + 1e-3)))
                    fail_msg("accuracy %d, side %d, coordinates %d: %g grows, bound %g", accuracy,
                             k, given, last, bound);
            }
}
