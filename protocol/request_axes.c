#include "protocol/request_read.h"

/* "x", "y" or "z"; −1: none. */
static int find_axis(const msgpack_object *value)
{
    const int found = object_find_word(value, request_side_keys + AXIS_COUNT * SIDE_COUNT);
    return found < AXIS_COUNT ? found : -1;
}

bool request_read_axis(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    const msgpack_object *const two = value->via.array.ptr;
    if (value->type == MSGPACK_OBJECT_ARRAY && request->job.operator_id == OPERATOR_DERIVATIVE) {
        const bool are_two = value->via.array.size == 2;
        const int outer = are_two ? find_axis(&two[0]) : -1,
                  inner = are_two ? find_axis(&two[1]) : -1;
        if (outer < 0 || inner < 0 || outer == inner)
            return invalid_argument(
                failure, "axis",
                "the axes of a mixed derivative are two of \"x\", \"y\" and \"z\"");
        request->is_mixed = true;
        request->job.axis = (uint8_t)outer;
        request->inner_axis = (enum axis)inner;
        return true;
    }
    const int axis = find_axis(value);
    request->axis_is_number = axis < 0;
    request->job.axis = (uint8_t)(axis < 0 ? AXIS_X : axis);
    return axis >= 0 || object_signed(value, &request->axis_number) ||
           invalid_argument(failure, "axis",
                            "axis must be \"x\", \"y\", \"z\", a NumPy axis number or, for a "
                            "mixed derivative, a list of two letters");
}

bool request_read_parts(const msgpack_object *map, const char *parameter, bool by_side,
                        request_part_reader *read, uint8_t *named, struct request *request,
                        struct failure *failure)
{
    enum { SIDES = AXIS_COUNT * SIDE_COUNT };
    const int sides = by_side ? SIDES : 0, rest = sides + AXIS_COUNT;
    const char *const *const keys = request_side_keys + SIDES - sides;
    const msgpack_object *values[SIDES + AXIS_COUNT + 1];
    if (!object_read_map(map, parameter, keys,
                         by_side ? "its keys are x, x-, x+, y, y-, y+, z, z-, z+ and *"
                                 : "its keys are x, y, z and *",
                         values, failure))
        return false;
    for (int i = rest; i >= 0; i--) { /* an axis overrides "*", a side its axis */
        const unsigned parts = i == rest   ? ALL_PARTS
                               : i < sides ? 1u << i
                               : by_side   ? 3u << SIDE_COUNT * (i - sides)
                                           : 1u << i;
        if (values[i] &&
            !read(values[i], failure_place(parameter, keys[i]).text, parts, request, failure))
            return false;
        *named |= (uint8_t)(values[i] && i < rest ? parts : 0);
    }
    return true;
}

/* A value for all axes, or a map by axis. */
static bool read_by_axis(const msgpack_object *value, const char *parameter,
                         request_part_reader *read, uint8_t *named, struct request *request,
                         struct failure *failure)
{
    const bool is_map =
        value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd") && !request_is_array(value);
    return is_map ? request_read_parts(value, parameter, false, read, named, request, failure)
                  : read(value, parameter, ALL_PARTS, request, failure);
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
                   : invalid_argument(failure, parameter,
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
            invalid_argument(failure, parameter,
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
        return request_read_operand(value, "diffusivity", &request->operand[OPERAND_COEFFICIENT],
                                    failure);
    return read_by_axis(value, "diffusivity", read_diffusivity, &request->named.diffusivity,
                        request, failure);
}

static bool read_endpoint(const msgpack_object *value, const char *parameter, unsigned axes,
                          struct request *request, struct failure *failure)
{
    bool on;
    if (!object_boolean(value, &on))
        return invalid_argument(failure, parameter, "must be true, false or a map of them by axis");
    request->endpoint = (uint8_t)((request->endpoint & ~axes) | (on ? axes : 0));
    return true;
}

bool request_read_endpoint(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    return read_by_axis(value, "endpoint", read_endpoint, &request->named.endpoint, request,
                        failure);
}
