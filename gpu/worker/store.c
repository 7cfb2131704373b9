#include "gpu/worker/worker.h"

#include "base/rights.h"
#include "gpu/range.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void release_holding(struct worker *worker, struct holding *holding)
{
    const struct holding_memory *memory = &holding->memory;
    if (memory->at && memory->exportable)
        worker->backend->release_exportable(memory->at, memory->bytes);
    else if (memory->at)
        worker->backend->release(memory->at, memory->bytes, memory->owner);
    rights_close(holding->descriptor);
    free(holding);
}

void store_close(struct worker *worker)
{
    for (size_t i = 0; i < worker->holdings.capacity; i++)
        if (worker->holdings.slots[i].item)
            release_holding(worker, worker->holdings.slots[i].item);
    ids_free(&worker->holdings);
    regions_free(&worker->regions);
    if (worker->mailbox)
        worker->backend->release_exportable(worker->mailbox, worker->mailbox_bytes);
}

/* --- regions --- */

static void answer_mapped(struct worker *worker, uint64_t id, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_MAPPED, .status = status, .u.region.region = id});
}

void store_map(struct worker *worker, const struct channel_message *message, int memfd)
{
    if (!regions_map(&worker->regions, message, memfd))
        answer_mapped(worker, message->u.region.region, STATUS_OUT_OF_MEMORY);
}

void store_answer_mapped(struct worker *worker)
{
    uint64_t id;
    enum status status;
    while (regions_mapped(&worker->regions, &id, &status))
        answer_mapped(worker, id, status);
}

void store_open_mailbox(struct worker *worker, uint64_t bytes)
{
    const struct backend *backend = worker->backend;
    struct channel_message message = {.type = CHANNEL_MAILBOX};
    int descriptor = -1;
    if (worker->mailbox || bytes == 0)
        worker_broken("a MAILBOX that is there already, or of no bytes", bytes);
    worker->mailbox = backend->allocate_exportable(bytes, &descriptor);
    worker->mailbox_bytes = bytes;
    if (worker->mailbox && backend->await_zeroed)
        backend->await_zeroed(); /* other workers are about to write there */
    message.status = worker->mailbox ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    if (!channel_queue_push(&worker->answers, &message, NULL, descriptor))
        worker_out_of_memory();
}

/* --- arrays --- */

/* In the place of arrays that there was no memory to note. */
static struct holding unknown = {.descriptor = -1};

bool store_has_memory(const struct holding *holding)
{
    return holding->memory.at && !holding->failed;
}

static void answer_failed(struct worker *worker, uint64_t id)
{
    worker_answer(worker, &(struct channel_message){.type = CHANNEL_FAILED,
                                                    .status = STATUS_OUT_OF_MEMORY,
                                                    .u.allocate.array = id});
}

struct holding *store_find(const struct worker *worker, uint64_t id)
{
    struct holding *holding = ids_find(&worker->holdings, id);
    if (!holding && worker->unknown)
        return &unknown;
    if (!holding)
        worker_broken("an order names an array that was never allocated", id);
    return holding;
}

void store_allocate(struct worker *worker, const struct channel_message *message)
{
    const uint64_t id = message->u.allocate.array, bytes = message->u.allocate.bytes;
    const uint64_t owner = message->u.allocate.owner;
    const bool exportable = message->u.allocate.exportable != 0;
    int descriptor = -1;
    if (bytes == 0 || id == 0 || ids_find(&worker->holdings, id))
        worker_broken("ALLOCATE of no bytes, or of an array that is there already", id);
    struct holding *holding = calloc(1, sizeof *holding);
    if (holding && !ids_add(&worker->holdings, id, holding)) {
        free(holding);
        holding = NULL;
    }
    if (holding) {
        void *memory = exportable ? worker->backend->allocate_exportable(bytes, &descriptor)
                                  : worker->backend->allocate(bytes, owner);
        *holding = (struct holding){
            .id = id, .memory = {memory, bytes, owner, exportable}, .descriptor = descriptor};
    } else {
        worker->unknown++;
    }
    if (!holding || !holding->memory.at)
        answer_failed(worker, id);
}

bool store_is_unused(const struct holding *holding)
{
    return !holding->uploads && !holding->downloads && !holding->readers && !holding->writers;
}

void store_release(struct worker *worker, uint64_t id)
{
    struct holding *holding = store_find(worker, id);
    if (holding == &unknown) {
        worker->unknown--;
        return;
    }
    if (!store_is_unused(holding))
        worker_broken("RELEASE of an array that is in use", id);
    ids_remove(&worker->holdings, id);
    release_holding(worker, holding);
}

/* --- copies --- */

static void answer_copied(struct worker *worker, uint64_t tag, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_COPIED, .status = status, .u.copy.tag = tag});
}

/* Beside jobs on own planes it may. */
void store_check_copy(const struct holding *holding, uint64_t offset, uint64_t bytes,
                      bool is_upload)
{
    if (holding != &unknown &&
        (bytes > holding->memory.bytes || offset > holding->memory.bytes - bytes))
        worker_broken("a copy reaches past its array", holding->id);
    if (holding->writers > holding->own_writers ||
        (is_upload && holding->readers > holding->own_readers))
        worker_broken("a copy of an array that a job uses", holding->id);
    if (holding->region_uploads)
        worker_broken("a copy of an array that comes from a region", holding->id);
}

/* Between a region and an array: beside the copies of jobs, since it may be as long. False: there
 * is no memory to carry it out. */
static bool copy_in_chunks(struct worker *worker, struct holding *holding, struct region *region,
                           uint8_t *outside, const struct channel_message *message)
{
    const bool is_upload = message->type == CHANNEL_UPLOAD;
    struct execution *run = calloc(1, sizeof *run);
    if (!run)
        return false;
    void *memory = (uint8_t *)holding->memory.at + message->u.copy.offset;
    run->id = message->u.copy.tag;
    run->copies = holding;
    *(is_upload ? &run->from[0] : &run->to[0]) = (struct execution_place){region, outside};
    run->slices.launch.in[0] = run->slices.launch.even[0] = memory;
    region->users++;
    holding->region_uploads += is_upload;
    pipeline_add_copy(&worker->pipeline, run, message->u.copy.bytes, is_upload ? WAY_IN : WAY_OUT);
    return true;
}

static void copy_at_once(struct worker *worker, struct holding *holding, uint8_t *outside,
                         const struct channel_message *message)
{
    const bool is_upload = message->type == CHANNEL_UPLOAD;
    const uint64_t bytes = message->u.copy.bytes;
    uint8_t *memory = (uint8_t *)holding->memory.at + message->u.copy.offset;
    const struct token token = {.of = holding,
                                .number = message->u.copy.tag,
                                .kind = is_upload ? TOKEN_UPLOAD : TOKEN_DOWNLOAD};
    worker->copies.under_way++;
    range_begin(is_upload ? "upload" : "download", holding->id);
    if (is_upload)
        worker->backend->upload(memory, outside, bytes, token);
    else
        worker->backend->download(outside, memory, bytes, NULL, token);
    range_end();
}

void store_copy(struct worker *worker, const struct channel_message *message)
{
    const uint64_t offset = message->u.copy.offset, arena_offset = message->u.copy.arena_offset;
    const uint64_t bytes = message->u.copy.bytes, tag = message->u.copy.tag;
    const bool is_upload = message->type == CHANNEL_UPLOAD;
    const struct place place = {message->u.copy.region, arena_offset};
    struct holding *holding = store_find(worker, message->u.copy.array);
    struct region *region =
        place.region ? regions_find(&worker->regions, &place, bytes, !is_upload) : NULL;
    if (!region && (bytes > worker->arena_bytes || arena_offset > worker->arena_bytes - bytes))
        worker_broken("a copy reaches past the arena", holding->id);
    uint8_t *outside = (region ? region->memory : worker->arena) + arena_offset;
    store_check_copy(holding, offset, bytes, is_upload);
    if (!store_has_memory(holding) || bytes == 0) {
        /* Nobody else's bytes may go out in place of its own. */
        if (!is_upload && !(region && region->is_mailbox))
            memset(outside, 0, bytes);
        answer_copied(worker, tag, STATUS_OK);
        return;
    }
    const bool at_once = !region || region->is_mailbox;
    if (!at_once && !copy_in_chunks(worker, holding, region, outside, message)) {
        holding->failed |= is_upload;
        if (is_upload)
            answer_failed(worker, holding->id);
        answer_copied(worker, tag, is_upload ? STATUS_OK : STATUS_OUT_OF_MEMORY);
        return;
    }
    *(is_upload ? &holding->uploads : &holding->downloads) += 1;
    if (at_once)
        copy_at_once(worker, holding, outside, message);
}

void store_copied(struct worker *worker, struct holding *holding, struct region *region,
                  bool is_upload, uint64_t tag)
{
    *(is_upload ? &holding->uploads : &holding->downloads) -= 1;
    if (region) {
        region->users--;
        holding->region_uploads -= is_upload;
    }
    answer_copied(worker, tag, STATUS_OK);
}
