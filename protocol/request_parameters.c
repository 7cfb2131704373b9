#include "protocol/request_read.h"

#include "base/near.h"
#include "numerics/boundary.h"
#include "numerics/job_check.h"
#include "protocol/splitter.h"

#include <math.h>
#include <string.h>

static bool read_f(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (request->is_link) { /* it names ops before it */
        request->late_f = value;
        return true;
    }
    return arrays_read(value, "f", &request->f, failure) &&
           (request->method != METHOD_PUT || !request->f.is_vector ||
            invalid_argument(failure, "f", "put takes one array; put the components one by one"));
}

/* Are all components of one kind? */
static bool are_all(const struct arrays *arrays, enum array_kind kind)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (arrays->at[a].kind != ARRAY_NONE && arrays->at[a].kind != kind)
            return false;
    return true;
}

static bool is_operator(const struct request *request)
{
    return request->method == METHOD_OPERATOR || request->method == METHOD_HESSIAN;
}

static bool read_out(const msgpack_object *value, struct request *request, struct failure *failure)
{
    const bool computes = is_operator(request);
    if (request->method == METHOD_CHAIN || /* it names ops, which may come after it, or itself */
        (request->is_link && object_is_text(value))) {
        request->late_out = value;
        return true;
    }
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
        return invalid_argument(failure, "out",
                                "out must be \"inline\" or {\"region\": id, \"offset\": bytes}");
    return invalid_argument(
        failure, "out",
        "out must be \"inline\", \"field\", {\"field\": id}, {\"region\": id, "
        "\"offset\": bytes} or, for a vector field, a map by axis of either kind");
}

static bool read_source(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    double *number = &request->job.more.source_value;
    if (request_is_array(value))
        return request_read_operand(value, "source", &request->operand[OPERAND_SOURCE], failure);
    if (!object_real(value, number))
        return invalid_argument(failure, "source", "source must be a number, or an array like f");
    *number += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
    return isfinite(*number) ||
           invalid_argument(failure, "source", "source must be finite; got %g", *number);
}

static bool read_probes(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    struct array *probes = &request->numbers[NUMBERS_PROBES];
    return numbers_read(value, "probes", probes, failure) &&
           (probes->type.dimensions == 2 ||
            invalid_argument(failure, "probes",
                             "probes are a list of indices: [[k, j, i], …], or an array of them"));
}

static bool read_placement(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    const char *bytes;
    uint32_t length;
    bool good =
        object_bytes(value, &bytes, &length) && length >= 1 && length < sizeof request->placement;
    for (uint32_t i = 0; good && i < length; i++)
        good = (bytes[i] >= 'a' && bytes[i] <= 'z') || (bytes[i] >= 'A' && bytes[i] <= 'Z') ||
               (bytes[i] >= '-' && bytes[i] <= ':') || bytes[i] == '_';
    if (!good)
        return invalid_argument(
            failure, "placement",
            "placement must be \"spread\" or the name of a device, as \"cuda:1\"");
    memcpy(request->placement, bytes, length); /* the rest is 0 */
    return true;
}

static bool check_order(int64_t order, struct failure *failure)
{
    return order == 0 || job_check_order(order, failure);
}

/* What a parameter's value is. */
enum kind {
    KIND_OWN, /* as its reader has it */
    KIND_BOOLEAN,
    KIND_WHOLE,   /* a number from low to high, or as check() has it */
    KIND_REAL,    /* a number */
    KIND_WORD,    /* one of `words`, counted from low */
    KIND_OBJECT,  /* where it stands in the message, to be read later */
    KIND_OPERAND, /* an array that the job reads beside f, or what its reader takes in its place */
    KIND_NUMBERS  /* request.numbers from low to high; its reader's, or of low */
};

enum { WORDS = 4 };

/* Which method takes which parameter: one bit a method, the operators after METHOD_OPERATOR. */
#define BIT(number) (UINT64_C(1) << (number))
#define TAKES(method) BIT(METHOD_##method)
#define TAKES_OPERATOR(id) BIT(METHOD_OPERATOR + OPERATOR_##id)
#define TAKES_OPERATORS ((BIT(OPERATOR_COUNT) - 1) << METHOD_OPERATOR | TAKES(HESSIAN))
#define ALONE BIT(62)    /* not as an op of a chain */
#define IN_CHAIN BIT(63) /* only there */
#define TAKES_JOBS (TAKES_OPERATORS | TAKES(PUT) | TAKES(GET) | TAKES(EXPORT) | TAKES(CHAIN))

#define AT(member) offsetof(struct request, member), sizeof(((struct request *)NULL)->member)
#define OWN(reader) KIND_OWN, 0, 0, .read = reader
#define BOOLEAN(member) KIND_BOOLEAN, AT(member), .must = "must be true or false"
#define WHOLE(member, from, to, text) KIND_WHOLE, AT(member), from, to, .must = text
#define CHECKED(member, from, checks, text)                                                        \
    KIND_WHOLE, AT(member), from, .check = checks, .must = text
#define REAL(member, text) KIND_REAL, AT(member), .must = text
#define WORD(member, from, text, ...)                                                              \
    KIND_WORD, AT(member), from, .must = text, .words = {__VA_ARGS__}
#define OBJECT(member) KIND_OBJECT, AT(member), .read = NULL
#define OPERAND(from, reader) KIND_OPERAND, AT(operand[from]), .read = reader
#define NUMBERS(from, to, reader) KIND_NUMBERS, AT(numbers[from]), from, to, .read = reader
#define PARAMETER(name, client, methods, required, ...)                                            \
    [PARAMETER_##name] = {#name, methods, required, __VA_ARGS__},

static const struct parameter {
    const char *name;
    uint64_t methods, required; /* by these of them */
    enum kind kind;
    size_t place, bytes; /* in struct request, which is filled with little-endian integers */
    int64_t low;
    uint64_t high;
    parameter_reader *read;
    bool (*check)(int64_t value, struct failure *failure);
    const char *words[WORDS]; /* the last is NULL */
    const char *must;         /* as an error says it */
} parameters[] = {
#include "protocol/parameters.inc"
};
_Static_assert(PARAMETER_COUNT <= 64 && METHOD_OPERATOR + OPERATOR_COUNT <= 62, "a bit for each");
_Static_assert(LIMIT_LISTED == 4096 && LIMIT_DIMENSIONS == 8, "as the table's texts have it");

static uint64_t method_bit(const struct request *request)
{
    return BIT(request->method +
               (request->method == METHOD_OPERATOR ? request->job.operator_id : 0));
}

bool request_is_job(const struct request *request)
{
    return request->method != METHOD_COUNT && TAKES_JOBS & method_bit(request);
}

static bool read_whole(const struct parameter *parameter, const msgpack_object *value,
                       uint64_t *number, struct failure *failure)
{
    int64_t below = 0;
    if (object_signed(value, &below) && (parameter->check || below < 0)) {
        *number = (uint64_t)below;
        if (parameter->check)
            return parameter->check(below, failure);
        if (below >= parameter->low)
            return true;
    } else if (!parameter->check && object_unsigned(value, number) &&
               (parameter->low <= 0 || *number >= (uint64_t)parameter->low) &&
               *number <= parameter->high) {
        return true;
    }
    return invalid_argument(failure, parameter->name, "%s", parameter->must);
}

static bool read_parameter(const struct parameter *parameter, const msgpack_object *value,
                           struct request *request, struct failure *failure)
{
    void *const place = (char *)request + parameter->place;
    uint64_t whole = 0;
    bool boolean = false, good = true;
    if (parameter->read)
        return parameter->read(value, request, failure);
    switch (parameter->kind) {
    case KIND_BOOLEAN:
        good = object_boolean(value, &boolean);
        whole = boolean;
        break;
    case KIND_WHOLE:
        if (!read_whole(parameter, value, &whole, failure))
            return false;
        break;
    case KIND_WORD: {
        const int found = object_find_word(value, parameter->words);
        good = found >= 0;
        whole = (uint64_t)(parameter->low + found);
        break;
    }
    case KIND_REAL:
        return object_real(value, place) ||
               invalid_argument(failure, parameter->name, "%s", parameter->must);
    case KIND_OPERAND:
        return request_read_operand(value, parameter->name, place, failure);
    case KIND_NUMBERS:
        return numbers_read(value, parameter->name, place, failure);
    default:
        memcpy(place, &value, sizeof value);
        return true;
    }
    memcpy(place, &whole, parameter->bytes);
    return good || invalid_argument(failure, parameter->name, "%s", parameter->must);
}

/* Is it one of the method, and not of `others` alone? */
static bool is_taken(const struct parameter *parameter, uint64_t method, uint64_t others)
{
    return (parameter->methods & (method | others)) == method;
}

/* The row of a key that the request's method takes; NULL with the failure set. */
static const struct parameter *
find_parameter(const msgpack_object *key, const struct request *request, struct failure *failure)
{
    const uint64_t method = method_bit(request), others = request->is_link ? ALONE : IN_CHAIN;
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (is_taken(&parameters[p], method, others) && object_is(key, parameters[p].name))
            return &parameters[p];
    const struct quoted quoted = object_quote(key);
    struct near near;
    near_begin(&near, quoted.text);
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (is_taken(&parameters[p], method, others))
            near_try(&near, parameters[p].name);
    invalid_argument(failure, quoted.text, "%s has no parameter \"%s\"%s%s", request->method_name,
                     quoted.text, request->is_link ? " in a chain" : "", near_text(&near).text);
    return NULL;
}

/* Constraints between parameters. */
static bool check_together(struct request *request, struct failure *failure)
{
    const uint64_t method = method_bit(request);
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].required & method && !(request->given & BIT(p)))
            return invalid_argument(failure, parameters[p].name, "%s needs the parameter %s",
                                    request->method_name, parameters[p].name);
    if (!(request->given & PARAMETER_BIT(accuracy)) && request->job.more.scheme == SCHEME_ADI)
        request->job.accuracy = 2;
    if (request->snapshot != SNAPSHOT_NONE && !request->every)
        return invalid_argument(failure, "snapshot",
                                "a snapshot is taken every so many steps: give every");
    if (request->detach && is_operator(request) && request->out != OUT_NEW_FIELD &&
        request->out != OUT_FIELD)
        return invalid_argument(
            failure, "detach",
            "without its connection a job must leave its result in a field: give out");
    return true;
}

bool request_read_parameters(const msgpack_object *map, struct request *request,
                             struct failure *failure)
{
    for (uint32_t i = 0; map && i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        const struct parameter *parameter = find_parameter(&pair->key, request, failure);
        if (!parameter)
            return false;
        const uint64_t bit = BIT(parameter - parameters);
        if (request->given & bit)
            return invalid_argument(failure, parameter->name, "%s is given twice", parameter->name);
        request->given |= bit;
        if (!read_parameter(parameter, &pair->val, request, failure)) {
            request_say_given(&pair->val, failure);
            return false;
        }
    }
    return check_together(request, failure);
}

/* The defaults of its parameters. */
static void begin_job(struct job *job, enum operator_id operator_id)
{
    job->operator_id = (uint8_t)operator_id;
    job->order = (uint8_t)job_order(job);
    if (operator_id == OPERATOR_INTERPOLATE)
        job->more.stagger = STAGGER_FORWARD;
    for (int a = 0; a < AXIS_COUNT && operator_id == OPERATOR_DIFFUSION; a++)
        job->diffusivity[a] = 1;
}

bool request_find_method(const msgpack_object *name, struct request *request,
                         struct failure *failure)
{
    const struct quoted quoted = object_quote(name);
    memcpy(request->method_name, quoted.text, LIMIT_METHOD_BYTES);
#define NAME(enumerator, name) name,
    static const char *const names[] = {METHOD_LIST(NAME) OPERATOR_LIST(NAME) NULL};
#undef NAME
    const int found = object_find_word(name, names);
    if (found >= METHOD_OPERATOR)
        begin_job(&request->job, (enum operator_id)(found - METHOD_OPERATOR));
    if (found >= 0) {
        request->method = found < METHOD_OPERATOR ? (enum method)found : METHOD_OPERATOR;
        return true;
    }
    if (object_is(name, "metrics"))
        return failure_set(failure, STATUS_UNSUPPORTED, NULL, "metrics is not offered yet");
    struct near near;
    near_begin(&near, quoted.text);
    for (size_t i = 0; names[i]; i++)
        near_try(&near, names[i]);
    return failure_set(failure, STATUS_UNKNOWN_METHOD, NULL, "no method is called \"%s\"%s",
                       quoted.text, near.count ? near_text(&near).text : "; info lists them");
}

void request_begin(struct request *request)
{
    memset(request, 0, sizeof *request);
    request->method = METHOD_COUNT;
    request->out = OUT_INLINE;
    request->writable = true;
    request->limit = LIMIT_LISTED;
    request->repeat = 1;
    job_init(&request->job);
}

static msgpack_object text_of(const struct splitter_name *name)
{
    return (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {name->bytes, name->text}};
}

/* The row of a parameter of many numbers or of an operand; NULL: the key is none. */
static const struct parameter *find_arrays(const msgpack_object *key)
{
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].kind >= KIND_OPERAND && object_is(key, parameters[p].name))
            return &parameters[p];
    return NULL;
}

struct failure_place request_payload_place(const struct splitter_payload *payload, bool *is_numbers)
{
    const msgpack_object name = text_of(&payload->name), outer = text_of(&payload->outer);
    const struct parameter *whole = find_arrays(&name), *by_axis = find_arrays(&outer);
    const bool of_side =
        !whole && (object_is(&name, "const") ||
                   boundary_find(payload->name.text, payload->name.bytes, BOUNDARY_HAS_PLACE) >= 0);
    const int part = object_find_word(of_side ? &outer : &name, request_side_keys);
    const struct parameter *parameter = whole ? whole : of_side ? NULL : by_axis;
    *is_numbers = parameter && parameter->kind == KIND_NUMBERS;
    return failure_place(parameter ? parameter->name
                         : of_side ? "boundary"
                                   : "f",
                         whole || part < 0 ? NULL : request_side_keys[part]);
}

const char *request_numbers_name(enum request_numbers numbers)
{
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].kind == KIND_NUMBERS && parameters[p].low <= (int64_t)numbers &&
            parameters[p].high >= (uint64_t)numbers)
            return parameters[p].name;
    return NULL;
}

int64_t request_parameter_low(enum parameter_id parameter)
{
    return parameters[parameter].kind == KIND_WHOLE ? parameters[parameter].low : 0;
}
