/* Happy path: header → (small) its bytes are copied → object complete → … → message complete.
 *             header → (payload) event → payload_done until nothing is due → object complete → …
 * Only headers can fail, and every failure is final: after a refused header the beginning of the
 * next message is unknown. */
#include "protocol/splitter.h"

#include <stdlib.h>
#include <string.h>

/* fixext 8: its first byte, type and number. */
#define EXT_FIRST 0xd7
#define EXT_BYTES 10

enum kind { KIND_SCALAR, KIND_BYTES, KIND_ARRAY, KIND_MAP, KIND_EXT, KIND_INVALID };

/* The object that a first byte announces. */
struct header {
    enum kind kind;
    uint32_t bytes; /* of the header; of the whole object where it is a scalar */
    uint32_t fixed; /* length or count that the first byte itself holds */
};

static struct header header_of(uint8_t first)
{
    if (first <= 0x7f || first >= 0xe0)
        return (struct header){KIND_SCALAR, 1, 0};
    if (first <= 0x8f)
        return (struct header){KIND_MAP, 1, first & 0x0f};
    if (first <= 0x9f)
        return (struct header){KIND_ARRAY, 1, first & 0x0f};
    if (first <= 0xbf)
        return (struct header){KIND_BYTES, 1, first & 0x1f};
    static const struct header table[32] = {
        {KIND_SCALAR, 1, 0}, {KIND_INVALID, 1, 0}, {KIND_SCALAR, 1, 0}, {KIND_SCALAR, 1, 0},
        {KIND_BYTES, 2, 0},  {KIND_BYTES, 3, 0},   {KIND_BYTES, 5, 0},  {KIND_EXT, 1, 0},
        {KIND_EXT, 1, 0},    {KIND_EXT, 1, 0},     {KIND_SCALAR, 5, 0}, {KIND_SCALAR, 9, 0},
        {KIND_SCALAR, 2, 0}, {KIND_SCALAR, 3, 0},  {KIND_SCALAR, 5, 0}, {KIND_SCALAR, 9, 0},
        {KIND_SCALAR, 2, 0}, {KIND_SCALAR, 3, 0},  {KIND_SCALAR, 5, 0}, {KIND_SCALAR, 9, 0},
        {KIND_EXT, 1, 0},    {KIND_EXT, 1, 0},     {KIND_EXT, 1, 0},    {KIND_EXT, 1, 0},
        {KIND_EXT, 1, 0},    {KIND_BYTES, 2, 0},   {KIND_BYTES, 3, 0},  {KIND_BYTES, 5, 0},
        {KIND_ARRAY, 3, 0},  {KIND_ARRAY, 5, 0},   {KIND_MAP, 3, 0},    {KIND_MAP, 5, 0},
    };
    return table[first - 0xc0];
}

static uint64_t big_endian(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* The length or count that a whole header announces, whose bytes these are. */
static uint64_t length_of(struct header header, const uint8_t *bytes)
{
    return header.bytes == 1 ? header.fixed : big_endian(bytes + 1, header.bytes - 1);
}

void splitter_init(struct splitter *s)
{
    splitter_init_limits(s, LIMIT_CONTROL_BYTES, LIMIT_ELEMENTS);
}

void splitter_init_limits(struct splitter *s, uint32_t control_bytes, uint32_t elements)
{
    memset(s, 0, sizeof *s);
    s->control_limit = control_bytes;
    s->element_limit = elements;
}

void splitter_free(struct splitter *s)
{
    free(s->control);
    memset(s, 0, sizeof *s);
}

static enum splitter_event fail_splitter(struct splitter *s, const char *why)
{
    s->error = why;
    return SPLITTER_ERROR;
}

static bool is_complete(const struct splitter *s)
{
    return s->depth == 0 && s->control_bytes > 0;
}

/* Make room for so many more control bytes; false with the error set. */
static bool make_room(struct splitter *s, uint64_t bytes)
{
    enum { STEP = 8 };
    if (bytes > s->control_limit - s->control_bytes) {
        s->error = "a message is too large beside its payloads (64 KiB from a client)";
        return false;
    }
    const uint64_t need = s->control_bytes + bytes;
    if (need <= s->control_room)
        return true;
    uint64_t room = s->control_room;
    while (room < need)
        room = room ? STEP * room : SPLITTER_ROOM_BYTES;
    if (room > s->control_limit)
        room = s->control_limit;
    uint8_t *control = realloc(s->control, room);
    if (!control) {
        s->no_memory = true;
        s->error = "out of memory for a message";
        return false;
    }
    s->control = control;
    s->control_room = (uint32_t)room;
    return true;
}

/* Most objects have one byte. */
static void copy_bytes(uint8_t *to, const uint8_t *from, size_t count)
{
    if (count == 1)
        *to = *from;
    else
        memcpy(to, from, count);
}

static void append_control(struct splitter *s, const uint8_t *bytes, size_t count)
{
    copy_bytes(s->control + s->control_bytes, bytes, count);
    s->control_bytes += (uint32_t)count;
}

/* An object ends here: and so may those around it. */
static void complete_object(struct splitter *s)
{
    while (s->depth > 0) {
        struct splitter_level *level = &s->level[s->depth - 1];
        level->left--;
        if (level->is_map && level->left % 2 == 0) {
            level->pairs++;
            level->pairs_end = s->control_bytes;
        }
        if (level->left > 0)
            return;
        s->depth--;
    }
}

static bool is_map_value(const struct splitter_level *level)
{
    return level->is_map && level->left % 2 == 1;
}

/* The latest key of a map, which is complete: the value is under way. */
static struct splitter_name latest_key(const struct splitter *s, const struct splitter_level *map)
{
    const uint8_t *key = s->control + map->pairs_end;
    const struct header header = header_of(key[0]);
    if (header.kind != KIND_BYTES)
        return (struct splitter_name){NULL, 0};
    return (struct splitter_name){
        .text = (const char *)key + header.bytes,
        .bytes = (uint32_t)length_of(header, key),
    };
}

/* Objects that the containers around here have announced and that have not come. */
static uint64_t announced(const struct splitter *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->depth; i++)
        sum += s->level[i].left;
    return sum;
}

static enum splitter_event begin_container(struct splitter *s, bool is_map, uint64_t count)
{
    const uint64_t objects = is_map ? 2 * count : count;
    if (s->depth == LIMIT_DEPTH)
        return fail_splitter(s, "containers are nested more than 16 deep");
    /* This container is still among what its parent announced. */
    if (s->elements + announced(s) - (s->depth > 0) + objects > s->element_limit)
        return fail_splitter(s, "a message has too many elements (4096 from a client)");
    const struct splitter_level *parent = s->depth > 0 ? &s->level[s->depth - 1] : NULL;
    const struct splitter_name key =
        parent && is_map_value(parent) ? latest_key(s, parent) : (struct splitter_name){NULL, 0};
    append_control(s, s->header, s->header_bytes);
    if (objects == 0) {
        complete_object(s);
        return SPLITTER_MORE;
    }
    s->level[s->depth++] = (struct splitter_level){
        .left = objects,
        .begin = s->control_bytes,
        .pairs_end = s->control_bytes,
        .count = (uint32_t)count,
        .is_map = is_map,
        .is_data = !is_map && key.bytes == 4 && memcmp(key.text, "data", 4) == 0,
    };
    return SPLITTER_MORE;
}

static enum splitter_event begin_payload(struct splitter *s, uint64_t bytes)
{
    const struct splitter_level *level = &s->level[s->depth - 1];
    const struct splitter_level *map = level->is_map ? level : level - 1;
    if (s->payloads == LIMIT_PAYLOADS)
        return fail_splitter(s, "a message has more than 256 payloads");
    if (!make_room(s, EXT_BYTES))
        return SPLITTER_ERROR;
    s->payload = (struct splitter_payload){
        .number = s->payloads++,
        .list_index = level->is_map ? 0 : level->count - (uint32_t)level->left,
        .list_count = level->is_map ? 0 : level->count,
        .bytes = bytes,
        .map = s->control + map->begin,
        .map_bytes = map->pairs_end - map->begin,
        .map_at = map->begin,
        .map_pairs = map->pairs,
    };
    if (map > s->level && map[-1].is_map) {
        s->payload.name = latest_key(s, map - 1);
        if (map - 1 > s->level && map[-2].is_map)
            s->payload.outer = latest_key(s, map - 2);
    }
    uint8_t ext[EXT_BYTES] = {EXT_FIRST, SPLITTER_EXT_TYPE};
    for (int i = 0; i < 4; i++)
        ext[EXT_BYTES - 1 - i] = (uint8_t)(s->payload.number >> 8 * i);
    append_control(s, ext, sizeof ext);
    s->payload_left = bytes;
    s->payload_open = true;
    return SPLITTER_PAYLOAD;
}

static enum splitter_event begin_bytes(struct splitter *s, uint64_t length)
{
    if (s->depth > 0) {
        const struct splitter_level *level = &s->level[s->depth - 1];
        if ((is_map_value(level) && length >= LIMIT_DIVERT_BYTES) || level->is_data)
            return begin_payload(s, length);
    }
    if (!make_room(s, s->header_bytes + length))
        return SPLITTER_ERROR;
    append_control(s, s->header, s->header_bytes);
    s->copy_left = length;
    if (length == 0)
        complete_object(s);
    return SPLITTER_MORE;
}

/* A whole header lies in s->header. */
static enum splitter_event begin_object(struct splitter *s, struct header header)
{
    s->elements++; /* within the limit: all but the first were announced, and judged there */
    if (!make_room(s, s->header_bytes))
        return SPLITTER_ERROR;
    if (header.kind == KIND_BYTES)
        return begin_bytes(s, length_of(header, s->header));
    if (header.kind == KIND_ARRAY || header.kind == KIND_MAP)
        return begin_container(s, header.kind == KIND_MAP, length_of(header, s->header));
    append_control(s, s->header, s->header_bytes);
    complete_object(s);
    return SPLITTER_MORE;
}

/* Collect a header, which may come in pieces. */
static enum splitter_event feed_header(struct splitter *s, const uint8_t *bytes, size_t length,
                                       size_t *used)
{
    const struct header header = header_of(s->header_bytes ? s->header[0] : bytes[*used]);
    if (s->header_bytes == 0) {
        if (s->depth == 0 && header.kind != KIND_ARRAY)
            return fail_splitter(s, "a message must be an array");
        if (header.kind == KIND_INVALID)
            return fail_splitter(s, "0xc1 is no MessagePack type");
        if (header.kind == KIND_EXT)
            return fail_splitter(s, "extension types are not accepted");
    }
    size_t count = header.bytes - s->header_bytes;
    if (count > length - *used)
        count = length - *used;
    copy_bytes(s->header + s->header_bytes, bytes + *used, count);
    s->header_bytes += (uint32_t)count;
    *used += count;
    if (s->header_bytes < header.bytes)
        return SPLITTER_MORE;
    const enum splitter_event event = begin_object(s, header);
    s->header_bytes = 0;
    return event;
}

enum splitter_event splitter_feed(struct splitter *s, const uint8_t *bytes, size_t length,
                                  size_t *used)
{
    *used = 0;
    if (s->error)
        return SPLITTER_ERROR;
    if (s->payload_left > 0)
        return fail_splitter(s, "control bytes were fed while payload was due");
    if (s->payload_open && splitter_payload_done(s, 0) == SPLITTER_MESSAGE)
        return SPLITTER_MESSAGE;
    while (!is_complete(s)) {
        if (*used == length)
            return SPLITTER_MORE;
        if (s->copy_left > 0) {
            size_t count = length - *used;
            if (count > s->copy_left)
                count = (size_t)s->copy_left;
            append_control(s, bytes + *used, count);
            *used += count;
            s->copy_left -= count;
            if (s->copy_left == 0)
                complete_object(s);
            continue;
        }
        const enum splitter_event event = feed_header(s, bytes, length, used);
        if (event != SPLITTER_MORE)
            return event;
    }
    return SPLITTER_MESSAGE;
}

uint64_t splitter_payload_due(const struct splitter *s)
{
    return s->error ? 0 : s->payload_left;
}

enum splitter_event splitter_payload_done(struct splitter *s, uint64_t count)
{
    if (s->error)
        return SPLITTER_ERROR;
    if (count > s->payload_left)
        return fail_splitter(s, "more payload was read than was due");
    s->payload_left -= count;
    if (s->payload_open && s->payload_left == 0) {
        s->payload_open = false;
        complete_object(s);
    }
    return !s->payload_open && is_complete(s) ? SPLITTER_MESSAGE : SPLITTER_MORE;
}

void splitter_next(struct splitter *s)
{
    s->control_bytes = 0;
    s->elements = 0;
    s->payloads = 0;
    memset(&s->payload, 0, sizeof s->payload);
    if (s->control_room > SPLITTER_ROOM_BYTES) {
        free(s->control);
        s->control = NULL;
        s->control_room = 0;
    }
}

bool splitter_idle(const struct splitter *s)
{
    return s->control_bytes == 0 && s->header_bytes == 0;
}

/* Read an integer from 0 up at *at, if all of it has come: headers are appended whole, and an
 * integer is all header. */
static bool peek_unsigned(const struct splitter *s, uint32_t *at, uint64_t *value)
{
    const uint8_t *bytes = s->control + *at;
    if (*at >= s->control_bytes || (bytes[0] > 0x7f && (bytes[0] < 0xcc || bytes[0] > 0xd3)) ||
        (bytes[0] >= 0xd0 && bytes[1] >= 0x80))
        return false;
    const uint32_t length = header_of(bytes[0]).bytes;
    *value = length == 1 ? bytes[0] : big_endian(bytes + 1, length - 1);
    *at += length;
    return true;
}

bool splitter_peek_msgid(const struct splitter *s, enum splitter_kind kind, uint64_t *msgid)
{
    uint64_t type = 0;
    if (s->control_bytes == 0)
        return false;
    const struct header header = header_of(s->control[0]);
    uint32_t at = header.bytes;
    return length_of(header, s->control) == 4 && peek_unsigned(s, &at, &type) &&
           type == (uint64_t)kind && peek_unsigned(s, &at, msgid);
}
