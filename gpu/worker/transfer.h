/* A run whose inputs or outputs lie in clients' regions, as a pipeline: its arrays are copied in
 * and out chunk by chunk, and lines are computed as soon as what they need has been copied in.
 * Which chunk and which lines are next is pure bookkeeping of one run: the caller begins what is
 * next, in any sequence of the three, and reports completions in any sequence.
 *
 *   copy in ──► compute ──► copy out          (input chunks, lines of the pass, output chunks)
 *
 * A step is next once what it depends on has begun: the device keeps begun work in order
 * (backend.h: a launch sees every upload begun before it, a download the launch that it names).
 *
 * Units (gpu/split.h) are copied in as they are needed: around a periodic edge first those at the
 * end of a field, then all others in order. A plan of several passes, or whose passes cannot be
 * split, is computed whole once all inputs are in. */
#pragma once

#include "gpu/split.h"

#include <stdbool.h>
#include <stdint.h>

enum way { WAY_IN, WAY_OUT, WAYS };

enum { TRANSFER_LAUNCHES = 8 }; /* begun, and not yet wholly on their way out */

/* Bytes [offset, offset + bytes) of input or output number `component`. */
struct chunk {
    int component;
    uint64_t offset, bytes;
    uint64_t launch; /* out: the one that computes it */
};

/* Lines [from, to) of the first pass, by a launch: those whose chunks have not all begun are
 * numbered in order, and are TRANSFER_LAUNCHES at most. */
struct part {
    uint64_t from, to;
    uint64_t launch;
};

struct transfer {
    struct split split;
    uint64_t unit_bytes, field_bytes, array_bytes, chunk_bytes;
    uint64_t lines;
    uint64_t tail; /* units of each field that are copied in before its others */
    bool whole;    /* several passes: all lines at once, or rather one pass after another */
    struct transfer_way {
        bool has[AXIS_COUNT]; /* the components that have a place, … */
        int count;            /* … and how many */
        /* What has begun: bytes of each component, in the order that they are copied, and of the
         * components before this one a chunk more. */
        uint64_t bytes;
        int component;
    } ways[WAYS];
    uint64_t computed; /* lines */
    /* The launches whose lines are not all on their way out: where each ends, bytes; a ring. */
    uint64_t launch_ends[TRANSFER_LAUNCHES];
    uint64_t first_launch, launches; /* the oldest one's number, and how many they are */
    uint32_t under_way;              /* begun and not completed, of all kinds */
};

/* Chunks are of chunk_bytes at most, and of whole units where these are smaller. in, out: which of
 * the plan's inputs and outputs have a place; one has at least. */
void transfer_init(struct transfer *transfer, const struct plan *plan, const bool in[AXIS_COUNT],
                   const bool out[AXIS_COUNT], uint64_t chunk_bytes);

/* A copy alone, of so many bytes: in, or out of what has been computed. */
void transfer_init_copy(struct transfer *transfer, uint64_t bytes, enum way way,
                        uint64_t chunk_bytes);

/* Is a chunk next? */
bool transfer_can_copy(const struct transfer *transfer, enum way way);

/* The next chunk, and the next lines, which begin; false: there are none now. */
bool transfer_copy(struct transfer *transfer, enum way way, struct chunk *chunk);
bool transfer_compute(struct transfer *transfer, struct part *part);

/* A copy or launch has completed. */
void transfer_completed(struct transfer *transfer);
/* Of a transfer that is `whole`: the passes have. */
void transfer_passes_completed(struct transfer *transfer);

/* Has all begun and completed? */
bool transfer_is_done(const struct transfer *transfer);
