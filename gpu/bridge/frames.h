/* Records of a channel (gpu/worker/channel.h) on a stream between two nodes, with what lies beside
 * them on one node:
 *
 *   frame = struct frame_head, record, block, payload
 *
 * The block is a RUN's or a KERNEL's; for the payload see payload.h. Both ends are of one version
 * and byte order, of which their first frames assure them. */
#pragma once

#include "gpu/bridge/payload.h"
#include "gpu/bridge/stream.h"
#include "gpu/worker/channel.h"

/* Where one end is faster than the other, the stream takes or gives without an end: so much may
 * pass before other things have their turn. */
enum { FRAMES_AT_ONCE = 1 << 19 /* bytes */ };

struct frame_head {
    uint32_t record_bytes, block_bytes;
    uint64_t payload_bytes;
};

struct frame {
    struct frame_head head;
    struct channel_message record;
    uint8_t *block; /* owned; NULL: none */
    struct payload payload;
};

/* Frames on their way out, in order. Zeroed: none. */
struct frames_out {
    struct frame *items;
    uint32_t first, count, capacity;
    uint64_t sent;           /* bytes of the first frame that are in the buffer, or gone */
    uint8_t buffer[1 << 16]; /* what the stream takes next: from `at` to `end` */
    uint32_t at, end;
};

/* The frame that is coming. Zeroed: none has begun. */
struct frames_in {
    struct frame frame;
    uint64_t got;            /* bytes of it */
    uint8_t buffer[1 << 14]; /* what the stream gave, and is not taken yet: from `at` to `end` */
    uint32_t at, end;
};

/* Add a frame, whose block is taken over, and whose payload stays as it is until it is sent.
 * False: no memory. */
bool frames_push(struct frames_out *out, const struct channel_message *record, uint8_t *block,
                 uint32_t block_bytes, const struct payload *payload);

/* Send what the stream takes, FRAMES_AT_ONCE at most. *moved is set to true if it took any. False:
 * it is closed. */
bool frames_send(struct frames_out *out, struct stream *stream, bool *moved);
bool frames_waiting(const struct frames_out *out);
/* Is anything of the region still to be sent? */
bool frames_hold(struct frames_out *out, uint64_t region);
/* Is it the answer to a record that has not been sent whole? */
bool frames_answered_early(struct frames_out *out, const struct channel_message *answer);

/* MORE: it is not whole yet, and more of it may be there, but FRAMES_AT_ONCE were taken. */
enum frames_result { FRAMES_NONE, FRAMES_MORE, FRAMES_ONE, FRAMES_CLOSED, FRAMES_BROKEN };

/* Take what has come. FRAMES_ONE: a whole frame is in in->frame until the next call; its block may
 * be taken over. A payload of another size than the record's (payload_of()) is FRAMES_BROKEN.
 * *moved is set to true if anything came. */
enum frames_result frames_receive(struct frames_in *in, struct stream *stream, bool *moved);
