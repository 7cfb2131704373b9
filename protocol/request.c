#include "protocol/request.h"

#include "numerics/job_check.h"
#include "base/near.h"
#include "protocol/object.h"
#include "protocol/request_read.h"
#include "numerics/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_REQUEST = 0, TYPE_NOTIFICATION = 2 };

static bool read_f(const msgpack_object *value, struct request *request, struct failure *failure)
{
    if (!arrays_read(value, "f", &request->f, failure))
        return false;
    if (request->method == METHOD_PUT && request->f.is_vector)
        return request_invalid(failure, "f", "put takes one array; put the components one by one");
    return request_check_regions(&request->f, failure);
}

static bool read_field(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return object_unsigned(value, &request->field) ||
           request_invalid(failure, "field", "a field's id is an unsigned integer");
}

static bool read_after(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    request->list.pages = true;
    return object_unsigned(value, &request->list.after) ||
           request_invalid(failure, "after", "after is a field's id, an unsigned integer, or 0");
}

static bool read_limit(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    uint64_t *const limit = &request->list.limit;
    request->list.pages = true;
    return (object_unsigned(value, limit) && *limit >= 1 && *limit <= LIMIT_LISTED) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, "limit",
                       "limit must be a whole number from 1 to %d", LIMIT_LISTED);
}

static bool read_region(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return object_unsigned(value, &request->region) ||
           request_invalid(failure, "region", "a region's id is an unsigned integer");
}

static bool read_bytes(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return (object_unsigned(value, &request->bytes) && request->bytes > 0) ||
           request_invalid(failure, "bytes", "bytes must be a whole number from 1 up");
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

static bool read_writable(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    return request_read_boolean(value, "writable", &request->writable, failure);
}

static bool read_progress(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    return request_read_boolean(value, "progress", &request->progress, failure);
}

static bool read_dry_run(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    return request_read_boolean(value, "dry_run", &request->dry_run, failure);
}

static bool read_allow_unstable(const msgpack_object *value, struct request *request,
                                struct failure *failure)
{
    return request_read_boolean(value, "allow_unstable", &request->parameters.allow_unstable,
                                failure);
}

static bool read_cancel(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return object_unsigned(value, &request->cancel) ||
           request_invalid(failure, "msgid", "a msgid is an unsigned integer");
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
           request_invalid(failure, "timeout",
                           "timeout must be a whole number of microseconds from 1 up");
}

static bool read_detach(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return request_read_boolean(value, "detach", &request->detach, failure);
}

static bool read_order(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    int64_t order;
    if (!object_signed(value, &order))
        return request_invalid(failure, "order", "order must be a whole number");
    if ((order < 0 || order > ROWS_ORDER) && !job_check_order(order, failure))
        return false;
    request->parameters.order = (int)order;
    return true;
}

static bool read_accuracy(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    int64_t accuracy;
    if (!object_signed(value, &accuracy))
        return request_invalid(failure, "accuracy",
                               "accuracy must be a whole number: 2, 4, 6 or 8");
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
           request_invalid(failure, "steps", "steps must be a whole number from 1 up");
}

static bool read_dt(const msgpack_object *value, struct request *request, struct failure *failure)
{
    request->parameters.has_dt = true;
    return object_real(value, &request->parameters.dt) ||
           request_invalid(failure, "dt", "dt must be a number");
}

static bool read_cfl(const msgpack_object *value, struct request *request, struct failure *failure)
{
    request->parameters.has_cfl = true;
    return object_real(value, &request->parameters.cfl) ||
           request_invalid(failure, "cfl", "cfl must be a number");
}

static bool read_stagger(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    static const char *const words[] = {"forward", "backward", NULL};
    const int found = request_find_word(value, words);
    if (found < 0)
        return request_invalid(failure, "stagger", "stagger must be \"forward\" or \"backward\"");
    request->parameters.stagger = found == 0 ? STAGGER_FORWARD : STAGGER_BACKWARD;
    return true;
}

static bool read_scheme(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    static const char *const words[] = {"forward-euler", "rk4", "adi", NULL};
    static const enum scheme schemes[] = {SCHEME_EULER, SCHEME_RK4, SCHEME_ADI};
    const int found = request_find_word(value, words);
    if (found < 0)
        return request_invalid(failure, "scheme",
                               "scheme must be \"forward-euler\", \"rk4\" or \"adi\"");
    request->parameters.scheme = schemes[found];
    return true;
}

static bool read_coefficient(const msgpack_object *value, struct request *request,
                             struct failure *failure)
{
    return request_read_operand(value, "coefficient", false, &request->parameters.coefficient,
                                failure);
}

static bool read_source(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    double *number = &request->parameters.source_number;
    if (request_is_array(value))
        return request_read_operand(value, "source", false, &request->parameters.source, failure);
    if (!object_real(value, number))
        return request_invalid(failure, "source", "source must be a number, or an array like f");
    *number += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
    return isfinite(*number) || failure_set(failure, STATUS_INVALID_ARGUMENT, "source",
                                            "source must be finite; got %g", *number);
}

static bool read_offsets(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    return numbers_read(value, "offsets", &request->parameters.numbers[NUMBERS_OFFSETS], failure);
}

static bool read_weights(const msgpack_object *value, struct request *request,
                         struct failure *failure)
{
    return numbers_read(value, "weights", &request->parameters.numbers[NUMBERS_WEIGHTS], failure);
}

static bool read_probes(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    const struct array *probes = &request->parameters.numbers[NUMBERS_PROBES];
    return numbers_read(value, "probes", &request->parameters.numbers[NUMBERS_PROBES], failure) &&
           (probes->type.dimensions == 2 ||
            request_invalid(failure, "probes",
                            "probes are a list of indices: [[k, j, i], …], or an array of them"));
}

static bool read_report(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return request_read_boolean(value, "report", &request->parameters.report, failure);
}

static bool read_every(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    return (object_unsigned(value, &request->parameters.every) && request->parameters.every > 0) ||
           request_invalid(failure, "every", "every must be a whole number of steps from 1 up");
}

static bool read_repeat(const msgpack_object *value, struct request *request,
                        struct failure *failure)
{
    return (object_unsigned(value, &request->repeat) && request->repeat > 0) ||
           request_invalid(failure, "repeat", "repeat must be a whole number from 1 up");
}

static bool read_snapshot(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    static const char *const words[] = {"notify", "field", NULL};
    const int found = request_find_word(value, words);
    if (found < 0)
        return request_invalid(failure, "snapshot", "snapshot must be \"notify\" or \"field\"");
    request->parameters.snapshot = found == 0 ? SNAPSHOT_NOTIFY : SNAPSHOT_FIELD;
    return true;
}

/* Which method takes which parameter: one bit a method, the operators after METHOD_OPERATOR. */

#define BIT(number) (UINT64_C(1) << (number))
#define TAKES(method) BIT(method)
#define TAKES_OPERATOR(id) BIT(METHOD_OPERATOR + (id))
#define TAKES_OPERATORS ((BIT(OPERATOR_COUNT) - 1) << METHOD_OPERATOR)
#define TAKES_JOBS (TAKES_OPERATORS | TAKES(METHOD_PUT) | TAKES(METHOD_GET))

static const struct parameter {
    const char *name;
    uint64_t methods;
    uint64_t required; /* by these of them */
    parameter_reader *read;
} parameters[] = {
    {"f", TAKES_OPERATORS | TAKES(METHOD_PUT), TAKES_OPERATORS | TAKES(METHOD_PUT), read_f},
    {"ops", TAKES(METHOD_CHAIN), TAKES(METHOD_CHAIN), request_read_ops},
    {"repeat", TAKES(METHOD_CHAIN), 0, read_repeat},
    {"field", TAKES(METHOD_GET) | TAKES(METHOD_FREE), TAKES(METHOD_GET) | TAKES(METHOD_FREE),
     read_field},
    {"after", TAKES(METHOD_LIST_FIELDS), 0, read_after},
    {"limit", TAKES(METHOD_LIST_FIELDS), 0, read_limit},
    {"region", TAKES(METHOD_UNREGISTER), TAKES(METHOD_UNREGISTER), read_region},
    {"bytes", TAKES(METHOD_REGISTER), TAKES(METHOD_REGISTER), read_bytes},
    {"writable", TAKES(METHOD_REGISTER), 0, read_writable},
    {"out", TAKES_OPERATORS | TAKES(METHOD_GET) | TAKES(METHOD_CHAIN), 0, read_out},
    {"progress", TAKES_OPERATORS, 0, read_progress},
    {"dry_run", TAKES_OPERATORS | TAKES(METHOD_CHAIN), 0, read_dry_run},
    {"priority", TAKES_JOBS | TAKES(METHOD_CHAIN), 0, read_priority},
    {"timeout", TAKES_JOBS | TAKES(METHOD_CHAIN), 0, read_timeout},
    {"detach", TAKES_OPERATORS | TAKES(METHOD_PUT) | TAKES(METHOD_CHAIN), 0, read_detach},
    {"msgid", TAKES(METHOD_CANCEL), TAKES(METHOD_CANCEL), read_cancel},
    {"accuracy", TAKES_OPERATORS, 0, read_accuracy},
    {"spacing", TAKES_OPERATORS, 0, request_read_spacing},
    {"boundary", TAKES_OPERATORS, 0, request_read_boundary},
    {"endpoint", TAKES_OPERATORS, 0, request_read_endpoint},
    {"batch", TAKES_OPERATORS, 0, read_batch},
    {"report", TAKES_OPERATORS, 0, read_report},
    {"axis", TAKES_OPERATOR(OPERATOR_DERIVATIVE) | TAKES_OPERATOR(OPERATOR_INTERPOLATE), 0,
     request_read_axis},
    {"order", TAKES_OPERATOR(OPERATOR_DERIVATIVE), 0, read_order},
    {"stagger", TAKES_OPERATOR(OPERATOR_DERIVATIVE) | TAKES_OPERATOR(OPERATOR_INTERPOLATE), 0,
     read_stagger},
    {"coefficient", TAKES_OPERATOR(OPERATOR_LAPLACIAN), 0, read_coefficient},
    {"steps", TAKES_OPERATOR(OPERATOR_DIFFUSION) | TAKES_OPERATOR(OPERATOR_STENCIL), 0, read_steps},
    {"offsets", TAKES_OPERATOR(OPERATOR_STENCIL), TAKES_OPERATOR(OPERATOR_STENCIL), read_offsets},
    {"weights", TAKES_OPERATOR(OPERATOR_STENCIL), TAKES_OPERATOR(OPERATOR_STENCIL), read_weights},
    {"dt", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_dt},
    {"cfl", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_cfl},
    {"diffusivity", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, request_read_diffusivity},
    {"scheme", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_scheme},
    {"source", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_source},
    {"probes", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_probes},
    {"every", TAKES_OPERATOR(OPERATOR_DIFFUSION) | TAKES_OPERATOR(OPERATOR_STENCIL), 0, read_every},
    {"snapshot", TAKES_OPERATOR(OPERATOR_DIFFUSION) | TAKES_OPERATOR(OPERATOR_STENCIL), 0,
     read_snapshot},
    {"allow_unstable", TAKES_OPERATOR(OPERATOR_DIFFUSION), 0, read_allow_unstable},
};
#define PARAMETER_COUNT (sizeof parameters / sizeof *parameters)
_Static_assert(PARAMETER_COUNT <= 64 && METHOD_OPERATOR + OPERATOR_COUNT <= 64, "a bit for each");

static uint64_t method_bit(const struct request *request)
{
    return request->method == METHOD_OPERATOR ? TAKES_OPERATOR(request->parameters.operator_id)
                                              : TAKES(request->method);
}

/* The side whose number operand i is; below 0: all sides'. */
static int operand_side(int i)
{
    return (i - 2) / 2 - 1;
}

struct array *request_operand(struct request *request, int i)
{
    if (i == 0)
        return &request->parameters.coefficient;
    if (i == 1)
        return &request->parameters.source;
    const int side = operand_side(i);
    struct request_side *given = side < 0 ? &request->parameters.boundary.all
                                          : &request->parameters.boundary.side[0][0] + side;
    return i % 2 ? &given->constant : &given->value;
}

const char *request_operand_place(const struct request *request, int i)
{
    const int side = operand_side(i);
    if (i == 0)
        return request->parameters.operator_id == OPERATOR_DIFFUSION ? "diffusivity"
                                                                     : "coefficient";
    return i == 1     ? "source"
           : side < 0 ? "boundary"
                      : job_side_place(side / SIDE_COUNT, side % SIDE_COUNT);
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

/* Those of the map's pairs whose bit is set in `others` are another's to read. */
static bool read_parameters(const msgpack_object *map, uint64_t others, struct request *request,
                            struct failure *failure)
{
    const uint64_t bit = method_bit(request);
    const uint32_t count = map ? map->via.map.size : 0;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        size_t p = 0;
        while (p < PARAMETER_COUNT && !object_is(&pair->key, parameters[p].name))
            p++;
        if (i < 64 && others & BIT(i)) {
            seen |= p < PARAMETER_COUNT ? BIT(p) : 0;
            continue;
        }
        if (p == PARAMETER_COUNT || !(parameters[p].methods & bit)) {
            const struct quoted key = object_quote(&pair->key);
            return failure_set(failure, STATUS_INVALID_ARGUMENT, key.text,
                               "%s has no parameter \"%s\"%s", request->method_name, key.text,
                               near_parameter(key.text, bit).text);
        }
        if (seen & BIT(p))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameters[p].name,
                               "%s is given twice", parameters[p].name);
        seen |= BIT(p);
        if (!parameters[p].read(&pair->val, request, failure)) {
            request_say_given(&pair->val, failure);
            return false;
        }
    }
    for (size_t p = 0; p < PARAMETER_COUNT; p++)
        if ((parameters[p].required & bit) && !(seen & BIT(p)))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameters[p].name,
                               "%s needs the parameter %s", request->method_name,
                               parameters[p].name);
    if (request->method == METHOD_CHAIN)
        return request_finish_chain(request, failure);
    if (request->parameters.snapshot != SNAPSHOT_NONE && !request->parameters.every)
        return request_invalid(failure, "snapshot",
                               "a snapshot is taken every so many steps: give every");
    if (request->detach && request->method == METHOD_OPERATOR && request->out != OUT_NEW_FIELD &&
        request->out != OUT_FIELD)
        return request_invalid(
            failure, "detach",
            "without its connection a job must leave its result in a field: give out");
    return !request->parameters.is_mixed || request_expand_mixed(request, failure);
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
            request->method = METHOD_OPERATOR;
            request->parameters.operator_id = (enum operator_id)i;
            return true;
        }
    const struct quoted quoted = object_quote(name);
    struct near near;
    near_begin(&near, quoted.text);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        near_try(&near, methods[i].name);
    for (int i = 0; i < OPERATOR_COUNT; i++)
        near_try(&near, operator_name((enum operator_id)i));
    return failure_set(failure, STATUS_UNKNOWN_METHOD, NULL, "no method is called \"%s\"%s",
                       quoted.text, near.count ? near_text(&near).text : "; info lists them");
}

static void set_defaults(struct request *request)
{
    memset(request, 0, sizeof *request);
    request->method = METHOD_COUNT;
    request->out = OUT_INLINE;
    request->writable = true;
    request->list.limit = LIMIT_LISTED;
    request->parameters.order = 1;
    request->parameters.steps = 1;
}

static bool malformed(struct failure *failure, const char *text)
{
    return failure_set(failure, STATUS_PROTOCOL, NULL, "%s", text);
}

bool request_read_operator(const msgpack_object *name, const msgpack_object *map, uint64_t others,
                           struct request *request, struct failure *failure)
{
    const struct quoted quoted = object_quote(name);
    set_defaults(request);
    memcpy(request->method_name, quoted.text, LIMIT_METHOD_BYTES);
    if (!find_method(name, request, failure))
        return false;
    if (request->method != METHOD_OPERATOR)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "op", "%s is no operator",
                           request->method_name);
    return read_parameters(map, others, request, failure);
}

bool request_is_job(const struct request *request)
{
    return request->method == METHOD_OPERATOR || request->method == METHOD_PUT ||
           request->method == METHOD_GET || request->method == METHOD_CHAIN;
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
    return read_parameters(map, 0, request, failure) &&
           (request->dry_run || request_check_data(request, failure));
}

void request_free(struct request *request)
{
    free(request->chain);
    request->chain = NULL;
}
