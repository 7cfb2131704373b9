#include "protocol/request_read.h"

#include "base/near.h"
#include "numerics/boundary.h"
#include "numerics/job_check.h"
#include "numerics/weights.h"
#include "protocol/object.h"
#include "protocol/splitter.h"

#include <math.h>
#include <string.h>

static bool read_f(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (!arrays_read(value, "f", &request->f, failure))
        return false;
    if (request->method == METHOD_PUT && request->f.is_vector)
        return request_invalid(failure, "f", "put takes one array; put the components one by one");
    return request_check_regions(&request->f, failure);
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
    if (request->method == METHOD_CHAIN) { /* it names ops, which may come after it */
        request->chain_out = value;
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
        return request_invalid(failure, "out",
                               "out must be \"inline\" or {\"region\": id, \"offset\": bytes}");
    return request_invalid(
        failure, "out",
        "out must be \"inline\", \"field\", {\"field\": id}, {\"region\": id, "
        "\"offset\": bytes} or, for a vector field, a map by axis of either kind");
}

static bool read_source(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    double *number = &request->job.more.source_value;
    if (request_is_array(value))
        return request_read_operand(value, "source", false, &request->operand[OPERAND_SOURCE],
                                    failure);
    if (!object_real(value, number))
        return request_invalid(failure, "source", "source must be a number, or an array like f");
    *number += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
    return isfinite(*number) || failure_set(failure, STATUS_INVALID_ARGUMENT, "source",
                                            "source must be finite; got %g", *number);
}

static bool read_probes(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    struct array *probes = &request->numbers[NUMBERS_PROBES];
    return numbers_read(value, "probes", probes, failure) &&
           (probes->type.dimensions == 2 ||
            request_invalid(failure, "probes",
                            "probes are a list of indices: [[k, j, i], …], or an array of them"));
}

static bool check_order(int64_t order, struct failure *failure)
{
    return (order >= 0 && order <= WEIGHTS_ORDER) || job_check_order(order, failure);
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
#define TAKES_JOBS (TAKES_OPERATORS | TAKES(PUT) | TAKES(GET) | TAKES(CHAIN))

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
_Static_assert(PARAMETER_COUNT <= 64 && METHOD_OPERATOR + OPERATOR_COUNT <= 64, "a bit for each");
_Static_assert(LIMIT_LISTED == 4096 && LIMIT_DIMENSIONS == 8, "as the table's texts have it");

static uint64_t method_bit(const struct request *request)
{
    return request->method == METHOD_OPERATOR ? BIT(METHOD_OPERATOR + request->job.operator_id)
                                              : BIT(request->method);
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
    return request_invalid(failure, parameter->name, parameter->must);
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
        const int found = request_find_word(value, parameter->words);
        good = found >= 0;
        whole = (uint64_t)(parameter->low + found);
        break;
    }
    case KIND_REAL:
        return object_real(value, place) ||
               request_invalid(failure, parameter->name, parameter->must);
    case KIND_OPERAND:
        return request_read_operand(value, parameter->name, false, place, failure);
    case KIND_NUMBERS:
        return numbers_read(value, parameter->name, place, failure);
    default:
        memcpy(place, &value, sizeof value);
        return true;
    }
    memcpy(place, &whole, parameter->bytes);
    return good || request_invalid(failure, parameter->name, parameter->must);
}

/* Parameters of that method with a name like this. */
static struct near_text near_parameter(const char *name, uint64_t method)
{
    struct near near;
    near_begin(&near, name);
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].methods & method)
            near_try(&near, parameters[p].name);
    return near_text(&near);
}

/* The row of a key that the request's method takes. */
static const struct parameter *
find_parameter(const msgpack_object *key, const struct request *request, struct failure *failure)
{
    const uint64_t bit = method_bit(request);
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].methods & bit && object_is(key, parameters[p].name))
            return &parameters[p];
    const struct quoted quoted = object_quote(key);
    failure_set(failure, STATUS_INVALID_ARGUMENT, quoted.text, "%s has no parameter \"%s\"%s",
                request->method_name, quoted.text, near_parameter(quoted.text, bit).text);
    return NULL;
}

/* What none of the parameters says alone. */
static bool check_together(struct request *request, struct failure *failure)
{
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if (parameters[p].required & method_bit(request) && !(request->given & BIT(p)))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameters[p].name,
                               "%s needs the parameter %s", request->method_name,
                               parameters[p].name);
    if (!(request->given & PARAMETER_BIT(accuracy)) && request->job.more.scheme == SCHEME_ADI)
        request->job.accuracy = 2;
    if (request->snapshot != SNAPSHOT_NONE && !request->every)
        return request_invalid(failure, "snapshot",
                               "a snapshot is taken every so many steps: give every");
    if (request->detach && is_operator(request) && request->out != OUT_NEW_FIELD &&
        request->out != OUT_FIELD)
        return request_invalid(
            failure, "detach",
            "without its connection a job must leave its result in a field: give out");
    return true;
}

/* Those of the map's pairs whose bit is set in `others` are another's to read. */
static bool read_pairs(const msgpack_object *map, uint64_t others, struct request *request,
                       struct failure *failure)
{
    for (uint32_t i = 0; map && i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        if (i < 64 && others & BIT(i)) {
            request->given |= object_is(&pair->key, "f") ? PARAMETER_BIT(f) : 0;
            continue;
        }
        const struct parameter *parameter = find_parameter(&pair->key, request, failure);
        if (!parameter)
            return false;
        const uint64_t bit = BIT(parameter - parameters);
        if (request->given & bit)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter->name,
                               "%s is given twice", parameter->name);
        request->given |= bit;
        if (!read_parameter(parameter, &pair->val, request, failure)) {
            request_say_given(&pair->val, failure);
            return false;
        }
    }
    return true;
}

bool request_read_parameters(const msgpack_object *map, uint64_t others, struct request *request,
                             struct failure *failure)
{
    return read_pairs(map, others, request, failure) && check_together(request, failure);
}

/* What its parameters say where they are not given. */
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
    static const struct {
        const char *name;
        enum method method;
    } methods[] = {
#define METHOD_ROW(enumerator, name) {name, enumerator},
        METHOD_LIST(METHOD_ROW)
#undef METHOD_ROW
    };
    static const char *const later[] = {"metrics", NULL};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (object_is(name, methods[i].name)) {
            request->method = methods[i].method;
            return true;
        }
    if (request_find_word(name, later) >= 0)
        return failure_set(failure, STATUS_UNSUPPORTED, NULL, "%s is not offered yet",
                           request->method_name);
    for (int i = 0; i < OPERATOR_COUNT; i++)
        if (object_is(name, operator_name((enum operator_id)i))) {
            begin_job(&request->job, (enum operator_id)i);
            request->method = METHOD_OPERATOR;
            return true;
        }
    struct near near;
    near_begin(&near, quoted.text);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        near_try(&near, methods[i].name);
    for (int i = 0; i < OPERATOR_COUNT; i++)
        near_try(&near, operator_name((enum operator_id)i));
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
    static const char *const parts[] = {"x", "x-", "x+", "y", "y-", "y+",
                                        "z", "z-", "z+", "*", NULL};
    const msgpack_object name = text_of(&payload->name), outer = text_of(&payload->outer);
    const struct parameter *whole = find_arrays(&name), *by_axis = find_arrays(&outer);
    const bool of_side =
        !whole && (object_is(&name, "const") ||
                   boundary_find(payload->name.text, payload->name.bytes, BOUNDARY_HAS_PLACE) >= 0);
    const int part = request_find_word(of_side ? &outer : &name, parts);
    const struct parameter *parameter = whole ? whole : of_side ? NULL : by_axis;
    *is_numbers = parameter && parameter->kind == KIND_NUMBERS;
    return failure_place(parameter ? parameter->name
                         : of_side ? "boundary"
                                   : "f",
                         whole || part < 0 ? NULL : parts[part]);
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
