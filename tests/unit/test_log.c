/* The log: levels, causes, and a reader that does not read. */
#include "base/log.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 16 << 20 };

static char text[TEXT_BYTES + 1];

/* The output on stderr of `say` in a separate process with its own log. `full`: the pipe is already
 * full, and is read when the process has ended. */
static const char *lines_of(void (*say)(void), bool full)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (full && write(ends[1], "x", 1) == 1)
        ;
    fcntl(ends[1], F_SETFL, 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (log_open("test", LOG_LEVEL_WARNING))
            say();
        log_flush();
        _exit(0);
    }
    close(ends[1]);
    int status;
    if (full)
        assert_int_equal(waitpid(child, &status, 0), child);
    size_t bytes = 0;
    for (ssize_t n; (n = read(ends[0], text + bytes, TEXT_BYTES - bytes)) > 0;)
        bytes += (size_t)n;
    text[bytes] = '\0';
    if (!full)
        assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ends[0]);
    return text;
}

static size_t count(const char *in, const char *what)
{
    size_t n = 0;
    for (const char *at = in; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void say_each_level(void)
{
    log_error("an error");
    log_warning("a warning");
    log_info("information");
    log_warning("two\nlines");
}

TEST(lines_have_priority_and_level)
{
    assert_string_equal(lines_of(say_each_level, false),
                        "<3>test: an error\n<4>test: a warning\n<4>test: two?lines\n");
}

static void say_often(void)
{
    log_error("another cause");
    for (int i = 0; i < 1000; i++)
        log_warning("line %d", i);
    log_error("another cause");
}

TEST(a_cause_has_so_many_lines)
{
    const char *lines = lines_of(say_often, false);
    char last[32], dropped[120];
    snprintf(last, sizeof last, "line %d\n", LOG_WINDOW_LINES - 1);
    snprintf(dropped, sizeof dropped, "<4>test: %d lines dropped like the last one of: %s",
             1000 - LOG_WINDOW_LINES, last);
    assert_int_equal(count(lines, "<4>test: line "), LOG_WINDOW_LINES);
    assert_int_equal(count(lines, dropped), 1);
    assert_int_equal(count(lines, "another cause\n"), 2);
}

/* Nothing else is written meanwhile; the process's time is up where the number never comes. */
static void say_too_often_alone(void)
{
    int ends[2];
    const int before = dup(STDERR_FILENO);
    if (before < 0 || pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(1);
    static struct log_cause cause;
    for (int i = 0; i < LOG_WINDOW_LINES; i++)
        log_line(&cause, LOG_LEVEL_WARNING, "alone");
    log_flush();
    log_line(&cause, LOG_LEVEL_WARNING, "alone");
    char read_so_far[8192] = "";
    size_t bytes = 0;
    while (!strstr(read_so_far, "1 lines dropped")) {
        const ssize_t n = read(ends[0], read_so_far + bytes, sizeof read_so_far - 1 - bytes);
        if (n <= 0)
            _exit(1);
        bytes += (size_t)n;
    }
    dup2(before, STDERR_FILENO);
    log_line(&cause, LOG_LEVEL_WARNING, "alone again");
}

TEST(a_cause_is_reported_although_no_other_line_comes)
{
    assert_string_equal(lines_of(say_too_often_alone, false), "<4>test: alone again\n");
}

enum { CAUSES = 1000 };

static void say_much(void)
{
    static struct log_cause cause[CAUSES];
    for (int i = 0; i < CAUSES; i++)
        for (int k = 0; k < LOG_WINDOW_LINES; k++)
            log_line(&cause[i], LOG_LEVEL_WARNING, "%0500d", i);
}

/* The process ends although no byte has been read. */
TEST(nobody_is_waited_for)
{
    lines_of(say_much, true);
}

/* Every line is present or counted. */
TEST(lines_without_room_are_counted)
{
    const char *lines = lines_of(say_much, false);
    size_t lost = 0;
    for (const char *at = lines; (at = strstr(at, " lines dropped: nobody read them")); at++) {
        const char *number = at;
        while (number > lines && number[-1] >= '0' && number[-1] <= '9')
            number--;
        lost += strtoull(number, NULL, 10);
    }
    assert_int_equal(count(lines, "<4>test: 0") + lost, CAUSES * LOG_WINDOW_LINES);
}

static void say_last_words(void)
{
    log_warning("before");
    log_fatal(0, "the end");
}

TEST(the_last_line_is_written)
{
    assert_string_equal(lines_of(say_last_words, false), "<4>test: before\n<2>test: the end\n");
}
