#include "server/devices/heartbeat.h"

enum {
    /* Beats of silence; the first of them brings the ping that is not answered. */
    STALLED_BEATS = 1 + 1000 / HEARTBEAT_MS,
    LOST_BEATS = 1 + 5000 / HEARTBEAT_MS,
    START_BEATS = 1 + 65000 / HEARTBEAT_MS,
    PATIENCE = 20 /* times an estimate */
};
#define STUCK_NS 5e9

bool heartbeat_beat(struct heartbeat *heartbeat)
{
    const bool pings = !heartbeat->pinged;
    heartbeat->silent++;
    heartbeat->pinged = true;
    return pings;
}

void heartbeat_heard(struct heartbeat *heartbeat)
{
    heartbeat->silent = 0;
}

void heartbeat_pong(struct heartbeat *heartbeat, const struct channel_pong *pong)
{
    bool stuck = false;
    for (int i = 0; i < CHANNEL_WORKS; i++) {
        const struct channel_work *before = &heartbeat->pong.work[i], *now = &pong->work[i];
        stuck |= before->under_way && now->under_way && now->ended == before->ended;
    }
    heartbeat->pong = *pong;
    heartbeat->stuck = stuck ? heartbeat->stuck + 1 : 0;
    heartbeat->pinged = false;
}

bool heartbeat_is_stalled(const struct heartbeat *heartbeat)
{
    return heartbeat->silent >= STALLED_BEATS;
}

bool heartbeat_is_lost(const struct heartbeat *heartbeat, bool starts)
{
    return heartbeat->silent >= (starts ? START_BEATS : LOST_BEATS);
}

bool heartbeat_is_stuck(const struct heartbeat *heartbeat, double longest_piece_ns)
{
    const double ended_none_ns = (double)heartbeat->stuck * HEARTBEAT_MS * 1e6;
    const double still_ns = (double)heartbeat->pong.still_us * 1e3;
    const double stuck_ns = ended_none_ns > still_ns ? ended_none_ns : still_ns;
    return stuck_ns >= STUCK_NS && stuck_ns >= PATIENCE * longest_piece_ns;
}
