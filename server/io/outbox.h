/* The unsent replies of a connection. Control replies are a few bytes; a result stays on its device
 * and is staged through the arena only as fast as the socket takes it.
 *
 *   staging ──► loading ──► ready ──► (socket, by the loop or an I/O thread)
 *
 * outbox.c has the queues, staging.c the ways to ready, sending.c the way from there, and reply.h
 * what stands in the queues.
 *
 * staging: the result waits for slabs. loading: a result of at most REPLY_WINDOW slabs is brought
 * over whole before its header goes out, so that the loss of its worker is still answered with an
 * error. ready: in the order they are sent; a larger result enters when it is the only one and is
 * streamed.
 *
 * A client that stops reading has its slabs taken back after a second (the result is still on the
 * device), and gets none before its socket has room: so it costs its own quota and nothing else.
 *
 * No function here closes the socket, nor does changed(): that it is broken shows in
 * outbox_broken(). So the connection and its other tasks outlive a push.
 */
#pragma once

#include "server/jobs/answer.h"
#include "server/jobs/jobs.h"
#include "server/users/arena.h"
#include "base/list.h"

struct task;
struct io_threads;
struct reply;
struct io;
struct user;

/* Slabs of a reply at once; of one that is streamed fewer until its client shows that it reads. */
enum { REPLY_WINDOW = SLABS_AT_ONCE, REPLY_WINDOW_LEAST = 2 };

struct outbox {
    struct io *io;
    struct arena *arena;
    struct io_threads *io_threads;
    struct user *user;
    int socket;
    void (*changed)(struct outbox *outbox);
    struct list staging, loading, ready; /* struct reply */
    struct slab_waiter waiter;
    uint64_t control_bytes; /* of replies, unsent: the sender is not read while they are many */
    uint64_t sending_bytes; /* of what is ready first, that an I/O thread sends */
    uint64_t sent_ns;       /* when the socket last took something */
    uint32_t slabs;         /* held by whole replies */
    uint32_t window;        /* for the reply that is streamed */
    bool blocked;           /* the socket is full */
    bool stalled;           /* so long that slabs were taken back */
    bool broken;
};

/* changed() is called where something has become of the replies: there is something to send, the
 * socket is to be watched for room or no longer, or is over. It does nothing itself: at the end of
 * the loop's turn all that is ready goes out by one outbox_write(). */
void outbox_init(struct outbox *outbox, struct io *io, struct user *user, int socket,
                 void (*changed)(struct outbox *outbox));
/* Drop everything unsent; copies under way end by themselves. The tasks are left alone. Not while
 * an I/O thread has a load of it. */
void outbox_close(struct outbox *outbox);

/* Each takes the task over (it may be NULL) until task_replied(). */
void outbox_push_failure(struct outbox *outbox, uint64_t msgid, struct task *task,
                         const struct failure *failure);
/* An answer that is not empty; its text is taken over, and its fields are referenced. */
void outbox_push_answer(struct outbox *outbox, const struct answer *answer, struct task *task);
/* A packed answer to the request; its memory is taken over. Where it is empty, since there was none
 * to pack it in, the answer is OUT_OF_MEMORY. */
void outbox_push(struct outbox *outbox, uint64_t msgid, msgpack_sbuffer *message,
                 struct task *task);

/* The same and the rest of what jobs ask of an outbox. */
extern const struct client_calls outbox_calls;

/* Send what is ready, as far as the socket takes it: once at the end of a turn, and when a full
 * socket has room again. */
void outbox_write(struct outbox *outbox);
/* Is there something that only waits for the socket? */
bool outbox_wants_write(const struct outbox *outbox);
bool outbox_empty(const struct outbox *outbox);
bool outbox_broken(const struct outbox *outbox);
/* Has an I/O thread a load of it? What that sends cannot be dropped: changed() follows. */
bool outbox_is_sending(const struct outbox *outbox);

/* Called twice a second: take slabs back from a client that does not read. */
void outbox_check_stall(struct outbox *outbox, uint64_t now_ns);
