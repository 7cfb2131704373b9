/* A plan's weights are scaled and rounded once (test_exact.py has those of all rows); its sides,
 * passes and shape are those of its job. */
#include "numerics/job_check.h"
#include "numerics/plan.h"
#include "tests/lib/job_of.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static void diffusion_job(struct job *job, int axes, int accuracy)
{
    *job = diffusion_of(DTYPE_F64, 30, axes > 1 ? 30 : 1, axes > 2 ? 30 : 1, accuracy, 1);
    job->dt = 0.125;
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

TEST(test_scaling)
{
    struct job job;
    struct plan plan;
    job = job_of(OPERATOR_DERIVATIVE, DTYPE_F64, 40, 1, 1, 2);
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

TEST(test_value)
{
    for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
        struct job job;
        struct plan plan;
        diffusion_job(&job, 1, accuracy);
        job.boundary[AXIS_X][SIDE_LOW] = (struct boundary){.kind = BOUNDARY_VALUE, .value = 0.1};
        job.boundary[AXIS_X][SIDE_HIGH].kind = BOUNDARY_DERIVATIVE;
        planned(&plan, &job);
        const struct plan_axis axis = plan.axis[AXIS_X];
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
    job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 5, 7, 11, 8);
    job.axis = AXIS_Y;
    job.batch = 3;
    job_set_sides(&job, AXIS_Y, (struct boundary){.kind = BOUNDARY_ENDPOINT});
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
