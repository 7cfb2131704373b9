/* Runs that are copied from and to clients' regions: their copies both ways and their launches, as
 * soon as each transfer (gpu/worker/transfer.h) allows.
 *
 * So few copies are under way each way that another waits for two chunks at most. The next one is
 * of the oldest job no larger than a chunk and of the oldest other one in turn: small jobs pass
 * large ones, and no run starves. One thread. */
#pragma once

#include "gpu/backend.h"
#include "gpu/worker/execution.h"

#include <stdint.h>

/* On an H200 with both ways busy each way takes 46.2 GB/s in chunks of 2 MiB, 48.3 of 4 MiB
 * and 48.8 of 8 MiB: from one copy to the next pass about 4 µs, as long as another waits behind it.
 * More than two under way are of no use. */
enum { PIPELINE_CHUNK_BYTES = 4 << 20, PIPELINE_CHUNKS = 2 };

/* The size of the chunks that arrays of a job of one pass go in: PIPELINE_CHUNK_BYTES at most. */
uint64_t pipeline_chunk_bytes(uint64_t array_bytes);

enum { PIPELINE_SMALL, PIPELINE_LARGE, PIPELINE_SIZES };

struct pipeline {
    const struct backend *backend;
    /* Of a transfer that is `whole`: its inputs are in. */
    void (*compute_passes)(void *context, struct execution *run);
    void *context;
    /* The runs that have a chunk to copy, and the size that had the last turn. */
    struct list queues[WAYS][PIPELINE_SIZES];
    int last_size[WAYS];
    uint64_t bytes[WAYS]; /* under way */
    uint32_t under_way;   /* completions that the backend owes */
};

void pipeline_init(struct pipeline *pipeline, const struct backend *backend,
                   void (*compute_passes)(void *context, struct execution *run), void *context);

/* A run that starts: its transfer and its slices begin. pipeline_pump() is to follow. */
void pipeline_add(struct pipeline *pipeline, struct execution *run);
/* A copy alone, of so many bytes: from run->from[0] to run->slices.launch.in[0], or from
 * run->slices.launch.even[0] to run->to[0]. pipeline_pump() is to follow. */
void pipeline_add_copy(struct pipeline *pipeline, struct execution *run, uint64_t bytes,
                       enum way way);
/* Begin no more of it. */
void pipeline_remove(struct execution *run);
/* Its passes have completed. pipeline_pump() is to follow. */
void pipeline_passes_completed(struct pipeline *pipeline, struct execution *run);

/* Begin all that can begin now. */
void pipeline_pump(struct pipeline *pipeline);
/* A copy or launch has completed. The run that it was of, whose transfer may be done. */
struct execution *pipeline_complete(struct pipeline *pipeline, const struct completion *completion);
