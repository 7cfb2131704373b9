/* What a job may ask for of its steps in time: scheme, source and probes. */
#ifndef NUMERICS_JOB_SCHEME_H
#define NUMERICS_JOB_SCHEME_H

#include "numerics/job.h"

/* Part of job_check(), whose checks of shape and boundaries it comes after. */
bool job_check_scheme(const struct job *job, struct failure *failure);

/* The largest dt · rate that the scheme takes, where all rates of A are real and negative: 2, of
 * RK4 2.785…, where |1 + z + z²/2 + z³/6 + z⁴/24| = 1; infinite for ADI. */
double job_stable_interval(const struct job *job);

#endif
