/* What copies over a network are expected to take. */
#include "server/devices/link_rate.h"
#include "tests/unit/unit.h"

#define MIB UINT64_C(1048576)

TEST(test_an_unknown_network_has_10_gigabits)
{
    const struct link_rate rate = {0};
    assert_true(link_rate_ns(&rate, 0) == LINK_LATENCY_NS);
    assert_true(link_rate_ns(&rate, 125 * 1000) == LINK_LATENCY_NS + 125e3);
}

TEST(test_the_rate_is_that_of_all_copies_together)
{
    struct link_rate rate = {0};
    /* Two copies of 4 MiB that overlap: 8 MiB in 8 ms. */
    link_rate_begin(&rate, 1000000);
    link_rate_begin(&rate, 2000000);
    link_rate_end(&rate, 4 * MIB, 5000000);
    link_rate_end(&rate, 4 * MIB, 9000000);
    assert_in_range((uint64_t)link_rate_ns(&rate, 8 * MIB), 7900000, 8400000);
    /* A pause is no part of it. */
    link_rate_begin(&rate, 1000000000);
    link_rate_end(&rate, 8 * MIB, 1008000000);
    assert_in_range((uint64_t)link_rate_ns(&rate, 8 * MIB), 7900000, 8400000);
}

TEST(test_small_copies_teach_nothing)
{
    struct link_rate rate = {0};
    for (int i = 0; i < 100; i++) {
        link_rate_begin(&rate, (uint64_t)i * 1000000);
        link_rate_end(&rate, 100, (uint64_t)i * 1000000 + 900000);
    }
    assert_true(rate.ns_per_byte == 0);
}

TEST(test_copies_that_are_lost_are_forgotten)
{
    struct link_rate rate = {0};
    link_rate_begin(&rate, 0);
    link_rate_begin(&rate, 0);
    link_rate_lost(&rate);
    link_rate_begin(&rate, 5000000000);
    link_rate_end(&rate, 4 * MIB, 5004000000);
    assert_in_range((uint64_t)link_rate_ns(&rate, 4 * MIB), 4000000, 4400000);
}
