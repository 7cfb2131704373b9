#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>

static enum log_level log_threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    log_threshold = level;
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* What a peer sent may be quoted: it must not begin a line of its own. */
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    fprintf(stderr, "<%d>fdserver: %s\n", (int)level, line);
}
