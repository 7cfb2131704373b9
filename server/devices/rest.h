/* How long something that did not work is left alone before it is tried again: networks are mended,
 * or were only busy. In beats of a device. Pure bookkeeping. */
#pragma once

#include "server/devices/heartbeat.h"

#include <stdint.h>

enum { REST_FIRST = 5000 / HEARTBEAT_MS, REST_MOST = 64 * REST_FIRST };

/* Zeroed: it has never failed, and may be tried. */
struct rest {
    uint32_t left, pause; /* until it may be tried, and of the whole rest */
};

/* It did not work. Each rest is twice as long as the one before, until it has worked. */
static inline void rest_begin(struct rest *rest)
{
    rest->pause = rest->pause ? 2 * rest->pause : REST_FIRST;
    if (rest->pause > REST_MOST)
        rest->pause = REST_MOST;
    rest->left = rest->pause;
}

/* A beat. True: it has rested. */
static inline bool rest_beat(struct rest *rest)
{
    if (rest->left > 0)
        rest->left--;
    return rest->left == 0;
}

static inline void rest_forget(struct rest *rest)
{
    *rest = (struct rest){0};
}
