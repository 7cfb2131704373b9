#include "protocol/array.h"

#include "protocol/reply.h"
#include "protocol/splitter.h"
#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

#include <string.h>

/* numpy 2, msgpack 1, msgpack-numpy 0.4.8:
 * msgpack.packb(numpy.arange(6, dtype='f4').reshape(2, 3), default=msgpack_numpy.encode) */
static const char golden_2x3_f4[] =
    "85c4026e64c3c40474797065a33c6634c4046b696e64c400c4057368617065920203c40464617461c418"
    "000000000000803f0000004000004040000080400000a040";
/* the same of numpy.zeros((1, 2), 'f8') and, up to its data, of numpy.zeros((70, 4), 'f4') */
static const char golden_1x2_f8[] =
    "85c4026e64c3c40474797065a33c6638c4046b696e64c400c4057368617065920102c40464617461c410"
    "00000000000000000000000000000000";
static const char golden_70x4_f4_header[] =
    "85c4026e64c3c40474797065a33c6634c4046b696e64c400c4057368617065924604c40464617461c50460";
/* use_bin_type=False, as writers before msgpack 1.0: numpy.arange(2, dtype='f4') */
static const char golden_old_form[] =
    "85a26e64c3a474797065a33c6634a46b696e64a0a573686170659102a464617461a8000000000000803f";
static const char golden_pickle[] =
    "85c4026e64c3c404747970659192a0a27c4fc4046b696e64c4014fc40573686170659101c40464617461c40100";
static const char golden_structured[] =
    "85c4026e64c3c404747970659192a161a33c6634c4046b696e64c40156c40573686170659101c40464617461c404"
    "00000000";

static size_t unhex(const char *hex, unsigned char *to)
{
    const size_t count = strlen(hex) / 2;
    for (size_t i = 0; i < count; i++) {
        unsigned value;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        to[i] = (unsigned char)value;
    }
    return count;
}

static void written_as(const struct array_type *type, const char *hex)
{
    unsigned char expected[256];
    const size_t count = unhex(hex, expected);
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    reply_buffer_init(&buffer, &packer);
    array_write_header(&packer, type);
    assert_true(buffer.size <= count);
    assert_memory_equal(buffer.data, expected, buffer.size);
    /* What follows in the golden bytes is the payload and nothing else. */
    if (count > buffer.size)
        assert_int_equal(count - buffer.size, type->bytes);
    msgpack_sbuffer_destroy(&buffer);
}

TEST(headers_are_msgpack_numpys_to_the_byte)
{
    written_as(&(struct array_type){DTYPE_F32, 2, {2, 3}, 24}, golden_2x3_f4);
    written_as(&(struct array_type){DTYPE_F64, 2, {1, 2}, 16}, golden_1x2_f8);
    written_as(&(struct array_type){DTYPE_F32, 2, {70, 4}, 1120}, golden_70x4_f4_header);
}

static unsigned char bytes[256]; /* strings of the object point into them */

static msgpack_unpacked unpack_hex(const char *hex)
{
    const size_t count = unhex(hex, bytes);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    assert_int_equal(msgpack_unpack_next(&unpacked, (char *)bytes, count, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    return unpacked;
}

/* It points into the object. */
static struct array array_of(const msgpack_unpacked *unpacked)
{
    struct array array;
    struct failure failure = {0};
    if (!array_read(&unpacked->data, "f", &array, &failure))
        fail_msg("%s", failure.message);
    return array;
}

TEST(what_numpy_writes_is_read)
{
    msgpack_unpacked unpacked = unpack_hex(golden_2x3_f4);
    struct array array = array_of(&unpacked);
    assert_int_equal(array.kind, ARRAY_INLINE);
    assert_int_equal(array.type.dtype, DTYPE_F32);
    assert_int_equal(array.type.dimensions, 2);
    assert_int_equal(array.type.shape[0], 2);
    assert_int_equal(array.type.shape[1], 3);
    assert_int_equal(array.type.bytes, 24);
    const float expected[] = {0, 1, 2, 3, 4, 5};
    assert_memory_equal(array.small, expected, sizeof expected);
    msgpack_unpacked_destroy(&unpacked);

    unpacked = unpack_hex(golden_old_form);
    array = array_of(&unpacked);
    assert_memory_equal(array.small, expected, 8);
    msgpack_unpacked_destroy(&unpacked);
}

static void refused_as(enum status code, const char *text, const char *says)
{
    msgpack_unpacked unpacked = notation_object(text);
    struct array array;
    struct failure failure = {0};
    assert_false(array_read(&unpacked.data, "f", &array, &failure));
    if (failure.code != code || !strstr(failure.message, says))
        fail_msg("%s: %s: %s", text, status_name(failure.code), failure.message);
    assert_string_equal(failure.parameter, "f");
    msgpack_unpacked_destroy(&unpacked);
}

static void refused(const char *text, const char *says)
{
    refused_as(STATUS_INVALID_ARGUMENT, text, says);
}

TEST(types_that_are_not_taken_are_named)
{
    static const struct {
        const char *type;
        enum status code;
        const char *says;
    } types[] = {
        {"'>f4'", STATUS_UNSUPPORTED, "byte order"},
        {"'>i4'", STATUS_UNSUPPORTED, "byte order"},
        {"'<c8'", STATUS_UNSUPPORTED, "complex type <c8"},
        {"'<i4'", STATUS_UNSUPPORTED, "integer type <i4 is not accepted; convert to float32"},
        {"'|u1'", STATUS_UNSUPPORTED, "integer type |u1"},
        {"'<c16'", STATUS_UNSUPPORTED, "complex type <c16"},
        {"'>c16'", STATUS_UNSUPPORTED, "(<c16)"},
        {"'<f16'", STATUS_UNSUPPORTED, "<f16"},
        {"'<f2'", STATUS_UNSUPPORTED, "<f2"},
        {"'<f'", STATUS_INVALID_ARGUMENT, "<f4 or <f8"},
        {"''", STATUS_INVALID_ARGUMENT, "<f4 or <f8"},
        {"[['a', '<f4']]", STATUS_UNSUPPORTED, "structured"},
        {"4", STATUS_INVALID_ARGUMENT, "string"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "{'nd': true, 'type': %s, 'kind': b'', 'shape': [2], 'data': #8}", types[i].type);
        refused_as(types[i].code, text, types[i].says);
    }
    const char *const taken[] = {"<f4", "f4", "float32"};
    for (size_t i = 0; i < 3; i++) {
        char text[200];
        snprintf(text, sizeof text, "{'nd': true, 'type': '%s', 'shape': [2], 'data': #8}",
                 taken[i]);
        msgpack_unpacked unpacked = notation_object(text);
        const struct array array = array_of(&unpacked);
        assert_int_equal(array.type.dtype, DTYPE_F32);
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(pickles_and_structures_are_refused)
{
    const char *const texts[] = {golden_pickle, golden_structured};
    const char *const says[] = {"pickle", "structured"};
    for (int i = 0; i < 2; i++) {
        msgpack_unpacked unpacked = unpack_hex(texts[i]);
        struct array array;
        struct failure failure = {0};
        assert_false(array_read(&unpacked.data, "f", &array, &failure));
        assert_int_equal(failure.code, STATUS_UNSUPPORTED);
        assert_non_null(strstr(failure.message, says[i]));
        msgpack_unpacked_destroy(&unpacked);
    }
}

#define HEAD "{'nd': true, 'type': '<f4', "

TEST(shapes_are_checked_before_they_are_believed)
{
    refused(HEAD "'shape': [], 'data': #4}", "1 to 8 dimensions");
    refused(HEAD "'shape': [1,1,1,1,1,1,1,1,1], 'data': #4}", "1 to 8 dimensions");
    refused(HEAD "'shape': [2, 0], 'data': #0}", "shape[1]");
    refused(HEAD "'shape': [-2], 'data': #8}", "shape[0]");
    refused(HEAD "'shape': [2.5], 'data': #8}", "shape[0]");
    refused(HEAD "'shape': ['2'], 'data': #8}", "shape[0]");
    refused(HEAD "'shape': 2, 'data': #8}", "shape");
    refused_as(STATUS_TOO_LARGE, HEAD "'shape': [4294967296, 4294967296, 4294967296], 'data': #0}",
               "points");
    refused_as(STATUS_TOO_LARGE, HEAD "'shape': [4294967296, 4294967296], 'data': #0}", "points");
    refused_as(STATUS_TOO_LARGE, HEAD "'shape': [1125899906842625], 'data': #0}", "points");
    refused(HEAD "'shape': [2, 3], 'data': #23}", "24 bytes");
    refused(HEAD "'shape': [2, 3], 'data': #28}", "24 bytes");
}

TEST(the_largest_shapes_are_taken)
{
    static const struct {
        const char *text;
        uint32_t dimensions;
        uint64_t points;
    } cases[] = {
        {HEAD "'shape': [1,2,1,1,1,1,1,3], 'data': #24}", LIMIT_DIMENSIONS, 6},
        {"{'region': 1, 'type': '<f4', 'shape': [1125899906842624]}", 1, LIMIT_POINTS},
        {"{'region': 1, 'type': '<f4', 'shape': [33554432, 1, 33554432]}", 3, LIMIT_POINTS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        msgpack_unpacked unpacked = notation_object(cases[i].text);
        const struct array array = array_of(&unpacked);
        assert_int_equal(array.type.dimensions, cases[i].dimensions);
        assert_int_equal(array.type.bytes, 4 * cases[i].points);
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(maps_that_are_no_array_say_so)
{
    refused("7", "msgpack-numpy");
    refused("nil", "msgpack-numpy");
    refused("{}", "nd");
    refused("{'nd': false, 'type': '<f4', 'data': #4}", "scalar");
    refused(HEAD "'shape': [1], 'data': #4, 'dtype': 1}", "dtype");
    refused(HEAD "'shape': [1], 'shape': [1], 'data': #4}", "twice");
    refused(HEAD "'shape': [1], 'data': []}", "bins");
    refused(HEAD "'shape': [1], 'data': [0, 0, 0, 0]}", "bins");
    refused(HEAD "'data': #4}", "shape is missing");
    refused("{'x': {'field': 1}}", "no key \"x\"");
    refused("{'field': -1}", "id");
    refused("{'field': 'a'}", "id");
    refused("{'field': 1, 'offset': 0}", "offset");
}

TEST(a_fields_map_from_a_reply_may_come_back)
{
    msgpack_unpacked unpacked =
        notation_object("{'field': 18446744073709551615, 'shape': [2], 'type': '<f4'}");
    const struct array array = array_of(&unpacked);
    assert_int_equal(array.kind, ARRAY_FIELD);
    assert_true(array.field == UINT64_MAX);
    msgpack_unpacked_destroy(&unpacked);
}

TEST(one_without_data_is_described)
{
    msgpack_unpacked unpacked = notation_object(HEAD "'shape': [2, 3]}");
    const struct array array = array_of(&unpacked);
    assert_int_equal(array.kind, ARRAY_DESCRIBED);
    assert_int_equal(array.type.bytes, 24);
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    reply_buffer_init(&buffer, &packer);
    array_write_description(&packer, &array.type);
    msgpack_unpacked written;
    msgpack_unpacked_init(&written);
    assert_int_equal(msgpack_unpack_next(&written, buffer.data, buffer.size, NULL),
                     MSGPACK_UNPACK_SUCCESS);
    struct array again = array_of(&written);
    assert_int_equal(again.kind, ARRAY_DESCRIBED);
    struct failure failure = {0};
    assert_true(array_check_alike(&again.type, &array.type, "f", "the array", &failure));
    again.type.shape[1]++;
    assert_false(array_check_alike(&again.type, &array.type, "f", "the array", &failure));
    msgpack_unpacked_destroy(&written);
    msgpack_sbuffer_destroy(&buffer);
    msgpack_unpacked_destroy(&unpacked);
}

TEST(a_place_in_a_region_is_read)
{
    static const struct {
        const char *text;
        uint64_t region, offset;
        uint32_t dimensions;
    } cases[] = {
        {"{'region': 7, 'offset': 64, 'shape': [3, 4], 'type': '<f8'}", 7, 64, 2},
        {"{b'type': '<f8', b'shape': [3, 4], b'region': 7}", 7, 0, 2},
        {"{'region': 18446744073709551615, 'offset': 18446744073709551600}", UINT64_MAX,
         UINT64_MAX - 15, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        msgpack_unpacked unpacked = notation_object(cases[i].text);
        const struct array array = array_of(&unpacked);
        assert_int_equal(array.kind, ARRAY_REGION);
        assert_true(array.region == cases[i].region && array.offset == cases[i].offset);
        assert_int_equal(array.type.dimensions, cases[i].dimensions);
        assert_int_equal(array.type.bytes, cases[i].dimensions ? 96 : 0);
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(places_that_cannot_be_are_refused)
{
    refused("{'region': -1}", "id");
    refused("{'region': 'a'}", "id");
    refused("{'region': 1, 'region': 1}", "twice");
    refused("{'region': 1, 'offset': 8}", "multiple of 16");
    refused("{'region': 1, 'offset': -16}", "multiple of 16");
    refused("{'region': 1, 'offset': nil}", "multiple of 16");
    refused("{'region': 1, 'field': 1}", "no key \"field\"");
    refused("{'region': 1, 'shape': [4]}", "type");
    refused("{'region': 1, 'type': '<f4'}", "shape");
    refused_as(STATUS_UNSUPPORTED, "{'region': 1, 'type': '<i4', 'shape': [4]}", "integer");
    refused("{'region': 1, 'type': '<f4', 'shape': [0]}", "shape[0]");
    refused_as(STATUS_TOO_LARGE, "{'region': 1, 'type': '<f4', 'shape': [4294967296, 4294967296]}",
               "points");
}

TEST(diverted_data_is_found_by_its_number)
{
    msgpack_sbuffer buffer =
        notation("[{'a': {'data': #4096}, 'f': " HEAD "'shape': [1024], 'data': [#4090, #6]}}]");
    struct splitter s;
    splitter_init(&s);
    size_t at = 0, used;
    enum splitter_event event = SPLITTER_MORE;
    while (event != SPLITTER_MESSAGE) {
        if (event == SPLITTER_PAYLOAD) {
            if (s.payload.number == 1) { /* the header is whole before the first byte of payload */
                struct array_type type;
                struct failure failure = {0};
                assert_true(array_type_peek(&s.payload, "f", false, &type, &failure));
                assert_int_equal(type.bytes, 4096);
            }
            at += s.payload_left;
            event = splitter_payload_done(&s, s.payload_left);
        } else {
            event = splitter_feed(&s, (uint8_t *)buffer.data + at, buffer.size - at, &used);
            at += used;
        }
    }
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    assert_int_equal(msgpack_unpack_next(&unpacked, (char *)s.control, s.control_bytes, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    struct array array;
    struct failure failure = {0};
    const msgpack_object *map = &unpacked.data.via.array.ptr[0];
    assert_true(array_read(&map->via.map.ptr[1].val, "f", &array, &failure));
    assert_int_equal(array.payload_first, 1);
    assert_int_equal(array.payload_count, 2);
    assert_null(array.small);
    msgpack_unpacked_destroy(&unpacked);
    splitter_free(&s);
    msgpack_sbuffer_destroy(&buffer);
}

TEST(a_result_over_one_bin_is_a_list_of_bins)
{
    assert_false(array_is_list(UINT32_MAX));
    assert_true(array_is_list(UINT64_C(1) << 32));
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    reply_buffer_init(&buffer, &packer);
    array_write_header(&packer,
                       &(struct array_type){DTYPE_F32, 3, {1024, 1024, 1024}, UINT64_C(1) << 32});
    assert_int_equal((unsigned char)buffer.data[buffer.size - 1], 0x92);
    msgpack_pack_bin(&packer, ARRAY_BIN_BYTES);
    assert_memory_equal(buffer.data + buffer.size - 5, "\xc6\x80\0\0\0", 5);
    msgpack_sbuffer_destroy(&buffer);
}
