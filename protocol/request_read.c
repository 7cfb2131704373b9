#include "protocol/request_read.h"

#include "protocol/numbers.h"
#include "protocol/object.h"

#include <stdio.h>
#include <string.h>

bool request_invalid(struct failure *failure, const char *parameter, const char *text)
{
    return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter, "%s", text);
}

/* As MessagePack has it; false: it is a container, or an array. */
static bool describe(const msgpack_object *value, char *text, size_t room)
{
    const char *bytes;
    uint32_t length;
    double number;
    bool boolean;
    if (object_bytes(value, &bytes, &length))
        snprintf(text, room, "\"%s\"", object_quote(value).text);
    else if (object_real(value, &number))
        snprintf(text, room, "%.9g", number);
    else if (object_boolean(value, &boolean))
        snprintf(text, room, "%s", boolean ? "true" : "false");
    else if (value->type == MSGPACK_OBJECT_NIL)
        snprintf(text, room, "nil");
    else
        return false;
    return true;
}

void request_say_given(const msgpack_object *value, struct failure *failure)
{
    char given[64];
    const size_t used = strlen(failure->message);
    if (failure->code == STATUS_INVALID_ARGUMENT && !strstr(failure->message, "got ") &&
        describe(value, given, sizeof given) && !strstr(failure->message, given) &&
        used + strlen(given) + 6 < sizeof failure->message)
        snprintf(failure->message + used, sizeof failure->message - used, "; got %s", given);
}

bool request_read_boolean(const msgpack_object *value, const char *parameter, bool *to,
                          struct failure *failure)
{
    return object_boolean(value, to) ||
           request_invalid(failure, parameter, "must be true or false");
}

int request_find_word(const msgpack_object *object, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (object_is(object, words[i]))
            return i;
    return -1;
}

bool request_find_axis(const msgpack_object *object, enum axis *axis)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (object_is(object, axis_name((enum axis)a))) {
            *axis = (enum axis)a;
            return true;
        }
    return false;
}

bool request_is_array(const msgpack_object *value)
{
    const msgpack_object *nd = object_find(value, "nd");
    const bool is_scalar = nd && nd->type == MSGPACK_OBJECT_BOOLEAN && !nd->via.boolean;
    return (nd && !is_scalar) || object_find(value, "field") || object_find(value, "region");
}

bool request_read_operand(const msgpack_object *value, const char *parameter, bool lists,
                          struct array *array, struct failure *failure)
{
    if (lists && value->type == MSGPACK_OBJECT_ARRAY)
        return numbers_read_list(value, parameter, array, failure);
    if (!array_read(value, parameter, array, failure))
        return false;
    array->object = value;
    return array->kind != ARRAY_REGION || array->type.dimensions > 0 ||
           request_invalid(failure, parameter, "an input in a region needs its shape and type");
}

bool request_check_regions(const struct arrays *f, struct failure *failure)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (f->at[a].kind == ARRAY_REGION && f->at[a].type.dimensions == 0)
            return request_invalid(failure, arrays_place(f, "f", a).text,
                                   "an input in a region needs its shape and type");
    return true;
}

const char *request_operand_place(const struct request *request, int operand)
{
    const int side = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    return operand < OPERAND_VALUE || request->named.boundary >> side & 1
               ? job_operand_place(&request->job, operand)
               : "boundary";
}

bool request_check_data(const struct request *request, struct failure *failure)
{
    const struct arrays *f = &request->f;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (f->at[a].kind == ARRAY_DESCRIBED)
            return request_invalid(failure, arrays_place(f, "f", a).text,
                                   "the array's data is missing");
    for (int i = 0; i < OPERANDS; i++)
        if (request->operand[i].kind == ARRAY_DESCRIBED)
            return request_invalid(failure, request_operand_place(request, i),
                                   "the array's data is missing");
    return true;
}
