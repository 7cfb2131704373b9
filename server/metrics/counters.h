/* What is counted of a user's jobs and bytes, and of all users'. */
#pragma once

#include <stdint.h>

/* A histogram of durations in constant memory: buckets a quarter of an octave wide. */
enum { LATENCY_BUCKETS = 160 }; /* quarter octaves from 1 µs to 2^40 µs (13 days) */

struct latency {
    uint64_t count, max_us;
    uint64_t bucket[LATENCY_BUCKETS];
};

void latency_record(struct latency *latency, uint64_t us);

/* The duration that a share (0 … 1) of all stays under: exact to a quarter of an octave. 0: none
 * yet. */
uint64_t latency_quantile(const struct latency *latency, double share);

/* How a request for a task has ended: refused before it was accepted, or answered. */
enum task_outcome {
    TASK_REFUSED,
    TASK_DONE,
    TASK_FAILED,
    TASK_CANCELLED,
    TASK_TIMED_OUT,
    TASK_OUTCOME_COUNT
};

/* Counts since a user was first seen, or since the server started. */
struct counters {
    uint64_t jobs[TASK_OUTCOME_COUNT]; /* that have ended so */
    uint64_t bytes_in, bytes_out;      /* payload */
    struct latency latency;            /* request read to reply handed to the socket, of jobs */
};
