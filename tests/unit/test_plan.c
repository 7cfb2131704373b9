/* The weights against exact fractions and against their definition: the polynomials that they
 * differentiate exactly. */
#include "numerics/plan.h"
#include "numerics/job_check.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double first[4][5] = {
    {0, 1. / 2},
    {0, 2. / 3, -1. / 12},
    {0, 3. / 4, -3. / 20, 1. / 60},
    {0, 4. / 5, -1. / 5, 4. / 105, -1. / 280},
};

static const double second[4][5] = {
    {-2, 1},
    {-5. / 2, 4. / 3, -1. / 12},
    {-49. / 18, 3. / 2, -3. / 20, 1. / 90},
    {-205. / 72, 8. / 5, -1. / 5, 8. / 315, -1. / 560},
};

static const double symbol[4] = {4, 16. / 3, 272. / 45, 2048. / 315};

/* findiff's forward stencils at the edge itself, as numerators over one denominator. */
struct table {
    int order, accuracy, under, over[10];
};
static const struct table forward[] = {
    {1, 2, 2, {-3, 4, -1}},
    {1, 4, 12, {-25, 48, -36, 16, -3}},
    {1, 6, 60, {-147, 360, -450, 400, -225, 72, -10}},
    {1, 8, 840, {-2283, 6720, -11760, 15680, -14700, 9408, -3920, 960, -105}},
    {2, 2, 1, {2, -5, 4, -1}},
    {2, 4, 12, {45, -154, 214, -156, 61, -10}},
    {2, 6, 180, {938, -4014, 7911, -9490, 7380, -3618, 1019, -126}},
    {2, 8, 5040, {32575, -165924, 422568, -704368, 818874, -667800, 375704, -139248, 30663, -3044}},
};

static void derivative_job(struct job *job, int order, int accuracy, uint64_t kind)
{
    job_init(job);
    job->dtype = DTYPE_F64;
    job->order = (uint8_t)order;
    job->accuracy = (uint8_t)accuracy;
    job->n[AXIS_X] = 40;
    job->boundary[AXIS_X][SIDE_LOW].kind = job->boundary[AXIS_X][SIDE_HIGH].kind = kind;
}

static void diffusion_job(struct job *job, int axes, int accuracy)
{
    job_init(job);
    job->operator_id = OPERATOR_DIFFUSION;
    job->dtype = DTYPE_F64;
    job->axes = (uint8_t)axes;
    job->accuracy = (uint8_t)accuracy;
    job->dt = 0.125;
    for (int a = 0; a < axes; a++) {
        job->n[a] = 30;
        job->diffusivity[a] = 1;
    }
}

static void planned(struct plan *plan, const struct job *job)
{
    struct failure failure = {.code = STATUS_OK};
    if (!job_check(job, INFINITY, &failure))
        fail_msg("%s", failure.message);
    memset(plan, 0xa5, sizeof *plan);
    assert_true(plan_init(plan, job, NULL));
    plan_release(plan); /* its own numbers stay */
}

/* A quotient of small integers in double is the fraction rounded once: so must the weights be. */
TEST(test_central)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2)
        for (int order = 1; order <= 2; order++)
            for (int dtype = 0; dtype < 2; dtype++) {
                const int r = accuracy / 2;
                struct job job;
                struct plan plan;
                derivative_job(&job, order, accuracy, BOUNDARY_PERIODIC);
                job.dtype = (uint8_t)dtype;
                planned(&plan, &job);
                assert_int_equal(plan.radius, r);
                assert_int_equal(plan.parity, order == 1 ? PLAN_ODD : PLAN_EVEN);
                assert_int_equal(plan.shared, order == 2);
                assert_int_equal(plan.identity, 0);
                const double *exact = order == 1 ? first[r - 1] : second[r - 1];
                for (int m = 1; m <= r; m++)
                    assert_true(plan.axis[AXIS_X].c[m] ==
                                (dtype == DTYPE_F32 ? (double)(float)exact[m] : exact[m]));
                if (order == 2) {
                    assert_true(plan.centre[1] ==
                                (dtype == DTYPE_F32 ? (double)(float)exact[0] : exact[0]));
                    assert_true(plan.centre[0] == 0);
                }
            }
}

/* Σ C = 0 for the second derivative, Σ 2m C_m = 1 for the first, and the symbol at the grid's
 * highest frequency is the one that the stability limit uses. */
TEST(test_sums)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
        const int r = accuracy / 2;
        struct job job;
        struct plan plan;
        derivative_job(&job, 2, accuracy, BOUNDARY_PERIODIC);
        planned(&plan, &job);
        double sum = plan.centre[1], highest = plan.centre[1];
        for (int m = 1; m <= r; m++) {
            sum += 2 * plan.axis[AXIS_X].c[m];
            highest += (m % 2 ? -2 : 2) * plan.axis[AXIS_X].c[m];
        }
        assert_true(fabs(sum) < 1e-15);
        assert_true(fabs(highest + symbol[r - 1]) < 1e-14);
        derivative_job(&job, 1, accuracy, BOUNDARY_PERIODIC);
        planned(&plan, &job);
        sum = 0;
        for (int m = 1; m <= r; m++)
            sum += 2 * m * plan.axis[AXIS_X].c[m];
        assert_true(fabs(sum - 1) < 1e-15);
    }
}

TEST(test_scaling)
{
    struct job job;
    struct plan plan;
    derivative_job(&job, 1, 2, BOUNDARY_PERIODIC);
    job.spacing[AXIS_X] = 0.1;
    planned(&plan, &job);
    /* 1/2 over the double nearest 0.1, rounded once: what one division in double gives. */
    assert_true(plan.axis[AXIS_X].c[1] == 0.5 / 0.1);
    job.spacing[AXIS_X] = 3;
    job.accuracy = 8;
    planned(&plan, &job);
    assert_true(plan.axis[AXIS_X].c[3] == 4.0 / 315.0);
    assert_true(plan.axis[AXIS_X].c[4] == -1.0 / 840.0);

    diffusion_job(&job, 3, 2);
    job.dt = 3.0 / 64;
    job.spacing[AXIS_Y] = 0.5;
    job.diffusivity[AXIS_Z] = 2.25;
    planned(&plan, &job);
    const double cx = 3.0 / 64, cy = 3.0 / 16, cz = 6.75 / 64;
    assert_int_equal(plan.identity, 1);
    assert_int_equal(plan.shared, 0);
    assert_true(plan.axis[AXIS_X].c[1] == cx);
    assert_true(plan.axis[AXIS_Y].c[1] == cy);
    assert_true(plan.axis[AXIS_Z].c[1] == cz);
    for (int set = 0; set < 8; set++)
        assert_true(plan.centre[set] ==
                    1 - 2 * ((set & 1 ? cx : 0) + (set & 2 ? cy : 0) + (set & 4 ? cz : 0)));
}

/* The value of the derivative of x^power at 0 from a row of weights on integer points. */
static double moment(const double *weights, int count, int first_point, int power)
{
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += weights[k] * pow(first_point + k, power);
    return sum;
}

/* A row differentiates exactly every polynomial that its points determine. */
static void check_polynomials(const struct plan_axis *axis, int row, int order)
{
    const int first_point = -row;
    for (int power = 0; power < axis->row_points; power++) {
        double size = 0;
        for (int k = 0; k < axis->row_points; k++)
            size += fabs(axis->row[row][k]) * fabs(pow(first_point + k, power));
        const double exact = power != order ? 0 : order == 1 ? 1 : 2;
        const double error =
            fabs(moment(axis->row[row], axis->row_points, first_point, power) - exact);
        assert_true(error <= 1e-14 * size);
    }
}

TEST(test_one_sided)
{
    for (size_t t = 0; t < sizeof forward / sizeof *forward; t++) {
        const struct table *table = &forward[t];
        struct job job;
        struct plan plan;
        derivative_job(&job, table->order, table->accuracy, BOUNDARY_ONE_SIDED);
        planned(&plan, &job);
        const struct plan_axis *axis = &plan.axis[AXIS_X];
        assert_int_equal(axis->row_points, table->order + table->accuracy);
        for (int side = 0; side < SIDE_COUNT; side++) {
            assert_int_equal(axis->side[side].rows, table->accuracy / 2);
            assert_int_equal(axis->side[side].map, SIDE_MAP_NONE);
            assert_int_equal(axis->side[side].held, 0);
        }
        for (int k = 0; k < axis->row_points; k++)
            assert_true(axis->row[0][k] == (double)table->over[k] / table->under);
        for (int d = 0; d < table->accuracy / 2; d++)
            check_polynomials(axis, d, table->order);
    }
}

TEST(test_value)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
        struct job job;
        struct plan plan;
        diffusion_job(&job, 1, accuracy);
        job.dt = 0.0625; /* a power of two: rows are then exact multiples of the plain ones */
        job.boundary[AXIS_X][SIDE_LOW] = (struct boundary){.kind = BOUNDARY_VALUE, .value = 0.1};
        job.boundary[AXIS_X][SIDE_HIGH].kind = BOUNDARY_DERIVATIVE;
        planned(&plan, &job);
        struct plan_axis axis = plan.axis[AXIS_X];
        assert_int_equal(plan.holds, 1);
        assert_int_equal(plan.impose, 1);
        assert_int_equal(plan.passes, 2);
        assert_int_equal(axis.row_points, accuracy + 2);
        assert_int_equal(axis.side[SIDE_LOW].held, 1);
        assert_int_equal(axis.side[SIDE_LOW].halo, 0);
        assert_true(axis.side[SIDE_LOW].value.number == 0.1);
        assert_int_equal(axis.side[SIDE_LOW].rows, accuracy / 2);
        assert_int_equal(axis.side[SIDE_HIGH].map, SIDE_MAP_NODE);
        assert_int_equal(axis.side[SIDE_HIGH].rows, 0);
        assert_int_equal(axis.side[SIDE_HIGH].held, 0);
        for (int d = 1; d < accuracy / 2; d++) {
            for (int k = 0; k < axis.row_points; k++)
                axis.row[d][k] *= 16;
            check_polynomials(&axis, d, 2);
        }
        job.dtype = DTYPE_F32;
        planned(&plan, &job);
        assert_true(plan.axis[AXIS_X].side[SIDE_LOW].value.number == (double)0.1f);
    }
}

TEST(test_halo)
{
    struct job job;
    struct plan plan;
    diffusion_job(&job, 2, 6);
    job.steps = 4;
    job.boundary[AXIS_Y][SIDE_HIGH] = (struct boundary){.kind = BOUNDARY_HALO, .value = 0.75};
    job.boundary[AXIS_Y][SIDE_LOW] = (struct boundary){.kind = BOUNDARY_DERIVATIVE};
    planned(&plan, &job);
    const struct side *side = &plan.axis[AXIS_Y].side[SIDE_HIGH];
    assert_int_equal(side->held, 3);
    assert_int_equal(side->halo, 1);
    assert_true(side->value.number == 0.75);
    assert_int_equal(side->rows, 0);
    assert_int_equal(side->map, SIDE_MAP_NONE);
    assert_int_equal(plan.holds, 1);
    assert_int_equal(plan.impose, 0);
    assert_int_equal(plan.passes, 4);
    assert_int_equal(plan.axis[AXIS_X].side[SIDE_LOW].map, SIDE_MAP_PERIODIC);
    assert_int_equal(plan.axis[AXIS_X].side[SIDE_LOW].held, 0);
}

TEST(test_shape)
{
    struct job job;
    struct plan plan;
    job_init(&job);
    job.axes = 3;
    job.axis = AXIS_Y;
    job.n[AXIS_X] = 5;
    job.n[AXIS_Y] = 7;
    job.n[AXIS_Z] = 11;
    job.batch = 3;
    job.boundary[AXIS_Y][SIDE_LOW].kind = job.boundary[AXIS_Y][SIDE_HIGH].kind = BOUNDARY_ENDPOINT;
    planned(&plan, &job);
    assert_int_equal(plan.form, PLAN_SCALAR);
    assert_int_equal(plan.inputs, 1);
    assert_int_equal(plan.outputs, 1);
    assert_int_equal(plan.batch, 3);
    assert_int_equal(plan.lines, 7 * 11 * 3);
    assert_int_equal(plan.points, 5 * 7 * 11);
    assert_int_equal(plan.passes, 1);
    assert_int_equal(plan.axis[AXIS_X].stride, 1);
    assert_int_equal(plan.axis[AXIS_Y].stride, 5);
    assert_int_equal(plan.axis[AXIS_Z].stride, 35);
    assert_int_equal(plan.axis[AXIS_X].active, 0);
    assert_int_equal(plan.axis[AXIS_Y].active, 1);
    assert_int_equal(plan.axis[AXIS_Z].active, 0);
    assert_int_equal(plan.axis[AXIS_Y].side[SIDE_HIGH].map, SIDE_MAP_ENDPOINT);
}

TEST(test_shared)
{
    struct job job;
    struct plan plan;
    diffusion_job(&job, 3, 8);
    job.dt = 0.0625;
    planned(&plan, &job);
    assert_int_equal(plan.shared, 1);
    /* One unit in the last place of one spacing is enough to tell axes apart, in double. */
    job.spacing[AXIS_Z] = nextafter(1, 2);
    planned(&plan, &job);
    assert_int_equal(plan.shared, 0);
    job.dtype = DTYPE_F32;
    planned(&plan, &job);
    assert_int_equal(plan.shared, 1);
    /* κ = 0 along an axis: it stays one of the sum. */
    job.spacing[AXIS_Z] = 1;
    job.diffusivity[AXIS_X] = 0;
    planned(&plan, &job);
    assert_int_equal(plan.shared, 0);
    assert_int_equal(plan.axis[AXIS_X].active, 1);
    diffusion_job(&job, 1, 4);
    planned(&plan, &job);
    assert_int_equal(plan.shared, 1);
    assert_int_equal(plan.axis[AXIS_Y].active, 0);
    assert_int_equal(plan.axis[AXIS_Z].active, 0);
}
