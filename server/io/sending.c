/* The bytes of replies: from their devices into slabs, as far as there are any, and from there to
 * their sockets, as far as these take them. */
#include "base/rights.h"
#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/jobs/task.h"
#include "server/users/reserve.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#define STALL_NS UINT64_C(1000000000)

static void piece_copied(struct slab *slab, void *context, bool ok);

/* What stands before the bytes of the part at `offset`: the text before a part (the first's is the
 * reply's head), the header of a bin in a list. False: no memory to pack it in. */
static bool set_header(const struct reply *reply, struct piece *piece,
                       const struct answer_part *part, uint64_t offset)
{
    const uint64_t bytes = part->field->type.bytes, left = bytes - offset;
    if (offset == 0 && part > reply->part) {
        piece->header = reply->text.data + part[-1].text_end;
        piece->header_bytes = (uint32_t)(part->text_end - part[-1].text_end);
    }
    /* Slabs and bins are powers of two, so a bin always begins with a slab. */
    if (offset == 0 || !array_is_list(bytes) || offset % ARRAY_BIN_BYTES)
        return true;
    msgpack_sbuffer header;
    msgpack_packer packer;
    reply_buffer_init(&header, &packer);
    msgpack_pack_bin(&packer, left < ARRAY_BIN_BYTES ? left : ARRAY_BIN_BYTES);
    const bool packed = header.size && header.size <= sizeof piece->bin;
    if (packed) {
        memcpy(piece->bin, header.data, header.size);
        piece->header = piece->bin;
        piece->header_bytes = (uint32_t)header.size;
    }
    msgpack_sbuffer_destroy(&header);
    return packed;
}

/* The part in which the byte `at` of all lies; *offset: where in it. */
static const struct answer_part *part_at(const struct reply *reply, uint64_t at, uint64_t *offset)
{
    const struct answer_part *part = reply->part;
    while (at >= part->field->type.bytes) {
        at -= part->field->type.bytes;
        part++;
    }
    *offset = at;
    return part;
}

/* A piece ends where its device's bytes end, or at a multiple of a slab's: one that was taken back
 * half sent goes on within its slab. */
static uint32_t piece_bytes(const struct field *field, uint64_t offset, uint32_t slab_bytes)
{
    const uint64_t left = field_stretch(field, offset);
    const uint32_t room = slab_bytes - (uint32_t)(offset % slab_bytes);
    return left < room ? (uint32_t)left : room;
}

static void piece_begin(struct reply *reply, struct slab *slab)
{
    struct piece *piece = piece_at(reply, reply->pieces++);
    uint64_t offset;
    const struct answer_part *part = part_at(reply, reply->asked, &offset);
    *piece = (struct piece){.slab = slab, .offset = reply->asked};
    piece->bytes = piece_bytes(part->field, offset, reply->arena->slab_bytes);
    if (!set_header(reply, piece, part, offset))
        reply->outbox->broken = true;
    reply->asked += piece->bytes;
    reply->loading++;
    task_trace_open(reply->task, SPAN_COPY_OUT);
    device_download(part->field, offset, slab, piece->bytes, piece_copied, reply);
}

static void stream(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    while (!reply->lost && !reply->part[0].field->lost && reply->pieces < outbox->window &&
           reply->asked < reply->bytes) {
        struct slab *slab;
        if (!arena_take(reply->arena, outbox->user, SHARE_REPLY, 1, &slab)) {
            /* With pieces under way it goes on when they are sent. */
            if (!reply->pieces) {
                outbox->waiter.count = 1;
                arena_wait(reply->arena, &outbox->waiter);
            }
            return;
        }
        piece_begin(reply, slab);
    }
}

/* The slabs that all of it takes; they are counted until they exceed the window. */
static uint64_t slabs_of(const struct reply *reply)
{
    uint64_t slabs = 0;
    for (uint32_t i = 0; i < reply->parts; i++) {
        const struct field *field = reply->part[i].field;
        for (uint64_t at = 0; at < field->type.bytes && slabs <= REPLY_WINDOW; slabs++)
            at += piece_bytes(field, at, reply->arena->slab_bytes);
    }
    return slabs;
}

void staging_go_on(struct outbox *outbox)
{
    struct arena *arena = &outbox->io->jobs->devices->arena;
    if (outbox->stalled || !list_empty(&outbox->waiter.link))
        return;
    struct reply *head = LIST_FIRST(&outbox->ready, struct reply, link);
    if (head && head->parts && !head->whole)
        stream(head);
    for (struct reply *reply; (reply = LIST_FIRST(&outbox->staging, struct reply, link));) {
        if (reply->part[0].field->lost)
            return; /* lost() follows */
        const uint64_t slabs = slabs_of(reply);
        if (slabs > REPLY_WINDOW) {
            if (!list_empty(&outbox->ready) || !list_empty(&outbox->loading))
                return;
            list_remove(&reply->link);
            list_push(&outbox->ready, &reply->link);
            stream(reply);
            return;
        }
        if (outbox->slabs + slabs > REPLY_WINDOW)
            return; /* goes on when what is staged has been sent */
        struct slab *taken[REPLY_WINDOW];
        if (!arena_take(arena, outbox->user, SHARE_REPLY, (uint32_t)slabs, taken)) {
            outbox->waiter.count = (uint32_t)slabs;
            arena_wait(arena, &outbox->waiter);
            return;
        }
        list_remove(&reply->link);
        list_push(&outbox->loading, &reply->link);
        reply->whole = true;
        outbox->slabs += (uint32_t)slabs;
        for (uint64_t i = 0; i < slabs; i++)
            piece_begin(reply, taken[i]);
    }
}

void staging_on_waiter(struct slab_waiter *waiter)
{
    staging_go_on(LIST_ENTRY(waiter, struct outbox, waiter));
}

static void piece_copied(struct slab *slab, void *context, bool ok)
{
    struct reply *reply = context;
    reply->loading--;
    if (!reply->outbox || !ok || reply->lost) {
        for (uint32_t i = 0; i < reply->pieces; i++)
            if (piece_at(reply, i)->slab == slab)
                piece_at(reply, i)->slab = NULL;
        struct arena *arena = reply->arena;
        reply->lost = true; /* lost() follows */
        if (!reply->outbox && !reply->loading)
            reply_free(reply);
        arena_release(arena, slab);
        return;
    }
    for (uint32_t i = 0; i < reply->pieces; i++)
        if (piece_at(reply, i)->slab == slab)
            piece_at(reply, i)->ready = true;
    struct outbox *outbox = reply->outbox;
    task_trace_close(reply->task, SPAN_COPY_OUT);
    if (reply->whole && !reply->loading) {
        list_remove(&reply->link);
        list_push(&outbox->ready, &reply->link);
    }
    connection_changed(outbox);
}

/* Take the slabs of a reply back, from its last on. What of the first was not sent yet is brought
 * over again later; only where a header went out alone, the first stays. */
static void unstage(struct reply *reply)
{
    while (reply->pieces) {
        struct piece *last = piece_at(reply, reply->pieces - 1);
        struct slab *slab = last->slab;
        if (last->header_sent && !last->sent)
            break;
        reply->asked = last->offset + last->sent;
        last->slab = NULL;
        reply->pieces--;
        reply->outbox->slabs -= reply->whole;
        arena_release(reply->arena, slab);
    }
}

void outbox_check_stall(struct outbox *outbox, uint64_t now_ns)
{
    if (!outbox->blocked || outbox->sending_bytes || now_ns - outbox->sent_ns < STALL_NS)
        return;
    outbox->stalled = true;
    outbox->window = REPLY_WINDOW_LEAST;
    arena_forget(&outbox->waiter);
    LIST_EACH (struct reply, reply, &outbox->ready, link) {
        if (!reply->parts || reply->loading || reply->lost || reply->part[0].field->lost)
            continue;
        const bool goes_back = reply->whole && !reply_started(reply);
        unstage(reply);
        if (reply->whole)
            outbox->slabs -= reply->pieces;
        reply->whole = false; /* the rest of it is streamed */
        if (goes_back) {
            list_remove(&reply->link);
            list_push(&outbox->staging, &reply->link);
        }
    }
}

static size_t minimum(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct writing {
    struct iovec pieces[LOAD_PIECES_MOST];
    uint32_t count;
    size_t bytes, most;
};

/* False: there was no room for all of it. */
static bool add_bytes(struct writing *writing, const void *memory, size_t bytes)
{
    if (!bytes)
        return true;
    const size_t room = writing->count < LOAD_PIECES_MOST ? writing->most - writing->bytes : 0;
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

/* Of as many replies as fit into one write. */
static void gather_all(struct outbox *outbox, struct writing *writing)
{
    LIST_EACH (struct reply, reply, &outbox->ready, link) {
        const size_t before = writing->bytes;
        if (before && reply->exported)
            break; /* its descriptor goes with the first byte of a write */
        const bool all = gather(reply, writing);
        if (writing->bytes == before)
            break;
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
            stream(reply);
    }
}

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
    if (!reply || !io_threads_wanted(&outbox->io->io_threads))
        return false;
    struct writing writing = {.most = LOAD_BYTES_MOST};
    if (gather(reply, &writing) && writing.count) {
        writing.pieces[writing.count - 1].iov_len--;
        writing.bytes--;
    }
    if (!io_threads_send(&outbox->io->io_threads, outbox->socket, writing.pieces, writing.count,
                         on_sent, outbox))
        return false;
    outbox->sending_bytes = writing.bytes;
    task_trace_open(reply->task, SPAN_WRITE);
    return true;
}

/* --- descriptors ---
 *
 * The kernel lets our uid have no more of them in sockets than a process may have open: then
 * workers could neither be given any nor give us any. */

bool outbox_holds_passed(struct outbox *outbox)
{
    int unread = 0;
    if (outbox->passed && ioctl(outbox->socket, SIOCOUTQ, &unread) == 0 && !unread) {
        USER_COUNT(outbox->user, passed, -outbox->passed);
        outbox->passed = 0;
    }
    return outbox->passed;
}

/* Of a quarter of all that there may be a user has a share, and one in any case. */
static bool may_pass(struct outbox *outbox)
{
    outbox_holds_passed(outbox);
    const struct users *users = outbox->user->users;
    const uint64_t most = users->descriptors / 4, taken = users->counters.passed;
    const uint64_t own = outbox->user->counters.passed;
    return !own || reserve_shares(taken < most ? most - taken : 0, own, 1);
}

/* The descriptor that goes with what is sent next; −1: none. */
static int descriptor_of_next(struct outbox *outbox)
{
    const struct reply *reply = LIST_FIRST(&outbox->ready, struct reply, link);
    return reply && reply->exported && !reply->head_sent ? reply->exported->memory.descriptor : -1;
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
    size_t budget = io_threads_turn_bytes(&outbox->io->io_threads);
    if (outbox->sending_bytes)
        return; /* on_sent() follows */
    /* The rest, behind small replies, may be a load. */
    const size_t most = io_threads_wanted(&outbox->io->io_threads) ? LOAD_BYTES_LEAST : budget;
    outbox->blocked = false;
    outbox->waits = false;
    outbox->stalled = false;
    while (!outbox->broken) {
        const int descriptor = descriptor_of_next(outbox);
        if (descriptor >= 0 && !may_pass(outbox)) {
            outbox->blocked = outbox->waits = true;
            break;
        }
        if (!budget) {
            outbox->blocked = true; /* others have their turn first */
            break;
        }
        if (hand_over(outbox))
            break;
        struct writing writing = {.most = minimum(budget, most)};
        gather_all(outbox, &writing);
        if (!writing.count)
            break;
        const ssize_t n = rights_send(outbox->socket, writing.pieces, writing.count, descriptor);
        if (n > 0 && descriptor >= 0) {
            outbox->passed++;
            USER_COUNT(outbox->user, passed, 1);
        }
        if (!has_gone(outbox, n, errno))
            break;
        budget -= minimum(budget, (size_t)n);
    }
    staging_go_on(outbox);
}
