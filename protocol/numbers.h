/* Parameters of many numbers: a list, a list of lists (all as long), …, or an inline ARRAY of reals
 * or integers. Reading one says how many there are; what they are is written to a buffer of the
 * caller's when it knows how many it wants.
 *
 *   struct array weights;
 *   numbers_read(value, "weights", &weights, failure)             as the parameter is read;
 *   numbers_count(&weights), weights.type.dimensions, .shape      in request_job(), to be checked;
 *   numbers_reals(&weights, to)                                   into the block.
 *
 * An ARRAY of LIMIT_DIVERT_BYTES or more is payload: `small` is NULL as it is read, and is set by
 * whoever received it (struct request's list of them) before anything is written. */
#pragma once

#include "protocol/array.h"

/* Read a parameter's value: ARRAY_LIST or ARRAY_INLINE, type.dimensions ≥ 1, type.shape, of at
 * least one number and at most LIMIT_BLOCK_BYTES. INVALID_ARGUMENT (what is no number, an empty
 * list, lists of other lengths or depths), UNSUPPORTED (a field, a region, a type) or TOO_LARGE,
 * naming `parameter`. `array` points into the message. */
bool numbers_read(const msgpack_object *object, const char *parameter, struct array *array,
                  struct failure *failure);

/* How many there are; 0 where the parameter was not given. */
uint64_t numbers_count(const struct array *array);

/* Write all of them, in C order. Integers beyond 2^53 round. */
void numbers_reals(const struct array *array, double *to);

/* The same as whole numbers; false with INVALID_ARGUMENT where one of them is none, or over 2^63.
 */
bool numbers_whole(const struct array *array, const char *parameter, int64_t *to,
                   struct failure *failure);
