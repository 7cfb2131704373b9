/* Times kernels alone: enough launches for a sample are captured into a graph, to exclude the CPU's
 * time, and replayed between two events. This applies to the product and the classical kernels.
 * Floors are also timed without a graph, because CUDA then copies large arrays faster. */
#pragma once

#include "bench/timing.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef cudaError_t timed_enqueue(const void *what, cudaStream_t stream);

enum timed_way { TIMED_GRAPH, TIMED_LAUNCHES };

/* Ends the process if CUDA fails. */
struct timing timed(enum timed_way way, timed_enqueue *enqueue, const void *what);

/* The kernels that would run, without running them. */
struct timing_kernel timed_kernel(timed_enqueue *enqueue, const void *what);

/* Print the failure and end the process. */
void timed_must(cudaError_t status, const char *what);

#ifdef __cplusplus
}
#endif
