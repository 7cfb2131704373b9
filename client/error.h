/* Filling a struct fdclient_error. */
#pragma once

#include "client/fdclient.h"
#include "base/status.h"

/* Describe an error; error may be NULL. Always false, so that a check can end with it. */
__attribute__((format(printf, 4, 5))) bool error_set(struct fdclient_error *error, const char *code,
                                                     const char *parameter, const char *format,
                                                     ...);

/* The same of one that was described before. */
bool error_copy(struct fdclient_error *error, const struct fdclient_error *from);
/* Describe what the server or the protocol's code said. */
void error_from_failure(struct fdclient_error *error, const struct failure *failure);

/* The server is away, or what it says cannot be followed. */
#define ERROR_CONNECTION "CONNECTION"
