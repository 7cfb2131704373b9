/* How users share a bounded resource without a fixed share for each: two rules, both made of one
 * test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { RESERVE_PART = 8 };

/* Dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998): may a user who holds `own`
 * have `need` more of what is `left`? Only as much as is left for others then:
 *
 *   own + need ≤ left − need
 *
 * So one user alone gets half, and a newcomer always finds some. */
static inline bool reserve_shares(uint64_t left, uint64_t own, uint64_t need)
{
    return need <= left && own <= left - need && need <= left - need - own;
}

/* The most that the user may hold then: where own + need reaches left − need. */
static inline uint64_t reserve_shares_most(uint64_t left, uint64_t own)
{
    return (left + own) / 2;
}

/* All but the last eighth: the most that one user gets by the rule below. */
static inline uint64_t reserve_most(uint64_t limit)
{
    return limit - limit / RESERVE_PART;
}

/* The last eighth is for users who hold little, so that no number of greedy users keeps a new one
 * out. May a user who holds `own` have `need` more of `limit`, of which all users hold `taken`?
 * Within the last eighth the rule above decides. */
static inline bool reserve_allows(uint64_t limit, uint64_t taken, uint64_t own, uint64_t need)
{
    if (need > limit || taken > limit - need)
        return false;
    return limit - taken - need >= limit / RESERVE_PART || reserve_shares(limit - taken, own, need);
}
