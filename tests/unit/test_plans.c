/* The cache of plans returns the same as plan_init(), for any number of jobs. */
#include "gpu/worker/plans.h"
#include "tests/unit/unit.h"

static struct plans plans;

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
static const struct plan *find_or_make_as(uint64_t owner, const struct job *job, const void *block)
{
    const struct plan *plan = plans_find(&plans, job, block);
    if (!plan)
        plan = plans_make(&plans, owner, job, block);
    plans_give(plan);
    return plan;
}

static const struct plan *find_or_make(const struct job *job, const void *block)
{
    return find_or_make_as(1, job, block);
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

TEST(plans_are_those_of_their_jobs, NULL, teardown)
{
    for (int twice = 0; twice < 2; twice++)
        for (uint64_t n = 9; n < 9 + 3 * PLANS_KEPT; n++) {
            check(n);
            check(9 + n % 7);
        }
}

TEST(a_plan_that_is_kept_is_not_made_again, NULL, teardown)
{
    const struct job first = job_of(100), second = job_of(101);
    const struct plan *plan = find_or_make(&first, NULL);
    assert_ptr_not_equal(find_or_make(&second, NULL), plan);
    assert_ptr_equal(find_or_make(&first, NULL), plan);
}

TEST(a_plan_stays_until_it_is_given_back, NULL, teardown)
{
    const struct job job = job_of(100);
    const struct plan *plan = plans_make(&plans, 1, &job, NULL);
    for (uint64_t n = 101; n < 101 + PLANS_KEPT; n++)
        check(n);
    assert_null(plans_find(&plans, &job, NULL));
    assert_int_equal(plan->axis[AXIS_X].n, 100);
    assert_true(plan->table->bytes > 0);
    plans_give(plan);
}

static bool is_kept(uint64_t n)
{
    bool kept = false;
    LIST_EACH (struct kept_plan, one, &plans.kept, link)
        kept |= one->plan.axis[AXIS_X].n == (int64_t)n;
    return kept;
}

TEST(the_plan_unused_for_longest_goes, NULL, teardown)
{
    for (uint64_t n = 100; n < 100 + PLANS_KEPT; n++)
        check(n);
    check(100);
    check(99);
    assert_true(is_kept(100) && is_kept(99));
    assert_false(is_kept(101));
}

/* Others keep theirs, used or not, as long as none of them has as many. */
TEST(a_flood_of_one_owner_displaces_no_plan_of_another, NULL, teardown)
{
    enum { QUIET = PLANS_KEPT / 2 };
    for (uint64_t n = 0; n < QUIET; n++) {
        const struct job job = job_of(100 + n);
        find_or_make_as(2 + n % 3, &job, NULL);
    }
    for (uint64_t n = 1000; n < 1000 + 10 * PLANS_KEPT; n++)
        check(n);
    for (uint64_t n = 0; n < QUIET; n++)
        assert_true(is_kept(100 + n));
    assert_int_equal(plans.count, PLANS_KEPT);
}

TEST(one_more_owner_takes_a_place_of_the_one_that_has_most, NULL, teardown)
{
    for (uint64_t n = 0; n < PLANS_KEPT; n++)
        check(1000 + n);
    for (uint64_t n = 0; n < PLANS_KEPT; n++) {
        const struct job job = job_of(100 + n);
        find_or_make_as(2 + n, &job, NULL);
        assert_true(is_kept(100 + n));
        assert_false(is_kept(1000 + n));
    }
}

/* The cache keeps only as many jobs with many coordinates as their tables and blocks fit. */
TEST(plans_are_bounded_in_bytes, NULL, teardown)
{
    static double x[65536];
    const struct job small = job_of(100);
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
        const uint64_t newest = sizeof x + plan->table->bytes;
        uint64_t bytes = 0;
        LIST_EACH (struct kept_plan, kept, &plans.kept, link)
            bytes += sizeof x + kept->plan.table->bytes;
        assert_true(bytes == plans.bytes && bytes - newest <= PLANS_KEPT_BYTES);
    }
    assert_true(plans.count > 1 && plans.count < PLANS_KEPT);
    assert_int_equal(find_or_make_as(2, &small, NULL)->axis[AXIS_X].n, 100);
    x[0] = -PLANS_KEPT;
    job_block_key(x, sizeof x, job.more.block_key);
    find_or_make(&job, x);
    assert_true(is_kept(100));
}
