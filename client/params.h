/* The parameters of fdclient.h, in their string forms → the pairs of a request's map. */
#ifndef CLIENT_PARAMS_H
#define CLIENT_PARAMS_H

#include "client/fdclient.h"

#include <msgpack.h>
#include <stdbool.h>

/* Pack a key and a value for each parameter that is set, without the map's header. *pairs is how
 * many. What is not understood here is passed on as a string, so that the server, which knows,
 * refuses it by name; false only for text that has no form at all (INVALID_ARGUMENT, naming the
 * parameter). */
bool params_write(msgpack_packer *packer, const char *method, const struct fdclient_params *params,
                  uint32_t *pairs, struct fdclient_error *error);

#endif
