/* The jobs of a worker that are not finished, in the order they came, and which of them may start:
 * those that share an array keep their order, unless all of them only read it. One thread. */
#pragma once

#include "gpu/worker/channel.h"
#include "gpu/worker/holding.h"
#include "gpu/worker/ids.h"
#include "gpu/worker/slices.h"
#include "gpu/worker/region.h"
#include "gpu/worker/transfer.h"

#include <stdbool.h>
#include <stdint.h>

/* Where in a region an input or output lies; region NULL: nowhere. */
struct execution_place {
    struct region *region;
    uint8_t *memory;
};

enum way { WAY_IN, WAY_OUT, WAYS };

/* A RUN or MEASURE that is not FINISHED. Or a copy between an array and a region:
 * gpu/worker/pipeline.h's alone. */
struct execution {
    struct execution *previous, *next; /* in the order they came */
    uint64_t id;
    /* NULL from the job's number on, and where the backend computes in the place itself. */
    struct holding *in[AXIS_COUNT], *out[AXIS_COUNT];
    struct execution_place from[AXIS_COUNT], to[AXIS_COUNT]; /* of in and out */
    struct holding *scratch[AXIS_COUNT]; /* by output; NULL where none was given */
    struct holding *operand[OPERANDS];   /* by enum operand; NULL: it has none such */
    struct operands operands;            /* their memory, once started */
    bool wants_progress, cancelled, started;
    uint64_t chain; /* the front's number of it; 0: it is in none */
    bool ends_round;
    bool launched; /* all of it, in the chain's order: those behind it need not wait for its end */
    bool launches_copy;   /* its launches copy its arrays from and to places */
    uint64_t progress_us; /* when the last PROGRESS was sent */
    struct plan plan;
    struct slices slices; /* once started */
    /* The pipeline copies its arrays from and to places, and has what follows, once started. */
    bool in_pipeline;
    struct transfer transfer;
    const void *launches[TRANSFER_LAUNCHES]; /* the backend's names of those under way, else NULL */
    bool queued[WAYS];
    struct execution *behind[WAYS];             /* in the queue */
    struct channel_span copied[WAYS], computed; /* for its FINISHED */
    struct copy *copy;                          /* the worker's, where it is no RUN; else NULL */
    /* A MEASURE: what it comes to is brought to the slot of runs.measured, once started. */
    bool measures, measured;
    uint32_t slot;
};

enum { EXECUTIONS_MEASURING = 64 };

struct executions {
    struct execution *first, *last;
    struct ids by_id;
    uint32_t waiting;      /* not started */
    uint32_t copying;      /* of one pass, whose launches copy */
    uint64_t chain_points; /* × passes: so much of a chain may be with the backend at once */
    uint64_t slots;        /* bit i: slot i is a MEASURE's that has started */
    struct measured
        *measured; /* EXECUTIONS_MEASURING of them, the worker's; NULL: it measures nothing */
};

/* The last in the row; its arrays are in use from now on. Owned by the caller. False: no memory. */
bool executions_add(struct executions *runs, struct execution *run);
/* Out of the row; its arrays are in use no longer. */
void executions_remove(struct executions *runs, struct execution *run);
/* One of the arrays that it uses, NULL where it has none such: inputs, outputs, scratch and
 * operands in turn. *written: the run writes it; of its operands the probes alone, of its inputs
 * those that it copies from a place. */
enum { EXECUTION_ARRAYS = 3 * AXIS_COUNT + OPERANDS };
struct holding *execution_array(const struct execution *run, int i, bool *written);
/* Its arrays and places in memory, as slices_begin() takes them. */
struct buffers execution_buffers(const struct execution *run);

/* Do its launches keep the order of its chain? Those that copy its places do not. */
bool execution_is_chained(const struct execution *run);

/* It starts. */
void executions_start(struct executions *runs, struct execution *run);

/* Does no run before it, no want of a slot, no download of what it writes, and no upload from a
 * region of what it uses stand in its way? What has been launched of its chain does not, as long as
 * all of that is no more than chain_points. */
bool executions_may_start(const struct executions *runs, const struct execution *run);

/* One of its copies begins; one has ended. */
void execution_copy_begins(struct execution *run, enum way way);
void execution_copy_ended(struct execution *run, enum way way);
/* A launch of it has ended that took so long, its own copies included. */
void execution_computed(struct execution *run, uint64_t us);

/* NULL where there is none. */
struct execution *executions_find(const struct executions *runs, uint64_t id);
/* The last one of a chain; NULL where there is none. */
const struct execution *executions_last_of_chain(const struct executions *runs, uint64_t chain);
