#include "base/log.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 64 << 10,
    LINE_BYTES = 1024, /* of the text; less than PIPE_BUF with all that is around it */
    ROOM_BYTES = 128,  /* kept for the line that says how many there was no room for */
    FLUSH_MS = 1000
};

static struct {
    const char *name;
    enum log_level level;
    bool open;
    pthread_mutex_t mutex; /* guards the rest, and all causes */
    pthread_cond_t more, written;
    char text[2][BUFFER_BYTES]; /* whole lines; one is filled, the other is being written */
    size_t bytes[2];
    int filled;
    uint64_t lost;             /* lines that there was no room for */
    struct log_cause *dropped; /* causes that have dropped lines */
    bool flushing;
} out = {.name = "fdserver",
         .level = LOG_LEVEL_INFO,
         .mutex = PTHREAD_MUTEX_INITIALIZER,
         .more = PTHREAD_COND_INITIALIZER,
         .written = PTHREAD_COND_INITIALIZER};

static struct timespec after_ms(uint64_t ms)
{
    const uint64_t at_ns = clock_ns() + ms * UINT64_C(1000000);
    return (struct timespec){.tv_sec = (time_t)(at_ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(at_ns % UINT64_C(1000000000))};
}

/* To stderr, waiting for it. In pieces of whole lines that a pipe takes as one: other processes
 * write to it too. */
static void write_lines(const char *text, size_t bytes)
{
    while (bytes) {
        size_t piece = bytes < PIPE_BUF ? bytes : PIPE_BUF;
        const char *end = memrchr(text, '\n', piece);
        piece = end ? (size_t)(end - text) + 1 : piece;
        const ssize_t n = write(STDERR_FILENO, text, piece);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return; /* it has no reader any more */
        else if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
}

/* Into the buffer, if it then still has so much room. */
static bool put_text(enum log_level level, const char *text, size_t room)
{
    char line[LINE_BYTES + ROOM_BYTES];
    const int bytes = snprintf(line, sizeof line, "<%d>%.60s: %s\n", (int)level, out.name, text);
    if (!out.open) {
        write_lines(line, (size_t)bytes);
        return true;
    }
    size_t *const used = &out.bytes[out.filled];
    if (*used + (size_t)bytes + room > BUFFER_BYTES)
        return false;
    memcpy(out.text[out.filled] + *used, line, (size_t)bytes);
    *used += (size_t)bytes;
    pthread_cond_signal(&out.more);
    return true;
}

static bool is_over(const struct log_cause *cause, uint64_t now)
{
    return now - cause->window_ns >= LOG_WINDOW_S * UINT64_C(1000000000);
}

/* Say how many lines were dropped, of what there was no room for and of each cause whose time is
 * over. The buffer is empty. */
static void report_dropped(void)
{
    char text[LINE_BYTES];
    const uint64_t now = clock_ns();
    if (out.lost) {
        snprintf(text, sizeof text, "%llu lines dropped: nobody read them",
                 (unsigned long long)out.lost);
        out.lost = 0;
        put_text(LOG_LEVEL_WARNING, text, 0);
    }
    for (struct log_cause **place = &out.dropped; *place;) {
        struct log_cause *cause = *place;
        if (!out.flushing && !is_over(cause, now)) {
            place = &cause->next;
            continue;
        }
        snprintf(text, sizeof text, "%llu lines dropped like the last one of: %s",
                 (unsigned long long)cause->dropped, cause->sample);
        cause->dropped = 0;
        *place = cause->next;
        out.lost += !put_text(cause->level, text, ROOM_BYTES);
    }
}

/* Until something is to be written, or the time of some cause may be over. */
static void wait_for_more(void)
{
    enum { LOOK_MS = 500 };
    const struct timespec until = after_ms(LOOK_MS);
    if (out.dropped)
        pthread_cond_clockwait(&out.more, &out.mutex, CLOCK_MONOTONIC, &until);
    else
        pthread_cond_wait(&out.more, &out.mutex);
}

static void *run_writer(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&out.mutex);
    for (;;) {
        const int full = out.filled;
        if (!out.bytes[full])
            report_dropped();
        if (!out.bytes[full]) {
            pthread_cond_broadcast(&out.written);
            wait_for_more();
            continue;
        }
        out.filled = !full;
        pthread_mutex_unlock(&out.mutex);
        write_lines(out.text[full], out.bytes[full]);
        pthread_mutex_lock(&out.mutex);
        out.bytes[full] = 0;
    }
    return NULL;
}

bool log_open(const char *name, enum log_level level)
{
    out.name = name;
    out.level = level;
    return out.open = thread_start(run_writer, NULL);
}

void log_flush(void)
{
    const struct timespec until = after_ms(FLUSH_MS);
    pthread_mutex_lock(&out.mutex);
    out.flushing = true;
    pthread_cond_signal(&out.more);
    while (out.open && (out.bytes[0] || out.bytes[1] || out.dropped || out.lost) &&
           pthread_cond_clockwait(&out.written, &out.mutex, CLOCK_MONOTONIC, &until) == 0)
        ;
    out.flushing = false;
    pthread_mutex_unlock(&out.mutex);
}

/* May the cause log another line now? */
static bool take_allowance(struct log_cause *cause)
{
    const uint64_t now = clock_ns();
    if (!cause->dropped && is_over(cause, now)) {
        cause->window_ns = now;
        cause->lines = 0;
    }
    if (cause->lines < LOG_WINDOW_LINES) {
        cause->lines++;
        return true;
    }
    if (!cause->dropped++) {
        cause->next = out.dropped;
        out.dropped = cause;
        pthread_cond_signal(&out.more); /* the writer is to check it in time */
    }
    return false;
}

/* What a peer sent may be quoted: it must not begin a line of its own. */
static void format_line(char text[LINE_BYTES], const char *format, va_list arguments)
{
    vsnprintf(text, LINE_BYTES, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
}

void log_line(struct log_cause *cause, enum log_level level, const char *format, ...)
{
    if (level > out.level)
        return;
    pthread_mutex_lock(&out.mutex);
    if (take_allowance(cause)) {
        char text[LINE_BYTES];
        va_list arguments;
        va_start(arguments, format);
        format_line(text, format, arguments);
        va_end(arguments);
        cause->level = level;
        snprintf(cause->sample, sizeof cause->sample, "%.*s", LOG_SAMPLE_BYTES - 1, text);
        out.lost += !put_text(level, text, ROOM_BYTES);
    }
    pthread_mutex_unlock(&out.mutex);
}

_Noreturn void log_fatal(int status, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_line(text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&out.mutex);
    out.lost += !put_text(LOG_LEVEL_CRITICAL, text, ROOM_BYTES);
    pthread_mutex_unlock(&out.mutex);
    log_flush();
    _exit(status);
}
