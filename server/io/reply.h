/* One message on its way to a client: text (packed already), or text with arrays in it, whose bytes
 * come from a device piece by piece:
 *
 *   text ─ bytes of part 0 ─ text ─ bytes of part 1 ─ …
 *
 * For outbox.c (the queues), staging.c (bytes from devices) and sending.c (bytes to sockets). */
#pragma once

#include "server/io/outbox.h"

/* A piece of an array in a slab, with what stands before it. */
struct piece {
    struct slab *slab;
    uint64_t offset; /* in the reply's arrays, one after another */
    uint32_t bytes, sent;
    bool ready;         /* it has been copied */
    const char *header; /* of the reply's text, or the bin's below */
    uint32_t header_bytes, header_sent;
    char bin[8];
};

struct reply {
    struct list link;
    struct outbox *outbox; /* NULL: gone; the reply lives on until its copies have ended */
    struct arena *arena;
    struct user *user;
    uint64_t own_bytes, counted_bytes; /* of its memory without the text; of all of it (memory.h) */
    struct task *task;                 /* NULL: no task waits for its end */
    uint64_t msgid;
    bool is_snapshot; /* of its task; else its answer */
    msgpack_sbuffer text;
    size_t head_bytes, head_sent; /* of the text before part 0; without parts all of it */
    uint32_t parts;
    struct answer_part part[ANSWER_PARTS]; /* their fields referenced */
    uint64_t bytes;                        /* of all parts */
    uint64_t asked;                        /* of them, brought or being brought over */
    uint32_t loading;                      /* copies under way */
    bool whole;                            /* brought over whole before it is sent */
    bool lost;                             /* the worker is gone */
    uint32_t first, pieces;                /* ring */
    struct piece piece[];                  /* REPLY_WINDOW; without parts none */
};

static inline struct piece *piece_at(struct reply *reply, uint32_t i)
{
    return &reply->piece[(reply->first + i) % REPLY_WINDOW];
}

/* The part in which the byte `at` of all lies; *offset: where in it. */
const struct answer_part *reply_part(const struct reply *reply, uint64_t at, uint64_t *offset);

/* It may be that bytes of it are out. */
bool reply_started(const struct reply *reply);

/* Its slabs that no worker touches go back. */
void reply_drop_pieces(struct reply *reply);
/* Its text has another size than it had: count it. */
void reply_count(struct reply *reply);
/* Its fields are referenced no longer. */
void reply_release_fields(struct reply *reply);
void reply_free(struct reply *reply);

/* staging.c: bring over what there are slabs for. */
void staging_go_on(struct outbox *outbox);
void staging_on_waiter(struct slab_waiter *waiter);
/* staging.c: keep the window of a reply that is streamed full. */
void staging_stream(struct reply *reply);
