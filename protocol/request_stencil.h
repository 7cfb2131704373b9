/* A stencil's offsets and weights, from a request to a job and its block. */
#pragma once

#include "protocol/request.h"

/* How many there are and how far they reach: into the job, whose axes are set. False with the
 * failure set: it names offsets or weights. */
bool request_stencil_resolve(const struct request *request, struct job *job,
                             struct failure *failure);

/* Into the job's block, whose bytes are 0. Failures as above. */
bool request_stencil_put(const struct request *request, const struct job *job, uint8_t *block,
                         struct failure *failure);
