/* What is counted of a user's jobs and bytes, and of all users'. */
#pragma once

#include "server/metrics/latency.h"

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
