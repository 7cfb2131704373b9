#include "gpu/bridge/payload.h"

#include "base/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Memory that is mapped, and what records under way are going to write. */
struct mapped {
    struct list link;
    uint64_t region, bytes;
    uint8_t *memory; /* NULL: a mailbox's, which peers.h has */
    bool is_known;   /* to the worker: orders may name it */
};

struct due {
    struct list link;
    uint64_t id;
    uint16_t type; /* COPIED, FINISHED: of that tag or id */
    struct payload payload;
};

static struct list memory, dues;

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
    LIST_EACH (struct mapped, mapped, &memory, link)
        if (mapped->region == region)
            return mapped;
    return NULL;
}

/* A region that is not there yet, without its memory. NULL: it is there, or no memory. */
static struct mapped *add(uint64_t region, uint64_t bytes)
{
    struct mapped *mapped = find_mapped(region) ? NULL : calloc(1, sizeof *mapped);
    if (!mapped)
        return NULL;
    mapped->region = region;
    mapped->bytes = bytes;
    mapped->is_known = region == PAYLOAD_ARENA;
    list_push(&memory, &mapped->link);
    return mapped;
}

bool payload_map(uint64_t region, int memfd, uint64_t bytes, bool writable)
{
    struct mapped *mapped = add(region, bytes);
    if (!mapped)
        return false;
    void *at =
        mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, memfd, 0);
    /* Before Linux 6.7, memory that is sealed against writing can be mapped only so. */
    if (at == MAP_FAILED && !writable && (errno == EPERM || errno == EACCES))
        at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, memfd, 0);
    if (at == MAP_FAILED)
        payload_unmap(region);
    else
        mapped->memory = at;
    return at != MAP_FAILED;
}

uint64_t payload_region_bytes(void)
{
    uint64_t bytes = 0;
    LIST_EACH (const struct mapped, mapped, &memory, link)
        if (mapped->region != PAYLOAD_ARENA && mapped->memory)
            bytes += mapped->bytes;
    return bytes;
}

bool payload_is_mailbox(uint64_t region, uint64_t bytes)
{
    return add(region, bytes);
}

bool payload_lies_in(const struct payload *payload, uint64_t region)
{
    const struct mapped *mapped = find_mapped(region);
    for (int i = 0; i < PAYLOAD_PIECES && mapped && mapped->memory; i++) {
        const struct payload_piece *piece = &payload->piece[i];
        if (piece->bytes && piece->memory >= mapped->memory &&
            piece->memory < mapped->memory + mapped->bytes)
            return true;
    }
    return false;
}

bool payload_is_due(uint64_t region)
{
    LIST_EACH (const struct due, due, &dues, link)
        if (payload_lies_in(&due->payload, region))
            return true;
    return false;
}

void payload_unmap(uint64_t region)
{
    struct mapped *mapped = find_mapped(region);
    if (!mapped)
        return;
    if (mapped->memory)
        munmap(mapped->memory, mapped->bytes);
    list_remove(&mapped->link);
    free(mapped);
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

/* Of a COPIED or FINISHED. */
static uint64_t id_of(const struct channel_message *answer)
{
    return answer->type == CHANNEL_COPIED ? answer->u.copy.tag : answer->u.job.id;
}

static struct due *find_due(const struct channel_message *record)
{
    const uint64_t id = id_of(record);
    LIST_EACH (struct due, due, &dues, link)
        if (due->type == record->type && due->id == id)
            return due;
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

static uint16_t answer_of(const struct channel_message *record, uint64_t *id)
{
    const bool copies = record->type == CHANNEL_UPLOAD || record->type == CHANNEL_DOWNLOAD;
    *id = copies                            ? record->u.copy.tag
          : record->type == CHANNEL_RUN     ? record->u.run.id
          : record->type == CHANNEL_MEASURE ? record->u.measure.id
                                            : 0;
    return copies ? CHANNEL_COPIED : *id ? CHANNEL_FINISHED : 0;
}

bool payload_is_answer(const struct channel_message *answer, const struct channel_message *record)
{
    uint64_t id;
    return answer->type == answer_of(record, &id) && id == id_of(answer);
}

static bool add_due(const struct channel_message *record, const struct payload *payload)
{
    if (payload_bytes(payload) == 0)
        return true;
    struct due *due = calloc(1, sizeof *due);
    if (!due)
        return false;
    due->type = answer_of(record, &due->id);
    due->payload = *payload;
    list_push(&dues, &due->link);
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
            list_remove(&due->link);
        free(due);
        return true;
    case CHANNEL_MAPPED:
        worker_has_mapped(record);
        return true;
    default:
        return true;
    }
}
