/* MessagePack objects → JSON text. */
#pragma once

#include <msgpack.h>
#include <stddef.h>
#include <stdio.h>

/* Write a value. indent > 0: one member a line, with that many spaces a level; 0: on one line. What
 * JSON has no form for becomes null (NaN, ext types); bins are written as strings, and bytes that
 * are no UTF-8 as U+FFFD. The object's depth must be bounded (LIMIT_DEPTH). */
void json_write(FILE *out, const msgpack_object *object, int indent);

/* Write a string with its quotes. */
void json_write_string(FILE *out, const char *text, size_t length);
