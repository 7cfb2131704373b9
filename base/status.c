#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text;
    bool retryable;
} statuses[STATUS_COUNT] = {
#define STATUS_ROW(enumerator, name, retryable, text) [enumerator] = {name, text, retryable},
    STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

/* A status may have come through the channel: a number outside the list is the server's fault. */
static enum status known(enum status status)
{
    return (unsigned)status < STATUS_COUNT ? status : STATUS_INTERNAL;
}

const char *status_name(enum status status)
{
    return statuses[known(status)].name;
}

const char *status_text(enum status status)
{
    return statuses[known(status)].text;
}

bool status_retryable(enum status status)
{
    return statuses[known(status)].retryable;
}

enum status status_from_name(const char *name, uint32_t length)
{
    for (int i = 0; i < STATUS_COUNT; i++)
        if (strlen(statuses[i].name) == length && memcmp(statuses[i].name, name, length) == 0)
            return (enum status)i;
    return STATUS_INTERNAL;
}

/* A cut must not leave half a UTF-8 character behind: the text goes into a msgpack str. */
static void trim(char *text)
{
    size_t end = strlen(text);
    size_t start = end;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    const unsigned char lead = (unsigned char)text[start - 1];
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (end - (start - 1) < length)
        text[start - 1] = '\0';
}

__attribute__((format(printf, 4, 0))) static bool set(struct failure *failure, enum status code,
                                                      const char *parameter, const char *format,
                                                      va_list arguments)
{
    if (failure->code != STATUS_OK)
        return false;
    failure->code = known(code);
    snprintf(failure->parameter, sizeof failure->parameter, "%s", parameter ? parameter : "");
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
    trim(failure->parameter);
    trim(failure->message);
    return false;
}

bool failure_set(struct failure *failure, enum status code, const char *parameter,
                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(failure, code, parameter, format, arguments);
    va_end(arguments);
    return false;
}

bool failure_set_limit(struct failure *failure, enum status code, const char *parameter,
                       double need, double limit, const char *format, ...)
{
    if (failure->code != STATUS_OK)
        return false;
    failure->has_need = true;
    failure->need = need;
    failure->limit = limit;
    va_list arguments;
    va_start(arguments, format);
    set(failure, code, parameter, format, arguments);
    va_end(arguments);
    return false;
}

/* By hand: requests that do not fail make places, too, some ten each. */
struct failure_place failure_place(const char *parameter, const char *part)
{
    struct failure_place place;
    const char *const pieces[] = {parameter, part ? " " : "", part ? part : ""};
    char *to = place.text, *const end = place.text + sizeof place.text - 1;
    for (int i = 0; i < 3; i++)
        for (const char *from = pieces[i]; *from && to < end;)
            *to++ = *from++;
    *to = '\0';
    return place;
}
