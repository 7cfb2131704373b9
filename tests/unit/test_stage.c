/* The passes of every scheme: each reads only written arrays and overwrites no input that is still
 * needed, and together they are the scheme, here for one equation u' = λu. */
#include "numerics/stage.h"
#include "tests/unit/unit.h"

#include <math.h>

enum { ARRAYS = STAGE_ARRAYS };

/* And ADI with a field κ, which in 3D is symmetric. */
enum { ADI_OF_FIELD = SCHEME_COUNT, SCHEMES };

static void make(struct job *job, struct plan *plan, int scheme, int axes, bool impose,
                 uint64_t steps)
{
    job_init(job);
    job->operator_id = OPERATOR_DIFFUSION;
    job->order = 2;
    job->axes = (uint8_t)axes;
    job->more.coefficient = scheme == ADI_OF_FIELD;
    job->more.scheme = (uint8_t)(scheme == ADI_OF_FIELD ? SCHEME_ADI : scheme);
    for (int a = 0; a < axes; a++)
        job->n[a] = 2;
    job->steps = steps;
    if (impose)
        job->boundary[AXIS_X][SIDE_LOW].kind = job->boundary[AXIS_X][SIDE_HIGH].kind =
            BOUNDARY_VALUE;
    *plan = (struct plan){.passes = job_passes(job),
                          .impose = impose,
                          .scheme = job->more.scheme,
                          .symmetric = job_is_symmetric_split(job),
                          .step_passes = (int32_t)job_step_passes(job)};
    assert_int_equal(plan->passes, steps * job_step_passes(job) + impose);
}

/* Whether the pass reads neighbours of a point. */
static bool looks_around(const struct stage *stage)
{
    return stage->kind == STAGE_STEP || stage->kind == STAGE_PART || stage->kind == STAGE_RATE;
}

static void check_arrays(int scheme, int axes, bool impose, uint64_t steps)
{
    struct job job;
    struct plan plan;
    make(&job, &plan, scheme, axes, impose, steps);
    const int scratch = job_scratch(&job, false, false);
    bool is_written[ARRAYS] = {[STAGE_IN] = true};
    int64_t done = impose ? -1 : 0;
    for (uint64_t pass = 0; pass < plan.passes; pass++) {
        const struct stage stage = stage_of(&plan, pass);
        assert_true(is_written[stage.read] && is_written[stage.base]);
        assert_int_not_equal(stage.write, STAGE_IN);
        assert_true(stage.write <= STAGE_EVEN + (plan.passes > 1 ? scratch : 0));
        /* In place, the output is the input too; of the schemes that pass to and fro it never is.
         */
        const bool in_place = scheme != SCHEME_EULER;
        if (looks_around(&stage)) {
            assert_int_not_equal(stage.read, stage.write);
            if (in_place && stage.write == STAGE_EVEN)
                assert_int_not_equal(stage.read, STAGE_IN);
        }
        is_written[stage.write] = true;
        if (stage.kind == STAGE_SOLVE && job.more.coefficient) /* what is eliminated lies there */
            is_written[STAGE_SPARE] = is_written[STAGE_SPARE + 1] = true;
        if (stage.steps_done >= 0) {
            assert_int_equal(stage.steps_done, done + 1);
            done = stage.steps_done;
        }
        assert_int_equal(job_steps_done(&job, pass + 1), done < 0 ? 0 : done);
        if (pass + 1 == plan.passes && scheme != SCHEME_EULER)
            assert_int_equal(stage.write, STAGE_EVEN);
    }
    assert_int_equal(done, steps);
    for (int i = 0; i < scratch && plan.passes > 1; i++)
        assert_true(is_written[STAGE_ODD + i]);
}

TEST(test_arrays)
{
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int axes = 1; axes <= AXIS_COUNT; axes++)
            for (uint64_t steps = 1; steps <= 4; steps++)
                for (int impose = 0; impose < 2; impose++)
                    check_arrays(scheme, axes, impose, steps);
}

/* λ dt along each axis. */
static const double rate[AXIS_COUNT] = {-0.75, -1.5, -0.25};

/* … of a factor of the symmetric split. */
static double part(int axis)
{
    return axis == AXIS_Z ? rate[axis] : rate[axis] / 2;
}

static double run(const struct plan *plan, int axes, double u)
{
    static const double parts[STAGE_PARTS] = {1. / 4, 1. / 3, 1. / 2, 1};
    double a[ARRAYS] = {[STAGE_IN] = u}, all = 0;
    struct stage stage = {0};
    for (int i = 0; i < axes; i++)
        all += rate[i];
    for (uint64_t pass = 0; pass < plan->passes; pass++) {
        stage = stage_of(plan, pass);
        double *write = &a[stage.write];
        switch (stage.kind) {
        case STAGE_IMPOSE:
            *write = a[stage.read];
            break;
        case STAGE_STEP:
            *write = a[stage.read] + all * a[stage.read];
            break;
        case STAGE_PART:
            *write = a[stage.base] + parts[stage.part] * all * a[stage.read];
            break;
        case STAGE_RATE:
            *write = (stage.axis < AXIS_COUNT ? part(stage.axis) : all) * a[stage.base];
            break;
        case STAGE_SOLVE:
            *write /= 1 - (plan->symmetric ? part(stage.axis) : rate[stage.axis]) / 2;
            break;
        case STAGE_ADD:
            *write = a[stage.base] + a[stage.read];
            break;
        }
    }
    return a[stage.write];
}

TEST(test_schemes)
{
    for (int axes = 1; axes <= AXIS_COUNT; axes++)
        for (int steps = 1; steps <= 4; steps++)
            for (int impose = 0; impose < 2; impose++) {
                struct job job;
                struct plan plan;
                double z = 0, implicit = 1, symmetric = 1;
                for (int i = 0; i < axes; i++) {
                    z += rate[i];
                    implicit *= 1 - rate[i] / 2;
                    symmetric *= pow((1 + part(i) / 2) / (1 - part(i) / 2), i == AXIS_Z ? 1 : 2);
                }
                const double factor[SCHEMES] = {
                    1 + z, 1 + z + z * z / 2 + z * z * z / 6 + z * z * z * z / 24, 1 + z / implicit,
                    axes == AXIS_COUNT ? symmetric : 1 + z / implicit};
                for (int scheme = 0; scheme < SCHEMES; scheme++) {
                    make(&job, &plan, scheme, axes, impose, (uint64_t)steps);
                    assert_true(fabs(run(&plan, axes, 3) - 3 * pow(factor[scheme], steps)) < 1e-14);
                }
            }
}
