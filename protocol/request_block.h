/* The parameters of many numbers, from a request to its job's block: coordinates, a stencil's
 * offsets and weights, probes. */
#pragma once

#include "protocol/request.h"

/* The coordinates that were given for an axis; NULL: none. */
const struct array *request_coordinates(const struct request *request, int axis);

/* The block of a job of arrays of that type, which says how many coordinates there are: sets how
 * many there are of the others, the radius of a stencil, and the block's size and key. *block:
 * free() it; left as it is where the job has none. False with the failure set: it names the
 * parameter whose numbers are wrong. */
bool request_block_make(const struct request *request, const struct array_type *type,
                        struct job *job, uint8_t **block, struct failure *failure);
