#include "numerics/job_block.h"

#include <inttypes.h>
#include <math.h>

static const void *part_of(const struct job *job, const void *block, enum block_part part)
{
    return (const char *)block + job_block_part(job, part);
}

static bool check_coordinates(const struct job *job, const void *block, int axis,
                              struct failure *failure)
{
    const double *x = part_of(job, block, (enum block_part)(BLOCK_X + axis));
    const double *end = part_of(job, block, (enum block_part)(BLOCK_X + axis + 1));
    for (const double *at = x; at < end; at++)
        if (!isfinite(*at) || (at > x && !(*at > at[-1])))
            return failure_set(failure, STATUS_INVALID_ARGUMENT,
                               failure_place("spacing", axis_name((enum axis)axis)).text,
                               "coordinates must be finite and increase");
    return true;
}

static bool check_offsets(const struct job *job, const void *block, struct failure *failure)
{
    const int32_t *offset = part_of(job, block, BLOCK_OFFSETS);
    for (uint32_t k = 0; k < job->more.stencil_points; k++)
        for (int a = 0; a < AXIS_COUNT; a++, offset++)
            if (*offset < -job->more.stencil_radius[a] || *offset > job->more.stencil_radius[a])
                return failure_set(failure, STATUS_INVALID_ARGUMENT, "offsets",
                                   "offset %" PRId32 " is beyond the stencil's radius", *offset);
    return true;
}

static bool check_probes(const struct job *job, const void *block, struct failure *failure)
{
    const int64_t *index = part_of(job, block, BLOCK_PROBES);
    for (uint32_t k = 0; k < job->more.probes; k++)
        for (int a = 0; a <= AXIS_COUNT; a++, index++)
            if (*index < 0 || (uint64_t)*index >= (a < AXIS_COUNT ? job->n[a] : job->batch))
                return failure_set(failure, STATUS_INVALID_ARGUMENT, "probes",
                                   "index %" PRId64 " of a probe is outside the field", *index);
    return true;
}

bool job_check_block(const struct job *job, const void *block, struct failure *failure)
{
    for (int a = 0; a < job->axes; a++)
        if (job->more.coordinates >> a & 1 && !check_coordinates(job, block, a, failure))
            return false;
    return check_offsets(job, block, failure) && check_probes(job, block, failure);
}
