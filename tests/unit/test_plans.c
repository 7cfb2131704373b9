/* The table of plans gives what plan_init() gives, however many jobs pass through it. */
#include "gpu/plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static struct plans plans;

static struct job job_of(uint64_t n)
{
    struct job job;
    job_init(&job);
    job.n[AXIS_X] = n;
    return job;
}

static void check(uint64_t n)
{
    const struct job job = job_of(n);
    struct plan plan;
    plan_init(&plan, &job, NULL);
    assert_memory_equal(plans_get(&plans, &job, NULL), &plan, sizeof plan);
}

static void plans_are_those_of_their_jobs(void **state)
{
    (void)state;
    for (int twice = 0; twice < 2; twice++)
        for (uint64_t n = 9; n < 9 + 3 * PLANS_KEPT; n++) {
            check(n);
            check(9 + n % 7);
        }
}

static void a_plan_that_is_kept_is_not_made_again(void **state)
{
    (void)state;
    const struct job first = job_of(100), second = job_of(101);
    const struct plan *plan = plans_get(&plans, &first, NULL);
    assert_ptr_not_equal(plans_get(&plans, &second, NULL), plan);
    assert_ptr_equal(plans_get(&plans, &first, NULL), plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_those_of_their_jobs),
        cmocka_unit_test(a_plan_that_is_kept_is_not_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
