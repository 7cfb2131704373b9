/* The order in which users' jobs go to the worker. The emulated device executes slices of its jobs
 * in turn, as a worker does. Its time is the work that it has done, so nothing depends on a clock.
 */
#include "server/users/schedule.h"
#include "tests/lib/job_of.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define US INT64_C(1000)
#define MS (1000 * US)

enum { USERS = 8, SLICE_NS = 80 * 1000, ON_DEVICE = USERS * SCHEDULE_USER_JOBS };

/* A job: what it will really take may differ from its estimate. */
struct work {
    struct entry entry;
    int user, number; /* the user's first is 0 */
    int64_t takes_ns, done_ns;
    int64_t added_ns; /* the device's time when it came */
};

static struct schedule schedule;
static struct flow flows[USERS];
static struct work *on_device[ON_DEVICE];
static int handed;
static uint64_t arrivals;
static int64_t device_ns;        /* that it has worked */
static int64_t served_ns[USERS]; /* of that, for whom */
static int64_t waited_ns[USERS]; /* the longest from coming to its end */
static int ended[USERS], added[USERS];
static uint32_t seed;

static uint64_t clock_of_the_device(void)
{
    return (uint64_t)device_ns + 1;
}

static int begin(void **state)
{
    schedule = (struct schedule){.clock = clock_of_the_device};
    memset(flows, 0, sizeof flows);
    memset(served_ns, 0, sizeof served_ns);
    memset(waited_ns, 0, sizeof waited_ns);
    memset(ended, 0, sizeof ended);
    memset(added, 0, sizeof added);
    handed = 0;
    device_ns = 0;
    seed = 1;
    return 0;
}

static int64_t random_between(int64_t least, int64_t most)
{
    seed = seed * 1664525 + 1013904223;
    return least + (int64_t)(seed >> 8) % (most - least + 1);
}

static struct work *add(int user, int priority, int64_t cost_ns, int64_t takes_ns)
{
    struct work *work = calloc(1, sizeof *work);
    assert_non_null(work);
    work->entry.priority = priority;
    work->entry.arrival = ++arrivals;
    work->entry.cost_ns = cost_ns;
    work->user = user;
    work->number = added[user]++;
    work->takes_ns = takes_ns;
    work->added_ns = device_ns;
    schedule_add(&schedule, &flows[user], &work->entry);
    return work;
}

static void hand_over(void)
{
    for (struct entry *entry; (entry = schedule_next(&schedule));) {
        assert_true(handed < ON_DEVICE);
        on_device[handed++] = LIST_ENTRY(entry, struct work, entry);
    }
}

/* One slice for each that lies on the device; those that are done go. */
static void turn_of_the_device(void)
{
    hand_over();
    const int count = handed;
    struct work *there[ON_DEVICE];
    memcpy(there, on_device, (size_t)count * sizeof *there);
    handed = 0;
    for (int i = 0; i < count; i++) {
        struct work *work = there[i];
        const int64_t left_ns = work->takes_ns - work->done_ns;
        const int64_t slice_ns = left_ns < SLICE_NS ? left_ns : SLICE_NS;
        work->done_ns += slice_ns;
        device_ns += slice_ns;
        served_ns[work->user] += slice_ns;
        if (work->done_ns < work->takes_ns) {
            on_device[handed++] = work;
            continue;
        }
        schedule_done(&schedule, &work->entry, work->takes_ns);
        ended[work->user]++;
        if (device_ns - work->added_ns > waited_ns[work->user])
            waited_ns[work->user] = device_ns - work->added_ns;
        free(work);
    }
    hand_over();
}

static int end(void **state)
{
    for (hand_over(); handed; turn_of_the_device())
        ;
    assert_int_equal(schedule.jobs, 0);
    assert_true(list_empty(&schedule.flows));
    for (int u = 0; u < USERS; u++)
        assert_true(flows[u].handed[SHORT] == 0 && flows[u].handed[LONG] == 0 &&
                    flows[u].handed[LASTING] == 0 && flows[u].handed_ns == 0);
    return 0;
}

TEST(a_users_jobs_go_by_priority_then_in_the_order_they_came, begin, end)
{
    static const int priorities[] = {0, 5, 0, -100, 5, 100, 0};
    static const int order[] = {5, 1, 4, 0, 2, 6, 3};
    struct work *works[7];
    for (int i = 0; i < 7; i++)
        works[i] = add(0, priorities[i], 50 * MS, 50 * MS); /* long ones go one at a time */
    for (int i = 0; i < 7; i++) {
        struct entry *entry = schedule_next(&schedule);
        assert_ptr_equal(entry, &works[order[i]]->entry);
        assert_null(schedule_next(&schedule));
        schedule_done(&schedule, entry, 50 * MS);
        free(LIST_ENTRY(entry, struct work, entry));
    }
}

TEST(one_that_came_before_but_was_ready_later_goes_first, begin, end)
{
    struct work *first = calloc(1, sizeof *first);
    first->entry.arrival = ++arrivals;
    first->entry.cost_ns = first->takes_ns = MS;
    added[0]++;
    add(0, 0, MS, MS);
    schedule_add(&schedule, &flows[0], &first->entry);
    struct entry *entry = schedule_next(&schedule);
    assert_ptr_equal(entry, &first->entry);
    schedule_done(&schedule, entry, MS);
    free(first);
}

TEST(another_users_priority_counts_for_nothing, begin, end)
{
    for (int i = 0; i < 100; i++) {
        add(0, 100, MS, MS);
        add(1, -100, MS, MS);
    }
    while (ended[0] + ended[1] < 150)
        turn_of_the_device();
    assert_in_range(ended[1], 73, 77);
}

/* A job that waits for its client does not reduce other users' share of the worker. */
TEST(who_rests_holds_nobody_up, begin, end)
{
    struct work *rests = add(0, 0, US, US);
    hand_over();
    assert_int_equal(handed, 1);
    for (int i = 0; i < 3; i++)
        add(1, 0, MS, MS); /* now the second user has had more */
    hand_over();
    const int beside = handed;
    schedule_rest(&rests->entry, true);
    hand_over();
    assert_int_equal(beside, 1 + 1);
    assert_int_equal(handed, 1 + 2);
    schedule_rest(&rests->entry, false);
    while (handed)
        turn_of_the_device();
    assert_int_equal(flows[0].resting, 0);
}

/* Small ones many at once, large ones two, long ones one: what is with the worker is bounded. */
TEST(as_much_is_handed_over_as_keeps_the_device_busy, begin, end)
{
    static const struct {
        int64_t cost_ns;
        int expected;
    } cases[] = {
        {US, SCHEDULE_USER_JOBS}, {3 * US, 84},   {100 * US, 3}, {250 * US, 2}, {10 * MS, 2},
        {SCHEDULE_LONG_NS, 1},    {60000 * MS, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < 200; i++)
            add(0, 0, cases[c].cost_ns, 1);
        hand_over();
        assert_int_equal(handed, cases[c].expected);
        while (handed)
            turn_of_the_device();
    }
}

/* Any loads, and estimates that are wrong by up to a factor of two: users who always have work get
 * equal shares, up to the work that may be with the worker at once. */
TEST(those_who_always_have_work_share_evenly, begin, end)
{
    for (int round = 0; round < 15; round++) {
        begin(NULL);
        seed = (uint32_t)round * 7919 + 1;
        const int users = (int)random_between(2, USERS);
        int64_t most_ns[USERS], longest_ns = 0;
        for (int u = 0; u < users; u++) {
            most_ns[u] = US << random_between(3, 14); /* 8 µs to 16 ms */
            if (most_ns[u] > longest_ns)
                longest_ns = most_ns[u];
        }
        while (device_ns < 400 * longest_ns * users) {
            for (int u = 0; u < users; u++)
                while (added[u] - ended[u] < 3 * SCHEDULE_USER_JOBS) {
                    const int64_t takes_ns = random_between(most_ns[u] / 2, most_ns[u]);
                    add(u, 0, random_between(takes_ns / 2, 2 * takes_ns), takes_ns);
                }
            turn_of_the_device();
        }
        for (int u = 1; u < users; u++) {
            const int64_t apart_ns = llabs(served_ns[u] - served_ns[0]);
            if (apart_ns > 8 * longest_ns + 2 * SCHEDULE_USER_NS)
                fail_msg("round %d: of %d users, %d had %lld µs and 0 had %lld; longest %lld",
                         round, users, u, (long long)(served_ns[u] / US),
                         (long long)(served_ns[0] / US), (long long)(longest_ns / US));
        }
        end(NULL);
    }
}

/* One user requests 3 µs at a time while others have long queues of 10 ms each. */
TEST(a_bulk_is_never_before_a_small_job, begin, end)
{
    for (int u = 1; u < USERS; u++)
        for (int i = 0; i < 50; i++)
            add(u, 0, 10 * MS, 10 * MS);
    turn_of_the_device();
    while (ended[1] < 5) {
        if (added[0] == ended[0])
            add(0, 0, 3 * US, 3 * US);
        turn_of_the_device();
    }
    assert_true(ended[0] > 100);
    /* A slice of whatever lies there already, and no more. */
    assert_in_range(waited_ns[0], 0, 2 * (USERS - 1) * SLICE_NS + 3 * US);
}

/* Also where they have a queue of small jobs, and it fills the worker's time with groups. */
TEST(nor_is_a_queue_of_small_ones, begin, end)
{
    for (int i = 0; i < 20000; i++)
        add(1, 0, 3 * US, 3 * US);
    turn_of_the_device();
    while (ended[1] < 10000) {
        if (added[0] == ended[0])
            add(0, 0, 3 * US, 3 * US);
        turn_of_the_device();
    }
    assert_in_range(waited_ns[0], 0, SCHEDULE_USER_NS + 9 * US);
}

TEST(a_users_own_long_job_does_not_hold_up_the_short_ones, begin, end)
{
    add(0, 0, 60000 * MS, 60000 * MS);
    add(0, 0, 60000 * MS, 1); /* one at a time */
    for (int i = 0; i < 100; i++)
        add(0, 0, MS, MS);
    hand_over();
    assert_int_equal(handed, 3);
    while (ended[0] < 100)
        turn_of_the_device();
    assert_int_equal(added[0] - ended[0], 2);
    assert_in_range(served_ns[0], 100 * MS, 210 * MS);
}

/* A job of days keeps those of 30 ms waiting no more than it does those of 1 ms. */
TEST(nor_does_one_that_lasts_hold_up_long_ones, begin, end)
{
    add(0, 0, INT64_C(86400000) * MS, 60000 * MS);
    add(0, 0, 3000 * MS, 1); /* one at a time */
    for (int i = 0; i < 10; i++)
        add(0, 0, 30 * MS, 30 * MS);
    hand_over();
    assert_int_equal(handed, 2);
    while (ended[0] < 10)
        turn_of_the_device();
    assert_int_equal(added[0] - ended[0], 2);
    assert_in_range(served_ns[0], 300 * MS, 640 * MS);
}

/* A user has a long job, whose estimate is far too long, and many short ones. A user who comes and
 * goes meanwhile must not be charged as much as that estimate. */
TEST(a_long_job_counts_when_it_is_done, begin, end)
{
    int64_t before_ns[2] = {0, 0}, begin_ns = 0;
    add(0, 0, 60000 * MS, 500 * MS);
    while (!begin_ns || device_ns < begin_ns + 2000 * MS) {
        while (added[0] - ended[0] < 200)
            add(0, 0, MS, MS);
        while (added[1] - ended[1] < 2)
            add(1, 0, MS, MS);
        turn_of_the_device();
        if (!begin_ns && !flows[0].handed[LASTING]) {
            begin_ns = device_ns;
            memcpy(before_ns, served_ns, sizeof before_ns);
        }
    }
    assert_true(served_ns[1] - before_ns[1] >= 990 * MS);
}

/* A long job had the device alone for most of its time: its user is not charged for that time, but
 * for the time beside the newcomer. */
TEST(the_time_that_a_long_job_had_alone_is_its_own, begin, end)
{
    add(0, 0, 60000 * MS, 1050 * MS);
    while (device_ns < 1000 * MS)
        turn_of_the_device();
    const int64_t before_ns = served_ns[0];
    while (device_ns < 3000 * MS) {
        for (int u = 0; u < 2; u++)
            while (added[u] - ended[u] < 200)
                add(u, 0, MS, MS);
        turn_of_the_device();
    }
    assert_in_range(served_ns[1], 960 * MS, 1040 * MS);
    assert_in_range(served_ns[0] - before_ns, 960 * MS, 1040 * MS);
}

TEST(nobody_starves, begin, end)
{
    for (int round = 0; round < 20; round++) {
        begin(NULL);
        seed = (uint32_t)round + 1;
        int64_t bound_ns = 0;
        /* All other users send more than the device can do, of any length; one user sends one job.
         */
        for (int u = 1; u < USERS; u++)
            for (int i = 0; i < 100; i++)
                add(u, (int)random_between(-100, 100), random_between(US, 30 * MS),
                    random_between(US, 30 * MS));
        for (int i = 0; i < 20; i++)
            turn_of_the_device();
        add(0, -100, 5 * MS, 5 * MS);
        bound_ns = 5 * MS * 3 * USERS; /* its turns among two jobs each, and small ones */
        while (!ended[0])
            turn_of_the_device();
        assert_in_range(waited_ns[0], 0, bound_ns);
        end(NULL);
    }
}

/* The newcomer is not owed the time in which the other user had the device alone, nor does it wait
 * until the other has had as much again. */
TEST(a_newcomer_stands_beside_those_who_are_there, begin, end)
{
    for (int i = 0; i < 2000; i++)
        add(0, 0, MS, MS);
    while (device_ns < 1000 * MS)
        turn_of_the_device();
    const int64_t before_ns = served_ns[0];
    for (int i = 0; i < 2000; i++)
        add(1, 0, MS, MS);
    while (device_ns < 1500 * MS)
        turn_of_the_device();
    assert_in_range(served_ns[1], 245 * MS, 255 * MS);
    assert_in_range(served_ns[0] - before_ns, 245 * MS, 255 * MS);
}

/* A returning user is not charged for device time that no other user wanted. */
TEST(idle_time_levels_all, begin, end)
{
    for (int i = 0; i < 100; i++)
        add(0, 0, MS, MS);
    while (ended[0] < 100)
        turn_of_the_device();
    const int64_t before_ns = served_ns[0];
    for (int i = 0; i < 200; i++) {
        add(1, 0, MS, MS);
        add(0, 0, MS, MS);
    }
    while (served_ns[1] < 100 * MS)
        turn_of_the_device();
    assert_in_range(served_ns[0] - before_ns, 95 * MS, 105 * MS);
}

/* Who leaves ahead of others is level with them after as long; who leaves last, at once. */
TEST(who_leaves_ahead_is_level_after_as_long, begin, end)
{
    add(1, 0, 60000 * MS, 100 * MS);
    turn_of_the_device();
    add(0, 0, MS, MS);
    while (!ended[0])
        turn_of_the_device();
    assert_true(list_empty(&flows[0].link) && !list_empty(&flows[1].link));
    assert_in_range(flows[0].level_ns, device_ns + MS - SLICE_NS, device_ns + MS + 1);
    while (!ended[1])
        turn_of_the_device();
    assert_int_equal(flows[1].level_ns, 0);
}

/* An estimate that was ten thousand times too long costs its user nothing once the job is done. */
TEST(a_wrong_estimate_is_set_right, begin, end)
{
    for (int i = 0; i < 50; i++)
        add(1, 0, MS, MS);
    add(0, 0, 10000 * MS, MS);
    while (!ended[0])
        turn_of_the_device();
    const int64_t before_ns[] = {served_ns[0], served_ns[1]};
    for (int i = 0; i < 200; i++) {
        add(0, 0, MS, MS);
        add(1, 0, MS, MS);
    }
    while (served_ns[0] - before_ns[0] < 100 * MS)
        turn_of_the_device();
    assert_in_range(served_ns[1] - before_ns[1], 90 * MS, 110 * MS);
}

TEST(a_job_that_leaves_the_queue_is_forgotten, begin, end)
{
    struct work *works[3];
    for (int i = 0; i < 3; i++)
        works[i] = add(i % 2, 0, 50 * MS, 50 * MS);
    schedule_remove(&schedule, &works[0]->entry);
    schedule_remove(&schedule, &works[1]->entry);
    assert_int_equal(schedule.jobs, 1);
    assert_ptr_equal(schedule_next(&schedule), &works[2]->entry);
    assert_null(schedule_next(&schedule));
    schedule_done(&schedule, &works[2]->entry, 0);
    for (int i = 0; i < 3; i++)
        free(works[i]);
}

TEST(estimates_follow_what_jobs_have_taken, begin, end)
{
    const struct job small = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 64, 64, 64, 8);
    const struct job large = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 512, 512, 512, 8);
    struct flow flow = {0}, other = {0};
    const int64_t guess_ns = schedule_estimate(&other, &large);
    struct job steps = diffusion_of(DTYPE_F32, 512, 512, 512, 8, 1);
    assert_true(schedule_estimate(&flow, &large) > 10 * MS); /* a guess, on the long side */
    for (int i = 0; i < 50; i++)
        schedule_learn(&flow, &large, 300);
    assert_in_range(schedule_estimate(&flow, &large), 299 * US, 301 * US);
    /* An unknown kind of job is estimated like the nearest known one, and no estimate is 0. */
    assert_true(schedule_estimate(&flow, &small) >= US);
    for (int i = 0; i < 50; i++)
        schedule_learn(&flow, &small, 3);
    assert_in_range(schedule_estimate(&flow, &small), 3 * US - 1, 3 * US + 1);
    assert_in_range(schedule_estimate(&flow, &large), 299 * US, 301 * US);
    /* Steps count. */
    steps.steps = 10;
    schedule_learn(&flow, &steps, 1000);
    steps.steps = 1000;
    assert_in_range(schedule_estimate(&flow, &steps), 99 * MS, 101 * MS);
    /* The estimate follows a change of speed, but not a single outlier. */
    schedule_learn(&flow, &large, 3000);
    assert_true(schedule_estimate(&flow, &large) < 700 * US);
    for (int i = 0; i < 50; i++)
        schedule_learn(&flow, &large, 600);
    assert_in_range(schedule_estimate(&flow, &large), 590 * US, 610 * US);
    /* Another user's estimates do not depend on it. */
    assert_int_equal(schedule_estimate(&other, &large), guess_ns);
}

TEST(a_plan_counts_until_it_was_made, begin, end)
{
    struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F64, 1000, 1, 1, 8);
    assert_int_equal(schedule_plan(&flows[0], &job), 0); /* no coordinates */
    job.more.coordinates = 1;
    const int64_t ns = schedule_plan(&flows[0], &job);
    assert_in_range(ns, MS, 100 * MS);
    for (uint64_t key = 0; key < SCHEDULE_PLANS; key++) {
        job.more.block_key[0] = key;
        schedule_learn(&flows[0], &job, 1);
        schedule_learn(&flows[0], &job, 1);
        assert_int_equal(schedule_plan(&flows[0], &job), 0);
        assert_int_equal(schedule_plan(&flows[1], &job), ns); /* another user's */
    }
    job.more.block_key[0] = 0;
    job.steps = 7; /* of the same plan */
    assert_int_equal(schedule_plan(&flows[0], &job), 0);
    job.more.block_key[0] = SCHEDULE_PLANS;
    schedule_learn(&flows[0], &job, 1);
    job.more.block_key[0] = 0;
    assert_int_equal(schedule_plan(&flows[0], &job), ns);
}

TEST(no_figure_is_too_large, begin, end)
{
    struct flow flow = {0};
    const uint64_t n = 1 << 16;
    const struct job job = diffusion_of(DTYPE_F32, n, n, n, 8, UINT64_C(1) << 40);
    const int64_t most_ns = schedule_estimate(&flow, &job);
    assert_true(most_ns > 0);
    schedule_learn(&flow, &job, UINT64_MAX);
    assert_int_equal(schedule_estimate(&flow, &job), most_ns);
    schedule_learn(&flow, &job, 0);
    for (int u = 0; u < USERS; u++)
        add(u, 0, most_ns, MS);
    hand_over();
    assert_int_equal(handed, USERS);
}
