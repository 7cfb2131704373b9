/* Runs the passes of a job or a slice of it: cuts a pass into boxes that fit the caches, which the
 * caller shares with the free threads of the pool (base/thread_pool.h) if there are enough of them.
 * Any thread. */
#pragma once

#include "gpu/backend.h"
#include "gpu/host/kernels.h"

#define PASS_KERNELS 3

/* The generations of kernels that this processor can run, fastest first; how many. */
int pass_kernels(const struct kernels *found[PASS_KERNELS]);

/* The size of an output, in bytes, above which it is written past the caches. */
uint64_t pass_stream_bytes(void);

/* Are its passes large enough to be shared? */
bool pass_is_wide(const struct plan *plan);

/* Do all of a launch and return. An array of more than stream_bytes is written past the
 * caches where its lines are long (any that is not empty where stream_bytes is 0). */
void pass_launch(const struct kernels *kernels, const struct launch *launch, uint64_t stream_bytes);
