#include "numerics/job_check.h"

#include "numerics/job_weights.h"
#include "numerics/stability.h"
#include "base/limits.h"
#include "base/near.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A step computed from the limit itself may round up by a few units in the last place. */
#define STABILITY_SLACK 1e-12

/* What all of a weight but a number up to 2^20 is at most, and at least its inverse. */
static double most_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 0x1p106 : 0x1p1002;
}

/* Does every weight hold dt? */
static bool diffuses_evenly(const struct job *job)
{
    return job->operator_id == OPERATOR_DIFFUSION && !job->more.coefficient;
}

static bool has_curvature(const struct job *job, int axis)
{
    return job->boundary[axis][SIDE_LOW].kind == BOUNDARY_CURVATURE ||
           job->boundary[axis][SIDE_HIGH].kind == BOUNDARY_CURVATURE;
}

struct job_range job_spacings(const struct job *job)
{
    const int order = job_order(job);
    const double most = most_of(diffuses_evenly(job) ? DTYPE_F64 : (enum dtype)job->dtype);
    const double high = pow(most, 1.0 / (order > 1 ? order : 1));
    struct job_range range = {1 / high, high};
    /* Of order 0 a curvature is multiplied by h². */
    for (int a = 0; a < job->axes && order == 0; a++)
        range.high = has_curvature(job, a) ? sqrt(most) : range.high;
    return range;
}

bool job_check_order(int64_t order, struct failure *failure)
{
    if (order >= 1 && order <= WEIGHTS_ORDER)
        return true;
    return failure_set(failure, STATUS_INVALID_ARGUMENT, "order",
                       "order (of the derivative) must be 1, 2, 3 or 4; got %" PRId64 "%s", order,
                       order == 6 || order == 8 ? near_mean("accuracy").text
                       : order == 0             ? "; 0 goes with stagger"
                                                : "");
}

bool job_check_accuracy(int64_t accuracy, struct failure *failure)
{
    if (accuracy == 2 || accuracy == 4 || accuracy == 6 || accuracy == 8)
        return true;
    return failure_set(failure, STATUS_INVALID_ARGUMENT, "accuracy",
                       "accuracy must be 2, 4, 6 or 8; got %" PRId64, accuracy);
}

static bool check_shape(const struct job *job, struct failure *failure)
{
    if (job->axes < 1 || job->axes > AXIS_COUNT)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                           "an array has 1 to 3 axes of space; got %d", job->axes);
    uint64_t points = 1;
    bool fits = true;
    for (int a = 0; a <= AXIS_COUNT; a++) {
        const uint64_t n = a < AXIS_COUNT ? job->n[a] : job->batch;
        if (n == 0)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                               "every axis must have at least 1 point");
        if (a >= job->axes && a < AXIS_COUNT && n != 1)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                               "axis %s is not used and must have 1 point; got %" PRIu64,
                               axis_name((enum axis)a), n);
        fits = fits && !__builtin_mul_overflow(points, n, &points);
    }
    if (!fits || points > LIMIT_POINTS) {
        const double need = (double)job->n[AXIS_X] * (double)job->n[AXIS_Y] *
                            (double)job->n[AXIS_Z] * (double)job->batch;
        return failure_set_limit(failure, STATUS_TOO_LARGE, "f", need, (double)LIMIT_POINTS,
                                 "an array has at most %" PRIu64 " points", LIMIT_POINTS);
    }
    return true;
}

/* More coordinates would keep the server too long, or the worker, which makes every row before it
 * looks at anything else: half a second an axis on one core. A biharmonic has three kinds of rows,
 * and of as many points as that nothing but its rounding is left. */
static uint64_t most_coordinates(const struct job *job)
{
    return job->operator_id == OPERATOR_DIFFUSION    ? LIMIT_STABLE_COORDINATES
           : job->operator_id == OPERATOR_BIHARMONIC ? 8192
                                                     : 65536;
}

static bool check_coordinates(const struct job *job, int axis, struct failure *failure)
{
    const uint64_t most = most_coordinates(job);
    if (!(job->more.coordinates >> axis & 1) || job->n[axis] <= most)
        return true;
    return failure_set_limit(
        failure, STATUS_TOO_LARGE, job_axis_place("spacing", axis).text, (double)job->n[axis],
        (double)most, "an axis with coordinates has at most %" PRIu64 " points in %s; got %" PRIu64,
        most, operator_name((enum operator_id)job->operator_id), job->n[axis]);
}

static bool check_spacing(const struct job *job, int axis, struct failure *failure)
{
    const double h = job->spacing[axis];
    if (!(h > 0) || !isfinite(h))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, job_axis_place("spacing", axis).text,
                           "spacing must be a finite number above 0; got %g", h);
    if (!job_is_active(job, axis) || (diffuses_evenly(job) && job->diffusivity[axis] == 0))
        return true;
    const struct job_range range = job_spacings(job);
    if (h >= range.low && h <= range.high)
        return true;
    return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, job_axis_place("spacing", axis).text,
                             h, h < range.low ? range.low : range.high,
                             "spacing must be from %.3g to %.3g, so that weights over its powers "
                             "are numbers of the type; got %g",
                             range.low, range.high, h);
}

static bool check_axis(const struct job *job, int axis, struct failure *failure)
{
    if (!check_spacing(job, axis, failure))
        return false;
    if (!(job->diffusivity[axis] >= 0) || !isfinite(job->diffusivity[axis]))
        return failure_set(
            failure, STATUS_INVALID_ARGUMENT, job_axis_place("diffusivity", axis).text,
            "diffusivity must be a finite number from 0 up; got %g", job->diffusivity[axis]);
    const bool diffuses = job->operator_id == OPERATOR_DIFFUSION && axis < job->axes;
    if (!diffuses && job->diffusivity[axis] != 0)
        return failure_set(failure, STATUS_INVALID_ARGUMENT,
                           job_axis_place("diffusivity", axis).text,
                           "nothing diffuses along axis %s", axis_name((enum axis)axis));
    if (axis >= job->axes && (job->boundary[axis][SIDE_LOW].kind != BOUNDARY_PERIODIC ||
                              job->boundary[axis][SIDE_HIGH].kind != BOUNDARY_PERIODIC))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, job_axis_place("boundary", axis).text,
                           "axis %s is not used and must be periodic", axis_name((enum axis)axis));
    return job_check_boundaries(job, axis, failure) &&
           (!job_is_active(job, axis) || (job_check_boundary_points(job, axis, failure) &&
                                          check_coordinates(job, axis, failure)));
}

static bool check_steps(const struct job *job, double max_work, struct failure *failure)
{
    const bool has_steps = job_has_steps(job);
    if (job->steps == 0)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "steps", "steps must be at least 1");
    if (!has_steps && job->steps != 1)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "steps", "%s has no steps",
                           operator_name((enum operator_id)job->operator_id));
    /* In double: exact enough for a limit, and nothing can overflow. 2^60 keeps the passes, 15 a
     * step and one at most, in their type whatever max_work is. */
    const uint64_t passes = job_step_passes(job);
    const double each = job_point_work(job), work = job_work(job);
    if (!(work <= max_work) || job->steps > INT64_MAX / 8)
        return failure_set_limit(failure, STATUS_TOO_LARGE, has_steps ? "steps" : "f", work,
                                 max_work,
                                 "points times steps%s is %.6g; one job may have at most %.6g",
                                 passes > 1 ? " times a step's passes"
                                 : each > 1 ? " times a 16th of the stencil's points"
                                            : "",
                                 work, max_work);
    return true;
}

/* The numbers of a stencil that are not in its block. */
static bool check_stencil(const struct job *job, struct failure *failure)
{
    const uint32_t points = job->more.stencil_points;
    if (points < 1 || points > JOB_STENCIL_POINTS)
        return failure_set_limit(failure, points ? STATUS_TOO_LARGE : STATUS_INVALID_ARGUMENT,
                                 "offsets", points, JOB_STENCIL_POINTS,
                                 "a stencil has 1 to %d points; got %" PRIu32, JOB_STENCIL_POINTS,
                                 points);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const int most = a < job->axes ? JOB_STENCIL_RADIUS : 0;
        if (job->more.stencil_radius[a] > most)
            return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "offsets",
                                     job->more.stencil_radius[a], most,
                                     "offsets along %s go to %d; got %d", axis_name((enum axis)a),
                                     most, job->more.stencil_radius[a]);
    }
    return true;
}

/* Those of job.more that the operator has. */
static struct job_more offered(const struct job *job)
{
    const struct job_more *given = &job->more;
    const enum operator_id id = (enum operator_id)job->operator_id;
    struct job_more more = {0};
    memcpy(more.constant, given->constant, sizeof more.constant);
    if (job_has_axis(job))
        more.stagger = given->stagger;
    if (id == OPERATOR_LAPLACIAN || id == OPERATOR_DIFFUSION)
        more.coefficient = given->coefficient;
    if (id == OPERATOR_DIFFUSION) {
        more.scheme = given->scheme;
        more.source = given->source;
        more.source_value = given->source_value;
        more.coefficient_max = given->coefficient_max;
        more.probes = given->probes;
    }
    if (id == OPERATOR_STENCIL) {
        more.stencil_points = given->stencil_points;
        memcpy(more.stencil_radius, given->stencil_radius, sizeof more.stencil_radius);
    } else {
        more.coordinates = given->coordinates;
        more.whole = given->whole;
    }
    more.block_bytes = given->block_bytes;
    memcpy(more.block_key, given->block_key, sizeof more.block_key);
    return more;
}

static bool check_whole(const struct job *job, struct failure *failure)
{
    const struct job_whole *whole = &job->more.whole;
    const bool is_part = job->more.coordinates >> (job->axes - 1) & 1 && whole->n > 1 &&
                         whole->n <= most_coordinates(job) && whole->first < whole->n &&
                         (whole->kind == BOUNDARY_PERIODIC || whole->kind == BOUNDARY_ENDPOINT);
    return is_part || !(whole->n || whole->first || whole->kind) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, "spacing",
                       "there is no such part of a periodic axis with coordinates");
}

/* What is said of a job beside its axes. */
static bool check_more(const struct job *job, struct failure *failure)
{
    const struct job_more *more = &job->more;
    if (more->stagger >= STAGGER_COUNT ||
        (job->operator_id == OPERATOR_INTERPOLATE && more->stagger == STAGGER_NONE))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "stagger",
                           "stagger must be forward or backward; got the number %d", more->stagger);
    if (more->coefficient > 1 || !(more->coefficient_max >= 0) || !isfinite(more->coefficient_max))
        return failure_set(failure, STATUS_INVALID_ARGUMENT,
                           job_operand_place(job, OPERAND_COEFFICIENT),
                           "a coefficient is one array of finite numbers; the largest is %g",
                           more->coefficient_max);
    if (more->coordinates >> job->axes)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "spacing",
                           "coordinates are given for an axis that is not there");
    if (!check_whole(job, failure))
        return false;
    if (job->operator_id == OPERATOR_DIFFUSION && more->coefficient && more->coordinates &&
        job->accuracy != 2 && !job->allow_unstable)
        return failure_set_limit(
            failure, STATUS_UNSUPPORTED, "accuracy", job->accuracy, 2,
            "coordinates with a field diffusivity are offered at accuracy 2; got %d, whose modes "
            "may grow at any step where the diffusivity is rough (allow_unstable takes it all the "
            "same)",
            job->accuracy);
    const struct job_more taken = offered(job);
    if (memcmp(&taken, more, sizeof taken) != 0)
        return failure_set(failure, STATUS_UNSUPPORTED, NULL, "%s like this is not offered",
                           operator_name((enum operator_id)job->operator_id));
    return true;
}

static bool check_time_step(const struct job *job, struct failure *failure)
{
    if (!(job->dt > 0) || !isfinite(job->dt))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "dt",
                           "dt must be a finite number above 0; got %g", job->dt);
    const double dt_max = job_dt_max(job);
    if (!job->allow_unstable && !(job->dt <= dt_max * (1 + STABILITY_SLACK)))
        return failure_set_limit(
            failure, STATUS_UNSTABLE, "dt", job->dt, dt_max,
            "dt is %.9g; the largest stable step is %.9g (allow_unstable accepts "
            "a larger one)",
            job->dt, dt_max);
    for (int a = 0; a < job->axes; a++) {
        const double h = job->spacing[a], most = most_of((enum dtype)job->dtype);
        const double of_curvature = has_curvature(job, a) ? job->diffusivity[a] * job->dt : 0;
        const double weight =
            fmax(job->dt, fmax(of_curvature, job->diffusivity[a] * job->dt / h / h));
        if (!(weight <= most))
            return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "dt", weight, most,
                                     "dt, diffusivity dt/h² and, beside a curvature, diffusivity "
                                     "dt must be at most %.3g; along %s it is %.6g",
                                     most, axis_name((enum axis)a), weight);
    }
    return true;
}

static bool check(const struct job *job, double max_work, struct failure *failure)
{
    if (!operator_name((enum operator_id)job->operator_id))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL, "no operator has the number %d",
                           job->operator_id);
    if (job->dtype != DTYPE_F32 && job->dtype != DTYPE_F64)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "f", "no type has the number %d",
                           job->dtype);
    if (job->allow_unstable > 1 || job->imposed > (job->operator_id == OPERATOR_DIFFUSION))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL, "a flag is neither 0 nor 1");
    const bool is_for_estimates =
        job->accuracy == 10 && job->operator_id != OPERATOR_STENCIL; /* of the error of 8 */
    if (!check_shape(job, failure) ||
        (!is_for_estimates && !job_check_accuracy(job->accuracy, failure)) ||
        (job->operator_id == OPERATOR_DERIVATIVE &&
         !(job->order == 0 && job->more.stagger != STAGGER_NONE) &&
         !job_check_order(job->order, failure)))
        return false;
    if (job_has_axis(job) && job->axis >= job->axes)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "axis",
                           "axis %s is not one of the array's %d", axis_name((enum axis)job->axis),
                           job->axes);
    if (job->operator_id == OPERATOR_CURL && job->axes < 2)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                           "curl needs 2 or 3 axes of space; got 1");
    if (job->operator_id == OPERATOR_STENCIL && job->more.coordinates)
        return failure_set(failure, STATUS_UNSUPPORTED, "spacing",
                           "a stencil's weights are for one spacing: it takes no coordinates");
    if (!check_more(job, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (!check_axis(job, a, failure))
            return false;
    return (job->operator_id != OPERATOR_STENCIL || check_stencil(job, failure)) &&
           job_check_scheme(job, failure) && check_steps(job, max_work, failure) &&
           (job->operator_id != OPERATOR_DIFFUSION || check_time_step(job, failure));
}

/* Clients repeat their jobs, and a check takes a tenth of what the front does for a small one: a
 * thread remembers the last job that passed. */
bool job_check(const struct job *job, double max_work, struct failure *failure)
{
    static _Thread_local struct {
        struct job job;
        double max_work;
        bool passed;
    } last;
    if (last.passed && last.max_work == max_work && memcmp(&last.job, job, sizeof *job) == 0)
        return true;
    if (!check(job, max_work, failure))
        return false;
    last.job = *job;
    last.max_work = max_work;
    last.passed = true;
    return true;
}

/* --- the block --- */

static bool check_block_coordinates(const struct job *job, const void *block, int axis,
                                    struct failure *failure)
{
    const double *x = job_block_at(job, block, (enum block_part)(BLOCK_X + axis));
    const double *end = job_block_at(job, block, (enum block_part)(BLOCK_X + axis + 1));
    for (const double *at = x; at < end; at++)
        if (!isfinite(*at) || (at > x && !(*at > at[-1])))
            return failure_set(failure, STATUS_INVALID_ARGUMENT,
                               job_axis_place("spacing", axis).text,
                               "coordinates must be finite and increase");
    return true;
}

static bool check_block_offsets(const struct job *job, const void *block, struct failure *failure)
{
    const int32_t *offset = job_block_at(job, block, BLOCK_OFFSETS);
    for (uint32_t k = 0; k < job->more.stencil_points; k++)
        for (int a = 0; a < AXIS_COUNT; a++, offset++)
            if (*offset < -job->more.stencil_radius[a] || *offset > job->more.stencil_radius[a])
                return failure_set(failure, STATUS_INVALID_ARGUMENT, "offsets",
                                   "offset %" PRId32 " is beyond the stencil's radius", *offset);
    return true;
}

static bool check_block_probes(const struct job *job, const void *block, struct failure *failure)
{
    const int64_t *index = job_block_at(job, block, BLOCK_PROBES);
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
        if (job->more.coordinates >> a & 1 && !check_block_coordinates(job, block, a, failure))
            return false;
    return check_block_offsets(job, block, failure) && check_block_probes(job, block, failure);
}
