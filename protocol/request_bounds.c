#include "protocol/request_bounds.h"

#include "numerics/job_rows.h"
#include "protocol/request_block.h"
#include "protocol/request_job.h"

#include <math.h>
#include <string.h>

enum {
    FEWEST = ROWS_POINTS, /* an axis of fewer points is found at once, and may have no rows */
    EDGES_COST = 512,     /* both edges of an axis take the time of so many coordinates */
    LITTLE = 4 * (LIMIT_STABLE_COORDINATES + EDGES_COST)
};

/* The axis as request_job() makes it, but for its coordinates; false: it has none, or its bound is
 * not worth the trouble or not asked for. */
static bool find_axis(const struct request *request, int axis, struct job *job)
{
    const struct array *given = request_coordinates(request, axis);
    if (!given)
        return false;
    struct boundary *sides = job->boundary[axis];
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct request_side *side = request_job_side(request, axis, s);
        if (side)
            sides[s] = side->boundary;
    }
    if (request_job_endpoint(request, axis))
        sides[SIDE_LOW].kind = sides[SIDE_HIGH].kind = BOUNDARY_ENDPOINT;
    const uint64_t count = numbers_count(given);
    job->n[axis] = count - (sides[SIDE_LOW].kind == BOUNDARY_PERIODIC);
    job->more.coordinates |= (uint8_t)(1u << axis);
    return count > FEWEST && job->n[axis] <= LIMIT_STABLE_COORDINATES;
}

/* Of a request for a diffusion alone, whose array is not looked at: what holds for any. */
static void find_job(const struct request *request, struct job *job)
{
    job_init(job);
    job->operator_id = OPERATOR_DIFFUSION;
    job->axes = AXIS_COUNT;
    job->accuracy = (uint8_t)request_job_accuracy(request);
    job->more.coefficient = request->parameters.coefficient.kind != ARRAY_NONE;
}

static bool is_diffusion(const struct request *request)
{
    return request->method == METHOD_OPERATOR &&
           request->parameters.operator_id == OPERATOR_DIFFUSION;
}

/* The request itself, or the i-th of its chain; NULL: there is none. */
static const struct request *part(const struct request *request, uint32_t i)
{
    if (!request->chain)
        return i == 0 ? request : NULL;
    return i < request->chain->count ? &request->chain->link[i].request : NULL;
}

uint64_t request_bounds_bytes(const struct request *request)
{
    uint64_t coordinates = 0, cost = 0;
    const struct request *one;
    for (uint32_t i = 0; (one = part(request, i)); i++) {
        struct job job;
        if (!is_diffusion(one))
            continue;
        find_job(one, &job);
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!find_axis(one, a, &job))
                continue;
            const uint64_t count = numbers_count(request_coordinates(one, a));
            coordinates += count;
            cost += count + EDGES_COST;
        }
    }
    return cost > LITTLE ? sizeof(struct request_bounds) + coordinates * sizeof(double) : 0;
}

static bool increase(const double *x, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        if (!(x[i] > x[i - 1]))
            return false;
    return isfinite(x[0]) && isfinite(x[count - 1]);
}

void request_bounds_list(const struct request *request, struct request_bounds *bounds)
{
    double *to = bounds->coordinates;
    const struct request *one;
    bounds->count = 0;
    for (uint32_t i = 0; (one = part(request, i)); i++) {
        struct job job;
        if (!is_diffusion(one))
            continue;
        find_job(one, &job);
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!find_axis(one, a, &job))
                continue;
            const struct array *given = request_coordinates(one, a);
            struct request_bound *bound = &bounds->at[bounds->count];
            *bound = (struct request_bound){.accuracy = job.accuracy};
            numbers_reals(given, to);
            job_rows(&job, a, to, &bound->axis);
            if (!increase(to, numbers_count(given)) ||
                request_bounds_look_up(bounds, &bound->axis, job.accuracy))
                continue;
            to += numbers_count(given);
            bounds->count++;
        }
    }
}

void request_bounds_find(struct request_bounds *bounds)
{
    for (uint32_t i = 0; i < bounds->count; i++)
        bounds->at[i].bound = rows_bound(&bounds->at[i].axis, bounds->at[i].accuracy);
}

void request_bounds_give(struct request *request, const struct request_bounds *bounds)
{
    request->parameters.bounds = bounds;
    for (uint32_t i = 0; request->chain && i < request->chain->count; i++)
        request->chain->link[i].request.parameters.bounds = bounds;
}

static bool is_same_side(const struct rows_side *one, const struct rows_side *other)
{
    return one->kind == other->kind && one->at_face == other->at_face && one->mixed == other->mixed;
}

const double *request_bounds_look_up(const struct request_bounds *bounds,
                                     const struct rows_axis *axis, int accuracy)
{
    const bool repeats = axis->side[SIDE_LOW].kind == ROWS_PERIODIC;
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
