/* The bytes of replies from their devices into slabs, as far as there are any. */
#include "server/io/connection.h"
#include "server/jobs/task.h"

#include <string.h>

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

/* Bring the next piece over; the slab was taken. */
static void piece_begin(struct reply *reply, struct slab *slab)
{
    struct piece *piece = piece_at(reply, reply->pieces++);
    const uint32_t slab_bytes = reply->arena->slab_bytes;
    uint64_t offset;
    const struct answer_part *part = part_at(reply, reply->asked, &offset);
    const uint64_t left = part->field->type.bytes - offset;
    *piece = (struct piece){.slab = slab, .offset = reply->asked};
    /* To the end of a slab's part: one that was taken back half sent goes on inside of it. */
    const uint32_t room = slab_bytes - (uint32_t)(offset % slab_bytes);
    piece->bytes = left < room ? (uint32_t)left : room;
    if (!set_header(reply, piece, part, offset))
        reply->outbox->broken = true;
    reply->asked += piece->bytes;
    reply->loading++;
    task_trace_open(reply->task, SPAN_COPY_OUT);
    device_download(part->field, offset, slab, piece->bytes, piece_copied, reply);
}

void staging_stream(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    while (!reply->lost && !reply->part[0].field->lost && reply->pieces < outbox->window &&
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

static uint64_t slabs_of(const struct reply *reply)
{
    const uint64_t slab_bytes = reply->arena->slab_bytes;
    uint64_t slabs = 0;
    for (uint32_t i = 0; i < reply->parts; i++)
        slabs += (reply->part[i].field->type.bytes + slab_bytes - 1) / slab_bytes;
    return slabs;
}

void staging_go_on(struct outbox *outbox)
{
    struct arena *arena = outbox->arena;
    if (outbox->stalled || !list_empty(&outbox->waiter.link))
        return;
    struct reply *head = LIST_FIRST(&outbox->ready, struct reply, link);
    if (head && head->parts && !head->whole)
        staging_stream(head);
    for (struct reply *reply; (reply = LIST_FIRST(&outbox->staging, struct reply, link));) {
        if (reply->part[0].field->lost)
            return; /* lost() follows */
        const uint64_t slabs = slabs_of(reply);
        if (slabs > REPLY_WINDOW) {
            if (!list_empty(&outbox->ready) || !list_empty(&outbox->loading))
                return;
            list_remove(&reply->link);
            list_push(&outbox->ready, &reply->link);
            staging_stream(reply);
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
    if (!reply->outbox || !ok) {
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
