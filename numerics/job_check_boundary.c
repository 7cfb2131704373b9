/* Which boundaries a job may have, and how many points they need. */
#include "numerics/job_check.h"

#include "numerics/job_weights.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

/* What a combination of a boundary and a job has: all bits of a refusal's must be there. */
enum condition {
    OF_DIFFUSION = 1,
    OF_FIELD = 2,  /* the diffusivity is one */
    OF_STRICT = 4, /* without allow_unstable */
    AT_FACE = 8,
    OF_ARRAY = 16, /* the value is one */
    STATES = 32,   /* a value other than 0, or an array */
    NEGATIVE = 64, /* the value */
    SCALES = 128   /* the value is not 1 */
};

static unsigned conditions_of(const struct job *job, const struct boundary *boundary)
{
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    return (diffusion ? OF_DIFFUSION : 0) | (diffusion && job->more.coefficient ? OF_FIELD : 0) |
           (job->allow_unstable ? 0 : OF_STRICT) | (boundary->at_face ? AT_FACE : 0) |
           (boundary->value_array ? OF_ARRAY : 0) | (boundary_is_zero(boundary) ? 0 : STATES) |
           (boundary->value < 0 ? NEGATIVE : 0) | (boundary->value != 1 ? SCALES : 0);
}

struct refusal {
    uint32_t kind; /* enum boundary_kind */
    unsigned of;   /* enum condition, or'ed */
    const char *text;
};

static const char *refusal_of(const struct refusal *rows, size_t count, const struct job *job,
                              const struct boundary *boundary)
{
    const unsigned conditions = conditions_of(job, boundary);
    for (const struct refusal *row = rows; row < rows + count; row++)
        if (row->kind == boundary->kind && (conditions & row->of) == row->of)
            return row->text;
    return NULL;
}

/* UNSUPPORTED, whatever the scheme is. */
static const struct refusal refusals[] = {
    {BOUNDARY_ONE_SIDED, OF_DIFFUSION,
     "one-sided closures are unstable in diffusion; it takes every other boundary"},
    {BOUNDARY_CURVATURE, OF_FIELD,
     "curvature is offered where the diffusivity is a number; where it is a field modes beside it "
     "may grow at any step: value, derivative and, at accuracy 2, mixed are offered"},
    {BOUNDARY_MIXED, OF_DIFFUSION | OF_STRICT | OF_ARRAY,
     "how large a step is stable follows from a mixed boundary's number: an array in its place "
     "needs allow_unstable (const may be one)"},
};

/* … of the solves of ADI: three diagonals, the same in all lines. */
static const struct refusal adi_refusals[] = {
    {BOUNDARY_HALO, SCALES, "a halo with a factor other than 1"},
    {BOUNDARY_VALUE, AT_FACE | OF_FIELD, "value at the face where the diffusivity is a field"},
    {BOUNDARY_DERIVATIVE, AT_FACE | OF_FIELD | STATES,
     "a derivative other than 0 at the face where the diffusivity is a field"},
    {BOUNDARY_MIXED, OF_ARRAY, "mixed of an array (const may be one)"},
    {BOUNDARY_MIXED, NEGATIVE, "mixed with a number below 0"},
    {BOUNDARY_MIXED, AT_FACE | OF_FIELD, "mixed at the face where the diffusivity is a field"},
    {BOUNDARY_CURVATURE, AT_FACE, "curvature at the face"},
};

bool job_check_adi_side(const struct job *job, int axis, int side, struct failure *failure)
{
    const struct boundary *boundary = &job->boundary[axis][side];
    const char *const place = job_side_place(axis, side);
    if (boundary_is_periodic(boundary))
        return true;
    const char *what =
        refusal_of(adi_refusals, sizeof adi_refusals / sizeof *adi_refusals, job, boundary);
    if (what)
        return failure_set(failure, STATUS_UNSUPPORTED, place,
                           "scheme adi does not take %s; forward-euler and rk4 do", what);
    if (!(boundary_traits(boundary->kind)->has & BOUNDARY_IS_HALO) && job->n[axis] < 2)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "scheme adi needs 2 points along %s; got 1", axis_name((enum axis)axis));
    return true;
}

/* One number of a boundary: the number, where it comes from, and what the kind has. */
static bool check_number(const struct job *job, double number, int from, bool has,
                         bool may_be_array, const char *place, struct failure *failure)
{
    if (!isfinite(rounded(number, job->dtype)))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "the number of a boundary must be finite in the type of f; got %g",
                           number);
    if (from >= NUMBER_KINDS || (from && !(has && may_be_array)))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "this boundary has no array over the face");
    if (number != 0 && (!has || from))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "this boundary has no such number; got %g", number);
    return true;
}

static bool check_side(const struct job *job, int axis, int side, struct failure *failure)
{
    const struct boundary *boundary = &job->boundary[axis][side];
    const char *const place = job_side_place(axis, side);
    const struct boundary_traits *traits = boundary_traits(boundary->kind);
    const bool has_place = traits->has & BOUNDARY_HAS_PLACE;
    const bool has_constant = traits->has & BOUNDARY_HAS_CONSTANT;
    if (boundary->kind >= BOUNDARY_KINDS)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "no boundary has the number %" PRIu32, boundary->kind);
    if (traits->has & BOUNDARY_OF_STENCILS && job->operator_id != OPERATOR_STENCIL)
        return failure_set(failure, STATUS_UNSUPPORTED, place,
                           "boundary %s is for stencils; got a %s", traits->word,
                           operator_name((enum operator_id)job->operator_id));
    if (boundary->at_face > 1 || boundary->reserved)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "a reserved byte of a boundary is set");
    if (boundary->at_face && !has_place)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "boundary %s is at no face: %s may be", traits->word,
                           boundary_words(BOUNDARY_HAS_PLACE, " and ").text);
    if (traits->has & BOUNDARY_IS_HALO && boundary->value != 0 &&
        job_inputs(job) > job_outputs(job))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                           "the halo of a %s has no one input to come from: its factor must be 0; "
                           "got %g",
                           operator_name((enum operator_id)job->operator_id), boundary->value);
    if (has_constant && job_conducts(job, axis) && job->accuracy != 2)
        return failure_set_limit(failure, STATUS_UNSUPPORTED, place, job->accuracy, 2,
                                 "mixed where the diffusivity is a field is offered at accuracy 2; "
                                 "got %d",
                                 job->accuracy);
    const char *refusal = refusal_of(refusals, sizeof refusals / sizeof *refusals, job, boundary);
    if (refusal)
        return failure_set(failure, STATUS_UNSUPPORTED, place, "%s", refusal);
    return check_number(job, boundary->value, boundary->value_array,
                        traits->has & BOUNDARY_HAS_VALUE, has_place, place, failure) &&
           check_number(job, job->more.constant[axis][side], boundary->constant_array, has_constant,
                        has_place, place, failure);
}

/* Does a mixed boundary at the face, of one number, say what f is there? */
static bool check_mixed(const struct job *job, int axis, int side, struct failure *failure)
{
    const struct boundary *boundary = &job->boundary[axis][side];
    struct weights_axis rows;
    struct weights_row face;
    if (!(boundary_traits(boundary->kind)->has & BOUNDARY_HAS_CONSTANT) || !boundary->at_face ||
        !(boundary->value < 0))
        return true;
    if (job->more.coordinates >> axis & 1)
        return failure_set(failure, STATUS_UNSUPPORTED, job_side_place(axis, side),
                           "mixed at the face of an axis with coordinates must be from 0 up; got "
                           "%.9g",
                           boundary->value);
    job_weights(job, axis, NULL, &rows);
    rows.side[!side] = (struct weights_side){.kind = WEIGHTS_HALO}; /* the row is of one side */
    if (!weights_face(&rows, job_face_order(job), job->accuracy, side, &face))
        return true; /* it is not read: no row has data of that side */
    const double e = (double)face.data[side], limit = -1 / e;
    const double least = 4 * (job->dtype == DTYPE_F32 ? FLT_EPSILON : DBL_EPSILON);
    if (1 + e * boundary->value > least) /* so that it is above 0 where both are rounded, too */
        return true;
    return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, job_side_place(axis, side),
                             boundary->value, limit,
                             "mixed at the face must be above %.9g at this spacing and accuracy; "
                             "got %.9g",
                             limit, boundary->value);
}

static uint64_t stencil_points_needed(const struct job *job, int axis, int *named)
{
    struct weights_axis rows;
    uint64_t need = 1;
    job_weights(job, axis, NULL, &rows);
    for (int side = SIDE_COUNT - 1; side >= 0; side--) {
        const uint64_t points = weights_has_closures(&rows.side[side])     ? job->accuracy
                                : rows.side[side].kind == WEIGHTS_ENDPOINT ? 2
                                                                           : 1;
        if (points >= need) {
            need = points;
            *named = side;
        }
    }
    return need;
}

/* Points that the axis must have for derivatives of `order`; *named: the side whose boundary needs
 * them. */
static int64_t points_needed(const struct job *job, int axis, int order, int *named)
{
    static const double coordinates[1]; /* that there are some is all that matters */
    if (job->operator_id == OPERATOR_STENCIL)
        return (int64_t)stencil_points_needed(job, axis, named);
    *named = SIDE_HIGH;
    if (job->more.scheme == SCHEME_ADI) /* whose rows are its own: job_check_scheme() */
        return job->boundary[axis][SIDE_HIGH].kind == BOUNDARY_ENDPOINT ? 2 : 1;
    struct weights_axis rows;
    job_weights(job, axis, job->more.coordinates >> axis & 1 ? coordinates : NULL, &rows);
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    const enum stagger stagger = (enum stagger)job->more.stagger;
    const int64_t need = weights_points_needed(&rows, order, job->accuracy, stagger, diffusion);
    for (int side = SIDE_COUNT - 1; side >= 0; side--) {
        struct weights_axis alone = rows;
        alone.side[!side] = alone.side[side];
        if (weights_points_needed(&alone, order, job->accuracy, stagger, diffusion) > rows.n)
            *named = side;
    }
    return need;
}

bool job_check_boundaries(const struct job *job, int axis, struct failure *failure)
{
    const struct boundary *boundary = job->boundary[axis];
    for (int side = 0; side < SIDE_COUNT; side++)
        if (!check_side(job, axis, side, failure))
            return false;
    const uint32_t low = boundary[SIDE_LOW].kind, high = boundary[SIDE_HIGH].kind;
    const bool low_is_periodic = boundary_is_periodic(&boundary[SIDE_LOW]);
    if (low != high && (low_is_periodic || boundary_is_periodic(&boundary[SIDE_HIGH])))
        return failure_set(failure, STATUS_INVALID_ARGUMENT,
                           job_side_place(axis, low_is_periodic ? SIDE_HIGH : SIDE_LOW),
                           "an axis is periodic on both sides or on none; got %s and %s",
                           boundary_traits(low)->word, boundary_traits(high)->word);
    return true;
}

bool job_check_boundary_points(const struct job *job, int axis, struct failure *failure)
{
    const struct boundary *boundary = job->boundary[axis];
    int side = SIDE_LOW, other;
    int64_t need = points_needed(job, axis, job_order(job), &side);
    if (job->operator_id == OPERATOR_BIHARMONIC) { /* mixed derivatives */
        const int64_t second = points_needed(job, axis, 2, &other);
        side = second > need ? other : side;
        need = second > need ? second : need;
    }
    for (int s = 0; s < SIDE_COUNT && job_order(job) == 0; s++)
        if (boundary_traits(boundary[s].kind)->has & BOUNDARY_HAS_CONSTANT && boundary[s].at_face &&
            need < job->accuracy) {
            side = s; /* for f at its face: weights_face() */
            need = job->accuracy;
        }
    if (job->n[axis] < (uint64_t)need)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, job_side_place(axis, side),
                           "boundary %s at accuracy %d needs %" PRId64
                           " points along %s; got %" PRIu64,
                           boundary_traits(boundary[side].kind)->word, job->accuracy, need,
                           axis_name((enum axis)axis), job->n[axis]);
    return check_mixed(job, axis, SIDE_LOW, failure) && check_mixed(job, axis, SIDE_HIGH, failure);
}
