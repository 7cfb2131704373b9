#include "client/json.h"

#include "client/number.h"
#include "base/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    msgpack_zone *zone;
    const char *error; /* the first that was found */
    /* Values that are read and whose container is not whole: of a map key, value, key, value. */
    msgpack_object *open;
    size_t count, capacity;
};

static bool fail_json(struct reader *r, const char *error)
{
    if (!r->error)
        r->error = error;
    return false;
}

static char peek(struct reader *r)
{
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4))
        r->at++;
    return r->at < r->end ? *r->at : '\0';
}

static bool take_character(struct reader *r, char wanted)
{
    if (peek(r) != wanted || r->at == r->end)
        return false;
    r->at++;
    return true;
}

static bool hex_read(struct reader *r, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = r->at < r->end && *r->at ? strchr(digits, *r->at) : NULL;
        if (!digit)
            return fail_json(r, "\\u needs four hexadecimal digits");
        *unit = *unit << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return true;
}

/* The character of \uXXXX, or of a surrogate pair, as UTF-8. */
static bool unicode_read(struct reader *r, char **to)
{
    uint32_t code, low;
    if (!hex_read(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return fail_json(r, "half of a surrogate pair");
        r->at += 2;
        if (!hex_read(r, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return fail_json(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    char *out = *to;
    if (code < 0x80) {
        *out++ = (char)code;
    } else {
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static const uint8_t mark[] = {0, 0xc0, 0xe0, 0xf0};
        *out++ = (char)(mark[more] | code >> (6 * more));
        for (int i = more - 1; i >= 0; i--)
            *out++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    }
    *to = out;
    return true;
}

static bool string_read(struct reader *r, msgpack_object *object)
{
    const char *begin = ++r->at; /* past the quote */
    while (r->at < r->end && *r->at != '"')
        r->at += *r->at == '\\' && r->end - r->at > 1 ? 2 : 1;
    if (r->at >= r->end)
        return fail_json(r, "a string without its end");
    const char *close = r->at;
    char *text = msgpack_zone_malloc(r->zone, (size_t)(close - begin) + 1); /* never grows */
    if (!text)
        return fail_json(r, "out of memory");
    char *to = text;
    for (r->at = begin; r->at < close;) {
        const char c = *r->at++;
        if ((unsigned char)c < 0x20)
            return fail_json(r, "a control character in a string");
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        static const char letters[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
        const char letter = *r->at++;
        const char *found = letter ? strchr(letters, letter) : NULL;
        if (found)
            *to++ = plain[found - letters];
        else if (letter != 'u')
            return fail_json(r, "an unknown escape in a string");
        else if (!unicode_read(r, &to))
            return false;
    }
    r->at = close + 1;
    object->type = MSGPACK_OBJECT_STR;
    object->via.str.ptr = text;
    object->via.str.size = (uint32_t)(to - text);
    return true;
}

static bool number_or_word_read(struct reader *r, msgpack_object *object)
{
    const char *begin = r->at;
    while (r->at < r->end && *r->at && !memchr(" \t\r\n,]}:", *r->at, 8))
        r->at++;
    const size_t length = (size_t)(r->at - begin);
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++)
        if (length == strlen(words[i]) && memcmp(begin, words[i], length) == 0) {
            object->type = i == 0 ? MSGPACK_OBJECT_NIL : MSGPACK_OBJECT_BOOLEAN;
            object->via.boolean = i == 1;
            return true;
        }
    const char first = length > 1 && begin[0] == '-' ? begin[1] : length > 0 ? begin[0] : ' ';
    double value;
    if (first < '0' || first > '9' || !number_read(begin, length, &value) ||
        memchr(begin, 'x', length) || memchr(begin, 'X', length))
        return fail_json(r, "neither a value nor a number");
    const bool negative = begin[0] == '-';
    uint64_t magnitude = 0;
    const bool integer = number_whole(begin + negative, length - negative, &magnitude);
    if (!integer || (negative && magnitude > INT64_MAX)) {
        object->type = MSGPACK_OBJECT_FLOAT64;
        object->via.f64 = value;
    } else if (negative && magnitude > 0) {
        object->type = MSGPACK_OBJECT_NEGATIVE_INTEGER;
        object->via.i64 = -(int64_t)magnitude;
    } else {
        object->type = MSGPACK_OBJECT_POSITIVE_INTEGER;
        object->via.u64 = magnitude;
    }
    return true;
}

static bool value_read(struct reader *r, int depth, msgpack_object *object);

/* Read a value onto the open ones. */
static bool open_read(struct reader *r, int depth)
{
    msgpack_object object;
    if (!value_read(r, depth, &object))
        return false;
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        msgpack_object *more = realloc(r->open, r->capacity * sizeof *more);
        if (!more)
            return fail_json(r, "out of memory");
        r->open = more;
    }
    r->open[r->count++] = object;
    return true;
}

static bool container_read(struct reader *r, int depth, msgpack_object *object)
{
    const bool is_map = *r->at++ == '{';
    const char close = is_map ? '}' : ']';
    const size_t first = r->count;
    if (depth >= LIMIT_DEPTH)
        return fail_json(r, "too many containers inside each other");
    if (!take_character(r, close)) {
        do {
            if (is_map && peek(r) != '"')
                return fail_json(r, "a key must be a string");
            if (is_map && (!open_read(r, depth + 1) || !take_character(r, ':')))
                return fail_json(r, "a key without a colon"); /* unless the key itself is wrong */
            if (!open_read(r, depth + 1))
                return false;
        } while (take_character(r, ','));
        if (!take_character(r, close))
            return fail_json(r, "a list or map without its end");
    }
    /* msgpack_object_kv is a key and a value, so they lie as it wants them. */
    _Static_assert(sizeof(msgpack_object_kv) == 2 * sizeof(msgpack_object), "no padding");
    const size_t count = r->count - first;
    void *copy = msgpack_zone_malloc(r->zone, (count + 1) * sizeof *r->open);
    if (!copy)
        return fail_json(r, "out of memory");
    if (count > 0)
        memcpy(copy, r->open + first, count * sizeof *r->open);
    r->count = first;
    object->type = is_map ? MSGPACK_OBJECT_MAP : MSGPACK_OBJECT_ARRAY;
    if (is_map)
        object->via.map = (msgpack_object_map){(uint32_t)(count / 2), copy};
    else
        object->via.array = (msgpack_object_array){(uint32_t)count, copy};
    return true;
}

static bool value_read(struct reader *r, int depth, msgpack_object *object)
{
    switch (peek(r)) {
    case '\0':
        return fail_json(r, "a value is missing");
    case '{':
    case '[':
        return container_read(r, depth, object);
    case '"':
        return string_read(r, object);
    default:
        return number_or_word_read(r, object);
    }
}

bool json_read(const char *text, size_t length, msgpack_zone *zone, msgpack_object *object,
               const char **error)
{
    struct reader r = {.at = text, .end = text + length, .zone = zone};
    if (!zone)
        fail_json(&r, "out of memory");
    else if (length > UINT32_MAX)
        fail_json(&r, "too long");
    else if (value_read(&r, 0, object) && (peek(&r) != '\0' || r.at < r.end))
        fail_json(&r, "text after the value");
    free(r.open);
    *error = r.error;
    return !r.error;
}

/* ---- writing ---- */

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

static bool is_container(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_ARRAY || object->type == MSGPACK_OBJECT_MAP;
}

static void write_value(FILE *out, const msgpack_object *object, int indent, int depth);

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

static void write_container(FILE *out, const msgpack_object *object, int indent, int depth)
{
    const bool is_map = object->type == MSGPACK_OBJECT_MAP;
    const uint32_t size = is_map ? object->via.map.size : object->via.array.size;
    bool in_lines = indent > 0 && is_map && size > 0; /* a shape reads best on one line */
    for (uint32_t i = 0; !is_map && indent > 0 && i < size; i++)
        in_lines = in_lines || is_container(&object->via.array.ptr[i]);
    putc(is_map ? '{' : '[', out);
    for (uint32_t i = 0; i < size; i++) {
        if (i > 0)
            fputs(in_lines ? "," : ", ", out);
        if (in_lines)
            fprintf(out, "\n%*s", indent * (depth + 1), "");
        if (is_map) {
            write_key(out, &object->via.map.ptr[i].key);
            fputs(": ", out);
        }
        write_value(out, is_map ? &object->via.map.ptr[i].val : &object->via.array.ptr[i], indent,
                    depth + 1);
    }
    if (in_lines)
        fprintf(out, "\n%*s", indent * depth, "");
    putc(is_map ? '}' : ']', out);
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
    case MSGPACK_OBJECT_MAP:
        write_container(out, object, indent, depth);
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
