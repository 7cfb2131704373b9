#include "client/json.h"
#include "tests/unit/unit.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reallocs = -1; /* that succeed from here on; −1: all */

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    if (reallocs == 0)
        return NULL;
    reallocs -= reallocs > 0;
    return __real_realloc(memory, bytes);
}

/* Read a text and write it again; the caller frees. NULL where it was refused, *why says why. */
static char *round_trip(const char *text, size_t length, const char **why)
{
    msgpack_zone zone;
    msgpack_object object;
    char *out = NULL, *copy = malloc(length ? length : 1); /* exact, so that ASan sees overruns */
    size_t out_length;
    memcpy(copy, text, length);
    assert_true(msgpack_zone_init(&zone, 1024));
    if (json_read(copy, length, &zone, &object, why)) {
        FILE *file = open_memstream(&out, &out_length);
        json_write(file, &object, 0);
        fclose(file);
    }
    msgpack_zone_destroy(&zone);
    free(copy);
    return out;
}

static void check(const char *text, const char *wanted)
{
    const char *why;
    char *out = round_trip(text, strlen(text), &why);
    if (!out)
        fail_msg("%s: %s", text, why);
    assert_string_equal(out, wanted);
    free(out);
}

TEST(test_values)
{
    check("null", "null");
    check(" [true , false,null ] ", "[true, false, null]");
    check("{}", "{}");
    check("[]", "[]");
    check("{\"a\": [1, {\"b\": -2}], \"c\": \"\"}", "{\"a\": [1, {\"b\": -2}], \"c\": \"\"}");
}

TEST(test_numbers)
{
    check("0", "0");
    check("-0", "0");
    check("18446744073709551615", "18446744073709551615");
    check("18446744073709551616", "1.8446744073709552e+19");
    check("-9223372036854775807", "-9223372036854775807");
    check("0.1", "0.1");
    check("0.30000000000000004", "0.30000000000000004");
    check("1e400", "null"); /* infinity */
    check("5e-324", "4.94065645841247e-324");
    check("1.5E+3", "1500");
}

TEST(test_strings)
{
    check("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    check("\"\\u0000\\u001f\\u007f\"", "\"\\u0000\\u001f\\u007f\"");
    check("\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\"é€😀\"");
    check("\"é€😀\"", "\"é€😀\"");
    check("\"\xff\xc0\x80\xed\xa0\x80\xe2\x82\"", /* each byte of what is no UTF-8 */
          "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

TEST(test_refused)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "[",
                                        "]",
                                        "{",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[1 2]",
                                        "{1: 2}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\": 1,}",
                                        "\"",
                                        "\"\\",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\ud800\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\udc00\"",
                                        "\"\n\"",
                                        "nul",
                                        "truefalse",
                                        "1 2",
                                        "+1",
                                        ".5",
                                        "0x10",
                                        "1x",
                                        "--1",
                                        "nan",
                                        "Infinity",
                                        "-",
                                        "1e",
                                        "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *why = NULL;
        char *out = round_trip(texts[i], strlen(texts[i]), &why);
        if (out)
            fail_msg("%s was taken as %s", texts[i], out);
        assert_non_null(why);
    }
    const char *why;
    assert_null(round_trip("1\0", 2, &why));
    check("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]");
}

TEST(test_what_json_lacks)
{
    msgpack_object_kv pair = {
        .key = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 7},
        .val = {.type = MSGPACK_OBJECT_FLOAT64, .via.f64 = __builtin_nan("")}};
    const msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {1, &pair}};
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    json_write(file, &map, 0);
    pair.key = (msgpack_object){.type = MSGPACK_OBJECT_BIN, .via.bin = {2, "nd"}};
    pair.val = (msgpack_object){.type = MSGPACK_OBJECT_EXT, .via.ext = {0x46, 0, ""}};
    json_write(file, &map, 2);
    fclose(file);
    assert_string_equal(text, "{\"7\": null}{\n  \"nd\": null\n}");
    free(text);
}

TEST(test_a_decimal_comma_changes_nothing)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    bool set = false;
    for (size_t i = 0; i < 4 && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!set)
        skip();
    check("[0.5, 1.25e-3]", "[0.5, 0.00125]");
    setlocale(LC_NUMERIC, "C");
}

TEST(test_no_memory_for_a_key)
{
    char text[256] = "[";
    const char *why = NULL;
    for (int i = 0; i < 64; i++) /* as many values as fit before the second realloc() */
        strcat(text, "1,");
    strcat(text, "{\"a\" 1}]");
    for (reallocs = 0; reallocs >= 0;) {
        const int allowed = reallocs;
        assert_null(round_trip(text + (allowed ? 0 : 129), allowed ? strlen(text) : 7, &why));
        assert_string_equal(why, "out of memory");
        reallocs = allowed == 0 ? 1 : -1;
    }
}
