/* Is a worker still there, and its device? Pure bookkeeping.
 *
 * Time is counted in beats of the front's loop, so that the time in which the front was stopped or
 * starved counts as one beat. At each beat the worker is pinged, unless an answer is due; any
 * message is a sign of life. */
#pragma once

#include "gpu/worker/channel.h"

enum {
    HEARTBEAT_MS = 500,
    /* Beats of silence; the first of them brings the ping that is not answered. */
    HEARTBEAT_STALLED = 1 + 1000 / HEARTBEAT_MS,
    HEARTBEAT_LOST = 1 + 5000 / HEARTBEAT_MS,
    HEARTBEAT_START = 1 + 65000 / HEARTBEAT_MS,
    HEARTBEAT_PATIENCE = 20 /* times an estimate */
};
#define HEARTBEAT_STUCK_NS 5e9

/* Zeroed: a worker that was just started. */
struct heartbeat {
    bool pinged;     /* an answer is due, */
    bool late;       /* … since before the last beat */
    uint64_t silent; /* beats since it last said anything; … */
    uint64_t held;   /* … of these, when the kernel was last seen to hold it; 0: not */
    /* Of its last answer; and how many answers in a row had work of some kind under way of which
     * none had ended since the answer before. */
    struct channel_pong pong;
    uint64_t stuck;
};

/* A beat. True: ping it. */
static inline bool heartbeat_beat(struct heartbeat *heartbeat)
{
    const bool pings = !heartbeat->pinged;
    heartbeat->silent++;
    heartbeat->late = heartbeat->pinged;
    heartbeat->pinged = true;
    return pings;
}

/* The worker has sent a message; heartbeat_pong(): a PONG. */
static inline void heartbeat_heard(struct heartbeat *heartbeat)
{
    heartbeat->silent = heartbeat->held = 0;
}

/* The kernel is seen to hold it. */
static inline void heartbeat_is_held(struct heartbeat *heartbeat)
{
    heartbeat->held = heartbeat->silent;
}

static inline void heartbeat_pong(struct heartbeat *heartbeat, const struct channel_pong *pong)
{
    bool stuck = false;
    for (int i = 0; i < CHANNEL_WORKS; i++) {
        const struct channel_work *before = &heartbeat->pong.work[i], *now = &pong->work[i];
        stuck |= before->under_way && now->under_way && now->ended == before->ended;
    }
    heartbeat->pong = *pong;
    heartbeat->stuck = stuck ? heartbeat->stuck + 1 : 0;
    heartbeat->pinged = heartbeat->late = false;
}

/* It has not answered for a second. */
static inline bool heartbeat_is_stalled(const struct heartbeat *heartbeat)
{
    return heartbeat->silent >= HEARTBEAT_STALLED;
}

/* Not for 5 seconds since the kernel held it; not for 65, also while it starts. */
static inline bool heartbeat_is_lost(const struct heartbeat *heartbeat, bool starts)
{
    return heartbeat->silent >= HEARTBEAT_START ||
           (!starts && heartbeat->silent - heartbeat->held >= HEARTBEAT_LOST);
}

/* To be asked at each PONG: has the device completed none of its work, or (by the PONG's still_us)
 * made no progress with a part of it, for 5 seconds and for 20 times the estimated time of the
 * longest piece? */
static inline bool heartbeat_is_stuck(const struct heartbeat *heartbeat, double longest_piece_ns)
{
    const double ended_none_ns = (double)heartbeat->stuck * HEARTBEAT_MS * 1e6;
    const double still_ns = (double)heartbeat->pong.still_us * 1e3;
    const double stuck_ns = ended_none_ns > still_ns ? ended_none_ns : still_ns;
    return stuck_ns >= HEARTBEAT_STUCK_NS && stuck_ns >= HEARTBEAT_PATIENCE * longest_piece_ns;
}
