/* Is one alone, or have others (users, connections) come lately? Pure bookkeeping. */
#ifndef SERVER_USERS_COMPANY_H
#define SERVER_USERS_COMPANY_H

#include <stdbool.h>
#include <stdint.h>

enum { COMPANY_NS = 100 * 1000 * 1000 };

/* Zeroed: nobody has come yet. */
struct company {
    const void *latest; /* who came last */
    uint64_t met_ns;    /* when that was another one than before; 0: never */
};

static inline void company_meet(struct company *company, const void *who, uint64_t now_ns)
{
    if (company->latest && company->latest != who)
        company->met_ns = now_ns;
    company->latest = who;
}

/* Has nobody else come for COMPANY_NS? */
static inline bool company_is_alone(const struct company *company, uint64_t now_ns)
{
    return now_ns - company->met_ns >= COMPANY_NS;
}

#endif
