/* Copies and launches, each an operation with the token of its completion; groups of them, which
 * are put on a stream one after another and complete at once; and chains of launches, whose groups
 * come one after another on one stream. Operations and groups are recycled. The worker's main
 * thread; where there is no memory for one, the process ends. */
#pragma once

#include "gpu/backend.h"

#include <cuda_runtime_api.h>

/* In order. */
struct operations {
    struct operation *first, **end;
};

struct operation {
    struct operation *next;
    struct completion completion;
    /* A launch: with which slot; the group that it is under way with; and, before it is, the
     * downloads that come after it. */
    struct launch launch;
    bool has_begun;
    int slot;
    struct group *group;
    struct operations followers;
    /* A copy. */
    void *to;
    const void *from;
    size_t bytes;
};

struct queue; /* of the backend */
struct graph; /* gpu/cuda/graphs.h */

/* Of struct launch: its launches that have not begun, and where those are that have. */
struct chain {
    struct chain *next;
    uint64_t number;
    struct operations ordered;
    struct queue *queue; /* that has those under way, … */
    uint32_t groups;     /* … in so many groups */
};

struct group {
    struct group *next;
    struct operations operations;
    bool is_copy;
    struct chain *chain;    /* whose launches it has; NULL: none's */
    bool ends_round;        /* … and it ends with one that does */
    struct graph *graph;    /* that they were launched as; NULL: one by one */
    cudaEvent_t begin, end; /* a copy has no begin, and its end tells no time */
};

void operations_init(struct operations *operations);
void operations_add(struct operations *operations, struct operation *operation);
/* The first, of one at least. */
struct operation *operations_take(struct operations *operations);

/* A new one, and what is none any more. */
struct operation *operation_take(struct token token);
void operation_give(struct operation *operation);

/* A new one without operations; and what is none any more. */
struct group *group_take(bool is_copy);
void group_give(struct group *group);

/* The one of that number in a list, else a new one there. */
struct chain *chains_find(struct chain **chains, uint64_t number);
/* Take it from the list and free it, if nothing of it is ordered or under way. */
void chains_settle(struct chain **chains, struct chain *chain);

/* Free what was given back: all that ever was. */
void groups_close(void);
