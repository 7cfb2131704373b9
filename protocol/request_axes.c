#include "protocol/numbers.h"
#include "protocol/object.h"
#include "protocol/request_read.h"

bool request_read_axis(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    enum axis axis = AXIS_X;
    const bool is_derivative = request->job.operator_id == OPERATOR_DERIVATIVE;
    if (value->type == MSGPACK_OBJECT_ARRAY && is_derivative) { /* a mixed one */
        const msgpack_object *const two = value->via.array.ptr;
        request->is_mixed = value->via.array.size == 2 && request_find_axis(&two[0], &axis) &&
                            request_find_axis(&two[1], &request->inner_axis) &&
                            axis != request->inner_axis;
        request->job.axis = (uint8_t)axis;
        return request->is_mixed ||
               request_invalid(failure, "axis",
                               "the axes of a mixed derivative are two of \"x\", \"y\" and \"z\"");
    }
    request->axis_is_number = !request_find_axis(value, &axis);
    request->job.axis = (uint8_t)axis;
    return !request->axis_is_number || object_signed(value, &request->axis_number) ||
           request_invalid(failure, "axis",
                           "axis must be \"x\", \"y\", \"z\", a NumPy axis number or, for a "
                           "mixed derivative, a list of two letters");
}

static bool is_axis_map(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd") &&
           !request_is_array(value);
}

/* Reads the value of some axes, a bit each. */
typedef bool axes_reader(const msgpack_object *value, const char *parameter, unsigned axes,
                         struct request *request, struct failure *failure);

/* A value for all axes, or a map by axis in which "*" is the rest. *named: the axes by name. */
static bool read_by_axis(const msgpack_object *value, const char *parameter, axes_reader *read,
                         uint8_t *named, struct request *request, struct failure *failure)
{
    enum { ALL = (1u << AXIS_COUNT) - 1, REST = 1u << AXIS_COUNT };
    unsigned seen = 0;
    if (!is_axis_map(value))
        return read(value, parameter, ALL, request, failure);
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis = AXIS_COUNT;
        if (!request_find_axis(&pair->key, &axis) && !object_is(&pair->key, "*"))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                               "keys are x, y, z and *; got \"%s\"", object_quote(&pair->key).text);
        const unsigned bit = 1u << axis;
        if (seen & bit)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                               "the key \"%s\" is given twice", object_quote(&pair->key).text);
        seen |= bit;
        *named = seen & ALL;
        if (!read(&pair->val, failure_place(parameter, bit == REST ? "*" : axis_name(axis)).text,
                  bit == REST ? ALL & ~seen : bit, request, failure))
            return false;
    }
    return true;
}

/* A number in the place of an axis's value. */
static bool read_axis_number(const msgpack_object *value, const char *parameter, unsigned axes,
                             double to[AXIS_COUNT], struct failure *failure)
{
    double number;
    if (!object_real(value, &number))
        return request_is_array(value)
                   ? failure_set(failure, STATUS_UNSUPPORTED, parameter,
                                 "an array is taken for all axes together, not for one of them")
                   : request_invalid(failure, parameter,
                                     "must be a number, or a map of numbers by axis");
    for (int a = 0; a < AXIS_COUNT; a++)
        if (axes >> a & 1)
            to[a] = number;
    return true;
}

static bool is_coordinates(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_ARRAY || request_is_array(value);
}

static bool read_coordinates(const msgpack_object *value, const char *parameter,
                             struct array *numbers, struct failure *failure)
{
    return numbers_read(value, parameter, numbers, failure) &&
           (numbers->type.dimensions == 1 ||
            request_invalid(failure, parameter,
                            "coordinates are a list of numbers or an array of one dimension"));
}

static bool read_spacing(const msgpack_object *value, const char *parameter, unsigned axes,
                         struct request *request, struct failure *failure)
{
    struct array numbers = {.kind = ARRAY_NONE};
    if (is_coordinates(value)
            ? !read_coordinates(value, parameter, &numbers, failure)
            : !read_axis_number(value, parameter, axes, request->job.spacing, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (axes >> a & 1)
            request->numbers[NUMBERS_X + a] = numbers;
    return true;
}

bool request_read_spacing(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    if (is_coordinates(value)) /* or a number for each axis */
        return read_coordinates(value, "spacing", &request->numbers[NUMBERS_LIST], failure);
    return read_by_axis(value, "spacing", read_spacing, &request->named.spacing, request, failure);
}

static bool read_diffusivity(const msgpack_object *value, const char *parameter, unsigned axes,
                             struct request *request, struct failure *failure)
{
    double *const to = request->job.diffusivity;
    if (!read_axis_number(value, parameter, axes, to, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        to[a] += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
    return true;
}

bool request_read_diffusivity(const msgpack_object *value, struct request *request,
                              struct failure *failure)
{
    if (request_is_array(value))
        return request_read_operand(value, "diffusivity", false,
                                    &request->operand[OPERAND_COEFFICIENT], failure);
    return read_by_axis(value, "diffusivity", read_diffusivity, &request->named.diffusivity,
                        request, failure);
}

static bool read_endpoint(const msgpack_object *value, const char *parameter, unsigned axes,
                          struct request *request, struct failure *failure)
{
    bool on;
    if (!request_read_boolean(value, parameter, &on, failure))
        return false;
    request->endpoint = (uint8_t)((request->endpoint & ~axes) | (on ? axes : 0));
    return true;
}

bool request_read_endpoint(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    bool on;
    if (!object_boolean(value, &on) && !is_axis_map(value))
        return request_invalid(failure, "endpoint",
                               "endpoint must be true, false or a map of them by axis");
    return read_by_axis(value, "endpoint", read_endpoint, &request->named.endpoint, request,
                        failure);
}
