/* How fast bytes pass between this node and another one, learned from the copies between them. Pure
 * bookkeeping.
 *
 * Where a link is thought to be slow, nothing is placed behind it, so that nothing would set that
 * right. So one copy that stalls raises the rate by a factor of four at most, and slowness is
 * forgotten in time. */
#pragma once

#include <math.h>
#include <stdint.h>

enum { LINK_LEARN_BYTES = 1 << 20, LINK_LATENCY_NS = 200 * 1000 };

#define LINK_NS_PER_BYTE 1.0 /* until it was learned: a network of 10 Gb/s */
#define LINK_HALF_NS 30e9    /* in which half of what is slower than that is forgotten */

/* Zeroed: nothing is known. */
struct link_rate {
    double ns_per_byte; /* at learned_ns; 0: not learned */
    uint64_t learned_ns;
    uint32_t under_way;       /* copies */
    uint64_t begin_ns, bytes; /* since there were none, or since the last sum was learned */
};

static inline void link_rate_begin(struct link_rate *rate, uint64_t now_ns)
{
    if (rate->under_way++)
        return;
    rate->begin_ns = now_ns;
    rate->bytes = 0;
}

/* What is known of it by then. */
static inline double link_rate_now(const struct link_rate *rate, uint64_t now_ns)
{
    if (rate->ns_per_byte <= 0)
        return LINK_NS_PER_BYTE;
    if (rate->ns_per_byte <= LINK_NS_PER_BYTE)
        return rate->ns_per_byte;
    const double halvings = (double)(now_ns - rate->learned_ns) / LINK_HALF_NS;
    return LINK_NS_PER_BYTE + (rate->ns_per_byte - LINK_NS_PER_BYTE) * exp2(-halvings);
}

/* A copy has ended. Few bytes tell of the latency only. */
static inline void link_rate_end(struct link_rate *rate, uint64_t bytes, uint64_t now_ns)
{
    rate->under_way--;
    rate->bytes += bytes;
    if (rate->bytes < LINK_LEARN_BYTES)
        return;
    const double known = link_rate_now(rate, now_ns);
    const double seen = fmin((double)(now_ns - rate->begin_ns) / (double)rate->bytes, 4 * known);
    rate->ns_per_byte = rate->ns_per_byte > 0 ? (known + seen) / 2 : seen;
    rate->begin_ns = rate->learned_ns = now_ns;
    rate->bytes = 0;
}

/* The node has gone, and all copies with it; another way may lead to it when it comes back. */
static inline void link_rate_lost(struct link_rate *rate)
{
    *rate = (struct link_rate){0};
}

/* The time of a copy that begins now. */
static inline double link_rate_ns(const struct link_rate *rate, uint64_t bytes, uint64_t now_ns)
{
    return LINK_LATENCY_NS + link_rate_now(rate, now_ns) * (double)bytes;
}
