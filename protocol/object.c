#include "protocol/object.h"

#include <math.h>
#include <string.h>

bool object_bytes(const msgpack_object *object, const char **bytes, uint32_t *length)
{
    if (object->type == MSGPACK_OBJECT_STR) {
        *bytes = object->via.str.ptr;
        *length = object->via.str.size;
        return true;
    }
    if (object->type == MSGPACK_OBJECT_BIN) {
        *bytes = object->via.bin.ptr;
        *length = object->via.bin.size;
        return true;
    }
    return false;
}

bool object_is(const msgpack_object *object, const char *text)
{
    const char *bytes;
    uint32_t length;
    return object_bytes(object, &bytes, &length) && length == strlen(text) &&
           (length == 0 || memcmp(bytes, text, length) == 0);
}

const msgpack_object *object_find(const msgpack_object *map, const char *key)
{
    if (map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (object_is(&map->via.map.ptr[i].key, key))
            return &map->via.map.ptr[i].val;
    return NULL;
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

/* A number as MessagePack holds them: exactly one of three. */
struct number {
    enum { NUMBER_UNSIGNED, NUMBER_NEGATIVE, NUMBER_REAL } kind;
    uint64_t magnitude;
    double real;
};

static struct number number_signed(int64_t value)
{
    return value < 0 ? (struct number){NUMBER_NEGATIVE, -(uint64_t)value, 0}
                     : (struct number){NUMBER_UNSIGNED, (uint64_t)value, 0};
}

/* The data of a msgpack-numpy scalar whose type is `type`, such as "<i8"; little-endian. */
static bool scalar_read(const msgpack_object *scalar, const char **type, uint32_t *type_bytes,
                        const char **data, uint32_t *data_bytes)
{
    const msgpack_object *nd = object_find(scalar, "nd");
    const msgpack_object *type_object = object_find(scalar, "type");
    const msgpack_object *data_object = object_find(scalar, "data");
    return nd && nd->type == MSGPACK_OBJECT_BOOLEAN && !nd->via.boolean && type_object &&
           object_bytes(type_object, type, type_bytes) && *type_bytes == 3 && data_object &&
           object_bytes(data_object, data, data_bytes);
}

/* Little-endian bytes of an element. */
static bool number_read_element(char letter, uint32_t bytes, const void *at, struct number *number)
{
    uint64_t bits = 0;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return false;
    memcpy(&bits, at, bytes); /* the wire and the host are both little-endian */
    switch (letter) {
    case 'u':
        *number = (struct number){NUMBER_UNSIGNED, bits, 0};
        return true;
    case 'i':
        /* Move the sign up to bit 63 and back. */
        *number = number_signed((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        return true;
    case 'f':
        if (bytes == 4) {
            float real;
            memcpy(&real, at, sizeof real);
            *number = (struct number){NUMBER_REAL, 0, (double)real};
            return true;
        }
        if (bytes == 8) {
            double real;
            memcpy(&real, at, sizeof real);
            *number = (struct number){NUMBER_REAL, 0, real};
            return true;
        }
        return false;
    default:
        return false;
    }
}

static bool number_read_scalar(const msgpack_object *object, struct number *number)
{
    const char *type, *data;
    uint32_t type_bytes, data_bytes;
    if (!scalar_read(object, &type, &type_bytes, &data, &data_bytes))
        return false;
    const uint32_t bytes = (uint32_t)(type[2] - '0');
    const bool one_byte = type[0] == '|' && bytes == 1;
    return (one_byte || type[0] == '<') && data_bytes == bytes &&
           number_read_element(type[1], bytes, data, number);
}

static bool number_read(const msgpack_object *object, struct number *number)
{
    switch (object->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *number = (struct number){NUMBER_UNSIGNED, object->via.u64, 0};
        return true;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *number = number_signed(object->via.i64);
        return true;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *number = (struct number){NUMBER_REAL, 0, object->via.f64};
        return true;
    case MSGPACK_OBJECT_MAP:
        return number_read_scalar(object, number);
    default:
        return false;
    }
}

static double number_real(const struct number *number)
{
    return number->kind == NUMBER_REAL       ? number->real
           : number->kind == NUMBER_NEGATIVE ? -(double)number->magnitude
                                             : (double)number->magnitude;
}

/* A whole number, where a float is one: up to 2^53, beyond which a float no longer names one
 * number. */
static bool number_whole(struct number *number)
{
    if (number->kind != NUMBER_REAL)
        return true;
    const double real = number->real;
    if (!(fabs(real) <= 0x1p53) || real != floor(real))
        return false;
    *number = number_signed((int64_t)real);
    return true;
}

static bool number_signed_value(struct number *number, int64_t *value)
{
    if (!number_whole(number) || (number->kind == NUMBER_UNSIGNED && number->magnitude > INT64_MAX))
        return false;
    *value = (int64_t)(number->kind == NUMBER_NEGATIVE ? -number->magnitude : number->magnitude);
    return true;
}

bool object_real(const msgpack_object *object, double *value)
{
    struct number number;
    if (!number_read(object, &number))
        return false;
    *value = number_real(&number);
    return true;
}

bool object_signed(const msgpack_object *object, int64_t *value)
{
    struct number number;
    return number_read(object, &number) && number_signed_value(&number, value);
}

bool object_unsigned(const msgpack_object *object, uint64_t *value)
{
    struct number number;
    if (!number_read(object, &number) || !number_whole(&number) || number.kind != NUMBER_UNSIGNED)
        return false;
    *value = number.magnitude;
    return true;
}

bool object_element_real(char letter, uint32_t bytes, const void *at, double *value)
{
    struct number number;
    if (!number_read_element(letter, bytes, at, &number))
        return false;
    *value = number_real(&number);
    return true;
}

bool object_element_signed(char letter, uint32_t bytes, const void *at, int64_t *value)
{
    struct number number;
    return number_read_element(letter, bytes, at, &number) && number_signed_value(&number, value);
}

bool object_boolean(const msgpack_object *object, bool *value)
{
    if (object->type == MSGPACK_OBJECT_BOOLEAN) {
        *value = object->via.boolean;
        return true;
    }
    const char *type, *data;
    uint32_t type_bytes, data_bytes;
    if (object->type != MSGPACK_OBJECT_MAP ||
        !scalar_read(object, &type, &type_bytes, &data, &data_bytes) ||
        memcmp(type, "|b1", 3) != 0 || data_bytes != 1)
        return false;
    *value = data[0] != 0;
    return true;
}
