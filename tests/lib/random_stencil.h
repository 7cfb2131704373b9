/* Random stencils of a user's own, and what they must give: numerics/stencil_point.h, point by
 * point and step by step. */
#ifndef TESTS_RANDOM_STENCIL_H
#define TESTS_RANDOM_STENCIL_H

#include "gpu/backend.h"
#include "tests/lib/random_job.h"

struct stencil_job {
    struct job job;
    void *block;              /* job.more.block_bytes; owned */
    struct operands operands; /* arrays over faces; owned */
};

/* Offsets and weights of a stencil: the job's stencil_points, stencil_radius and block. Aborts
 * where memory is short. */
void stencil_job_set(struct stencil_job *stencil, const int32_t (*offsets)[AXIS_COUNT],
                     const double *weights, uint32_t points);

/* Of at most max_points points of the field: boxes, stars and whatever else, to the radius 8; every
 * boundary on each side, numbers and arrays; thin axes, batches, both types, 1 to 4 steps. */
void random_stencil(struct random *random, uint64_t max_points, struct stencil_job *stencil);
void stencil_job_free(struct stencil_job *stencil);
void stencil_job_print(const struct stencil_job *stencil);

/* The result of all steps of the plan. Aborts where memory is short. */
void reference_stencil(const struct plan *plan, const struct operands *operands, const void *in,
                       void *out);

#endif
