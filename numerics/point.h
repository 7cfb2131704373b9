/* One point of one pass of a plain plan, evaluated: what kernels call near edges. The bits are
 * those of numerics/table_point.h, which the host calls.
 *
 * Included once per element type with REAL, REAL_FMA(a, b, c) and POINT_NAME(name) defined, and
 * POINT_FUNCTION (such as `static inline`, or `static __device__`).
 */

#include <stdint.h>

/* Bring an index back inside. Reads at most one side's map: an index is outside on one side only.
 */
POINT_FUNCTION int64_t POINT_NAME(index)(const struct plan_axis *axis, int64_t i)
{
    const int64_t n = axis->n;
    if (i >= 0 && i < n)
        return i;
    const int32_t map = axis->side[i < 0 ? SIDE_LOW : SIDE_HIGH].map;
    if (map == SIDE_MAP_NODE) {
        const int64_t period = 2 * (n - 1);
        if (period == 0)
            return 0;
        i %= period;
        if (i < 0)
            i += period;
        return i < n ? i : period - i;
    }
    const int64_t period = map == SIDE_MAP_ENDPOINT ? n - 1 : n;
    i %= period;
    return i < 0 ? i + period : i;
}

/* The side that holds a point: the first of x low, x high, y low, … that does; NULL where none. */
POINT_FUNCTION const struct side *POINT_NAME(holder)(const struct plan *plan, const int64_t at[3])
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (at[a] < axis->side[SIDE_LOW].held)
            return &axis->side[SIDE_LOW];
        if (axis->n - 1 - at[a] < axis->side[SIDE_HIGH].held)
            return &axis->side[SIDE_HIGH];
    }
    return (const struct side *)0;
}

/* Pass 0 where plan->impose: the input, with the boundary values in their nodes. */
POINT_FUNCTION REAL POINT_NAME(impose)(const struct plan *plan, const REAL *f, const int64_t at[3])
{
    const struct side *side = POINT_NAME(holder)(plan, at);
    return side && !side->halo ? (REAL)side->value.number : *f;
}

/* acc + the closure row `row` of `axis` on `side` applied to the line through `f` (its point `i`).
 */
POINT_FUNCTION REAL POINT_NAME(closure)(const struct plan_axis *axis, int side, int row, int64_t i,
                                        const REAL *f, int odd, int begin, REAL acc)
{
    for (int k = 0; k < axis->row_points; k++) {
        const int64_t j = side == SIDE_LOW ? k : axis->n - 1 - k;
        REAL w = (REAL)axis->row[row][k];
        if (odd && side == SIDE_HIGH)
            w = -w;
        const REAL value = f[(j - i) * axis->stride];
        acc = begin && k == 0 ? w * value : REAL_FMA(w, value, acc);
    }
    return acc;
}

/* Which closure row has point i: the row, and its side in *side; −1 where the stencil is centred.
 */
POINT_FUNCTION int POINT_NAME(row)(const struct plan_axis *axis, int64_t i, int *side)
{
    if (i < axis->side[SIDE_LOW].rows) {
        *side = SIDE_LOW;
        return (int)i;
    }
    if (axis->n - 1 - i < axis->side[SIDE_HIGH].rows) {
        *side = SIDE_HIGH;
        return (int)(axis->n - 1 - i);
    }
    return -1;
}

/* The first derivative along axis `a` at the point at[], which is *f. */
POINT_FUNCTION REAL POINT_NAME(first)(const struct plan *plan, int a, const REAL *f,
                                      const int64_t at[3])
{
    const struct plan_axis *axis = &plan->axis[a];
    int side = 0;
    const int row = POINT_NAME(row)(axis, at[a], &side);
    if (row >= 0)
        return POINT_NAME(closure)(axis, side, row, at[a], f, 1, 1, (REAL)0);
    REAL acc = (REAL)0;
    for (int m = 1; m <= plan->radius; m++) {
        const REAL above = f[(POINT_NAME(index)(axis, at[a] + m) - at[a]) * axis->stride];
        const REAL below = f[(POINT_NAME(index)(axis, at[a] - m) - at[a]) * axis->stride];
        const REAL difference = above - below;
        acc = m == 1 ? (REAL)axis->c[1] * difference : REAL_FMA((REAL)axis->c[m], difference, acc);
    }
    return acc;
}

/* A component of a gradient, a divergence or a curl at the point at[]: first derivatives, each
 * rounded as it is alone, then added. fields: the first element of one field of the batch, by
 * component. */
POINT_FUNCTION REAL POINT_NAME(component)(const struct plan *plan, const REAL *const fields[3],
                                          int component, const int64_t at[3])
{
    const int64_t place = at[AXIS_X] * plan->axis[AXIS_X].stride +
                          at[AXIS_Y] * plan->axis[AXIS_Y].stride +
                          at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    if (plan->form == PLAN_GRADIENT)
        return POINT_NAME(first)(plan, component, fields[0] + place, at);
    if (plan->form == PLAN_DIVERGENCE) {
        REAL sum = POINT_NAME(first)(plan, AXIS_X, fields[AXIS_X] + place, at);
        for (int a = AXIS_Y; a < plan->inputs; a++)
            sum = sum + POINT_NAME(first)(plan, a, fields[a] + place, at);
        return sum;
    }
    /* The axes that follow this component's, round and round; the curl of a plane is along z. */
    const int along = plan->outputs == 1 ? AXIS_Z : component;
    const int b = (along + 1) % AXIS_COUNT, c = (along + 2) % AXIS_COUNT;
    return POINT_NAME(first)(plan, b, fields[c] + place, at) -
           POINT_NAME(first)(plan, c, fields[b] + place, at);
}

/* The points m before and after the point at[], which is *f, along an axis: their sum. */
POINT_FUNCTION REAL POINT_NAME(pair)(const struct plan_axis *axis, const REAL *f, int64_t at, int m)
{
    const REAL above = f[(POINT_NAME(index)(axis, at + m) - at) * axis->stride];
    const REAL below = f[(POINT_NAME(index)(axis, at - m) - at) * axis->stride];
    return above + below;
}

/* acc + the centred row of all active axes, which have the same: their pairs are added first. */
POINT_FUNCTION REAL POINT_NAME(together)(const struct plan *plan, const REAL *f,
                                         const int64_t at[3], REAL acc)
{
    int first = 0;
    while (!plan->axis[first].active)
        first++;
    for (int m = 1; m <= plan->radius; m++) {
        REAL sum = POINT_NAME(pair)(&plan->axis[first], f, at[first], m);
        for (int a = first + 1; a < AXIS_COUNT; a++)
            if (plan->axis[a].active)
                sum = sum + POINT_NAME(pair)(&plan->axis[a], f, at[a], m);
        acc = REAL_FMA((REAL)plan->axis[first].c[m], sum, acc);
    }
    return acc;
}

/* Even derivatives along the active axes at the point at[], which is *f, and what they are added
 * to. */
POINT_FUNCTION REAL POINT_NAME(sum)(const struct plan *plan, const REAL *f, const int64_t at[3])
{
    int active = 0, centred = 0, side;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (plan->axis[a].active) {
            active |= 1 << a;
            centred |= (POINT_NAME(row)(&plan->axis[a], at[a], &side) < 0) << a;
        }
    REAL acc = centred || plan->identity ? (REAL)plan->centre[centred] * *f : (REAL)0;
    if (plan->shared && centred == active)
        return POINT_NAME(together)(plan, f, at, acc);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (!axis->active)
            continue;
        const int row = POINT_NAME(row)(axis, at[a], &side);
        if (row >= 0)
            acc = POINT_NAME(closure)(axis, side, row, at[a], f, 0, 0, acc);
        for (int m = 1; row < 0 && m <= plan->radius; m++)
            acc = REAL_FMA((REAL)axis->c[m], POINT_NAME(pair)(axis, f, at[a], m), acc);
    }
    return acc;
}

/* The point at[] of one field of the batch, whose first element is `field`; not for the forms
 * above.
 */
POINT_FUNCTION REAL POINT_NAME(evaluate)(const struct plan *plan, const REAL *field,
                                         const int64_t at[3])
{
    const REAL *f = field + at[AXIS_X] * plan->axis[AXIS_X].stride +
                    at[AXIS_Y] * plan->axis[AXIS_Y].stride + at[AXIS_Z] * plan->axis[AXIS_Z].stride;
    if (plan->holds) {
        const struct side *side = POINT_NAME(holder)(plan, at);
        if (side)
            return side->halo ? (REAL)side->value.number * *f : (REAL)side->value.number;
    }
    if (plan->parity == PLAN_EVEN)
        return POINT_NAME(sum)(plan, f, at);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (plan->axis[a].active)
            return POINT_NAME(first)(plan, a, f, at);
    return (REAL)0;
}
