/* The header of NumPy's .npy files, versions 1, 2 and 3. */
#pragma once

#include "client/fdclient.h"

#include <stdbool.h>
#include <stddef.h>

/* Does a file's name claim that it is one? */
bool npy_is_name(const char *path);

/* Does a file that begins with these bytes claim to be one? */
bool npy_is(const void *bytes, size_t length);

/* Read the header at the beginning of a file of `length` bytes: dtype and shape of *array, and
 * where its data begins. Little-endian float32 and float64 in C order are taken, and the data must
 * fill the file to its end; false with the reason (code "FILE") for all else. */
bool npy_read(const void *bytes, size_t length, struct fdclient_array *array, size_t *data_begin,
              struct fdclient_error *error);

enum { NPY_HEADER_BYTES = 256 };
/* Write the header for an array: its length, a multiple of 64. */
size_t npy_write(const struct fdclient_array *array, char header[NPY_HEADER_BYTES]);
