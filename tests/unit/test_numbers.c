#include "protocol/array.h"

#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

#include <string.h>

/* Stays unpacked until the end of the test, because arrays point into it. */
static msgpack_unpacked message;

static struct array read_numbers(const char *text)
{
    struct array array;
    struct failure failure = {0};
    message = notation_object(text);
    if (!numbers_read(&message.data, "weights", &array, &failure))
        fail_msg("%s: %s", text, failure.message);
    return array;
}

static void forget(void)
{
    msgpack_unpacked_destroy(&message);
}

TEST(a_list_has_a_shape)
{
    const struct array array = read_numbers("[[1, 2.5, -3], [4, 5, 6]]");
    double reals[6];
    assert_int_equal(array.kind, ARRAY_LIST);
    assert_int_equal(array.type.dimensions, 2);
    assert_int_equal(array.type.shape[0], 2);
    assert_int_equal(array.type.shape[1], 3);
    assert_int_equal(numbers_count(&array), 6);
    numbers_reals(&array, reals);
    const double expected[] = {1, 2.5, -3, 4, 5, 6};
    assert_memory_equal(reals, expected, sizeof reals);
    forget();
}

TEST(whole_numbers_are_told_from_others)
{
    struct failure failure = {0};
    int64_t whole;
    struct array array = read_numbers("[1, 8.0, -3]");
    const int64_t expected[] = {1, 8, -3};
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(numbers_whole(&array, "probes", i, &whole, &failure));
        assert_true(whole == expected[i]);
    }
    forget();
    array = read_numbers("[1, 8.5, -3]");
    assert_false(numbers_whole(&array, "probes", 1, &whole, &failure));
    assert_int_equal(failure.code, STATUS_INVALID_ARGUMENT);
    assert_string_equal(failure.parameter, "probes");
    forget();
}

/* #N counts up from 0, a byte each. */
TEST(an_inline_array_is_of_any_type)
{
    struct failure failure = {0};
    int64_t whole;
    double reals[4];
    struct array array = read_numbers("{'nd': true, 'type': '|i1', 'shape': [2, 2], 'data': #4}");
    assert_int_equal(array.kind, ARRAY_INLINE);
    numbers_reals(&array, reals);
    for (int i = 0; i < 4; i++) {
        assert_true(numbers_whole(&array, "f", (uint64_t)i, &whole, &failure));
        assert_int_equal(whole, i);
        assert_true(reals[i] == i);
    }
    forget();
    array = read_numbers("{'nd': true, 'type': '<u2', 'shape': [2], 'data': #4}");
    assert_true(numbers_whole(&array, "f", 1, &whole, &failure));
    assert_int_equal(whole, 0x0302);
    forget();
    array = read_numbers("{'nd': true, 'type': '<f4', 'shape': [1], 'data': #4}");
    numbers_reals(&array, reals);
    float expected;
    const unsigned char bytes[] = {0, 1, 2, 3};
    memcpy(&expected, bytes, sizeof expected);
    assert_true(reals[0] == (double)expected);
    assert_false(numbers_whole(&array, "f", 0, &whole, &failure));
    forget();
}

TEST(integers_keep_all_their_bits)
{
    struct failure failure = {0};
    int64_t whole;
    const int64_t far = INT64_C(-9007199254740993); /* −2^53 − 1 */
    struct array array = {.kind = ARRAY_INLINE,
                          .type = {.dimensions = 1, .shape = {1}, .bytes = 8},
                          .element = {'i', 8},
                          .small = &far};
    assert_true(numbers_whole(&array, "f", 0, &whole, &failure));
    assert_true(whole == far);
    const uint64_t over = UINT64_C(1) << 63;
    array.element.letter = 'u';
    array.small = &over;
    assert_false(numbers_whole(&array, "f", 0, &whole, &failure));
}

TEST(what_is_none_is_refused)
{
    static const struct {
        const char *text;
        enum status code;
        const char *says;
    } cases[] = {
        {"[]", STATUS_INVALID_ARGUMENT, "empty"},
        {"[[], []]", STATUS_INVALID_ARGUMENT, "empty"},
        {"[[1, 2], [3]]", STATUS_INVALID_ARGUMENT, "one length"},
        {"[[1, 2], 3]", STATUS_INVALID_ARGUMENT, "one length"},
        {"[1, [2]]", STATUS_INVALID_ARGUMENT, "no number"},
        {"[1, '2']", STATUS_INVALID_ARGUMENT, "no number"},
        {"[1, nil]", STATUS_INVALID_ARGUMENT, "no number"},
        {"[[[[[[[[[1]]]]]]]]]", STATUS_INVALID_ARGUMENT, "8 deep"},
        {"3", STATUS_INVALID_ARGUMENT, "list of numbers"},
        {"'x'", STATUS_INVALID_ARGUMENT, "list of numbers"},
        {"{'field': 3}", STATUS_UNSUPPORTED, "no field or region"},
        {"{'region': 3, 'offset': 0}", STATUS_UNSUPPORTED, "no field or region"},
        {"{'nd': true, 'type': '<c8', 'shape': [1], 'data': #8}", STATUS_UNSUPPORTED, "complex"},
        {"{'nd': true, 'type': '|b1', 'shape': [1], 'data': #1}", STATUS_UNSUPPORTED, "boolean"},
        {"{'nd': true, 'type': '<f2', 'shape': [1], 'data': #2}", STATUS_UNSUPPORTED, "<f2"},
        {"{'nd': true, 'type': '<i4', 'shape': [2], 'data': #4}", STATUS_INVALID_ARGUMENT,
         "8 bytes"},
        {"{'nd': true, 'type': '<i4', 'shape': [2]}", STATUS_INVALID_ARGUMENT, "missing"},
        {"{'nd': true, 'type': '<f8', 'shape': [1048577], 'data': [#1]}", STATUS_INVALID_ARGUMENT,
         "bin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct array array;
        struct failure failure = {0};
        message = notation_object(cases[i].text);
        assert_false(numbers_read(&message.data, "offsets", &array, &failure));
        if (failure.code != cases[i].code || !strstr(failure.message, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].text, status_name(failure.code), failure.message);
        assert_string_equal(failure.parameter, "offsets");
        forget();
    }
}
