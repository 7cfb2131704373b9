/* What a client consists of, and how its tickets and the connection end. */
#pragma once

#include "client/ticket.h"
#include "protocol/splitter.h"

enum { RECEIVE_BUFFER_BYTES = 64 << 10 };

struct fdclient {
    int socket;
    uint64_t last_id;
    struct tickets pending; /* in the order of submission */
    struct tickets done;    /* in the order of completion */
    bool busy_polls;        /* a wait polls before it blocks */
    bool broken;
    struct fdclient_error cause; /* of the break */
    fdclient_progress *progress;
    void *progress_context;
    fdclient_snapshots *snapshot;
    void *snapshot_context;

    /* receive.c */
    struct incoming {  /* the array of a notification */
        uint8_t *data; /* owned; NULL: none is coming, or it is dropped */
        struct array_type type;
        uint64_t received_bytes;
    } incoming;
    struct splitter splitter;
    struct ticket *receiving; /* whose payload is due; NULL: drop it */
    uint32_t component;       /* of it */
    size_t from, to;          /* bytes in the buffer that are not used yet */
    uint8_t buffer[RECEIVE_BUFFER_BYTES];

    /* pool.c */
    struct region *regions;
    size_t pool_array_bytes; /* SIZE_MAX: none goes through the pool */
    size_t pool_bytes;       /* of its regions */
    bool by_region;          /* wait for room in the pool rather than take the socket */
    bool lacked;             /* a job found no room in the pool: the next such one makes it grow */
    bool refused;            /* the server took a region no more: the pool does not grow */
    struct fdclient_error refusal;
};

/* The ticket leaves those that are under way, where it was answered and is wholly sent. */
void connection_settle(struct fdclient *client, struct ticket *ticket);

/* Nothing more will come: every ticket that has no reply ends with the cause. */
void connection_break(struct fdclient *client, const char *reason);
