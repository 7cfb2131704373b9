#include "protocol/request.h"

#include "protocol/object.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_REQUEST = 0, TYPE_NOTIFICATION = 2 };

static bool invalid(struct failure *failure, const char *parameter, const char *text)
{
    return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter, "%s", text);
}

/* One parameter's value into the request. */
typedef bool parameter_reader(const msgpack_object *value, struct request *request,
                              struct failure *failure);

static bool read_f(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (!arrays_read(value, "f", &request->f, failure))
        return false;
    if (request->method == METHOD_PUT && request->f.is_vector)
        return invalid(failure, "f", "put takes one array; put the components one by one");
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct array *array = &request->f.at[a];
        if (array->kind == ARRAY_REGION && array->type.dimensions == 0)
            return invalid(failure, arrays_place(&request->f, "f", a).text,
                           "an input in a region needs its shape and type");
    }
    return true;
}

static bool read_field(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return object_unsigned(value, &request->field) ||
           invalid(failure, "field", "a field's id is an unsigned integer");
}

static bool read_region(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return object_unsigned(value, &request->region) ||
           invalid(failure, "region", "a region's id is an unsigned integer");
}

static bool read_bytes(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return (object_unsigned(value, &request->bytes) && request->bytes > 0) ||
           invalid(failure, "bytes", "bytes must be a whole number from 1 up");
}

/* Are all components of one kind? */
static bool are_all(const struct arrays *arrays, enum array_kind kind)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (arrays->at[a].kind != ARRAY_NONE && arrays->at[a].kind != kind)
            return false;
    return true;
}

static bool read_out(const msgpack_object *value, struct request *request, struct failure *failure)
{
    const bool computes = request->method == METHOD_OPERATOR;
    if (object_is(value, "inline")) {
        request->out = OUT_INLINE;
        return true;
    }
    if (object_is(value, "field") && computes) {
        request->out = OUT_NEW_FIELD;
        return true;
    }
    if (value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd")) {
        if (!arrays_read(value, "out", &request->out_place, failure))
            return false;
        request->out = OUT_FIELD;
        if (are_all(&request->out_place, ARRAY_FIELD) && computes)
            return true;
        request->out = OUT_REGION;
        if (are_all(&request->out_place, ARRAY_REGION) &&
            (computes || !request->out_place.is_vector))
            return true;
    }
    if (!computes)
        return invalid(failure, "out",
                       "out must be \"inline\" or {\"region\": id, \"offset\": bytes}");
    return invalid(failure, "out",
                   "out must be \"inline\", \"field\", {\"field\": id}, {\"region\": id, "
                   "\"offset\": bytes} or, for a vector field, a map by axis of either kind");
}

static bool read_boolean(const msgpack_object *value, const char *parameter, bool *to,
                         struct failure *failure)
{
    return object_boolean(value, to) || invalid(failure, parameter, "must be true or false");
}

static bool read_writable(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    return read_boolean(value, "writable", &request->writable, failure);
}

static bool read_progress(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    return read_boolean(value, "progress", &request->progress, failure);
}

static bool read_dry_run(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    return read_boolean(value, "dry_run", &request->dry_run, failure);
}

static bool read_allow_unstable(const msgpack_object *value, struct request *request,
                                struct failure *failure)
{
    return read_boolean(value, "allow_unstable", &request->parameters.allow_unstable, failure);
}

static bool read_cancel(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return object_unsigned(value, &request->cancel) ||
           invalid(failure, "msgid", "a msgid is an unsigned integer");
}

static bool read_priority(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    int64_t priority;
    if (!object_signed(value, &priority) || priority < -REQUEST_PRIORITY_MOST ||
        priority > REQUEST_PRIORITY_MOST)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "priority",
                           "priority must be a whole number from %d to %d", -REQUEST_PRIORITY_MOST,
                           REQUEST_PRIORITY_MOST);
    request->priority = (int)priority;
    return true;
}

static bool read_timeout(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    return (object_unsigned(value, &request->timeout_us) && request->timeout_us > 0) ||
           invalid(failure, "timeout", "timeout must be a whole number of microseconds from 1 up");
}

static bool read_detach(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return read_boolean(value, "detach", &request->detach, failure);
}

static bool find_axis(const msgpack_object *object, enum axis *axis)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (object_is(object, axis_name((enum axis)a))) {
            *axis = (enum axis)a;
            return true;
        }
    return false;
}

static bool read_axis(const msgpack_object *value, struct request *request, struct failure *failure)
{
    request->parameters.has_axis = true;
    if (find_axis(value, &request->parameters.axis))
        return true;
    request->parameters.axis_is_number = true;
    return object_signed(value, &request->parameters.axis_number) ||
           invalid(failure, "axis", "axis must be \"x\", \"y\", \"z\" or a NumPy axis number");
}

static bool read_order(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    int64_t order;
    if (!object_signed(value, &order))
        return invalid(failure, "order", "order must be a whole number");
    if (!job_check_order(order, failure))
        return false;
    request->parameters.order = (int)order;
    return true;
}

static bool read_accuracy(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    int64_t accuracy;
    if (!object_signed(value, &accuracy))
        return invalid(failure, "accuracy", "accuracy must be a whole number: 2, 4, 6 or 8");
    if (!job_check_accuracy(accuracy, failure))
        return false;
    request->parameters.accuracy = (int)accuracy;
    return true;
}

static bool read_batch(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    uint64_t batch;
    if (!object_unsigned(value, &batch) || batch >= LIMIT_DIMENSIONS)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "batch",
                           "batch must be a number of leading axes, 0 to %d", LIMIT_DIMENSIONS - 1);
    request->parameters.batch = (uint32_t)batch;
    return true;
}

static bool read_steps(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return (object_unsigned(value, &request->parameters.steps) && request->parameters.steps > 0) ||
           invalid(failure, "steps", "steps must be a whole number from 1 up");
}

static bool read_dt(const msgpack_object *value, struct request *request, struct failure *failure)
{
    request->parameters.has_dt = true;
    return object_real(value, &request->parameters.dt) ||
           invalid(failure, "dt", "dt must be a number");
}

static bool read_cfl(const msgpack_object *value, struct request *request, struct failure *failure)
{
    request->parameters.has_cfl = true;
    return object_real(value, &request->parameters.cfl) ||
           invalid(failure, "cfl", "cfl must be a number");
}

/* Per-axis parameters */

/* A number in the place of an axis's value. */
static bool read_axis_number(const msgpack_object *value, const char *parameter, double *number,
                             struct failure *failure)
{
    if (object_real(value, number))
        return true;
    if (object_find(value, "shape") || object_find(value, "field") || object_find(value, "region"))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "an array in the place of a number is not offered yet");
    return invalid(failure, parameter, "must be a number, or a map of numbers by axis");
}

static bool is_axis_map(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd") &&
           !object_find(value, "field") && !object_find(value, "region");
}

/* The key of a map by axis: 0 … 2 an axis, AXIS_COUNT the rest ("*"). Refuses what is none, and a
 * key that is in `seen` already. */
static bool read_axis_key(const msgpack_object *key, const char *parameter, unsigned *seen,
                          enum axis *axis, struct failure *failure)
{
    *axis = AXIS_COUNT;
    if (!find_axis(key, axis) && !object_is(key, "*"))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "keys are x, y, z and *; got \"%s\"", object_quote(key).text);
    if (*seen & 1u << *axis)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "the key \"%s\" is given twice", object_quote(key).text);
    *seen |= 1u << *axis;
    return true;
}

static bool read_per_axis(const msgpack_object *value, const char *parameter, struct per_axis *to,
                          struct failure *failure)
{
    if (!is_axis_map(value)) {
        to->has_all = 1;
        return read_axis_number(value, parameter, &to->all, failure);
    }
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        if (!read_axis_key(&pair->key, parameter, &seen, &axis, failure))
            return false;
        const bool all = axis == AXIS_COUNT;
        const struct failure_place place = failure_place(parameter, all ? "*" : axis_name(axis));
        if (!read_axis_number(&pair->val, place.text, all ? &to->all : &to->value[axis], failure))
            return false;
        *(all ? &to->has_all : &to->has[axis]) = 1;
    }
    return true;
}

static bool read_spacing(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    struct per_axis *to = &request->parameters.spacing;
    if (value->type != MSGPACK_OBJECT_ARRAY)
        return read_per_axis(value, "spacing", to, failure);
    if (value->via.array.size < 1 || value->via.array.size > AXIS_COUNT)
        return invalid(failure, "spacing",
                       "a list of spacings has one number for each axis of space");
    for (uint32_t i = 0; i < value->via.array.size; i++)
        if (!read_axis_number(&value->via.array.ptr[i], "spacing", &to->list[i], failure))
            return false;
    to->list_count = (uint8_t)value->via.array.size;
    return true;
}

static bool read_diffusivity(const msgpack_object *value, struct request *request,
                             struct failure *failure)
{
    return read_per_axis(value, "diffusivity", &request->parameters.diffusivity, failure);
}

static bool read_endpoint(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    bool on;
    if (object_boolean(value, &on)) {
        request->parameters.endpoint.has_all = 1;
        request->parameters.endpoint.all = on;
        return true;
    }
    if (!is_axis_map(value))
        return invalid(failure, "endpoint",
                       "endpoint must be true, false or a map of them by axis");
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        if (!read_axis_key(&pair->key, "endpoint", &seen, &axis, failure))
            return false;
        const bool all = axis == AXIS_COUNT;
        if (!read_boolean(&pair->val, failure_place("endpoint", all ? "*" : axis_name(axis)).text,
                          &on, failure))
            return false;
        if (all) {
            request->parameters.endpoint.has_all = 1;
            request->parameters.endpoint.all = on;
        } else {
            request->parameters.endpoint.has[axis] = 1;
            request->parameters.endpoint.value[axis] = on;
        }
    }
    return true;
}

/* Boundaries */

static bool is_one_of(const msgpack_object *object, const char *const *words)
{
    for (; *words; words++)
        if (object_is(object, *words))
            return true;
    return false;
}

static bool read_boundary_word(const msgpack_object *word, const char *label,
                               struct boundary *boundary, struct failure *failure)
{
    static const char *const later[] = {"symmetric", "mirror",    "antisymmetric",
                                        "mixed",     "curvature", NULL};
    static const char *const with_number[] = {"value", "derivative", "halo", NULL};
    if (object_is(word, "periodic")) {
        boundary->kind = BOUNDARY_PERIODIC;
        return true;
    }
    if (object_is(word, "one-sided")) {
        boundary->kind = BOUNDARY_ONE_SIDED;
        return true;
    }
    const struct quoted quoted = object_quote(word);
    if (object_is(word, "reflect"))
        return invalid(failure, label,
                       "\"reflect\" means two things, by library: say symmetric or mirror");
    if (object_is(word, "endpoint"))
        return invalid(failure, label, "use the parameter endpoint: true, and boundary periodic");
    if (is_one_of(word, later))
        return failure_set(failure, STATUS_UNSUPPORTED, label, "boundary %s is not offered yet",
                           quoted.text);
    if (is_one_of(word, with_number))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                           "boundary %s needs its number: {\"%s\": number}", quoted.text,
                           quoted.text);
    return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                       "no boundary is called \"%s\"; there are periodic, one-sided, value, "
                       "derivative and halo",
                       quoted.text);
}

static const char *const boundary_map_words[] = {
    "value", "derivative", "halo", "mixed", "const", "curvature", "at", "type", NULL};

/* Is it one boundary, such as {"value": 0}, and not a map by side? */
static bool is_boundary_map(const msgpack_object *map)
{
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (is_one_of(&map->via.map.ptr[i].key, boundary_map_words))
            return true;
    return false;
}

/* {"value": v}, {"derivative": v} or {"halo": factor}. */
static bool read_boundary_map(const msgpack_object *map, const char *label,
                              struct boundary *boundary, struct failure *failure)
{
    static const char *const later[] = {"mixed", "const", "curvature", "at", NULL};
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (is_one_of(&map->via.map.ptr[i].key, later))
            return failure_set(failure, STATUS_UNSUPPORTED, label,
                               "boundary key \"%s\" is not offered yet",
                               object_quote(&map->via.map.ptr[i].key).text);
    if (map->via.map.size != 1)
        return invalid(failure, label, "a boundary has one key: value, derivative or halo");
    const msgpack_object_kv *pair = &map->via.map.ptr[0];
    if (!read_axis_number(&pair->val, label, &boundary->value, failure))
        return false;
    if (object_is(&pair->key, "value"))
        boundary->kind = BOUNDARY_VALUE;
    else if (object_is(&pair->key, "halo"))
        boundary->kind = BOUNDARY_HALO;
    else if (object_is(&pair->key, "derivative"))
        boundary->kind = BOUNDARY_DERIVATIVE;
    else
        return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                           "a boundary has no key \"%s\"; say value, derivative or halo",
                           object_quote(&pair->key).text);
    if (boundary->kind == BOUNDARY_DERIVATIVE && boundary->value == 0)
        boundary->value = 0; /* −0 too: equal jobs are equal bytes */
    return true;
}

static bool read_one_boundary(const msgpack_object *value, const char *label,
                              struct boundary *boundary, struct failure *failure)
{
    memset(boundary, 0, sizeof *boundary);
    if (value->type == MSGPACK_OBJECT_MAP)
        return read_boundary_map(value, label, boundary, failure);
    const char *bytes;
    uint32_t length;
    if (!object_bytes(value, &bytes, &length))
        return invalid(failure, label, "a boundary is a word or a map such as {\"value\": 0}");
    return read_boundary_word(value, label, boundary, failure);
}

/* A key of a map by side: "x", "x-", "x+", … or "*". *side is SIDE_COUNT for both. */
static bool find_side(const msgpack_object *key, enum axis *axis, int *side)
{
    const char *bytes;
    uint32_t length;
    *axis = AXIS_COUNT;
    *side = SIDE_COUNT;
    if (find_axis(key, axis) || object_is(key, "*"))
        return true;
    if (!object_bytes(key, &bytes, &length) || length != 2 || bytes[0] < 'x' || bytes[0] > 'z' ||
        (bytes[1] != '-' && bytes[1] != '+'))
        return false;
    *axis = (enum axis)(AXIS_X + (bytes[0] - 'x'));
    *side = bytes[1] == '-' ? SIDE_LOW : SIDE_HIGH;
    return true;
}

static bool read_boundary(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    if (value->type != MSGPACK_OBJECT_MAP || is_boundary_map(value)) {
        request->parameters.boundary.has_all = 1;
        return read_one_boundary(value, "boundary", &request->parameters.boundary.all, failure);
    }
    bool exact[AXIS_COUNT][SIDE_COUNT] = {{false}}; /* named by side, which goes before its axis */
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        int side;
        const struct quoted key = object_quote(&pair->key);
        if (!find_side(&pair->key, &axis, &side))
            return failure_set(
                failure, STATUS_INVALID_ARGUMENT, "boundary",
                "no side is called \"%s\"; there are x, x-, x+, y, y-, y+, z, z-, z+ "
                "and *",
                key.text);
        const unsigned bit = 1u << ((unsigned)axis * (SIDE_COUNT + 1) + (unsigned)side);
        if (seen & bit)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "boundary",
                               "the key \"%s\" is given twice", key.text);
        seen |= bit;
        struct boundary boundary;
        if (!read_one_boundary(&pair->val, failure_place("boundary", key.text).text, &boundary,
                               failure))
            return false;
        if (axis == AXIS_COUNT) {
            request->parameters.boundary.has_all = 1;
            request->parameters.boundary.all = boundary;
            continue;
        }
        for (int s = 0; s < SIDE_COUNT; s++) {
            if (side == s || (side == SIDE_COUNT && !exact[axis][s])) {
                request->parameters.boundary.has[axis][s] = 1;
                request->parameters.boundary.side[axis][s] = boundary;
            }
            exact[axis][s] = exact[axis][s] || side == s;
        }
    }
    return true;
}

/* Which method takes which parameter: one bit a method, the operators after METHOD_OPERATOR. */

#define TAKES(method) (1u << (method))
#define TAKES_OPERATOR(id) (1u << (METHOD_OPERATOR + (id)))
#define TAKES_OPERATORS (((1u << OPERATOR_COUNT) - 1) << METHOD_OPERATOR)
#define TAKES_JOBS (TAKES_OPERATORS | TAKES(METHOD_PUT) | TAKES(METHOD_GET))

static const struct parameter {
    const char *name;
    unsigned methods;
    unsigned required; /* by these of them */
    parameter_reader *read;
} parameters[] = {
    {"f", TAKES_OPERATORS | TAKES(METHOD_PUT), TAKES_OPERATORS | TAKES(METHOD_PUT), read_f},
    {"field", TAKES(METHOD_GET) | TAKES(METHOD_FREE), TAKES(METHOD_GET) | TAKES(METHOD_FREE),
     read_field},
    {"region", TAKES(METHOD_UNREGISTER), TAKES(METHOD_UNREGISTER), read_region},
    {"bytes", TAKES(METHOD_REGISTER), TAKES(METHOD_REGISTER), read_bytes},
    {"writable", TAKES(METHOD_REGISTER), 0, read_writable},
    {"out", TAKES_OPERATORS | TAKES(METHOD_GET), 0, read_out},
    {"progress", TAKES_OPERATORS, 0, read_progress},
    {"dry_run", TAKES_OPERATORS, 0, read_dry_run},
    {"priority", TAKES_JOBS, 0, read_priority},
    {"timeout", TAKES_JOBS, 0, read_timeout},
    {"detach", TAKES_OPERATORS | TAKES(METHOD_PUT), 0, read_detach},
    {"msgid", TAKES(METHOD_CANCEL), TAKES(METHOD_CANCEL), read_cancel},
    {"accuracy", TAKES_OPERATORS, 0, read_accuracy},
    {"spacing", TAKES_OPERATORS, 0, read_spacing},
    {"boundary", TAKES_OPERATORS, 0, read_boundary},
    {"endpoint", TAKES_OPERATORS, 0, read_endpoint},
    {"batch", TAKES_OPERATORS, 0, read_batch},
    {"axis", TAKES_OPERATOR(OPERATOR_DERIVATIVE), 0, read_axis},
    {"order", TAKES_OPERATOR(OPERATOR_DERIVATIVE), 0, read_order},
    {"steps", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_steps},
    {"dt", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_dt},
    {"cfl", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_cfl},
    {"diffusivity", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_diffusivity},
    {"allow_unstable", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_allow_unstable},
};
#define PARAMETER_COUNT (sizeof parameters / sizeof *parameters)

static unsigned method_bit(const struct request *request)
{
    return request->method == METHOD_OPERATOR ? TAKES_OPERATOR(request->parameters.operator_id)
                                              : TAKES(request->method);
}

static bool read_parameters(const msgpack_object *map, struct request *request,
                            struct failure *failure)
{
    const unsigned bit = method_bit(request);
    const uint32_t count = map ? map->via.map.size : 0;
    unsigned seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        size_t p = 0;
        while (p < PARAMETER_COUNT && !object_is(&pair->key, parameters[p].name))
            p++;
        const struct quoted key = object_quote(&pair->key);
        if (p == PARAMETER_COUNT || !(parameters[p].methods & bit))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, key.text,
                               "%s has no parameter \"%s\"", request->method_name, key.text);
        if (seen & 1u << p)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, key.text, "%s is given twice",
                               key.text);
        seen |= 1u << p;
        if (!parameters[p].read(&pair->val, request, failure))
            return false;
    }
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if ((parameters[p].required & bit) && !(seen & 1u << p))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameters[p].name,
                               "%s needs the parameter %s", request->method_name,
                               parameters[p].name);
    for (int a = 0; a < AXIS_COUNT && !request->dry_run; a++)
        if (request->f.at[a].kind == ARRAY_DESCRIBED)
            return invalid(failure, arrays_place(&request->f, "f", a).text,
                           "the array's data is missing");
    if (request->detach && request->method == METHOD_OPERATOR && request->out != OUT_NEW_FIELD &&
        request->out != OUT_FIELD)
        return invalid(failure, "detach",
                       "without its connection a job must leave its result in a field: give out");
    return true;
}

static bool find_method(const msgpack_object *name, struct request *request,
                        struct failure *failure)
{
    static const struct {
        const char *name;
        enum method method;
    } methods[] = {
#define METHOD_ROW(enumerator, name) {name, enumerator},
        METHOD_LIST(METHOD_ROW)
#undef METHOD_ROW
    };
    static const char *const later[] = {"stencil", "chain", "metrics", NULL};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (object_is(name, methods[i].name)) {
            request->method = methods[i].method;
            return true;
        }
    if (is_one_of(name, later))
        return failure_set(failure, STATUS_UNSUPPORTED, NULL, "%s is not offered yet",
                           request->method_name);
    for (int i = 0; i < OPERATOR_COUNT; i++)
        if (object_is(name, operator_name((enum operator_id)i))) {
            request->method = METHOD_OPERATOR;
            request->parameters.operator_id = (enum operator_id)i;
            return true;
        }
    return failure_set(failure, STATUS_UNKNOWN_METHOD, NULL, "no method is called \"%s\"",
                       object_quote(name).text);
}

static void set_defaults(struct request *request)
{
    memset(request, 0, sizeof *request);
    request->method = METHOD_COUNT;
    request->out = OUT_INLINE;
    request->writable = true;
    request->parameters.order = 1;
    request->parameters.accuracy = 8;
    request->parameters.steps = 1;
}

static bool malformed(struct failure *failure, const char *text)
{
    return failure_set(failure, STATUS_PROTOCOL, NULL, "%s", text);
}

bool request_is_job(const struct request *request)
{
    return request->method == METHOD_OPERATOR || request->method == METHOD_PUT ||
           request->method == METHOD_GET;
}

bool request_decode(const msgpack_object *object, struct request *request, bool *has_msgid,
                    struct failure *failure)
{
    set_defaults(request);
    *has_msgid = false;
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < 1)
        return malformed(failure, "a message is [0, msgid, method, [params]]");
    const msgpack_object *const items = object->via.array.ptr;
    const uint32_t count = object->via.array.size;
    uint64_t type;
    if (items[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
        ((type = items[0].via.u64) != TYPE_REQUEST && type != TYPE_NOTIFICATION))
        return malformed(failure, "a message's type must be 0 (request) or 2 (notification)");
    if (type == TYPE_NOTIFICATION) {
        request->is_notification = true;
        return true;
    }
    if (count < 2 || items[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return malformed(failure, "a request's msgid must be an unsigned integer");
    request->msgid = items[1].via.u64;
    *has_msgid = true;
    if (count != 4)
        return malformed(failure, "a request is [0, msgid, method, [params]]");
    const char *name;
    uint32_t length;
    if (!object_bytes(&items[2], &name, &length))
        return malformed(failure, "a request's method must be a string");
    const struct quoted quoted = object_quote(&items[2]);
    memcpy(request->method_name, quoted.text, LIMIT_METHOD_BYTES);
    if (!find_method(&items[2], request, failure))
        return false;
    if (items[3].type != MSGPACK_OBJECT_ARRAY)
        return malformed(failure, "a request's params must be a list of one map");
    const uint32_t given = items[3].via.array.size;
    const msgpack_object *map = given == 1 ? &items[3].via.array.ptr[0] : NULL;
    if (map && map->type == MSGPACK_OBJECT_NIL)
        map = NULL;
    if (given > 1 || (map && map->type != MSGPACK_OBJECT_MAP))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL,
                           "params must be one map of named parameters: [{\"name\": value, …}]");
    return read_parameters(map, request, failure);
}
