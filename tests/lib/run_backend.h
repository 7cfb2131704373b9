/* Runs one job on a backend from start to end, as the worker does. */
#pragma once

#include "gpu/backend.h"
#include "numerics/measure.h"

#include <stdbool.h>

/* An open backend with its own arena. */
struct bed {
    const struct backend *backend;
    struct device_info info;
    int wake; /* eventfd */
    uint8_t *arena;
    size_t arena_bytes;
};

/* False with the reason in `failure` if there is no such device. */
bool bed_open(struct bed *bed, const struct backend *backend, int index, size_t arena_bytes,
              struct failure *failure);
void bed_close(struct bed *bed);

/* Run the job from `in` to `out` (host memory by component, job_bytes() each), with its block and
 * operands, if any, in host memory, too. Every array that it writes is poisoned beforehand.
 * at_once: 0 for one launch; else the passes of each launch or, for a plan of one pass, its grains
 * (gpu/split.h), or a thousandth if that is more. *device_us, if not NULL: time on the device. The
 * values at probes are returned in their operand's array. False if the device has no memory. */
bool bed_run(struct bed *bed, const struct job *job, const void *block,
             const struct operands *operands, void *const in[AXIS_COUNT],
             void *const out[AXIS_COUNT], uint64_t at_once, uint64_t *device_us);

/* The measure of an array of host memory or, if b is not NULL, of the distances of two. at_once: 0
 * for one launch, else the blocks of each, if the backend splits passes. False if the device has no
 * memory, or if the results of its blocks give another measure. */
bool bed_measure(struct bed *bed, enum dtype dtype, uint64_t points, const void *a, const void *b,
                 uint64_t at_once, struct measured *measured);

/* Run all jobs at once: uploads, then launches, without waiting in between. For every second job
 * that is small enough, the launch copies from and to a client's memory, if the backend supports
 * that. Together their arrays must fit the arena. False if the device has no memory. */
struct bed_job {
    struct job job;
    void *in[AXIS_COUNT], *out[AXIS_COUNT]; /* host memory, job_bytes() each */
};
bool bed_run_together(struct bed *bed, const struct bed_job *jobs, uint64_t count);

/* Jobs of one input and one output each, as one chain: in each round every job runs twice, from its
 * input to its output and back, and all launches are submitted at once. */
bool bed_run_chain(struct bed *bed, const struct bed_job *jobs, uint64_t count, uint64_t rounds);
