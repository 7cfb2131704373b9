#include "protocol/object.h"

#include <math.h>
#include <string.h>

bool object_bytes(const msgpack_object *object, const char **bytes, uint32_t *length)
{
    if (!object_is_text(object))
        return false;
    *bytes = object->via.str.ptr; /* a bin has the same layout */
    *length = object->via.str.size;
    return true;
}

bool object_equals(const msgpack_object *object, const char *text)
{
    const msgpack_object_str *str = &object->via.str; /* a bin has the same layout */
    return str->size == strlen(text) && (str->size == 0 || memcmp(str->ptr, text, str->size) == 0);
}

int object_find_word(const msgpack_object *object, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (object_is(object, words[i]))
            return i;
    return -1;
}

const msgpack_object *object_find(const msgpack_object *map, const char *key)
{
    for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
        if (object_is(&map->via.map.ptr[i].key, key))
            return &map->via.map.ptr[i].val;
    return NULL;
}

bool object_read_map(const msgpack_object *map, const char *parameter, const char *const *keys,
                     const char *rule, const msgpack_object **values, struct failure *failure)
{
    for (int i = 0; keys[i]; i++)
        values[i] = NULL;
    if (map->type != MSGPACK_OBJECT_MAP)
        return invalid_argument(failure, parameter, "%s", rule);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        const int key = object_find_word(&pair->key, keys);
        if (key < 0)
            return invalid_argument(failure, parameter, "%s; it has no key \"%s\"", rule,
                                    object_quote(&pair->key).text);
        if (values[key])
            return invalid_argument(failure, parameter, "the key \"%s\" is given twice", keys[key]);
        values[key] = &pair->val;
    }
    return true;
}

struct quoted object_quote(const msgpack_object *object)
{
    struct quoted quoted = {"?"};
    const char *bytes;
    uint32_t length;
    if (!object_bytes(object, &bytes, &length))
        return quoted;
    uint32_t count = 0;
    for (; count < length && count < sizeof quoted.text - 1; count++)
        quoted.text[count] = bytes[count] >= 0x20 && bytes[count] < 0x7f ? bytes[count] : '?';
    quoted.text[count] = '\0';
    if (count < length)
        memcpy(quoted.text + count - 3, "...", 3);
    return quoted;
}

static msgpack_object signed_number(int64_t value)
{
    return value < 0 ? (msgpack_object){MSGPACK_OBJECT_NEGATIVE_INTEGER, {.i64 = value}}
                     : (msgpack_object){MSGPACK_OBJECT_POSITIVE_INTEGER, {.u64 = (uint64_t)value}};
}

msgpack_object object_element(char letter, uint32_t bytes, const void *at)
{
    const uint32_t unused_bits = 64 - 8 * bytes;
    uint64_t bits = 0;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return (msgpack_object){MSGPACK_OBJECT_NIL, {0}};
    memcpy(&bits, at, bytes); /* the wire and the host are both little-endian */
    if (letter == 'u')
        return (msgpack_object){MSGPACK_OBJECT_POSITIVE_INTEGER, {.u64 = bits}};
    if (letter == 'i') /* the sign goes up to bit 63 and back */
        return signed_number((int64_t)(bits << unused_bits) >> unused_bits);
    if (letter == 'f' && bytes == 8) /* the same bits */
        return (msgpack_object){MSGPACK_OBJECT_FLOAT64, {.u64 = bits}};
    if (letter == 'f' && bytes == 4) {
        float narrow;
        memcpy(&narrow, at, sizeof narrow);
        return (msgpack_object){MSGPACK_OBJECT_FLOAT64, {.f64 = (double)narrow}};
    }
    return (msgpack_object){MSGPACK_OBJECT_NIL, {0}};
}

/* The data of a msgpack-numpy scalar and its type, three characters such as "<i8"; NULL: it is none
 * of that many bytes. */
static const char *scalar_data(const msgpack_object *map, const char **type)
{
    const msgpack_object *nd = object_find(map, "nd"), *type_object = object_find(map, "type"),
                         *data_object = object_find(map, "data");
    const char *data;
    uint32_t type_bytes, bytes;
    if (!nd || nd->type != MSGPACK_OBJECT_BOOLEAN || nd->via.boolean || !type_object ||
        !object_bytes(type_object, type, &type_bytes) || type_bytes != 3 || !data_object ||
        !object_bytes(data_object, &data, &bytes))
        return NULL;
    return (*type)[2] - '0' == (int64_t)bytes ? data : NULL;
}

/* Its number: an integer or a float; nil where it is none. */
static msgpack_object number_of(const msgpack_object *object)
{
    const char *type = NULL;
    const char *data = object->type == MSGPACK_OBJECT_MAP ? scalar_data(object, &type) : NULL;
    if (!data || (type[0] != '<' && memcmp(type, "|i1", 3) != 0 && memcmp(type, "|u1", 3) != 0))
        return *object;
    return object_element(type[1], (uint32_t)(type[2] - '0'), data);
}

bool object_real(const msgpack_object *object, double *value)
{
    const msgpack_object number = number_of(object);
    if (number.type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        *value = (double)number.via.u64;
    else if (number.type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        *value = (double)number.via.i64;
    else if (number.type == MSGPACK_OBJECT_FLOAT32 || number.type == MSGPACK_OBJECT_FLOAT64)
        *value = number.via.f64;
    else
        return false;
    return true;
}

/* An integer; of floats those up to 2^53, beyond which a float no longer names one number. Anything
 * but an integer where it is none. */
static msgpack_object whole_number(const msgpack_object *object)
{
    const msgpack_object number = number_of(object);
    const bool is_real =
        number.type == MSGPACK_OBJECT_FLOAT32 || number.type == MSGPACK_OBJECT_FLOAT64;
    return is_real && fabs(number.via.f64) <= 0x1p53 && number.via.f64 == floor(number.via.f64)
               ? signed_number((int64_t)number.via.f64)
               : number;
}

bool object_signed(const msgpack_object *object, int64_t *value)
{
    const msgpack_object number = whole_number(object);
    if (number.type != MSGPACK_OBJECT_NEGATIVE_INTEGER &&
        (number.type != MSGPACK_OBJECT_POSITIVE_INTEGER || number.via.u64 > INT64_MAX))
        return false;
    *value = number.via.i64;
    return true;
}

bool object_unsigned(const msgpack_object *object, uint64_t *value)
{
    const msgpack_object number = whole_number(object);
    if (number.type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return false;
    *value = number.via.u64;
    return true;
}

bool object_find_unsigned(const msgpack_object *map, const char *key, uint64_t *value)
{
    const msgpack_object *object = object_find(map, key);
    return object && object_unsigned(object, value);
}

bool object_boolean(const msgpack_object *object, bool *value)
{
    const char *type = NULL, *data = scalar_data(object, &type);
    if (data && memcmp(type, "|b1", 3) == 0)
        *value = data[0] != 0;
    else if (object->type == MSGPACK_OBJECT_BOOLEAN)
        *value = object->via.boolean;
    else
        return false;
    return true;
}
