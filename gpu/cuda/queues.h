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
 * waiting by the slabs of large jobs that are in its queue.
 *
 * Launches that were ordered together and are small make a group: they run back to back on one
 * queue and complete at once, for the cost of one; those of one plan share a launch of a kernel.
 * Launches of a chain go on one queue, behind those of it that are under way there, a round of them
 * in a group: as a graph (graphs.h) where it was there before.
 *
 * reap() looks at the events itself; only before the worker sleeps do host functions go behind what
 * is under way, to wake it. The worker's main thread; where there is no memory for an operation,
 * the process ends. */
#pragma once

#include "base/list.h"
#include "gpu/backend.h"

#include <cuda_runtime_api.h>

struct chain; /* launches that keep their order */
struct graph; /* gpu/cuda/graphs.h */

/* A copy or launch, with the token of its completion. */
struct operation {
    struct list link;
    struct completion completion;
    /* A launch: with which slot; the group that it is under way with; and, before it is, the
     * downloads that come after it. */
    struct launch launch;
    bool has_begun;
    int slot;
    struct group *group;
    struct list followers;
    /* A copy. */
    void *to;
    const void *from;
    size_t bytes;
};

/* Operations that are put on a stream one after another and complete at once. */
struct group {
    struct list link;
    struct list operations;
    bool is_copy;
    struct chain *chain;    /* whose launches it has; NULL: none's */
    bool ends_round;        /* … and it ends with one that does */
    struct graph *graph;    /* that they were launched as; NULL: one by one */
    cudaEvent_t begin, end; /* a copy has no begin, and its end tells no time */
};

/* units: multiprocessors; wake: the eventfd of backend.h. */
cudaError_t queues_open(int units, int wake);
/* Nothing is under way. */
void queues_close(void);

/* Clear memory, before anything that begins from now on. */
void queues_clear(void *memory, uint64_t bytes);

/* As in backend.h. */
void queues_upload(void *device, const void *arena, size_t bytes, struct token token);
void queues_download(void *arena, const void *device, size_t bytes, const void *after,
                     struct token token);
const void *queues_launch(const struct launch *launch, struct token token);
void queues_begin(void);
void queues_arm(void);
bool queues_reap(struct completion *completion);
