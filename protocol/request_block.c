#include "protocol/request_block.h"

#include "numerics/job_check.h"
#include "base/limits.h"
#include "protocol/numbers.h"
#include "protocol/request_stencil.h"

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
    const struct failure_place place = failure_place("spacing", axis_name((enum axis)axis));
    const uint64_t count = numbers_count(given);
    double least = INFINITY, most = 0; /* of the distances */
    numbers_reals(given, to);
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(to[i]))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                               "coordinate %" PRIu64 " is not finite", i);
        if (i == 1 && decrease(to, count))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                               "coordinates must increase, and these decrease: turn them and that "
                               "axis of every array round, in NumPy c[::-1] and f[..., ::-1%s]",
                               &", :, :"[3 * (AXIS_Z - axis)]); /* the axes behind it */
        if (i > 0 && !(to[i] > to[i - 1]))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                               "coordinates must increase; number %" PRIu64 " is %.9g after %.9g",
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

/* Indices in the order of shape, negative ones from the end, to x, y, z and the batch's field. */
static bool put_probes(const struct array *given, const struct job *job, int64_t *to,
                       struct failure *failure)
{
    const uint64_t count = given->type.shape[0], dimensions = given->type.shape[1];
    int64_t *indices = malloc(count * dimensions * sizeof *indices);
    if (!indices)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    bool ok = numbers_whole(given, "probes", indices, failure);
    const int64_t extra = (int64_t)dimensions - job->axes; /* an index of the batch before those */
    for (uint64_t i = 0; ok && i < count * dimensions; i++) {
        const int64_t d = (int64_t)(i % dimensions);
        const bool is_batch = d < extra;
        const int axis = is_batch ? AXIS_COUNT : (int)((int64_t)dimensions - 1 - d);
        const int64_t n = (int64_t)(is_batch ? job->batch : job->n[axis]);
        int64_t at = indices[i];
        if (at < -n || at >= n)
            ok = failure_set(failure, STATUS_INVALID_ARGUMENT, "probes",
                             "index %" PRId64 " of probe %" PRIu64 " is out of range for %" PRId64
                             " points",
                             at, i / dimensions, n);
        to[i / dimensions * (AXIS_COUNT + 1) + (uint64_t)axis] = at < 0 ? at + n : at;
    }
    free(indices);
    return ok;
}

static bool fill_block(const struct request *request, const struct job *job, uint8_t *block,
                       struct failure *failure)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (job->more.coordinates >> a & 1 &&
            !put_coordinates(request_coordinates(request, a), job, a,
                             (double *)(void *)(block + job_block_part(job, BLOCK_X + a)), failure))
            return false;
    if (job->more.stencil_points && !request_stencil_put(request, job, block, failure))
        return false;
    return !job->more.probes ||
           put_probes(&request->numbers[NUMBERS_PROBES], job,
                      (int64_t *)(void *)(block + job_block_part(job, BLOCK_PROBES)), failure);
}

bool request_block_make(const struct request *request, struct job *job, uint8_t **block,
                        struct failure *failure)
{
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
