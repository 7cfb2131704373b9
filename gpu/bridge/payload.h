/* The payload of a record: bytes that on one node lie in memory that the front and the worker
 * share, and that a bridge copies to the same places on the other node.
 *
 *   UPLOAD              the slab, or part of a region, that it reads
 *   RUN                 its inputs in regions
 *   COPIED, FINISHED    what the DOWNLOAD or RUN has written there, where it ended OK
 *
 * On both nodes there are an arena and regions of the same numbers and sizes. Those of the node are
 * its own; a region takes all of its memory there, too, once the worker has mapped it. */
#pragma once

#include "gpu/worker/channel.h"

enum { PAYLOAD_PIECES = AXIS_COUNT, PAYLOAD_ARENA = 0 /* beside the regions' numbers */ };

struct payload {
    struct payload_piece {
        uint8_t *memory; /* borrowed */
        uint64_t bytes;  /* 0: no piece */
    } piece[PAYLOAD_PIECES];
};

uint64_t payload_bytes(const struct payload *payload);

/* Map the arena or a region. False: it cannot be; errno says why. payload_unmap(): of a region that
 * is not mapped it does nothing. */
bool payload_map(uint64_t region, int memfd, uint64_t bytes, bool writable);
void payload_unmap(uint64_t region);
/* Does any of it lie in the region? */
bool payload_lies_in(const struct payload *payload, uint64_t region);
/* Will an answer write to the region? */
bool payload_is_due(uint64_t region);
/* What all regions that are mapped have together. */
uint64_t payload_region_bytes(void);
/* A region is a mailbox of that size: copies to and from it have no payload. False: no memory. */
bool payload_is_mailbox(uint64_t region, uint64_t bytes);

/* The payload of a record. False: it names memory that is not there. */
bool payload_of(const struct channel_message *record, struct payload *payload);

/* Does a COPIED or FINISHED answer that record? */
bool payload_is_answer(const struct channel_message *answer, const struct channel_message *record);

/* Remember what a DOWNLOAD or RUN is going to write, and forget it with its COPIED or FINISHED, and
 * a region that the worker could not map with its MAPPED; of other records it does nothing. False:
 * no memory, or a place that is not there. */
bool payload_note(const struct channel_message *record);
