/* Diffusions of every scheme, their operands and their expected results; see also random_job.h. */
#pragma once

#include "gpu/backend.h"
#include "tests/lib/random_job.h"

/* A diffusion by ADI, of at most max_points points: every boundary that it accepts, numbers and
 * arrays, κ a number or a field, sources, steps far beyond the limit of forward Euler. */
void random_adi_job(struct random *random, uint64_t max_points, struct job *job);

/* The result of a plan of the engine PLAN_ADI, point by point. */
void reference_adi(const struct plan *plan, const struct operands *operands, const void *in,
                   void *out);

/* A diffusion of at most max_points points, of any scheme and with any source, that the kernels for
 * plain jobs do not compute. */
void random_scheme_job(struct random *random, uint64_t max_points, struct job *job);

/* The result of a plan of any engine, point by point. */
void reference_scheme(const struct plan *plan, const struct operands *operands,
                      void *const in[AXIS_COUNT], void *const out[AXIS_COUNT]);

/* Add some probes to a diffusion; returns its block, which the caller frees. */
void *random_probes(struct random *random, struct job *job);
/* The values of the probes, each row from a run of that many steps. */
void reference_probes(const struct job *job, const void *block, const struct operands *operands,
                      void *in, void *values);
