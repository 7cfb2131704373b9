#include "protocol/request_job.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* How many leading axes are a batch. */
static bool resolve_batch(const struct request *request, const struct array_type *type,
                          uint32_t *lead, struct failure *failure)
{
    const uint32_t batch = request->parameters.batch;
    if (batch == 0) {
        *lead = type->dimensions > AXIS_COUNT ? type->dimensions - AXIS_COUNT : 0;
        return true;
    }
    if (batch >= type->dimensions || type->dimensions - batch > AXIS_COUNT)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "batch",
                           "batch %" PRIu32 " must leave 1 to 3 of the array's %" PRIu32
                           " axes for space",
                           batch, type->dimensions);
    *lead = batch;
    return true;
}

static bool resolve_axis(const struct request *request, const struct array_type *type,
                         struct job *job, struct failure *failure)
{
    const int64_t dimensions = type->dimensions;
    if (!request->parameters.has_axis) {
        if (job->axes > 1)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "axis",
                               "derivative needs the parameter axis for an array of %d axes of "
                               "space",
                               job->axes);
        job->axis = AXIS_X;
        return true;
    }
    if (!request->parameters.axis_is_number) {
        job->axis = (uint8_t)request->parameters.axis;
        if (job->axis >= job->axes)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "axis",
                               "the array has %d axes of space; none is %s", job->axes,
                               axis_name(request->parameters.axis));
        return true;
    }
    int64_t number = request->parameters.axis_number;
    if (number < -dimensions || number >= dimensions)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "axis",
                           "axis %" PRId64 " is out of range for an array of %" PRId64
                           " dimensions",
                           number, dimensions);
    if (number < 0)
        number += dimensions;
    if (dimensions - 1 - number >= job->axes)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "axis",
                           "axis %" PRId64 " is part of the batch, not of space", number);
    job->axis = (uint8_t)(dimensions - 1 - number);
    return true;
}

/* A map must not name an axis that the array does not have: it would silently do nothing. */
static bool check_axis_exists(const struct job *job, const char *parameter, int axis,
                              struct failure *failure)
{
    if (axis < job->axes)
        return true;
    return failure_set(
        failure, STATUS_INVALID_ARGUMENT, failure_place(parameter, axis_name((enum axis)axis)).text,
        "the array has %d axes of space; none is %s", job->axes, axis_name((enum axis)axis));
}

static bool resolve_per_axis(const struct per_axis *from, const char *parameter,
                             const struct job *job, double standard, double to[AXIS_COUNT],
                             struct failure *failure)
{
    if (from->list_count > 0 && from->list_count != job->axes)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "%d numbers are given for %d axes of space", from->list_count,
                           job->axes);
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (from->has[a] && !check_axis_exists(job, parameter, a, failure))
            return false;
        if (a >= job->axes)
            continue;
        if (from->list_count > 0)
            to[a] = from->list[job->axes - 1 - a]; /* in the order of shape: x is the last */
        else if (from->has[a])
            to[a] = from->value[a];
        else
            to[a] = from->has_all ? from->all : standard;
    }
    return true;
}

static bool resolve_boundaries(const struct request *request, struct job *job,
                               struct failure *failure)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int side = 0; side < SIDE_COUNT; side++) {
            const bool has = request->parameters.boundary.has[a][side];
            if (has && !check_axis_exists(job, "boundary", a, failure))
                return false;
            if (has)
                job->boundary[a][side] = request->parameters.boundary.side[a][side];
            else if (request->parameters.boundary.has_all && a < job->axes)
                job->boundary[a][side] = request->parameters.boundary.all;
        }
        const bool has = request->parameters.endpoint.has[a];
        if (has && !check_axis_exists(job, "endpoint", a, failure))
            return false;
        const bool endpoint =
            has ? request->parameters.endpoint.value[a]
                : request->parameters.endpoint.has_all && request->parameters.endpoint.all;
        if (!endpoint || a >= job->axes)
            continue;
        struct boundary *sides = job->boundary[a];
        if (sides[SIDE_LOW].kind != BOUNDARY_PERIODIC || sides[SIDE_HIGH].kind != BOUNDARY_PERIODIC)
            return failure_set(failure, STATUS_INVALID_ARGUMENT,
                               failure_place("endpoint", axis_name((enum axis)a)).text,
                               "endpoint is for periodic axes, and %s is not",
                               axis_name((enum axis)a));
        sides[SIDE_LOW].kind = sides[SIDE_HIGH].kind = BOUNDARY_ENDPOINT;
    }
    return true;
}

static bool resolve_time_step(const struct request *request, struct job *job,
                              struct failure *failure)
{
    if (request->parameters.has_dt == request->parameters.has_cfl)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "dt",
                           "diffusion needs exactly one of dt and cfl; got %s",
                           request->parameters.has_dt ? "both" : "none");
    job->dt = request->parameters.dt;
    if (request->parameters.has_dt)
        return true;
    const double cfl = request->parameters.cfl;
    if (!(cfl > 0) || !isfinite(cfl))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "cfl",
                           "cfl must be a finite number above 0; got %g", cfl);
    if (!job->allow_unstable && cfl > 1)
        return failure_set_limit(failure, STATUS_UNSTABLE, "cfl", cfl, 1,
                                 "cfl is %.9g; steps are stable up to 1 (allow_unstable takes it "
                                 "all the same)",
                                 cfl);
    bool flows = false;
    for (int a = 0; a < job->axes; a++)
        flows = flows || job->diffusivity[a] != 0;
    if (!flows)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "cfl",
                           "no time step follows from cfl where every diffusivity is 0; give dt");
    job->dt = cfl * job_dt_max(job);
    return true;
}

/* What does not matter to a derivative is made the same, so that equal jobs are equal bytes. */
static void normalise_other_axes(struct job *job)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (a == job->axis)
            continue;
        job->spacing[a] = 1;
        memset(job->boundary[a], 0, sizeof job->boundary[a]);
    }
}

/* Is what was given what the job has: one array, or a vector field of `count` components? */
static bool check_components(const struct arrays *given, const char *parameter, bool is_vector,
                             int count, const struct job *job, struct failure *failure)
{
    const char *name = operator_name((enum operator_id)job->operator_id);
    const char *verb = strcmp(parameter, "f") == 0 ? "takes" : "gives";
    if (given->is_vector != is_vector)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           is_vector ? "%s %s a vector field: {\"x\": ARRAY, \"y\": ARRAY, …}"
                                     : "%s %s one array, and no map of them by axis",
                           name, verb);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const bool has = given->at[a].kind != ARRAY_NONE;
        const char *axis = axis_name((enum axis)a);
        if (has != (a < count))
            return failure_set(
                failure, STATUS_INVALID_ARGUMENT, failure_place(parameter, axis).text,
                has ? "the arrays have %d axes of space; none is %s"
                    : "the arrays have %d axes of space; the component %s is missing",
                job->axes, axis);
    }
    return true;
}

bool request_job(const struct request *request, const struct array_type *type, double max_work,
                 struct job *job, struct failure *failure)
{
    uint32_t lead = 0;
    job_init(job);
    if (type->dimensions < 1 || type->dimensions > LIMIT_DIMENSIONS)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                           "an array has 1 to %d dimensions; got %" PRIu32, LIMIT_DIMENSIONS,
                           type->dimensions);
    if (!resolve_batch(request, type, &lead, failure))
        return false;
    const enum operator_id operator_id = request->parameters.operator_id;
    const bool diffusion = operator_id == OPERATOR_DIFFUSION;
    job->operator_id = (uint8_t)operator_id;
    job->dtype = (uint8_t)type->dtype;
    job->axes = (uint8_t)(type->dimensions - lead);
    job->accuracy = (uint8_t)request->parameters.accuracy;
    job->order = operator_id == OPERATOR_DERIVATIVE ? (uint8_t)request->parameters.order
                                                    : (uint8_t)job_order(job);
    job->allow_unstable = diffusion && request->parameters.allow_unstable;
    job->steps = diffusion ? request->parameters.steps : 1;
    for (int a = 0; a < job->axes; a++)
        job->n[a] = type->shape[type->dimensions - 1 - (uint32_t)a];
    for (uint32_t i = 0; i < lead; i++)
        if (__builtin_mul_overflow(job->batch, type->shape[i], &job->batch))
            job->batch = UINT64_MAX; /* job_check() refuses it */

    if (operator_id == OPERATOR_DERIVATIVE && !resolve_axis(request, type, job, failure))
        return false;
    if (!resolve_per_axis(&request->parameters.spacing, "spacing", job, 1, job->spacing, failure) ||
        !resolve_boundaries(request, job, failure))
        return false;
    if (diffusion) {
        if (!resolve_per_axis(&request->parameters.diffusivity, "diffusivity", job, 1,
                              job->diffusivity, failure))
            return false;
        for (int a = 0; a < AXIS_COUNT; a++)
            job->diffusivity[a] += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
        if (!resolve_time_step(request, job, failure))
            return false;
    }
    if (!job_check(job, max_work, failure) ||
        !check_components(&request->f, "f", job_takes_vector(job), job_inputs(job), job, failure))
        return false;
    if ((request->out == OUT_FIELD || request->out == OUT_REGION) &&
        !check_components(&request->out_place, "out", job_gives_vector(job), job_outputs(job), job,
                          failure))
        return false;
    if (operator_id == OPERATOR_DERIVATIVE)
        normalise_other_axes(job);
    return true;
}
