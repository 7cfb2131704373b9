#include "protocol/request_chain.h"

#include "protocol/request_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool request_chain_place(const struct request_chain *chain, struct failure *failure, uint32_t link)
{
    if (chain && chain->is_operator)
        return false;
    char parameter[sizeof failure->parameter];
    memcpy(parameter, failure->parameter, sizeof parameter);
    snprintf(failure->parameter, sizeof failure->parameter, "ops %u%s%.36s", link,
             parameter[0] ? " " : "", parameter);
    return false;
}

bool request_chain_bind(struct request_link *link, int i, const struct job *from,
                        const struct array_type *type, struct failure *failure)
{
    struct arrays *f = &link->request.f;
    struct request_source *source = &link->source[i];
    if (f->at[i].type.dimensions) /* it was bound before */
        return true;
    if (source->component == SOURCE_INPUT) {
        f->at[i] = (struct array){.kind = ARRAY_FIELD, .type = *type};
        return true;
    }
    const int outputs = job_outputs(from);
    const bool is_vector = job_gives_vector(from);
    const bool is_whole = i == 0 && !f->is_vector && source->component < 0;
    if (source->component >= (is_vector ? outputs : 0) ||
        (!is_whole && is_vector && source->component < 0))
        return invalid_argument(failure, "f",
                                is_vector ? "it names a vector field of %d components"
                                          : "it names a component of what is no vector field (%d)",
                                outputs);
    if (is_whole && is_vector) {
        f->is_vector = true;
        for (int c = 1; c < outputs; c++)
            link->source[c] = (struct request_source){source->link, c};
    }
    if (source->component < 0)
        source->component = 0;
    f->at[i] = (struct array){.kind = ARRAY_FIELD, .type = *type};
    return true;
}

/* A name as a link binds it: letters, digits and _; not the words that say where an output goes. */
static bool read_name(const msgpack_object *object, char name[CHAIN_NAME_BYTES + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *bytes;
    uint32_t length;
    if (!object_bytes(object, &bytes, &length) || length == 0 || length > CHAIN_NAME_BYTES ||
        object_is(object, "inline") || object_is(object, "field"))
        return false;
    memcpy(name, bytes, length);
    name[length] = '\0';
    return strspn(name, letters) == length;
}

/* "name" or "name.x", of a link before this one: the latest of that name. */
static bool read_source(const msgpack_object *value, const struct request_chain *chain,
                        struct request_source *source, struct failure *failure)
{
    char name[CHAIN_NAME_BYTES + 1];
    const char *bytes;
    uint32_t length;
    msgpack_object link = *value;
    *source = (struct request_source){-1, -1};
    if (object_bytes(value, &bytes, &length) && length > 2 && bytes[length - 2] == '.' &&
        bytes[length - 1] >= 'x' && bytes[length - 1] <= 'z') {
        source->component = bytes[length - 1] - 'x';
        link.via.str.size -= 2;
    }
    if (read_name(&link, name))
        for (uint32_t i = 0; i < chain->count; i++)
            if (strcmp(chain->link[i].name, name) == 0)
                source->link = (int)i;
    return source->link >= 0 || invalid_argument(failure, "f", "no op before this one gives \"%s\"",
                                                 object_quote(value).text);
}

/* An ARRAY, a name, or a map of them by axis. */
static bool read_f(const msgpack_object *value, const struct request_chain *chain,
                   struct request_link *link, struct failure *failure)
{
    static const char *const axes[] = {"x", "y", "z", NULL};
    const msgpack_object *values[AXIS_COUNT];
    struct arrays *const f = &link->request.f;
    if (object_is_text(value))
        return read_source(value, chain, &link->source[0], failure);
    for (int a = 0; a < AXIS_COUNT; a++)
        f->is_vector = f->is_vector || object_find(value, axes[a]);
    if (!f->is_vector)
        return array_read(value, "f", &f->at[0], failure);
    if (!object_read_map(value, "f", axes, "a vector field has the keys x, y and z", values,
                         failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++) {
        f->at[a].kind = values[a] ? ARRAY_FIELD : ARRAY_NONE;
        if (values[a] &&
            !(object_is_text(values[a])
                  ? read_source(values[a], chain, &link->source[a], failure)
                  : array_read(values[a], arrays_place(f, "f", a).text, &f->at[a], failure)))
            return false;
    }
    return true;
}

static bool read_link(const msgpack_object *map, const struct request_chain *chain,
                      struct request_link *link, struct failure *failure)
{
    struct request *const request = &link->request;
    const msgpack_object *const op = object_find(map, "op");
    for (int a = 0; a < AXIS_COUNT; a++)
        link->source[a] = (struct request_source){-1, -1};
    if (map->type != MSGPACK_OBJECT_MAP)
        return invalid_argument(failure, NULL, "an op is a map: {\"op\": name, …}");
    if (!op)
        return invalid_argument(failure, "op", "an op needs its name");
    request_begin(request);
    request->is_link = true;
    if (!request_find_method(op, request, failure))
        return false;
    if (request->method != METHOD_OPERATOR)
        return invalid_argument(failure, "op", "%s is no operator", request->method_name);
    if (!request_read_parameters(map, request, failure))
        return false;
    if (request->is_mixed)
        return failure_set(failure, STATUS_UNSUPPORTED, "axis",
                           "in a chain a mixed derivative is two derivatives");
    if (request->late_out && !read_name(request->late_out, link->name))
        return invalid_argument(failure, "out",
                                "a name is 1 to %d letters, digits and _, but for inline and "
                                "field; got \"%s\"",
                                CHAIN_NAME_BYTES, object_quote(request->late_out).text);
    return read_f(request->late_f, chain, link, failure);
}

/* "inline" or "field". */
static bool read_answer(const msgpack_object *value, enum out_kind *kind)
{
    *kind = object_is(value, "field") ? OUT_NEW_FIELD : OUT_INLINE;
    return *kind == OUT_NEW_FIELD || object_is(value, "inline");
}

/* An answer by the name of an op. */
static bool read_named_answer(const msgpack_object_kv *pair, struct request_chain *chain,
                              uint32_t i, struct failure *failure)
{
    const struct quoted name = object_quote(&pair->key);
    struct request_source source;
    struct failure unnamed = {0};
    if (!read_source(&pair->key, chain, &source, &unnamed) || source.component >= 0)
        return invalid_argument(failure, "out", "no op gives \"%s\"", name.text);
    for (uint32_t k = 0; k < i; k++)
        if (chain->answer[k].link == (uint32_t)source.link)
            return invalid_argument(failure, "out", "\"%s\" is given twice", name.text);
    chain->answer[i].link = (uint32_t)source.link;
    memcpy(chain->answer[i].name, chain->link[source.link].name, sizeof chain->answer->name);
    return read_answer(&pair->val, &chain->answer[i].kind) ||
           invalid_argument(failure, "out", "the answer of \"%s\" is \"inline\" or \"field\"",
                            name.text);
}

/* "out" of the chain: of its last op, or a map by name. */
static bool read_answers(const msgpack_object *value, struct request_chain *chain,
                         struct failure *failure)
{
    const struct request_link *last = &chain->link[chain->count - 1];
    chain->answers = 1;
    chain->answer[0] = (struct request_answer){chain->count - 1, last->request.out, ""};
    if (!value)
        return true;
    if (object_is_text(value) && last->request.out != OUT_INLINE)
        return invalid_argument(failure, "out",
                                "out of the chain must be left out: its last op has one already");
    if (read_answer(value, &chain->answer[0].kind))
        return true;
    if (value->type != MSGPACK_OBJECT_MAP || value->via.map.size == 0 ||
        value->via.map.size > CHAIN_LINKS)
        return invalid_argument(failure, "out",
                                "out must be \"inline\", \"field\" or a map of them by name");
    chain->is_named = true;
    chain->answers = value->via.map.size;
    for (uint32_t i = 0; i < chain->answers; i++)
        if (!read_named_answer(&value->via.map.ptr[i], chain, i, failure))
            return false;
    return true;
}

/* A chain with room for so many links, none yet, in request->chain. */
static bool new_chain(struct request *request, uint32_t links, struct failure *failure)
{
    request->chain = calloc(1, sizeof *request->chain + links * sizeof *request->chain->link);
    return request->chain ||
           failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
}

static bool read_ops(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (value->type != MSGPACK_OBJECT_ARRAY || value->via.array.size == 0 ||
        value->via.array.size > CHAIN_LINKS) {
        invalid_argument(failure, "ops", "ops is a list of 1 to %d operators", CHAIN_LINKS);
        request_say_given(value, failure);
        return false;
    }
    if (!new_chain(request, value->via.array.size, failure))
        return false;
    struct request_chain *const chain = request->chain;
    for (; chain->count < value->via.array.size; chain->count++)
        if (!read_link(&value->via.array.ptr[chain->count], chain, &chain->link[chain->count],
                       failure))
            return request_chain_place(chain, failure, chain->count);
    return true;
}

/* Does an op write the field that is the diffusivity of this one? Its numbers are looked at before
 * any of them runs. */
static bool check_diffusivity(const struct request_chain *chain, const struct request *request,
                              struct failure *failure)
{
    const struct array *k = &request->operand[OPERAND_COEFFICIENT];
    if (request->job.operator_id != OPERATOR_DIFFUSION || k->kind != ARRAY_FIELD)
        return true;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct request *writer = &chain->link[i].request;
        for (int a = 0; a < AXIS_COUNT && writer->out == OUT_FIELD; a++)
            if (writer->out_place.at[a].kind == ARRAY_FIELD &&
                writer->out_place.at[a].field == k->field)
                return invalid_argument(
                    failure, "diffusivity",
                    "op %u writes field %llu, whose numbers are looked at before "
                    "any op runs",
                    i, (unsigned long long)k->field);
    }
    return true;
}

static bool read_chain(struct request *request, struct failure *failure)
{
    if (!read_ops(request->ops, request, failure))
        return false;
    struct request_chain *chain = request->chain;
    for (uint32_t i = 0; i < chain->count; i++) {
        struct request *link = &chain->link[i].request;
        if (!request_check_inputs(link, request->dry_run, failure) ||
            !check_diffusivity(chain, link, failure))
            return request_chain_place(chain, failure, i);
    }
    if (!read_answers(request->late_out, chain, failure))
        return false;
    for (uint32_t i = 0; i < chain->answers && request->detach; i++)
        if (chain->answer[i].kind != OUT_NEW_FIELD && chain->answer[i].kind != OUT_FIELD)
            return invalid_argument(
                failure, "detach",
                "without its connection a job must leave its result in a field: "
                "give out");
    return true;
}

/* ---- operators that are done as chains of others: mixed derivatives and the Hessian ---- */

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

static bool expand_mixed(struct request *request, struct failure *failure)
{
    const struct job *const job = &request->job;
    if (job->order != 1 || job->more.stagger != STAGGER_NONE)
        return invalid_argument(failure, job->order != 1 ? "order" : "stagger",
                                "a mixed derivative is of order 1 along each axis, at the nodes");
    if (!check_no_report(request, failure) || !new_chain(request, 2, failure))
        return false;
    request->chain->is_operator = true;
    struct request *const inner = add_derivative(request, (int)request->inner_axis, 1, -1, -1);
    struct request *const outer = add_derivative(request, job->axis, 1, 0, -1);
    outer->out = request->out;
    memset(&inner->out_place, 0, sizeof inner->out_place); /* it is the outer one's */
    request->chain->answers = 1;
    request->chain->answer[0] = (struct request_answer){1, request->out, ""};
    request->method = METHOD_CHAIN;
    request->out = OUT_INLINE;
    memset(&request->f, 0, sizeof request->f);
    memset(request->operand, 0, sizeof request->operand);
    memset(request->numbers, 0, sizeof request->numbers);
    return take_tangential_sides(outer, failure) &&
           request_check_inputs(inner, request->dry_run, failure);
}

static bool check_hessian(const struct request *request, struct failure *failure)
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
    if (!new_chain(request, CHAIN_LINKS, failure))
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
            struct request_answer *const answer = &chain->answer[chain->answers++];
            *answer = (struct request_answer){chain->count - 1, request->out, ""};
            snprintf(answer->name, sizeof answer->name, "%s%s", axis_name((enum axis)a),
                     axis_name((enum axis)b));
        }
    return true;
}

bool request_make_chain(struct request *request, struct failure *failure)
{
    return (!request->is_mixed || expand_mixed(request, failure)) &&
           (request->method != METHOD_HESSIAN || check_hessian(request, failure)) &&
           (!request->ops || read_chain(request, failure));
}
