/* Any bytes, cut anywhere: the splitter stays within its limits, its output does not depend on the
 * cuts, and the output is MessagePack that msgpack-c accepts to the last byte. */
#include "protocol/splitter.h"

#include <msgpack.h>
#include <stdlib.h>

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* FNV-1a over the whole output, to compare two runs. */
struct digest {
    uint64_t hash;
};

static void digest_add(struct digest *digest, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        digest->hash = (digest->hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void check_message(const struct splitter *s)
{
    check(s->control_bytes > 0 && s->control_bytes <= LIMIT_CONTROL_BYTES);
    check(s->elements <= LIMIT_ELEMENTS && s->payloads <= LIMIT_PAYLOADS);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    check(msgpack_unpack_next(&unpacked, (const char *)s->control, s->control_bytes, &offset) ==
          MSGPACK_UNPACK_SUCCESS);
    check(offset == s->control_bytes);
    check(unpacked.data.type == MSGPACK_OBJECT_ARRAY);
    msgpack_unpacked_destroy(&unpacked);
}

static void check_payload(const struct splitter *s)
{
    const struct splitter_payload *payload = &s->payload;
    check(payload->map >= s->control &&
          payload->map + payload->map_bytes <= s->control + s->control_bytes);
    check(payload->list_count == 0 || payload->list_index < payload->list_count);
    check(payload->list_count > 0 || payload->bytes >= LIMIT_DIVERT_BYTES);
    check(payload->number + 1 == s->payloads);
    /* The pairs after a map's header are complete and have its number. */
    size_t at = 0;
    for (uint32_t i = 0; i < 2 * payload->map_pairs; i++) {
        msgpack_unpacked unpacked;
        msgpack_unpacked_init(&unpacked);
        check(msgpack_unpack_next(&unpacked, (const char *)payload->map, payload->map_bytes, &at) ==
              MSGPACK_UNPACK_SUCCESS);
        msgpack_unpacked_destroy(&unpacked);
    }
    check(at == payload->map_bytes);
}

static enum splitter_event act(struct splitter *s, struct digest *digest, enum splitter_event event)
{
    uint64_t msgid;
    splitter_peek_msgid(s, SPLITTER_RESPONSE, &msgid);
    digest_add(digest, &event, event == SPLITTER_MORE ? 0 : sizeof event);
    if (event == SPLITTER_PAYLOAD) {
        check_payload(s);
        digest_add(digest, &s->payload.bytes, sizeof s->payload.bytes);
        if (s->payload.bytes == 0)
            return act(s, digest, splitter_payload_done(s, 0));
    } else if (event == SPLITTER_MESSAGE) {
        check_message(s);
        digest_add(digest, s->control, s->control_bytes);
        splitter_next(s);
        check(splitter_idle(s));
    } else if (event == SPLITTER_ERROR) {
        check(s->error != NULL);
    }
    return event;
}

/* The stream in pieces of 1 … 256 bytes, whose sizes are `cuts`; without cuts in one piece. */
static struct digest run(const uint8_t *bytes, size_t length, const uint8_t *cuts, size_t cut_count)
{
    struct digest digest = {UINT64_C(0xcbf29ce484222325)};
    struct splitter s;
    splitter_init(&s);
    enum splitter_event event = SPLITTER_MORE;
    for (size_t at = 0, cut = 0; at < length && event != SPLITTER_ERROR;) {
        size_t piece = cut_count ? (size_t)cuts[cut++ % cut_count] + 1 : length;
        if (piece > length - at)
            piece = length - at;
        while (piece > 0 && event != SPLITTER_ERROR) {
            const uint64_t due = splitter_payload_due(&s);
            size_t used = piece;
            if (due > 0) {
                used = piece < due ? piece : (size_t)due;
                digest_add(&digest, bytes + at, used);
                event = act(&s, &digest, splitter_payload_done(&s, used));
            } else {
                event = act(&s, &digest, splitter_feed(&s, bytes + at, piece, &used));
                check(used <= piece && (used > 0 || event != SPLITTER_MORE));
            }
            at += used;
            piece -= used;
        }
    }
    splitter_free(&s);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    /* The last eight bytes are the cuts. */
    const size_t cut_count = length < 16 ? 0 : 8;
    length -= cut_count;
    const struct digest whole = run(bytes, length, NULL, 0);
    const struct digest cut = run(bytes, length, bytes + length, cut_count);
    const struct digest single = run(bytes, length, (const uint8_t[]){0}, 1);
    check(whole.hash == cut.hash && whole.hash == single.hash);
    return 0;
}
