/* The shares of users in a bounded resource: exact limits, and sums that do not fit in 64 bits. */
#include "server/users/reserve.h"
#include "tests/unit/unit.h"

enum { ALL = 1000 };

TEST(one_alone_gets_half)
{
    assert_true(reserve_shares(ALL, 0, 500));
    assert_false(reserve_shares(ALL, 0, 501));
    assert_true(reserve_shares(ALL - 499, 499, 1));
    assert_false(reserve_shares(ALL - 500, 500, 1));
    assert_true(reserve_shares(ALL - 500, 500, 0));
    assert_false(reserve_shares(ALL - 501, 501, 0));
    assert_int_equal(reserve_shares_most(ALL - 300, 300), 500);
}

TEST(however_many_take_all_they_can_the_next_finds_some)
{
    uint64_t left = ALL;
    for (int user = 0; user < 9; user++) {
        uint64_t own = 0;
        for (; reserve_shares(left, own, 1); own++)
            left--;
        assert_true(own > 0);
    }
}

TEST(the_last_eighth_is_for_those_who_hold_little)
{
    assert_true(reserve_allows(ALL, 0, 0, 875));
    assert_int_equal(reserve_most(ALL), 875);
    assert_false(reserve_allows(ALL, 875, 875, 1));
    assert_true(reserve_allows(ALL, 875, 0, 62));
    assert_false(reserve_allows(ALL, 875, 0, 63));
    assert_false(reserve_allows(ALL, ALL, 0, 1));
}

TEST(no_sum_overflows)
{
    assert_false(reserve_shares(UINT64_MAX, UINT64_MAX, 1));
    assert_false(reserve_shares(UINT64_MAX, 1, UINT64_MAX));
    assert_false(reserve_shares(ALL, UINT64_MAX, UINT64_MAX));
    assert_false(reserve_allows(ALL, UINT64_MAX, UINT64_MAX, UINT64_MAX));
    assert_false(reserve_allows(ALL, ALL, UINT64_MAX, 1));
}
