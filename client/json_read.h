/* JSON text → MessagePack objects: sidecar files, parameters as JSON, answers to be printed. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

/* Read one JSON value, and nothing after it but white space (RFC 8259). The object and its strings
 * live in the zone (NULL: out of memory). Integers that fit 64 bits stay integers; every other
 * number is a double. At most LIMIT_DEPTH containers inside each other. False: *error is a static
 * phrase that says why. */
bool json_read(const char *text, size_t length, msgpack_zone *zone, msgpack_object *object,
               const char **error);
