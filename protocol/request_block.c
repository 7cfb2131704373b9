#include "protocol/request_read.h"

#include "numerics/job_check.h"
#include "base/limits.h"
#include "protocol/object.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const struct array *request_coordinates(const struct request *request, int axis)
{
    const struct array *numbers = &request->numbers[NUMBERS_X + axis];
    if (axis == AXIS_X && numbers->kind == ARRAY_NONE)
        numbers = &request->numbers[NUMBERS_LIST];
    return numbers->kind == ARRAY_NONE ? NULL : numbers;
}

static bool decrease(const double *coordinates, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        if (!(coordinates[i] < coordinates[i - 1]))
            return false;
    return true;
}

static bool put_coordinates(const struct array *given, const struct job *job, int axis, double *to,
                            struct failure *failure)
{
    const struct failure_place place = job_axis_place("spacing", axis);
    const uint64_t count = numbers_count(given);
    double least = INFINITY, most = 0; /* of the distances */
    numbers_reals(given, to);
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(to[i]))
            return invalid_argument(failure, place.text, "coordinate %" PRIu64 " is not finite", i);
        if (i == 1 && decrease(to, count))
            return invalid_argument(
                failure, place.text,
                "coordinates must increase, and these decrease: turn them and that "
                "axis of every array round, in NumPy c[::-1] and f[..., ::-1%s]",
                &", :, :"[3 * (AXIS_Z - axis)]); /* the axes behind it */
        if (i > 0 && !(to[i] > to[i - 1]))
            return invalid_argument(failure, place.text,
                                    "coordinates must increase; number %" PRIu64
                                    " is %.9g after %.9g",
                                    i, to[i], to[i - 1]);
        const double distance = i > 0 ? to[i] - to[i - 1] : 0;
        least = i > 0 && distance < least ? distance : least;
        most = distance > most ? distance : most;
    }
    /* Beyond, products of them have no place in the range of 113-bit numbers. */
    if (most > least * 0x1p500)
        return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, place.text, most / least,
                                 0x1p500,
                                 "distances between coordinates may differ by factors of at most "
                                 "2^500; got %.9g to %.9g",
                                 least, most);
    const struct job_range range = job_spacings(job);
    if (least < range.low || most > range.high)
        return failure_set_limit(
            failure, STATUS_INVALID_ARGUMENT, place.text, least < range.low ? least : most,
            least < range.low ? range.low : range.high,
            "distances between coordinates must be from %.3g to %.3g, so that weights over their "
            "powers are numbers of the type; got %g to %g",
            range.low, range.high, least, most);
    return true;
}

/* As many offsets as weights, of an index for each axis of space; of one axis, a list of numbers
 * will do. */
static bool count_stencil(const struct request *request, struct job *job, struct failure *failure)
{
    const struct array_type *offsets = &request->numbers[NUMBERS_OFFSETS].type;
    const struct array_type *weights = &request->numbers[NUMBERS_WEIGHTS].type;
    if (weights->dimensions != 1)
        return invalid_argument(failure, "weights", "weights are one list of numbers");
    if (!(offsets->dimensions == 2 && offsets->shape[1] == job->axes) &&
        !(offsets->dimensions == 1 && job->axes == 1))
        return invalid_argument(failure, "offsets",
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
    job->more.stencil_points = (uint32_t)offsets->shape[0];
    return true;
}

/* Offsets to x, y, z: each within the radius, and none twice. Sets the stencil's radius. */
static bool put_offsets(const struct array *given, struct job *job, int32_t *to,
                        struct failure *failure)
{
    enum { WIDTH = 2 * JOB_STENCIL_RADIUS + 1 };
    uint8_t seen[WIDTH * WIDTH * WIDTH] = {0};
    for (uint64_t k = 0; k < job->more.stencil_points; k++) {
        size_t place = 0;
        for (int a = 0; a < job->axes; a++) {
            int64_t o;
            if (!numbers_whole(given, "offsets", k * job->axes + job->axes - 1 - (uint64_t)a, &o,
                               failure))
                return false;
            if (o < -JOB_STENCIL_RADIUS || o > JOB_STENCIL_RADIUS)
                return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "offsets",
                                         fabs((double)o), JOB_STENCIL_RADIUS,
                                         "offsets go from %d to %d along each axis; number %" PRIu64
                                         " has %" PRId64 " along %s",
                                         -JOB_STENCIL_RADIUS, JOB_STENCIL_RADIUS, k, o,
                                         axis_name((enum axis)a));
            place = place * WIDTH + (size_t)(o + JOB_STENCIL_RADIUS);
            to[k * AXIS_COUNT + (uint64_t)a] = (int32_t)o;
            if (llabs(o) > job->more.stencil_radius[a])
                job->more.stencil_radius[a] = (uint8_t)llabs(o);
        }
        if (seen[place])
            return invalid_argument(failure, "offsets",
                                    "number %" PRIu64 " is one that was given before", k);
        seen[place] = 1;
    }
    return true;
}

static bool put_stencil(const struct request *request, struct job *job, uint8_t *block,
                        struct failure *failure)
{
    double *weights = job_block_at(job, block, BLOCK_WEIGHTS);
    if (!put_offsets(&request->numbers[NUMBERS_OFFSETS], job,
                     job_block_at(job, block, BLOCK_OFFSETS), failure))
        return false;
    numbers_reals(&request->numbers[NUMBERS_WEIGHTS], weights);
    for (uint64_t k = 0; k < job->more.stencil_points; k++)
        if (!isfinite(job->dtype == DTYPE_F32 ? (double)(float)weights[k] : weights[k]))
            return invalid_argument(failure, "weights",
                                    "weights must be finite numbers of the type of f; number "
                                    "%" PRIu64 " is %g",
                                    k, weights[k]);
    return true;
}

/* How many probes there are, and whether they have the right number of indices. */
static bool count_probes(const struct request *request, const struct array_type *type,
                         struct job *job, struct failure *failure)
{
    const struct array *given = &request->numbers[NUMBERS_PROBES];
    if (given->kind == ARRAY_NONE)
        return true;
    const uint64_t count = given->type.shape[0], dimensions = given->type.shape[1];
    if (count > LIMIT_PROBES)
        return failure_set_limit(failure, STATUS_TOO_LARGE, "probes", (double)count, LIMIT_PROBES,
                                 "a job has at most %d probes", LIMIT_PROBES);
    const bool has_batch = type->dimensions > job->axes;
    const uint64_t need = (uint64_t)job->axes + has_batch;
    if (dimensions != need)
        return invalid_argument(failure, "probes",
                                "a probe has %" PRIu64
                                " indices here, in the order of shape%s; got %" PRIu64,
                                need, has_batch ? " after one of the batch" : "", dimensions);
    job->more.probes = (uint32_t)count;
    return true;
}

/* Indices in the order of shape, negative ones from the end, to x, y, z and the batch's field. */
static bool put_probes(const struct array *given, const struct job *job, int64_t *to,
                       struct failure *failure)
{
    const uint64_t count = given->type.shape[0], dimensions = given->type.shape[1];
    const int64_t extra = (int64_t)dimensions - job->axes; /* an index of the batch before those */
    for (uint64_t i = 0; i < count * dimensions; i++) {
        const int64_t d = (int64_t)(i % dimensions);
        const bool is_batch = d < extra;
        const int axis = is_batch ? AXIS_COUNT : (int)((int64_t)dimensions - 1 - d);
        const int64_t n = (int64_t)(is_batch ? job->batch : job->n[axis]);
        int64_t at;
        if (!numbers_whole(given, "probes", i, &at, failure))
            return false;
        if (at < -n || at >= n)
            return invalid_argument(failure, "probes",
                                    "index %" PRId64 " of probe %" PRIu64
                                    " is out of range for %" PRId64 " points",
                                    at, i / dimensions, n);
        to[i / dimensions * (AXIS_COUNT + 1) + (uint64_t)axis] = at < 0 ? at + n : at;
    }
    return true;
}

static bool fill_block(const struct request *request, struct job *job, uint8_t *block,
                       struct failure *failure)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (job->more.coordinates >> a & 1 &&
            !put_coordinates(request_coordinates(request, a), job, a,
                             job_block_at(job, block, BLOCK_X + a), failure))
            return false;
    if (job->more.stencil_points && !put_stencil(request, job, block, failure))
        return false;
    return !job->more.probes || put_probes(&request->numbers[NUMBERS_PROBES], job,
                                           job_block_at(job, block, BLOCK_PROBES), failure);
}

bool request_block_make(const struct request *request, const struct array_type *type,
                        struct job *job, uint8_t **block, struct failure *failure)
{
    if (!count_probes(request, type, job, failure) ||
        (job->operator_id == OPERATOR_STENCIL && !count_stencil(request, job, failure)))
        return false;
    const uint64_t bytes = job_block_part(job, BLOCK_END);
    if (bytes == 0)
        return true;
    if (bytes > LIMIT_BLOCK_BYTES)
        return failure_set_limit(failure, STATUS_TOO_LARGE, NULL, (double)bytes, LIMIT_BLOCK_BYTES,
                                 "coordinates, offsets, weights and probes of a job take at most "
                                 "%d bytes",
                                 LIMIT_BLOCK_BYTES);
    uint8_t *made = calloc(1, bytes);
    if (!made)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    if (!fill_block(request, job, made, failure)) {
        free(made);
        return false;
    }
    job->more.block_bytes = bytes;
    job_block_key(made, bytes, job->more.block_key);
    *block = made;
    return true;
}
