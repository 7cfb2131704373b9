/* A file that is there whole or not at all. */
#pragma once

#include "client/fdclient.h"

#include <stdbool.h>
#include <stddef.h>

/* The name of a result: field.bin → field.derivative.bin. Owned by the caller; NULL where memory is
 * short. */
char *output_name(const char *path, const char *operator_name);

/* The name of the vector field that a file holds the x component of: field.x.bin → field.bin; of
 * another, its own. Owned by the caller; NULL where memory is short. */
char *output_vector_name(const char *path);

/* Can a file of that name be written? Asked before the work is done. */
bool output_check(const char *path, struct fdclient_error *error);

/* Write an array: as .npy with a header, else its bytes alone and its shape and dtype beside them
 * in PATH.json. "-" is standard output, and no sidecar. A regular file is written beside its place
 * and renamed into it. */
bool output_write(const char *path, bool as_npy, const struct fdclient_array *array,
                  struct fdclient_error *error);
