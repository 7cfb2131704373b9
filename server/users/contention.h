/* Whether several users (or connections) have been active lately. Pure bookkeeping. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CONTENTION_NS = 100 * 1000 * 1000 };

/* Zeroed: no activity yet. */
struct contention {
    const void *latest;  /* who was active last, and may be gone: only compared */
    uint64_t changed_ns; /* when the active one last changed; 0: never */
};

static inline void contention_note(struct contention *contention, const void *who, uint64_t now_ns)
{
    if (contention->latest && contention->latest != who)
        contention->changed_ns = now_ns;
    contention->latest = who;
}

/* Has one alone been active for CONTENTION_NS? */
static inline bool contention_is_none(const struct contention *contention, uint64_t now_ns)
{
    return now_ns - contention->changed_ns >= CONTENTION_NS;
}
