/* A unit test is a function that begins with TEST(name) or TEST(name, setup, teardown), which also
 * registers it. They run in the order of their file; with FDSERVER_TEST=PATTERN those alone whose
 * names match. Files that need more than the main() of unit_main.c end theirs with unit_run(). */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Add one more; TEST() does. */
void unit_add(const struct CMUnitTest *test);

/* Run the registered tests between a common setup and teardown; returns main()'s status. */
int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown);

/* What setup leaves in *state is the test's `state`. */
#define TEST(...) TEST_BETWEEN(__VA_ARGS__, NULL, NULL, NULL)
#define TEST_BETWEEN(name, setup, teardown, ...)                                                   \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        unit_add(&(struct CMUnitTest){#name, name, setup, teardown, NULL});                        \
    }                                                                                              \
    static void name(void **state)
