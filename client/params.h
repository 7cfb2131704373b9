/* The parameters of fdclient.h, in their string forms → the pairs of a request's map. */
#pragma once

#include "client/fdclient.h"

#include <msgpack.h>
#include <stdbool.h>

/* What a member of struct fdclient_params is, by its type. */
enum params_kind {
    PARAMS_TEXT,
    PARAMS_FLAG,
    PARAMS_INT,
    PARAMS_UINT32,
    PARAMS_UINT64,
    PARAMS_REAL,
    PARAMS_OTHER
};
#define PARAMS_KIND(place)                                                                         \
    _Generic(*(place), const char *: PARAMS_TEXT, bool: PARAMS_FLAG, int: PARAMS_INT,              \
             uint32_t: PARAMS_UINT32, uint64_t: PARAMS_UINT64, double: PARAMS_REAL,                \
             default: PARAMS_OTHER)

/* Pack a key and a value for each parameter that is set, without the map's header. *pairs is how
 * many. What is not understood here is passed on as a string, so that the server, which knows,
 * refuses it by name; false only for text that has no form at all (INVALID_ARGUMENT, naming the
 * parameter). */
bool params_write(msgpack_packer *packer, const char *method, const struct fdclient_params *params,
                  uint32_t *pairs, struct fdclient_error *error);
