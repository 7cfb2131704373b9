/* The order in which a script's actions begin, for any order of their ends. */
#include "server/jobs/job_script.h"
#include "tests/lib/random_job.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACTIONS = 8 };

static struct script *made(const char *waits)
{
    struct script *script = calloc(1, sizeof *script + ACTIONS * sizeof *script->action);
    assert_non_null(script);
    for (const char *c = waits; *c; c++)
        script_add(script, ACTION_RUN, *c == 'w', 0);
    return script;
}

static long number_of(const struct script *script, const struct action *action)
{
    return action - script->action;
}

/* Begin all actions that can begin; returns their numbers, in order. */
static const char *begun(struct script *script)
{
    static char text[64];
    size_t count = 0;
    for (struct action *action; (action = script_next(script));)
        text[count++] = (char)('0' + number_of(script, action));
    text[count] = '\0';
    return text;
}

static void end(struct script *script, int number)
{
    script_action_ended(script, &script->action[number]);
}

TEST(test_nothing)
{
    struct script *script = made("");
    assert_true(script_is_done(script));
    assert_null(script_next(script));
    free(script);
}

TEST(test_together)
{
    struct script *script = made("...w.");
    assert_string_equal(begun(script), "012");
    end(script, 1);
    end(script, 2);
    assert_string_equal(begun(script), "");
    assert_false(script_is_done(script));
    end(script, 0);
    assert_string_equal(begun(script), "34"); /* nobody waits for those who waited */
    end(script, 4);
    end(script, 3);
    assert_true(script_is_done(script));
    free(script);
}

TEST(test_rounds)
{
    struct script *script = made(".ww");
    script_repeat(script, 1, 3);
    script_add(script, ACTION_RUN, true, 0);
    assert_string_equal(begun(script), "0");
    end(script, 0);
    for (int round = 0; round < 3; round++) {
        assert_string_equal(begun(script), "1");
        end(script, 1);
        assert_string_equal(begun(script), "2");
        end(script, 2);
    }
    assert_string_equal(begun(script), "3");
    assert_false(script_is_done(script));
    end(script, 3);
    assert_true(script_is_done(script));
    free(script);
}

/* An action is not begun again while it is under way: so much of a long row is ahead at most. */
TEST(test_rounds_run_ahead)
{
    struct script *script = made("..");
    script_repeat(script, 0, 1000);
    assert_string_equal(begun(script), "01");
    end(script, 1);
    assert_string_equal(begun(script), "");
    end(script, 0);
    assert_string_equal(begun(script), "01");
    free(script);
}

TEST(test_broken)
{
    struct script *script = made("..w");
    assert_string_equal(begun(script), "01");
    script->broken = true;
    end(script, 1);
    assert_false(script_is_done(script));
    end(script, 0);
    assert_string_equal(begun(script), "");
    assert_true(script_is_done(script));
    free(script);
}

/* For any order of their ends, each action begins as often as it should, and none before its turn.
 */
TEST(test_any_order_of_ends)
{
    struct random random = random_start();
    for (int trial = 0; trial < 2000; trial++) {
        struct script *script = made("");
        uint64_t times[ACTIONS] = {0}, ended = 0;
        const uint32_t count = 1 + (uint32_t)random_below(&random, ACTIONS);
        const uint32_t from = (uint32_t)random_below(&random, count);
        const uint32_t to = from + 1 + (uint32_t)random_below(&random, count - from);
        const uint64_t rounds = 1 + random_below(&random, 5);
        for (uint32_t i = 0; i < count; i++) {
            script_add(script, ACTION_RUN, random_below(&random, 2), 0);
            if (i + 1 == to)
                script_repeat(script, from, rounds);
        }
        while (!script_is_done(script)) {
            for (struct action *action; (action = script_next(script));) {
                const long number = number_of(script, action);
                if (action->waits)
                    assert_int_equal(script->under_way, 1);
                times[number]++;
            }
            assert_true(script->under_way > 0);
            struct action *action;
            do
                action = &script->action[random_below(&random, count)];
            while (!action->under_way);
            script_action_ended(script, action);
            ended++;
        }
        uint64_t all = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(times[i], i >= from && i < to ? rounds : 1);
            all += times[i];
        }
        assert_int_equal(ended, all);
        free(script);
    }
}

/* In every build. */
TEST(test_an_end_that_nobody_began)
{
    struct script *script = made("o");
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        script_action_ended(script, &script->action[0]);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    free(script);
}
