#include "protocol/request_bounds.h"

#include "numerics/job_weights.h"
#include "protocol/request_read.h"

#include <math.h>
#include <string.h>

enum {
    FEWEST = WEIGHTS_POINTS, /* an axis of fewer points is found at once, and may have no rows */
    EDGES_COST = 512,        /* both edges of an axis take the time of so many coordinates */
    LITTLE = 4 * (LIMIT_STABLE_COORDINATES + EDGES_COST)
};

/* The axis as request_job() makes it, in a job whose array is not looked at; its coordinates. NULL:
 * it has none, or its bound is not worth the trouble or not asked for. */
static const struct array *find_axis(const struct request *request, int axis, struct job *job)
{
    const struct array *given = request_coordinates(request, axis);
    if (!given)
        return NULL;
    struct boundary *sides = job->boundary[axis];
    if (request->endpoint >> axis & 1)
        sides[SIDE_LOW].kind = sides[SIDE_HIGH].kind = BOUNDARY_ENDPOINT;
    const uint64_t count = numbers_count(given);
    job->n[axis] = count - (sides[SIDE_LOW].kind == BOUNDARY_PERIODIC);
    job->more.coordinates |= (uint8_t)(1u << axis);
    return count > FEWEST && job->n[axis] <= LIMIT_STABLE_COORDINATES ? given : NULL;
}

static void list_axes(const struct request *request, struct request_bounds *list)
{
    struct job job = request->job;
    if (request->method != METHOD_OPERATOR || job.operator_id != OPERATOR_DIFFUSION)
        return;
    job.more.coefficient = request->operand[OPERAND_COEFFICIENT].kind != ARRAY_NONE;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct array *given = find_axis(request, a, &job);
        if (!given)
            continue;
        struct request_bound *bound = &list->at[list->count++];
        *bound = (struct request_bound){.given = given, .accuracy = job.accuracy};
        job_weights(&job, a, list->coordinates, &bound->axis);
    }
}

uint64_t request_bounds_list(const struct request *request, struct request_bounds *list)
{
    uint64_t coordinates = 0;
    list->count = 0;
    if (request->chain)
        for (uint32_t i = 0; i < request->chain->count; i++)
            list_axes(&request->chain->link[i].request, list);
    else
        list_axes(request, list);
    for (uint32_t i = 0; i < list->count; i++)
        coordinates += numbers_count(list->at[i].given);
    return coordinates + list->count * EDGES_COST > LITTLE
               ? sizeof *list + coordinates * sizeof(double)
               : 0;
}

static bool increase(const double *x, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        if (!(x[i] > x[i - 1]))
            return false;
    return isfinite(x[0]) && isfinite(x[count - 1]);
}

void request_bounds_copy(const struct request_bounds *list, struct request_bounds *bounds)
{
    double *to = bounds->coordinates;
    bounds->count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const uint64_t count = numbers_count(list->at[i].given);
        struct request_bound *bound = &bounds->at[bounds->count];
        *bound = list->at[i];
        bound->axis.x = to;
        numbers_reals(bound->given, to);
        if (!increase(to, count) || request_bounds_look_up(bounds, &bound->axis, bound->accuracy))
            continue;
        to += count;
        bounds->count++;
    }
}

void request_bounds_find(struct request_bounds *bounds)
{
    for (uint32_t i = 0; i < bounds->count; i++)
        bounds->at[i].bound = weights_bound(&bounds->at[i].axis, bounds->at[i].accuracy);
}

void request_bounds_give(struct request *request, const struct request_bounds *bounds)
{
    request->bounds = bounds;
    for (uint32_t i = 0; request->chain && i < request->chain->count; i++)
        request->chain->link[i].request.bounds = bounds;
}

static bool is_same_side(const struct weights_side *one, const struct weights_side *other)
{
    return one->kind == other->kind && one->at_face == other->at_face && one->mixed == other->mixed;
}

const double *request_bounds_look_up(const struct request_bounds *bounds,
                                     const struct weights_axis *axis, int accuracy)
{
    const bool repeats = axis->side[SIDE_LOW].kind == WEIGHTS_PERIODIC;
    for (uint32_t i = 0; bounds && axis->x && i < bounds->count; i++) {
        const struct request_bound *known = &bounds->at[i];
        if (known->accuracy == accuracy && known->axis.n == axis->n &&
            known->axis.conducts == axis->conducts &&
            is_same_side(&known->axis.side[SIDE_LOW], &axis->side[SIDE_LOW]) &&
            is_same_side(&known->axis.side[SIDE_HIGH], &axis->side[SIDE_HIGH]) &&
            memcmp(known->axis.x, axis->x, (size_t)(axis->n + repeats) * sizeof *axis->x) == 0)
            return &known->bound;
    }
    return NULL;
}
