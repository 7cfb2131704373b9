/* What copies over a network are expected to take. */
#include "server/devices/link_rate.h"
#include "tests/unit/unit.h"

#define MIB UINT64_C(1048576)
#define S UINT64_C(1000000000)

/* A copy of a MiB, and nothing else, took until now_ns. */
static void copy(struct link_rate *rate, uint64_t takes_ns, uint64_t now_ns)
{
    link_rate_begin(rate, now_ns - takes_ns);
    link_rate_end(rate, MIB, now_ns);
}

/* In nanoseconds for a KiB. */
static uint64_t rate_at(const struct link_rate *rate, uint64_t now_ns)
{
    return (uint64_t)(link_rate_ns(rate, 1024, now_ns) - LINK_LATENCY_NS);
}

TEST(test_an_unknown_network_has_10_gigabits)
{
    const struct link_rate rate = {0};
    assert_true(link_rate_ns(&rate, 0, 0) == LINK_LATENCY_NS);
    assert_true(link_rate_ns(&rate, 125 * 1000, 0) == LINK_LATENCY_NS + 125e3);
}

TEST(test_the_rate_is_that_of_all_copies_together)
{
    struct link_rate rate = {0};
    /* Two copies of 4 MiB that overlap: 8 MiB in 8 ms. */
    link_rate_begin(&rate, 1000000);
    link_rate_begin(&rate, 2000000);
    link_rate_end(&rate, 4 * MIB, 5000000);
    link_rate_end(&rate, 4 * MIB, 9000000);
    assert_in_range((uint64_t)link_rate_ns(&rate, 8 * MIB, 9000000), 7900000, 8400000);
    /* A pause is no part of it. */
    link_rate_begin(&rate, 1000000000);
    link_rate_end(&rate, 8 * MIB, 1008000000);
    assert_in_range((uint64_t)link_rate_ns(&rate, 8 * MIB, 1008000000), 7900000, 8400000);
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
    assert_in_range((uint64_t)link_rate_ns(&rate, 4 * MIB, 5004000000), 4000000, 4400000);
}

TEST(test_a_copy_that_stalls_is_one_of_many)
{
    struct link_rate rate = {0};
    copy(&rate, 4 * S, 10 * S);
    assert_in_range(rate_at(&rate, 10 * S), 1024, 4 * 1024);
    rate = (struct link_rate){0};
    copy(&rate, MIB / 10, 10 * S); /* 100 Gb/s */
    assert_in_range(rate_at(&rate, 10 * S), 102, 103);
    copy(&rate, 4 * S, 20 * S);
    assert_in_range(rate_at(&rate, 20 * S), 102, 2 * 1024);
    for (int i = 0; i < 5; i++)
        copy(&rate, MIB / 10, 30 * S);
    assert_in_range(rate_at(&rate, 30 * S), 102, 130);
}

TEST(test_a_link_that_is_slow_is_known_soon_and_not_for_ever)
{
    struct link_rate rate = {0};
    uint64_t now_ns = 10 * S;
    for (int i = 0; i < 10; i++, now_ns += S)
        copy(&rate, 100 * MIB, now_ns);
    now_ns -= S;
    assert_in_range(rate_at(&rate, now_ns), 90 * 1024, 101 * 1024);
    assert_in_range(rate_at(&rate, now_ns + 30 * S), 45 * 1024, 51 * 1024);
    assert_in_range(rate_at(&rate, now_ns + 300 * S), 1024, 1200);
    /* What is learned then begins there. */
    copy(&rate, MIB, now_ns + 300 * S);
    assert_in_range(rate_at(&rate, now_ns + 300 * S), 1024, 1100);
    /* A fast one stays as it is. */
    rate = (struct link_rate){0};
    copy(&rate, MIB / 10, 10 * S);
    assert_in_range(rate_at(&rate, 10000 * S), 102, 103);
}

TEST(test_a_node_that_comes_back_is_as_good_as_new)
{
    struct link_rate rate = {0};
    for (uint64_t i = 1; i < 10; i++)
        copy(&rate, 100 * MIB, i * S);
    link_rate_lost(&rate);
    assert_int_equal(rate_at(&rate, 10 * S), 1024);
}
