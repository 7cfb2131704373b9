/* Files with fields in them, and shapes and dtypes as a person types them. */
#pragma once

#include "client/fdclient.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* error_set() of what is wrong with a file. */
#define file_error(error, path, reason) error_set(error, "FILE", "", "%.150s: %.100s", path, reason)

/* ---- shape.c ---- */

/* "64,64,64" or "64x64x64", slowest axis first. False where it is neither. */
bool shape_read(const char *text, struct fdclient_array *array);

/* A list of 1 to 8 whole numbers. False where it is none. */
bool shape_from_list(const msgpack_object *list, struct fdclient_array *array);

/* Its numbers with a separator, of one or two characters, between any two: "64x64x64". */
enum { SHAPE_TEXT_BYTES = 192 };
const char *shape_text(uint32_t dimensions, const uint64_t *shape, const char *separator,
                       char text[SHAPE_TEXT_BYTES]);

/* "float32", "f4", "<f4", "float64", "f8", "<f8". */
bool dtype_read(const char *text, enum fdclient_dtype *dtype);
const char *dtype_text(enum fdclient_dtype dtype);
uint64_t dtype_bytes(enum fdclient_dtype dtype);

/* Of an array that is in memory, or was once: its product does not overflow. */
uint64_t shape_bytes(const struct fdclient_array *array);

/* Has an array of that dtype and shape exactly that many bytes? False with code "FILE". */
bool shape_check(const struct fdclient_array *array, uint64_t bytes, struct fdclient_error *error);

/* ---- npy.c: the header of NumPy's .npy files, versions 1, 2 and 3 ---- */

/* Does a file's name claim that it is one? */
bool npy_is_name(const char *path);

/* Does a file that begins with these bytes claim to be one? */
bool npy_is(const void *bytes, size_t length);

/* Read the header at the beginning of a file of `length` bytes: dtype and shape of *array, and its
 * data, in the file. Little-endian float32 and float64 in C order are taken, and the data must
 * fill the file to its end; false with the reason (code "FILE") for all else. */
bool npy_read(const void *bytes, size_t length, struct fdclient_array *array,
              struct fdclient_error *error);

enum { NPY_HEADER_BYTES = 256 };
/* Write the header for an array: its length, a multiple of 64. */
size_t npy_write(const struct fdclient_array *array, char header[NPY_HEADER_BYTES]);

/* ---- input.c ---- */

/* A file with a field in it, mapped. */
struct input {
    struct fdclient_array array; /* its data lies in the mapping */
    bool is_npy;
    bool assumed; /* the shape: the size is that of a cube and nothing else told it */
    bool is_kept; /* standard input: not unmapped */
    void *mapping;
    size_t mapping_bytes;
};

/* Map the field in `path`, or read it from standard input where that is "-". Its shape comes from
 * the file (.npy), else from `shape`, else from the sidecar PATH.json ({"shape": […], "dtype":
 * "float32"}), else the size must be that of a cube. dtype and shape may be NULL. Codes of errors:
 * "FILE", "USAGE". */
bool input_open(struct input *input, const char *path, const char *shape, const char *dtype,
                struct fdclient_error *error);
void input_close(struct input *input);

/* ---- output.c: a file that is there whole or not at all ---- */

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
