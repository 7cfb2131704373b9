/* The bytes of replies from slabs to their sockets, as far as these take them. */
#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/jobs/task.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { PIECES_MOST = LOAD_PIECES_MOST /* of one write */ };

static size_t minimum(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What one write sends. */
struct writing {
    struct iovec pieces[PIECES_MOST];
    uint32_t count;
    size_t bytes, most;
};

static void begin_writing(struct writing *writing, size_t most)
{
    writing->count = 0;
    writing->bytes = 0;
    writing->most = most;
}

/* False: there was no room for all of it. */
static bool add_bytes(struct writing *writing, const void *memory, size_t bytes)
{
    if (!bytes)
        return true;
    const size_t room = writing->count < PIECES_MOST ? writing->most - writing->bytes : 0;
    const size_t taken = minimum(bytes, room);
    if (taken)
        writing->pieces[writing->count++] = (struct iovec){(void *)(uintptr_t)memory, taken};
    writing->bytes += taken;
    return taken == bytes;
}

/* The bytes of a reply that can be sent now. True: with them it is complete. */
static bool gather(struct reply *reply, struct writing *writing)
{
    if (reply->parts && !reply_started(reply) && !(reply->pieces && piece_at(reply, 0)->ready))
        return false; /* until the header is out, an error can take its place */
    if (!add_bytes(writing, reply->text.data + reply->head_sent,
                   reply->head_bytes - reply->head_sent))
        return false;
    for (uint32_t i = 0; i < reply->pieces; i++) {
        struct piece *piece = piece_at(reply, i);
        if (!piece->ready ||
            !add_bytes(writing, piece->header + piece->header_sent,
                       piece->header_bytes - piece->header_sent) ||
            !add_bytes(writing, arena_memory(reply->arena, piece->slab) + piece->sent,
                       piece->bytes - piece->sent))
            return false;
    }
    return reply->asked == reply->bytes;
}

/* Of as many replies as fit into one write of at most `most` bytes. */
static void gather_all(struct outbox *outbox, struct writing *writing, size_t most)
{
    begin_writing(writing, most);
    LIST_EACH (struct reply, reply, &outbox->ready, link) {
        const size_t before = writing->bytes;
        const bool all = gather(reply, writing);
        if (writing->bytes == before)
            break;
        if (reply->task)
            task_trace_open(reply->task, SPAN_WRITE);
        if (!all)
            break;
    }
}

/* Of `bytes` that were sent, this reply's are its own; returns the rest. */
static size_t advance_reply(struct reply *reply, size_t bytes)
{
    struct outbox *outbox = reply->outbox;
    size_t step = minimum(bytes, reply->head_bytes - reply->head_sent);
    reply->head_sent += step;
    outbox->control_bytes -= step;
    bytes -= step;
    while (bytes && reply->pieces) {
        struct piece *piece = piece_at(reply, 0);
        step = minimum(bytes, piece->header_bytes - piece->header_sent);
        piece->header_sent += (uint32_t)step;
        bytes -= step;
        step = minimum(bytes, piece->bytes - piece->sent);
        piece->sent += (uint32_t)step;
        bytes -= step;
        if (piece->sent < piece->bytes)
            break;
        struct slab *slab = piece->slab;
        piece->slab = NULL;
        reply->first = (reply->first + 1) % REPLY_WINDOW;
        reply->pieces--;
        outbox->slabs -= reply->whole;
        outbox->window += outbox->window < REPLY_WINDOW;
        arena_release(reply->arena, slab);
    }
    return bytes;
}

static void finish(struct reply *reply)
{
    struct task *task = reply->task;
    const uint64_t bytes = reply->bytes;
    list_remove(&reply->link);
    reply_free(reply);
    if (task)
        task_replied(task, bytes);
}

/* So many bytes were sent, from the first reply on. */
static void sent(struct outbox *outbox, size_t bytes)
{
    while (bytes) {
        struct reply *reply = LIST_FIRST(&outbox->ready, struct reply, link);
        bytes = advance_reply(reply, bytes);
        if (reply->head_sent == reply->head_bytes && reply->asked == reply->bytes && !reply->pieces)
            finish(reply);
        else if (reply->parts && !reply->whole)
            staging_stream(reply);
    }
}

/* What a write came to: was anything sent? */
static bool has_gone(struct outbox *outbox, ssize_t n, int error)
{
    if (n >= 0) {
        outbox->sent_ns = uv_hrtime();
        sent(outbox, (size_t)n);
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
        outbox->blocked = true;
    } else {
        outbox->broken = true;
    }
    return n >= 0;
}

static void on_sent(void *context, ssize_t n, int error)
{
    struct outbox *outbox = context;
    const uint64_t begun_ns = uv_hrtime();
    outbox->blocked = n >= 0 && (uint64_t)n < outbox->sending_bytes;
    outbox->sending_bytes = 0;
    has_gone(outbox, n, error);
    connection_changed(outbox); /* resumed at the end of the turn */
    turn_charge(outbox->io, outbox->user, begun_ns);
}

/* Give an I/O thread what can be sent of the first reply, but for its last byte: before the client
 * has all of it and asks for more, the loop must have let go of what the reply's job held. */
static bool hand_over(struct outbox *outbox)
{
    struct reply *reply = LIST_FIRST(&outbox->ready, struct reply, link);
    if (!reply || !io_threads_wanted(outbox->io_threads))
        return false;
    struct writing writing;
    begin_writing(&writing, LOAD_BYTES_MOST);
    if (gather(reply, &writing) && writing.count) {
        writing.pieces[writing.count - 1].iov_len--;
        writing.bytes--;
    }
    if (!io_threads_send(outbox->io_threads, outbox->socket, writing.pieces, writing.count, on_sent,
                         outbox))
        return false;
    outbox->sending_bytes = writing.bytes;
    if (reply->task)
        task_trace_open(reply->task, SPAN_WRITE);
    return true;
}

static bool socket_has_room(int socket)
{
    struct pollfd descriptor = {.fd = socket, .events = POLLOUT};
    return poll(&descriptor, 1, 0) == 1;
}

void outbox_write(struct outbox *outbox)
{
    if (outbox->stalled && !socket_has_room(outbox->socket))
        return; /* whatever else there is to say */
    size_t budget = io_threads_turn_bytes(outbox->io_threads);
    if (outbox->sending_bytes)
        return; /* on_sent() follows */
    /* What comes behind small replies may be a load. */
    const size_t most = io_threads_wanted(outbox->io_threads) ? LOAD_BYTES_LEAST : budget;
    outbox->blocked = false;
    outbox->stalled = false;
    while (!outbox->broken) {
        if (!budget) {
            outbox->blocked = true; /* others have their turn first */
            break;
        }
        if (hand_over(outbox))
            break;
        struct writing writing;
        gather_all(outbox, &writing, minimum(budget, most));
        if (!writing.count)
            break;
        const struct msghdr message = {.msg_iov = writing.pieces, .msg_iovlen = writing.count};
        const ssize_t n = sendmsg(outbox->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (!has_gone(outbox, n, errno))
            break;
        budget -= minimum(budget, (size_t)n);
    }
    staging_go_on(outbox);
}
