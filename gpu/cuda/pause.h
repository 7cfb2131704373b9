/* How long what there was no memory for is left alone before it is tried again. Pure bookkeeping.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: it has not failed since it last worked, and may be tried. */
struct pause {
    uint64_t s, end_ns; /* how long, and until when by clock_ns() */
};

/* It has failed. Each pause is twice as long as the one before, and most_s at most. */
static inline void pause_begin(struct pause *pause, uint64_t first_s, uint64_t most_s)
{
    pause->s = pause->s ? 2 * pause->s : first_s;
    if (pause->s > most_s)
        pause->s = most_s;
    pause->end_ns = clock_ns() + pause->s * UINT64_C(1000000000);
}

static inline bool pause_lasts(const struct pause *pause)
{
    return pause->s && clock_ns() < pause->end_ns;
}
