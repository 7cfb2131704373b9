#include "server/io/reply.h"

#include "server/devices/device.h"
#include "server/devices/field.h"
#include "server/users/memory.h"

#include <stdlib.h>

const struct answer_part *reply_part(const struct reply *reply, uint64_t at, uint64_t *offset)
{
    const struct answer_part *part = reply->part;
    while (at >= part->field->type.bytes) {
        at -= part->field->type.bytes;
        part++;
    }
    *offset = at;
    return part;
}

bool reply_started(const struct reply *reply)
{
    const struct outbox *outbox = reply->outbox;
    return reply->head_sent > 0 ||
           (outbox->sending_bytes && outbox->ready.next == &reply->link); /* an I/O thread has it */
}

void reply_drop_pieces(struct reply *reply)
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

void reply_count(struct reply *reply)
{
    memory_recount(reply->user, &reply->counted_bytes, reply->own_bytes + reply->text.alloc);
}

void reply_release_fields(struct reply *reply)
{
    for (uint32_t i = 0; i < reply->parts; i++)
        field_release(reply->part[i].field);
    reply->parts = 0;
}

void reply_free(struct reply *reply)
{
    reply_release_fields(reply);
    memory_release(reply->user, reply->counted_bytes);
    msgpack_sbuffer_destroy(&reply->text);
    free(reply);
}
