#include "client/file.h"

#include "client/error.h"
#include "client/json.h"
#include "protocol/object.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[6] = "\x93NUMPY";

bool npy_is(const void *bytes, size_t length)
{
    return length >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

bool npy_is_name(const char *path)
{
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

static bool refuse_file(struct fdclient_error *error, const char *reason)
{
    return error_set(error, "FILE", "", "%s", reason);
}

/* Python's literals as JSON: other quotes and brackets, no comma before one, True and False, and
 * Python 2's long integers without their L. `to` has room for as many bytes. Bytes of it. */
static size_t write_as_json(const char *text, size_t length, char *to)
{
    static const char python[] = "()TF", json[] = "[]tf";
    char *const begin = to, quote = 0;
    for (const char *at = text; at < text + length; at++) {
        const char *other = *at ? strchr(python, *at) : NULL;
        if (quote || *at == '\'' || *at == '"') {
            *to++ = *at == quote || !quote ? '"' : *at;
            quote = !quote ? *at : *at == quote ? '\0' : quote;
            continue;
        }
        if (*at == ')' || *at == '}') {
            while (to > begin && to[-1] == ' ')
                to--;
            to -= to > begin && to[-1] == ',';
        }
        if (*at != 'L')
            *to++ = other ? json[other - python] : *at;
    }
    return (size_t)(to - begin);
}

static bool read_descr(const msgpack_object *descr, struct fdclient_array *array,
                       struct fdclient_error *error)
{
    if (descr->type == MSGPACK_OBJECT_ARRAY)
        return refuse_file(error, "a structured .npy: save each of its members as an array");
    array->dtype = object_is(descr, "<f8") ? FDCLIENT_F64 : FDCLIENT_F32;
    return array->dtype == FDCLIENT_F64 || object_is(descr, "<f4") ||
           error_set(error, "FILE", "",
                     "a .npy of type '%s': only <f4 and <f8 are accepted (astype('<f4'))",
                     object_quote(descr).text);
}

static bool read_dictionary(const msgpack_object *dictionary, struct fdclient_array *array,
                            struct fdclient_error *error)
{
    enum { DESCR, ORDER, SHAPE, COUNT };
    static const char *const keys[] = {"descr", "fortran_order", "shape", NULL};
    const msgpack_object *values[COUNT];
    struct failure failure = {0};
    bool is_fortran;
    if (!object_read_map(dictionary, "", keys,
                         "the .npy header is no dictionary of descr, fortran_order and shape",
                         values, &failure))
        return refuse_file(error, failure.message);
    if (!values[DESCR] || !values[ORDER] || !values[SHAPE])
        return refuse_file(error, "the .npy header lacks descr, fortran_order or shape");
    if (!read_descr(values[DESCR], array, error))
        return false;
    if (!object_boolean(values[ORDER], &is_fortran) || is_fortran)
        return refuse_file(error, "a .npy in Fortran order: save numpy.ascontiguousarray(f)");
    return shape_from_list(values[SHAPE], array) ||
           error_set(error, "FILE", "",
                     "the shape of a .npy must be 1 to %d dimensions of 64 bits; a number of no "
                     "dimensions is no field",
                     FDCLIENT_DIMENSIONS);
}

static bool read_header(const char *header, size_t length, struct fdclient_array *array,
                        struct fdclient_error *error)
{
    const char *reason = "out of memory";
    msgpack_object dictionary;
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    char *json = malloc(length + 1);
    const bool read =
        json && json_read(json, write_as_json(header, length, json), zone, &dictionary, &reason)
            ? read_dictionary(&dictionary, array, error)
            : error_set(error, "FILE", "",
                        "the .npy header cannot be read as a dictionary of descr, fortran_order "
                        "and shape: %s",
                        reason);
    free(json);
    msgpack_zone_free(zone);
    return read;
}

bool npy_read(const void *bytes, size_t length, struct fdclient_array *array,
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
    if (!read_header((const char *)bytes + before, (size_t)header, array, error))
        return false;
    array->data = b + before + header;
    return shape_check(array, length - before - (size_t)header, error);
}

size_t npy_write(const struct fdclient_array *array, char header[NPY_HEADER_BYTES])
{
    char text[NPY_HEADER_BYTES], shape[SHAPE_TEXT_BYTES]; /* 8 numbers of 20 digits always fit */
    const int used =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                 array->dtype == FDCLIENT_F64 ? "<f8" : "<f4",
                 shape_text(array->dimensions, array->shape, ", ", shape),
                 array->dimensions == 1 ? "," : "");
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
