#include "client/json_write.h"

#include "client/number.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* Bytes of the well-formed UTF-8 character that the text begins with; 0 where it is none (overlong
 * forms, surrogates and what lies above U+10FFFF included). */
static size_t character_bytes(const uint8_t *text, size_t length)
{
    const uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    const size_t bytes = first >= 0xc2 && first <= 0xdf   ? 2
                         : first >= 0xe0 && first <= 0xef ? 3
                         : first >= 0xf0 && first <= 0xf4 ? 4
                                                          : 0;
    if (bytes == 0 || bytes > length)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    const bool refused = (first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
                         (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f);
    return refused ? 0 : bytes;
}

void json_write_string(FILE *out, const char *text, size_t length)
{
    const uint8_t *bytes = (const uint8_t *)text;
    putc('"', out);
    for (size_t i = 0; i < length;) {
        const size_t character = character_bytes(bytes + i, length - i);
        static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        const char *escape = bytes[i] ? strchr(escaped, bytes[i]) : NULL;
        if (character == 0)
            fputs("\\ufffd", out);
        else if (escape)
            fprintf(out, "\\%c", letters[escape - escaped]);
        else if (bytes[i] < 0x20 || bytes[i] == 0x7f)
            fprintf(out, "\\u%04x", bytes[i]);
        else
            fwrite(bytes + i, 1, character, out);
        i += character ? character : 1;
    }
    putc('"', out);
}

static void line_begin(FILE *out, int indent, int depth)
{
    if (indent > 0)
        fprintf(out, "\n%*s", indent * depth, "");
}

static bool is_container(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_ARRAY || object->type == MSGPACK_OBJECT_MAP;
}

static void write_value(FILE *out, const msgpack_object *object, int indent, int depth);

static void write_array(FILE *out, const msgpack_object_array *array, int indent, int depth)
{
    bool flat = true; /* a shape reads best on one line */
    for (uint32_t i = 0; i < array->size; i++)
        flat = flat && !is_container(&array->ptr[i]);
    putc('[', out);
    for (uint32_t i = 0; i < array->size; i++) {
        if (i > 0)
            fputs(indent > 0 && !flat ? "," : ", ", out);
        if (!flat)
            line_begin(out, indent, depth + 1);
        write_value(out, &array->ptr[i], indent, depth + 1);
    }
    if (!flat)
        line_begin(out, indent, depth);
    putc(']', out);
}

static void write_key(FILE *out, const msgpack_object *key)
{
    if (key->type == MSGPACK_OBJECT_STR || key->type == MSGPACK_OBJECT_BIN) {
        json_write_string(out, key->via.bin.ptr, key->via.bin.size);
    } else if (is_container(key)) {
        fputs("\"\"", out);
    } else {
        putc('"', out);
        write_value(out, key, 0, 0);
        putc('"', out);
    }
}

static void write_map(FILE *out, const msgpack_object_map *map, int indent, int depth)
{
    putc('{', out);
    for (uint32_t i = 0; i < map->size; i++) {
        if (i > 0)
            fputs(indent > 0 ? "," : ", ", out);
        line_begin(out, indent, depth + 1);
        write_key(out, &map->ptr[i].key);
        fputs(": ", out);
        write_value(out, &map->ptr[i].val, indent, depth + 1);
    }
    if (map->size > 0)
        line_begin(out, indent, depth);
    putc('}', out);
}

static void write_value(FILE *out, const msgpack_object *object, int indent, int depth)
{
    switch (object->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        fputs(object->via.boolean ? "true" : "false", out);
        return;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        fprintf(out, "%" PRIu64, object->via.u64);
        return;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        fprintf(out, "%" PRId64, object->via.i64);
        return;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        number_print(out, object->via.f64);
        return;
    case MSGPACK_OBJECT_STR:
    case MSGPACK_OBJECT_BIN: /* the same layout */
        json_write_string(out, object->via.bin.ptr, object->via.bin.size);
        return;
    case MSGPACK_OBJECT_ARRAY:
        write_array(out, &object->via.array, indent, depth);
        return;
    case MSGPACK_OBJECT_MAP:
        write_map(out, &object->via.map, indent, depth);
        return;
    case MSGPACK_OBJECT_NIL:
    case MSGPACK_OBJECT_EXT:
        break;
    }
    fputs("null", out);
}

void json_write(FILE *out, const msgpack_object *object, int indent)
{
    write_value(out, object, indent, 0);
}
