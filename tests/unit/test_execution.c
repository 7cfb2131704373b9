#include "gpu/worker/execution.h"
#include "tests/unit/unit.h"

#include <string.h>

static struct holding a, b, c, d;
static struct executions runs;

static int clear(void **state)
{
    memset(&a, 0, sizeof a);
    b = c = d = a;
    ids_free(&runs.by_id);
    memset(&runs, 0, sizeof runs);
    return 0;
}

static struct execution run_of(uint64_t id, struct holding *in, struct holding *out,
                               struct holding *scratch)
{
    return (struct execution){.id = id, .in = {in}, .out = {out}, .scratch = {scratch}};
}

static void add(struct execution *run)
{
    assert_true(executions_add(&runs, run));
}

TEST(readers_of_one_array_start_together, clear, NULL)
{
    struct execution first = run_of(1, &a, &b, NULL), second = run_of(2, &a, &c, NULL);
    add(&first);
    add(&second);
    assert_true(executions_may_start(&runs, &first));
    assert_true(executions_may_start(&runs, &second));
    assert_int_equal(a.readers, 2);
    assert_int_equal(b.writers, 1);
}

TEST(nobody_reads_or_writes_what_one_before_writes, clear, NULL)
{
    struct execution first = run_of(1, &a, &b, &c), reader = run_of(2, &b, &d, NULL);
    struct execution writer = run_of(3, &d, &b, NULL), of_scratch = run_of(4, &c, &d, NULL);
    add(&first);
    add(&reader);
    add(&writer);
    add(&of_scratch);
    assert_false(executions_may_start(&runs, &reader));
    assert_false(executions_may_start(&runs, &writer));
    assert_false(executions_may_start(&runs, &of_scratch));
    executions_start(&runs, &first);
    assert_int_equal(runs.waiting, 3);
    executions_remove(&runs, &first);
    assert_true(executions_may_start(&runs, &reader));
    assert_false(executions_may_start(&runs, &writer)); /* the reader came before */
    executions_start(&runs, &reader);
    executions_remove(&runs, &reader);
    assert_false(executions_may_start(&runs, &of_scratch)); /* the writer reads what it writes */
    executions_remove(&runs, &writer);
    assert_true(executions_may_start(&runs, &of_scratch));
}

TEST(nobody_writes_what_one_before_reads_or_the_front_downloads, clear, NULL)
{
    struct execution reader = run_of(1, &a, &b, NULL), writer = run_of(2, &c, &a, NULL);
    add(&reader);
    add(&writer);
    assert_false(executions_may_start(&runs, &writer));
    executions_remove(&runs, &reader);
    assert_true(executions_may_start(&runs, &writer));
    a.downloads = 1;
    assert_false(executions_may_start(&runs, &writer));
}

/* Operators of a chain may share an input, which the first of them copies from a region. */
TEST(nobody_reads_an_input_before_it_has_been_copied_from_its_place, clear, NULL)
{
    struct region region = {0};
    struct execution first = run_of(1, &a, &b, NULL), reader = run_of(2, &a, &c, NULL);
    first.from[0].region = &region;
    add(&first);
    add(&reader);
    assert_true(executions_may_start(&runs, &first));
    assert_false(executions_may_start(&runs, &reader));
    executions_start(&runs, &first);
    assert_false(executions_may_start(&runs, &reader));
    executions_remove(&runs, &first);
    assert_true(executions_may_start(&runs, &reader));
    executions_remove(&runs, &reader);
    assert_int_equal(a.readers + a.writers + region.users, 0);
}

/* Beside inputs and outputs, jobs read operands (κ, a source) and write one, their probes. */
TEST(operands_are_in_order_too, clear, NULL)
{
    struct execution first = run_of(1, &a, &b, NULL), second = run_of(2, &c, &d, NULL);
    static const struct {
        int place_of_first, place_of_second;
        bool together;
    } cases[] = {{OPERAND_COEFFICIENT, OPERAND_SOURCE, true},
                 {OPERAND_PROBES, OPERAND_COEFFICIENT, false},
                 {OPERAND_SOURCE, OPERAND_PROBES, false},
                 {OPERAND_PROBES, OPERAND_PROBES, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct holding shared = {0};
        first.operand[cases[i].place_of_first] = &shared;
        second.operand[cases[i].place_of_second] = &shared;
        add(&first);
        add(&second);
        assert_true(executions_may_start(&runs, &first));
        assert_int_equal(executions_may_start(&runs, &second), cases[i].together);
        executions_remove(&runs, &first);
        assert_true(executions_may_start(&runs, &second));
        executions_remove(&runs, &second);
        assert_int_equal(shared.readers + shared.writers, 0);
        first.operand[cases[i].place_of_first] = second.operand[cases[i].place_of_second] = NULL;
    }
}

TEST(an_operand_waits_for_its_copies, clear, NULL)
{
    struct execution run = run_of(1, &a, &b, NULL);
    struct holding read = {.downloads = 1}, written = {0};
    run.operand[OPERAND_COEFFICIENT] = &read;
    run.operand[OPERAND_PROBES] = &written;
    add(&run);
    assert_true(executions_may_start(&runs, &run)); /* both only read it */
    read.region_uploads = 1;
    assert_false(executions_may_start(&runs, &run));
    read.region_uploads = 0;
    written.downloads = 1;
    assert_false(executions_may_start(&runs, &run));
    written.downloads = 0;
    assert_true(executions_may_start(&runs, &run));
    executions_remove(&runs, &run);
}

/* One job's operand is another's input or output. */
TEST(operands_and_fields_are_in_order, clear, NULL)
{
    struct execution reader = run_of(1, &a, &b, NULL), writer = run_of(2, &c, &d, NULL);
    struct execution prober = run_of(3, &a, &b, NULL), other = run_of(4, &c, &c, NULL);
    reader.operand[OPERAND_SOURCE] = &d;
    add(&reader);
    add(&writer);
    assert_false(executions_may_start(&runs, &writer));
    executions_remove(&runs, &reader);
    add(&reader);
    assert_true(executions_may_start(&runs, &writer));
    assert_false(executions_may_start(&runs, &reader));
    executions_remove(&runs, &reader);
    executions_remove(&runs, &writer);
    prober.operand[OPERAND_PROBES] = &c;
    add(&prober);
    add(&other);
    assert_false(executions_may_start(&runs, &other));
    executions_remove(&runs, &prober);
    assert_true(executions_may_start(&runs, &other));
    executions_remove(&runs, &other);
}

static const struct plan small = {.points = 10, .batch = 1, .passes = 1};

static struct execution link_of(uint64_t id, uint64_t chain, struct holding *in,
                                struct holding *out)
{
    struct execution run = run_of(id, in, out, NULL);
    run.chain = chain;
    run.plan = &small;
    return run;
}

static void launch(struct execution *run)
{
    executions_start(&runs, run);
    run->launched = true;
}

TEST(a_chain_starts_behind_what_was_launched_of_it, clear, NULL)
{
    struct execution first = link_of(1, 7, &a, &b), second = link_of(2, 7, &b, &c);
    struct execution third = link_of(3, 7, &c, &b), other = link_of(4, 8, &c, &d);
    struct execution copied = link_of(5, 7, &b, &a);
    copied.launches_copy = true;
    runs.chain_points = 30;
    add(&first);
    add(&second);
    add(&third);
    add(&other);
    add(&copied);
    executions_start(&runs, &first);
    assert_false(executions_may_start(&runs, &second)); /* a piece of it is still to come */
    first.launched = true;
    assert_true(executions_may_start(&runs, &second));
    assert_false(executions_may_start(&runs, &third)); /* behind one that is not launched */
    launch(&second);
    assert_true(executions_may_start(&runs, &third));
    launch(&third);
    assert_false(executions_may_start(&runs, &other)); /* of another chain */
    assert_false(executions_may_start(&runs, &copied));
    executions_remove(&runs, &first);
    executions_remove(&runs, &second);
    assert_true(executions_may_start(&runs, &other));
    assert_false(executions_may_start(&runs, &copied));
    executions_remove(&runs, &third);
    assert_true(executions_may_start(&runs, &copied));
    executions_remove(&runs, &other);
    executions_remove(&runs, &copied);
}

TEST(of_a_chain_only_so_much_is_launched, clear, NULL)
{
    struct execution first = link_of(1, 7, &a, &b), second = link_of(2, 7, &b, &a);
    struct execution third = link_of(3, 7, &a, &b), large = link_of(4, 7, &b, &a);
    const struct plan plan = {.points = 1000, .batch = 1, .passes = 1};
    large.plan = &plan;
    runs.chain_points = 20;
    add(&first);
    add(&second);
    add(&third);
    launch(&first);
    assert_true(executions_may_start(&runs, &second));
    launch(&second);
    assert_false(executions_may_start(&runs, &third));
    executions_remove(&runs, &first);
    assert_true(executions_may_start(&runs, &third));
    executions_remove(&runs, &second);
    executions_remove(&runs, &third);
    add(&large);
    assert_true(executions_may_start(&runs, &large)); /* one may, whatever it is */
    executions_remove(&runs, &large);
}

TEST(what_leaves_is_found_no_longer, clear, NULL)
{
    struct execution first = run_of(1, &a, &b, NULL), second = run_of(2, &a, &c, NULL);
    struct execution third = run_of(3, &a, &d, NULL);
    add(&first);
    add(&second);
    add(&third);
    assert_ptr_equal(ids_find(&runs.by_id, 2), &second);
    executions_remove(&runs, &second);
    assert_null(ids_find(&runs.by_id, 2));
    executions_remove(&runs, &third);
    executions_remove(&runs, &first);
    assert_true(list_empty(&runs.all));
    assert_int_equal(runs.waiting, 0);
    assert_int_equal(a.readers + b.writers + c.writers + d.writers, 0);
}

int main(void)
{
    return unit_run(NULL, clear);
}
