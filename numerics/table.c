#include "numerics/table.h"

#include "base/thread_pool.h"
#include "numerics/conductances.h"
#include "numerics/job_weights.h"

#include <string.h>

_Static_assert((int)TABLE_POINTS == (int)WEIGHTS_POINTS, "a row fits");
_Static_assert((int)TABLE_RADIUS == (int)CONDUCTANCES_RADIUS, "as do their ratios");

/* What is made. */
struct making {
    const struct job *job;
    struct weights_axis axis[AXIS_COUNT];
    struct table_header header;
    uint64_t bytes; /* so far */
    char *table;    /* its first byte, once there is memory */
    weights_real centre[TABLE_ROWS][AXIS_COUNT];
};

static uint64_t row_bytes(const struct making *making)
{
    return making->job->dtype == DTYPE_F32 ? sizeof(struct table_row_f32)
                                           : sizeof(struct table_row_f64);
}

/* Room for so many rows; where it begins. */
static uint64_t take_rows(struct making *making, int64_t rows)
{
    const uint64_t at = making->bytes;
    making->bytes += (uint64_t)rows * row_bytes(making);
    return at;
}

static void put_row(const struct making *making, uint64_t at, const struct table_row_f64 *row)
{
    if (making->job->dtype == DTYPE_F64) {
        memcpy(making->table + at, row, sizeof *row);
        return;
    }
    struct table_row_f32 narrow = {.first = row->first, .step = row->step, .count = row->count};
    for (int k = 0; k < TABLE_POINTS; k++)
        narrow.w[k] = (float)row->w[k];
    for (int s = 0; s < SIDE_COUNT; s++)
        narrow.data[s] = (float)row->data[s];
    memcpy(making->table + at, &narrow, sizeof narrow);
}

/* What a row in units of the spacing is multiplied by: its weights, and the data of each side. */
struct scale {
    weights_real weights, data[SIDE_COUNT];
};

/* Of a derivative of `order` along axis a, times `factor`. With coordinates rows have their units.
 */
static struct scale scale_of(const struct making *making, int a, int order, weights_real factor)
{
    const struct job *job = making->job;
    struct scale scale = {factor, {factor, factor}};
    if (making->axis[a].x)
        return scale;
    const weights_real h = job->spacing[a];
    weights_real power = 1; /* of the spacing */
    for (int k = 0; k < order; k++)
        power *= h;
    scale.weights = factor / power;
    for (int s = 0; s < SIDE_COUNT; s++) {
        const int kind = making->axis[a].side[s].kind;
        scale.data[s] = kind == WEIGHTS_VALUE       ? scale.weights
                        : kind == WEIGHTS_CURVATURE ? scale.weights * (h * h)
                                                    : scale.weights * h;
    }
    return scale;
}

/* Point i's row as the table holds it; *centre: the weight of the point itself where the row is the
 * centred one of a uniform axis. */
static void convert(const struct making *making, int a, int64_t i, const struct weights_row *row,
                    const struct scale *scale, struct table_row_f64 *made, weights_real *centre)
{
    const int dtype = making->job->dtype;
    const int shift = making->header.shift;
    *made = (struct table_row_f64){.first = row->first, .step = row->step, .count = row->count};
    bool empty = true; /* of weights that count: the datum is what is asked for */
    for (int k = 0; k < row->count; k++) {
        made->w[k] = rounded(row->w[k] * scale->weights, dtype);
        empty = empty && row->w[k] == 0;
    }
    for (int s = 0; s < SIDE_COUNT; s++)
        made->data[s] = rounded(row->data[s] * scale->data[s], dtype);
    if (empty)
        made->count = 0;
    if (row->side != WEIGHTS_CENTRED || making->axis[a].x)
        return;
    const int64_t self = i - row->first, above = self - (shift < 0);
    *made = (struct table_row_f64){.data = {made->data[0], made->data[1]}};
    made->count = row->count / 2;
    for (int m = 1; m <= made->count; m++)
        made->w[m - 1] = rounded(row->w[above + m] * scale->weights, dtype);
    if (row->count % 2)
        *centre = row->w[self] * scale->weights;
}

/* Rows of a derivative of `order` along an axis, times `factor`. */
struct rows_order {
    const struct weights_axis *axis;
    int a, order;
    weights_real factor;
    bool splits; /* rows with a datum are TABLE_SPLIT */
    bool inflow; /* TABLE_ROWS_INFLOW, none of the above */
};

/* The ratios of table_header.across. */
static void put_across(const struct job *job, double across[TABLE_ACROSS])
{
    const struct conductances *given = conductances_of(job->accuracy);
    const int r = job->accuracy / 2;
    for (int m = 1; m <= r; m++) {
        const int32_t *c = given->c[m - 1] + (r - m);
        for (int e = 1; 2 * e <= m; e++)
            *across++ = rounded((weights_real)c[e] / c[0], job->dtype);
        for (int e = 1; m + e <= r; e++)
            *across++ = rounded((weights_real)c[-e] / c[0], job->dtype);
    }
}

/* Its centred row, which is half the second derivative times `scale` where k is 1. */
static void put_conducting(const struct job *job, weights_real scale, struct table_row_f64 *row)
{
    const struct conductances *given = conductances_of(job->accuracy);
    const int r = job->accuracy / 2;
    for (int m = 1; m <= r; m++)
        row->w[m - 1] =
            rounded(2 * (weights_real)given->c[m - 1][r - m] / given->under * scale, job->dtype);
}

/* The row of TABLE_ROWS_INFLOW of point i. */
static void put_inflow(const struct making *making, const struct rows_order *given, int64_t i,
                       uint64_t at)
{
    const struct job *job = making->job;
    const int s = i < job->accuracy / 2 ? SIDE_LOW : SIDE_HIGH;
    const int64_t last = given->axis->n - 1, d = s == SIDE_LOW ? i : last - i;
    struct table_row_f64 made = {
        .first = s == SIDE_LOW ? 0 : last, .step = s == SIDE_LOW ? 1 : -1, .count = job->accuracy};
    weights_real w[WEIGHTS_ACCURACY];
    const weights_real h = given->axis->x ? weights_gap(given->axis, s == SIDE_LOW ? 0 : last - 1)
                                          : (weights_real)job->spacing[given->a];
    conductances_inflow(job->accuracy, given->axis->side[s].at_face, (int)d, w);
    for (int j = 0; j < made.count; j++)
        made.w[j] = rounded(w[j] / h, job->dtype);
    put_row(making, at, &made);
}

/* The row of point i, in the place `r`. Returns the weight of its centre, where it has one. */
static weights_real put_one(const struct making *making, const struct rows_order *given,
                            const struct weights_axis *axis, const struct table_rows *rows,
                            int64_t i, int64_t r)
{
    const struct scale scale = scale_of(making, given->a, given->order, given->factor);
    const enum stagger stagger = (enum stagger)making->job->more.stagger;
    struct weights_row row;
    struct table_row_f64 made;
    weights_real centre = 0;
    if (!weights_make(axis, given->order, making->job->accuracy, stagger, i, &row))
        return 0; /* of a halo, or no point */
    convert(making, given->a, i, &row, &scale, &made, &centre);
    if (given->splits && row.side != WEIGHTS_CENTRED && weights_has_datum(&axis->side[row.side]))
        made = (struct table_row_f64){.step = 1, .count = TABLE_SPLIT};
    if (given->splits && made.step == 0)
        put_conducting(making->job, scale.weights, &made);
    put_row(making, rows->at + (uint64_t)r * row_bytes(making), &made);
    return centre;
}

enum { SMALL_AXIS = 256 }; /* rows that are made on one thread */

struct apart {
    const struct making *making;
    const struct rows_order *given;
    const struct table_rows *rows;
};

/* Row r of those that are not the shared one. */
static void put_apart(void *context, int64_t r)
{
    const struct apart *part = context;
    const struct weights_axis *axis = part->given->axis;
    const struct table_rows *rows = part->rows;
    const int64_t i = r < rows->low ? r : axis->n - 1 - (r - rows->low);
    if (part->given->inflow)
        put_inflow(part->making, part->given, i, rows->at + (uint64_t)r * row_bytes(part->making));
    else
        put_one(part->making, part->given, axis, rows, i, r);
}

/* All of them. Returns the weight of the centre of the shared one, 0 where it has none. */
static weights_real put_rows(const struct making *making, const struct rows_order *given,
                             const struct table_rows *rows)
{
    const struct weights_axis *axis = given->axis;
    const int64_t apart = (int64_t)rows->low + rows->high;
    struct apart part = {making, given, rows};
    thread_pool_for(axis->x && axis->n > SMALL_AXIS ? thread_pool_threads() : 1, apart, put_apart,
                    &part);
    const struct weights_axis endless = {.n = 1, .spacing = 1};
    return axis->x || given->inflow ? 0 : put_one(making, given, &endless, rows, 0, apart);
}

/* Room for them. */
static struct table_rows plan_rows(struct making *making, const struct rows_order *given)
{
    const struct weights_axis *axis = given->axis;
    const int accuracy = making->job->accuracy, order = given->order;
    const enum stagger stagger = (enum stagger)making->job->more.stagger;
    struct table_rows rows = {0};
    if (given->inflow) {
        rows.low = axis->side[SIDE_LOW].kind == WEIGHTS_EVEN ? accuracy / 2 : 0;
        rows.high = axis->side[SIDE_HIGH].kind == WEIGHTS_EVEN ? accuracy / 2 : 0;
    } else if (axis->x) {
        rows.low = (int32_t)axis->n;
    } else {
        rows.low = weights_apart(axis, order, accuracy, stagger, SIDE_LOW);
        rows.high = weights_apart(axis, order, accuracy, stagger, SIDE_HIGH);
    }
    rows.at = take_rows(making, (int64_t)rows.low + rows.high + 1);
    return rows;
}

static void table_side_init(struct making *making, int a, int s)
{
    struct table_header *header = &making->header;
    struct table_axis *axis = &header->axis_of[a];
    struct side *side = &axis->side[s];
    *side = side_of(making->job, a, s);
    header->halos |= side->halo;
    if (side->held && !side->halo && making->job->operator_id != OPERATOR_DIFFUSION) {
        header->imposes = 1;
        *(s == SIDE_LOW ? &axis->first : &axis->last) += s == SIDE_LOW ? 1 : -1;
    }
    if (side->datum == SIDE_DATUM_MIXED_FACE)
        axis->face[s] = take_rows(making, 1);
}

static void put_face(struct making *making, int a, int s)
{
    const struct table_axis *axis = &making->header.axis_of[a];
    struct weights_row row;
    struct table_row_f64 made;
    weights_real centre;
    if (axis->side[s].datum != SIDE_DATUM_MIXED_FACE ||
        !weights_face(&making->axis[a], job_face_order(making->job), making->job->accuracy, s,
                      &row))
        return;
    const struct scale scale = scale_of(making, a, 0, 1);
    convert(making, a, 0, &row, &scale, &made, &centre);
    put_row(making, axis->face[s], &made);
}

/* What the operator is multiplied by in each pass of a step, over dt; returns how many. */
static int factors_of(const struct job *job, weights_real factors[TABLE_FACTORS])
{
    if (job->operator_id != OPERATOR_DIFFUSION) {
        factors[0] = 1;
        return 1;
    }
    const int count = job->more.scheme == SCHEME_RK4 ? TABLE_FACTORS : 1;
    for (int k = 0; k < count; k++)
        factors[k] = (weights_real)job->dt / (count - k); /* Kutta's: numerics/stage.c */
    return count;
}

static void header_init(struct making *making, const struct plan *plan, const void *block)
{
    const struct job *job = making->job;
    struct table_header *header = &making->header;
    const int order = job_order(job);
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    header->dtype = job->dtype;
    header->operator_id = job->operator_id;
    header->axes = job->axes;
    header->odd = order % 2;
    header->form = header->odd                               ? TABLE_FORM_PARTS
                   : job->more.coefficient                   ? TABLE_FORM_DIVERGENCE
                   : job->operator_id == OPERATOR_BIHARMONIC ? TABLE_FORM_BIHARMONIC
                                                             : TABLE_FORM_SUM;
    header->shift = job->more.stagger == STAGGER_FORWARD    ? 1
                    : job->more.stagger == STAGGER_BACKWARD ? -1
                                                            : 0;
    header->identity = diffusion && job->more.scheme == SCHEME_EULER;
    header->source = job->more.source              ? TABLE_SOURCE_FIELD
                     : job->more.source_value != 0 ? TABLE_SOURCE_NUMBER
                                                   : TABLE_SOURCE_NONE;
    header->source_value = rounded(job->more.source_value, job->dtype);
    if (job->more.coefficient)
        put_across(job, header->across);
    header->inputs = plan->inputs;
    header->outputs = plan->outputs;
    header->points = plan->points;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct table_axis *axis = &header->axis_of[a];
        axis->n = (int64_t)job->n[a];
        axis->last = axis->n - 1;
        axis->stride = plan->axis[a].stride;
        axis->face_points = (int64_t)(header->points / job->n[a]);
        header->conducts |= job_conducts(job, a) << a;
        job_weights(job, a, job_coordinates(job, block, a), &making->axis[a]);
        if (!making->axis[a].x)
            making->axis[a].spacing = 1; /* scale_of() */
    }
}

/* Are the pairs' weights of all active axes the same, in every set of factors? */
static bool is_shared(const struct making *making, int sets)
{
    const struct table_header *header = &making->header;
    if (header->odd || header->form == TABLE_FORM_DIVERGENCE)
        return false;
    for (int set = 0; set < sets; set++) {
        const char *first = NULL;
        for (int a = 0; a < AXIS_COUNT; a++) {
            const struct table_rows *rows = &header->rows[set][a];
            if (!(header->active >> a & 1))
                continue;
            if (making->axis[a].x)
                return false;
            const uint64_t middle = (uint64_t)(rows->low + rows->high) * row_bytes(making);
            const char *row = making->table + rows->at + middle;
            if (first && memcmp(first, row, row_bytes(making)) != 0)
                return false;
            first = row;
        }
    }
    return true;
}

/* Which rows an axis has, by their use. alone: without_data(). */
static void rows_of(const struct making *making, int a, int sets, const weights_real *factors,
                    const struct weights_axis *alone, struct rows_order orders[TABLE_ROWS],
                    bool has[TABLE_ROWS])
{
    const struct job *job = making->job;
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    const weights_real kappa = diffusion ? (weights_real)job->diffusivity[a] : 1;
    const struct rows_order plain = {.axis = &making->axis[a], .a = a, .order = 2, .factor = 1};
    for (int use = 0; use < TABLE_ROWS; use++) {
        has[use] = false;
        orders[use] = plain;
    }
    if (!(making->header.active >> a & 1))
        return;
    for (int set = 0; set < sets; set++) {
        has[set] = true;
        orders[set].order = job_order(job);
        orders[set].factor = kappa * factors[set] / (job->more.coefficient ? 2 : 1);
        orders[set].splits = job->more.coefficient;
    }
    if (job_conducts(job, a)) {
        has[TABLE_ROWS_INFLOW] = orders[TABLE_ROWS_INFLOW].inflow = true;
    } else if (job->more.coefficient) {
        has[TABLE_ROWS_SECOND] = has[TABLE_ROWS_FIRST] = has[TABLE_ROWS_OF_K] = true;
        orders[TABLE_ROWS_FIRST].order = orders[TABLE_ROWS_OF_K].order = 1;
        orders[TABLE_ROWS_OF_K].axis = alone;
    }
    if (job->operator_id == OPERATOR_BIHARMONIC) {
        has[TABLE_ROWS_INNER] = has[TABLE_ROWS_OUTER] = true;
        orders[TABLE_ROWS_OUTER].factor = 2;
        orders[TABLE_ROWS_OUTER].axis = alone;
    }
}

/* The same axis without data: rows of the points at the edge alone in their place. */
static struct weights_axis without_data(const struct weights_axis *axis)
{
    struct weights_axis alone = *axis;
    for (int s = 0; s < SIDE_COUNT; s++)
        if (weights_has_datum(&alone.side[s]))
            alone.side[s] = (struct weights_side){.kind = WEIGHTS_VALUE};
    return alone;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The box along axis a, which has rows of these kinds. */
static void find_box(struct making *making, int a, const bool has[TABLE_ROWS])
{
    const struct table_header *header = &making->header;
    struct table_axis *axis = &making->header.axis_of[a];
    int64_t before = axis->first, after = axis->n - 1 - axis->last;
    const bool indexed = making->axis[a].x && has[0];
    for (int use = 0; use < TABLE_ROWS; use++) {
        const struct table_rows *rows = &header->rows[use][a];
        if (!has[use] || indexed)
            continue;
        const int64_t pairs = table_row(header, making->table, rows, rows->low + rows->high).count;
        const int64_t below = axis->first + pairs - (header->shift > 0);
        const int64_t above = axis->n - 1 - axis->last + pairs - (header->shift < 0);
        before = larger(before, larger(rows->low, below));
        after = larger(after, larger(rows->high, above));
    }
    if (indexed) { /* every point has a row of its own, which kernels read for sums of them alone */
        const bool is_sum = header->form == TABLE_FORM_SUM ||
                            (header->form == TABLE_FORM_PARTS && job_has_axis(making->job));
        const int64_t reach = is_sum && !header->shift ? table_indexed_reach(making->job) : axis->n;
        before += reach;
        after += reach;
    }
    before = larger(before, axis->side[SIDE_LOW].held);
    after = larger(after, axis->side[SIDE_HIGH].held);
    axis->low = before < axis->n ? before : axis->n;
    axis->high = larger(axis->n - after, axis->low);
}

bool table_make(struct plan *plan, const struct job *job, const void *block)
{
    struct making making = {.job = job, .bytes = (sizeof(struct table_header) + 63) / 64 * 64};
    struct table_header *header = &making.header;
    weights_real factors[TABLE_FACTORS];
    struct weights_axis alone[AXIS_COUNT];
    struct rows_order orders[AXIS_COUNT][TABLE_ROWS];
    bool has[AXIS_COUNT][TABLE_ROWS];
    const int sets = factors_of(job, factors);
    header_init(&making, plan, block);
    for (int a = 0; a < job->axes; a++) {
        if (plan->axis[a].active) {
            header->axis = a;
            header->active |= 1 << a;
        }
        for (int s = 0; s < SIDE_COUNT; s++)
            table_side_init(&making, a, s);
        alone[a] = without_data(&making.axis[a]);
        rows_of(&making, a, sets, factors, &alone[a], orders[a], has[a]);
        for (int use = 0; use < TABLE_ROWS; use++)
            if (has[a][use])
                header->rows[use][a] = plan_rows(&making, &orders[a][use]);
    }
    struct plan_table *table = plan_table_new(making.bytes);
    if (!table)
        return false;
    making.table = (char *)plan_table_rows(table);
    for (int a = 0; a < job->axes; a++) {
        for (int s = 0; s < SIDE_COUNT; s++)
            put_face(&making, a, s);
        for (int use = 0; use < TABLE_ROWS; use++)
            if (has[a][use])
                making.centre[use][a] = put_rows(&making, &orders[a][use], &header->rows[use][a]);
        header->inner_centre[a] = rounded(making.centre[TABLE_ROWS_INNER][a], job->dtype);
        header->outer_centre[a] = rounded(making.centre[TABLE_ROWS_OUTER][a], job->dtype);
        find_box(&making, a, has[a]);
    }
    header->shared = is_shared(&making, sets);
    for (int set = 0; set < sets; set++) {
        header->factor[set] = rounded(factors[set], job->dtype);
        for (int centred = 0; centred < 1 << AXIS_COUNT; centred++) {
            weights_real sum = header->identity;
            for (int a = 0; a < AXIS_COUNT; a++)
                sum += centred >> a & 1 ? making.centre[set][a] : 0;
            header->centre[set][centred] = rounded(sum, job->dtype);
        }
    }
    memcpy(making.table, header, sizeof *header);
    plan->table = table;
    table_to_plan(plan, job);
    return true;
}
