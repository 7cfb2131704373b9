/* The last eighth of what users share is for those who hold little of it: nobody, and no number of
 * users who take what they can, keeps a new one out. */
#ifndef SERVER_USERS_RESERVE_H
#define SERVER_USERS_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

enum { RESERVE_PART = 8 };

/* All but the last eighth: the most that one user gets. */
static inline uint64_t reserve_most(uint64_t limit)
{
    return limit - limit / RESERVE_PART;
}

/* May a user who holds `own` have `need` more of `limit`, of which all users hold `taken`? Where
 * that reaches into the last eighth, only if the user then holds no more than is left. */
static inline bool reserve_allows(uint64_t limit, uint64_t taken, uint64_t own, uint64_t need)
{
    if (need > limit || taken > limit - need)
        return false;
    const uint64_t left = limit - taken - need;
    return left >= limit / RESERVE_PART || (own <= left && need <= left - own);
}

#endif
