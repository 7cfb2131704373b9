/* The table's lines against numerics/table_point.h, to the bit, for jobs that other kernels
 * compute, too; and against an evaluation in long double straight from numerics/weights.h, which
 * shares no code with it. */
#include "gpu/host/pass.h"
#include "base/thread_pool.h"
#include "numerics/table.h"
#include "numerics/job_weights.h"
#include "tests/lib/random_job.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 600 / ONE_JOB_IN, MOST_POINTS = 3000, SHARED_POINTS = 100000 };

static const struct kernels *kernels[PASS_KERNELS];
static int generations;

/* All of the job by the engine, from in to out, in pieces cut at random lines. */
static void run_table(struct random *random, const struct kernels *kernel, const struct plan *plan,
                      void *const in[AXIS_COUNT], void *const out[AXIS_COUNT],
                      const struct operands *operands)
{
    const uint64_t bytes = plan_array_bytes(plan), lines = plan->lines * plan->passes;
    void *own[AXIS_COUNT];
    arrays_make(own, plan->staged > 1 ? plan->staged : 1, bytes, 0xa5);
    struct launch launch = {
        .plan = plan, .odd = own[0], .spare = {own[1], own[2]}, .operands = operands};
    for (int c = 0; c < AXIS_COUNT; c++) {
        launch.in[c] = in[c];
        launch.even[c] = out[c];
    }
    while (launch.to < lines) {
        launch.from = launch.to;
        launch.to += random_below(random, 3) ? 1 + random_below(random, lines - launch.from)
                                             : lines - launch.from;
        pass_launch(kernel, &launch, UINT64_MAX);
    }
    if (plan->passes % 2 == 0 && !plan->staged)
        memcpy(out[0], own[0], bytes);
    arrays_free(own);
}

TEST(plain_jobs_have_the_bits_of_the_contract)
{
    struct random random = random_start();
    for (int k = 0; k < JOBS; k++) {
        struct job job;
        struct plan plain, table;
        void *in[AXIS_COUNT], *out[AXIS_COUNT], *expected[AXIS_COUNT];
        do
            random_job(&random, k % 100 ? MOST_POINTS : SHARED_POINTS, &job);
        while (!job_is_plain(&job));
        assert_true(plan_init(&plain, &job, NULL));
        table = plain;
        table.plain = 0;
        arrays_make(in, plain.inputs, job_bytes(&job), 0);
        arrays_make(out, plain.outputs, job_bytes(&job), 0xa5);
        arrays_make(expected, plain.outputs, job_bytes(&job), 0x5a);
        for (int c = 0; c < plain.inputs; c++) {
            random_field(&random, &job, in[c]);
            random_exceptions(&random, &job, in[c]);
        }
        reference_run(&plain, in, expected);
        run_table(&random, kernels[random_below(&random, (uint64_t)generations)], &table, in, out,
                  NULL);
        for (int c = 0; c < plain.outputs; c++)
            if (!results_equal(&job, out[c], expected[c])) {
                random_job_print(&job);
                fail_msg("component %d differs", c);
            }
        plan_release(&plain);
        arrays_free(in);
        arrays_free(out);
        arrays_free(expected);
    }
}

/* --- an evaluation of its own --- */

/* What a slow evaluation reads, of one field of the batch. */
struct model {
    const struct job *job;
    const void *block;
    const struct operands *operands;
    uint64_t batch;
    const long double *field[AXIS_COUNT]; /* by component */
};

static double element(const struct job *job, const void *array, uint64_t i)
{
    return job->dtype == DTYPE_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static uint64_t place_of(const struct job *job, const int64_t at[AXIS_COUNT])
{
    return ((uint64_t)at[2] * job->n[1] + (uint64_t)at[1]) * job->n[0] + (uint64_t)at[0];
}

static struct weights_axis axis_of(const struct model *model, int a)
{
    struct weights_axis rows;
    job_weights(model->job, a, job_coordinates(model->job, model->block, a), &rows);
    return rows;
}

/* A number of a side, where its array says it: in the order of the other axes, the slowest first.
 */
static double model_number(const struct model *model, int a, int s, bool is_constant,
                           const int64_t at[AXIS_COUNT])
{
    const struct job *job = model->job;
    const struct boundary *boundary = &job->boundary[a][s];
    const int from = is_constant ? boundary->constant_array : boundary->value_array;
    const int operand = (is_constant ? OPERAND_CONSTANT : OPERAND_VALUE) + 2 * a + s;
    if (from == NUMBER_CONSTANT)
        return is_constant ? job->more.constant[a][s] : boundary->value;
    uint64_t i = from == NUMBER_FACE_BATCH ? model->batch : 0;
    for (int b = AXIS_Z; b >= 0; b--)
        if (b != a)
            i = i * job->n[b] + (uint64_t)at[b];
    return element(job, model->operands->at[operand], i);
}

/* Is the point in a side's halo? */
static bool is_in_halo(const struct model *model, int a, int s, const int64_t at[AXIS_COUNT])
{
    const struct job *job = model->job;
    const struct weights_axis rows = axis_of(model, a);
    const int64_t d = s == SIDE_LOW ? at[a] : (int64_t)job->n[a] - 1 - at[a];
    return job->boundary[a][s].kind == BOUNDARY_HALO &&
           d < weights_radius(&rows, job_order(job), job->accuracy, job_stagger(job, a));
}

static bool is_value_node(const struct model *model, const int64_t at[AXIS_COUNT], double *value)
{
    const struct job *job = model->job;
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct boundary *boundary = &job->boundary[a][s];
            if (is_in_halo(model, a, s, at))
                return false;
            if (boundary->kind == BOUNDARY_VALUE && !boundary->at_face &&
                at[a] == (s == SIDE_LOW ? 0 : (int64_t)job->n[a] - 1)) {
                *value = model_number(model, a, s, false, at);
                return true;
            }
        }
    return false;
}

static bool is_halo(const struct model *model, const int64_t at[AXIS_COUNT], double *factor)
{
    for (int a = 0; a < model->job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++)
            if (is_in_halo(model, a, s, at)) {
                *factor = model->job->boundary[a][s].value;
                return true;
            }
    return false;
}

static long double model_at(const struct model *model, int c, const int64_t at[AXIS_COUNT])
{
    double value;
    if (is_value_node(model, at, &value))
        return value;
    return model->field[c][place_of(model->job, at)];
}

static long double model_on_line(const struct model *model, int c, int a,
                                 const int64_t at[AXIS_COUNT], int64_t j)
{
    int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
    there[a] = j;
    return model_at(model, c, there);
}

/* What a side states to the rows, of the line through at[]; *size: its terms' magnitudes. */
static long double model_datum(const struct model *model, int c, int a, int s,
                               const int64_t at[AXIS_COUNT], long double *size)
{
    const struct job *job = model->job;
    const struct boundary *boundary = &job->boundary[a][s];
    const long double value = model_number(model, a, s, false, at);
    *size = fabsl(value);
    if (boundary->kind != BOUNDARY_MIXED)
        return value;
    const long double constant = model_number(model, a, s, true, at);
    if (!boundary->at_face) {
        const long double edge =
            value * model_on_line(model, c, a, at, s ? (int64_t)job->n[a] - 1 : 0);
        *size = fabsl(constant) + fabsl(edge);
        return constant - edge;
    }
    const struct weights_axis rows = axis_of(model, a);
    struct weights_row face;
    assert_true(weights_face(&rows, job_face_order(job), job->accuracy, s, &face));
    long double sum = (long double)face.data[s] * constant, terms = fabsl(sum);
    for (int k = 0; k < face.count; k++) {
        const long double term =
            (long double)face.w[k] *
            model_on_line(model, c, a, at, face.first + (int64_t)k * face.step);
        sum += term;
        terms += fabsl(term);
    }
    const long double slope = value / (1 + (long double)face.data[s] * value);
    *size = fabsl(constant) + fabsl(slope) * terms;
    return constant - slope * sum;
}

static bool states_number(const struct weights_side *side)
{
    return side->kind == WEIGHTS_DERIVATIVE || side->kind == WEIGHTS_CURVATURE ||
           (side->kind == WEIGHTS_VALUE && side->at_face);
}

/* The derivative along an axis; *size: the sum of its terms' magnitudes. */
static long double model_derivative(const struct model *model, int c, int a, int order,
                                    const int64_t at[AXIS_COUNT], long double *size)
{
    const struct job *job = model->job;
    const struct weights_axis rows = axis_of(model, a);
    struct weights_row row;
    long double sum = 0;
    if (!weights_make(&rows, order, job->accuracy, job_stagger(job, a), at[a], &row))
        fail_msg("no row");
    for (int k = 0; k < row.count; k++) {
        const struct weights_place place = weights_map(&rows, row.first + (int64_t)k * row.step);
        const long double term =
            (long double)row.w[k] * place.sign * model_on_line(model, c, a, at, place.at);
        sum += term;
        *size += fabsl(term);
    }
    for (int s = 0; s < SIDE_COUNT; s++)
        if (row.data[s] != 0) {
            long double terms;
            sum += (long double)row.data[s] * model_datum(model, c, a, s, at, &terms);
            *size += fabsl((long double)row.data[s]) * terms;
        }
    return sum;
}

static long double coefficient_at(const struct model *model, const int64_t at[AXIS_COUNT])
{
    const struct job *job = model->job;
    return element(job, model->operands->at[OPERAND_COEFFICIENT],
                   model->batch * (job_points(job) / job->batch) + place_of(job, at));
}

/* (k u′)′ of centred rows: out_i = Σ_m g(i, i + m)(u_{i+m} − u_i) + g(i, i − m)(u_{i−m} − u_i),
 * g(i, i ± m) = Σ_l c[m][l] k_{i±l}, l = m − r … r. By accuracy/2 − 1, over `under`: c[m][m − r], …
 */
static const struct conductance {
    int under, c[5][10];
} conductances[] = {
    {2, {{1, 1}}},
    {24, {{4, 12, 12, 4}, {-3, 4, -3}}},
    {360, {{9, 108, 153, 153, 108, 9}, {-18, -63, 108, -63, -18}, {11, -9, -9, 11}}},
    {10080,
     {{48, 672, 3744, 3600, 3600, 3744, 672, 48},
      {-108, -1056, -1860, 4032, -1860, -1056, -108},
      {144, 560, -576, -576, 560, 144},
      {-75, 48, 36, 48, -75}}},
    {151200,
     {{150, 2750, 15500, 61500, 46100, 46100, 61500, 15500, 2750, 150},
      {-400, -4500, -22000, -27100, 72000, -27100, -22000, -4500, -400},
      {600, 5250, 10650, -13500, -13500, 10650, 5250, 600},
      {-600, -2525, 2000, 1500, 2000, -2525, -600},
      {274, -150, -100, -100, -150, 274}}},
};

/* The side of ODD or EVEN that index j is beyond; −1: none. */
static int beyond(const struct weights_axis *rows, int64_t j)
{
    const int s = j < 0 ? SIDE_LOW : SIDE_HIGH;
    const bool stated = rows->side[s].kind == WEIGHTS_ODD || rows->side[s].kind == WEIGHTS_EVEN;
    return (j < 0 || j >= rows->n) && stated ? s : -1;
}

/* The sum of what flows from the point's neighbours on its side s of an axis. Of what ∂n u = g
 * states it is that of u − L, L being g times the distance outwards. */
static long double model_flow_centred(const struct model *model, int a, int s,
                                      const int64_t at[AXIS_COUNT], long double *size)
{
    const struct weights_axis rows = axis_of(model, a);
    const int r = model->job->accuracy / 2;
    const long double h = model->job->spacing[a], u = model_at(model, 0, at);
    const struct conductance *of = &conductances[r - 1];
    int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
    long double sum = 0;
    for (int m = 1; m <= r; m++) {
        long double g = 0, terms = 0;
        for (int l = m - r; l <= r; l++) {
            there[a] = weights_map(&rows, at[a] + s * l).at;
            const long double term = of->c[m - 1][l - (m - r)] * coefficient_at(model, there);
            g += term;
            terms += fabsl(term);
        }
        const struct weights_place place = weights_map(&rows, at[a] + s * m);
        there[a] = place.at;
        long double far = place.sign * model_at(model, 0, there);
        const int side = beyond(&rows, at[a] + s * m);
        if (side >= 0 && place.sign < 0)
            far += 2 * model_number(model, a, side, false, at);
        sum += g / of->under / (h * h) * (far - u);
        *size += terms / of->under / (h * h) * (fabsl(far) + fabsl(u));
    }
    return sum;
}

/* k at a point of the line along axis a, counted from its side s; beyond it the image. */
static long double coefficient_from(const struct model *model, int a, int s,
                                    const int64_t at[AXIS_COUNT], int64_t j)
{
    const struct weights_axis rows = axis_of(model, a);
    int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
    there[a] = weights_map(&rows, s == SIDE_LOW ? j : rows.n - 1 - j).at;
    return coefficient_at(model, there);
}

/* The distance of the two points at a side's edge. */
static long double edge_spacing(const struct model *model, int a, int s)
{
    const struct weights_axis rows = axis_of(model, a);
    const int64_t low = s == SIDE_LOW ? 0 : rows.n - 2;
    return rows.x ? (long double)rows.x[low + 1] - rows.x[low] : rows.spacing;
}

/* What ∂n u = g at the side s counts at a point d from it: (k L′)′ less the flow of L's images,
 * where L = −j h at the point j. */
static long double model_inflow(const struct model *model, int a, int s,
                                const int64_t at[AXIS_COUNT], int d, long double *size)
{
    const struct job *job = model->job;
    const struct boundary *boundary = &job->boundary[a][s];
    const int r = job->accuracy / 2;
    const long double h = edge_spacing(model, a, s);
    const struct conductance *of = &conductances[r - 1];
    long double sum = 0, terms = 0;
    if (boundary->kind == BOUNDARY_MIXED && boundary->at_face) {
        const long double edge = coefficient_from(model, a, s, at, 0);
        const long double next = fminl(coefficient_from(model, a, s, at, 1), 2 * edge);
        sum = (3 * edge - next) / 2 / h;
        terms = 4 * edge / h;
    } else {
        /* The slope of the parabola, cubic, … through k at 0 … r. */
        for (int j = 0; j <= r; j++)
            for (int i = 0; i <= r; i++) {
                long double w = i == j ? 0 : -coefficient_from(model, a, s, at, j) / (j - i) / h;
                for (int l = 0; l <= r; l++)
                    w *= l == j || l == i ? 1 : (long double)(d - l) / (j - l);
                sum += w;
                terms += fabsl(w);
            }
        for (int m = -r; m <= r; m++) {
            const int j = d + m < 0 ? -(d + m) - boundary->at_face : d + m, way = m < 0 ? -1 : 1;
            const int most = way * m;
            for (int l = most - r; l <= r && m != 0; l++) {
                const long double w = coefficient_from(model, a, s, at, d + way * l) *
                                      of->c[most - 1][l - (most - r)] / of->under / h * (j - d);
                sum += w;
                terms += fabsl(w);
            }
        }
    }
    long double datum_size;
    const long double datum = model_datum(model, 0, a, s, at, &datum_size);
    *size += terms * datum_size;
    return sum * datum;
}

/* (k u′)′ along an axis; with rows of its own half the sum of (k + k_j)(u_j − u), or where a side
 * states a number k u″ + k′ u′. */
static long double model_flow(const struct model *model, int a, const int64_t at[AXIS_COUNT],
                              long double *size)
{
    const struct job *job = model->job;
    struct weights_axis rows = axis_of(model, a);
    struct weights_row row;
    long double sum = 0, slope = 0, ignored = 0;
    assert_true(weights_make(&rows, 2, job->accuracy, WEIGHTS_AT_NODE, at[a], &row));
    const long double k = coefficient_at(model, at), u = model_at(model, 0, at);
    int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
    for (int s = 0; s < SIDE_COUNT; s++) {
        const int64_t d = s == SIDE_LOW ? at[a] : rows.n - 1 - at[a];
        if (rows.side[s].kind == WEIGHTS_EVEN && d < job->accuracy / 2)
            sum += model_inflow(model, a, s, at, (int)d, size);
    }
    if (row.side == WEIGHTS_CENTRED && !rows.x)
        return sum + model_flow_centred(model, a, 1, at, size) +
               model_flow_centred(model, a, -1, at, size);
    if (row.side == WEIGHTS_CENTRED || !states_number(&rows.side[row.side])) {
        for (int m = 0; m < row.count; m++) {
            const int64_t j = row.first + (int64_t)m * row.step;
            const struct weights_place place = weights_map(&rows, j);
            const int side = beyond(&rows, j);
            there[a] = place.at;
            if (j == at[a])
                continue;
            const long double both = k + coefficient_at(model, there);
            long double far = place.sign * model_at(model, 0, there);
            if (side >= 0 && place.sign < 0)
                far += 2 * model_number(model, a, side, false, at);
            sum += (long double)row.w[m] / 2 * both * (far - u);
            *size += fabsl((long double)row.w[m] * both) * (fabsl(far) + fabsl(u));
        }
        return sum;
    }
    for (int s = 0; s < SIDE_COUNT; s++)
        if (states_number(&rows.side[s]))
            rows.side[s] = (struct weights_side){.kind = WEIGHTS_VALUE};
    assert_true(weights_make(&rows, 1, job->accuracy, WEIGHTS_AT_NODE, at[a], &row));
    for (int m = 0; m < row.count; m++) {
        there[a] = weights_map(&rows, row.first + (int64_t)m * row.step).at;
        slope += (long double)row.w[m] * coefficient_at(model, there);
        ignored += fabsl((long double)row.w[m] * coefficient_at(model, there));
    }
    long double second = 0, first = 0;
    sum = k * model_derivative(model, 0, a, 2, at, &second);
    sum += slope * model_derivative(model, 0, a, 1, at, &first);
    *size += k * second + ignored * first;
    return sum;
}

/* Twice u_aabb. */
static long double model_mixed(const struct model *model, int a, int b,
                               const int64_t at[AXIS_COUNT], long double *size)
{
    struct weights_axis rows = axis_of(model, b);
    struct weights_row row;
    long double sum = 0;
    for (int s = 0; s < SIDE_COUNT; s++)
        if (states_number(&rows.side[s]))
            rows.side[s] = (struct weights_side){.kind = WEIGHTS_VALUE};
    assert_true(weights_make(&rows, 2, model->job->accuracy, WEIGHTS_AT_NODE, at[b], &row));
    for (int m = 0; m < row.count; m++) {
        const struct weights_place place = weights_map(&rows, row.first + (int64_t)m * row.step);
        int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
        long double terms = 0;
        there[b] = place.at;
        const long double w = 2 * (long double)row.w[m];
        sum += w * place.sign * model_derivative(model, 0, a, 2, there, &terms);
        *size += fabsl(w) * terms;
    }
    return sum;
}

/* base + scale × (what flows + the source). */
static long double model_step(const struct model *model, long double base, long double scale,
                              const int64_t at[AXIS_COUNT], long double *size)
{
    const struct job *job = model->job;
    long double rate = job->more.source_value, terms = 0;
    if (job->more.source)
        rate = element(job, model->operands->at[OPERAND_SOURCE],
                       model->batch * (job_points(job) / job->batch) + place_of(job, at));
    terms = fabsl(rate);
    for (int a = 0; a < job->axes; a++) {
        long double of_axis = 0;
        rate += job->diffusivity[a] * (job->more.coefficient
                                           ? model_flow(model, a, at, &of_axis)
                                           : model_derivative(model, 0, a, 2, at, &of_axis));
        terms += job->diffusivity[a] * of_axis;
    }
    *size += scale * terms + fabsl(base);
    return base + scale * rate;
}

static long double model_component(const struct model *model, int c, const int64_t at[AXIS_COUNT],
                                   long double *size)
{
    const struct job *job = model->job;
    const int order = job_order(job);
    double factor;
    long double sum = 0;
    if (is_halo(model, at, &factor))
        return job_inputs(job) > job_outputs(job)
                   ? 0
                   : factor * model_at(model, job_inputs(job) > 1 ? c : 0, at);
    switch (job->operator_id) {
    case OPERATOR_DERIVATIVE:
    case OPERATOR_INTERPOLATE:
        return model_derivative(model, 0, job->axis, order, at, size);
    case OPERATOR_GRADIENT:
        return model_derivative(model, 0, c, order, at, size);
    case OPERATOR_CURL: {
        const int along = job->axes == 2 ? AXIS_Z : c;
        const int b = (along + 1) % 3, d = (along + 2) % 3;
        return model_derivative(model, d, b, 1, at, size) -
               model_derivative(model, b, d, 1, at, size);
    }
    default:
        for (int a = 0; a < job->axes; a++)
            sum += job->more.coefficient
                       ? model_flow(model, a, at, size)
                       : model_derivative(model, job->operator_id == OPERATOR_DIVERGENCE ? a : 0, a,
                                          order, at, size);
        for (int a = 0; a < job->axes && job->operator_id == OPERATOR_BIHARMONIC; a++)
            for (int b = a + 1; b < job->axes; b++)
                sum += model_mixed(model, a, b, at, size);
        return sum;
    }
}

static void set_element(const struct job *job, void *array, uint64_t i, double value)
{
    if (job->dtype == DTYPE_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

static void point_of(const struct job *job, uint64_t place, int64_t at[AXIS_COUNT])
{
    at[0] = (int64_t)(place % job->n[0]);
    at[1] = (int64_t)(place / job->n[0] % job->n[1]);
    at[2] = (int64_t)(place / job->n[0] / job->n[1]);
}

/* One step of a diffusion, from u[] to its result in u[]; size[] of the terms. */
static void model_steps(struct model *model, long double *u, long double *size)
{
    const struct job *job = model->job;
    const uint64_t each = job_points(job) / job->batch;
    const int parts = job->more.scheme == SCHEME_RK4 ? 4 : 1;
    long double *stage[2] = {malloc(each * sizeof *u), malloc(each * sizeof *u)};
    model->field[0] = u;
    for (int k = 0; k < parts; k++) {
        long double *to = stage[k % 2];
        for (uint64_t i = 0; i < each; i++) {
            int64_t at[AXIS_COUNT];
            double number;
            point_of(job, i, at);
            if (is_value_node(model, at, &number))
                to[i] = number;
            else if (is_halo(model, at, &number))
                to[i] = k == parts - 1 ? number * u[i] : u[i];
            else
                to[i] = model_step(model, u[i], job->dt / (parts - k), at, &size[i]);
        }
        model->field[0] = to;
    }
    memcpy(u, stage[(parts - 1) % 2], each * sizeof *u);
    free(stage[0]);
    free(stage[1]);
}

static void check_model(const struct job *job, const void *block, const struct operands *operands,
                        void *const in[AXIS_COUNT], void *const out[AXIS_COUNT])
{
    const uint64_t each = job_points(job) / job->batch;
    const long double unit = job->dtype == DTYPE_F32 ? 0x1p-24L : 0x1p-53L;
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    long double *fields[AXIS_COUNT] = {0}, *sizes = calloc(each, sizeof *sizes);
    struct model model = {.job = job, .block = block, .operands = operands};
    for (int c = 0; c < job_inputs(job); c++)
        fields[c] = malloc(each * sizeof **fields);
    for (model.batch = 0; model.batch < job->batch; model.batch++) {
        for (int c = 0; c < job_inputs(job); c++)
            for (uint64_t i = 0; i < each; i++)
                fields[c][i] = element(job, in[c], model.batch * each + i);
        memcpy(model.field, fields, sizeof fields);
        memset(sizes, 0, each * sizeof *sizes);
        if (diffusion)
            model_steps(&model, fields[0], sizes);
        for (uint64_t i = 0; i < each; i++)
            for (int c = 0; c < job_outputs(job); c++) {
                int64_t at[AXIS_COUNT];
                long double size = sizes[i];
                point_of(job, i, at);
                const long double expected =
                    diffusion ? fields[0][i] : model_component(&model, c, at, &size);
                const double got = element(job, out[c], model.batch * each + i);
                if (!(fabsl(got - expected) <= 64 * unit * (size + fabsl(expected)))) {
                    random_job_print(job);
                    fail_msg("component %d at %d %d %d: %g is not %Lg (of terms %Lg)", c,
                             (int)at[0], (int)at[1], (int)at[2], got, expected, size);
                }
            }
    }
    for (int c = 0; c < AXIS_COUNT; c++)
        free(fields[c]);
    free(sizes);
}

TEST(tables_are_those_of_their_rows)
{
    struct random random = random_start();
    int seen[BOUNDARY_KINDS] = {0}, operators[OPERATOR_COUNT] = {0};
    int stretched = 0, staggered = 0, coefficients = 0, nested = 0;
    for (int k = 0; k < JOBS; k++) {
        struct job job;
        struct plan plan;
        void *in[AXIS_COUNT], *out[AXIS_COUNT], *block;
        struct operands operands;
        if (k % 8 == 0)
            random_conducting_job(&random, MOST_POINTS, &job, &block);
        else
            random_table_job(&random, MOST_POINTS, &job, &block);
        for (int a = 0; a < job.axes; a++)
            for (int s = 0; s < SIDE_COUNT; s++)
                seen[job.boundary[a][s].kind]++;
        operators[job.operator_id]++;
        stretched += job.more.coordinates != 0;
        staggered += job.more.stagger != STAGGER_NONE;
        coefficients += job.more.coefficient;
        nested += job.more.scheme == SCHEME_RK4;
        random_operands(&random, &job, &operands);
        assert_true(plan_init(&plan, &job, block));
        arrays_make(in, plan.inputs, job_bytes(&job), 0);
        arrays_make(out, plan.outputs, job_bytes(&job), 0xa5);
        for (int c = 0; c < plan.inputs; c++)
            for (uint64_t i = 0; i < job_points(&job); i++)
                set_element(&job, in[c], i, (float)random_between(&random, -1, 1));
        run_table(&random, kernels[k % generations], &plan, in, out, &operands);
        if (job.steps == 1) /* of several the errors add up */
            check_model(&job, block, &operands, in, out);
        operands_free(&operands);
        plan_release(&plan);
        free(block);
        arrays_free(in);
        arrays_free(out);
    }
    if (ONE_JOB_IN > 1)
        return; /* too few for all to be sure to come */
    for (int kind = 0; kind < BOUNDARY_KINDS; kind++)
        assert_true(seen[kind] > JOBS / 50);
    for (int id = 0; id < OPERATOR_COUNT; id++)
        assert_true(id == OPERATOR_STENCIL || operators[id] > JOBS / 50);
    assert_true(stretched > JOBS / 50 && staggered > JOBS / 50);
    assert_true(coefficients > JOBS / 50 && nested > JOBS / 100);
}

static int64_t power(int64_t base, int exponent)
{
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/* What makes the form what it is, in integers: consistent to the order, from a point the same as
 * from the other, and of exact second derivatives where k is constant. */
TEST(conductances_are_of_their_accuracy)
{
    for (int r = 1; r <= 5; r++) {
        const struct conductance *of = &conductances[r - 1];
        for (int m = 1; m <= r; m++)
            for (int l = m - r; l <= r; l++)
                assert_int_equal(of->c[m - 1][l - (m - r)], of->c[m - 1][r - l]);
        /* Of k = x^b and u = x^a at x = 0: (k u′)′ = a (a + b − 1) x^(a + b − 2). */
        for (int a = 1; a <= 2 * r + 1; a++)
            for (int b = 0; a + b <= 2 * r + 1; b++) {
                int64_t sum = 0;
                for (int s = -1; s <= 1; s += 2)
                    for (int m = 1; m <= r; m++)
                        for (int l = m - r; l <= r; l++)
                            sum += of->c[m - 1][l - (m - r)] * power(s * l, b) * power(s * m, a);
                assert_int_equal(sum, a + b == 2 ? (int64_t)a * of->under : 0);
            }
    }
}

int main(void)
{
    struct failure failure;
    generations = pass_kernels(kernels);
    if (!thread_pool_open(3, &failure))
        return 1;
    return unit_run(NULL, NULL);
}
