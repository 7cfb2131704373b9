/* Shapes and dtypes as a person types them. */
#pragma once

#include "client/fdclient.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "64,64,64" or "64x64x64", slowest axis first. False where it is neither. */
bool shape_read(const char *text, struct fdclient_array *array);

/* A list of 1 to 8 whole numbers. False where it is none. */
bool shape_from_list(const msgpack_object *list, struct fdclient_array *array);

/* "64x64x64". */
enum { SHAPE_TEXT_BYTES = 192 };
const char *shape_text(uint32_t dimensions, const uint64_t *shape, char text[SHAPE_TEXT_BYTES]);

/* "float32", "f4", "<f4", "float64", "f8", "<f8". */
bool dtype_read(const char *text, enum fdclient_dtype *dtype);
const char *dtype_text(enum fdclient_dtype dtype);
uint64_t dtype_bytes(enum fdclient_dtype dtype);

/* Of an array that is in memory, or was once: its product does not overflow. */
uint64_t shape_bytes(const struct fdclient_array *array);

/* Has an array of that dtype and shape exactly that many bytes? False with code "FILE". */
bool shape_check(const struct fdclient_array *array, uint64_t bytes, struct fdclient_error *error);
