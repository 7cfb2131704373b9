/* Kernels alone: what is put on a stream is captured into a graph, as often as makes a sample worth
 * timing, so that no time of the CPU's is in it, and replayed between two events. The product and
 * the classical kernels are timed so; the floors both so and launched as often one by one, since
 * CUDA copies large arrays faster outside a graph. */
#pragma once

#include "bench/timing.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef cudaError_t timed_enqueue(const void *what, cudaStream_t stream);

enum timed_way { TIMED_GRAPH, TIMED_LAUNCHES };

/* Ends the process where CUDA fails. */
struct timing timed(enum timed_way way, timed_enqueue *enqueue, const void *what);

/* What would run, without running it. */
struct timing_kernel timed_kernel(timed_enqueue *enqueue, const void *what);

/* End the process, saying what failed. */
void timed_must(cudaError_t status, const char *what);

#ifdef __cplusplus
}
#endif
