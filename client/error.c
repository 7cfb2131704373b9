#include "client/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct fdclient_error *error, const char *code, const char *parameter,
               const char *format, ...)
{
    if (!error)
        return false;
    memset(error, 0, sizeof *error);
    snprintf(error->code, sizeof error->code, "%s", code);
    snprintf(error->parameter, sizeof error->parameter, "%s", parameter);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    error->retryable = strcmp(code, ERROR_CONNECTION) == 0 ||
                       status_retryable(status_from_name(code, (uint32_t)strlen(code)));
    return false;
}

bool error_copy(struct fdclient_error *error, const struct fdclient_error *from)
{
    if (error)
        *error = *from;
    return false;
}

void error_from_failure(struct fdclient_error *error, const struct failure *failure)
{
    error_set(error, status_name(failure->code), failure->parameter, "%s", failure->message);
    if (error && failure->has_need) {
        error->has_limit = true;
        error->need = failure->need;
        error->limit = failure->limit;
    }
}
