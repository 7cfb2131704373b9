/* The order in which a program's actions begin, for any order of their ends. */
#include "server/jobs/program.h"
#include "tests/lib/random_job.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACTIONS = 8 };

static struct program made(const char *waits)
{
    struct program program;
    assert_true(program_init(&program, ACTIONS));
    for (const char *c = waits; *c; c++)
        program_add(&program, ACTION_RUN, *c == 'w');
    return program;
}

static long number_of(const struct program *program, const struct action *action)
{
    return action - program->action;
}

/* Begin all actions that can begin; returns their numbers, in order. */
static const char *begun(struct program *program)
{
    static char text[64];
    size_t count = 0;
    for (struct action *action; (action = program_next(program));)
        text[count++] = (char)('0' + number_of(program, action));
    text[count] = '\0';
    return text;
}

static void end(struct program *program, int number)
{
    program_ended(program, &program->action[number]);
}

TEST(test_nothing)
{
    struct program program = made("");
    assert_true(program_is_done(&program));
    assert_null(program_next(&program));
    program_free(&program);
}

TEST(test_together)
{
    struct program program = made("...w.");
    assert_string_equal(begun(&program), "012");
    end(&program, 1);
    end(&program, 2);
    assert_string_equal(begun(&program), "");
    assert_false(program_is_done(&program));
    end(&program, 0);
    assert_string_equal(begun(&program), "34"); /* nobody waits for those who waited */
    end(&program, 4);
    end(&program, 3);
    assert_true(program_is_done(&program));
    program_free(&program);
}

TEST(test_rounds)
{
    struct program program = made(".ww");
    program_repeat(&program, 1, 3);
    program_add(&program, ACTION_RUN, true);
    assert_string_equal(begun(&program), "0");
    end(&program, 0);
    for (int round = 0; round < 3; round++) {
        assert_string_equal(begun(&program), "1");
        end(&program, 1);
        assert_string_equal(begun(&program), "2");
        end(&program, 2);
    }
    assert_string_equal(begun(&program), "3");
    assert_false(program_is_done(&program));
    end(&program, 3);
    assert_true(program_is_done(&program));
    program_free(&program);
}

TEST(test_no_round)
{
    for (int before = 0; before < 2; before++) {
        struct program program = made(before ? "." : "");
        program_add(&program, ACTION_RUN, true);
        program_repeat(&program, (uint32_t)before, 0);
        program_add(&program, ACTION_RUN, false);
        assert_string_equal(begun(&program), before ? "02" : "1");
        program_free(&program);
    }
}

/* An action is not begun again while it is under way: so much of a long row is ahead at most. */
TEST(test_rounds_run_ahead)
{
    struct program program = made("..");
    program_repeat(&program, 0, 1000);
    assert_string_equal(begun(&program), "01");
    end(&program, 1);
    assert_string_equal(begun(&program), "");
    end(&program, 0);
    assert_string_equal(begun(&program), "01");
    program_free(&program);
}

TEST(test_broken)
{
    struct program program = made("..w");
    assert_string_equal(begun(&program), "01");
    program.broken = true;
    end(&program, 1);
    assert_false(program_is_done(&program));
    end(&program, 0);
    assert_string_equal(begun(&program), "");
    assert_true(program_is_done(&program));
    program_free(&program);
}

/* For any order of their ends, each action begins as often as it should, and none before its turn.
 */
TEST(test_any_order_of_ends)
{
    struct random random = random_start();
    for (int trial = 0; trial < 2000; trial++) {
        struct program program = made("");
        uint64_t times[ACTIONS] = {0}, ended = 0;
        const uint32_t count = 1 + (uint32_t)random_below(&random, ACTIONS);
        const uint32_t from = (uint32_t)random_below(&random, count);
        const uint32_t to = from + 1 + (uint32_t)random_below(&random, count - from);
        const uint64_t rounds = random_below(&random, 6);
        for (uint32_t i = 0; i < count; i++) {
            program_add(&program, ACTION_RUN, random_below(&random, 2));
            if (i + 1 == to)
                program_repeat(&program, from, rounds);
        }
        while (!program_is_done(&program)) {
            for (struct action *action; (action = program_next(&program));) {
                const long number = number_of(&program, action);
                if (action->waits)
                    assert_int_equal(program.under_way, 1);
                times[number]++;
            }
            assert_true(program.under_way > 0);
            struct action *action;
            do
                action = &program.action[random_below(&random, count)];
            while (!action->under_way);
            program_ended(&program, action);
            ended++;
        }
        uint64_t all = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(times[i], i >= from && i < to ? rounds : 1);
            all += times[i];
        }
        assert_int_equal(ended, all);
        program_free(&program);
    }
}

/* In every build. */
TEST(test_an_end_that_nobody_began)
{
    struct program program = made("o");
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        program_ended(&program, &program.action[0]);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    program_free(&program);
}
