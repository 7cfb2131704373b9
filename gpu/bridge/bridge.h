/* A bridge carries the channel between the front and a worker (gpu/worker/channel.h) to another
 * node. It is a pair of processes, each beside its end of the channel:
 *
 *   front ──channel── fdbridge head ══stream══ fdbridge node ──channel── worker
 *      arena, regions                               arena, regions
 *
 * The worker does not know of it. The front knows which devices are behind one: these have no
 * exported arrays, which are device memory that other processes map.
 *
 *   main.c     the process and its loop
 *   head.c     the end beside the front
 *   node.c     the end beside the worker
 *   mailbox.c  the device's mailbox, and what other nodes write to it
 *   peers.c    mailboxes of other nodes, and what this one writes to them
 *   payload.c  which bytes go along with a record
 *   frames.c   records on the stream
 *   stream.c   the stream
 *
 * When either end of either process closes, or breaks a rule of the channel, the process ends, and
 * the other follows; the worker then ends itself. The node ends after BRIDGE_LEASE_S without a sign
 * of life, which the head gives at each beat: then no job of a head that is cut off goes on, and
 * arrays that the head has given up are freed. The head needs such a rule only until the worker
 * is ready: then the front ends it when the worker does not answer. One thread, beside those of
 * mailbox.c and peers.c. */
#pragma once

#include "gpu/bridge/frames.h"

enum {
    BRIDGE_LEASE_S = 10,
    BRIDGE_JOIN_S = 5,    /* in which both ends have proven the key, and one has said its name */
    BRIDGE_SILENCE_S = 5, /* of a node whose worker starts */
    BRIDGE_BEAT_MS = 500
};

struct bridge {
    uint8_t key[SHA256_BYTES];
    struct stream stream; /* to the other end */
    struct frames_out out;
    struct frames_in in;
    struct channel_queue queue; /* to the channel */
    struct channel_inbox inbox; /* from there */
    bool came, went;            /* bytes of the stream, since the last beat */
};

/* What an end does with what comes. */
struct bridge_side {
    /* A record of the channel, with its descriptor or −1, which is not taken. */
    void (*take_record)(struct channel_message *record, int descriptor);
    /* A whole frame. */
    void (*take_frame)(struct frame *frame);
    /* Each BRIDGE_BEAT_MS. */
    void (*beat)(void);
    /* While so many records wait for the channel, the stream is read no more. */
    uint32_t records_most;
};

extern struct bridge bridge;
extern const struct bridge_side head_end, node_end;

/* Join both ends before the loop begins. Each ends the process where it fails. */
void head_join(void);
void node_join(const char *device, const char *head);

/* End the process: an end has closed (0), or broken a rule. why: a line of the log; NULL: none. */
_Noreturn void bridge_end(int status, const char *why);

/* Send a record with its payload to the other node, or on the channel; what cannot be ends the
 * process. The block is taken over, the descriptor stays the caller's. */
void bridge_forward(const struct channel_message *record, uint8_t *block, uint32_t block_bytes);
void bridge_tell(const struct channel_message *record, int descriptor);
/* The MAPPED of a region that is not mapped. */
struct channel_message bridge_cannot_map(uint64_t region, enum status status);
/* payload_note(), which ends the process where it fails. */
void bridge_note(const struct channel_message *record);
