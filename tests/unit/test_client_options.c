#include "client/options.h"

#include "client/file.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static bool read_line(struct options *options, const char *line, struct fdclient_error *error)
{
    static char copy[512];
    static char *words[32];
    int count = 0;
    snprintf(copy, sizeof copy, "fdclient %s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return options_read(options, count, words, error);
}

TEST(test_submit)
{
    struct options o;
    struct fdclient_error error;
    assert_true(read_line(&o, "submit field.bin", &error));
    assert_int_equal(o.command, COMMAND_SUBMIT);
    assert_string_equal(o.arguments[0], "field.bin");
    assert_string_equal(o.op, "derivative");
    assert_string_equal(o.params.axis, "x");
    assert_int_equal(o.params.accuracy, 0); /* the server's default, 8 */
    assert_true(o.params.dt == 0 && o.params.cfl == 0);
    assert_true(
        read_line(&o,
                  "--quiet submit --op=diffusion --steps 18446744073709551615 --dt 2 --endpoint a "
                  "-o out.npy --json --allow-unstable --batch 2 --retry 3",
                  &error));
    assert_string_equal(o.op, "diffusion");
    assert_null(o.params.axis);
    assert_true(o.params.steps == UINT64_MAX && o.params.dt == 2 && o.params.cfl == 0);
    assert_string_equal(o.params.endpoint, "true");
    assert_string_equal(o.output, "out.npy");
    assert_true(o.json && o.quiet && o.params.allow_unstable);
    assert_int_equal(o.params.batch, 2);
    assert_int_equal(o.retry, 3);
    assert_int_equal(o.argument_count, 1);
    assert_true(read_line(&o, "submit f --priority -7 --timeout 0.25 --keep --detach", &error));
    assert_true(o.params.priority == -7 && o.timeout_s == 0.25 && o.params.detach);
    assert_true(read_line(&o, "submit f --placement cuda:1", &error));
    assert_string_equal(o.params.placement, "cuda:1");
    assert_true(read_line(&o, "put f --distribute", &error));
    assert_true(o.params.distribute);
    assert_true(read_line(&o, "chain [] --keep --placement=spread", &error));
    assert_string_equal(o.params.placement, "spread");
    assert_true(read_line(&o, "submit --endpoint=x=true --field 0 -oout.bin", &error));
    assert_string_equal(o.params.endpoint, "x=true");
    assert_true(o.field.count == 1 && o.field.id[0] == 0);
    assert_string_equal(o.output, "out.bin");
    assert_true(read_line(&o, "submit --op curl a b", &error));
    assert_true(options_take_vector(&o) && !options_result_names(&o));
    assert_int_equal(o.argument_count, 2);
    assert_true(read_line(&o, "submit --op curl --field 1,20,300", &error));
    assert_true(o.field.count == 3 && o.field.id[2] == 300);
    assert_string_equal(options_result_names(&o)[2], "z");
    assert_true(read_line(&o, "submit --op gradient a", &error));
    assert_true(!options_take_vector(&o) && options_result_names(&o));
    assert_true(read_line(&o, "submit --op hessian a", &error));
    assert_string_equal(options_result_names(&o)[5], "zz");
    assert_true(read_line(&o, "put -- --odd-name", &error));
    assert_string_equal(o.arguments[0], "--odd-name");
}

TEST(test_wrong_usage)
{
    static const char *const lines[] = {"",
                                        "frobnicate",
                                        "submit",
                                        "submit a b",
                                        "submit --op gradient a b",
                                        "submit --op divergence a b c d",
                                        "submit --op divergence --field 1,2,3,4",
                                        "submit --op divergence --field 1,,3",
                                        "submit --op divergence --field 1,",
                                        "submit --op divergence --field 1 a",
                                        "submit --op gradient a -o -",
                                        "submit --op laplacian --field 1,2",
                                        "submit --field 1 a",
                                        "submit a --nonsense",
                                        "put",
                                        "put a b",
                                        "get 1",
                                        "get -o x",
                                        "free",
                                        "list a",
                                        "ping --shape 3",
                                        "submit a --accuracy",
                                        "submit a --accuracy x",
                                        "submit a --accuracy -8",
                                        "submit a --accuracy 8.5",
                                        "submit a --accuracy 99999999999",
                                        "submit a --accuracy 0",
                                        "submit a --steps 0",
                                        "submit a --steps 18446744073709551616",
                                        "submit a --dt nan",
                                        "submit a --dt 0",
                                        "submit a --cfl -1",
                                        "submit a --priority high",
                                        "submit a --priority --5",
                                        "submit a --priority 99999999999",
                                        "submit a --timeout 0",
                                        "submit a --timeout -1",
                                        "submit a --timeout nan",
                                        "submit a --detach",
                                        "put a --priority 1",
                                        "submit a --placement",
                                        "submit a --placement=",
                                        "get 1 -o a --placement spread",
                                        "submit a --dt 1s",
                                        "submit a --keep -o b",
                                        "submit a --json -o -",
                                        "submit --field 1 --shape 3",
                                        "submit --field x",
                                        "submit a --op list",
                                        "submit a --op=",
                                        "submit a --json=1",
                                        "submit a -x"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct options o;
        struct fdclient_error error;
        if (read_line(&o, lines[i], &error))
            fail_msg("'%s' was taken", lines[i]);
        assert_string_equal(error.code, "USAGE");
        assert_null(strchr(error.message, '\n'));
    }
}

TEST(test_shapes)
{
    struct fdclient_array array;
    char text[SHAPE_TEXT_BYTES];
    assert_true(shape_read("64,32,16", &array));
    assert_string_equal(shape_text(array.dimensions, array.shape, "x", text), "64x32x16");
    assert_true(shape_read("7x8", &array));
    assert_int_equal(array.dimensions, 2);
    assert_true(shape_read("5", &array));
    static const char *const wrong[] = {"",
                                        "x",
                                        "5,",
                                        ",5",
                                        "5,,5",
                                        "5 5",
                                        "-5",
                                        "5.5",
                                        "1,2,3,4,5,6,7,8,9",
                                        "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(shape_read(wrong[i], &array));
    for (int i = 0; i < FDCLIENT_DIMENSIONS; i++)
        array.shape[i] = UINT64_MAX;
    shape_text(FDCLIENT_DIMENSIONS, array.shape, "x", text);
    assert_int_equal(strlen(text), 8 * 20 + 7);
}
