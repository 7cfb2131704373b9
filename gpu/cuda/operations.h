/* Copies and launches, and the groups of them that complete at once. What has ended is kept and
 * taken again, since events take long to create. The worker's main thread; where there is no
 * memory, the process ends. */
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
    cudaEvent_t edges;      /* of own planes; NULL: it never had any */
    struct operation
        *told; /* when the edges are there: completes then. NULL: it has, or has none */
};

/* Free those that are kept: all have been given back. */
void operations_close(void);

/* Zeroed memory. */
void *operations_allocate(size_t bytes);

/* One with the token, which is in no list. */
struct operation *operation_take(struct token token);
void operation_give(struct operation *operation);

/* An empty one. */
struct group *group_take(bool is_copy);
void group_give(struct group *group);

/* What a launch computes, in points × passes; what its copies are as long as; and both. */
uint64_t launch_computing(const struct launch *launch);
uint64_t launch_copying(const struct launch *launch);
uint64_t launch_work(const struct launch *launch);
