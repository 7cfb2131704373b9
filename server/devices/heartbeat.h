/* Is a worker still there, and its device? Pure bookkeeping.
 *
 * Time is counted in beats of the front's loop, so that a front that was stopped or starved holds
 * nothing against its workers: however long it was away, that is one beat. At each beat without an
 * answer due the worker is pinged; whatever it says is a sign of life. */
#pragma once

#include "gpu/worker/channel.h"

enum { HEARTBEAT_MS = 500 };

/* Zeroed: a worker that was just started. */
struct heartbeat {
    bool pinged;     /* an answer is due */
    uint64_t silent; /* beats since it last said anything */
    /* Of its last answer; and how many answers in a row had work of some kind under way of which
     * none had ended since the answer before. */
    struct channel_pong pong;
    uint64_t stuck;
};

/* A beat. True: ping it. */
bool heartbeat_beat(struct heartbeat *heartbeat);
/* The worker has said something; and what, where it was PONG. */
void heartbeat_heard(struct heartbeat *heartbeat);
void heartbeat_pong(struct heartbeat *heartbeat, const struct channel_pong *pong);

/* It has not answered for a second. */
bool heartbeat_is_stalled(const struct heartbeat *heartbeat);
/* Not for 5 seconds; while it starts, 65. */
bool heartbeat_is_lost(const struct heartbeat *heartbeat, bool starts);
/* Asked of a PONG as it comes, with the jobs that it tells of: for 5 seconds, and 20 times what the
 * longest piece of them should take, its device has ended
 * nothing of what it was given; or, by what the worker says, has not gone on with a part of it. */
bool heartbeat_is_stuck(const struct heartbeat *heartbeat, double longest_piece_ns);
