/* What the front and a worker may count on in a job's block. */
#pragma once

#include "numerics/job.h"

/* Can the job, which passed job_check(), be run with the block, of job_block_part(job, BLOCK_END)
 * bytes? Coordinates are finite and increase, offsets are within the stencil's radius, probes are
 * points of the field. Any bytes may be passed in. */
bool job_check_block(const struct job *job, const void *block, struct failure *failure);
