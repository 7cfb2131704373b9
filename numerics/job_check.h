/* Is a job one that is offered? */
#pragma once

#include "numerics/job.h"

/* Is the job one that a worker can run? False with the failure set: it names the parameter and,
 * where there is one, the limit. Checks every number and that each axis has the points that its
 * boundaries need. max_work bounds job_work() (TOO_LARGE). Any bytes may be passed in. */
bool job_check(const struct job *job, double max_work, struct failure *failure);

/* Can the job, which passed job_check(), be run with the block, of job_block_part(job, BLOCK_END)
 * bytes? Coordinates are finite and increase, offsets are within the stencil's radius, probes are
 * points of the field. Any bytes may be passed in. */
bool job_check_block(const struct job *job, const void *block, struct failure *failure);

/* Is it an order of a derivative, or an order of accuracy, that is offered? As asked for on the
 * wire, before it is narrowed to the job's type. */
bool job_check_order(int64_t order, struct failure *failure);
bool job_check_accuracy(int64_t accuracy, struct failure *failure);

/* Parts of job_check(): the two boundaries of an axis, whose shape and parameters are checked;
 * where there is a derivative along it, the points that they need; scheme, source and probes; and
 * whether the solves of scheme adi take a side. */
bool job_check_boundaries(const struct job *job, int axis, struct failure *failure);
bool job_check_boundary_points(const struct job *job, int axis, struct failure *failure);
bool job_check_scheme(const struct job *job, struct failure *failure);
bool job_check_adi_side(const struct job *job, int axis, int side, struct failure *failure);

/* Spacings, and distances between coordinates, from low to high are those whose powers have their
 * place in the type: 1/h^k is in f32 from 2^-106 to 2^106, in f64 from 2^-1002 to 2^1002, k the
 * operator's order, at least 1. Weights are that times numbers up to 2^20. Those of a diffusion
 * hold dt as well, so that of them h² must be a double, whatever the type is, unless κ is a field.
 */
struct job_range {
    double low, high;
};
struct job_range job_spacings(const struct job *job);
