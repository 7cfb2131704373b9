/* The parameters of many numbers, from a request to its job's block: coordinates, a stencil's
 * offsets and weights, probes. */
#pragma once

#include "protocol/request.h"

/* The coordinates that were given for an axis; NULL: none. */
const struct array *request_coordinates(const struct request *request, int axis);

/* The block of a job that says how many numbers of each there are, and the job's size and key of
 * it. *block: free() it; left as it is where the job has none. False with the failure set: it names
 * the parameter whose numbers are wrong. */
bool request_block_make(const struct request *request, struct job *job, uint8_t **block,
                        struct failure *failure);
