/* A histogram of durations in constant memory: buckets a quarter of an octave wide. */
#pragma once

#include <stdint.h>

enum { LATENCY_BUCKETS = 160 }; /* quarter octaves from 1 µs to 2^40 µs (13 days) */

struct latency {
    uint64_t count, max_us;
    uint64_t bucket[LATENCY_BUCKETS];
};

void latency_record(struct latency *latency, uint64_t us);

/* The duration that a share (0 … 1) of all stays under: exact to a quarter of an octave. 0: none
 * yet. */
uint64_t latency_quantile(const struct latency *latency, double share);
