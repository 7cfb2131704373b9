/* The launches of a group, put on a stream; and where the same ones of a chain come again, as a
 * CUDA graph: noted the first time, captured the second, and one launch from then on.
 *
 * The same are those that tell the kernels the same: one load of a slot (slots.h), which is one
 * plan and one copy of its table, the same lines, and arrays and operands at the same addresses.
 * All of that is compared. A few are kept, those used lately, until memory goes back to the device.
 *
 * The worker's main thread. */
#pragma once

#include "gpu/cuda/operations.h"

cudaError_t graphs_open(void);
/* None is under way. */
void graphs_close(void);

/* Put the launches of the group, each with its slot, on the stream: in no order, with the copies of
 * their sources and targets before and after all of them; or, of a chain, in theirs. Where these
 * end a round, and are several, they may go as a graph, which is group->graph then; else one by
 * one, as for some minutes after a failed capture. units: multiprocessors. */
void graphs_put(struct group *group, int units, cudaStream_t stream);
/* A group that it was launched with has ended. */
void graphs_ended(struct graph *graph);
