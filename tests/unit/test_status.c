#include "base/status.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

TEST(a_name_finds_its_status_and_an_unknown_one_is_internal)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        const char *name = status_name((enum status)i);
        assert_int_equal(status_from_name(name, (uint32_t)strlen(name)), i);
        assert_true(strlen(status_text((enum status)i)) > 0);
    }
    assert_int_equal(status_from_name("TOO_LARGER", 10), STATUS_INTERNAL);
    assert_int_equal(status_from_name("TOO_LARG", 8), STATUS_INTERNAL);
    assert_int_equal(status_from_name("", 0), STATUS_INTERNAL);
    assert_string_equal(status_name((enum status)99), "INTERNAL");
    assert_string_equal(status_name((enum status) - 1), "INTERNAL");
}

TEST(what_waiting_can_mend_is_retryable)
{
    assert_true(status_retryable(STATUS_DEVICE_LOST));
    assert_true(status_retryable(STATUS_OVER_BUDGET));
    assert_true(status_retryable(STATUS_QUEUE_FULL));
    assert_true(status_retryable(STATUS_OUT_OF_MEMORY));
    assert_true(status_retryable(STATUS_SHUTTING_DOWN));
    assert_false(status_retryable(STATUS_INVALID_ARGUMENT));
    assert_false(status_retryable(STATUS_FIELD_LOST));
    assert_false(status_retryable(STATUS_INTERNAL));
}

TEST(the_first_failure_is_the_cause)
{
    struct failure failure = {0};
    assert_false(failure_set_limit(&failure, STATUS_TOO_LARGE, "steps", 7, 5, "%d steps", 7));
    assert_false(failure_set(&failure, STATUS_INTERNAL, "f", "a later trouble"));
    assert_false(failure_set_limit(&failure, STATUS_UNSTABLE, "dt", 2, 1, "later still"));
    assert_int_equal(failure.code, STATUS_TOO_LARGE);
    assert_string_equal(failure.parameter, "steps");
    assert_string_equal(failure.message, "7 steps");
    assert_true(failure.has_need && failure.need == 7 && failure.limit == 5);
}

TEST(a_long_message_is_cut_between_characters)
{
    for (int pad = 0; pad < 4; pad++) {
        struct failure failure = {0};
        char text[400] = "xxxx";
        text[pad] = '\0';
        for (int i = 0; i < 100; i++)
            strcat(text, "\xe2\x82\xac"); /* a euro sign, three bytes */
        failure_set(&failure, STATUS_INTERNAL, NULL, "%s", text);
        const size_t length = strlen(failure.message);
        assert_true(length > sizeof failure.message - 4);
        assert_int_equal((length - (size_t)pad) % 3, 0);
    }
}

TEST(the_documented_list_is_the_list)
{
    static char page[1 << 16];
    FILE *file = fopen(PROTOCOL_PAGE, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (int i = STATUS_OK + 1; i < STATUS_COUNT; i++) {
        const enum status status = (enum status)i;
        char row[200];
        snprintf(row, sizeof row, "| `%s` | %s | %s |\n", status_name(status),
                 status_retryable(status) ? "yes" : "no", status_text(status));
        if (!strstr(page, row))
            fail_msg("%s lacks %s", PROTOCOL_PAGE, row);
    }
}
