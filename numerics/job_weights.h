/* A job's axes as numerics/weights.h sees them: which rows its boundaries give. */
#pragma once

#include "numerics/job.h"
#include "numerics/weights.h"

/* An axis of space of a job that passed job_check(); x: its coordinates, or NULL. */
void job_weights(const struct job *job, int axis, const double *x, struct weights_axis *rows);

/* The job's coordinates of an axis in its block; NULL: it has none. */
const double *job_coordinates(const struct job *job, const void *block, int axis);

/* Is the diffusivity κ a field, and the axis uniform or, with coordinates, the accuracy 2? Then its
 * matrix has no positive eigenvalue, whatever κ ≥ 0 is, beside any side that is offered (`mixed`
 * from 0 up). */
bool job_conducts(const struct job *job, int axis);

/* Of derivatives of which order are the rows whose polynomial says what f is at a face? The
 * operator's own, the first for an interpolation, none (0) for a stencil, which has ghosts. */
int job_face_order(const struct job *job);

/* The only rounding of a weight, or of a number of a job: from 113 bits, which hold any double,
 * straight to the field's type. */
static inline double rounded(weights_real value, int dtype)
{
    return dtype == DTYPE_F32 ? (double)(float)value : (double)value;
}
