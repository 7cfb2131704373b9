#include "protocol/request_read.h"

#include <stdio.h>
#include <string.h>

const char *const request_side_keys[] = {"x-", "x+", "y-", "y+", "z-", "z+",
                                         "x",  "y",  "z",  "*",  NULL};

bool request_is_array(const msgpack_object *value)
{
    const msgpack_object *nd = object_find(value, "nd");
    const bool is_scalar = nd && nd->type == MSGPACK_OBJECT_BOOLEAN && !nd->via.boolean;
    return (nd && !is_scalar) || object_find(value, "field") || object_find(value, "region");
}

/* Has an input in a region a type and, of a request that is to be run, an array its data? */
static bool check_input(const struct array *input, const char *place, bool dry_run,
                        struct failure *failure)
{
    if (input->kind == ARRAY_REGION && !input->type.dimensions)
        return invalid_argument(failure, place, "an input in a region needs its shape and type");
    return input->kind != ARRAY_DESCRIBED || dry_run ||
           invalid_argument(failure, place, "the array's data is missing");
}

bool request_read_operand(const msgpack_object *value, const char *parameter, struct array *array,
                          struct failure *failure)
{
    if (!array_read(value, parameter, array, failure))
        return false;
    array->object = value;
    return check_input(array, parameter, true, failure);
}

void request_say_given(const msgpack_object *value, struct failure *failure)
{
    const char *bytes;
    uint32_t length;
    double number;
    bool boolean;
    char given[64];
    const size_t used = strlen(failure->message);
    if (object_bytes(value, &bytes, &length))
        snprintf(given, sizeof given, "\"%s\"", object_quote(value).text);
    else if (object_real(value, &number))
        snprintf(given, sizeof given, "%.9g", number);
    else if (object_boolean(value, &boolean))
        snprintf(given, sizeof given, "%s", boolean ? "true" : "false");
    else if (value->type == MSGPACK_OBJECT_NIL)
        snprintf(given, sizeof given, "nil");
    else
        return;
    if (failure->code == STATUS_INVALID_ARGUMENT && !strstr(failure->message, "got ") &&
        !strstr(failure->message, given) && used + strlen(given) + 6 < sizeof failure->message)
        snprintf(failure->message + used, sizeof failure->message - used, "; got %s", given);
}

const char *request_operand_place(const struct request *request, int operand)
{
    const int side = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    return operand < OPERAND_VALUE || request->named.boundary >> side & 1
               ? job_operand_place(&request->job, operand)
               : "boundary";
}

bool request_check_inputs(const struct request *request, bool dry_run, struct failure *failure)
{
    const struct arrays *f = &request->f;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (f->at[a].kind != ARRAY_NONE &&
            !check_input(&f->at[a], arrays_place(f, "f", a).text, dry_run, failure))
            return false;
    for (int i = 0; i < OPERANDS; i++)
        if (request->operand[i].kind != ARRAY_NONE &&
            !check_input(&request->operand[i], request_operand_place(request, i), dry_run, failure))
            return false;
    return true;
}
