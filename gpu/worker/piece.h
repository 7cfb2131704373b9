/* A job cut into pieces of about ten milliseconds, so that cancellation takes effect and a short
 * job passes a long one; and which buffer each pass of it reads and writes. Pure bookkeeping. */
#ifndef GPU_WORKER_PIECE_H
#define GPU_WORKER_PIECE_H

#include "gpu/backend.h"

#include <stdbool.h>
#include <stdint.h>

struct pieces {
    const struct plan *plan;
    void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd, *spare[2]; /* as in struct launch */
    uint64_t total;                                           /* lines of all passes */
    uint64_t done;                                            /* lines completed */
    uint64_t size;      /* lines in the piece under way; 0: none is */
    uint64_t next_size; /* lines in the next one */
    uint64_t device_us; /* of the pieces completed */
    bool whole_passes;
};

/* A job's buffers by component, each as large as the field: plan->inputs and plan->outputs of them,
 * the rest NULL. Inputs may be the same. An output may be an input; it needs a scratch then. Where
 * there is one input, it may serve as scratch if it may be overwritten. */
struct buffers {
    void *in[AXIS_COUNT], *out[AXIS_COUNT];
    void *scratch[AXIS_COUNT]; /* by output; NULL where none is needed. Staged: its first ones */
};

/* May a job of that plan run with these buffers? */
bool pieces_possible(const struct plan *plan, const struct buffers *buffers);

/* Begin. The plan lives as long as *pieces. The result may come to lie in scratch's or in's memory:
 * see pieces_result(). */
void pieces_begin(struct pieces *pieces, const struct plan *plan, bool splits_passes,
                  const struct buffers *buffers);

/* Where the last pass writes a component: its out, or else its scratch (which may be in). */
void *pieces_result(const struct pieces *pieces, int component);

/* Points × passes of a first piece: a few milliseconds. */
uint64_t pieces_first_points(bool splits_passes);

/* The next piece. False where all is done or one is under way. */
bool pieces_next(struct pieces *pieces, struct launch *launch);

/* The piece under way has completed in that time; sizes the next. */
void pieces_completed(struct pieces *pieces, uint64_t device_us);

#endif
