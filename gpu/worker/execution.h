/* The arrays of a worker and its unfinished orders, in the sequence they came, and which of them
 * may start: those that share an array keep their sequence unless all of them only read it. One
 * thread.
 */
#pragma once

#include "base/list.h"
#include "gpu/worker/channel.h"
#include "gpu/worker/ids.h"
#include "gpu/worker/region.h"
#include "gpu/worker/slices.h"
#include "gpu/worker/transfer.h"

#include <stdbool.h>
#include <stdint.h>

/* What a completion of the backend is of. */
enum token_kind {
    TOKEN_SLICE,  /* of: struct execution */
    TOKEN_UPLOAD, /* from the arena. of: struct holding; number: the order's tag */
    TOKEN_DOWNLOAD,
    TOKEN_EXPORT, /* of: struct exporting */
    TOKEN_HOME,   /* of: struct execution; its result, to an exported array */
    /* The pipeline's. of: struct execution; number: the copy's bytes, or the launch's number. */
    TOKEN_COPY_IN,
    TOKEN_COPY_OUT,
    TOKEN_PART,
    /* A communicator's (peers.c). */
    TOKEN_EXCHANGE, /* of: struct exchanging */
    TOKEN_CONNECT,  /* of: struct peer */
    TOKEN_DISCONNECT
};

/* An array's memory on the device. Two arrays of one size may exchange theirs, unless it is
 * exported. */
struct holding_memory {
    void *at; /* NULL: there was none to be had */
    uint64_t bytes;
    uint64_t owner;
    bool exportable; /* others map it, or will */
};

/* An array, by the front's id. */
struct holding {
    uint64_t id;
    struct holding_memory memory;
    int descriptor;   /* of exportable memory, until an EXPORT sends it; −1 */
    bool failed;      /* there was no memory to carry out an upload to it */
    uint32_t uploads; /* begun and not completed */
    uint32_t downloads;
    uint32_t region_uploads; /* of uploads those that are begun chunk by chunk */
    uint32_t readers;        /* unfinished jobs that read it, … */
    uint32_t own_readers;    /* … of these such as compute own planes alone */
    uint32_t writers;        /* the same of jobs that write it */
    uint32_t own_writers;
};

/* Where in a region an input or output lies; region NULL: nowhere. */
struct execution_place {
    struct region *region;
    uint8_t *memory;
};

enum { EXECUTION_ARRAYS = 3 * AXIS_COUNT + OPERANDS, EXECUTION_PLACES = 2 * AXIS_COUNT };

/* A RUN or MEASURE that is not FINISHED; or, of the pipeline alone, a copy between an array and a
 * region. */
struct execution {
    struct list link; /* in the sequence they came */
    uint64_t id;      /* of a copy its tag */
    /* NULL: there is none such, or the backend computes in the place itself. */
    union {
        struct {
            struct holding *in[AXIS_COUNT], *out[AXIS_COUNT];
            struct holding *scratch[AXIS_COUNT]; /* by output */
            struct holding *operand[OPERANDS];   /* by enum operand */
        };
        struct holding *array[EXECUTION_ARRAYS];
    };
    union {
        struct {
            struct execution_place from[AXIS_COUNT], to[AXIS_COUNT]; /* of in and out */
        };
        struct execution_place place[EXECUTION_PLACES];
    };
    uint64_t ahead, behind;    /* bytes of each array before and behind the job's (channel.h) */
    uint64_t before[OPERANDS]; /* bytes of each operand before the job's */
    struct own_planes own;     /* that it computes (channel.h) */
    struct leg leg;            /* that it is (channel.h) */
    struct operands operands;  /* the operands' memory, once started */
    bool wants_progress, cancelled, started;
    uint64_t chain; /* the front's number of it; 0: it is in none */
    bool ends_round;
    bool launched; /* all of it, in the chain's order: those behind it need not wait for its end */
    bool launches_copy;   /* its launches copy its arrays from and to places */
    uint64_t progress_us; /* when the last PROGRESS was sent */
    const struct plan *plan;
    struct slices slices; /* once started */
    uint32_t coming_home; /* copies of results to exported arrays that are under way */
    /* Once started, where the pipeline copies its arrays from and to places. */
    bool in_pipeline;
    struct transfer transfer;
    const void *launches[TRANSFER_LAUNCHES]; /* the backend's names of those under way, else NULL */
    struct list queued[WAYS];
    struct channel_span copied[WAYS], computed; /* for its FINISHED */
    struct holding *copies; /* the array, where it is a copy of one and no job; else NULL */
    /* A MEASURE: its result is brought to the slot of runs.measured, once started. */
    bool measures, measured;
    uint32_t slot;
};

enum { EXECUTIONS_MEASURING = 64 };

struct executions {
    struct list all;
    struct ids by_id;
    uint32_t waiting;          /* not started */
    uint32_t copying;          /* of one pass, whose launches copy */
    uint64_t chain_points;     /* × passes: so much of a chain may be with the backend at once */
    uint64_t slots;            /* bit i: slot i is a MEASURE's that has started */
    struct measured *measured; /* EXECUTIONS_MEASURING of them */
};

/* Add it as the last one, the caller's still; its arrays are in use from now on. False: no memory.
 */
bool executions_add(struct executions *runs, struct execution *run);
/* Take it out; its arrays are in use no longer. */
void executions_remove(struct executions *runs, struct execution *run);
/* Its arrays and places in memory, as slices_begin() takes them. */
struct buffers execution_buffers(const struct execution *run);

/* The job's first byte in one of its arrays, which has memory. */
void *execution_memory(const struct execution *run, const struct holding *holding);

/* Do its launches keep the order of its chain? Those that copy its places do not. */
bool execution_is_chained(const struct execution *run);

/* It starts. */
void executions_start(struct executions *runs, struct execution *run);

/* May it start? It waits for runs before it that use its arrays, for a slot, for downloads of
 * arrays that it writes, and for uploads from regions to arrays that it uses. It does not wait for
 * launched runs of its chain if there is one, or all of them are no more than chain_points. */
bool executions_may_start(struct executions *runs, const struct execution *run);

/* Extend the span by a copy or launch that began so many µs ago and ends now. */
void execution_span(struct channel_span *span, uint64_t us);

/* The last one of a chain; NULL where there is none. */
const struct execution *executions_last_of_chain(const struct executions *runs, uint64_t chain);
