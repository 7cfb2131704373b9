/* MessagePack from text, so that a test shows its message: JSON with single quotes, `b'…'` for a
 * bin, `#N` for a bin of N bytes that count up from 0, `$N` for a str of N letters, nan and inf. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void notation_skip(const char **text)
{
    while (**text == ' ' || **text == '\n' || **text == ',' || **text == ':')
        (*text)++;
}

static inline void notation_pack(msgpack_sbuffer *to, const char **text);

static inline void notation_container(msgpack_sbuffer *to, const char **text, bool is_map)
{
    msgpack_sbuffer inside;
    msgpack_sbuffer_init(&inside);
    size_t count = 0;
    (*text)++;
    for (notation_skip(text); **text != ']' && **text != '}'; notation_skip(text), count++)
        notation_pack(&inside, text);
    (*text)++;
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
    if (is_map)
        msgpack_pack_map(&packer, count / 2);
    else
        msgpack_pack_array(&packer, count);
    msgpack_sbuffer_write(to, inside.data, inside.size);
    msgpack_sbuffer_destroy(&inside);
}

static inline void notation_number(msgpack_packer *packer, const char **text)
{
    const size_t length = strcspn(*text, ",]} \n:");
    char *end;
    if (strcspn(*text, ".enif") < length)
        msgpack_pack_double(packer, strtod(*text, &end));
    else if (**text == '-')
        msgpack_pack_int64(packer, strtoll(*text, &end, 0));
    else
        msgpack_pack_uint64(packer, strtoull(*text, &end, 0));
    if (end != *text + length) {
        fprintf(stderr, "notation: %s\n", *text);
        abort();
    }
    *text = end;
}

static inline void notation_string(msgpack_packer *packer, bool is_bin, const char *bytes,
                                   size_t length)
{
    if (is_bin)
        msgpack_pack_bin_with_body(packer, bytes, length);
    else
        msgpack_pack_str_with_body(packer, bytes, length);
}

static inline void notation_pack(msgpack_sbuffer *to, const char **text)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
    notation_skip(text);
    if (**text == '[' || **text == '{') {
        notation_container(to, text, **text == '{');
    } else if (**text == '\'' || strncmp(*text, "b'", 2) == 0) {
        const bool is_bin = **text == 'b';
        const char *begin = *text + (is_bin ? 2 : 1);
        const size_t length = strcspn(begin, "'");
        notation_string(&packer, is_bin, begin, length);
        *text = begin + length + 1;
    } else if (**text == '#' || **text == '$') {
        const bool is_bin = **text == '#';
        const size_t length = strtoull(*text + 1, (char **)text, 10);
        char *bytes = malloc(length + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = is_bin ? (char)i : (char)('a' + i % 26);
        notation_string(&packer, is_bin, bytes, length);
        free(bytes);
    } else if (strncmp(*text, "true", 4) == 0) {
        msgpack_pack_true(&packer);
        *text += 4;
    } else if (strncmp(*text, "false", 5) == 0) {
        msgpack_pack_false(&packer);
        *text += 5;
    } else if (strncmp(*text, "nil", 3) == 0) {
        msgpack_pack_nil(&packer);
        *text += 3;
    } else {
        notation_number(&packer, text);
    }
}

/* The message that `text` denotes; msgpack_sbuffer_destroy() it. */
static inline msgpack_sbuffer notation(const char *text)
{
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    notation_pack(&buffer, &text);
    return buffer;
}

/* The same, unpacked; msgpack_unpacked_destroy() it. */
static inline msgpack_unpacked notation_object(const char *text)
{
    msgpack_sbuffer buffer = notation(text);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    if (msgpack_unpack_next(&unpacked, buffer.data, buffer.size, &offset) !=
        MSGPACK_UNPACK_SUCCESS) {
        fprintf(stderr, "notation: %s\n", text);
        abort();
    }
    /* Strings point into the bytes, which must live as long. */
    if (!unpacked.zone)
        unpacked.zone = msgpack_zone_new(64);
    msgpack_zone_push_finalizer(unpacked.zone, free, msgpack_sbuffer_release(&buffer));
    return unpacked;
}
