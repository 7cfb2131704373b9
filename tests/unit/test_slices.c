/* A job's slices: together all of its lines, once; none much longer than a slice's time; and, where
 * a device does whole passes, of as many as it does at once to and fro. */
#include "gpu/worker/slices.h"

#include "tests/lib/job_of.h"
#include "tests/unit/unit.h"

static int memory[3];
static const struct buffers buffers = {
    .in = {&memory[0]}, .out = {&memory[1]}, .scratch = {&memory[2]}};

/* Run all slices, of which each line takes so long. Returns how many there are; *ends: the passes
 * that the first of them have done. */
static int run_all(const struct plan *plan, bool splits, uint64_t first, double us_a_line,
                   uint64_t ends[8])
{
    struct slices slices;
    struct launch launch;
    uint64_t done = 0;
    int count = 0;
    slices_begin(&slices, plan, splits, first, &buffers);
    while (slices_next(&slices, &launch)) {
        assert_int_equal(launch.from, done);
        assert_true(launch.to > launch.from);
        if (!splits)
            assert_int_equal(launch.to % plan->lines, 0);
        done = launch.to;
        if (count < 8)
            ends[count] = done / plan->lines;
        const uint64_t us = (uint64_t)((double)(launch.to - launch.from) * us_a_line);
        assert_true(count == 0 || us <= 20000); /* the first is a guess */
        slices_completed(&slices, us);
        count++;
    }
    assert_int_equal(done, plan->passes * plan->lines);
    return count;
}

/* Of so many steps of a cube of n points a side. */
static struct plan plan_of(uint64_t n, uint64_t steps)
{
    struct job job = diffusion_of(DTYPE_F32, n, n, n, 2, steps);
    struct plan plan;
    job.dt = 0.1;
    assert_true(plan_init(&plan, &job, NULL));
    return plan;
}

TEST(slices_are_whole_groups_of_passes)
{
    struct plan plan = plan_of(128, 1000);
    uint64_t ends[8];
    const double us_a_line = 150.0 / (double)plan.lines; /* 66 passes in 10 ms */
    run_all(&plan, false, 0, us_a_line, ends);
    for (int i = 0; i < 8; i++)
        assert_int_equal(ends[i] % 16, 0);
    run_all(&plan, false, 0, 5 * us_a_line, ends); /* 13 */
    for (int i = 0; i < 8; i++)
        assert_int_equal(ends[i] % 8, 0);
    run_all(&plan, false, 0, 50 * us_a_line, ends); /* 1 */
    assert_int_equal(ends[7], ends[6] + 1);
    run_all(&plan, true, 0, us_a_line, ends);
    plan_release(&plan);
}

TEST(a_job_whose_rate_is_known_begins_with_a_whole_slice)
{
    struct plan plan = plan_of(512, 64);
    uint64_t ends[8];
    const double us_a_line = 126.0 / (double)plan.lines; /* all of it in 8 ms */
    assert_true(run_all(&plan, false, 0, us_a_line, ends) > 1);
    assert_int_equal(ends[0], 1);
    assert_int_equal(run_all(&plan, false, 79 * plan.lines, us_a_line, ends), 1);
    plan_release(&plan);
}
