#include "client/file.h"

#include "client/error.h"
#include "client/number.h"
#include "protocol/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool shape_read(const char *text, struct fdclient_array *array)
{
    array->dimensions = number_list(text, ",x", array->shape, FDCLIENT_DIMENSIONS);
    return array->dimensions > 0;
}

bool shape_from_list(const msgpack_object *list, struct fdclient_array *array)
{
    if (list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size < 1 ||
        list->via.array.size > FDCLIENT_DIMENSIONS)
        return false;
    array->dimensions = list->via.array.size;
    for (uint32_t i = 0; i < array->dimensions; i++)
        if (!object_unsigned(&list->via.array.ptr[i], &array->shape[i]))
            return false;
    return true;
}

const char *shape_text(uint32_t dimensions, const uint64_t *shape, const char *separator,
                       char text[SHAPE_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < dimensions; i++)
        used += (size_t)snprintf(text + used, SHAPE_TEXT_BYTES - used, "%s%" PRIu64,
                                 i ? separator : "", shape[i]);
    return text;
}

static const char *const names[][2] = {{"float32", "float64"}, {"f4", "f8"}, {"<f4", "<f8"}};

bool dtype_read(const char *text, enum fdclient_dtype *dtype)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int is_double = 0; is_double < 2; is_double++)
            if (strcmp(text, names[i][is_double]) == 0) {
                *dtype = is_double ? FDCLIENT_F64 : FDCLIENT_F32;
                return true;
            }
    return false;
}

const char *dtype_text(enum fdclient_dtype dtype)
{
    return names[0][dtype == FDCLIENT_F64];
}

uint64_t dtype_bytes(enum fdclient_dtype dtype)
{
    return dtype == FDCLIENT_F64 ? 8 : 4;
}

uint64_t shape_bytes(const struct fdclient_array *array)
{
    uint64_t bytes = dtype_bytes(array->dtype);
    for (uint32_t i = 0; i < array->dimensions; i++)
        bytes *= array->shape[i];
    return bytes;
}

bool shape_check(const struct fdclient_array *array, uint64_t bytes, struct fdclient_error *error)
{
    char text[SHAPE_TEXT_BYTES];
    uint64_t need = dtype_bytes(array->dtype);
    bool fits = true;
    for (uint32_t i = 0; i < array->dimensions; i++)
        fits = fits && !__builtin_mul_overflow(need, array->shape[i], &need);
    if (fits && need == bytes && need > 0)
        return true;
    shape_text(array->dimensions, array->shape, "x", text);
    if (!fits || need == 0)
        return error_set(error, "FILE", "", "no file has the shape %.100s", text);
    return error_set(error, "FILE", "", "%" PRIu64 " bytes of data, but %.100s %s needs %" PRIu64,
                     bytes, text, dtype_text(array->dtype), need);
}
