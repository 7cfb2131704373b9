/* Frames over a stream that takes and gives bytes as it likes. */
#include "base/rights.h"
#include "gpu/bridge/frames.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA = 1 << 20, WIRE = 4 << 20, RECORD = 1 << 14 /* of TLS */ };

static struct {
    uint8_t bytes[WIRE];
    size_t count, at;
    bool is_closed, is_fast; /* fast: there is always room, and more */
} wire;

static struct frames_out out;
static struct frames_in in;
static struct stream stream;
static uint8_t *arena;

/* So many bytes at most as it was asked for, from time to time none. */
static size_t some(size_t most)
{
    if (wire.is_fast)
        return most < RECORD ? most : RECORD;
    return rand() % 4 ? 1 + (size_t)rand() % most : 0;
}

int64_t stream_write(struct stream *to, const void *bytes, size_t size)
{
    size_t count = some(size);
    if (wire.is_closed)
        return -1;
    count = count < WIRE - wire.count ? count : WIRE - wire.count;
    memcpy(wire.bytes + wire.count, bytes, count);
    wire.count += count;
    return (int64_t)count;
}

int64_t stream_read(struct stream *from, void *bytes, size_t size)
{
    size_t count = some(size);
    if (wire.at == wire.count)
        return wire.is_closed ? -1 : 0;
    count = count < wire.count - wire.at ? count : wire.count - wire.at;
    memcpy(bytes, wire.bytes + wire.at, count);
    wire.at += count;
    return (int64_t)count;
}

bool stream_flush(struct stream *stream)
{
    (void)stream;
    return true;
}

static int setup(void **state)
{
    struct channel_message whole = {.type = CHANNEL_UPLOAD,
                                    .u.copy = {.region = PAYLOAD_ARENA, .bytes = ARENA}};
    struct payload payload;
    const int memfd = rights_memfd("bridge", ARENA);
    memset(&wire, 0, sizeof wire);
    memset(&out, 0, sizeof out);
    memset(&in, 0, sizeof in);
    assert_true(payload_map(PAYLOAD_ARENA, memfd, ARENA, true));
    close(memfd);
    assert_true(payload_of(&whole, &payload));
    arena = payload.piece[0].memory;
    for (int i = 0; i < ARENA; i++)
        arena[i] = (uint8_t)(i * 7 % 251);
    return 0;
}

static int teardown(void **state)
{
    payload_unmap(PAYLOAD_ARENA);
    free(in.frame.block);
    for (uint32_t i = 0; i < out.count; i++)
        free(out.items[out.first + i].block);
    free(out.items);
    return 0;
}

static void push(const struct channel_message *record, uint32_t block_bytes)
{
    struct payload payload;
    uint8_t *block = block_bytes ? malloc(block_bytes) : NULL;
    for (uint32_t i = 0; i < block_bytes; i++)
        block[i] = (uint8_t)(i % 13);
    assert_true(payload_of(record, &payload));
    assert_true(frames_push(&out, record, block, block_bytes, &payload));
}

static void send_all(void)
{
    bool moved;
    while (frames_waiting(&out))
        assert_true(frames_send(&out, &stream, &moved));
}

static enum frames_result receive(void)
{
    enum frames_result result;
    bool moved;
    do
        result = frames_receive(&in, &stream, &moved);
    while ((result == FRAMES_NONE || result == FRAMES_MORE) && wire.at < wire.count);
    return result;
}

static struct channel_message upload(uint64_t offset, uint64_t bytes)
{
    return (struct channel_message){.type = CHANNEL_UPLOAD,
                                    .u.copy = {.arena_offset = offset, .bytes = bytes, .tag = 5}};
}

/* What a node says, or a region's end, must not come before what was sent for it has left. */
TEST(test_what_is_not_sent_whole_is_known, setup, teardown)
{
    struct channel_message record = upload(0, ARENA),
                           copied = {.type = CHANNEL_COPIED, .u.copy.tag = 5};
    const struct channel_message finished = {.type = CHANNEL_FINISHED, .u.job.id = 5},
                                 run = {.type = CHANNEL_RUN, .u.run.id = 5};
    bool moved;
    assert_false(frames_answered_early(&out, &copied));
    push(&record, 0);
    wire.is_fast = true;
    assert_true(frames_send(&out, &stream, &moved)); /* part of it */
    assert_true(frames_answered_early(&out, &copied));
    assert_false(frames_answered_early(&out, &finished));
    assert_true(frames_hold(&out, PAYLOAD_ARENA));
    push(&run, 0);
    assert_true(frames_answered_early(&out, &finished));
    copied.u.copy.tag = 6;
    assert_false(frames_answered_early(&out, &copied));
    copied.u.copy.tag = 5;
    send_all();
    assert_false(frames_answered_early(&out, &copied));
    assert_false(frames_answered_early(&out, &finished));
    assert_false(frames_hold(&out, PAYLOAD_ARENA));
}

TEST(test_frames_arrive_as_they_were_sent, setup, teardown)
{
    const struct channel_message ping = {.type = CHANNEL_PING};
    struct channel_message run = {.type = CHANNEL_RUN, .u.run.id = 77};
    for (int i = 0; i < 20; i++) {
        const struct channel_message piece = upload((uint64_t)i * 1000, 100000);
        push(&ping, 0);
        push(&piece, 0);
        push(&run, 1 + (uint32_t)i * 5000);
    }
    send_all();
    uint8_t *expected = malloc(ARENA);
    memcpy(expected, arena, ARENA);
    memset(arena, 0, ARENA);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(receive(), FRAMES_ONE);
        assert_int_equal(in.frame.record.type, CHANNEL_PING);
        assert_int_equal(receive(), FRAMES_ONE);
        assert_int_equal(in.frame.record.type, CHANNEL_UPLOAD);
        assert_memory_equal(arena + i * 1000, expected + i * 1000, 100000);
        assert_int_equal(receive(), FRAMES_ONE);
        assert_int_equal(in.frame.record.u.run.id, 77);
        assert_int_equal(in.frame.head.block_bytes, 1 + i * 5000);
        assert_int_equal(in.frame.block[i * 5000], i * 5000 % 13);
    }
    free(expected);
    assert_int_equal(receive(), FRAMES_NONE);
    wire.is_closed = true;
    assert_int_equal(receive(), FRAMES_CLOSED);
}

/* A sender of another mind: each field of a head and of a record, wrong by turns. */
TEST(test_what_is_no_frame_is_broken, setup, teardown)
{
    const struct channel_message good = upload(0, 64);
    struct channel_message record;
    struct frame_head head = {channel_complete(&record, &good), 0, 64};
    struct {
        struct frame_head head;
        struct channel_message record;
    } wrong[9];
    for (int i = 0; i < 9; i++) {
        wrong[i].head = head;
        wrong[i].record = record;
    }
    wrong[0].head.record_bytes = 0;
    wrong[1].head.record_bytes = sizeof record + 8;
    wrong[2].head.record_bytes -= 8;
    wrong[3].head.block_bytes = UINT32_MAX;
    wrong[4].head.payload_bytes = 65;
    wrong[5].record.version++;
    wrong[6].record.type = CHANNEL_TYPES;
    wrong[7].record.u.copy.arena_offset = ARENA;
    wrong[8].record.bytes += 8;
    for (int i = 0; i < 9; i++) {
        free(in.frame.block);
        memset(&in, 0, sizeof in);
        wire.count = wire.at = 0;
        memcpy(wire.bytes, &wrong[i].head, sizeof head);
        memcpy(wire.bytes + sizeof head, &wrong[i].record, sizeof record);
        wire.count = sizeof head + sizeof record + 64;
        assert_int_equal(receive(), FRAMES_BROKEN);
    }
}

TEST(test_a_frame_in_part_is_none_yet, setup, teardown)
{
    const struct channel_message piece = upload(0, 1000);
    push(&piece, 0);
    send_all();
    const size_t whole = wire.count;
    wire.count = whole - 1;
    assert_int_equal(receive(), FRAMES_NONE);
    assert_true(in.got > 0);
    wire.count = whole;
    assert_int_equal(receive(), FRAMES_ONE);
}

/* Or the loop would not have its beats, and its process would be taken for one that hangs. */
TEST(test_a_long_frame_lets_others_have_their_turn, setup, teardown)
{
    const struct channel_message piece = upload(0, ARENA);
    bool moved = false;
    wire.is_fast = true;
    push(&piece, 0);
    assert_true(frames_send(&out, &stream, &moved));
    assert_true(moved && frames_waiting(&out));
    assert_true(wire.count >= FRAMES_AT_ONCE && wire.count < ARENA);
    send_all();
    assert_int_equal(frames_receive(&in, &stream, &moved), FRAMES_MORE);
    assert_true(wire.at >= FRAMES_AT_ONCE && wire.at < ARENA);
    assert_int_equal(receive(), FRAMES_ONE);
}
