/* Reading MessagePack objects whose types a peer chose: nothing here trusts one. Text may be str or
 * bin (pynvim and old msgpack-numpy write bins), numbers may be msgpack-numpy's scalars. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a str or bin, not terminated. False for any other type. */
bool object_bytes(const msgpack_object *object, const char **bytes, uint32_t *length);

/* Is it a str or bin with that text? */
bool object_is(const msgpack_object *object, const char *text);

/* The value under a str or bin key of a map; NULL where there is none or it is no map. */
const msgpack_object *object_find(const msgpack_object *map, const char *key);

/* A peer's text made fit for a log line or an error: printable ASCII, cut to fit. */
struct quoted {
    char text[40];
};
struct quoted object_quote(const msgpack_object *object);

/* An integer, a float, or msgpack-numpy's scalar of either ({nd: false, type, data}). Integers
 * beyond 2^53 round. */
bool object_real(const msgpack_object *object, double *value);

/* The same where it is a whole number in range (8.0 is). */
bool object_signed(const msgpack_object *object, int64_t *value);
bool object_unsigned(const msgpack_object *object, uint64_t *value);

/* The same of an element of an array: letter 'f', 'i' or 'u' and `bytes` little-endian bytes, 4 or
 * 8, of integers also 1 or 2. */
bool object_element_real(char letter, uint32_t bytes, const void *at, double *value);
bool object_element_signed(char letter, uint32_t bytes, const void *at, int64_t *value);

/* true or false, or msgpack-numpy's scalar of type |b1. */
bool object_boolean(const msgpack_object *object, bool *value);
