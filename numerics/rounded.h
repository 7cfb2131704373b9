/* The only rounding of a weight, or of a number of a job: from 113 bits, which hold any double,
 * straight to the field's type. */
#pragma once

#include "numerics/job.h"
#include "numerics/weights.h"

static inline double rounded(weights_real value, int dtype)
{
    return dtype == DTYPE_F32 ? (double)(float)value : (double)value;
}
