#include "tests/unit/unit.h"

#include <stdlib.h>

static struct CMUnitTest tests[100]; /* cmocka passes over those without a function */
static size_t count;

void unit_add(const struct CMUnitTest *test)
{
    if (count == sizeof tests / sizeof *tests)
        abort();
    tests[count++] = *test;
}

int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    cmocka_set_test_filter(getenv("FDSERVER_TEST"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
