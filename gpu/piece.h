/* A job cut into pieces of about ten milliseconds, so that cancellation takes effect and a short
 * job passes a long one; and which buffer each pass of it reads and writes. Pure bookkeeping. */
#ifndef GPU_PIECE_H
#define GPU_PIECE_H

#include "gpu/backend.h"

#include <stdbool.h>
#include <stdint.h>

struct pieces {
    const struct plan *plan;
    const void *in;
    void *even, *odd;   /* as in struct launch */
    uint64_t total;     /* lines of all passes */
    uint64_t done;      /* lines completed */
    uint64_t size;      /* lines in the piece under way; 0: none is */
    uint64_t next_size; /* lines in the next one */
    uint64_t device_us; /* of the pieces completed */
    bool whole_passes;
};

/* May a job of that plan run with these buffers? in, out and scratch are as large as the field;
 * scratch may be NULL where none is needed, and may be `in` where the input may be overwritten; in
 * may be out. */
bool pieces_possible(const struct plan *plan, const void *in, const void *out, const void *scratch);

/* Begin. The plan lives as long as *pieces. The result may come to lie in scratch's or in's memory:
 * see pieces_result(). */
void pieces_begin(struct pieces *pieces, const struct plan *plan, bool splits_passes,
                  const void *in, void *out, void *scratch);

/* Where the last pass writes: out, or else scratch (which may be in). */
void *pieces_result(const struct pieces *pieces);

/* The next piece. False where all is done or one is under way. */
bool pieces_next(struct pieces *pieces, struct launch *launch);

/* The piece under way has completed in that time; sizes the next. */
void pieces_completed(struct pieces *pieces, uint64_t device_us);

#endif
