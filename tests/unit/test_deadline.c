/* Deadlines pass once, in their order, not before their time, and not after they were removed. */
#include "server/jobs/deadline.h"
#include "tests/unit/unit.h"

#define MS UINT64_C(1000000)

enum { COUNT = 6 };

struct item {
    struct deadline deadline;
    int number;
    struct item *forgets; /* as it passes */
};

static uv_loop_t loop;
static struct deadlines deadlines;
static struct item items[COUNT];
static int passed[COUNT], passed_count;

static void on_passed(struct deadline *deadline)
{
    struct item *item = LIST_ENTRY(deadline, struct item, deadline);
    assert_true(uv_hrtime() >= deadline->at_ns);
    passed[passed_count++] = item->number;
    if (item->forgets)
        deadline_forget(&item->forgets->deadline);
}

static int open_loop(void **state)
{
    passed_count = 0;
    for (int i = 0; i < COUNT; i++)
        items[i] = (struct item){.number = i, .deadline.passed = on_passed};
    if (uv_loop_init(&loop) != 0)
        return -1;
    deadlines_open(&deadlines, &loop);
    return 0;
}

static int close_loop(void **state)
{
    deadlines_close(&deadlines);
    deadlines_close(&deadlines); /* harmless */
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

TEST(they_pass_in_their_order, open_loop, close_loop)
{
    static const uint64_t after_ms[COUNT] = {20, 5, 10, 5, 0, 15};
    static const int order[COUNT] = {4, 1, 3, 2, 5, 0};
    const uint64_t now_ns = uv_hrtime();
    for (int i = 0; i < COUNT; i++)
        deadline_set(&deadlines, &items[i].deadline, now_ns + after_ms[i] * MS + 300);
    uv_run(&loop, UV_RUN_DEFAULT); /* ends when nothing is set any more */
    assert_int_equal(passed_count, COUNT);
    assert_memory_equal(passed, order, sizeof order);
}

TEST(what_is_forgotten_does_not_pass, open_loop, close_loop)
{
    const uint64_t now_ns = uv_hrtime();
    for (int i = 0; i < COUNT; i++)
        deadline_set(&deadlines, &items[i].deadline, now_ns + (uint64_t)i * MS);
    items[1].forgets = &items[2]; /* which is due at the same time, or soon */
    deadline_forget(&items[0].deadline);
    deadline_forget(&items[5].deadline);
    deadline_forget(&items[5].deadline);
    uv_run(&loop, UV_RUN_DEFAULT);
    static const int rest[] = {1, 3, 4};
    assert_int_equal(passed_count, 3);
    assert_memory_equal(passed, rest, sizeof rest);
}

TEST(ages_away_is_no_time_at_all, open_loop, close_loop)
{
    deadline_set(&deadlines, &items[0].deadline, UINT64_MAX);
    deadline_set(&deadlines, &items[1].deadline, 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(passed_count, 1);
    assert_int_equal(passed[0], 1);
    deadline_forget(&items[0].deadline);
}
