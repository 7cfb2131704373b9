#include "protocol/splitter.h"

#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* The output for a stream: each message's control bytes, and the concatenated payload. */
struct outcome {
    enum splitter_event last;
    const char *error;
    int messages;
    uint8_t control[LIMIT_CONTROL_BYTES];
    size_t control_bytes;
    uint8_t payload[65536];
    size_t payload_bytes;
    int payloads;
    struct splitter_payload first, latest;
    uint8_t map[256]; /* of the latest payload, and the keys around it */
    char name[16], outer[16];
    bool idle;
};

static void copy_name(char to[16], const struct splitter_name *name)
{
    memset(to, 0, 16);
    if (name->text)
        memcpy(to, name->text, name->bytes < 15 ? name->bytes : 15);
}

static void note(struct outcome *outcome, struct splitter *s, enum splitter_event event)
{
    outcome->last = event;
    if (event == SPLITTER_MESSAGE) {
        assert_true(outcome->control_bytes + s->control_bytes <= sizeof outcome->control);
        memcpy(outcome->control + outcome->control_bytes, s->control, s->control_bytes);
        outcome->control_bytes += s->control_bytes;
        outcome->messages++;
        splitter_next(s);
    } else if (event == SPLITTER_PAYLOAD) {
        if (outcome->payloads++ == 0)
            outcome->first = s->payload;
        outcome->latest = s->payload;
        assert_true(s->payload.map_bytes <= sizeof outcome->map);
        memcpy(outcome->map, s->payload.map, s->payload.map_bytes);
        copy_name(outcome->name, &s->payload.name);
        copy_name(outcome->outer, &s->payload.outer);
        outcome->first.map = outcome->latest.map = NULL;
        outcome->first.name.text = outcome->latest.name.text = NULL;
        outcome->first.outer.text = outcome->latest.outer.text = NULL;
        if (s->payload.bytes == 0)
            note(outcome, s, splitter_payload_done(s, 0));
    } else if (event == SPLITTER_ERROR) {
        assert_non_null(s->error);
        outcome->error = s->error;
    }
}

/* One piece of a stream, processed as a connection does. */
static void take(struct outcome *outcome, struct splitter *s, const uint8_t *bytes, size_t length)
{
    while (length > 0 && outcome->last != SPLITTER_ERROR) {
        size_t used;
        const uint64_t due = splitter_payload_due(s);
        if (due > 0) {
            used = length < due ? length : (size_t)due;
            assert_true(outcome->payload_bytes + used <= sizeof outcome->payload);
            memcpy(outcome->payload + outcome->payload_bytes, bytes, used);
            outcome->payload_bytes += used;
            note(outcome, s, splitter_payload_done(s, used));
        } else {
            note(outcome, s, splitter_feed(s, bytes, length, &used));
        }
        bytes += used;
        length -= used;
    }
}

/* The stream in pieces: up to cut, then in steps of `step`. */
static struct outcome *split(const void *stream, size_t length, size_t cut, size_t step)
{
    struct outcome *outcome = calloc(1, sizeof *outcome);
    struct splitter s;
    splitter_init(&s);
    /* Exact allocations, so that a sanitizer detects reads beyond the piece. */
    const uint8_t *at = stream, *end = at + length;
    size_t piece = cut < length ? cut : length;
    while (at < end) {
        uint8_t *copy = malloc(piece);
        memcpy(copy, at, piece);
        take(outcome, &s, copy, piece);
        free(copy);
        at += piece;
        piece = (size_t)(end - at) < step ? (size_t)(end - at) : step;
    }
    outcome->idle = splitter_idle(&s);
    splitter_free(&s);
    return outcome;
}

static struct outcome *split_text(const char *text)
{
    msgpack_sbuffer buffer = notation(text);
    struct outcome *outcome = split(buffer.data, buffer.size, buffer.size, 1);
    msgpack_sbuffer_destroy(&buffer);
    return outcome;
}

#define ARRAY_HEAD "b'nd': true, b'type': '<f4', b'kind': b'', b'shape': [32, 64]"

TEST(any_way_of_cutting_the_stream_gives_the_same)
{
    const char *const texts[] = {
        "[0, 7, 'ping', []]",
        "[0, 70000, 'derivative', [{'f': {" ARRAY_HEAD ", b'data': #8192}, 'axis': 'x'}]]",
        "[0, 1, 'put', [{'f': {" ARRAY_HEAD ", b'data': #5000}}]]", /* ends with its payload */
        "[0, 2, 'put', [{'f': {'nd': true, 'data': [#3, #0, #5, #0]}}]]",
        ("[0, 3, 'put', [{'f': {b'data': $4500}, 'a': [1.5, -3, nil, {}, [], '', b'']}]]"),
        "[2, b'hello', [[], {'x': #5000, 'y': 3}, -9000000000, 0x123456789]]",
    };
    /* All of them in one stream: the second message follows the first without a gap. */
    msgpack_sbuffer stream;
    msgpack_sbuffer_init(&stream);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i];
        notation_pack(&stream, &text);
    }
    struct outcome *whole = split(stream.data, stream.size, stream.size, 1);
    assert_int_equal(whole->messages, 6);
    assert_int_equal(whole->payloads, 1 + 1 + 4 + 1 + 1);
    assert_int_equal(whole->payload_bytes, 8192 + 5000 + 8 + 4500 + 5000);
    assert_true(whole->idle);
    for (size_t cut = 1; cut < stream.size; cut += cut < 400 || cut % 64 == 0 ? 1 : 7) {
        struct outcome *cuts = split(stream.data, stream.size, cut, stream.size);
        assert_int_equal(cuts->messages, whole->messages);
        assert_int_equal(cuts->control_bytes, whole->control_bytes);
        assert_memory_equal(cuts->control, whole->control, whole->control_bytes);
        assert_int_equal(cuts->payload_bytes, whole->payload_bytes);
        assert_memory_equal(cuts->payload, whole->payload, whole->payload_bytes);
        free(cuts);
    }
    for (size_t step = 1; step < 20; step++) {
        struct outcome *steps = split(stream.data, stream.size, step, step);
        assert_int_equal(steps->messages, whole->messages);
        assert_memory_equal(steps->control, whole->control, whole->control_bytes);
        assert_memory_equal(steps->payload, whole->payload, whole->payload_bytes);
        free(steps);
    }
    free(whole);
    msgpack_sbuffer_destroy(&stream);
}

TEST(what_is_left_of_a_message_is_good_messagepack_with_numbered_payloads)
{
    struct outcome *outcome =
        split_text("[0, 9, 'put', [{'f': {" ARRAY_HEAD ", b'data': #8192}}]]");
    assert_int_equal(outcome->messages, 1);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    assert_int_equal(
        msgpack_unpack_next(&unpacked, (char *)outcome->control, outcome->control_bytes, &offset),
        MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(offset, outcome->control_bytes);
    const msgpack_object *f = &unpacked.data.via.array.ptr[3].via.array.ptr[0].via.map.ptr[0].val;
    const msgpack_object *data = &f->via.map.ptr[4].val;
    assert_int_equal(data->type, MSGPACK_OBJECT_EXT);
    assert_int_equal(data->via.ext.type, SPLITTER_EXT_TYPE);
    assert_memory_equal(data->via.ext.ptr, "\0\0\0\0\0\0\0\0", 8);
    msgpack_unpacked_destroy(&unpacked);
    free(outcome);
}

TEST(a_payload_comes_with_the_map_so_far)
{
    struct outcome *outcome =
        split_text("[0, 9, 'put', [{'f': {" ARRAY_HEAD ", b'data': #8192, 'z': 1}}]]");
    assert_int_equal(outcome->latest.map_pairs, 4);
    assert_int_equal(outcome->latest.bytes, 8192);
    assert_int_equal(outcome->latest.list_count, 0);
    /* Under a map's header, those pairs are a map. */
    const size_t map_bytes = outcome->latest.map_bytes;
    uint8_t map[300] = {0x84};
    memcpy(map + 1, outcome->map, map_bytes);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    assert_int_equal(msgpack_unpack_next(&unpacked, (char *)map, map_bytes + 1, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(offset, map_bytes + 1);
    assert_int_equal(unpacked.data.via.map.ptr[3].val.via.array.ptr[1].via.u64, 64);
    msgpack_unpacked_destroy(&unpacked);
    free(outcome);
}

TEST(a_payload_tells_the_keys_around_it)
{
    static const struct {
        const char *text, *name, *outer;
    } cases[] = {
        {"[0, 1, 'put', [{'f': {'data': #8192}}]]", "f", ""},
        {"[0, 1, 'op', [{'a': 1, 'spacing': {'x': {'data': #8192}}}]]", "x", "spacing"},
        {"[0, 1, 'op', [{'boundary': {'y-': {'at': 1, 'value': {'data': [#1]}}}}]]", "value", "y-"},
        {"[0, 1, 'op', [{'f': {'x': 1, b'z': {'nd': true, 'data': [#1, #2]}}}]]", "z", "f"},
        {"[0, 1, 'op', [{'data': #8192}]]", "", ""},
        {"[0, 1, 'op', [{3: {4: {'data': #8192}}}]]", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome *outcome = split_text(cases[i].text);
        assert_string_equal(outcome->name, cases[i].name);
        assert_string_equal(outcome->outer, cases[i].outer);
        free(outcome);
    }
}

TEST(a_list_of_bins_is_payload_whatever_their_length)
{
    struct outcome *outcome = split_text("[0, 1, 'put', [{'f': {'nd': true, b'data': "
                                         "[#4096, #0, #7]}, 'data': 3, 'e': [#7]}]]");
    assert_int_equal(outcome->messages, 1);
    assert_int_equal(outcome->payloads, 3);
    assert_int_equal(outcome->payload_bytes, 4103);
    assert_int_equal(outcome->first.list_index, 0);
    assert_int_equal(outcome->latest.list_index, 2);
    assert_int_equal(outcome->latest.list_count, 3);
    assert_int_equal(outcome->latest.number, 2);
    assert_int_equal(outcome->latest.map_pairs, 1);
    free(outcome);
}

TEST(small_bins_and_bins_that_are_no_value_stay)
{
    struct outcome *outcome =
        split_text("[0, 1, 'put', [{'f': {'data': #4095}, 'g': [#7]}, #5000, [[#4096]]]]");
    assert_int_equal(outcome->messages, 0 + 1);
    assert_int_equal(outcome->payloads, 0);
    free(outcome);
}

TEST(a_bin_of_nothing_that_ends_a_message_ends_it_without_another_byte)
{
    struct splitter s;
    splitter_init(&s);
    msgpack_sbuffer buffer = notation("[{'data': [#0]}]");
    size_t used;
    assert_int_equal(splitter_feed(&s, (uint8_t *)buffer.data, buffer.size, &used),
                     SPLITTER_PAYLOAD);
    assert_int_equal(used, buffer.size);
    assert_int_equal(splitter_payload_due(&s), 0);
    /* Even a caller that only feeds gets its message. */
    assert_int_equal(splitter_feed(&s, (uint8_t *)buffer.data, 0, &used), SPLITTER_MESSAGE);
    splitter_next(&s);
    assert_true(splitter_idle(&s));
    msgpack_sbuffer_destroy(&buffer);
    splitter_free(&s);
}

static void refused(const void *bytes, size_t length, const char *why)
{
    for (size_t step = 1; step <= length; step += length) {
        struct outcome *outcome = split(bytes, length, step, step);
        assert_int_equal(outcome->last, SPLITTER_ERROR);
        assert_int_equal(outcome->messages, 0);
        if (!strstr(outcome->error, why))
            fail_msg("'%s' does not say '%s'", outcome->error, why);
        free(outcome);
    }
}

TEST(bombs_are_refused_at_their_headers)
{
    refused("\xdd\xff\xff\xff\xff", 5, "elements"); /* msgpack-c asked for 96 GiB */
    refused("\x91\xdf\xff\xff\xff\xff", 6, "elements");
    /* 155 bytes: arrays of 2^32 − 1 inside each other, 31 deep; msgpack-c got 496 GiB. */
    uint8_t nest[155];
    for (int i = 0; i < 31; i++)
        memcpy(nest + 5 * i, "\xdd\xff\xff\xff\xff", 5);
    refused(nest, sizeof nest, "elements");
    /* Each count is within the limit, their sum is not. */
    refused("\xdc\x0c\x00\xdc\x0c\x00", 6, "elements");
    refused("\x91\xc6\xff\xff\xff\xff", 6, "64 KiB");
    refused("\x91\xdb\x00\x01\x00\x00", 6, "64 KiB");
}

TEST(nesting_ends_at_sixteen)
{
    struct outcome *outcome = split_text("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"); /* 16 */
    assert_int_equal(outcome->messages, 1);
    free(outcome);
    refused("\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0", 18, "deep");
}

TEST(only_the_splitter_itself_writes_extensions)
{
    refused("\x91\xd7\x46\0\0\0\0\0\0\0\0", 11, "extension");
    for (int first = 0xc7; first <= 0xc9; first++)
        refused((uint8_t[]){0x91, (uint8_t)first, 8, SPLITTER_EXT_TYPE}, 4, "extension");
    for (int first = 0xd4; first <= 0xd8; first++)
        refused((uint8_t[]){0x91, (uint8_t)first, SPLITTER_EXT_TYPE}, 3, "extension");
}

TEST(a_message_is_an_array_of_known_types)
{
    refused("\x80", 1, "array");
    refused("GET / HTTP/1.1\r\n", 16, "array");
    refused("\xc1", 1, "array");
    refused("\x91\xc1", 2, "0xc1");
}

TEST(counts_are_limited_in_all)
{
    /* 257 bins in a list of data: one payload too many. */
    uint8_t list[16 + 2 * 257] = {0x91, 0x81, 0xa4, 'd', 'a', 't', 'a', 0xdc, 0x01, 0x01};
    for (int i = 0; i < 257; i++)
        list[10 + 2 * i] = 0xc4;
    struct outcome *outcome = split(list, 10 + 2 * 257, sizeof list, 1);
    assert_int_equal(outcome->last, SPLITTER_ERROR);
    assert_int_equal(outcome->payloads, LIMIT_PAYLOADS);
    free(outcome);
}

/* 64 KiB beside the payloads are accepted, and one byte more is not: strings of 4,095 bytes with
 * headers of 3, and one that fills the rest. */
TEST(a_message_may_have_64_kib_of_control)
{
    enum { FULL = 3 + 4095, STRINGS = 16, LAST = LIMIT_CONTROL_BYTES - 3 - 15 * FULL - 3 };
    static uint8_t message[LIMIT_CONTROL_BYTES + 1];
    for (uint32_t more = 0; more < 2; more++) {
        uint8_t *at = message;
        memcpy(at, (uint8_t[]){0xdc, 0, STRINGS}, 3);
        at += 3;
        for (int i = 0; i < STRINGS; i++) {
            const uint32_t count = i < STRINGS - 1 ? 4095 : LAST + more;
            memcpy(at, (uint8_t[]){0xda, (uint8_t)(count >> 8), (uint8_t)count}, 3);
            at += 3 + count;
        }
        assert_int_equal(at - message, LIMIT_CONTROL_BYTES + more);
        if (more) {
            refused(message, LIMIT_CONTROL_BYTES + more, "64 KiB");
        } else {
            struct outcome *outcome = split(message, LIMIT_CONTROL_BYTES, LIMIT_CONTROL_BYTES, 1);
            assert_int_equal(outcome->messages, 1);
            assert_int_equal(outcome->control_bytes, LIMIT_CONTROL_BYTES);
            assert_true(outcome->idle);
            free(outcome);
        }
    }
}

/* Every object counts, containers too, wherever they stand. */
TEST(a_message_may_have_4096_elements)
{
    static const struct {
        uint8_t head[8];
        size_t head_bytes;
        int objects; /* in the innermost container, so that there are 4,096 */
    } cases[] = {
        {{0xdc, 0x0f, 0xff}, 3, 4095},                   /* [nil …] */
        {{0x91, 0xdc, 0x0f, 0xfe}, 4, 4094},             /* [[nil …]] */
        {{0x91, 0xde, 0x07, 0xff}, 4, 4094},             /* [{nil: nil, …}] */
        {{0x93, 0xc0, 0xc0, 0xdc, 0x0f, 0xfc}, 6, 4092}, /* [nil, nil, [nil …]] */
        {{0x92, 0xdc, 0x0f, 0xfd}, 4, 4093 + 1},         /* [[nil …], nil] */
        {{0x92, 0x91, 0xc0, 0xdc, 0x0f, 0xfc}, 6, 4092}, /* [[nil], [nil …]] */
    };
    static uint8_t message[LIMIT_ELEMENTS + 16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t at = cases[i].head_bytes, length = at + (size_t)cases[i].objects;
        memset(message, 0xc0, sizeof message);
        memcpy(message, cases[i].head, at);
        struct outcome *outcome = split(message, length, length, 1);
        assert_int_equal(outcome->messages, 1);
        assert_true(outcome->idle);
        free(outcome);
        if (i == 0)
            memcpy(message + 1, "\x10", 2);
        else
            message[0]++; /* one more in the outer array */
        refused(message, at, "elements");
    }
}

TEST(an_error_is_final)
{
    struct splitter s;
    size_t used;
    splitter_init(&s);
    assert_int_equal(splitter_feed(&s, (const uint8_t *)"\x91\xc1", 2, &used), SPLITTER_ERROR);
    assert_int_equal(splitter_feed(&s, (const uint8_t *)"\x90", 1, &used), SPLITTER_ERROR);
    assert_int_equal(used, 0);
    splitter_free(&s);
}

TEST(a_partial_request_tells_its_msgid)
{
    msgpack_sbuffer buffer = notation("[0, 4294967296, 'put', [{'f': {'data': #5000}}]]");
    struct splitter s;
    size_t used;
    uint64_t msgid = 0;
    splitter_init(&s);
    assert_false(splitter_peek_msgid(&s, SPLITTER_REQUEST, &msgid));
    for (size_t i = 0; i < 11; i++) {
        assert_false(splitter_peek_msgid(&s, SPLITTER_REQUEST, &msgid));
        splitter_feed(&s, (uint8_t *)buffer.data + i, 1, &used);
    }
    assert_true(splitter_peek_msgid(&s, SPLITTER_REQUEST, &msgid));
    assert_int_equal(msgid, 4294967296);
    splitter_feed(&s, (uint8_t *)buffer.data + 11, buffer.size - 11, &used);
    assert_true(splitter_payload_due(&s) == 5000);
    assert_true(splitter_peek_msgid(&s, SPLITTER_REQUEST, &msgid));
    splitter_free(&s);
    msgpack_sbuffer_destroy(&buffer);
    const char *const others[] = {"[2, 'note', [], 1]", "[0, -7, 'put', 1]",
                                  "[0, -70000, 'put', 1]", "[0, 5]", "[1, 5, nil, 1]"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        buffer = notation(others[i]);
        splitter_init(&s);
        assert_int_equal(splitter_feed(&s, (uint8_t *)buffer.data, buffer.size, &used),
                         SPLITTER_MESSAGE);
        assert_false(splitter_peek_msgid(&s, SPLITTER_REQUEST, &msgid));
        assert_int_equal(splitter_peek_msgid(&s, SPLITTER_RESPONSE, &msgid), others[i][1] == '1');
        splitter_free(&s);
        msgpack_sbuffer_destroy(&buffer);
    }
}

TEST(a_stream_that_ends_inside_a_message_is_not_idle)
{
    msgpack_sbuffer buffer = notation("[0, 1, 'put', [{'f': {'data': #5000}}]]");
    for (size_t cut = 1; cut < buffer.size; cut++) {
        struct outcome *outcome = split(buffer.data, cut, cut, 1);
        assert_false(outcome->idle);
        free(outcome);
    }
    msgpack_sbuffer_destroy(&buffer);
}
