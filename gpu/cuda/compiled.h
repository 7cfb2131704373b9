/* Kernels that were compiled for stencils of jobs, in slots that the front gives out (backend.h).
 *
 * A thread loads them: it compares each with numerics/stencil_point.h on a small field before it is
 * offered (one that differs is dropped, with a line of the log; one that there is no memory for is
 * tried again after a pause), and unloads what was in the slot before once its launches have ended.
 * These are never part of a graph, which would outlive that: KERNEL_LEAST_POINTS. */
#pragma once

#include "gpu/compile/source.h"
#include "numerics/plan.h"

#include <cuda_runtime_api.h>

__BEGIN_DECLS

/* On that device. False: there is no thread; kernels that come are dropped. */
bool compiled_open(int device, int units);
/* Nothing is under way. */
void compiled_close(void);

/* Load a kernel to the slot: its image (struct kernel_image), which is the callee's. Main thread.
 */
void compiled_take(uint32_t slot, uint8_t *image, uint64_t bytes);
/* Wait until all that were taken have been loaded, dropped or put off for want of memory. */
void compiled_wait(void);

/* The kernel, as for cudaLaunchKernel(), for fields of so many points in all; NULL: there is none.
 * Main thread. */
const void *compiled_find(const struct kernel_key *key, uint64_t points);
/* It has been launched on the stream. Main thread. */
void compiled_used(const void *kernel, cudaStream_t stream);

/* Does it give the values of stencil_point.h? Waits for the device. compiled_check.c */
enum compiled_verdict {
    COMPILED_RIGHT,
    COMPILED_WRONG,  /* other values, or it cannot be launched */
    COMPILED_UNTRIED /* there was no memory for the trial */
};
enum compiled_verdict compiled_check(const struct kernel_key *key, const void *kernel, int units);

/* One pass of a stencil by its kernel, between arrays on the device, of the points [low, high)
 * alone, which it tells. stencil_own.cu */
struct compiled_trial {
    const struct kernel_key *key;
    const void *kernel;
    const struct plan *plan;
    const void *device_table; /* of the plan, there */
    int units;
    const void *in;
    void *out;
    void *room; /* for a padding */
    uint64_t room_bytes;
};
cudaError_t compiled_launch(const struct compiled_trial *trial, cudaStream_t stream,
                            int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT]);

__END_DECLS
