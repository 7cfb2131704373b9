#include "client/params.h"

#include "client/error.h"
#include "client/json.h"
#include "client/number.h"
#include "numerics/job.h"
#include "protocol/reply.h"

#include <math.h>
#include <string.h>

/* A number, true, false, or a word. */
static void plain_write(msgpack_packer *packer, const char *text, size_t length)
{
    double number;
    if (number_read(text, length, &number)) {
        msgpack_pack_double(packer, number);
    } else if (length == 4 && memcmp(text, "true", 4) == 0) {
        msgpack_pack_true(packer);
    } else if (length == 5 && memcmp(text, "false", 5) == 0) {
        msgpack_pack_false(packer);
    } else {
        msgpack_pack_str_with_body(packer, text, length);
    }
}

static void field_write(msgpack_packer *packer, uint64_t id)
{
    msgpack_pack_map(packer, 1);
    reply_write_count(packer, "field", id);
}

/* The length of what comes before the first `end` character, or of all of it. */
static size_t part_length(const char *text, size_t length, char end)
{
    const char *found = memchr(text, end, length);
    return found ? (size_t)(found - text) : length;
}

static const char field_word[] = "field:";

static bool begins_field(const char *text, size_t length)
{
    return length >= strlen(field_word) && memcmp(text, field_word, strlen(field_word)) == 0;
}

/* VALUE or field:ID, up to the next colon: its length. */
static size_t number_part_length(const char *text, size_t length)
{
    const size_t word = begins_field(text, length) ? strlen(field_word) : 0;
    return word + part_length(text + word, length - word, ':');
}

static void number_part_write(msgpack_packer *packer, const char *text, size_t length)
{
    uint64_t id;
    const size_t word = strlen(field_word);
    if (begins_field(text, length) && number_whole(text + word, length - word, &id))
        field_write(packer, id);
    else
        plain_write(packer, text, length);
}

/* WORD:VALUE, WORD:VALUE:CONST or WORD, each with or without @PLACE, as a map. */
static void boundary_write(msgpack_packer *packer, const char *text, size_t length)
{
    const size_t stop = part_length(text, length, '@'), word = part_length(text, stop, ':');
    const bool has_number = word < stop, has_place = stop < length;
    const size_t begin = has_number ? word + 1 : stop;
    const size_t end = begin + number_part_length(text + begin, stop - begin);
    msgpack_pack_map(packer, 1u + (end < stop) + has_place);
    if (has_number) {
        msgpack_pack_str_with_body(packer, text, word);
        number_part_write(packer, text + begin, end - begin);
    } else {
        reply_write_str(packer, "type");
        msgpack_pack_str_with_body(packer, text, word);
    }
    if (end < stop) {
        reply_write_str(packer, "const");
        number_part_write(packer, text + end + 1, stop - end - 1);
    }
    if (has_place) {
        reply_write_str(packer, "at");
        msgpack_pack_str_with_body(packer, text + stop + 1, length - stop - 1);
    }
}

/* One value; field:ID; or a boundary's WORD:VALUE. */
static void value_write(msgpack_packer *packer, const char *name, const char *text, size_t length)
{
    if (begins_field(text, length))
        number_part_write(packer, text, length);
    else if (strcmp(name, "boundary") == 0 &&
             (memchr(text, ':', length) || memchr(text, '@', length)))
        boundary_write(packer, text, length);
    else
        plain_write(packer, text, length);
}

static bool json_value_write(msgpack_packer *packer, const char *name, const char *text,
                             struct fdclient_error *error)
{
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    msgpack_object object;
    const char *reason;
    const bool read = json_read(text, strlen(text), zone, &object, &reason);
    if (read)
        msgpack_pack_object(packer, object);
    msgpack_zone_free(zone);
    return read || error_set(error, "INVALID_ARGUMENT", name, "not JSON: %s", reason);
}

/* A parameter in any of its forms: JSON, a map A=V,B=V, a list V,V,V, or one value. */
static bool parameter_write(msgpack_packer *packer, const char *name, const char *text,
                            struct fdclient_error *error)
{
    reply_write_str(packer, name);
    if (*text == '{' || *text == '[' || *text == '"')
        return json_value_write(packer, name, text, error);
    const bool is_map = strchr(text, '=') != NULL;
    size_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    if (is_map)
        msgpack_pack_map(packer, count);
    else if (count > 1)
        msgpack_pack_array(packer, count);
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        const char *next = item + length;
        if (is_map) {
            const char *equals = memchr(item, '=', length);
            if (!equals || equals == item)
                return error_set(error, "INVALID_ARGUMENT", name,
                                 "each part of a map is NAME=VALUE; got '%.*s'",
                                 length > 40 ? 40 : (int)length, item);
            msgpack_pack_str_with_body(packer, item, (size_t)(equals - item));
            item = equals + 1;
            length = (size_t)(next - item);
        }
        if (length == 0)
            return error_set(error, "INVALID_ARGUMENT", name, "a value is missing");
        value_write(packer, name, item, length);
        item = next;
        if (!*item)
            return true;
    }
}

/* "field", {"field": id}, or for a vector field a map of them by axis. */
static void out_write(msgpack_packer *packer, const char *method, const uint64_t *ids)
{
    uint32_t count = 0;
    while (count < FDCLIENT_AXES && ids[count])
        count++;
    reply_write_str(packer, "out");
    if (count == 0) {
        reply_write_str(packer, "field");
    } else if (count == 1 && strcmp(method, "gradient") != 0) {
        field_write(packer, ids[0]);
    } else {
        msgpack_pack_map(packer, count);
        for (uint32_t i = 0; i < count; i++) {
            reply_write_str(packer, axis_name((enum axis)i));
            field_write(packer, ids[i]);
        }
    }
}

#define PARAMETER(name, client, ...) client
#define ROW(name, member)                                                                          \
    {#name, PARAMS_KIND(&((struct fdclient_params *)NULL)->member),                                \
     offsetof(struct fdclient_params, member), sizeof((struct fdclient_params *)NULL)->member},
#define OPTION(member, ...) ROW(member, member)
#define MAYBE OPTION
#define MEMBER ROW
#define NO_MEMBER

static const struct row {
    const char *name;
    enum params_kind kind;
    size_t offset, bytes;
} table[] = {
#include "protocol/parameters.inc"
};

/* NULL, false, 0 and NaN are not. */
static bool is_set(const struct row *row, const void *place)
{
    static const char zeros[sizeof(uint64_t)];
    return memcmp(place, zeros, row->bytes) != 0 &&
           !(row->kind == PARAMS_REAL && isnan(*(const double *)place));
}

static bool member_write(msgpack_packer *packer, const struct row *row, const void *place,
                         struct fdclient_error *error)
{
    if (row->kind == PARAMS_TEXT)
        return parameter_write(packer, row->name, *(const char *const *)place, error);
    reply_write_str(packer, row->name);
    if (row->kind == PARAMS_FLAG)
        msgpack_pack_true(packer);
    else if (row->kind == PARAMS_REAL)
        msgpack_pack_double(packer, *(const double *)place);
    else if (row->kind == PARAMS_INT)
        msgpack_pack_int(packer, *(const int *)place);
    else
        msgpack_pack_uint64(packer, row->kind == PARAMS_UINT32 ? *(const uint32_t *)place
                                                               : *(const uint64_t *)place);
    return true;
}

bool params_write(msgpack_packer *packer, const char *method, const struct fdclient_params *params,
                  uint32_t *pairs, struct fdclient_error *error)
{
    *pairs = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const void *place = (const char *)params + table[i].offset;
        if (!is_set(&table[i], place))
            continue;
        if (!member_write(packer, &table[i], place, error))
            return false;
        ++*pairs;
    }
    if (params->out_is_field) {
        out_write(packer, method, params->out_field);
        ++*pairs;
    }
    return true;
}
