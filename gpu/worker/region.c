#include "gpu/worker/region.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/wake.h"
#include "gpu/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- the mapper's --- */

/* Have its next pages in the page table before a job is kept waiting for each of them: as many as
 * it may while others wait. False: there are more. In pieces: the worker's own calls for memory
 * wait for every call of this. Where Linux is older than 5.14 there is no such call, and the first
 * job waits. */
static bool populate(struct region *region)
{
    enum { PIECE_BYTES = 8 << 20, TURN_BYTES = 256 << 20 };
    const uint64_t end = region->populated + TURN_BYTES;
    while (region->populated < end && region->populated < region->bytes) {
        const uint64_t left = region->bytes - region->populated;
        if (madvise(region->memory + region->populated, left < PIECE_BYTES ? left : PIECE_BYTES,
                    region->writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) < 0)
            return true;
        region->populated += PIECE_BYTES;
    }
    return region->populated >= region->bytes;
}

/* mmap() of the whole region where pieces that are pinned begin: a chunk of an array at a round
 * offset lies in one. The place is free while we ask for it: another thread may take it first, and
 * is not to lose it to us. */
static void *map_aligned(const struct region *region, int access, int flags)
{
    const uint64_t room = region->bytes + BACKEND_PIN_BYTES;
    void *memory;
    do {
        uint8_t *begin =
            mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED)
            return begin;
        munmap(begin, room);
        uint8_t *at = begin + (-(uintptr_t)begin & (BACKEND_PIN_BYTES - 1));
        memory = mmap(at, region->bytes, access, flags | MAP_FIXED_NOREPLACE, region->memfd, 0);
    } while (memory == MAP_FAILED && errno == EEXIST);
    return memory;
}

static void map_region(const struct regions *regions, struct region *region)
{
    const int access = PROT_READ | (region->writable ? PROT_WRITE : 0);
    void *memory = map_aligned(region, access, MAP_SHARED);
    /* Linux before 6.7 maps what nobody may write any more as shared for nobody. */
    if (memory == MAP_FAILED && !region->writable && (errno == EPERM || errno == EACCES))
        memory = map_aligned(region, access, MAP_PRIVATE);
    close(region->memfd);
    if (memory == MAP_FAILED) {
        region->status = errno == ENOMEM ? STATUS_OUT_OF_MEMORY : STATUS_INTERNAL;
        log_warning("regions: mmap of %llu bytes: %s", (unsigned long long)region->bytes,
                    strerror(errno));
        return;
    }
    if (regions->backend->pin)
        region->status =
            regions->backend->pin(memory, region->bytes, region->writable, &region->addressable);
    if (region->status == STATUS_OK)
        region->memory = memory;
    else
        rights_unmap(memory, region->bytes);
}

static void unmap(const struct regions *regions, struct region *region)
{
    if (region->memory && region->is_imported) {
        regions->backend->unimport(region->memory, region->bytes);
    } else if (region->memory) {
        if (regions->backend->unpin)
            regions->backend->unpin(region->memory, region->bytes);
        rights_unmap(region->memory, region->bytes);
    }
    free(region);
}

/* It is mapped, or could not be: regions_mapped() tells of it. */
static void note_mapped(struct regions *regions, struct region *region)
{
    pthread_mutex_lock(&regions->mutex);
    list_push(&regions->mapped, &region->link);
    pthread_mutex_unlock(&regions->mutex);
    wake_send(regions->wake);
}

static void order(struct regions *regions, struct region *region)
{
    pthread_mutex_lock(&regions->mutex);
    list_push(&regions->orders, &region->link);
    pthread_cond_signal(&regions->ordered);
    pthread_mutex_unlock(&regions->mutex);
}

static void *mapper(void *argument)
{
    struct regions *regions = argument;
    for (;;) {
        pthread_mutex_lock(&regions->mutex);
        while (list_empty(&regions->orders) && !regions->ending)
            pthread_cond_wait(&regions->ordered, &regions->mutex);
        struct region *region = LIST_TAKE(&regions->orders, struct region, link);
        pthread_mutex_unlock(&regions->mutex);
        if (!region)
            return NULL;
        if (region->goes) {
            unmap(regions, region);
            continue;
        }
        if (!region->memory)
            map_region(regions, region);
        if (region->memory && !regions->backend->pin && !populate(region))
            order(regions, region); /* behind what has come meanwhile */
        else
            note_mapped(regions, region);
    }
}

/* --- the worker's --- */

bool regions_init(struct regions *regions, const struct backend *backend, int wake,
                  struct failure *failure)
{
    *regions = (struct regions){.backend = backend,
                                .mutex = PTHREAD_MUTEX_INITIALIZER,
                                .ordered = PTHREAD_COND_INITIALIZER,
                                .wake = wake};
    const int error = pthread_create(&regions->mapper, NULL, mapper, regions);
    return error == 0 || failure_set(failure, STATUS_INTERNAL, NULL, "no thread to map regions: %s",
                                     strerror(error));
}

void regions_free(struct regions *regions)
{
    pthread_mutex_lock(&regions->mutex);
    regions->ending = true;
    pthread_cond_signal(&regions->ordered);
    pthread_mutex_unlock(&regions->mutex);
    pthread_join(regions->mapper, NULL);
    for (size_t i = 0; i < regions->ids.capacity; i++)
        if (regions->ids.slots[i].item)
            unmap(regions, regions->ids.slots[i].item);
    ids_free(&regions->ids);
}

/* Memory that a worker has exported: here, since the device is this thread's. */
static void import(struct regions *regions, struct region *region)
{
    const struct backend *backend = regions->backend;
    if (backend->import)
        region->memory = backend->import(region->memfd, region->bytes);
    region->status = region->memory ? STATUS_OK : STATUS_INTERNAL;
    close(region->memfd);
    note_mapped(regions, region);
}

bool regions_map(struct regions *regions, const struct channel_message *message, int memfd)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
    const uint64_t id = message->u.region.region, bytes = message->u.region.bytes;
    const bool is_mailbox = message->u.region.is_mailbox != 0;
    const bool is_sealed = rights_sealed(memfd, SEALS, bytes);
    /* Another node's mailbox is in this one's memory, which a GPU's driver pins. */
    const bool imports = is_mailbox && !(is_sealed && regions->backend->pin);
    if (is_mailbox ? memfd < 0 : !is_sealed)
        worker_broken("a REGION without its memory, or without a sealed memfd of its size", id);
    if (id == 0 || ids_find(&regions->ids, id))
        worker_broken("a REGION that is there already", id);
    struct region *region = calloc(1, sizeof *region);
    if (!region || !ids_add(&regions->ids, id, region)) {
        free(region);
        close(memfd);
        return false;
    }
    *region = (struct region){.id = id,
                              .bytes = bytes,
                              .writable = message->u.region.writable != 0,
                              .is_mailbox = is_mailbox,
                              .is_imported = imports,
                              .memfd = memfd};
    if (imports)
        import(regions, region);
    else
        order(regions, region);
    return true;
}

void regions_unmap(struct regions *regions, uint64_t id)
{
    struct region *region = ids_find(&regions->ids, id);
    if (!region || !region->answered)
        worker_broken("UNREGION of a region that is not mapped", id);
    if (region->users)
        worker_broken("UNREGION of a region that is in use", id);
    ids_remove(&regions->ids, id);
    if (region->is_imported) {
        unmap(regions, region);
        return;
    }
    region->goes = true;
    order(regions, region);
}

bool regions_mapped(struct regions *regions, uint64_t *id, enum status *status)
{
    pthread_mutex_lock(&regions->mutex);
    struct region *region = LIST_TAKE(&regions->mapped, struct region, link);
    pthread_mutex_unlock(&regions->mutex);
    if (!region)
        return false;
    *id = region->id;
    *status = region->status;
    region->answered = true;
    if (region->status != STATUS_OK) {
        ids_remove(&regions->ids, region->id);
        free(region);
    }
    return true;
}

struct region *regions_find(const struct regions *regions, const struct place *place,
                            uint64_t bytes, bool write)
{
    struct region *region = ids_find(&regions->ids, place->region);
    if (!region || !region->answered)
        worker_broken("an order names a region that is not mapped", place->region);
    if (bytes > region->bytes || place->offset > region->bytes - bytes)
        worker_broken("a place is not inside its region", place->region);
    if (write && !region->writable)
        worker_broken("an order writes to a region that is read only", place->region);
    return region;
}
