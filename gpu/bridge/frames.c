#include "gpu/bridge/frames.h"

#include "base/fifo.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_MOST = 64 << 20 }; /* bytes: more than any job's or kernel's */

/* --- out --- */

bool frames_push(struct frames_out *out, const struct channel_message *record, uint8_t *block,
                 uint32_t block_bytes, const struct payload *payload)
{
    if (!fifo_make_room((void **)&out->items, &out->first, out->count, &out->capacity,
                        sizeof *out->items)) {
        free(block);
        return false;
    }
    struct frame *frame = &out->items[out->first + out->count++];
    memset(frame, 0, sizeof *frame);
    frame->head.record_bytes = channel_complete(&frame->record, record);
    frame->head.block_bytes = block_bytes;
    frame->block = block;
    frame->payload = *payload;
    frame->head.payload_bytes = payload_bytes(payload);
    return true;
}

/* The bytes of a frame from there on that lie in one piece; 0: it ends there. */
static uint64_t piece_at(struct frame *frame, uint64_t at, uint8_t **piece)
{
    const struct payload_piece head[] = {{(uint8_t *)&frame->head, sizeof frame->head},
                                         {(uint8_t *)&frame->record, frame->head.record_bytes},
                                         {frame->block, frame->head.block_bytes}};
    enum { HEAD = sizeof head / sizeof head[0] };
    for (int i = 0; i < HEAD + PAYLOAD_PIECES; i++) {
        const struct payload_piece *one = i < HEAD ? &head[i] : &frame->payload.piece[i - HEAD];
        if (at < one->bytes) {
            *piece = one->memory + at;
            return one->bytes - at;
        }
        at -= one->bytes;
    }
    return 0;
}

/* What comes next of the first frame that is not sent whole; 0: there is none. */
static uint64_t next_piece(struct frames_out *out, uint8_t **piece)
{
    for (; out->count; out->count--) {
        struct frame *frame = &out->items[out->first];
        const uint64_t bytes = piece_at(frame, out->sent, piece);
        if (bytes)
            return bytes;
        free(frame->block);
        out->sent = 0;
        out->first++;
    }
    out->first = 0;
    return 0;
}

/* Small pieces leave together, in a buffer; a large one leaves from where it lies. Returns the
 * bytes that the stream is to take now. */
static uint64_t gather(struct frames_out *out, const uint8_t **bytes)
{
    uint8_t *piece;
    uint64_t count;
    if (out->at == out->end) {
        out->at = out->end = 0;
        while ((count = next_piece(out, &piece)) > 0 && count < sizeof out->buffer - out->end) {
            memcpy(out->buffer + out->end, piece, count);
            out->end += (uint32_t)count;
            out->sent += count;
        }
        if (count && !out->end) {
            *bytes = piece;
            return count;
        }
    }
    *bytes = out->buffer + out->at;
    return out->end - out->at;
}

bool frames_send(struct frames_out *out, struct stream *stream, bool *moved)
{
    int64_t taken;
    for (uint64_t sent = 0; sent < FRAMES_AT_ONCE; sent += (uint64_t)taken) {
        const uint8_t *bytes;
        const uint64_t count = gather(out, &bytes);
        taken = count ? stream_write(stream, bytes, count) : 0;
        if (taken < 0)
            return false;
        if (taken == 0)
            break;
        if (out->at < out->end)
            out->at += (uint32_t)taken;
        else
            out->sent += (uint64_t)taken;
        *moved = true;
    }
    return stream_flush(stream);
}

bool frames_waiting(const struct frames_out *out)
{
    return out->count || out->at < out->end;
}

/* The frame that is not sent whole; out->count: there is none. */
static uint32_t first_unsent(struct frames_out *out)
{
    uint8_t *rest;
    return out->count && piece_at(&out->items[out->first], out->sent, &rest) == 0;
}

bool frames_hold(struct frames_out *out, uint64_t region)
{
    bool holds = false;
    for (uint32_t i = first_unsent(out); i < out->count; i++)
        holds = holds || payload_lies_in(&out->items[out->first + i].payload, region);
    return holds;
}

bool frames_answered_early(struct frames_out *out, const struct channel_message *answer)
{
    uint32_t i = first_unsent(out);
    while (i < out->count && !payload_is_answer(answer, &out->items[out->first + i].record))
        i++;
    return i < out->count;
}

/* --- in --- */

/* Its head, or its record, has come. */
static bool check(struct frame *frame, uint64_t got)
{
    const struct frame_head *head = &frame->head;
    if (got == sizeof *head)
        return head->record_bytes >= CHANNEL_HEAD_BYTES &&
               head->record_bytes <= sizeof frame->record && head->block_bytes <= BLOCK_MOST;
    if (got != sizeof *head + head->record_bytes)
        return true;
    if (!channel_is_whole(&frame->record, head->record_bytes))
        return false;
    if (head->block_bytes && !(frame->block = malloc(head->block_bytes)))
        return false;
    return payload_of(&frame->record, &frame->payload) &&
           payload_bytes(&frame->payload) == head->payload_bytes;
}

/* Bytes of the stream, by way of the buffer where they are few. 0 and −1 as of stream_read(). */
static int64_t read_some(struct frames_in *in, struct stream *stream, uint8_t *piece,
                         uint64_t count)
{
    if (in->at == in->end && count >= sizeof in->buffer)
        return stream_read(stream, piece, count);
    if (in->at == in->end) {
        const int64_t come = stream_read(stream, in->buffer, sizeof in->buffer);
        if (come <= 0)
            return come;
        in->at = 0;
        in->end = (uint32_t)come;
    }
    const uint32_t left = in->end - in->at, taken = count < left ? (uint32_t)count : left;
    memcpy(piece, in->buffer + in->at, taken);
    in->at += taken;
    return taken;
}

enum frames_result frames_receive(struct frames_in *in, struct stream *stream, bool *moved)
{
    uint8_t *piece;
    uint64_t count, taken = 0;
    if (in->got && piece_at(&in->frame, in->got, &piece) == 0) {
        free(in->frame.block);
        memset(&in->frame, 0, sizeof in->frame);
        in->got = 0;
    }
    while ((count = piece_at(&in->frame, in->got, &piece)) > 0) {
        if (taken >= FRAMES_AT_ONCE)
            return FRAMES_MORE;
        const int64_t come = read_some(in, stream, piece, count);
        if (come <= 0)
            return come == 0 ? FRAMES_NONE : FRAMES_CLOSED;
        *moved = true;
        taken += (uint64_t)come;
        in->got += (uint64_t)come;
        if (!check(&in->frame, in->got))
            return FRAMES_BROKEN;
    }
    return FRAMES_ONE;
}
