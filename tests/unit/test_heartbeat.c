/* The conditions for replacing a worker, counted in beats and independent of clocks. */
#include "server/devices/heartbeat.h"
#include "tests/unit/unit.h"

enum { SECOND = 1000 / HEARTBEAT_MS };

static void beats(struct heartbeat *heartbeat, int count)
{
    while (count-- > 0)
        heartbeat_beat(heartbeat);
}

static void answer(struct heartbeat *heartbeat, uint64_t under_way, uint64_t copied, uint64_t ended)
{
    const struct channel_pong pong = {.work = {[CHANNEL_ALL_WORK] = {under_way, copied + ended},
                                               [CHANNEL_JOBS_WORK] = {under_way, ended}}};
    heartbeat_beat(heartbeat);
    heartbeat_heard(heartbeat);
    heartbeat_pong(heartbeat, &pong);
}

TEST(one_ping_at_a_time)
{
    struct heartbeat heartbeat = {0};
    const struct channel_pong nothing = {.still_us = 0};
    assert_true(heartbeat_beat(&heartbeat));
    assert_false(heartbeat.late);
    assert_false(heartbeat_beat(&heartbeat));
    assert_true(heartbeat.late);
    heartbeat_pong(&heartbeat, &nothing);
    assert_false(heartbeat.late);
    assert_true(heartbeat_beat(&heartbeat));
    assert_false(heartbeat.late);
}

TEST(silence_counts_from_the_first_ping)
{
    struct heartbeat heartbeat = {0};
    beats(&heartbeat, SECOND);
    assert_false(heartbeat_is_stalled(&heartbeat));
    beats(&heartbeat, 1);
    assert_true(heartbeat_is_stalled(&heartbeat));
    beats(&heartbeat, 4 * SECOND - 1);
    assert_false(heartbeat_is_lost(&heartbeat, false));
    beats(&heartbeat, 1);
    assert_true(heartbeat_is_lost(&heartbeat, false));
    assert_false(heartbeat_is_lost(&heartbeat, true));
    beats(&heartbeat, 60 * SECOND);
    assert_true(heartbeat_is_lost(&heartbeat, true));
}

TEST(one_that_the_kernel_has_held_has_time)
{
    struct heartbeat heartbeat = {0};
    beats(&heartbeat, 20 * SECOND);
    heartbeat_is_held(&heartbeat);
    beats(&heartbeat, 5 * SECOND);
    assert_false(heartbeat_is_lost(&heartbeat, false)); /* it may be about to say something */
    beats(&heartbeat, 1);
    assert_true(heartbeat_is_lost(&heartbeat, false));
    heartbeat_is_held(&heartbeat);
    assert_false(heartbeat_is_lost(&heartbeat, false));
    beats(&heartbeat, 40 * SECOND);
    heartbeat_is_held(&heartbeat);
    assert_true(heartbeat_is_lost(&heartbeat, false)); /* for ever is too long */
    heartbeat_heard(&heartbeat);
    beats(&heartbeat, 5 * SECOND + 1);
    assert_true(heartbeat_is_lost(&heartbeat, false));
}

TEST(whatever_it_says_is_a_sign_of_life)
{
    struct heartbeat heartbeat = {0};
    beats(&heartbeat, 5 * SECOND);
    heartbeat_heard(&heartbeat);
    assert_false(heartbeat_is_stalled(&heartbeat));
    beats(&heartbeat, 5 * SECOND);
    assert_false(heartbeat_is_lost(&heartbeat, false));
}

TEST(a_device_that_ends_nothing_is_stuck)
{
    struct heartbeat heartbeat = {0};
    for (int i = 0; i < 5 * SECOND; i++) {
        answer(&heartbeat, 3, 10, 20);
        assert_false(heartbeat_is_stuck(&heartbeat, 0));
    }
    answer(&heartbeat, 3, 10, 20);
    assert_true(heartbeat_is_stuck(&heartbeat, 0));
    assert_true(heartbeat_is_stuck(&heartbeat, 0.25e9));
    assert_false(heartbeat_is_stuck(&heartbeat, 0.26e9)); /* it may take 5.2 s */
    answer(&heartbeat, 3, 10, 21);
    assert_false(heartbeat_is_stuck(&heartbeat, 0));
}

TEST(copies_of_others_do_not_hide_a_launch_that_hangs)
{
    struct heartbeat heartbeat = {0};
    for (int i = 0; i <= 5 * SECOND; i++)
        answer(&heartbeat, 3, (uint64_t)i, 20);
    assert_true(heartbeat_is_stuck(&heartbeat, 0));
}

TEST(a_part_that_a_worker_says_does_not_go_on_is_stuck)
{
    struct heartbeat heartbeat = {0};
    struct channel_pong pong = {.still_us = 4999999};
    heartbeat_pong(&heartbeat, &pong);
    assert_false(heartbeat_is_stuck(&heartbeat, 0));
    pong.still_us = 5000000;
    heartbeat_pong(&heartbeat, &pong);
    assert_true(heartbeat_is_stuck(&heartbeat, 0.25e9));
    assert_false(heartbeat_is_stuck(&heartbeat, 0.26e9));
    pong.still_us = 0; /* it has gone on */
    heartbeat_pong(&heartbeat, &pong);
    assert_false(heartbeat_is_stuck(&heartbeat, 0));
}

TEST(an_idle_device_is_not_stuck)
{
    struct heartbeat heartbeat = {0};
    for (int i = 0; i <= 10 * SECOND; i++) {
        answer(&heartbeat, 0, 10, 20);
        assert_false(heartbeat_is_stuck(&heartbeat, 0));
    }
    answer(&heartbeat, 1, 10, 20); /* it has only just been given something */
    assert_int_equal(heartbeat.stuck, 0);
}
