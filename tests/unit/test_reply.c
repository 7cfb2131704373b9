#include "protocol/reply.h"

#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

#include <string.h>

static msgpack_sbuffer buffer;
static msgpack_packer packer;

static int begin(void **state)
{
    reply_buffer_init(&buffer, &packer);
    return 0;
}

static int end(void **state)
{
    msgpack_sbuffer_destroy(&buffer);
    return 0;
}

/* All that was written since. */
static void written_as(const char *text)
{
    msgpack_sbuffer expected = notation(text);
    assert_int_equal(buffer.size, expected.size);
    assert_memory_equal(buffer.data, expected.data, expected.size);
    msgpack_sbuffer_destroy(&expected);
    msgpack_sbuffer_clear(&buffer);
}

TEST(an_error_carries_what_applies_to_it, begin, end)
{
    struct failure failure = {0};
    failure_set(&failure, STATUS_INVALID_ARGUMENT, "accuracy", "accuracy must be even");
    reply_write_failure(&packer, 8, &failure);
    written_as("[1, 8, {'code': 'INVALID_ARGUMENT', 'message': 'accuracy must be even', "
               "'parameter': 'accuracy', 'retryable': false}, nil]");
    failure =
        (struct failure){.code = STATUS_OVER_BUDGET, .has_need = true, .need = 4096, .limit = 0.5};
    reply_write_failure(&packer, UINT64_MAX, &failure);
    written_as("[1, 18446744073709551615, {'code': 'OVER_BUDGET', 'message': "
               "'memory is in use; free fields or wait', 'retryable': true, "
               "'need': 4096, 'limit': 0.5}, nil]");
}

TEST(a_result_and_a_progress_have_their_frames, begin, end)
{
    reply_write_begin(&packer, 300);
    msgpack_pack_map(&packer, 0);
    written_as("[1, 300, nil, {}]");
    reply_write_progress(&packer, 7, 10, 1000);
    written_as("[2, 'progress', [{'msgid': 7, 'done': 10, 'total': 1000}]]");
}

TEST(a_result_says_where_it_is, begin, end)
{
    const struct array_type type = {DTYPE_F64, 2, {3, 4}, 96};
    reply_write_field(&packer, 5, &type);
    written_as("{'field': 5, 'type': '<f8', 'shape': [3, 4]}");
    reply_write_snapshot(&packer, 7, 30, 0.25);
    reply_write_field(&packer, 5, &type);
    written_as("[2, 'snapshot', [{'msgid': 7, 'step': 30, 'time': 0.25, 'out': "
               "{'field': 5, 'type': '<f8', 'shape': [3, 4]}}]]");
}

TEST(a_report_says_what_there_is, begin, end)
{
    const struct reply_report nothing = {.nan = 12};
    reply_write_report(&packer, &nothing);
    written_as("{'min': nil, 'max': nil, 'mean': nil, 'nan': 12, "
               "'stability': nil, 'error': nil}");
    const struct reply_report all = {true, -1.5, 2.5, 0.25, 3, true, true, 0.5, 0.75, 0.125};
    reply_write_report(&packer, &all);
    written_as("{'min': -1.5, 'max': 2.5, 'mean': 0.25, 'nan': 3, "
               "'stability': 0.5, 'error': {'max': 0.75, 'rms': 0.125}}");
}

TEST(a_failure_survives_the_wire, begin, end)
{
    for (int code = STATUS_OK + 1; code < STATUS_COUNT; code++) {
        struct failure sent = {0}, got;
        failure_set_limit(&sent, (enum status)code, "dt", 0.1, 1.0 / 3, "a sentence");
        reply_write_failure(&packer, 1, &sent);
        msgpack_unpacked unpacked;
        msgpack_unpacked_init(&unpacked);
        size_t offset = 0;
        assert_int_equal(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, &offset),
                         MSGPACK_UNPACK_SUCCESS);
        reply_read_failure(&unpacked.data.via.array.ptr[2], &got);
        assert_int_equal(got.code, sent.code);
        assert_string_equal(got.message, sent.message);
        assert_string_equal(got.parameter, sent.parameter);
        assert_true(got.has_need && got.need == sent.need && got.limit == sent.limit);
        msgpack_unpacked_destroy(&unpacked);
        msgpack_sbuffer_clear(&buffer);
    }
}

TEST(a_client_reads_any_error_without_fault)
{
    const char *const texts[] = {"nil",
                                 "7",
                                 "'it broke'",
                                 "{}",
                                 "[]",
                                 "{'code': 7, 'message': [], 'need': 1}",
                                 "{'code': 'OK'}",
                                 "{'code': 'FROM_THE_FUTURE', 'message': $5000}",
                                 "{'code': 'TIMEOUT', 'parameter': $500, 'need': 'a', 'limit': 2}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        msgpack_unpacked unpacked = notation_object(texts[i]);
        struct failure failure;
        reply_read_failure(&unpacked.data, &failure);
        assert_int_equal(failure.code, i == 8 ? STATUS_TIMEOUT : STATUS_INTERNAL);
        assert_false(failure.has_need);
        if (i == 2)
            assert_string_equal(failure.message, "it broke");
        if (i == 7)
            assert_int_equal(strlen(failure.message), sizeof failure.message - 1);
        msgpack_unpacked_destroy(&unpacked);
    }
}
