/* The streams of the device, each a queue that keeps what is under way on it, in order:
 *
 *   clears:     memset ─ event, which all others wait for
 *   uploads:    copies ─────────┬─ event, which launches of what is not resident wait for
 *   queue i:                    └► weights, passes of a group of launches ─ event ─► reap()
 *   downloads:  copies ───────────────────────────────────────────────────── event ─► reap()
 *
 * A download that is to come after a launch waits for its end on the device.
 *
 * Launches with sources and targets have queues of their own, so that others do not wait for PCIe:
 *
 *   queue j:    weights, copies by a kernel, passes, copies by a kernel ─ event ─► reap()
 *
 * The copy engine does one copy after another, as they came from all queues: a kernel is not kept
 * waiting by the chunks of large jobs that are in its queue.
 *
 * Launches that were ordered together and are small make a group: they run back to back on one
 * queue and complete at once, for the cost of one; those of one plan share a launch of a kernel.
 * Launches of a chain go on one queue, behind those of it that are under way there, a round of them
 * in a group: as a graph (graphs.h) where it was there before. One of own planes is a group of its
 * own, whose edges have another stream (own_planes.h).
 *
 * reap() looks at the events itself; only before the worker sleeps do host functions wait, on
 * streams of their own, for what is under way, to wake it. The worker's main thread; where there is
 * no memory for an operation, the process ends. */
#pragma once

#include "gpu/cuda/operations.h"

#include <cuda_runtime_api.h>

/* units: multiprocessors; wake: the eventfd of backend.h. */
cudaError_t queues_open(int units, int wake);
/* Nothing is under way. */
void queues_close(void);

/* Clear memory, before anything that begins from now on. */
void queues_clear(void *memory, uint64_t bytes);

/* Wait until all memory that was to be cleared is. */
void queues_await_clears(void);

/* Let what is put on a stream of others from now on wait for all clears and uploads so far. */
void queues_let_wait(cudaStream_t stream);

/* As in backend.h. */
void queues_upload(void *device, const void *arena, size_t bytes, struct token token);
void queues_download(void *arena, const void *device, size_t bytes, const void *after,
                     struct token token);
const void *queues_launch(const struct launch *launch, struct token token);
void queues_begin(void);
void queues_arm(void);
bool queues_reap(struct completion *completion);
