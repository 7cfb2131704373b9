#include "protocol/object.h"

#include "tests/unit/notation.h"
#include "tests/unit/unit.h"

TEST(keys_are_found_as_str_and_as_bin)
{
    msgpack_unpacked unpacked = notation_object("{'a': 1, b'out': 2, 3: 4, 'ou': 5}");
    assert_int_equal(object_find(&unpacked.data, "a")->via.u64, 1);
    assert_int_equal(object_find(&unpacked.data, "out")->via.u64, 2);
    assert_null(object_find(&unpacked.data, "outer"));
    assert_null(object_find(object_find(&unpacked.data, "a"), "a"));
    msgpack_unpacked_destroy(&unpacked);
}

TEST(whole_numbers_keep_to_their_range)
{
    static const struct {
        const char *text;
        bool is_signed, is_unsigned;
        int64_t value;
    } numbers[] = {
        {"7", true, true, 7},
        {"-7", true, false, -7},
        {"7.0", true, true, 7},
        {"7.5", false, false, 0},
        {"1e300", false, false, 0},
        {"nan", false, false, 0},
        {"-9223372036854775808", true, false, INT64_MIN},
        {"9223372036854775808", false, true, INT64_MIN}, /* 2^63 */
        {"9223372036854775808.0", false, false, 0},      /* a float past 2^53 names no one number */
        {"'7'", false, false, 0},
        {"[]", false, false, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        msgpack_unpacked unpacked = notation_object(numbers[i].text);
        int64_t with_sign;
        uint64_t without;
        assert_int_equal(object_signed(&unpacked.data, &with_sign), numbers[i].is_signed);
        assert_int_equal(object_unsigned(&unpacked.data, &without), numbers[i].is_unsigned);
        if (numbers[i].is_signed)
            assert_true(with_sign == numbers[i].value);
        if (numbers[i].is_unsigned)
            assert_true(without == (uint64_t)numbers[i].value);
        msgpack_unpacked_destroy(&unpacked);
    }
}

TEST(a_quote_is_printable_and_cut_to_fit)
{
    msgpack_unpacked text = notation_object("'a\nb'"), longer = notation_object("$100");
    msgpack_unpacked number = notation_object("7");
    assert_string_equal(object_quote(&text.data).text, "a?b");
    assert_int_equal(strlen(object_quote(&longer.data).text), sizeof(struct quoted) - 1);
    assert_string_equal(object_quote(&longer.data).text + sizeof(struct quoted) - 4, "...");
    assert_string_equal(object_quote(&number.data).text, "?");
    msgpack_unpacked_destroy(&text);
    msgpack_unpacked_destroy(&longer);
    msgpack_unpacked_destroy(&number);
}
