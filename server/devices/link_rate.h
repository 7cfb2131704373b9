/* How fast bytes pass between this node and another one, learned from the copies between them. Pure
 * bookkeeping. */
#pragma once

#include <stdint.h>

enum { LINK_LEARN_BYTES = 1 << 20, LINK_LATENCY_NS = 200 * 1000 };

/* Zeroed: nothing is known. */
struct link_rate {
    double ns_per_byte;       /* 0: not learned; then 1, a network of 10 Gb/s */
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

/* A copy has ended. Few bytes tell of the latency only. */
static inline void link_rate_end(struct link_rate *rate, uint64_t bytes, uint64_t now_ns)
{
    rate->under_way--;
    rate->bytes += bytes;
    if (rate->bytes < LINK_LEARN_BYTES)
        return;
    const double seen = (double)(now_ns - rate->begin_ns) / (double)rate->bytes;
    rate->ns_per_byte = rate->ns_per_byte > 0 ? (rate->ns_per_byte + seen) / 2 : seen;
    rate->begin_ns = now_ns;
    rate->bytes = 0;
}

/* The node has gone, and all copies with it. */
static inline void link_rate_lost(struct link_rate *rate)
{
    rate->under_way = 0;
}

/* The time of a copy. */
static inline double link_rate_ns(const struct link_rate *rate, uint64_t bytes)
{
    const double ns_per_byte = rate->ns_per_byte > 0 ? rate->ns_per_byte : 1;
    return LINK_LATENCY_NS + ns_per_byte * (double)bytes;
}
