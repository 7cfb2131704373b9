#include "protocol/request_job.h"

#include "numerics/job_check.h"
#include "numerics/job_weights.h"
#include "protocol/request_read.h"
#include "protocol/request_bounds.h"
#include "numerics/stability.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters that do not matter to the job get fixed values, so that equal jobs are equal bytes. */
static void forget_axis(struct job *job, int axis)
{
    job->spacing[axis] = 1;
    job->diffusivity[axis] = 0;
    memset(job->boundary[axis], 0, sizeof job->boundary[axis]);
    memset(job->more.constant[axis], 0, sizeof job->more.constant[axis]);
}

static bool resolve_axis(const struct request *request, const struct array_type *type,
                         struct job *job, struct failure *failure)
{
    const int64_t dimensions = type->dimensions;
    if (!(request->given & PARAMETER_BIT(axis))) {
        if (job->axes > 1)
            return invalid_argument(failure, "axis",
                                    "%s needs the parameter axis for an array of %d axes of space",
                                    operator_name((enum operator_id)job->operator_id), job->axes);
        return true;
    }
    if (!request->axis_is_number)
        return job->axis < job->axes ||
               invalid_argument(failure, "axis", "the array has %d axes of space; none is %s",
                                job->axes, axis_name((enum axis)job->axis));
    int64_t number = request->axis_number;
    if (number < -dimensions || number >= dimensions)
        return invalid_argument(failure, "axis",
                                "axis %" PRId64 " is out of range for an array of %" PRId64
                                " dimensions",
                                number, dimensions);
    if (number < 0)
        number += dimensions;
    if (dimensions - 1 - number >= job->axes)
        return invalid_argument(failure, "axis",
                                "axis %" PRId64 " is part of the batch, not of space", number);
    job->axis = (uint8_t)(dimensions - 1 - number);
    return true;
}

/* A map must not name an axis that the array does not have: it would silently do nothing. */
static bool check_axes_exist(const struct job *job, const char *parameter, unsigned named,
                             struct failure *failure)
{
    for (int a = job->axes; a < AXIS_COUNT; a++)
        if (named >> a & 1)
            return invalid_argument(failure, job_axis_place(parameter, a).text,
                                    "the array has %d axes of space; none is %s", job->axes,
                                    axis_name((enum axis)a));
    return true;
}

static bool resolve_list_by_axis(const struct array *list, struct job *job, struct failure *failure)
{
    double numbers[AXIS_COUNT];
    const uint64_t count = numbers_count(list);
    if (count != job->axes)
        return invalid_argument(
            failure, "spacing", "%" PRIu64 " numbers are given for %d axes of space%s", count,
            job->axes, count > AXIS_COUNT ? "; give coordinates by axis: {\"x\": […]}" : "");
    numbers_reals(list, numbers);
    for (int a = 0; a < job->axes; a++)
        job->spacing[a] = numbers[job->axes - 1 - a]; /* in the order of shape: x is the last */
    return true;
}

/* Does the axis have as many coordinates as it needs: on a periodic one also where its first point
 * comes again? */
static bool check_coordinate_count(const struct array *given, const struct job *job, int axis,
                                   struct failure *failure)
{
    const bool repeats = job->boundary[axis][SIDE_LOW].kind == BOUNDARY_PERIODIC;
    const uint64_t count = numbers_count(given), need = job->n[axis] + repeats;
    return count == need ||
           failure_set_limit(failure, STATUS_INVALID_ARGUMENT, job_axis_place("spacing", axis).text,
                             (double)count, (double)need,
                             "%" PRIu64 " coordinates are given for %" PRIu64 " points%s", count,
                             job->n[axis],
                             repeats ? "; a periodic axis needs one more: the position at which "
                                       "its first point repeats"
                                     : "");
}

/* Spacings; which axes have coordinates, and as many as they need. After the boundaries. */
static bool resolve_spacing(const struct request *request, struct job *job, struct failure *failure)
{
    const struct array *list = &request->numbers[NUMBERS_LIST];
    if (!check_axes_exist(job, "spacing", request->named.spacing, failure))
        return false;
    /* Of one axis of space a list of one number is one spacing. */
    if (list->kind == ARRAY_LIST && (job->axes > 1 || numbers_count(list) == 1))
        return resolve_list_by_axis(list, job, failure);
    if (list->kind != ARRAY_NONE && job->axes > 1)
        return invalid_argument(failure, "spacing",
                                "give coordinates by axis, {\"x\": ARRAY}, or the distances of the "
                                "%d axes of space as a list of numbers",
                                job->axes);
    for (int a = 0; a < job->axes; a++) {
        const struct array *given = request_coordinates(request, a);
        if (!given)
            continue;
        if (!check_coordinate_count(given, job, a, failure))
            return false;
        if (job_is_active(job, a))
            job->more.coordinates |= (uint8_t)(1u << a);
    }
    return true;
}

/* Is the array one over the face: of the axes of space without that one, in the order of shape, and
 * maybe with the batch's axes before? *number then says which; where there is no array it is left
 * as it is. A list has no type of its own. */
static bool resolve_face(const struct array *array, const struct array_type *type,
                         const struct job *job, int axis, const char *place, uint8_t *number,
                         struct failure *failure)
{
    const uint32_t lead = type->dimensions - job->axes, dimensions = array->type.dimensions;
    uint64_t face[LIMIT_DIMENSIONS];
    uint32_t whole = 0; /* its dimensions with the batch's */
    if (array->kind == ARRAY_NONE)
        return true;
    if (type->dimensions == 1)
        return invalid_argument(failure, place, "the faces of one axis are points: give a number");
    for (uint32_t i = 0; i < type->dimensions; i++)
        if (i != type->dimensions - 1 - (uint32_t)axis)
            face[whole++] = type->shape[i];
    const uint32_t first = dimensions == whole - lead ? lead : 0;
    const bool has_face = whole > lead; /* else it is a point of each field of the batch */
    if (dimensions == 0 || dimensions != whole - first ||
        memcmp(array->type.shape, face + first, dimensions * sizeof *face) != 0)
        return invalid_argument(failure, place, "its shape is %s, and that of the face %s%s%s",
                                array_shape_text(array->type.shape, dimensions).text,
                                has_face ? array_shape_text(face + lead, whole - lead).text : "",
                                has_face && lead ? " or, with the batch, " : "",
                                lead ? array_shape_text(face, whole).text : "");
    *number = dimensions == whole - lead ? NUMBER_FACE : NUMBER_FACE_BATCH;
    return true;
}

static bool check_dtype(const struct array *array, const struct job *job, const char *place,
                        struct failure *failure)
{
    return array->kind == ARRAY_NONE || array->kind == ARRAY_LIST ||
           array->type.dtype == job->dtype ||
           invalid_argument(failure, place, "its type is %s, and that of f %s; convert it",
                            array_dtype_text(array->type.dtype),
                            array_dtype_text((enum dtype)job->dtype));
}

static bool resolve_side(const struct request *request, const struct array_type *type,
                         struct job *job, int axis, int side, struct failure *failure)
{
    struct boundary *boundary = &job->boundary[axis][side];
    const struct array *value = &request->operand[OPERAND_VALUE + SIDE_COUNT * axis + side];
    const struct array *constant = &request->operand[OPERAND_CONSTANT + SIDE_COUNT * axis + side];
    const char *const place = job_side_place(axis, side);
    return check_dtype(value, job, place, failure) && check_dtype(constant, job, place, failure) &&
           resolve_face(value, type, job, axis, place, &boundary->value_array, failure) &&
           resolve_face(constant, type, job, axis, place, &boundary->constant_array, failure);
}

static bool resolve_boundaries(const struct request *request, const struct array_type *type,
                               struct job *job, struct failure *failure)
{
    unsigned named = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        named |= (unsigned)((request->named.boundary >> SIDE_COUNT * a & 3) != 0) << a;
    for (int a = 0; a < job->axes; a++) {
        struct boundary *sides = job->boundary[a];
        if (!resolve_side(request, type, job, a, SIDE_LOW, failure) ||
            !resolve_side(request, type, job, a, SIDE_HIGH, failure))
            return false;
        if (!(request->endpoint >> a & 1))
            continue;
        if (sides[SIDE_LOW].kind != BOUNDARY_PERIODIC || sides[SIDE_HIGH].kind != BOUNDARY_PERIODIC)
            return invalid_argument(failure, job_axis_place("endpoint", a).text,
                                    "endpoint is for periodic axes, and %s is not",
                                    axis_name((enum axis)a));
        sides[SIDE_LOW].kind = sides[SIDE_HIGH].kind = BOUNDARY_ENDPOINT;
    }
    return check_axes_exist(job, "boundary", named, failure) &&
           check_axes_exist(job, "endpoint", request->named.endpoint, failure);
}

/* Operands like f. */
static bool resolve_operands(const struct request *request, const struct array_type *type,
                             struct job *job, struct failure *failure)
{
    for (int i = OPERAND_COEFFICIENT; i <= OPERAND_SOURCE; i++) {
        const struct array *array = &request->operand[i];
        const char *place = job_operand_place(job, i);
        if (array->kind != ARRAY_NONE &&
            (!check_dtype(array, job, place, failure) ||
             !array_check_alike(&array->type, type, place, "f", failure)))
            return false;
    }
    job->more.coefficient = request->operand[OPERAND_COEFFICIENT].kind != ARRAY_NONE;
    job->more.source = request->operand[OPERAND_SOURCE].kind != ARRAY_NONE;
    return true;
}

const struct array *request_job_operand(const struct request *request, const struct job *job,
                                        int operand)
{
    return operand != OPERAND_PROBES && job_operand_points(job, operand)
               ? &request->operand[operand]
               : NULL;
}

/* dt from cfl. */
static bool choose_time_step(struct job *job, double cfl, struct failure *failure)
{
    bool flows = false;
    for (int a = 0; a < job->axes; a++)
        flows = flows || job->diffusivity[a] != 0;
    if (!flows || (job->more.coefficient && job->more.coefficient_max == 0))
        return invalid_argument(
            failure, "cfl", "no time step follows from cfl where every diffusivity is 0; give dt");
    job->dt = cfl * job_dt_max(job);
    return true;
}

static bool resolve_time_step(const struct request *request, struct job *job,
                              struct failure *failure)
{
    const uint64_t both = PARAMETER_BIT(dt) | PARAMETER_BIT(cfl), given = request->given & both;
    if (given == 0 || given == both)
        return invalid_argument(failure, "dt", "diffusion needs exactly one of dt and cfl; got %s",
                                given ? "both" : "none");
    if (given == PARAMETER_BIT(dt))
        return true;
    const double cfl = request->cfl;
    if (job->more.scheme == SCHEME_ADI)
        return invalid_argument(failure, "cfl",
                                "adi is stable at any step, so cfl determines none; give dt");
    if (!(cfl > 0) || !isfinite(cfl))
        return invalid_argument(failure, "cfl", "cfl must be a finite number above 0; got %g", cfl);
    if (!job->allow_unstable && cfl > 1)
        return failure_set_limit(failure, STATUS_UNSTABLE, "cfl", cfl, 1,
                                 "cfl is %.9g; steps are stable up to 1 (allow_unstable accepts "
                                 "more)",
                                 cfl);
    return job_measures(job) || choose_time_step(job, cfl, failure);
}

bool job_measures(const struct job *job)
{
    return job->operator_id == OPERATOR_DIFFUSION && job->more.coefficient;
}

/* All but the time step of a job that is to be measured: where the largest κ is 0, any is stable.
 */
static bool check_unmeasured(const struct job *job, double max_work, struct failure *failure)
{
    struct job any = *job;
    if (job->dt == 0)
        any.dt = 1;
    any.more.coefficient_max = 0;
    return job_check(&any, max_work, failure);
}

bool request_job_measured(struct job *job, double cfl, double least, double largest,
                          double max_work, struct failure *failure)
{
    if (!(least >= 0) || !isfinite(largest))
        return invalid_argument(failure, "diffusivity",
                                "its numbers must be finite and from 0 up; they go from %g to %g",
                                least, largest);
    job->more.coefficient_max = largest;
    return (cfl == 0 || choose_time_step(job, cfl, failure)) && job_check(job, max_work, failure);
}

/* Is what was given what the job has: one array, or a vector field of `count` components? */
static bool check_components(const struct arrays *given, const char *parameter, bool is_vector,
                             int count, const struct job *job, struct failure *failure)
{
    const char *name = operator_name((enum operator_id)job->operator_id);
    const char *verb = strcmp(parameter, "f") == 0 ? "takes" : "gives";
    if (given->is_vector != is_vector)
        return invalid_argument(failure, parameter,
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

/* ---- the job ---- */

/* The job of arrays of that type. */
static bool resolve_type(const struct request *request, const struct array_type *type,
                         struct job *job, struct failure *failure)
{
    const uint32_t dimensions = type->dimensions;
    const uint32_t lead = request->batch            ? request->batch
                          : dimensions > AXIS_COUNT ? dimensions - AXIS_COUNT
                                                    : 0;
    if (lead >= dimensions || dimensions - lead > AXIS_COUNT)
        return invalid_argument(failure, "batch",
                                "batch %" PRIu32 " must leave 1 to 3 of the array's %" PRIu32
                                " axes for space",
                                lead, dimensions);
    job->dtype = (uint8_t)type->dtype;
    job->axes = (uint8_t)(dimensions - lead);
    for (int a = 0; a < job->axes; a++)
        job->n[a] = type->shape[dimensions - 1 - (uint32_t)a];
    for (int a = job->axes; a < AXIS_COUNT; a++)
        forget_axis(job, a);
    for (uint32_t i = 0; i < lead; i++)
        job->batch *= type->shape[i];
    return !job_has_axis(job) || resolve_axis(request, type, job, failure);
}

/* How stiff the axes with coordinates are, for the time step. */
static bool resolve_stiffness(struct job *job, const uint8_t *block,
                              const struct request_bounds *known, struct failure *failure)
{
    for (int a = 0; a < job->axes; a++) {
        if (!(job->more.coordinates >> a & 1))
            continue;
        struct weights_axis rows;
        job_weights(job, a, job_coordinates(job, block, a), &rows);
        const double *const found = request_bounds_look_up(known, &rows, job->accuracy);
        const double bound = found ? *found : weights_bound(&rows, job->accuracy);
        job->spacing[a] = job_weights_spacing(bound, job->accuracy);
        if (job->spacing[a] == 0)
            return invalid_argument(failure, job_axis_place("spacing", a).text,
                                    "no time step follows from these coordinates");
    }
    return true;
}

static bool resolve_diffusion(const struct request *request, struct job *job, const uint8_t *block,
                              struct failure *failure)
{
    struct job still = *job; /* what is not said of its time step is found first */
    memset(still.diffusivity, 0, sizeof still.diffusivity);
    still.dt = 0;
    /* What it takes to find the stiffness is bounded by job_check(). */
    return (!job->more.coordinates || (check_unmeasured(&still, INFINITY, failure) &&
                                       resolve_stiffness(job, block, request->bounds, failure))) &&
           check_axes_exist(job, "diffusivity", request->named.diffusivity, failure) &&
           resolve_time_step(request, job, failure);
}

static bool resolve(const struct request *request, const struct array_type *type, double max_work,
                    struct job *job, uint8_t **block, struct failure *failure)
{
    if (!resolve_type(request, type, job, failure) ||
        !resolve_boundaries(request, type, job, failure) ||
        !resolve_spacing(request, job, failure) || !resolve_operands(request, type, job, failure))
        return false;
    /* Before anything is made of them: what job_check() says of the shape holds for the block. */
    if (!request_block_make(request, type, job, block, failure))
        return false;
    if (job->operator_id == OPERATOR_DIFFUSION && !resolve_diffusion(request, job, *block, failure))
        return false;
    return job_measures(job) ? check_unmeasured(job, max_work, failure)
                             : job_check(job, max_work, failure);
}

bool request_job(const struct request *request, const struct array_type *type, double max_work,
                 struct job *job, uint8_t **block, struct failure *failure)
{
    *block = NULL;
    *job = request->job;
    bool ok =
        resolve(request, type, max_work, job, block, failure) &&
        check_components(&request->f, "f", job_takes_vector(job), job_inputs(job), job, failure);
    if (ok && (request->out == OUT_FIELD || request->out == OUT_REGION))
        ok = check_components(&request->out_place, "out", job_gives_vector(job), job_outputs(job),
                              job, failure);
    if (!ok) {
        free(*block);
        *block = NULL;
    } else if (job_has_axis(job)) {
        for (int a = 0; a < AXIS_COUNT; a++)
            if (a != job->axis)
                forget_axis(job, a);
    }
    return ok;
}
