#include "protocol/numbers.h"
#include "protocol/object.h"
#include "protocol/request_read.h"

#include <string.h>

bool request_read_axis(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    request->parameters.has_axis = true;
    if (value->type == MSGPACK_OBJECT_ARRAY) { /* a mixed derivative */
        const msgpack_object *const two = value->via.array.ptr;
        request->parameters.is_mixed =
            value->via.array.size == 2 && request_find_axis(&two[0], &request->parameters.axis) &&
            request_find_axis(&two[1], &request->parameters.inner_axis) &&
            request->parameters.axis != request->parameters.inner_axis;
        return request->parameters.is_mixed ||
               request_invalid(failure, "axis",
                               "the axes of a mixed derivative are two of \"x\", \"y\" and \"z\"");
    }
    if (request_find_axis(value, &request->parameters.axis))
        return true;
    request->parameters.axis_is_number = true;
    return object_signed(value, &request->parameters.axis_number) ||
           request_invalid(failure, "axis",
                           "axis must be \"x\", \"y\", \"z\", a NumPy axis number or, for a "
                           "mixed derivative, a list of two letters");
}

/* A number in the place of an axis's value. */
static bool read_axis_number(const msgpack_object *value, const char *parameter, double *number,
                             struct failure *failure)
{
    if (object_real(value, number))
        return true;
    if (request_is_array(value))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "an array is taken for all axes together, not for one of them");
    return request_invalid(failure, parameter, "must be a number, or a map of numbers by axis");
}

static bool is_axis_map(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd") &&
           !request_is_array(value);
}

/* The key of a map by axis: 0 … 2 an axis, AXIS_COUNT the rest ("*"). Refuses what is none, and a
 * key that is in `seen` already. */
static bool read_axis_key(const msgpack_object *key, const char *parameter, unsigned *seen,
                          enum axis *axis, struct failure *failure)
{
    *axis = AXIS_COUNT;
    if (!request_find_axis(key, axis) && !object_is(key, "*"))
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

/* Coordinates, or (a list for all axes) a number for each of them. */
static bool read_coordinates(const msgpack_object *value, const char *parameter,
                             struct array *numbers, struct failure *failure)
{
    return numbers_read(value, parameter, numbers, failure) &&
           (numbers->type.dimensions == 1 ||
            request_invalid(failure, parameter,
                            "coordinates are a list of numbers or an array of one dimension"));
}

static bool is_coordinates(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_ARRAY || request_is_array(value);
}

bool request_read_spacing(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    struct per_axis *to = &request->parameters.spacing;
    struct array *numbers = request->parameters.numbers;
    if (is_coordinates(value)) {
        request->parameters.spacing_is_bare = true;
        return read_coordinates(value, "spacing", &numbers[NUMBERS_ALL], failure);
    }
    if (!is_axis_map(value)) {
        to->has_all = 1;
        return read_axis_number(value, "spacing", &to->all, failure);
    }
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        if (!read_axis_key(&pair->key, "spacing", &seen, &axis, failure))
            return false;
        const bool all = axis == AXIS_COUNT;
        const struct failure_place place = failure_place("spacing", all ? "*" : axis_name(axis));
        if (is_coordinates(&pair->val)) {
            if (!read_coordinates(&pair->val, place.text, &numbers[all ? NUMBERS_ALL : (int)axis],
                                  failure))
                return false;
            continue;
        }
        if (!read_axis_number(&pair->val, place.text, all ? &to->all : &to->value[axis], failure))
            return false;
        *(all ? &to->has_all : &to->has[axis]) = 1;
    }
    return true;
}

bool request_read_diffusivity(const msgpack_object *value, struct request *request,
                              struct failure *failure)
{
    if (request_is_array(value))
        return request_read_operand(value, "diffusivity", false, &request->parameters.coefficient,
                                    failure);
    return read_per_axis(value, "diffusivity", &request->parameters.diffusivity, failure);
}

bool request_read_endpoint(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    bool on;
    if (object_boolean(value, &on)) {
        request->parameters.endpoint.has_all = 1;
        request->parameters.endpoint.all = on;
        return true;
    }
    if (!is_axis_map(value))
        return request_invalid(failure, "endpoint",
                               "endpoint must be true, false or a map of them by axis");
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        if (!read_axis_key(&pair->key, "endpoint", &seen, &axis, failure))
            return false;
        const bool all = axis == AXIS_COUNT;
        if (!request_read_boolean(&pair->val,
                                  failure_place("endpoint", all ? "*" : axis_name(axis)).text, &on,
                                  failure))
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
