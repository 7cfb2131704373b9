/* Frames from another node that lies, cut anywhere, as the head's end of a bridge reads them: bytes
 * come only to places that an order under way is to write.
 *
 * An input is a list of answers of 8 bytes each: type, tag, status, bytes of payload (2), a place
 * in the frame (2) and what that byte is changed by. So inputs keep their meaning when the layout
 * of records changes. */
#include "base/rights.h"
#include "gpu/bridge/frames.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA = 1 << 16, TAGS = 4, ANSWER = 8, ANSWERS = 64, PAYLOAD = 1 << 10 };

static struct {
    uint8_t bytes[ANSWERS * (sizeof(struct frame) + PAYLOAD)];
    size_t count, at;
} wire;

int64_t stream_read(struct stream *stream, void *bytes, size_t size)
{
    const size_t left = wire.count - wire.at;
    size_t count = 1 + wire.at * 7919 % 300;
    (void)stream;
    count = count < size ? count : size;
    count = count < left ? count : left;
    memcpy(bytes, wire.bytes + wire.at, count);
    wire.at += count;
    return count ? (int64_t)count : -1;
}

int64_t stream_write(struct stream *stream, const void *bytes, size_t size)
{
    (void)stream, (void)bytes;
    return (int64_t)size;
}

bool stream_flush(struct stream *stream)
{
    (void)stream;
    return true;
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Downloads of so many bytes each are under way, to every 1,024th byte of the arena. */
static uint64_t bytes_of(uint64_t tag)
{
    return 1 + tag * 20;
}

static uint8_t *open_arena(void)
{
    struct channel_message whole = {.type = CHANNEL_UPLOAD, .u.copy.bytes = ARENA};
    struct payload payload;
    const int memfd = rights_memfd("bridge", ARENA);
    check(payload_map(PAYLOAD_ARENA, memfd, ARENA, true));
    close(memfd);
    check(payload_of(&whole, &payload));
    for (uint64_t tag = 0; tag < TAGS; tag++)
        check(payload_note(&(struct channel_message){
            .type = CHANNEL_DOWNLOAD,
            .u.copy = {.arena_offset = tag * 1024, .bytes = bytes_of(tag), .tag = tag}}));
    return payload.piece[0].memory;
}

static void add(const uint8_t answer[ANSWER])
{
    struct channel_message record = {.type = CHANNEL_READY +
                                             answer[0] % (CHANNEL_TYPES - CHANNEL_READY),
                                     .status = answer[2] % 4};
    uint8_t *const frame = wire.bytes + wire.count;
    const uint32_t place = (uint32_t)answer[5] << 8 | answer[6];
    struct frame_head head = {0};
    if (record.type == CHANNEL_COPIED)
        record.u.copy.tag = answer[1];
    else
        record.u.job.id = answer[1];
    head.record_bytes = channel_complete(&record, &record);
    head.payload_bytes = ((uint32_t)answer[3] << 8 | answer[4]) % PAYLOAD;
    memcpy(frame, &head, sizeof head);
    memcpy(frame + sizeof head, &record, head.record_bytes);
    memset(frame + sizeof head + head.record_bytes, 0xab, head.payload_bytes);
    const size_t count = sizeof head + head.record_bytes + head.payload_bytes;
    frame[place % count] ^= answer[7];
    wire.count += count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct frames_in in;
    struct stream stream = {0};
    bool moved;
    uint8_t *arena = open_arena();
    memset(&in, 0, sizeof in);
    wire.count = wire.at = 0;
    for (size_t at = 0; at + ANSWER <= length && at < ANSWERS * ANSWER; at += ANSWER)
        add(bytes + at);
    while (frames_receive(&in, &stream, &moved) == FRAMES_ONE) {
        check(channel_is_whole(&in.frame.record, in.frame.head.record_bytes));
        if (in.frame.record.type < CHANNEL_READY)
            break; /* no answer: the bridge ends */
        payload_note(&in.frame.record);
    }
    for (uint64_t i = 0; in.frame.record.type >= CHANNEL_READY && i < ARENA; i++)
        check(arena[i] == 0 || (i / 1024 < TAGS && i % 1024 < bytes_of(i / 1024)));
    free(in.frame.block);
    for (uint64_t tag = 0; tag < TAGS; tag++)
        payload_note(&(struct channel_message){.type = CHANNEL_COPIED, .u.copy.tag = tag});
    payload_unmap(PAYLOAD_ARENA);
    return 0;
}
