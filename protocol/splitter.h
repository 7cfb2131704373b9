/* Cuts a byte stream into MessagePack messages without ever holding a payload: it walks headers,
 * keeps the control bytes in a small buffer, and hands each large bin to its owner as "the next N
 * bytes are payload". msgpack-c is given only what has passed here, since it trusts every count
 * that it reads (five bytes make it ask for 96 GiB). Touches no socket; its one buffer grows with
 * the control bytes of a message, up to their limit.
 *
 *   while bytes are to be had:
 *     if splitter_payload_due(s): read up to that many bytes straight to where they belong,
 *                                 then splitter_payload_done(s, count)
 *     else: splitter_feed(s, bytes, length, &used) and act on the event
 */
#pragma once

#include "base/limits.h"

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

/* A diverted bin is replaced in the control bytes by a fixext 8 of this type that holds its number
 * in the message (big-endian). Ext types from the peer are refused, so it cannot be forged. */
#define SPLITTER_EXT_TYPE 0x46

enum splitter_event {
    SPLITTER_MORE,    /* all bytes used, nothing complete */
    SPLITTER_PAYLOAD, /* payload of s->payload begins: read it past the splitter */
    SPLITTER_MESSAGE, /* s->control holds one message of s->control_bytes; call splitter_next() */
    SPLITTER_ERROR    /* s->error says why; the stream cannot be followed any further */
};

/* A bin or str that is payload: at least LIMIT_DIVERT_BYTES long as a map's value, or of any length
 * as an element of the list under the key "data" of a map. */
struct splitter_payload {
    uint32_t number;     /* in this message, from 0 */
    uint32_t list_index; /* 0 where it is not in a list */
    uint32_t list_count; /* bins in the list; 0 where it is not in a list */
    uint64_t bytes;      /* of this bin; may be 0 in a list */
    /* The map of which this is a value, as far as it has come: the complete pairs before this key,
     * without the map's own header. They are `pairs` many and lie in the control buffer. */
    const uint8_t *map;
    size_t map_bytes;
    uint32_t map_at; /* its offset in the control bytes, which no other map has */
    uint32_t map_pairs;
    /* The key, in the map around it, that this map is the value of, and the key that that map is
     * the value of in turn; NULL where there is none. */
    struct splitter_name {
        const char *text; /* not terminated */
        uint32_t bytes;
    } name, outer;
};

struct splitter_level {
    uint64_t left;      /* objects still to come (keys and values both count in a map) */
    uint32_t begin;     /* offset in control of the first object inside */
    uint32_t pairs;     /* map: complete pairs so far */
    uint32_t pairs_end; /* map: offset in control after the last complete pair */
    uint32_t count;     /* elements or pairs announced */
    uint8_t is_map;
    uint8_t is_data; /* the list under the key "data" of a map */
};

struct splitter {
    uint8_t *control; /* control_room bytes, owned */
    uint32_t control_room, control_limit, element_limit;
    uint32_t control_bytes; /* so far */
    uint32_t elements;      /* objects seen in this message */
    uint32_t depth;
    uint32_t payloads; /* diverted in this message */
    struct splitter_level level[LIMIT_DEPTH];
    uint8_t header[9]; /* a header that arrived in pieces */
    uint32_t header_bytes;
    uint64_t copy_left;    /* bytes of a small str or bin still to be copied */
    uint64_t payload_left; /* bytes of payload still due */
    bool payload_open;     /* a payload has begun and splitter_payload_done() has not ended it */
    struct splitter_payload payload;
    const char *error; /* SPLITTER_ERROR: a sentence, static */
    bool no_memory;    /* … and the cause is a lack of memory here, not the bytes */
};

enum { SPLITTER_ROOM_BYTES = 1 << 10 }; /* that most messages need no more than */

void splitter_init(struct splitter *s);

/* The same for the client's side, which takes larger messages from the server it chose: a list of
 * many fields. */
void splitter_init_limits(struct splitter *s, uint32_t control_bytes, uint32_t elements);

void splitter_free(struct splitter *s);

/* Take control bytes. *used is how many; the rest belongs after the event. Must not be called while
 * payload is due. */
enum splitter_event splitter_feed(struct splitter *s, const uint8_t *bytes, size_t length,
                                  size_t *used);

/* Payload bytes that come next on the stream; 0: feed control bytes. */
uint64_t splitter_payload_due(const struct splitter *s);

/* `count` (≤ due) bytes of payload were read. Returns SPLITTER_MORE while payload is due or more
 * control bytes must be fed; SPLITTER_MESSAGE where the message ended with it. A bin of 0 bytes in
 * a list is a payload too: answer its event with splitter_payload_done(s, 0). */
enum splitter_event splitter_payload_done(struct splitter *s, uint64_t count);

/* Forget the message that was just delivered, give back the memory that a large one took, and begin
 * the next. */
void splitter_next(struct splitter *s);

/* Is the stream between two messages (an end here is clean)? */
bool splitter_idle(const struct splitter *s);

/* The kinds of messages, as numbered on the wire; a notification has no msgid. */
enum splitter_kind { SPLITTER_REQUEST, SPLITTER_RESPONSE, SPLITTER_NOTIFICATION };

/* The msgid of a message of that kind, complete or not, so that an error can name its request and
 * payload can go where its request wants it. False: the msgid has not come yet, or the message is
 * of another kind. */
bool splitter_peek_msgid(const struct splitter *s, enum splitter_kind kind, uint64_t *msgid);
