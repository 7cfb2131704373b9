#include "gpu/bridge/payload.h"

#include "base/fifo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Memory that is mapped, and what records under way are going to write. */
struct mapped {
    uint64_t region, bytes;
    uint8_t *memory; /* NULL: a mailbox's, which peers.h has */
    bool is_known;   /* to the worker: orders may name it */
};

struct due {
    uint64_t id;
    uint16_t type; /* COPIED, FINISHED: of that tag or id */
    struct payload payload;
};

static struct {
    struct mapped *items;
    uint32_t count, room;
} memory;

static struct {
    struct due *items;
    uint32_t count, room;
} dues;

/* False: no memory. */
static bool make_room(void **items, uint32_t count, uint32_t *room, size_t bytes)
{
    uint32_t first = 0;
    return fifo_make_room(items, &first, count, room, bytes);
}

uint64_t payload_bytes(const struct payload *payload)
{
    uint64_t bytes = 0;
    for (int i = 0; i < PAYLOAD_PIECES; i++)
        bytes += payload->piece[i].bytes;
    return bytes;
}

/* --- memory --- */

static struct mapped *find_mapped(uint64_t region)
{
    for (uint32_t i = 0; i < memory.count; i++)
        if (memory.items[i].region == region)
            return &memory.items[i];
    return NULL;
}

/* A region that is not there yet. False: it is, or no memory. */
static bool may_add(uint64_t region)
{
    return !find_mapped(region) &&
           make_room((void **)&memory.items, memory.count, &memory.room, sizeof *memory.items);
}

bool payload_map(uint64_t region, int memfd, uint64_t bytes, bool writable)
{
    if (!may_add(region))
        return false;
    void *at =
        mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, memfd, 0);
    /* Before Linux 6.7, memory that is sealed against writing can be mapped only so. */
    if (at == MAP_FAILED && !writable && (errno == EPERM || errno == EACCES))
        at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, memfd, 0);
    if (at == MAP_FAILED)
        return false;
    memory.items[memory.count++] = (struct mapped){region, bytes, at, region == PAYLOAD_ARENA};
    return true;
}

uint64_t payload_region_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < memory.count; i++)
        if (memory.items[i].region != PAYLOAD_ARENA && memory.items[i].memory)
            bytes += memory.items[i].bytes;
    return bytes;
}

bool payload_is_mailbox(uint64_t region, uint64_t bytes)
{
    if (!may_add(region))
        return false;
    memory.items[memory.count++] = (struct mapped){region, bytes, NULL, false};
    return true;
}

void payload_unmap(uint64_t region)
{
    struct mapped *mapped = find_mapped(region);
    if (!mapped)
        return;
    if (mapped->memory)
        munmap(mapped->memory, mapped->bytes);
    *mapped = memory.items[--memory.count];
}

static bool find_piece(uint64_t region, uint64_t offset, uint64_t bytes,
                       struct payload_piece *piece)
{
    const struct mapped *mapped = find_mapped(region);
    if (!mapped || bytes > mapped->bytes || offset > mapped->bytes - bytes)
        return false;
    if (mapped->memory)
        *piece = (struct payload_piece){mapped->memory + offset, bytes};
    return true;
}

/* --- records --- */

static bool find_copy(const struct channel_message *record, struct payload *payload)
{
    return find_piece(record->u.copy.region, record->u.copy.arena_offset, record->u.copy.bytes,
                      &payload->piece[0]);
}

static bool find_places(const struct job *job, const struct place place[AXIS_COUNT],
                        struct payload *payload)
{
    bool found = true;
    for (int i = 0; i < AXIS_COUNT; i++)
        if (place[i].region)
            found = found && find_piece(place[i].region, place[i].offset, job_bytes(job),
                                        &payload->piece[i]);
    return found;
}

static struct due *find_due(const struct channel_message *record)
{
    const uint64_t id = record->type == CHANNEL_COPIED ? record->u.copy.tag : record->u.job.id;
    for (uint32_t i = 0; i < dues.count; i++)
        if (dues.items[i].type == record->type && dues.items[i].id == id)
            return &dues.items[i];
    return NULL;
}

bool payload_of(const struct channel_message *record, struct payload *payload)
{
    const struct due *due;
    memset(payload, 0, sizeof *payload);
    switch (record->type) {
    case CHANNEL_UPLOAD:
        return find_copy(record, payload);
    case CHANNEL_RUN:
        return find_places(&record->u.run.job, record->u.run.from, payload);
    case CHANNEL_COPIED:
    case CHANNEL_FINISHED:
        due = record->status == STATUS_OK ? find_due(record) : NULL;
        if (due)
            *payload = due->payload;
        return true;
    default:
        return true;
    }
}

static bool add_due(const struct channel_message *record, const struct payload *payload)
{
    if (payload_bytes(payload) == 0)
        return true;
    if (!make_room((void **)&dues.items, dues.count, &dues.room, sizeof *dues.items))
        return false;
    const bool copies = record->type == CHANNEL_DOWNLOAD;
    dues.items[dues.count++] = (struct due){.id = copies ? record->u.copy.tag : record->u.run.id,
                                            .type = copies ? CHANNEL_COPIED : CHANNEL_FINISHED,
                                            .payload = *payload};
    return true;
}

/* Of one that could not be mapped there comes no UNREGION. */
static void worker_has_mapped(const struct channel_message *record)
{
    struct mapped *mapped = find_mapped(record->u.region.region);
    if (!mapped || mapped->is_known)
        return;
    mapped->is_known = record->status == STATUS_OK;
    if (!mapped->is_known)
        payload_unmap(mapped->region);
}

bool payload_note(const struct channel_message *record)
{
    struct payload payload = {0};
    struct due *due;
    switch (record->type) {
    case CHANNEL_DOWNLOAD:
        return find_copy(record, &payload) && add_due(record, &payload);
    case CHANNEL_RUN:
        return find_places(&record->u.run.job, record->u.run.to, &payload) &&
               add_due(record, &payload);
    case CHANNEL_COPIED:
    case CHANNEL_FINISHED:
        due = find_due(record);
        if (due)
            *due = dues.items[--dues.count];
        return true;
    case CHANNEL_MAPPED:
        worker_has_mapped(record);
        return true;
    default:
        return true;
    }
}
