/* The engine of tables against two others: gpu/point.h, to the bit, wherever that can do the job;
 * and an evaluation in long double straight from protocol/rows.h, which shares no code with it. */
#include "gpu/host/pass.h"
#include "gpu/table.h"
#include "protocol/job_rows.h"
#include "tests/lib/random_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { JOBS = 600, MOST_POINTS = 3000 };

static const struct kernels *kernels[PASS_KERNELS];
static int generations;

/* All of the job by the engine, from in to out. */
static void run_table(const struct kernels *kernel, const struct plan *plan,
                      void *const in[AXIS_COUNT], void *const out[AXIS_COUNT],
                      const struct operands *operands)
{
    const uint64_t bytes = plan_array_bytes(plan);
    void *odd = plan->passes > 1 ? malloc(bytes) : NULL;
    struct launch launch = {
        .plan = plan, .odd = odd, .operands = operands, .to = plan->lines * plan->passes};
    for (int c = 0; c < AXIS_COUNT; c++) {
        launch.in[c] = in[c];
        launch.even[c] = out[c];
    }
    pass_launch(kernel, &launch, UINT64_MAX);
    if (plan->passes % 2 == 0)
        memcpy(out[0], odd, bytes);
    free(odd);
}

static void plain_jobs_have_the_bits_of_the_contract(void **state)
{
    (void)state;
    struct random random = random_start();
    for (int k = 0; k < JOBS; k++) {
        struct job job;
        struct plan plain, table;
        void *in[AXIS_COUNT], *out[AXIS_COUNT], *expected[AXIS_COUNT];
        do
            random_job(&random, MOST_POINTS, &job);
        while (!job_is_plain(&job));
        assert_true(plan_init(&plain, &job, NULL));
        assert_true(plan_init_by(&table, &job, NULL, PLAN_TABLE));
        arrays_make(in, plain.inputs, job_bytes(&job), 0);
        arrays_make(out, plain.outputs, job_bytes(&job), 0xa5);
        arrays_make(expected, plain.outputs, job_bytes(&job), 0x5a);
        for (int c = 0; c < plain.inputs; c++) {
            random_field(&random, &job, in[c]);
            random_exceptions(&random, &job, in[c]);
        }
        reference_run(&plain, in, expected);
        run_table(kernels[random_below(&random, (uint64_t)generations)], &table, in, out, NULL);
        for (int c = 0; c < plain.outputs; c++)
            if (!results_equal(&job, out[c], expected[c])) {
                random_job_print(&job);
                fail_msg("component %d differs", c);
            }
        plan_release(&table);
        arrays_free(in);
        arrays_free(out);
        arrays_free(expected);
    }
}

/* --- an evaluation of its own --- */

/* What a slow evaluation reads: a component, as doubles hold it. */
struct model {
    const struct job *job;
    const struct operands *operands;
    uint64_t batch;
    const long double *field[AXIS_COUNT];
};

static double element(const struct job *job, const void *array, uint64_t i)
{
    return job->dtype == DTYPE_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
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

static bool is_value_node(const struct model *model, const int64_t at[AXIS_COUNT], double *value)
{
    const struct job *job = model->job;
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct boundary *boundary = &job->boundary[a][s];
            const int64_t d = s == SIDE_LOW ? at[a] : (int64_t)job->n[a] - 1 - at[a];
            struct rows_axis rows;
            job_rows(job, a, NULL, &rows);
            if (boundary->kind == BOUNDARY_HALO &&
                d < rows_radius(&rows, job_order(job), job->accuracy, ROWS_AT_NODE))
                return false;
            if (boundary->kind == BOUNDARY_VALUE && !boundary->at_face && d == 0) {
                *value = model_number(model, a, s, false, at);
                return true;
            }
        }
    return false;
}

static bool is_halo(const struct job *job, const int64_t at[AXIS_COUNT], double *factor)
{
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const int64_t d = s == SIDE_LOW ? at[a] : (int64_t)job->n[a] - 1 - at[a];
            struct rows_axis rows;
            job_rows(job, a, NULL, &rows);
            if (job->boundary[a][s].kind == BOUNDARY_HALO &&
                d < rows_radius(&rows, job_order(job), job->accuracy, ROWS_AT_NODE)) {
                *factor = job->boundary[a][s].value;
                return true;
            }
        }
    return false;
}

static long double model_at(const struct model *model, int c, const int64_t at[AXIS_COUNT])
{
    const struct job *job = model->job;
    double value;
    if (is_value_node(model, at, &value))
        return value;
    return model->field[c][(at[2] * (int64_t)job->n[1] + at[1]) * (int64_t)job->n[0] + at[0]];
}

static long double model_on_line(const struct model *model, int c, int a,
                                 const int64_t at[AXIS_COUNT], int64_t j)
{
    int64_t there[AXIS_COUNT] = {at[0], at[1], at[2]};
    there[a] = j;
    return model_at(model, c, there);
}

/* What a side states to the rows, of the line through at[]. */
static long double model_datum(const struct model *model, int c, int a, int s,
                               const int64_t at[AXIS_COUNT])
{
    const struct job *job = model->job;
    const struct boundary *boundary = &job->boundary[a][s];
    const long double value = model_number(model, a, s, false, at);
    if (boundary->kind != BOUNDARY_MIXED)
        return value;
    const long double constant = model_number(model, a, s, true, at);
    if (!boundary->at_face)
        return constant - value * model_on_line(model, c, a, at, s ? (int64_t)job->n[a] - 1 : 0);
    struct rows_axis rows;
    struct rows_row face;
    job_rows(job, a, NULL, &rows);
    assert_true(rows_face(&rows, job_order(job), job->accuracy, s, &face));
    long double sum = (long double)face.data[s] * constant;
    for (int k = 0; k < face.count; k++)
        sum += (long double)face.w[k] *
               model_on_line(model, c, a, at, face.first + (int64_t)k * face.step);
    return constant - value * (sum / (1 + (long double)face.data[s] * value));
}

/* The derivative along an axis; *size: the sum of its terms' magnitudes. */
static long double model_derivative(const struct model *model, int c, int a, int order,
                                    const int64_t at[AXIS_COUNT], long double *size)
{
    const struct job *job = model->job;
    struct rows_axis rows;
    struct rows_row row;
    long double sum = 0;
    job_rows(job, a, NULL, &rows);
    if (!rows_make(&rows, order, job->accuracy, ROWS_AT_NODE, at[a], &row))
        fail_msg("no row");
    for (int k = 0; k < row.count; k++) {
        const struct rows_place place = rows_map(&rows, row.first + (int64_t)k * row.step);
        const long double term =
            (long double)row.w[k] * place.sign * model_on_line(model, c, a, at, place.at);
        sum += term;
        *size += fabsl(term);
    }
    for (int s = 0; s < SIDE_COUNT; s++)
        if (row.data[s] != 0) {
            const long double term = (long double)row.data[s] * model_datum(model, c, a, s, at);
            sum += term;
            *size += fabsl(term);
        }
    return sum;
}

static long double model_component(const struct model *model, int c, const int64_t at[AXIS_COUNT],
                                   long double *size)
{
    const struct job *job = model->job;
    const int order = job_order(job);
    double factor, value;
    long double sum = 0;
    if (job->operator_id == OPERATOR_DIFFUSION) {
        if (is_value_node(model, at, &value))
            return value;
        if (is_halo(job, at, &factor))
            return factor * model_at(model, 0, at);
        for (int a = 0; a < job->axes; a++) {
            long double terms = 0;
            const long double scale = (long double)job->diffusivity[a] * job->dt;
            sum += scale * model_derivative(model, 0, a, 2, at, &terms);
            *size += scale * terms;
        }
        *size += fabsl(model_at(model, 0, at));
        return sum + model_at(model, 0, at);
    }
    if (is_halo(job, at, &factor))
        return job_inputs(job) > job_outputs(job)
                   ? 0
                   : factor * model_at(model, job_inputs(job) > 1 ? c : 0, at);
    switch (job->operator_id) {
    case OPERATOR_DERIVATIVE:
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
            sum += model_derivative(model, job->operator_id == OPERATOR_DIVERGENCE ? a : 0, a,
                                    order, at, size);
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

static void check_model(const struct job *job, const struct operands *operands,
                        void *const in[AXIS_COUNT], void *const out[AXIS_COUNT])
{
    const uint64_t points = job_points(job), each = points / job->batch;
    const long double unit = job->dtype == DTYPE_F32 ? 0x1p-24L : 0x1p-53L;
    long double *fields[AXIS_COUNT] = {0};
    struct model model = {.job = job, .operands = operands};
    for (int c = 0; c < job_inputs(job); c++) {
        fields[c] = malloc(points * sizeof **fields);
        for (uint64_t i = 0; i < points; i++)
            fields[c][i] = element(job, in[c], i);
    }
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t place = i % each;
        const int64_t at[AXIS_COUNT] = {(int64_t)(place % job->n[0]),
                                        (int64_t)(place / job->n[0] % job->n[1]),
                                        (int64_t)(place / job->n[0] / job->n[1])};
        model.batch = i / each;
        for (int c = 0; c < job_inputs(job); c++)
            model.field[c] = fields[c] + model.batch * each;
        for (int c = 0; c < job_outputs(job); c++) {
            long double size = 0;
            const long double expected = model_component(&model, c, at, &size);
            const long double error = fabsl(element(job, out[c], i) - expected);
            if (!(error <= 32 * unit * (size + fabsl(expected)))) {
                random_job_print(job);
                fail_msg("component %d at %d %d %d: %g is not %Lg (of terms %Lg)", c, (int)at[0],
                         (int)at[1], (int)at[2], element(job, out[c], i), expected, size);
            }
        }
    }
    for (int c = 0; c < AXIS_COUNT; c++)
        free(fields[c]);
}

static void all_boundaries_are_those_of_their_rows(void **state)
{
    (void)state;
    struct random random = random_start();
    int seen[BOUNDARY_KINDS] = {0};
    for (int k = 0; k < JOBS; k++) {
        struct job job;
        struct plan plan;
        void *in[AXIS_COUNT], *out[AXIS_COUNT];
        do
            random_table_job(&random, MOST_POINTS, &job);
        while (job.steps > 1); /* of several the errors add up */
        for (int a = 0; a < job.axes; a++)
            for (int s = 0; s < SIDE_COUNT; s++)
                seen[job.boundary[a][s].kind]++;
        struct operands operands;
        random_operands(&random, &job, &operands);
        assert_true(plan_init(&plan, &job, NULL));
        arrays_make(in, plan.inputs, job_bytes(&job), 0);
        arrays_make(out, plan.outputs, job_bytes(&job), 0xa5);
        for (int c = 0; c < plan.inputs; c++)
            for (uint64_t i = 0; i < job_points(&job); i++)
                set_element(&job, in[c], i, (float)random_between(&random, -1, 1));
        run_table(kernels[k % generations], &plan, in, out, &operands);
        check_model(&job, &operands, in, out);
        operands_free(&operands);
        plan_release(&plan);
        arrays_free(in);
        arrays_free(out);
    }
    for (int kind = 0; kind < BOUNDARY_KINDS; kind++)
        assert_true(seen[kind] > JOBS / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_jobs_have_the_bits_of_the_contract),
        cmocka_unit_test(all_boundaries_are_those_of_their_rows),
    };
    generations = pass_kernels(kernels);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
