/* Diffusions of every scheme and the arrays that they read besides, and what they must give: beside
 * random_job.h. */
#pragma once

#include "gpu/backend.h"
#include "tests/lib/random_job.h"

/* A diffusion by ADI, of at most max_points points: every boundary that it takes, numbers and
 * arrays, κ a number or a field, sources, steps far beyond what forward Euler could take. */
void random_adi_job(struct random *random, uint64_t max_points, struct job *job);

/* The result of a plan of the engine PLAN_ADI, point by point. */
void reference_adi(const struct plan *plan, const struct operands *operands, const void *in,
                   void *out);

/* A diffusion of at most max_points points, of any scheme and with any source, which no kernel for
 * plain jobs does. */
void random_scheme_job(struct random *random, uint64_t max_points, struct job *job);

/* The result of a plan of any engine, point by point. */
void reference_scheme(const struct plan *plan, const struct operands *operands,
                      void *const in[AXIS_COUNT], void *const out[AXIS_COUNT]);

/* Give a diffusion some probes; returns its block, which is for the caller to free. */
void *random_probes(struct random *random, struct job *job);
/* Their values, each row from a run of so many steps. */
void reference_probes(const struct job *job, const void *block, const struct operands *operands,
                      void *in, void *values);
