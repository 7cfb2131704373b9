#include "client/npy.h"

#include "client/error.h"
#include "client/shape.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char magic[6] = "\x93NUMPY";

struct cursor {
    const char *at, *end;
};

bool npy_is(const void *bytes, size_t length)
{
    return length >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

bool npy_is_name(const char *path)
{
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
        c->at++;
}

static bool take_word(struct cursor *c, const char *word)
{
    skip_space(c);
    const size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A Python string without escapes: NumPy writes no other here. */
static bool take_string(struct cursor *c, char *text, size_t capacity)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    const char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close || (size_t)(close - c->at) >= capacity)
        return false;
    memcpy(text, c->at, (size_t)(close - c->at));
    text[close - c->at] = '\0';
    c->at = close + 1;
    return true;
}

static bool refuse_file(struct fdclient_error *error, const char *reason)
{
    return error_set(error, "FILE", "", "%s", reason);
}

static bool take_descr(struct cursor *c, struct fdclient_array *array, struct fdclient_error *error)
{
    char descr[32];
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return refuse_file(error, "a structured .npy: save each of its members as an array");
    if (!take_string(c, descr, sizeof descr))
        return refuse_file(error, "the .npy header's descr cannot be read");
    if (strcmp(descr, "<f4") == 0)
        array->dtype = FDCLIENT_F32;
    else if (strcmp(descr, "<f8") == 0)
        array->dtype = FDCLIENT_F64;
    else
        return error_set(error, "FILE", "",
                         "a .npy of type '%s': only <f4 and <f8 are taken (astype('<f4'))", descr);
    return true;
}

static bool take_shape(struct cursor *c, struct fdclient_array *array, struct fdclient_error *error)
{
    if (!take_word(c, "("))
        return refuse_file(error, "the .npy header's shape cannot be read");
    array->dimensions = 0;
    while (!take_word(c, ")")) {
        if (array->dimensions == FDCLIENT_DIMENSIONS)
            return error_set(error, "FILE", "", "a .npy of more than %d dimensions",
                             FDCLIENT_DIMENSIONS);
        uint64_t n = 0;
        skip_space(c);
        const char *begin = c->at;
        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
            if (__builtin_mul_overflow(n, 10, &n) ||
                __builtin_add_overflow(n, (uint64_t)(*c->at - '0'), &n))
                return refuse_file(error, "the .npy header's shape is beyond 64 bits");
        if (c->at == begin)
            return refuse_file(error, "the .npy header's shape cannot be read");
        array->shape[array->dimensions++] = n;
        take_word(c, "L"); /* Python 2 wrote long integers so */
        if (!take_word(c, ",") && (c->at == c->end || *c->at != ')'))
            return refuse_file(error, "the .npy header's shape cannot be read");
    }
    return array->dimensions > 0 ||
           refuse_file(error, "a .npy of no dimensions: a number is no field");
}

static bool dictionary_read(struct cursor *c, struct fdclient_array *array,
                            struct fdclient_error *error)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 } found = 0;
    if (!take_word(c, "{"))
        return refuse_file(error, "the .npy header is no dictionary");
    while (!take_word(c, "}")) {
        char key[32];
        if (!take_string(c, key, sizeof key) || !take_word(c, ":"))
            return refuse_file(error, "the .npy header cannot be read");
        if (strcmp(key, "descr") == 0) {
            if (!take_descr(c, array, error))
                return false;
            found |= DESCR;
        } else if (strcmp(key, "fortran_order") == 0) {
            if (take_word(c, "True"))
                return refuse_file(error,
                                   "a .npy in Fortran order: save numpy.ascontiguousarray(f)");
            if (!take_word(c, "False"))
                return refuse_file(error, "the .npy header's fortran_order cannot be read");
            found |= ORDER;
        } else if (strcmp(key, "shape") == 0) {
            if (!take_shape(c, array, error))
                return false;
            found |= SHAPE;
        } else {
            return error_set(error, "FILE", "", "the .npy header has an unknown key '%s'", key);
        }
        skip_space(c);
        if (!take_word(c, ",") && (c->at == c->end || *c->at != '}'))
            return refuse_file(error, "the .npy header cannot be read");
    }
    return found == ALL ||
           refuse_file(error, "the .npy header lacks descr, fortran_order or shape");
}

bool npy_read(const void *bytes, size_t length, struct fdclient_array *array, size_t *data_begin,
              struct fdclient_error *error)
{
    const uint8_t *b = bytes;
    if (!npy_is(bytes, length))
        return refuse_file(error, "not a .npy file: it does not begin with \\x93NUMPY");
    const size_t before = length > 6 && b[6] == 1 ? 10 : 12; /* the length has 2 bytes, then 4 */
    if (length < before)
        return refuse_file(error, "the .npy file ends within its header");
    if (b[6] < 1 || b[6] > 3)
        return error_set(error, "FILE", "", "a .npy of version %d: 1 to 3 are known", b[6]);
    uint64_t header = b[8] | (uint64_t)b[9] << 8;
    if (before == 12)
        header |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    if (header > length - before)
        return refuse_file(error, "the .npy file ends within its header");
    struct cursor cursor = {(const char *)bytes + before, (const char *)bytes + before + header};
    if (!dictionary_read(&cursor, array, error))
        return false;
    *data_begin = before + (size_t)header;
    return shape_check(array, length - *data_begin, error);
}

size_t npy_write(const struct fdclient_array *array, char header[NPY_HEADER_BYTES])
{
    char text[NPY_HEADER_BYTES];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        array->dtype == FDCLIENT_F64 ? "<f8" : "<f4");
    for (uint32_t i = 0; i < array->dimensions; i++) /* 8 numbers of 20 digits always fit */
        used +=
            snprintf(text + used, sizeof text - (size_t)used, "%s%" PRIu64 "%s", i > 0 ? " " : "",
                     array->shape[i], i + 1 < array->dimensions || i == 0 ? "," : "");
    used += snprintf(text + used, sizeof text - (size_t)used, "), }");
    const size_t whole = (10 + (size_t)used + 1 + 63) / 64 * 64;
    memset(header, ' ', whole);
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((whole - 10) & 0xff);
    header[9] = (char)((whole - 10) >> 8);
    memcpy(header + 10, text, (size_t)used);
    header[whole - 1] = '\n';
    return whole;
}
