#include "gpu/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static struct holding a, b, c, d;
static struct runs runs;

static int clear(void **state)
{
    (void)state;
    memset(&a, 0, sizeof a);
    b = c = d = a;
    ids_free(&runs.by_id);
    memset(&runs, 0, sizeof runs);
    return 0;
}

static struct run run_of(uint64_t id, struct holding *in, struct holding *out,
                         struct holding *scratch)
{
    return (struct run){.id = id, .in = {in}, .out = {out}, .scratch = {scratch}};
}

static void add(struct run *run)
{
    assert_true(runs_add(&runs, run));
}

static void readers_of_one_array_start_together(void **state)
{
    (void)state;
    struct run first = run_of(1, &a, &b, NULL), second = run_of(2, &a, &c, NULL);
    add(&first);
    add(&second);
    assert_true(runs_may_start(&runs, &first));
    assert_true(runs_may_start(&runs, &second));
    assert_int_equal(a.readers, 2);
    assert_int_equal(b.writers, 1);
}

static void nobody_reads_or_writes_what_one_before_writes(void **state)
{
    (void)state;
    struct run first = run_of(1, &a, &b, &c), reader = run_of(2, &b, &d, NULL);
    struct run writer = run_of(3, &d, &b, NULL), of_scratch = run_of(4, &c, &d, NULL);
    add(&first);
    add(&reader);
    add(&writer);
    add(&of_scratch);
    assert_false(runs_may_start(&runs, &reader));
    assert_false(runs_may_start(&runs, &writer));
    assert_false(runs_may_start(&runs, &of_scratch));
    runs_start(&runs, &first);
    assert_int_equal(runs.waiting, 3);
    runs_remove(&runs, &first);
    assert_true(runs_may_start(&runs, &reader));
    assert_false(runs_may_start(&runs, &writer)); /* the reader came before */
    runs_start(&runs, &reader);
    runs_remove(&runs, &reader);
    assert_false(runs_may_start(&runs, &of_scratch)); /* the writer reads what it writes */
    runs_remove(&runs, &writer);
    assert_true(runs_may_start(&runs, &of_scratch));
}

static void nobody_writes_what_one_before_reads_or_the_front_downloads(void **state)
{
    (void)state;
    struct run reader = run_of(1, &a, &b, NULL), writer = run_of(2, &c, &a, NULL);
    add(&reader);
    add(&writer);
    assert_false(runs_may_start(&runs, &writer));
    runs_remove(&runs, &reader);
    assert_true(runs_may_start(&runs, &writer));
    a.downloads = 1;
    assert_false(runs_may_start(&runs, &writer));
}

static void what_leaves_is_found_no_longer(void **state)
{
    (void)state;
    struct run first = run_of(1, &a, &b, NULL), second = run_of(2, &a, &c, NULL);
    struct run third = run_of(3, &a, &d, NULL);
    add(&first);
    add(&second);
    add(&third);
    assert_ptr_equal(runs_find(&runs, 2), &second);
    runs_remove(&runs, &second);
    assert_null(runs_find(&runs, 2));
    runs_remove(&runs, &third);
    runs_remove(&runs, &first);
    assert_null(runs.first);
    assert_null(runs.last);
    assert_int_equal(runs.waiting, 0);
    assert_int_equal(a.readers + b.writers + c.writers + d.writers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(readers_of_one_array_start_together, clear),
        cmocka_unit_test_setup(nobody_reads_or_writes_what_one_before_writes, clear),
        cmocka_unit_test_setup(nobody_writes_what_one_before_reads_or_the_front_downloads, clear),
        cmocka_unit_test_setup(what_leaves_is_found_no_longer, clear),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
