/* One job through a backend, start to end, as the worker would run it. */
#pragma once

#include "gpu/backend.h"
#include "numerics/measure.h"

#include <stdbool.h>

/* A backend that is open, with an arena of its own. */
struct bed {
    const struct backend *backend;
    struct device_info info;
    int wake; /* eventfd */
    uint8_t *arena;
    size_t arena_bytes;
};

/* False with the reason in `failure` where there is no such device. */
bool bed_open(struct bed *bed, const struct backend *backend, int index, size_t arena_bytes,
              struct failure *failure);
void bed_close(struct bed *bed);

/* Run the job from `in` to `out` (host memory by component, job_bytes() each), with its block and
 * operands, if any, in host memory, too. Every array that it writes is poisoned beforehand.
 * at_once: 0 for all in one launch, else so many passes or, of a plan that has one, so many grains
 * of it (gpu/split.h), or a thousandth where that is more. *device_us, if not NULL: time on the
 * device. The values at probes come back in their operand's array. False where the device has no
 * memory. */
bool bed_run(struct bed *bed, const struct job *job, const void *block,
             const struct operands *operands, void *const in[AXIS_COUNT],
             void *const out[AXIS_COUNT], uint64_t at_once, uint64_t *device_us);

/* What there is to say about an array of host memory or, where b is not NULL, about the distances
 * of two. at_once: 0 for all in one launch, else so many blocks, where the backend splits passes.
 * False where the device has no memory. */
bool bed_measure(struct bed *bed, enum dtype dtype, uint64_t points, const void *a, const void *b,
                 uint64_t at_once, struct measured *measured);

/* Jobs under way all at once: uploads, then launches, without waiting in between; every second one
 * that is small enough is copied by its launch, where the backend's can, from and to memory of a
 * client's. Together their arrays must fit the arena. False where the device has no memory. */
struct bed_job {
    struct job job;
    void *in[AXIS_COUNT], *out[AXIS_COUNT]; /* host memory, job_bytes() each */
};
bool bed_run_together(struct bed *bed, const struct bed_job *jobs, uint64_t count);

/* The same jobs, of one input and one output each, as one chain: so many rounds in which each is
 * done twice, what it makes is its input again, and all launches are ordered at once. */
bool bed_run_chain(struct bed *bed, const struct bed_job *jobs, uint64_t count, uint64_t rounds);
