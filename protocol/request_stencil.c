#include "protocol/request_stencil.h"

#include "protocol/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 2 * JOB_STENCIL_RADIUS + 1 };

static const struct array *offsets_of(const struct request *request)
{
    return &request->numbers[NUMBERS_OFFSETS];
}

static const struct array *weights_of(const struct request *request)
{
    return &request->numbers[NUMBERS_WEIGHTS];
}

/* As many offsets as weights, of an index for each axis of space; of one axis, a list of numbers
 * will do. */
static bool check_shapes(const struct request *request, const struct job *job,
                         struct failure *failure)
{
    const struct array_type *offsets = &offsets_of(request)->type;
    const struct array_type *weights = &weights_of(request)->type;
    if (weights->dimensions != 1)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "weights",
                           "weights are one list of numbers");
    if (!(offsets->dimensions == 2 && offsets->shape[1] == job->axes) &&
        !(offsets->dimensions == 1 && job->axes == 1))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "offsets",
                           "an offset has %d numbers here, in the order of shape: [[…], …]",
                           job->axes);
    if (offsets->shape[0] != weights->shape[0])
        return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "weights",
                                 (double)weights->shape[0], (double)offsets->shape[0],
                                 "%" PRIu64 " weights are given for %" PRIu64 " offsets",
                                 weights->shape[0], offsets->shape[0]);
    if (offsets->shape[0] > JOB_STENCIL_POINTS)
        return failure_set_limit(failure, STATUS_TOO_LARGE, "offsets", (double)offsets->shape[0],
                                 JOB_STENCIL_POINTS, "a stencil has at most %d points",
                                 JOB_STENCIL_POINTS);
    return true;
}

/* Offset k along an axis. */
static int64_t offset_at(const int64_t *offsets, const struct job *job, uint64_t k, int axis)
{
    return offsets[k * job->axes + job->axes - 1 - (uint64_t)axis];
}

/* Each within the radius, and none twice. */
static bool check_offsets(const int64_t *offsets, struct job *job, struct failure *failure)
{
    uint8_t seen[WIDTH * WIDTH * WIDTH] = {0};
    for (uint64_t k = 0; k < job->more.stencil_points; k++) {
        size_t place = 0;
        for (int a = 0; a < job->axes; a++) {
            const int64_t o = offset_at(offsets, job, k, a);
            if (o < -JOB_STENCIL_RADIUS || o > JOB_STENCIL_RADIUS)
                return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "offsets",
                                         fabs((double)o), JOB_STENCIL_RADIUS,
                                         "offsets go from %d to %d along each axis; number %" PRIu64
                                         " has %" PRId64 " along %s",
                                         -JOB_STENCIL_RADIUS, JOB_STENCIL_RADIUS, k, o,
                                         axis_name((enum axis)a));
            place = place * WIDTH + (size_t)(o + JOB_STENCIL_RADIUS);
            const uint8_t away = (uint8_t)(o < 0 ? -o : o);
            if (away > job->more.stencil_radius[a])
                job->more.stencil_radius[a] = away;
        }
        if (seen[place])
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "offsets",
                               "number %" PRIu64 " is one that was given before", k);
        seen[place] = 1;
    }
    return true;
}

/* All offsets as they were given; the caller frees them. NULL with the failure set. */
static int64_t *read_offsets(const struct request *request, struct failure *failure)
{
    const struct array *given = offsets_of(request);
    int64_t *offsets = malloc(numbers_count(given) * sizeof *offsets);
    if (!offsets) {
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    } else if (!numbers_whole(given, "offsets", offsets, failure)) {
        free(offsets);
        offsets = NULL;
    }
    return offsets;
}

bool request_stencil_resolve(const struct request *request, struct job *job,
                             struct failure *failure)
{
    if (!check_shapes(request, job, failure))
        return false;
    int64_t *offsets = read_offsets(request, failure);
    job->more.stencil_points = (uint32_t)offsets_of(request)->type.shape[0];
    const bool ok = offsets && check_offsets(offsets, job, failure);
    free(offsets);
    return ok;
}

bool request_stencil_put(const struct request *request, const struct job *job, uint8_t *block,
                         struct failure *failure)
{
    int32_t *to = (int32_t *)(void *)(block + job_block_part(job, BLOCK_OFFSETS));
    double *weights = (double *)(void *)(block + job_block_part(job, BLOCK_WEIGHTS));
    int64_t *offsets = read_offsets(request, failure);
    if (!offsets)
        return false;
    for (uint64_t k = 0; k < job->more.stencil_points; k++)
        for (int a = 0; a < job->axes; a++)
            to[k * AXIS_COUNT + (uint64_t)a] = (int32_t)offset_at(offsets, job, k, a);
    free(offsets);
    numbers_reals(weights_of(request), weights);
    for (uint64_t k = 0; k < job->more.stencil_points; k++)
        if (!isfinite(job->dtype == DTYPE_F32 ? (double)(float)weights[k] : weights[k]))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "weights",
                               "weights must be finite numbers of the type of f; number %" PRIu64
                               " is %g",
                               k, weights[k]);
    return true;
}
