/* The wire's ARRAY: an inline array as msgpack-numpy writes it, a resident field, or a place in a
 * region of shared memory. Reads and writes headers only; payload bytes are never touched here. */
#pragma once

#include "numerics/job.h"
#include "base/limits.h"
#include "base/status.h"

#include <msgpack.h>

struct array_type {
    enum dtype dtype;
    uint32_t dimensions;              /* 1 … LIMIT_DIMENSIONS */
    uint64_t shape[LIMIT_DIMENSIONS]; /* C order: the last is x */
    uint64_t bytes;                   /* of the whole array, checked against overflow */
};

struct splitter_payload;

/* ARRAY_DESCRIBED: an inline array without its data. ARRAY_LIST: numbers in a list or in a list of
 * lists (numbers_read()). */
enum array_kind {
    ARRAY_NONE,
    ARRAY_INLINE,
    ARRAY_DESCRIBED,
    ARRAY_FIELD,
    ARRAY_REGION,
    ARRAY_LIST
};

/* What the elements of an inline array are: IEEE 754 of 4 or 8 bytes ('f'), or integers of 1, 2, 4
 * or 8 ('i', 'u'), little-endian. */
struct array_element {
    char letter;
    uint8_t bytes;
};

/* Alignment of an array in a region: any element is aligned there, and so is a vector load. */
enum { ARRAY_OFFSET_BYTES = 16 };

struct array {
    enum array_kind kind;
    struct array_type type; /* ARRAY_INLINE; ARRAY_REGION: of 0 dimensions where it was not given;
                               ARRAY_LIST: only the shape */
    struct array_element element; /* ARRAY_INLINE; 'f' and as type.dtype says, where it is data */
    uint64_t field;               /* ARRAY_FIELD: its id */
    uint64_t region;              /* ARRAY_REGION: its id, and where in it, a multiple of … */
    uint64_t offset;        /* … ARRAY_OFFSET_BYTES; the server checks that it ends inside */
    uint32_t payload_first; /* ARRAY_INLINE: number of its first diverted bin in the message … */
    uint32_t payload_count; /* … and how many; 0 where the bytes came with the control message: */
    const void *small;      /* points into the control bytes, type.bytes long; else NULL */
    const msgpack_object *object; /* ARRAY_LIST and operands: its own, in the message */
};

/* The input or output of an operator: one ARRAY, or a vector field, which is a map of them by axis.
 */
struct arrays {
    bool is_vector;
    struct array at[AXIS_COUNT]; /* a vector's by axis, ARRAY_NONE where it has none; else at[0] */
};

/* How an error names a component of the parameter: "f", or of a vector field "f y". */
struct failure_place arrays_place(const struct arrays *arrays, const char *parameter,
                                  int component);

/* Are type and shape of the parameter `place` those of `whose` array? An error says both. */
bool array_check_alike(const struct array_type *given, const struct array_type *wanted,
                       const char *place, const char *whose, struct failure *failure);

/* "[64, 64]", cut where it is long. */
struct array_shape_text {
    char text[56];
};
struct array_shape_text array_shape_text(const uint64_t *shape, uint32_t dimensions);

/* "<f4" */
const char *array_dtype_text(enum dtype dtype);

/* Read an ARRAY of reals. Inline bytes must be exactly type.bytes long unless they were diverted,
 * where their length was checked as they came. Without data it is ARRAY_DESCRIBED, which the caller
 * refuses where it needs the data. Fails with INVALID_ARGUMENT, UNSUPPORTED or TOO_LARGE naming
 * `parameter`.
 */
bool array_read(const msgpack_object *object, const char *parameter, struct array *array,
                struct failure *failure);

/* The type and shape of an inline array as soon as the first byte of its payload is due, from the
 * pairs of its map that have come before. `integers`: they are taken as elements, too, and
 * type.dtype is undefined for them. Fails as array_read(), and with OUT_OF_MEMORY. */
bool array_type_peek(const struct splitter_payload *payload, const char *parameter, bool integers,
                     struct array_type *type, struct failure *failure);

/* Read an ARRAY or a map of them by axis. An error in a component names it: "f y". */
bool arrays_read(const msgpack_object *object, const char *parameter, struct arrays *arrays,
                 struct failure *failure);

/* Write an inline array up to and including the header of its data; exactly type->bytes of payload
 * must follow. That is one bin where it fits; else a list of bins, all but the last of
 * ARRAY_BIN_BYTES: this writes the header of the list, the caller that of each bin. */
void array_write_header(msgpack_packer *packer, const struct array_type *type);

/* Write the same without data. */
void array_write_description(msgpack_packer *packer, const struct array_type *type);

/* Write only the shape. */
void array_write_shape(msgpack_packer *packer, const struct array_type *type);

#define ARRAY_BIN_BYTES (UINT64_C(1) << 31) /* of each bin in a list; one bin ends at 2^32 − 1 */

/* Is a payload of that size written as a list of bins? */
bool array_is_list(uint64_t bytes);

/* Parameters of many numbers: a list, a list of lists (all as long), …, or an inline ARRAY of reals
 * or integers. They are counted when the parameter is read, and written to a buffer of the caller's
 * when their number has been checked.
 *
 *   struct array weights;
 *   numbers_read(value, "weights", &weights, failure)             when the parameter is read;
 *   numbers_count(&weights), weights.type.dimensions, .shape      checked by request_job();
 *   numbers_reals(&weights, to), or each by numbers_whole()       into the block.
 *
 * An ARRAY of LIMIT_DIVERT_BYTES or more is payload: `small` is NULL at first, and the
 * receiver of the payload sets it before anything is written. */

/* Read a parameter's value: ARRAY_LIST or ARRAY_INLINE, type.dimensions ≥ 1, type.shape, of at
 * least one number and at most LIMIT_BLOCK_BYTES. INVALID_ARGUMENT (an element is no number, a list
 * is empty, lists differ in length or depth), UNSUPPORTED (a field, a region, a type) or TOO_LARGE,
 * naming `parameter`. `array` points into the message. */
bool numbers_read(const msgpack_object *object, const char *parameter, struct array *array,
                  struct failure *failure);

/* How many there are; 0 where the parameter was not given. */
uint64_t numbers_count(const struct array *array);

/* Write all of them, in C order. Integers beyond 2^53 round. */
void numbers_reals(const struct array *array, double *to);

/* Number i of them as a whole number; false with INVALID_ARGUMENT where it is none, or over 2^63.
 */
bool numbers_whole(const struct array *array, const char *parameter, uint64_t i, int64_t *to,
                   struct failure *failure);
