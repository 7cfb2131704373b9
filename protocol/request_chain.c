#include "protocol/request_chain.h"

#include "protocol/object.h"
#include "protocol/request_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MOST = 64 }; /* of a link: more than there are parameters */

void request_chain_place(const struct request_chain *chain, struct failure *failure, uint32_t link)
{
    if (chain && chain->is_operator)
        return;
    char parameter[sizeof failure->parameter];
    memcpy(parameter, failure->parameter, sizeof parameter);
    snprintf(failure->parameter, sizeof failure->parameter, "ops %u%s%.36s", link,
             parameter[0] ? " " : "", parameter);
}

bool request_chain_bind(struct request_link *link, int i, const struct job *from,
                        const struct array_type *type, struct failure *failure)
{
    struct arrays *f = &link->request.f;
    struct request_source *source = &link->source[i];
    if (source->component == SOURCE_INPUT) {
        f->at[i] = (struct array){.kind = ARRAY_FIELD, .type = *type};
        return true;
    }
    const int outputs = job_outputs(from);
    const bool is_vector = job_gives_vector(from);
    const bool is_whole = i == 0 && !f->is_vector && source->component < 0;
    if (source->component >= (is_vector ? outputs : 0) ||
        (!is_whole && is_vector && source->component < 0))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
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

/* A name as a link binds it: letters, digits and _. */
static bool read_name(const char *bytes, uint32_t length, char name[CHAIN_NAME_BYTES + 1])
{
    if (length == 0 || length > CHAIN_NAME_BYTES)
        return false;
    for (uint32_t i = 0; i < length; i++) {
        const char c = bytes[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_')
            return false;
    }
    memcpy(name, bytes, length);
    name[length] = '\0';
    return true;
}

/* The latest of the first `count` links that has the name; −1: none has. */
static int find_name(const struct request_chain *chain, uint32_t count, const char *name)
{
    for (uint32_t i = count; i-- > 0;)
        if (strcmp(chain->link[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* "name" or "name.x", of a link before this one. */
static bool read_source(const msgpack_object *value, const struct request_chain *chain,
                        struct request_source *source, struct failure *failure)
{
    const struct quoted quoted = object_quote(value);
    char name[CHAIN_NAME_BYTES + 1];
    const char *bytes;
    uint32_t length;
    *source = (struct request_source){-1, -1};
    if (object_bytes(value, &bytes, &length)) {
        if (length > 2 && bytes[length - 2] == '.' && bytes[length - 1] >= 'x' &&
            bytes[length - 1] <= 'z') {
            source->component = bytes[length - 1] - 'x';
            length -= 2;
        }
        if (read_name(bytes, length, name))
            source->link = find_name(chain, chain->count, name);
    }
    return source->link >= 0 || failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                                            "no op before this one gives \"%s\"", quoted.text);
}

static bool is_text(const msgpack_object *value)
{
    const char *bytes;
    uint32_t length;
    return object_bytes(value, &bytes, &length);
}

/* An f with names in it: one, or a map by axis in which some are. False: it has none, or failed. */
static bool read_f(const msgpack_object *value, const struct request_chain *chain,
                   struct request_link *link, struct arrays *f, struct failure *failure)
{
    if (is_text(value))
        return read_source(value, chain, &link->source[0], failure);
    bool any = false;
    for (uint32_t i = 0; value->type == MSGPACK_OBJECT_MAP && i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        any = any || (request_find_axis(&pair->key, &axis) && is_text(&pair->val));
    }
    if (!any)
        return false;
    f->is_vector = true;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        if (!request_find_axis(&pair->key, &axis) || f->at[axis].kind != ARRAY_NONE)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "f",
                               "a vector field is a map with the keys x, y and z, each once");
        f->at[axis].kind = ARRAY_FIELD;
        const struct failure_place place = arrays_place(f, "f", (int)axis);
        if (is_text(&pair->val) ? !read_source(&pair->val, chain, &link->source[axis], failure)
                                : !array_read(&pair->val, place.text, &f->at[axis], failure))
            return false;
    }
    return true;
}

/* What belongs to the chain and not to its operators. */
static bool is_of_chain(const msgpack_object *key)
{
    static const char *const words[] = {"progress", "dry_run", "priority", "timeout", "detach",
                                        "report",   "every",   "snapshot", "probes",  NULL};
    return request_find_word(key, words) >= 0;
}

/* "out" of a link: a name; else what an operator's is. */
static bool read_out(const msgpack_object *value, struct request_link *link,
                     struct failure *failure)
{
    const char *bytes;
    uint32_t length;
    return !object_bytes(value, &bytes, &length) ||
           (!object_is(value, "inline") && !object_is(value, "field") &&
            read_name(bytes, length, link->name)) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                       "a name is 1 to %d letters, digits and _, but for inline and field; got "
                       "\"%s\"",
                       CHAIN_NAME_BYTES, object_quote(value).text);
}

static bool read_link(const msgpack_object *map, const struct request_chain *chain,
                      struct request_link *link, struct failure *failure)
{
    const msgpack_object *op = NULL;
    uint64_t own = 0; /* pairs that are read here */
    struct arrays f = {0};
    bool has_names = false, has_out = false, has_f = false;
    for (int a = 0; a < AXIS_COUNT; a++)
        link->source[a] = (struct request_source){-1, -1};
    if (map->type != MSGPACK_OBJECT_MAP || map->via.map.size > PAIRS_MOST)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL,
                           "an op is a map: {\"op\": name, …}");
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        bool is_own = false;
        if (is_of_chain(&pair->key))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, object_quote(&pair->key).text,
                               "an op of a chain has no parameter \"%s\": the chain or a job of "
                               "its own may have it",
                               object_quote(&pair->key).text);
        const bool is_out = object_is(&pair->key, "out"), is_f = object_is(&pair->key, "f");
        if ((is_out && has_out) || (is_f && has_f)) { /* one of them may be read elsewhere */
            const char *name = is_f ? "f" : "out";
            return failure_set(failure, STATUS_INVALID_ARGUMENT, name, "%s is given twice", name);
        }
        has_out = has_out || is_out;
        has_f = has_f || is_f;
        if (object_is(&pair->key, "op") && !op) {
            op = &pair->val;
            is_own = true;
        } else if (is_out && is_text(&pair->val)) {
            is_own = read_out(&pair->val, link, failure);
        } else if (is_f) {
            is_own = has_names = read_f(&pair->val, chain, link, &f, failure);
        }
        if (failure->code)
            return false;
        own |= (uint64_t)is_own << i;
    }
    if (!op)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "op", "an op needs its name");
    request_begin(&link->request);
    if (!request_find_method(op, &link->request, failure))
        return false;
    if (link->request.method != METHOD_OPERATOR)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "op", "%s is no operator",
                           link->request.method_name);
    if (!request_read_parameters(map, own, &link->request, failure))
        return false;
    if (link->request.is_mixed)
        return failure_set(failure, STATUS_UNSUPPORTED, "axis",
                           "in a chain a mixed derivative is two derivatives");
    if (!has_names)
        return true;
    link->request.f = f;
    return request_check_regions(&f, failure);
}

static bool read_answer(const msgpack_object *value, enum out_kind *kind)
{
    *kind = object_is(value, "field") ? OUT_NEW_FIELD : OUT_INLINE;
    return *kind == OUT_NEW_FIELD || object_is(value, "inline");
}

/* "out" of the chain: of its last op, or a map by name. */
static bool read_answers(const msgpack_object *value, struct request_chain *chain,
                         struct failure *failure)
{
    const struct request_link *last = &chain->link[chain->count - 1];
    chain->answers = 1;
    chain->answer[0] = (struct request_answer){chain->count - 1, last->request.out};
    if (!value)
        return true;
    if (is_text(value)) {
        if (last->request.out != OUT_INLINE)
            return failure_set(
                failure, STATUS_INVALID_ARGUMENT, "out",
                "out of the chain must be left away: its last op has an out already");
        return read_answer(value, &chain->answer[0].kind) ||
               failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                           "out must be \"inline\", \"field\" or a map of them by name");
    }
    if (value->type != MSGPACK_OBJECT_MAP || value->via.map.size == 0 ||
        value->via.map.size > CHAIN_LINKS)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                           "out must be \"inline\", \"field\" or a map of them by name");
    chain->is_named = true;
    chain->answers = value->via.map.size;
    for (uint32_t i = 0; i < chain->answers; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        struct request_source source;
        struct failure unnamed = {0};
        if (!read_source(&pair->key, chain, &source, &unnamed) || source.component >= 0)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "out", "no op gives \"%s\"",
                               object_quote(&pair->key).text);
        for (uint32_t k = 0; k < i; k++)
            if (chain->answer[k].link == (uint32_t)source.link)
                return failure_set(failure, STATUS_INVALID_ARGUMENT, "out", "\"%s\" is given twice",
                                   object_quote(&pair->key).text);
        chain->answer[i].link = (uint32_t)source.link;
        if (!read_answer(&pair->val, &chain->answer[i].kind))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                               "what is answered of \"%s\" is \"inline\" or \"field\"",
                               object_quote(&pair->key).text);
    }
    return true;
}

static bool read_ops(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (value->type != MSGPACK_OBJECT_ARRAY || value->via.array.size == 0 ||
        value->via.array.size > CHAIN_LINKS) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, "ops", "ops is a list of 1 to %d operators",
                    CHAIN_LINKS);
        request_say_given(value, failure);
        return false;
    }
    const uint32_t count = value->via.array.size;
    struct request_chain *chain = calloc(1, sizeof *chain + count * sizeof *chain->link);
    if (!chain)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    request->chain = chain;
    chain->repeat = request->repeat;
    for (; chain->count < count; chain->count++)
        if (!read_link(&value->via.array.ptr[chain->count], chain, &chain->link[chain->count],
                       failure)) {
            request_chain_place(chain, failure, chain->count);
            return false;
        }
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
                return failure_set(failure, STATUS_INVALID_ARGUMENT, "diffusivity",
                                   "op %u writes field %llu, whose numbers are looked at before "
                                   "any op runs",
                                   i, (unsigned long long)k->field);
    }
    return true;
}

bool request_read_chain(struct request *request, struct failure *failure)
{
    if (!read_ops(request->ops, request, failure))
        return false;
    struct request_chain *chain = request->chain;
    for (uint32_t i = 0; i < chain->count; i++) {
        struct request *link = &chain->link[i].request;
        if ((request->dry_run || request_check_data(link, failure)) &&
            check_diffusivity(chain, link, failure))
            continue;
        request_chain_place(chain, failure, i);
        return false;
    }
    if (!read_answers(request->chain_out, chain, failure))
        return false;
    for (uint32_t i = 0; i < chain->answers && request->detach; i++)
        if (chain->answer[i].kind != OUT_NEW_FIELD && chain->answer[i].kind != OUT_FIELD)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "detach",
                               "without its connection a job must leave its result in a field: "
                               "give out");
    return true;
}
