/* The log of the front and of a worker: lines on stderr, each with the <N> priority that journald
 * and systemd-cat understand.
 *
 *   log_info() … ── a bounded buffer ──► a thread ── write() ──► stderr
 *
 * Logging never waits for the reader of stderr: lines that find the buffer full are dropped and
 * counted. Each place in the source that logs is a cause, which gets LOG_WINDOW_LINES lines in
 * LOG_WINDOW_S, since strangers decide how often it logs. The log tells how many lines were dropped
 * once there is room, or the time is over. Any thread may log. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_CRITICAL = 2,
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6
};

enum { LOG_WINDOW_LINES = 20, LOG_WINDOW_S = 5, LOG_SAMPLE_BYTES = 96 };

/* Begin to write lines up to `level`, as those of `name` ("fdserver"), which is kept. False: there
 * is no thread for it. Until it was called lines are written at once, and waited for. */
bool log_open(const char *name, enum log_level level);
/* Wait until all lines are written, for a second at most: before the process ends. */
void log_flush(void);

struct log_cause {
    struct log_cause *next; /* among those that have dropped lines */
    uint64_t window_ns;     /* when its time began */
    uint32_t lines;         /* taken in it */
    uint64_t dropped;       /* and not taken */
    enum log_level level;
    char sample[LOG_SAMPLE_BYTES]; /* the last line taken */
};

__attribute__((format(printf, 3, 4))) void log_line(struct log_cause *cause, enum log_level level,
                                                    const char *format, ...);

/* Say why, and end the process with that status after log_flush(). */
__attribute__((format(printf, 2, 3))) _Noreturn void log_fatal(int status, const char *format, ...);

#define LOG_AT(level, ...)                                                                         \
    do {                                                                                           \
        static struct log_cause cause;                                                             \
        log_line(&cause, (level), __VA_ARGS__);                                                    \
    } while (0)
#define log_error(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
