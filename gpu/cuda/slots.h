/* Which plans constant memory holds: each in a slot (passes.h) that launches share while they use
 * it, and that the next plan takes when they have ended. The worker's main thread. */
#pragma once

#include "numerics/plan.h"

#include <cuda_runtime_api.h>

cudaError_t slots_open(void);
/* None is in use. */
void slots_close(void);

/* The slot that holds the plan, for launches that come next on the stream: where there is none yet,
 * it is loaded there, and its table to the device. In use by one launch more. −1: all are in use,
 * or there is no memory for its table before a launch that is under way has ended. A table that is
 * too large to be kept goes with the last launch that uses it. */
int slots_take(const struct plan *plan, cudaStream_t stream);
/* Which load of a plan that is, of all: never the same for two. */
uint64_t slots_load_of(int slot);
/* A launch that used it has ended. */
void slots_give(int slot);
