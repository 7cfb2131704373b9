/* Launches of own planes (gpu/launch.h): their edges on a stream of their own, whose blocks go
 * before others that wait. The worker's main thread. */
#pragma once

#include "gpu/cuda/operations.h"

cudaError_t own_planes_open(void);
/* None is under way. */
void own_planes_close(void);

/* Put the only launch of the group, which has its slot, on the stream, behind group->begin. If it
 * has edges, group->told completes with group->edges, and the waker, on which host functions wait,
 * then calls wake(NULL). */
void own_planes_put(struct group *group, int units, cudaStream_t stream, cudaStream_t waker,
                    cudaHostFn_t wake);
