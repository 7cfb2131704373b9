/* One point of a stencil of the user's own, evaluated: the contract of docs/NUMERICS.md in code,
 * for C and CUDA alike. Fast loops must give these bits; near edges they call this.
 *
 * An index beyond an edge is first brought back by the index maps. Where it comes to lie beyond a
 * side that has ghosts, the value is the sum of the ghost's row over points inside; of several such
 * axes the row along z is the outermost sum, then y, then x: a corner is what padding along x, then
 * y, then z gives.
 *
 * Included once per element type with REAL, REAL_FMA(a, b, c), STENCIL_NAME(name), STENCIL_WEIGHT
 * (the member of struct stencil_tap's weight) and POINT_FUNCTION (such as `static inline`, or
 * `static __device__`) defined. */

#include <stdint.h>

/* What points of one field are read from. */
struct STENCIL_NAME(source) {
    const struct stencil_table *table;
    const REAL *f;               /* the field's first element */
    const void *const *operands; /* by enum operand; may be NULL where the job has none */
    int64_t field;               /* its number in the batch */
};

/* A point that is looked for: inside, or along some axes beyond a side that has ghosts. */
struct STENCIL_NAME(place) {
    int64_t at[AXIS_COUNT];                      /* 0 along the others */
    int32_t side[AXIS_COUNT], ghost[AXIS_COUNT]; /* SIDE_…, or −1: inside; and which ghost */
    REAL sign;                                   /* of the value */
};

/* Along one axis, by its maps. */
POINT_FUNCTION void STENCIL_NAME(settle)(const struct stencil_axis *axis, int a, int64_t i,
                                         struct STENCIL_NAME(place) * place)
{
    const int is_above = i >= axis->n;
    int negative = 0;
    if (i < 0 || is_above)
        i = side_image(axis->side, axis->n, i, &negative);
    if (i == 0 && is_above && axis->side[SIDE_HIGH].map == SIDE_MAP_ENDPOINT)
        i = axis->n - 1; /* which a stencil reads as itself */
    const int side = i < 0 ? SIDE_LOW : i < axis->n ? -1 : SIDE_HIGH;
    place->side[a] = side;
    place->ghost[a] = side < 0 ? 0 : (int32_t)(side == SIDE_LOW ? -1 - i : i - axis->n);
    place->at[a] = side < 0 ? i : 0;
    place->sign = negative ? -place->sign : place->sign;
}

POINT_FUNCTION struct STENCIL_NAME(place)
    STENCIL_NAME(find)(const struct stencil_table *table, int64_t x, int64_t y, int64_t z)
{
    struct STENCIL_NAME(place) place;
    place.sign = (REAL)1;
    STENCIL_NAME(settle)(&table->axis[AXIS_X], AXIS_X, x, &place);
    STENCIL_NAME(settle)(&table->axis[AXIS_Y], AXIS_Y, y, &place);
    STENCIL_NAME(settle)(&table->axis[AXIS_Z], AXIS_Z, z, &place);
    return place;
}

/* The point of a row at a distance from its side's edge. */
POINT_FUNCTION int64_t STENCIL_NAME(inwards)(const struct stencil_axis *axis, int side,
                                             int distance)
{
    return side == SIDE_LOW ? distance : axis->n - 1 - distance;
}

/* acc and the term k of a row. */
POINT_FUNCTION REAL STENCIL_NAME(term)(const double *row, int k, REAL value, REAL acc)
{
    return k == 0 ? (REAL)row[0] * value : REAL_FMA((REAL)row[k], value, acc);
}

/* An array over the face of axis a, at a point that may be beyond that face's own edges: there it
 * is what polynomials through its own points give, along the higher axis last. */
POINT_FUNCTION REAL STENCIL_NAME(face)(const struct STENCIL_NAME(source) * s, const REAL *g, int a,
                                       const struct STENCIL_NAME(place) * place)
{
    const struct stencil_axis *axis = s->table->axis;
    const int b = a == AXIS_X ? AXIS_Y : AXIS_X, c = a == AXIS_Z ? AXIS_Y : AXIS_Z;
    const struct stencil_ghosts *side_b = place->side[b] < 0 ? 0 : &axis[b].ghosts[place->side[b]];
    const struct stencil_ghosts *side_c = place->side[c] < 0 ? 0 : &axis[c].ghosts[place->side[c]];
    REAL sum_c = (REAL)0;
    for (int k = 0; k < (side_c ? side_c->free_points : 1); k++) {
        const int64_t at_c =
            side_c ? STENCIL_NAME(inwards)(&axis[c], place->side[c], k) : place->at[c];
        REAL sum_b = (REAL)0;
        for (int j = 0; j < (side_b ? side_b->free_points : 1); j++) {
            const int64_t at_b =
                side_b ? STENCIL_NAME(inwards)(&axis[b], place->side[b], j) : place->at[b];
            const REAL value = g[at_c * axis[b].n + at_b];
            sum_b =
                side_b ? STENCIL_NAME(term)(side_b->free[place->ghost[b]], j, value, sum_b) : value;
        }
        sum_c = side_c ? STENCIL_NAME(term)(side_c->free[place->ghost[c]], k, sum_b, sum_c) : sum_b;
    }
    return sum_c;
}

/* A number of a side of axis a at a point of its face. */
POINT_FUNCTION REAL STENCIL_NAME(number)(const struct STENCIL_NAME(source) * s, int a,
                                         const struct side_number *number,
                                         const struct STENCIL_NAME(place) * place)
{
    const REAL *array = (const REAL *)side_array(number, s->operands, s->field,
                                                 s->table->axis[a].face_points, sizeof(REAL));
    return array ? STENCIL_NAME(face)(s, array, a, place) : (REAL)number->number;
}

/* The side that holds a point inside: the first of x low, x high, y low, … that does, as SIDE_COUNT
 * · axis + side; −1 where none does. */
POINT_FUNCTION int STENCIL_NAME(holder)(const struct stencil_table *table,
                                        const int64_t at[AXIS_COUNT])
{
    for (int a = 0; table->held && a < AXIS_COUNT; a++) {
        const struct stencil_axis *axis = &table->axis[a];
        if (at[a] < axis->side[SIDE_LOW].held)
            return SIDE_COUNT * a + SIDE_LOW;
        if (axis->n - 1 - at[a] < axis->side[SIDE_HIGH].held)
            return SIDE_COUNT * a + SIDE_HIGH;
    }
    return -1;
}

/* What a held point inside becomes. */
POINT_FUNCTION REAL STENCIL_NAME(held)(const struct STENCIL_NAME(source) * s, int holder,
                                       const int64_t at[AXIS_COUNT])
{
    const int a = holder / SIDE_COUNT;
    const struct stencil_axis *axis = s->table->axis;
    const struct side *side = &axis[a].side[holder % SIDE_COUNT];
    const struct STENCIL_NAME(place)
        node = {{at[AXIS_X], at[AXIS_Y], at[AXIS_Z]}, {-1, -1, -1}, {0, 0, 0}, (REAL)1};
    const REAL number = STENCIL_NAME(number)(s, a, &side->value, &node);
    if (!side->halo)
        return number;
    return number *
           s->f[at[AXIS_X] + at[AXIS_Y] * axis[AXIS_Y].stride + at[AXIS_Z] * axis[AXIS_Z].stride];
}

/* A point inside, as it is read: a node that holds its side's value is that value. */
POINT_FUNCTION REAL STENCIL_NAME(inside)(const struct STENCIL_NAME(source) * s,
                                         const int64_t at[AXIS_COUNT])
{
    const struct stencil_axis *axis = s->table->axis;
    if (s->table->imposes) {
        const int holder = STENCIL_NAME(holder)(s->table, at);
        if (holder >= 0 && !axis[holder / SIDE_COUNT].side[holder % SIDE_COUNT].halo)
            return STENCIL_NAME(held)(s, holder, at);
    }
    return s->f[at[AXIS_X] + at[AXIS_Y] * axis[AXIS_Y].stride + at[AXIS_Z] * axis[AXIS_Z].stride];
}

/* The sums of a ghost along one axis. */
struct STENCIL_NAME(sums) {
    REAL ghost; /* of the row */
    REAL edge;  /* f at the node or the face, where a mixed boundary wants it */
};

/* How many terms the sum along an axis has; of a point inside one, its value. */
POINT_FUNCTION int STENCIL_NAME(terms)(const struct stencil_axis *axis, int side)
{
    return side < 0 ? 1 : axis->ghosts[side].points;
}

/* The term k of the sum along axis a. */
POINT_FUNCTION void STENCIL_NAME(add)(const struct stencil_axis *axis, int a,
                                      const struct STENCIL_NAME(place) * place, int k, REAL value,
                                      struct STENCIL_NAME(sums) * sums)
{
    if (place->side[a] < 0) {
        sums->ghost = value;
        return;
    }
    const struct stencil_ghosts *ghosts = &axis[a].ghosts[place->side[a]];
    sums->ghost = STENCIL_NAME(term)(ghosts->ghost[place->ghost[a]], k, value, sums->ghost);
    if (axis[a].side[place->side[a]].datum == SIDE_DATUM_MIXED_FACE)
        sums->edge = STENCIL_NAME(term)(ghosts->face, k, value, sums->edge);
    else if (k == 0)
        sums->edge = value;
}

/* The sum along axis a with its side's datum there. */
POINT_FUNCTION REAL STENCIL_NAME(close)(const struct STENCIL_NAME(source) * s, int a,
                                        const struct STENCIL_NAME(place) * place,
                                        const struct STENCIL_NAME(sums) * sums)
{
    const int side = place->side[a];
    if (side < 0)
        return sums->ghost;
    const struct side *of = &s->table->axis[a].side[side];
    const struct stencil_ghosts *ghosts = &s->table->axis[a].ghosts[side];
    if (of->datum == SIDE_DATUM_NONE)
        return sums->ghost;
    REAL datum = STENCIL_NAME(number)(s, a, &of->value, place);
    if (of->datum != SIDE_DATUM_NUMBER) {
        const REAL v = datum, c = STENCIL_NAME(number)(s, a, &of->constant, place);
        REAL edge = sums->edge;
        if (of->datum == SIDE_DATUM_MIXED_FACE)
            edge = REAL_FMA((REAL)ghosts->face_data, c, edge) /
                   REAL_FMA((REAL)ghosts->face_data, v, (REAL)1);
        datum = REAL_FMA(-v, edge, c);
    }
    return REAL_FMA((REAL)ghosts->data[place->ghost[a]], datum, sums->ghost);
}

/* What a place beyond some side is, but for its sign. */
POINT_FUNCTION REAL STENCIL_NAME(outside)(const struct STENCIL_NAME(source) * s,
                                          const struct STENCIL_NAME(place) * place)
{
    const struct stencil_axis *axis = s->table->axis;
    /* The place that each sum is of: along the axes of the sums around it, its term's point. */
    const struct STENCIL_NAME(place) of_z = *place;
    struct STENCIL_NAME(place) of_y = of_z, of_x;
    struct STENCIL_NAME(sums) sum_x, sum_y, sum_z = {(REAL)0, (REAL)0};
    const int side_x = of_z.side[AXIS_X], side_y = of_z.side[AXIS_Y], side_z = of_z.side[AXIS_Z];
    sum_x = sum_y = sum_z;
    of_y.side[AXIS_Z] = -1;
    of_x = of_y;
    of_x.side[AXIS_Y] = -1;
    for (int k = 0; k < STENCIL_NAME(terms)(&axis[AXIS_Z], side_z); k++) {
        if (side_z >= 0)
            of_x.at[AXIS_Z] = of_y.at[AXIS_Z] = STENCIL_NAME(inwards)(&axis[AXIS_Z], side_z, k);
        for (int j = 0; j < STENCIL_NAME(terms)(&axis[AXIS_Y], side_y); j++) {
            if (side_y >= 0)
                of_x.at[AXIS_Y] = STENCIL_NAME(inwards)(&axis[AXIS_Y], side_y, j);
            for (int i = 0; i < STENCIL_NAME(terms)(&axis[AXIS_X], side_x); i++) {
                int64_t at[AXIS_COUNT] = {of_x.at[AXIS_X], of_x.at[AXIS_Y], of_x.at[AXIS_Z]};
                if (side_x >= 0)
                    at[AXIS_X] = STENCIL_NAME(inwards)(&axis[AXIS_X], side_x, i);
                STENCIL_NAME(add)(axis, AXIS_X, &of_x, i, STENCIL_NAME(inside)(s, at), &sum_x);
            }
            STENCIL_NAME(add)
            (axis, AXIS_Y, &of_y, j, STENCIL_NAME(close)(s, AXIS_X, &of_x, &sum_x), &sum_y);
        }
        STENCIL_NAME(add)
        (axis, AXIS_Z, &of_z, k, STENCIL_NAME(close)(s, AXIS_Y, &of_y, &sum_y), &sum_z);
    }
    return STENCIL_NAME(close)(s, AXIS_Z, &of_z, &sum_z);
}

/* f at any indices that the offsets come to. */
POINT_FUNCTION REAL STENCIL_NAME(read)(const struct STENCIL_NAME(source) * s, int64_t x, int64_t y,
                                       int64_t z)
{
    const struct STENCIL_NAME(place) place = STENCIL_NAME(find)(s->table, x, y, z);
    const bool is_inside =
        place.side[AXIS_X] < 0 && place.side[AXIS_Y] < 0 && place.side[AXIS_Z] < 0;
    return place.sign *
           (is_inside ? STENCIL_NAME(inside)(s, place.at) : STENCIL_NAME(outside)(s, &place));
}

/* The point at[] of one field of a step. */
POINT_FUNCTION REAL STENCIL_NAME(evaluate)(const struct STENCIL_NAME(source) * s,
                                           const int64_t at[AXIS_COUNT])
{
    const struct stencil_table *table = s->table;
    const struct stencil_tap *taps = stencil_taps(table);
    const struct stencil_offset *offsets = stencil_offsets(table);
    const int holder = STENCIL_NAME(holder)(table, at);
    REAL acc = (REAL)0;
    if (holder >= 0)
        return STENCIL_NAME(held)(s, holder, at);
    const struct stencil_axis *axis = table->axis;
    const REAL *f =
        s->f + at[AXIS_X] + at[AXIS_Y] * axis[AXIS_Y].stride + at[AXIS_Z] * axis[AXIS_Z].stride;
    for (int k = 0; k < table->points; k++) {
        bool is_own = !table->imposes; /* is it the field's, where it lies? */
        for (int a = 0; a < AXIS_COUNT; a++)
            is_own &= (uint64_t)(at[a] + offsets[k].at[a]) < (uint64_t)axis[a].n;
        const int32_t *o = offsets[k].at;
        const REAL value = is_own
                               ? f[taps[k].step]
                               : STENCIL_NAME(read)(s, at[AXIS_X] + o[AXIS_X],
                                                    at[AXIS_Y] + o[AXIS_Y], at[AXIS_Z] + o[AXIS_Z]);
        const REAL weight = taps[k].weight.STENCIL_WEIGHT;
        acc = k == 0 ? weight * value : REAL_FMA(weight, value, acc);
    }
    return acc;
}
