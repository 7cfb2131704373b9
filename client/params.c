#include "client/params.h"

#include "client/error.h"
#include "client/json_read.h"
#include "client/number.h"
#include "numerics/job.h"
#include "protocol/reply.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void text_write(msgpack_packer *packer, const char *text, size_t length)
{
    msgpack_pack_str(packer, length);
    msgpack_pack_str_body(packer, text, length);
}

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
        text_write(packer, text, length);
    }
}

static void field_write(msgpack_packer *packer, uint64_t id)
{
    msgpack_pack_map(packer, 1);
    reply_write_str(packer, "field");
    msgpack_pack_uint64(packer, id);
}

/* A field's id, all of its digits. */
static bool id_read(const char *text, size_t length, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*id, 10, id) ||
            __builtin_add_overflow(*id, (uint64_t)(text[i] - '0'), id))
            return false;
    return length > 0;
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
    if (begins_field(text, length) && id_read(text + word, length - word, &id))
        field_write(packer, id);
    else
        plain_write(packer, text, length);
}

/* WORD:VALUE, WORD:VALUE:CONST or a word alone, with @PLACE behind it, as a map. */
static void boundary_write(msgpack_packer *packer, const char *text, size_t length)
{
    const size_t stop = part_length(text, length, '@'), word = part_length(text, stop, ':');
    const bool has_number = word < stop, has_place = stop < length;
    const size_t begin = has_number ? word + 1 : stop;
    const size_t end = begin + number_part_length(text + begin, stop - begin);
    msgpack_pack_map(packer, 1u + (end < stop) + has_place);
    if (has_number) {
        text_write(packer, text, word);
        number_part_write(packer, text + begin, end - begin);
    } else {
        reply_write_str(packer, "type");
        text_write(packer, text, word);
    }
    if (end < stop) {
        reply_write_str(packer, "const");
        number_part_write(packer, text + end + 1, stop - end - 1);
    }
    if (has_place) {
        reply_write_str(packer, "at");
        text_write(packer, text + stop + 1, length - stop - 1);
    }
}

/* One value; field:ID; or a boundary's WORD:VALUE. */
static void value_write(msgpack_packer *packer, const char *text, size_t length)
{
    if (begins_field(text, length))
        number_part_write(packer, text, length);
    else if (memchr(text, ':', length) || memchr(text, '@', length))
        boundary_write(packer, text, length);
    else
        plain_write(packer, text, length);
}

static bool json_value_write(msgpack_packer *packer, const char *name, const char *text,
                             struct fdclient_error *error)
{
    msgpack_zone zone;
    msgpack_object object;
    const char *reason = "out of memory";
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
        return error_set(error, "OUT_OF_MEMORY", name, "%s", reason);
    const bool read = json_read(text, strlen(text), &zone, &object, &reason);
    if (read)
        msgpack_pack_object(packer, object);
    msgpack_zone_destroy(&zone);
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
            text_write(packer, item, (size_t)(equals - item));
            item = equals + 1;
            length = (size_t)(next - item);
        }
        if (length == 0)
            return error_set(error, "INVALID_ARGUMENT", name, "a value is missing");
        value_write(packer, item, length);
        item = next;
        if (!*item)
            return true;
    }
}

/* A letter, a number, or two letters and a comma between them. */
static void axis_write(msgpack_packer *packer, const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    reply_write_str(packer, "axis");
    if (*text && !*end && !errno) {
        msgpack_pack_int64(packer, number);
    } else if (strlen(text) == 3 && text[1] == ',') {
        msgpack_pack_array(packer, 2);
        msgpack_pack_str_with_body(packer, text, 1);
        msgpack_pack_str_with_body(packer, text + 2, 1);
    } else {
        reply_write_str(packer, text);
    }
}

static void integer_write(msgpack_packer *packer, const char *name, int64_t value)
{
    reply_write_str(packer, name);
    msgpack_pack_int64(packer, value);
}

static void number_write(msgpack_packer *packer, const char *name, double value)
{
    reply_write_str(packer, name);
    msgpack_pack_double(packer, value);
}

static void true_write(msgpack_packer *packer, const char *name)
{
    reply_write_str(packer, name);
    msgpack_pack_true(packer);
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

bool params_write(msgpack_packer *packer, const char *method, const struct fdclient_params *params,
                  uint32_t *pairs, struct fdclient_error *error)
{
    *pairs = 0;
    if (params->axis) {
        axis_write(packer, params->axis);
        ++*pairs;
    }
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {{"order", params->order},
                    {"accuracy", params->accuracy},
                    {"batch", params->batch},
                    {"priority", params->priority}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (integers[i].value != 0) {
            integer_write(packer, integers[i].name, integers[i].value);
            ++*pairs;
        }
    const struct {
        const char *name, *text;
    } texts[] = {{"spacing", params->spacing},
                 {"boundary", params->boundary},
                 {"endpoint", params->endpoint},
                 {"diffusivity", params->diffusivity},
                 {"stagger", params->stagger},
                 {"coefficient", params->coefficient},
                 {"offsets", params->offsets},
                 {"weights", params->weights},
                 {"source", params->source},
                 {"scheme", params->scheme},
                 {"probes", params->probes},
                 {"snapshot", params->snapshot},
                 {"ops", params->ops}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text) {
            if (!parameter_write(packer, texts[i].name, texts[i].text, error))
                return false;
            ++*pairs;
        }
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"steps", params->steps},        {"every", params->every},
                  {"timeout", params->timeout_us}, {"repeat", params->repeat},
                  {"after", params->after},        {"limit", params->limit}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value != 0) {
            reply_write_str(packer, counts[i].name);
            msgpack_pack_uint64(packer, counts[i].value);
            ++*pairs;
        }
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"dt", params->dt}, {"cfl", params->cfl}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isnan(numbers[i].value)) {
            number_write(packer, numbers[i].name, numbers[i].value);
            ++*pairs;
        }
    const struct {
        const char *name;
        bool set;
    } flags[] = {{"allow_unstable", params->allow_unstable},
                 {"progress", params->progress},
                 {"report", params->report},
                 {"dry_run", params->dry_run},
                 {"detach", params->detach}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].set) {
            true_write(packer, flags[i].name);
            ++*pairs;
        }
    if (params->out_is_field) {
        out_write(packer, method, params->out_field);
        ++*pairs;
    }
    return true;
}
