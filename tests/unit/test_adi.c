/* Crank–Nicolson split by axes: its solves invert its rows, which test_schemes.py compares. */
#include "numerics/adi.h"
#include "numerics/job_check.h"
#include "tests/lib/random_scheme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINT_FUNCTION static inline __attribute__((unused))
#define REAL double
#define REAL_FMA(a, b, c) fma(a, b, c)
#define POINT_NAME(name) name##_f64
#include "numerics/adi_point.h"
#include "tests/unit/unit.h"

static void line_job(struct job *job, uint64_t n, double dt, struct boundary low,
                     struct boundary high)
{
    job_init(job);
    job->operator_id = OPERATOR_DIFFUSION;
    job->dtype = DTYPE_F64;
    job->order = 2;
    job->accuracy = 2;
    job->n[AXIS_X] = n;
    job->spacing[AXIS_X] = 0.3;
    job->diffusivity[AXIS_X] = 0.7;
    job->dt = dt;
    job->more.scheme = SCHEME_ADI;
    job->boundary[AXIS_X][SIDE_LOW] = low;
    job->boundary[AXIS_X][SIDE_HIGH] = high;
}

static void made(struct plan *plan, const struct job *job)
{
    struct failure failure = {.code = STATUS_OK};
    if (!job_check(job, INFINITY, &failure))
        fail_msg("%s", failure.message);
    assert_true(plan_init(plan, job, NULL));
    assert_int_equal(plan->engine, PLAN_ADI);
}

static double rate(const struct plan *plan, const double *u, int64_t i)
{
    const int64_t at[3] = {i, 0, 0};
    return adi_rate_f64(plan_table_rows(plan->table), NULL, AXIS_COUNT, u, 0, at);
}

/* The largest of r − (1 − dt/2 A) x, relative to that of r; A is the rate without data. */
static double residual(struct plan *plan, const double *r, const double *x, int64_t n)
{
    struct adi *adi = plan_table_rows(plan->table);
    double worst = 0, scale = 1e-300;
    for (int s = 0; s < SIDE_COUNT; s++)
        adi->axis[AXIS_X].side[s].value.number = adi->axis[AXIS_X].side[s].constant.number = 0;
    adi->source_value = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(r[i] - (x[i] - rate(plan, x, i) / 2)));
        scale = fmax(scale, fabs(r[i]));
    }
    return worst / scale;
}

TEST(test_solve)
{
    struct random random = random_start();
    static const uint64_t sizes[] = {2, 3, 4, 7, 33, 700, 5000};
    for (int i = 0; i < 3000; i++) {
        struct job job, line;
        struct plan plan;
        do
            random_adi_job(&random, 600, &job);
        while (job.more.coefficient || job.n[AXIS_X] < 2);
        line_job(&line, sizes[random_below(&random, 7)], exp(random_between(&random, -6, 9)),
                 job.boundary[AXIS_X][SIDE_LOW], job.boundary[AXIS_X][SIDE_HIGH]);
        for (int s = 0; s < SIDE_COUNT; s++)
            line.boundary[AXIS_X][s].value_array = line.boundary[AXIS_X][s].constant_array = 0;
        if (!job_is_valid(&line))
            continue; /* too short a line for its boundaries */
        const int64_t n = (int64_t)line.n[AXIS_X];
        const bool endpoint = line.boundary[AXIS_X][SIDE_LOW].kind == BOUNDARY_ENDPOINT;
        made(&plan, &line);
        const struct adi *adi = plan_table_rows(plan.table);
        double *r = malloc((size_t)n * sizeof *r), *x = malloc((size_t)n * sizeof *x);
        for (int64_t k = 0; k < n; k++)
            r[k] = random_between(&random, -1, 1);
        for (int s = 0; s < SIDE_COUNT; s++)
            if (adi->axis[AXIS_X].side[s].held)
                r[s ? n - 1 : 0] = 0;
        if (endpoint)
            r[n - 1] = r[0];
        memcpy(x, r, (size_t)n * sizeof *x);
        lines_solve_f64(&adi->axis[AXIS_X].lines,
                        (const double *)((const char *)adi + adi->axis[AXIS_X].lines.at), x, 1);
        /* 1 − dt/2 A is as large as 1 + 4 weight, times 1e-16 for each operation. */
        const double weight = adi->axis[AXIS_X].weight;
        if (!(residual(&plan, r, x, n) < 1e-14 * (1 + weight)))
            fail_msg("residual %g, n %d, weight %g, sides %u %u", residual(&plan, r, x, n), (int)n,
                     weight, line.boundary[AXIS_X][0].kind, line.boundary[AXIS_X][1].kind);
        free(r);
        free(x);
        plan_release(&plan);
    }
}
