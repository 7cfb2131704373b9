#include "protocol/numbers.h"

#include "protocol/object.h"

#include <string.h>

/* The shape of a list, by its first elements. */
static bool list_shape(const msgpack_object *list, const char *parameter, struct array_type *type,
                       struct failure *failure)
{
    while (list->type == MSGPACK_OBJECT_ARRAY) {
        if (type->dimensions == LIMIT_DIMENSIONS)
            return invalid_argument(failure, parameter, "lists are at most %d deep",
                                    LIMIT_DIMENSIONS);
        if (list->via.array.size == 0)
            return invalid_argument(failure, parameter, "a list is empty");
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
               invalid_argument(failure, parameter, "its lists hold something that is no number");
    if (list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size != type->shape[level])
        return invalid_argument(failure, parameter, "its lists are not all of one length");
    for (uint32_t i = 0; i < list->via.array.size; i++)
        if (!check_list(&list->via.array.ptr[i], parameter, type, level + 1, failure))
            return false;
    return true;
}

bool numbers_read(const msgpack_object *object, const char *parameter, struct array *array,
                  struct failure *failure)
{
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        *array = (struct array){.kind = ARRAY_LIST, .object = object};
        return list_shape(object, parameter, &array->type, failure) &&
               check_list(object, parameter, &array->type, 0, failure);
    }
    if (object_find(object, "field") || object_find(object, "region"))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "its numbers come with the request, as a list or an inline array; no "
                           "field or region is taken");
    if (object->type != MSGPACK_OBJECT_MAP)
        return invalid_argument(failure, parameter, "must be a list of numbers or an inline array");
    if (!array_read_numbers(object, parameter, array, failure))
        return false;
    if (array->kind == ARRAY_DESCRIBED)
        return invalid_argument(failure, parameter, "the array's data is missing");
    return array->type.bytes <= LIMIT_BLOCK_BYTES ||
           failure_set_limit(failure, STATUS_TOO_LARGE, parameter, (double)array->type.bytes,
                             LIMIT_BLOCK_BYTES, "a parameter's numbers take at most %d bytes",
                             LIMIT_BLOCK_BYTES);
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
static bool put_number(const msgpack_object *number, struct sink *to)
{
    return to->reals ? object_real(number, to->reals++) : object_signed(number, to->whole++);
}

static bool put_list(const msgpack_object *list, struct sink *to)
{
    if (list->type != MSGPACK_OBJECT_ARRAY)
        return put_number(list, to);
    for (uint32_t i = 0; i < list->via.array.size; i++)
        if (!put_list(&list->via.array.ptr[i], to))
            return false;
    return true;
}

static bool put_numbers(const struct array *array, struct sink to)
{
    const char *at = array->small;
    if (array->kind == ARRAY_LIST)
        return put_list(array->object, &to);
    if (to.reals && array->element.letter == 'f' && array->element.bytes == sizeof *to.reals) {
        memcpy(to.reals, at, array->type.bytes);
        return true;
    }
    for (uint64_t i = numbers_count(array); i > 0; i--, at += array->element.bytes) {
        const msgpack_object number =
            object_element(array->element.letter, array->element.bytes, at);
        if (!put_number(&number, &to))
            return false;
    }
    return true;
}

void numbers_reals(const struct array *array, double *to)
{
    put_numbers(array, (struct sink){.reals = to});
}

bool numbers_whole(const struct array *array, const char *parameter, int64_t *to,
                   struct failure *failure)
{
    return put_numbers(array, (struct sink){.whole = to}) ||
           invalid_argument(failure, parameter, "one of its numbers is no whole number");
}
