/* The table of a task's life, walked: every path ends, nothing leads back, and what must not happen
 * has no entry. */
#include "server/jobs/task_state.h"
#include "tests/unit/unit.h"

static void leads(enum task_state from, enum task_event event, enum task_state to)
{
    if (task_state_after(from, event) != to)
        fail_msg("event %d in state %d", event, from);
}

static void refuses(enum task_state from, enum task_event event)
{
    leads(from, event, TASK_STATE_COUNT);
}

TEST(the_ways_of_a_job)
{
    static const struct {
        enum task_event events[6];
        int count;
    } ways[] = {
        {{TASK_READY, TASK_HAND_OVER, TASK_PROGRESS, TASK_ANSWER, TASK_END}, 5},
        {{TASK_READY, TASK_HAND_OVER, TASK_STOP, TASK_PROGRESS, TASK_ANSWER, TASK_END}, 6},
        {{TASK_READY, TASK_HAND_OVER, TASK_STOP, TASK_STOP, TASK_ANSWER, TASK_END}, 6},
        {{TASK_READY, TASK_STOP, TASK_ANSWER, TASK_END}, 4},
        {{TASK_STOP, TASK_ANSWER, TASK_END}, 3},
        {{TASK_ANSWER, TASK_STOP, TASK_END}, 3}, /* taken back before a byte went out */
        {{TASK_END}, 1},                         /* refused */
    };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        enum task_state at = TASK_WAITING;
        for (int i = 0; i < ways[w].count; i++) {
            at = task_state_after(at, ways[w].events[i]);
            assert_true(at < TASK_STATE_COUNT);
        }
        assert_int_equal(at, TASK_ENDED);
    }
}

TEST(what_must_not_happen)
{
    for (int event = 0; event < TASK_EVENT_COUNT; event++)
        refuses(TASK_ENDED, (enum task_event)event);
    for (int at = 0; at < TASK_STATE_COUNT; at++) {
        if (at != TASK_QUEUED) /* twice, or unasked */
            refuses((enum task_state)at, TASK_HAND_OVER);
        if (at != TASK_WAITING)
            refuses((enum task_state)at, TASK_READY);
        if (at != TASK_RUNNING && at != TASK_STOPPING)
            refuses((enum task_state)at, TASK_PROGRESS);
    }
    refuses(TASK_REPLYING, TASK_ANSWER); /* no second answer */
    refuses(TASK_QUEUED, TASK_END);      /* none goes unanswered, */
    refuses(TASK_RUNNING, TASK_END);
    refuses(TASK_STOPPING, TASK_END); /* nor before its worker has let go of its arrays */
}

/* Time goes one way: no event leads to a state that stands before its own. */
TEST(nothing_leads_back)
{
    for (int at = 0; at < TASK_STATE_COUNT; at++)
        for (int event = 0; event < TASK_EVENT_COUNT; event++)
            assert_true((int)task_state_after((enum task_state)at, (enum task_event)event) >= at);
}

TEST(a_stop_may_always_come)
{
    for (int at = 0; at < TASK_ENDED; at++)
        assert_true(task_state_after((enum task_state)at, TASK_STOP) < TASK_STATE_COUNT);
    leads(TASK_RUNNING, TASK_STOP, TASK_STOPPING); /* its arrays are still the worker's */
}

TEST(every_state_is_reached_and_left)
{
    for (int to = TASK_QUEUED; to < TASK_STATE_COUNT; to++) {
        int ways = 0;
        for (int at = 0; at < to; at++)
            for (int event = 0; event < TASK_EVENT_COUNT; event++)
                ways += (int)task_state_after((enum task_state)at, (enum task_event)event) == to;
        assert_true(ways > 0);
    }
    for (int at = 0; at < TASK_ENDED; at++) {
        enum task_state end = (enum task_state)at;
        if (end != TASK_REPLYING)
            end = task_state_after(end, TASK_ANSWER);
        assert_int_equal(task_state_after(end, TASK_END), TASK_ENDED);
    }
}
