/* Runs and times a benchmark's operators: the host backend by the wall clock, CUDA's kernels alone
 * by the device's clock. A failure ends the process with a message. */
#pragma once

#include "bench/timing.h"
#include "gpu/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RUNNER_PRODUCT = -1 };

struct runner {
    const char *kind;                          /* "host" or "cuda" */
    void (*open)(int index);                   /* before all others */
    const char *(*name)(void);                 /* the device's model */
    void (*describe)(char *text, size_t size); /* members of a JSON object: driver, clocks, … */
    uint64_t (*free_bytes)(void);
    void *(*allocate)(uint64_t bytes);
    void (*release)(void *memory, uint64_t bytes);
    void (*poison)(void *memory, uint64_t bytes);
    void (*put)(void *device, const void *from, uint64_t bytes);
    void (*get)(void *to, const void *device, uint64_t bytes);
    /* Classical kernel number `which`, where it does this job; "" where it does not; NULL past the
     * last. */
    const char *(*classic)(int which, const struct job *job);
    /* which: RUNNER_PRODUCT or a classical kernel. */
    void (*run)(int which, const struct launch *launch); /* once, to its end */
    struct timing (*time)(int which, const struct launch *launch);
    struct timing_kernel (*kernel)(int which, const struct launch *launch); /* that it would run */
    double (*copy_us)(uint64_t bytes); /* the floor: from one array to another of as many bytes */
};

extern const struct runner runner_host;
#ifdef HAVE_CUDA
extern const struct runner runner_cuda;
#endif

#ifdef __cplusplus
}
#endif
