#include "protocol/numbers.h"

#include "protocol/object.h"

#include <inttypes.h>
#include <string.h>

/* The shape of a list, by its first elements. */
static bool list_shape(const msgpack_object *list, const char *parameter, struct array_type *type,
                       struct failure *failure)
{
    while (list->type == MSGPACK_OBJECT_ARRAY) {
        if (type->dimensions == LIMIT_DIMENSIONS)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                               "lists are at most %d deep", LIMIT_DIMENSIONS);
        if (list->via.array.size == 0)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter, "a list is empty");
        type->shape[type->dimensions++] = list->via.array.size;
        list = &list->via.array.ptr[0];
    }
    return true;
}

/* Does the list have that shape from `level` on, and are its elements numbers? */
static bool check_list(const msgpack_object *list, const char *parameter,
                       const struct array_type *type, uint32_t level, struct failure *failure)
{
    double number;
    if (level == type->dimensions)
        return object_real(list, &number) ||
               failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "its lists hold something that is no number");
    if (list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size != type->shape[level])
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "its lists are not all of one length");
    for (uint32_t i = 0; i < list->via.array.size; i++)
        if (!check_list(&list->via.array.ptr[i], parameter, type, level + 1, failure))
            return false;
    return true;
}

bool numbers_read_list(const msgpack_object *object, const char *parameter, struct array *array,
                       struct failure *failure)
{
    memset(array, 0, sizeof *array);
    array->kind = ARRAY_LIST;
    array->object = object;
    return list_shape(object, parameter, &array->type, failure) &&
           check_list(object, parameter, &array->type, 0, failure);
}

bool numbers_read(const msgpack_object *object, const char *parameter, struct array *array,
                  struct failure *failure)
{
    memset(array, 0, sizeof *array);
    if (object->type == MSGPACK_OBJECT_ARRAY)
        return numbers_read_list(object, parameter, array, failure);
    if (object_find(object, "field") || object_find(object, "region"))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "its numbers come with the request, as a list or an inline array; no "
                           "field or region is taken");
    if (object->type != MSGPACK_OBJECT_MAP)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "must be a list of numbers or an inline array");
    if (!array_read_numbers(object, parameter, array, failure))
        return false;
    if (array->kind == ARRAY_DESCRIBED)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                           "the array's data is missing");
    if (array->type.bytes > LIMIT_BLOCK_BYTES)
        return failure_set_limit(failure, STATUS_TOO_LARGE, parameter, (double)array->type.bytes,
                                 LIMIT_BLOCK_BYTES, "a parameter's numbers take at most %d bytes",
                                 LIMIT_BLOCK_BYTES);
    return true;
}

uint64_t numbers_count(const struct array *array)
{
    uint64_t count = array->type.dimensions > 0;
    for (uint32_t i = 0; i < array->type.dimensions; i++)
        count *= array->type.shape[i];
    return count;
}

/* Where the numbers go: one of the two. */
struct sink {
    double *reals;
    int64_t *whole;
};

/* False: it is no whole number. */
static bool put_list(const msgpack_object *list, struct sink *to)
{
    if (list->type != MSGPACK_OBJECT_ARRAY)
        return to->reals ? object_real(list, to->reals++) : object_signed(list, to->whole++);
    for (uint32_t i = 0; i < list->via.array.size; i++)
        if (!put_list(&list->via.array.ptr[i], to))
            return false;
    return true;
}

/* The wire and the host are both little-endian. */
static bool put_bytes(const struct array *array, struct sink *to)
{
    const unsigned char *at = array->small;
    const struct array_element element = array->element;
    const uint64_t count = numbers_count(array);
    if (to->reals && element.letter == 'f' && element.bytes == sizeof *to->reals) {
        memcpy(to->reals, at, count * sizeof *to->reals);
        return true;
    }
    for (uint64_t i = 0; i < count; i++, at += element.bytes) {
        if (to->reals ? !object_element_real(element.letter, element.bytes, at, to->reals++)
                      : !object_element_signed(element.letter, element.bytes, at, to->whole++))
            return false;
    }
    return true;
}

static bool put_numbers(const struct array *array, struct sink to)
{
    return array->kind == ARRAY_LIST ? put_list(array->object, &to) : put_bytes(array, &to);
}

void numbers_reals(const struct array *array, double *to)
{
    put_numbers(array, (struct sink){.reals = to});
}

bool numbers_whole(const struct array *array, const char *parameter, int64_t *to,
                   struct failure *failure)
{
    return put_numbers(array, (struct sink){.whole = to}) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, parameter,
                       "one of its numbers is no whole number");
}
