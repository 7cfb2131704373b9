/* Operators that are done as chains of others: mixed derivatives and the Hessian. */
#include "numerics/boundary.h"
#include "protocol/request_chain.h"
#include "protocol/request_read.h"

#include <stdio.h>
#include <string.h>

static bool check_side(const struct request *request, int axis, int side, struct failure *failure)
{
    const int i = SIDE_COUNT * axis + side;
    return (request->operand[OPERAND_VALUE + i].kind == ARRAY_NONE &&
            request->operand[OPERAND_CONSTANT + i].kind == ARRAY_NONE &&
            !(boundary_traits(request->job.boundary[axis][side].kind)->has & BOUNDARY_IS_HALO)) ||
           failure_set(failure, STATUS_UNSUPPORTED, job_side_place(axis, side),
                       "a mixed derivative takes no halo and no numbers over a face");
}

/* The sides that the inner derivative has. Where f keeps to a number along the outer axis, the same
 * all along the side, its derivative along the side keeps to 0. Of the sides of other axes, which
 * the outer derivative does not look at, a number would be one of f's. */
static bool take_tangential_sides(struct request *outer, struct failure *failure)
{
    const int axis = outer->job.axis;
    if (!check_side(outer, axis, SIDE_LOW, failure) || !check_side(outer, axis, SIDE_HIGH, failure))
        return false;
    for (int i = 0; i < AXIS_COUNT * SIDE_COUNT; i++) {
        const int a = i / SIDE_COUNT, s = i % SIDE_COUNT;
        struct boundary *const boundary = &outer->job.boundary[a][s];
        const unsigned has = boundary_traits(boundary->kind)->has;
        if (a == axis && !(has & BOUNDARY_HAS_CONSTANT)) /* `mixed` keeps its v */
            boundary->value = 0;
        if (a != axis && has & BOUNDARY_HAS_VALUE)
            *boundary = (struct boundary){.kind = BOUNDARY_ONE_SIDED};
        outer->job.more.constant[a][s] = 0;
    }
    memset(outer->operand, 0, sizeof outer->operand);
    return true;
}

/* A derivative as the request's last link, of f (link −1), of the first link's f or of a link's
 * result. */
static struct request *add_derivative(struct request *request, int axis, int order, int link,
                                      int component)
{
    struct request_chain *const chain = request->chain;
    struct request_link *const new = &chain->link[chain->count++];
    new->request = *request;
    new->request.method = METHOD_OPERATOR;
    new->request.chain = NULL;
    new->request.out = OUT_INLINE;
    new->request.given |= PARAMETER_BIT(axis);
    new->request.job.axis = (uint8_t)axis;
    new->request.job.order = (uint8_t)order;
    if (link >= 0)
        memset(&new->request.f, 0, sizeof new->request.f);
    for (int a = 0; a < AXIS_COUNT; a++)
        new->source[a] = (struct request_source){-1, -1};
    new->source[0] = (struct request_source){link, component};
    return &new->request;
}

static bool check_no_report(const struct request *request, struct failure *failure)
{
    return !request->report || failure_set(failure, STATUS_UNSUPPORTED, "report",
                                           "derivatives that are several have no report");
}

bool request_expand_mixed(struct request *request, struct failure *failure)
{
    const struct job *const job = &request->job;
    if (job->order != 1 || job->more.stagger != STAGGER_NONE)
        return invalid_argument(failure, job->order != 1 ? "order" : "stagger",
                                "a mixed derivative is of order 1 along each axis, at the nodes");
    if (!check_no_report(request, failure) || !request_new_chain(request, 2, failure))
        return false;
    request->chain->is_operator = true;
    struct request *const inner = add_derivative(request, (int)request->inner_axis, 1, -1, -1);
    struct request *const outer = add_derivative(request, job->axis, 1, 0, -1);
    outer->out = request->out;
    memset(&inner->out_place, 0, sizeof inner->out_place); /* it is the outer one's */
    request->chain->answers = 1;
    request->chain->answer[0] = (struct request_answer){1, request->out};
    request->method = METHOD_CHAIN;
    request->out = OUT_INLINE;
    memset(&request->f, 0, sizeof request->f);
    memset(request->operand, 0, sizeof request->operand);
    memset(request->numbers, 0, sizeof request->numbers);
    return take_tangential_sides(outer, failure) &&
           request_check_inputs(inner, request->dry_run, failure);
}

bool request_check_hessian(const struct request *request, struct failure *failure)
{
    if (request->out == OUT_FIELD || request->out == OUT_REGION)
        return failure_set(failure, STATUS_UNSUPPORTED, "out",
                           "the second derivatives come as \"inline\" or as \"field\"");
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int s = 0; s < SIDE_COUNT; s++)
            if (!check_side(request, a, s, failure))
                return false;
    return (!request->f.is_vector ||
            invalid_argument(failure, "f", "hessian takes one array, no vector field")) &&
           check_no_report(request, failure);
}

bool request_expand_hessian(struct request *request, const struct array_type *type,
                            struct failure *failure)
{
    const int dimensions = (int)type->dimensions - (int)request->batch;
    const int axes = dimensions < 1 ? 1 : dimensions > AXIS_COUNT ? AXIS_COUNT : dimensions;
    int inner[AXIS_COUNT]; /* the link that is ∂b f */
    if (!request_new_chain(request, CHAIN_LINKS, failure))
        return false;
    struct request_chain *const chain = request->chain;
    chain->is_operator = true;
    for (int b = 1; b < axes; b++) {
        inner[b] = (int)chain->count;
        add_derivative(request, b, 1, b == 1 ? -1 : 0, b == 1 ? -1 : SOURCE_INPUT);
    }
    chain->is_named = true;
    for (int a = 0; a < axes; a++)
        for (int b = a; b < axes; b++) {
            const bool is_first = chain->count == 0;
            struct request *const second = a < b ? add_derivative(request, a, 1, inner[b], -1)
                                                 : add_derivative(request, a, 2, is_first ? -1 : 0,
                                                                  is_first ? -1 : SOURCE_INPUT);
            if (a < b && !take_tangential_sides(second, failure))
                return false;
            chain->answer[chain->answers++] =
                (struct request_answer){chain->count - 1, request->out};
            snprintf(chain->link[chain->count - 1].name, sizeof chain->link->name, "%s%s",
                     axis_name((enum axis)a), axis_name((enum axis)b));
        }
    return true;
}
