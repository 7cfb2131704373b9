/* JSON: sidecar files, parameters, headers of .npy; answers to be printed. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Read one JSON value, and nothing after it but white space (RFC 8259). The object and its strings
 * live in the zone (NULL: out of memory). Integers that fit 64 bits stay integers; every other
 * number is a double. At most LIMIT_DEPTH containers inside each other. False: *error is a static
 * phrase that says why. */
bool json_read(const char *text, size_t length, msgpack_zone *zone, msgpack_object *object,
               const char **error);

/* Write a value. indent > 0: one member a line, with that many spaces a level; 0: on one line. What
 * JSON has no form for becomes null (NaN, ext types); bins are written as strings, and bytes that
 * are no UTF-8 as U+FFFD. The object's depth must be bounded (LIMIT_DEPTH). */
void json_write(FILE *out, const msgpack_object *object, int indent);

/* Write a string with its quotes. */
void json_write_string(FILE *out, const char *text, size_t length);
