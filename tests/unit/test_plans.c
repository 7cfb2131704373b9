/* The cache of plans returns the same as plan_init(), for any number of jobs. */
#include "gpu/worker/plans.h"
#include "tests/unit/unit.h"

#include <string.h>

static struct plans plans;

static int setup(void **state)
{
    plans_init(&plans);
    return 0;
}

static int teardown(void **state)
{
    plans_free(&plans);
    return plans.count != 0 || plans.bytes != 0;
}

static struct job job_of(uint64_t n)
{
    struct job job;
    job_init(&job);
    job.n[AXIS_X] = n;
    return job;
}

/* What the list keeps stays after it is given back. */
static const struct plan *find_or_make(const struct job *job, const void *block)
{
    const struct plan *plan = plans_find(&plans, job, block);
    if (!plan)
        plan = plans_make(&plans, job, block);
    plans_give(plan);
    return plan;
}

static void check(uint64_t n)
{
    const struct job job = job_of(n);
    const struct plan *kept = find_or_make(&job, NULL);
    struct plan plan;
    assert_true(plan_init(&plan, &job, NULL));
    assert_int_equal(kept->table->bytes, plan.table->bytes);
    assert_memory_equal(plan_table_rows(kept->table), plan_table_rows(plan.table),
                        plan.table->bytes);
    plan_release(&plan);
    plan.table = kept->table;
    assert_memory_equal(kept, &plan, sizeof plan);
}

TEST(plans_are_those_of_their_jobs, setup, teardown)
{
    for (int twice = 0; twice < 2; twice++)
        for (uint64_t n = 9; n < 9 + 3 * PLANS_KEPT; n++) {
            check(n);
            check(9 + n % 7);
        }
}

TEST(a_plan_that_is_kept_is_not_made_again, setup, teardown)
{
    const struct job first = job_of(100), second = job_of(101);
    const struct plan *plan = find_or_make(&first, NULL);
    assert_ptr_not_equal(find_or_make(&second, NULL), plan);
    assert_ptr_equal(find_or_make(&first, NULL), plan);
}

TEST(a_plan_stays_until_it_is_given_back, setup, teardown)
{
    const struct job job = job_of(100);
    const struct plan *plan = plans_make(&plans, &job, NULL);
    for (uint64_t n = 101; n < 101 + PLANS_KEPT; n++)
        check(n);
    assert_null(plans_find(&plans, &job, NULL));
    assert_int_equal(plan->axis[AXIS_X].n, 100);
    assert_true(plan->table->bytes > 0);
    plans_give(plan);
}

/* The cache keeps only as many jobs with many coordinates as their tables and blocks fit. */
TEST(plans_are_bounded_in_bytes, setup, teardown)
{
    static double x[65536];
    struct job job = job_of(65536);
    job.accuracy = 2;
    job.boundary[AXIS_X][SIDE_LOW].kind = job.boundary[AXIS_X][SIDE_HIGH].kind = BOUNDARY_ONE_SIDED;
    job.more.coordinates = 1;
    job.more.block_bytes = sizeof x;
    for (int i = 0; i < 65536; i++)
        x[i] = i;
    for (int i = 0; i < PLANS_KEPT; i++) {
        x[0] = -i;
        job_block_key(x, sizeof x, job.more.block_key);
        const struct plan *plan = find_or_make(&job, x);
        assert_ptr_equal(find_or_make(&job, x), plan);
        uint64_t bytes = 0;
        LIST_EACH (struct kept_plan, kept, &plans.kept, link)
            bytes += sizeof x + kept->plan.table->bytes;
        assert_true(bytes == plans.bytes && bytes <= PLANS_KEPT_BYTES);
    }
    assert_true(plans.count > 1 && plans.count < PLANS_KEPT);
}
