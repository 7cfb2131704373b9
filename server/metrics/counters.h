/* Counters of a user, and of all users. */
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

struct counters {
    /* Held now. */
    uint64_t connections;
    uint64_t jobs;                  /* accepted, not yet answered */
    uint64_t fields;                /* resident, with an id */
    uint64_t bytes;                 /* of arrays on devices, resident or of a job */
    uint64_t queue_bytes;           /* of the arrays and blocks of jobs */
    uint64_t regions, region_bytes; /* registered or being registered */
    uint64_t exports;               /* arrays whose memory has a descriptor here */
    uint64_t passed;                /* descriptors that clients may not have read yet (sending.c) */
    uint64_t front_bytes;           /* of the front's own memory (memory.h) */
    /* Since the user was first seen, or the server started. */
    uint64_t ended[TASK_OUTCOME_COUNT]; /* jobs */
    uint64_t bytes_in, bytes_out;       /* payload */
    struct latency latency;             /* request read to reply handed to the socket, of jobs */
};
