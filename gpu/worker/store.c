#include "gpu/worker/store.h"

#include "gpu/range.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    struct holding *holding;
    struct region *region; /* NULL: the arena */
    struct copy *next;     /* in worker->free_copies */
    uint64_t tag;
    bool is_upload;
};

/* So many may be under way without a call for memory. */
enum { COPIES_KEPT = 256 };

bool store_open(struct worker *worker, struct failure *failure)
{
    for (int i = 0; i < COPIES_KEPT; i++) {
        struct copy *copy = malloc(sizeof *copy);
        if (!copy)
            return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "no memory for copies");
        copy->next = worker->free_copies;
        worker->free_copies = copy;
    }
    return regions_init(&worker->regions, worker->backend, failure);
}

void store_close(struct worker *worker)
{
    while (worker->free_copies) {
        struct copy *copy = worker->free_copies;
        worker->free_copies = copy->next;
        free(copy);
    }
    for (size_t i = 0; i < worker->holdings.capacity; i++) {
        struct holding *holding = worker->holdings.slots[i].item;
        if (holding && holding->block.memory)
            worker->backend->release(holding->block.memory, holding->block.bytes,
                                     holding->block.owner);
    }
    holdings_free(&worker->holdings);
    regions_free(&worker->regions);
}

/* --- regions --- */

static void answer_mapped(struct worker *worker, uint64_t id, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_MAPPED, .status = status, .u.region.region = id});
}

void store_map(struct worker *worker, const struct channel_message *message, int memfd)
{
    const uint64_t id = message->u.region.region;
    bool refused = false;
    const char *rule = regions_map(&worker->regions, id, message->u.region.bytes,
                                   message->u.region.writable, memfd, &refused);
    if (rule)
        worker_broken(rule, id);
    if (refused)
        answer_mapped(worker, id, STATUS_OUT_OF_MEMORY);
}

void store_unmap(struct worker *worker, uint64_t id)
{
    const char *rule = regions_unmap(&worker->regions, id);
    if (rule)
        worker_broken(rule, id);
}

void store_answer_mapped(struct worker *worker)
{
    uint64_t id;
    enum status status;
    while (regions_mapped(&worker->regions, &id, &status))
        answer_mapped(worker, id, status);
}

uint8_t *store_find_place(const struct worker *worker, const struct place *place, uint64_t bytes,
                          bool write, struct region **region)
{
    const char *rule = regions_find(&worker->regions, place, bytes, write, region);
    if (rule)
        worker_broken(rule, place->region);
    return (*region)->memory + place->offset;
}

/* --- arrays --- */

/* In the place of arrays that there was no memory to note. */
static struct holding unknown;

bool store_has_memory(const struct holding *holding)
{
    return holding->block.memory && !holding->failed;
}

static void answer_failed(struct worker *worker, uint64_t id)
{
    worker_answer(worker, &(struct channel_message){.type = CHANNEL_FAILED,
                                                    .status = STATUS_OUT_OF_MEMORY,
                                                    .u.allocate.array = id});
}

struct holding *store_find(const struct worker *worker, uint64_t id)
{
    struct holding *holding = holdings_find(&worker->holdings, id);
    if (!holding && worker->unknown)
        return &unknown;
    if (!holding)
        worker_broken("an order names an array that was never allocated", id);
    return holding;
}

void store_allocate(struct worker *worker, uint64_t id, uint64_t bytes, uint64_t owner)
{
    if (bytes == 0 || id == 0 || holdings_find(&worker->holdings, id))
        worker_broken("ALLOCATE of no bytes, or of an array that is there already", id);
    struct holding *holding = holdings_add(&worker->holdings, id);
    if (holding)
        holding->block = (struct block){worker->backend->allocate(bytes, owner), bytes, owner};
    else
        worker->unknown++;
    if (!holding || !holding->block.memory)
        answer_failed(worker, id);
}

void store_release(struct worker *worker, uint64_t id)
{
    struct holding *holding = store_find(worker, id);
    if (holding == &unknown) {
        worker->unknown--;
        return;
    }
    if (holding->uploads || holding->downloads || holding->readers || holding->writers)
        worker_broken("RELEASE of an array that is in use", id);
    if (holding->block.memory)
        worker->backend->release(holding->block.memory, holding->block.bytes, holding->block.owner);
    holdings_remove(&worker->holdings, holding);
}

/* --- copies --- */

static void answer_copied(struct worker *worker, uint64_t tag, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_COPIED, .status = status, .u.copy.tag = tag});
}

/* Between a region and an array: beside the copies of jobs, since it may be as long. */
static void copy_in_slabs(struct worker *worker, struct execution *run, struct copy *copy,
                          void *memory, uint8_t *outside, uint64_t bytes)
{
    run->id = copy->tag;
    run->copy = copy;
    run->from[0].memory = run->to[0].memory = outside;
    run->slices.in[0] = run->slices.even[0] = memory;
    pipeline_add_copy(&worker->pipeline, run, bytes, copy->is_upload ? WAY_IN : WAY_OUT);
}

/* May the array be copied to, or from, now? */
static void check_unused(const struct holding *holding, bool is_upload)
{
    if (holding->writers || (is_upload && holding->readers))
        worker_broken("a copy of an array that a job uses", holding->id);
    if (is_upload && holding->downloads)
        worker_broken("UPLOAD to an array that is being downloaded", holding->id);
    if (!is_upload && holding->uploads)
        worker_broken("DOWNLOAD of an array that is being uploaded", holding->id);
    if (holding->region_uploads)
        worker_broken("a copy of an array that comes from a region", holding->id);
}

/* NULL: no memory. */
static struct copy *new_copy(struct worker *worker)
{
    struct copy *copy = worker->free_copies;
    if (copy)
        worker->free_copies = copy->next;
    else
        copy = malloc(sizeof *copy);
    return copy;
}

static void recycle(struct worker *worker, struct copy *copy)
{
    if (!copy)
        return;
    copy->next = worker->free_copies;
    worker->free_copies = copy;
}

/* There is no memory to carry it out. */
static void refuse_copy(struct worker *worker, struct holding *holding,
                        const struct channel_message *message)
{
    if (message->type == CHANNEL_UPLOAD) {
        holding->failed = true;
        answer_failed(worker, holding->id);
    } else if (!message->u.copy.region) {
        worker_out_of_memory(); /* the front waits for its slab, and for nothing else */
    }
    answer_copied(worker, message->u.copy.tag,
                  message->type == CHANNEL_UPLOAD ? STATUS_OK : STATUS_OUT_OF_MEMORY);
}

void store_copy(struct worker *worker, const struct channel_message *message)
{
    const uint64_t offset = message->u.copy.offset, arena_offset = message->u.copy.arena_offset;
    const uint64_t bytes = message->u.copy.bytes;
    const bool is_upload = message->type == CHANNEL_UPLOAD;
    const struct place place = {message->u.copy.region, arena_offset};
    struct holding *holding = store_find(worker, message->u.copy.array);
    struct region *region = NULL;
    if (holding != &unknown &&
        (bytes > holding->block.bytes || offset > holding->block.bytes - bytes))
        worker_broken("a copy reaches past its array", holding->id);
    if (!place.region &&
        (bytes > worker->arena_bytes || arena_offset > worker->arena_bytes - bytes))
        worker_broken("a copy reaches past the arena", holding->id);
    uint8_t *outside = place.region ? store_find_place(worker, &place, bytes, !is_upload, &region)
                                    : worker->arena + arena_offset;
    check_unused(holding, is_upload);
    if (!store_has_memory(holding)) {
        if (!is_upload) /* nobody else's bytes may go out in place of its own */
            memset(outside, 0, bytes);
        answer_copied(worker, message->u.copy.tag, STATUS_OK);
        return;
    }
    struct copy *copy = new_copy(worker);
    struct execution *run = copy && region && bytes ? calloc(1, sizeof *run) : NULL;
    if (!copy || (region && bytes && !run)) {
        refuse_copy(worker, holding, message);
        recycle(worker, copy);
        return;
    }
    *copy = (struct copy){
        .holding = holding, .region = region, .tag = message->u.copy.tag, .is_upload = is_upload};
    *(is_upload ? &holding->uploads : &holding->downloads) += 1;
    if (region) {
        region->users++;
        holding->region_uploads += is_upload;
    }
    uint8_t *memory = (uint8_t *)holding->block.memory + offset;
    if (region && bytes) {
        copy_in_slabs(worker, run, copy, memory, outside, bytes);
        return;
    }
    worker->under_way++;
    worker->copies++;
    const uint64_t token = (uint64_t)(uintptr_t)copy | TOKEN_COPY;
    range_begin(is_upload ? "upload" : "download", holding->id);
    if (is_upload)
        worker->backend->upload(memory, outside, bytes, token);
    else
        worker->backend->download(outside, memory, bytes, NULL, token);
    range_end();
}

void store_copied(struct worker *worker, struct copy *copy)
{
    if (copy->is_upload)
        copy->holding->uploads--;
    else
        copy->holding->downloads--;
    if (copy->region) {
        copy->region->users--;
        copy->holding->region_uploads -= copy->is_upload;
    }
    answer_copied(worker, copy->tag, STATUS_OK);
    recycle(worker, copy);
}
