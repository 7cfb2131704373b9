/* Reading MessagePack objects from a peer, of any type: none is trusted. Text may be str or
 * bin (pynvim and old msgpack-numpy write bins), numbers may be msgpack-numpy's scalars. */
#pragma once

#include "base/status.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* failure_set() with the most frequent code. */
#define invalid_argument(failure, ...) failure_set(failure, STATUS_INVALID_ARGUMENT, __VA_ARGS__)

/* Is it a str or a bin? */
static inline bool object_is_text(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_STR || object->type == MSGPACK_OBJECT_BIN;
}

/* The bytes of a str or bin, not terminated. False for any other type. */
bool object_bytes(const msgpack_object *object, const char **bytes, uint32_t *length);

/* Is it a str or bin with that text? The first byte tells most words apart. */
bool object_equals(const msgpack_object *object, const char *text);
static inline bool object_is(const msgpack_object *object, const char *text)
{
    return object_is_text(object) && (object->via.str.size == 0 || *object->via.str.ptr == *text) &&
           object_equals(object, text);
}

/* Which of the words it is, counted from 0; −1: none. The list ends with NULL. */
int object_find_word(const msgpack_object *object, const char *const *words);

/* The value under a str or bin key of a map; NULL where there is none or it is no map. */
const msgpack_object *object_find(const msgpack_object *map, const char *key);

/* All values of a map: values[i] is that of keys[i], NULL where absent. The list of keys ends with
 * NULL. INVALID_ARGUMENT for a key that is given twice, and for one that is not in the list: `rule`
 * says which there are. */
bool object_read_map(const msgpack_object *map, const char *parameter, const char *const *keys,
                     const char *rule, const msgpack_object **values, struct failure *failure);

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
/* The same of what is under a key of a map. */
bool object_find_unsigned(const msgpack_object *map, const char *key, uint64_t *value);

/* An element of an array as a number: of 'i' and 'u' 1, 2, 4 or 8 little-endian bytes, of 'f' 4 or
 * 8. Nil for any other type. */
msgpack_object object_element(char letter, uint32_t bytes, const void *at);

/* true or false, or msgpack-numpy's scalar of type |b1. */
bool object_boolean(const msgpack_object *object, bool *value);
