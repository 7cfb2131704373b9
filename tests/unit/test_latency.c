/* The histogram of durations: quantiles to a quarter of an octave, from one entry to millions. */
#include "server/metrics/counters.h"
#include "tests/unit/unit.h"

#include <math.h>

/* A quarter of an octave up, and rounding to whole microseconds. */
static void near_above(uint64_t found, double expected)
{
    assert_true((double)found >= expected - 1);
    assert_true((double)found <= expected * exp2(0.25) + 1);
}

TEST(none_yet)
{
    const struct latency latency = {0};
    assert_int_equal(latency_quantile(&latency, 0.5), 0);
    assert_int_equal(latency_quantile(&latency, 1), 0);
}

TEST(one_is_every_quantile)
{
    struct latency latency = {0};
    latency_record(&latency, 777);
    assert_int_equal(latency_quantile(&latency, 0), 777);
    assert_int_equal(latency_quantile(&latency, 0.5), 777);
    assert_int_equal(latency_quantile(&latency, 1), 777);
}

TEST(quantiles_of_a_ramp)
{
    struct latency latency = {0};
    for (uint64_t us = 1; us <= 100000; us++)
        latency_record(&latency, us);
    assert_int_equal(latency.count, 100000);
    for (double share = 0.01; share < 1; share += 0.01)
        near_above(latency_quantile(&latency, share), share * 100000);
    assert_int_equal(latency_quantile(&latency, 1), 100000);
}

TEST(the_shortest_and_the_longest)
{
    struct latency latency = {0};
    latency_record(&latency, 0);
    latency_record(&latency, UINT64_MAX);
    assert_true(latency_quantile(&latency, 0.5) <= 1);
    assert_true(latency_quantile(&latency, 1) >= UINT64_C(1) << 40);
    assert_int_equal(latency.max_us, UINT64_MAX);
}
