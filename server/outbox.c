#include "server/outbox.h"

#include "protocol/reply.h"
#include "server/device.h"
#include "server/log.h"
#include "server/server.h"
#include "server/task.h"
#include "server/task_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    PIECES_MOST = LOAD_PIECES_MOST, /* of one write */
    PIECE_HEADER_BYTES = 160 /* an axis, an array of eight dimensions up to its data, a bin */
};
#define STALL_NS UINT64_C(1000000000)

/* A piece of a result in a slab, with the headers of the component and the bin that begin there, if
 * they do. */
struct piece {
    struct slab *slab;
    uint64_t offset; /* in the result */
    uint32_t bytes, sent;
    bool ready; /* it has been copied */
    uint8_t header[PIECE_HEADER_BYTES];
    uint8_t header_bytes, header_sent;
};

struct reply {
    struct list link;
    struct outbox *outbox; /* NULL: gone; the reply lives on until its copies have ended */
    struct arena *arena;
    struct task *task;
    uint64_t msgid;
    msgpack_sbuffer head;
    size_t head_sent;
    struct field *field[AXIS_COUNT]; /* the result's, referenced; NULL: a control reply */
    struct array_type type;          /* of each */
    uint64_t bytes;                  /* of the result, all components */
    uint64_t asked;                  /* of it, brought or being brought over */
    uint32_t loading;                /* copies under way */
    bool whole;                      /* brought over whole before it is sent */
    bool lost;                       /* the worker is gone */
    uint32_t first, pieces;          /* ring */
    struct piece piece[];            /* REPLY_WINDOW; of a control reply none */
};

static struct piece *piece_at(struct reply *reply, uint32_t i)
{
    return &reply->piece[(reply->first + i) % REPLY_WINDOW];
}

/* It may be that bytes of it are out. */
static bool started(const struct reply *reply)
{
    const struct outbox *outbox = reply->outbox;
    return reply->head_sent > 0 ||
           (outbox->carried_bytes && outbox->ready.next == &reply->link); /* a carrier has it */
}

static void on_waiter(struct slab_waiter *waiter);

void outbox_init(struct outbox *outbox, struct server *server, struct user *user, int socket,
                 void (*changed)(struct outbox *outbox))
{
    memset(outbox, 0, sizeof *outbox);
    outbox->arena = &server->arena;
    outbox->carriers = &server->carriers;
    outbox->user = user;
    outbox->socket = socket;
    outbox->changed = changed;
    list_init(&outbox->staging);
    list_init(&outbox->loading);
    list_init(&outbox->ready);
    outbox->waiter =
        (struct slab_waiter){.user = user, .share = SHARE_REPLY, .count = 1, .ready = on_waiter};
    list_init(&outbox->waiter.link);
}

/* The reply leaves its connection; its slabs that no worker touches go back. */
static void drop_pieces(struct reply *reply)
{
    for (uint32_t i = 0; i < reply->pieces; i++) {
        struct piece *piece = piece_at(reply, i);
        if (piece->slab && !piece->slab->copying)
            arena_release(reply->arena, piece->slab);
        piece->slab = NULL;
    }
    reply->pieces = 0;
    reply->first = 0;
}

static void release_fields(struct reply *reply)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        field_release(reply->field[i]);
        reply->field[i] = NULL;
    }
}

static void reply_free(struct reply *reply)
{
    release_fields(reply);
    msgpack_sbuffer_destroy(&reply->head);
    free(reply);
}

static struct reply *reply_new(struct outbox *outbox, struct task *task, uint32_t window)
{
    struct reply *reply = calloc(1, sizeof *reply + window * sizeof *reply->piece);
    if (!reply) {
        outbox->broken = true; /* it cannot be told anything any more */
        return NULL;
    }
    list_init(&reply->link);
    reply->outbox = outbox;
    reply->arena = outbox->arena;
    reply->task = task;
    if (task) {
        task->reply = reply;
        reply->msgid = task->msgid;
    }
    return reply;
}

static void reply_enter(struct reply *reply, struct list *list)
{
    struct outbox *outbox = reply->outbox;
    outbox->control_bytes += reply->head.size;
    if (list_empty(&outbox->ready) && !outbox->blocked)
        outbox->sent_ns = uv_hrtime();
    list_push(list, &reply->link);
}

static void piece_copied(struct slab *slab, void *context, bool ok);

/* What stands before the bytes at `offset` of a component: the header of its array (the first's is
 * in the reply's head), and of a bin in a list. False: no memory to pack it in. */
static bool write_header(struct piece *piece, const struct array_type *type, uint64_t component,
                         uint64_t offset)
{
    const uint64_t left = type->bytes - offset;
    const bool begins_array = offset == 0 && component > 0;
    /* Slabs and bins are powers of two, so a bin always begins with a slab. */
    const bool begins_bin = array_is_list(type->bytes) && offset % ARRAY_BIN_BYTES == 0;
    if (!begins_array && !begins_bin)
        return true;
    msgpack_sbuffer header;
    msgpack_packer packer;
    reply_buffer_init(&header, &packer);
    if (begins_array) {
        reply_write_str(&packer, axis_name((enum axis)component));
        array_write_header(&packer, type);
    }
    if (begins_bin)
        array_write_bin(&packer, left < ARRAY_BIN_BYTES ? left : ARRAY_BIN_BYTES);
    const bool packed = header.size && header.size <= sizeof piece->header;
    if (packed) {
        memcpy(piece->header, header.data, header.size);
        piece->header_bytes = (uint8_t)header.size;
    }
    msgpack_sbuffer_destroy(&header);
    return packed;
}

/* Bring the next piece over; the slab was taken. */
static void piece_begin(struct reply *reply, struct slab *slab)
{
    struct piece *piece = piece_at(reply, reply->pieces++);
    const uint32_t slab_bytes = reply->arena->slab_bytes;
    const uint64_t component = reply->asked / reply->type.bytes;
    const uint64_t offset = reply->asked % reply->type.bytes;
    const uint64_t left = reply->type.bytes - offset;
    *piece = (struct piece){.slab = slab, .offset = reply->asked};
    piece->bytes = left < slab_bytes ? (uint32_t)left : slab_bytes;
    if (!write_header(piece, &reply->type, component, offset))
        reply->outbox->broken = true;
    reply->asked += piece->bytes;
    reply->loading++;
    task_trace_fetch(reply->task);
    device_download(reply->field[component], offset, slab, piece->bytes, piece_copied, reply);
}

/* Keep the window of a streamed reply full. */
static void stream(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    while (!reply->lost && !reply->field[0]->lost && reply->pieces < REPLY_WINDOW &&
           reply->asked < reply->bytes) {
        struct slab *slab;
        if (!arena_take(outbox->arena, outbox->user, SHARE_REPLY, 1, &slab)) {
            /* With pieces under way it goes on when they are sent. */
            if (!reply->pieces) {
                outbox->waiter.count = 1;
                arena_wait(outbox->arena, &outbox->waiter);
            }
            return;
        }
        piece_begin(reply, slab);
    }
}

static struct reply *first_of(struct list *list)
{
    struct list *link = list_first(list);
    return link ? LIST_ENTRY(link, struct reply, link) : NULL;
}

static void stage(struct outbox *outbox)
{
    struct arena *arena = outbox->arena;
    if (outbox->stalled || !list_empty(&outbox->waiter.link))
        return;
    struct reply *head = first_of(&outbox->ready);
    if (head && head->field[0] && !head->whole)
        stream(head);
    for (struct reply *reply; (reply = first_of(&outbox->staging));) {
        if (reply->field[0]->lost)
            return; /* outbox_lost() follows */
        const uint64_t slabs = reply->bytes / reply->type.bytes *
                               ((reply->type.bytes + arena->slab_bytes - 1) / arena->slab_bytes);
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

static void on_waiter(struct slab_waiter *waiter)
{
    stage(LIST_ENTRY(waiter, struct outbox, waiter));
}

static void piece_copied(struct slab *slab, void *context, bool ok)
{
    struct reply *reply = context;
    reply->loading--;
    if (!reply->outbox || !ok) {
        for (uint32_t i = 0; i < reply->pieces; i++)
            if (piece_at(reply, i)->slab == slab)
                piece_at(reply, i)->slab = NULL;
        struct arena *arena = reply->arena;
        reply->lost = true; /* outbox_lost() follows */
        if (!reply->outbox && !reply->loading)
            reply_free(reply);
        arena_release(arena, slab);
        return;
    }
    for (uint32_t i = 0; i < reply->pieces; i++)
        if (piece_at(reply, i)->slab == slab)
            piece_at(reply, i)->ready = true;
    struct outbox *outbox = reply->outbox;
    task_trace_fetched(reply->task);
    if (reply->whole && !reply->loading) {
        list_remove(&reply->link);
        list_push(&outbox->ready, &reply->link);
    }
    outbox->changed(outbox);
}

/* Take the staged slabs of a whole reply back. */
static void unstage(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    outbox->slabs -= reply->pieces;
    drop_pieces(reply);
    reply->asked = 0;
    reply->whole = false;
}

void outbox_check_stall(struct outbox *outbox, uint64_t now_ns)
{
    if (!outbox->blocked || now_ns - outbox->sent_ns < STALL_NS)
        return;
    outbox->stalled = true;
    arena_forget(&outbox->waiter);
    struct list *link = outbox->ready.next;
    while (link != &outbox->ready) {
        struct reply *reply = LIST_ENTRY(link, struct reply, link);
        link = link->next;
        if (!reply->field[0] || reply->loading || reply->lost)
            continue;
        if (reply->whole && !started(reply)) {
            unstage(reply);
            list_remove(&reply->link);
            list_push(&outbox->staging, &reply->link);
        } else if (!reply->whole && reply->pieces > 1) {
            /* The first may be half sent; the rest is brought over again later. */
            while (reply->pieces > 1) {
                struct piece *last = piece_at(reply, --reply->pieces);
                reply->asked = last->offset;
                arena_release(reply->arena, last->slab);
                last->slab = NULL;
            }
        }
    }
}

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
static bool add(struct writing *writing, void *memory, size_t bytes)
{
    if (!bytes)
        return true;
    const size_t room = writing->count < PIECES_MOST ? writing->most - writing->bytes : 0;
    const size_t taken = minimum(bytes, room);
    if (taken)
        writing->pieces[writing->count++] = (struct iovec){memory, taken};
    writing->bytes += taken;
    return taken == bytes;
}

/* The bytes of a reply that can be sent now. True: with them it is complete. */
static bool gather(struct reply *reply, struct writing *writing)
{
    if (reply->field[0] && !started(reply) && !(reply->pieces && piece_at(reply, 0)->ready))
        return false; /* until the header is out, an error can take its place */
    if (!add(writing, reply->head.data + reply->head_sent, reply->head.size - reply->head_sent))
        return false;
    for (uint32_t i = 0; i < reply->pieces; i++) {
        struct piece *piece = piece_at(reply, i);
        if (!piece->ready ||
            !add(writing, piece->header + piece->header_sent,
                 (size_t)(piece->header_bytes - piece->header_sent)) ||
            !add(writing, arena_memory(reply->arena, piece->slab) + piece->sent,
                 piece->bytes - piece->sent))
            return false;
    }
    return reply->asked == reply->bytes;
}

/* Of as many replies as fit into one write of at most `most` bytes. */
static void gather_all(struct outbox *outbox, struct writing *writing, size_t most)
{
    bool all = true;
    begin_writing(writing, most);
    for (struct list *link = outbox->ready.next; link != &outbox->ready && all; link = link->next) {
        struct reply *reply = LIST_ENTRY(link, struct reply, link);
        const size_t before = writing->bytes;
        all = gather(reply, writing);
        if (writing->bytes == before)
            break;
        if (reply->task)
            task_trace_write(reply->task);
    }
}

/* Of `bytes` that were sent, this reply's are its own; returns the rest. */
static size_t advance(struct reply *reply, size_t bytes)
{
    struct outbox *outbox = reply->outbox;
    size_t step = minimum(bytes, reply->head.size - reply->head_sent);
    reply->head_sent += step;
    outbox->control_bytes -= step;
    bytes -= step;
    while (bytes && reply->pieces) {
        struct piece *piece = piece_at(reply, 0);
        step = minimum(bytes, (size_t)(piece->header_bytes - piece->header_sent));
        piece->header_sent = (uint8_t)(piece->header_sent + step);
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
        arena_release(reply->arena, slab);
    }
    return bytes;
}

static bool complete(const struct reply *reply)
{
    return reply->head_sent == reply->head.size && reply->asked == reply->bytes && !reply->pieces;
}

static void finish(struct reply *reply)
{
    struct task *task = reply->task;
    const uint64_t bytes = reply->bytes;
    list_remove(&reply->link);
    reply_free(reply);
    if (task)
        task_replied(task, true, bytes);
}

/* So many bytes were sent, from the first reply on. */
static void sent(struct outbox *outbox, size_t bytes)
{
    while (bytes) {
        struct reply *reply = first_of(&outbox->ready);
        bytes = advance(reply, bytes);
        if (complete(reply))
            finish(reply);
        else if (reply->field[0] && !reply->whole)
            stream(reply);
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
    outbox->blocked = n >= 0 && (uint64_t)n < outbox->carried_bytes;
    outbox->carried_bytes = 0;
    has_gone(outbox, n, error);
    outbox->changed(outbox); /* it goes on at the end of the turn */
}

/* Give a carrier what can be sent of the first reply, but for its last byte: before the client has
 * all of it and asks for more, the loop must have let go of what the reply's job held. */
static bool hand_over(struct outbox *outbox)
{
    struct reply *reply = first_of(&outbox->ready);
    if (!reply || !carriers_wanted(outbox->carriers))
        return false;
    struct writing writing;
    begin_writing(&writing, LOAD_BYTES_MOST);
    if (gather(reply, &writing) && writing.count) {
        writing.pieces[writing.count - 1].iov_len--;
        writing.bytes--;
    }
    if (!carriers_send(outbox->carriers, outbox->socket, writing.pieces, writing.count, on_sent,
                       outbox))
        return false;
    outbox->carried_bytes = writing.bytes;
    if (reply->task)
        task_trace_write(reply->task);
    return true;
}

void outbox_write(struct outbox *outbox)
{
    size_t budget = carriers_turn_bytes(outbox->carriers);
    if (outbox->carried_bytes)
        return; /* on_sent() follows */
    /* What comes behind small replies may be a load. */
    const size_t most = carriers_wanted(outbox->carriers) ? LOAD_BYTES_LEAST : budget;
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
    stage(outbox);
}

void outbox_push(struct outbox *outbox, msgpack_sbuffer *message, struct task *task)
{
    struct reply *reply = reply_new(outbox, task, 0);
    if (!reply) {
        msgpack_sbuffer_destroy(message);
        return;
    }
    reply->head = *message;
    if (!message->size) /* no memory to pack it in */
        outbox->broken = true;
    reply_enter(reply, &outbox->ready);
    outbox->changed(outbox);
}

void outbox_push_failure(struct outbox *outbox, uint64_t msgid, struct task *task,
                         const struct failure *failure)
{
    msgpack_sbuffer message;
    msgpack_packer packer;
    reply_buffer_init(&message, &packer);
    reply_write_failure(&packer, msgid, failure);
    outbox_push(outbox, &message, task);
}

static void write_out(msgpack_packer *packer, const struct task *task, const struct result *result)
{
    reply_write_out(packer, task->msgid, result->has_dt ? &result->dt : NULL,
                    result->is_vector ? result->components : 0);
}

void outbox_push_arrays(struct outbox *outbox, struct task *task,
                        struct field *const fields[AXIS_COUNT], const struct result *result)
{
    struct reply *reply = reply_new(outbox, task, REPLY_WINDOW);
    if (!reply)
        return;
    for (uint32_t i = 0; i < result->components; i++)
        reply->field[i] = field_reference(fields[i]);
    msgpack_packer packer;
    reply_buffer_init(&reply->head, &packer);
    write_out(&packer, task, result);
    if (result->is_vector)
        reply_write_str(&packer, axis_name(AXIS_X));
    array_write_header(&packer, &result->type);
    reply->type = result->type;
    reply->bytes = result->components * result->type.bytes;
    reply_enter(reply, &outbox->staging);
    stage(outbox);
    outbox->changed(outbox);
}

void outbox_push_places(struct outbox *outbox, struct task *task, const struct result *result)
{
    msgpack_sbuffer message;
    msgpack_packer packer;
    reply_buffer_init(&message, &packer);
    write_out(&packer, task, result);
    for (uint32_t i = 0; i < result->components; i++) {
        if (result->is_vector)
            reply_write_str(&packer, axis_name((enum axis)i));
        if (result->in_regions)
            reply_write_region(&packer, result->ids[i], result->offsets[i], &result->type);
        else
            reply_write_field(&packer, result->ids[i], &result->type);
    }
    outbox_push(outbox, &message, task);
}

void outbox_push_id(struct outbox *outbox, struct task *task, uint64_t id)
{
    msgpack_sbuffer message;
    msgpack_packer packer;
    reply_buffer_init(&message, &packer);
    reply_write_begin(&packer, task->msgid);
    msgpack_pack_map(&packer, 1);
    reply_write_str(&packer, "field");
    msgpack_pack_uint64(&packer, id);
    outbox_push(outbox, &message, task);
}

void outbox_push_progress(struct outbox *outbox, uint64_t msgid, uint64_t done, uint64_t total)
{
    if (outbox->blocked || outbox->carried_bytes)
        return; /* it is behind already: the next one will tell more */
    msgpack_sbuffer message;
    msgpack_packer packer;
    reply_buffer_init(&message, &packer);
    reply_write_progress(&packer, msgid, done, total);
    outbox_push(outbox, &message, NULL);
}

bool outbox_withdraw(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    if (started(reply) || !reply->field[0])
        return false;
    list_remove(&reply->link);
    outbox->control_bytes -= reply->head.size;
    if (reply->whole)
        outbox->slabs -= reply->pieces;
    reply->task->reply = NULL;
    reply->task = NULL;
    reply->outbox = NULL;
    arena_forget(&outbox->waiter); /* it may have been this one's */
    drop_pieces(reply);
    if (!reply->loading)
        reply_free(reply);
    stage(outbox);
    return true;
}

void outbox_lost(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    reply->lost = true; /* nothing more of it can be brought over */
    bool all_here = reply->asked == reply->bytes;
    for (uint32_t i = 0; i < reply->pieces; i++)
        if (!piece_at(reply, i)->slab || !piece_at(reply, i)->ready)
            all_here = false;
    if (all_here && (started(reply) || reply->whole))
        return; /* what is left to send has been brought over already */
    reply->task->outcome = TASK_FAILED;
    if (started(reply)) {
        outbox->broken = true; /* half of it is out: nothing else can follow on this stream */
        outbox->changed(outbox);
        return;
    }
    if (reply->whole)
        outbox->slabs -= reply->pieces;
    drop_pieces(reply);
    release_fields(reply);
    reply->bytes = reply->asked = 0;
    reply->whole = false;
    outbox->control_bytes -= reply->head.size;
    msgpack_sbuffer_clear(&reply->head);
    struct failure failure = {0};
    failure_set(&failure, STATUS_DEVICE_LOST, NULL,
                "the worker that held the result ended before it was sent");
    msgpack_packer packer;
    msgpack_packer_init(&packer, &reply->head, msgpack_sbuffer_write);
    reply_write_failure(&packer, reply->msgid, &failure);
    list_remove(&reply->link);
    reply_enter(reply, &outbox->ready);
    outbox->changed(outbox);
}

bool outbox_wants_write(const struct outbox *outbox)
{
    return outbox->blocked;
}

bool outbox_empty(const struct outbox *outbox)
{
    return list_empty(&outbox->ready) && list_empty(&outbox->loading) &&
           list_empty(&outbox->staging);
}

bool outbox_broken(const struct outbox *outbox)
{
    return outbox->broken;
}

bool outbox_carried(const struct outbox *outbox)
{
    return outbox->carried_bytes > 0;
}

void outbox_close(struct outbox *outbox)
{
    arena_forget(&outbox->waiter);
    struct list *const lists[] = {&outbox->ready, &outbox->loading, &outbox->staging};
    for (size_t i = 0; i < 3; i++) {
        for (struct reply *reply; (reply = first_of(lists[i]));) {
            list_remove(&reply->link);
            if (reply->task)
                reply->task->reply = NULL;
            reply->task = NULL;
            reply->outbox = NULL;
            drop_pieces(reply);
            if (!reply->loading)
                reply_free(reply);
        }
    }
}
