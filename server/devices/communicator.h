/* Communicators of NCCL's (--nccl): the way of bytes between two devices of which one at least is
 * on another node, without a host's memory. The first copy between the two has one made, and goes
 * another way, as all do until both workers have answered.
 *
 *   NONE ──► NAMING (by rank 0) ──► CONNECTING (both) ──► OPEN ──► NONE, when it has failed
 *
 * Both workers get the same EXCHANGEs in the same order, since NCCL matches what is sent and what
 * is received by order alone. Of what waits, an EXCHANGE takes the first passage of either
 * direction, so that both go at once.
 *
 * NCCL does not notice that a peer is gone. Where a worker ends, an EXCHANGE fails, or nothing is
 * answered for some time, both workers are told to DISCONNECT, and the passages that were under way
 * or waited fail: their copies go another way, as do later ones. It is tried anew, as another
 * communicator, after a rest. */
#pragma once

#include "server/devices/field.h"
#include "server/devices/rest.h"

struct channel_message;
struct device;
struct devices;

enum {
    COMMUNICATOR_RANKS = 2,
    COMMUNICATOR_EXCHANGES = 4, /* under way at once */
    /* Of one passage: as little as is fast, so that others get their turns. */
    COMMUNICATOR_PASSAGE_BYTES = 64 << 20,
    /* Beats without an answer, until it has failed: of workers that connect, or end what failed,
     * and exchange. */
    COMMUNICATOR_CONNECT = 20000 / HEARTBEAT_MS,
    COMMUNICATOR_EXCHANGE = 5000 / HEARTBEAT_MS
};

/* Bytes on their way from one device's array to another's. */
struct passage {
    struct list link;
    struct field *from, *to; /* of one device each; referenced */
    uint64_t from_offset, to_offset, bytes;
    void (*ended)(struct passage *passage, bool ok); /* called once */
    void *context;
};

struct communicator {
    struct list link;
    struct device *end[COMMUNICATOR_RANKS];
    enum {
        COMMUNICATOR_NONE,
        COMMUNICATOR_NAMING,
        COMMUNICATOR_CONNECTING,
        COMMUNICATOR_OPEN
    } state;
    uint64_t number; /* on the channels; not NONE */
    bool connected[COMMUNICATOR_RANKS];
    uint32_t silent; /* beats, while an answer is due */
    struct rest rest;
    struct list waiting[COMMUNICATOR_RANKS]; /* struct passage, by the rank that sends them */
    struct exchange {
        uint64_t tag;                             /* 0: it is not under way */
        struct passage *sent[COMMUNICATOR_RANKS]; /* by the rank; NULL: it sends nothing */
        bool answered[COMMUNICATOR_RANKS];
        bool failed;
        uint32_t late; /* beats since then */
    } exchange[COMMUNICATOR_EXCHANGES];
};

/* The one between the devices, where it is open; else NULL, and one is made where that can be. */
struct communicator *communicator_between(struct device *from, struct device *to);
/* Let the passage, whose arrays are on its two devices, be sent at the end of this turn. */
void communicator_pass(struct communicator *communicator, struct passage *passage);
/* Take back one that has not been sent: its ended() is not called. False: it is none such. */
bool communicator_withdraw(struct passage *passage);
/* At the end of a turn of the loop, before device_flush(). */
void communicators_flush(struct devices *devices);

/* UNIQUE_ID, CONNECTED and EXCHANGED of the device's worker. False: it is another message, or
 * breaks the channel's rules. */
bool communicators_take(struct device *device, const struct channel_message *message);
/* A beat of the device's worker. */
void communicators_beat(struct device *device);
/* The device's worker is gone. */
void communicators_worker_lost(struct device *device);
/* At the end, after the loop. */
void communicators_free(struct devices *devices);
