#include "server/metrics/counters.h"

#include <math.h>

void latency_record(struct latency *latency, uint64_t us)
{
    int bucket = us > 1 ? (int)(4 * log2((double)us)) : 0;
    if (bucket >= LATENCY_BUCKETS)
        bucket = LATENCY_BUCKETS - 1;
    latency->bucket[bucket]++;
    latency->count++;
    if (us > latency->max_us)
        latency->max_us = us;
}

uint64_t latency_quantile(const struct latency *latency, double share)
{
    uint64_t seen = 0;
    for (int i = 0; i < LATENCY_BUCKETS && latency->count; i++) {
        seen += latency->bucket[i];
        if ((double)seen < share * (double)latency->count || !seen)
            continue;
        const uint64_t upper = (uint64_t)exp2((i + 1) / 4.0);
        return upper < latency->max_us ? upper : latency->max_us;
    }
    return 0;
}
