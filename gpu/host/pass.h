/* Runs the passes of a job, or pieces of them, on all cores: cuts a pass into boxes that fit the
 * caches, and gives them to the threads. One caller at a time. */
#ifndef GPU_HOST_PASS_H
#define GPU_HOST_PASS_H

#include "gpu/backend.h"
#include "gpu/host/kernels.h"

#define PASS_KERNELS 3

/* The generations of kernels that this processor can run, fastest first; how many. */
int pass_kernels(const struct kernels *found[PASS_KERNELS]);

/* Output that is larger is better written past the caches. */
uint64_t pass_stream_bytes(void);

/* Do all of a launch and return. An array of more than stream_bytes is written past the
 * caches where its lines are long (any that is not empty where stream_bytes is 0). */
void pass_launch(const struct kernels *kernels, const struct launch *launch, uint64_t stream_bytes);

#endif
