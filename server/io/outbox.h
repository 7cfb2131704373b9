/* The unsent replies of a connection. Control replies are a few bytes; a result stays on its device
 * and is staged through the arena only as fast as the socket takes it.
 *
 *   staging ──► loading ──► ready ──► (socket, by the loop or an I/O thread)
 *
 * outbox.c has the queues, sending.c the ways to ready and from there.
 *
 * staging: the result waits for slabs. loading: a result of at most REPLY_WINDOW slabs is brought
 * over whole before its header goes out, so that the loss of its worker is still answered with an
 * error. ready: in the order they are sent; a larger result enters when it is the only one and is
 * streamed.
 *
 * A client that stops reading has its slabs taken back after a second (the result is still on the
 * device), and gets none before its socket has room: so it costs its own quota and nothing else.
 *
 * No function here closes the socket: one that fails is marked as `broken`, so that the connection
 * and its other tasks outlive a push. Changes of replies are reported by connection_changed(); at
 * the end of the loop's turn one outbox_write() sends all that are ready.
 */
#pragma once

#include "server/jobs/answer.h"
#include "server/jobs/jobs.h"

/* Slabs of a reply at once; of one that is streamed fewer until its client shows that it reads. */
enum { REPLY_WINDOW = SLABS_AT_ONCE, REPLY_WINDOW_LEAST = 2 };

struct outbox {
    struct io *io;
    struct user *user;
    int socket;
    struct list staging, loading, ready; /* struct reply */
    struct slab_waiter waiter;
    uint64_t control_bytes; /* of replies, unsent: the sender is not read while they are many */
    uint64_t sending_bytes; /* of the first ready replies, which an I/O thread sends */
    uint64_t sent_ns;       /* when the socket last took something */
    uint64_t passed;        /* descriptors that were sent since all was seen to be read */
    uint32_t slabs;         /* held by whole replies */
    uint32_t window;        /* for the reply that is streamed */
    bool blocked;           /* the socket is full: something waits for it */
    bool waits;             /* … not for room, but for descriptors to be read */
    bool stalled;           /* so long that slabs were taken back */
    bool broken;            /* the socket is over */
};

/* Zeroed before. */
void outbox_init(struct outbox *outbox, struct io *io, struct user *user, int socket);
/* Drop everything unsent; copies under way end by themselves. The tasks are left alone. Not while
 * an I/O thread has a load of it. */
void outbox_close(struct outbox *outbox);

/* Each takes the task over (it may be NULL) until task_replied(). */
void outbox_push_failure(struct outbox *outbox, uint64_t msgid, struct task *task,
                         const struct failure *failure);
/* An answer to the request; its text is taken over, and its fields are referenced. An empty one,
 * for want of memory to pack it in, becomes OUT_OF_MEMORY. */
void outbox_push(struct outbox *outbox, uint64_t msgid, const struct answer *answer,
                 struct task *task);

/* The calls of jobs to an outbox. */
extern const struct client_calls outbox_calls;

/* Send what is ready, as far as the socket takes it: once at the end of a turn, and when a full
 * socket has room again. */
void outbox_write(struct outbox *outbox);
bool outbox_empty(const struct outbox *outbox);

/* Are there descriptors in the socket, as far as we know? It is kept until there are none. */
bool outbox_holds_passed(struct outbox *outbox);

/* Called twice a second: take slabs back from a client that does not read. */
void outbox_check_stall(struct outbox *outbox, uint64_t now_ns);

/* --- for outbox.c and sending.c --- */

/* A piece of an array in a slab, with the header before it. */
struct piece {
    struct slab *slab;
    uint64_t offset; /* in the reply's arrays, one after another */
    uint32_t bytes, sent;
    bool ready;         /* it has been copied */
    const char *header; /* of the reply's text, or the bin's below */
    uint32_t header_bytes, header_sent;
    char bin[8];
};

/* One message on its way to a client: text (packed already), or text with arrays in it, whose bytes
 * come from a device piece by piece:
 *
 *   text ─ bytes of part 0 ─ text ─ bytes of part 1 ─ … */
struct reply {
    struct list link;
    struct outbox *outbox; /* NULL: gone; the reply lives on until its copies have ended */
    struct arena *arena;
    struct user *user;
    uint64_t own_bytes, counted_bytes; /* of its memory without the text; of all of it (memory.h) */
    struct task *task;                 /* NULL: no task waits for its end */
    msgpack_sbuffer text;
    size_t head_bytes, head_sent; /* of the text before part 0; without parts all of it */
    uint32_t parts;
    struct answer_part part[ANSWER_PARTS]; /* their fields referenced */
    struct field *exported; /* whose descriptor goes with its first byte, referenced; NULL: none */
    uint64_t bytes;         /* of all parts */
    uint64_t asked;         /* of them, brought or being brought over */
    uint32_t loading;       /* copies under way */
    bool whole;             /* brought over whole before it is sent */
    bool lost;              /* the worker is gone */
    uint32_t first, pieces; /* ring */
    struct piece piece[];   /* REPLY_WINDOW; without parts none */
};

static inline struct piece *piece_at(struct reply *reply, uint32_t i)
{
    return &reply->piece[(reply->first + i) % REPLY_WINDOW];
}

/* May bytes of it have been sent? */
bool reply_started(const struct reply *reply);

void reply_free(struct reply *reply);

/* sending.c: bring over as much as there are slabs for. */
void staging_go_on(struct outbox *outbox);
void staging_on_waiter(struct slab_waiter *waiter);
