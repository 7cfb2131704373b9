/* Arrays whose memory other processes map. Such memory is never exchanged: what is to be in it is
 * copied there, by the device. */
#include "gpu/worker/worker.h"

#include <stdlib.h>

/* An EXPORT under way. */
struct exporting {
    uint64_t id;
    struct holding *array, *other;
    uint32_t pieces; /* that are being copied */
};

/* Backends of several threads copy as many at the same time. */
enum { PIECE_BYTES = 32 << 20 };

/* Begin to copy; after the launch, where it is not NULL. Returns the number of completions. */
static uint32_t copy_all(const struct worker *worker, const struct holding_memory *to,
                         const void *from, const void *launch, struct token token)
{
    uint32_t pieces = 0;
    for (uint64_t done = 0; done < to->bytes; done += PIECE_BYTES, pieces++) {
        const uint64_t left = to->bytes - done;
        worker->backend->download((uint8_t *)to->at + done, (const uint8_t *)from + done,
                                  left < PIECE_BYTES ? left : PIECE_BYTES, launch, token);
    }
    return pieces;
}

void exported_bring_home(struct worker *worker, struct execution *run, const void *launch,
                         int output)
{
    const uint32_t pieces =
        copy_all(worker, &run->out[output]->memory, launch_result(&run->slices.launch, output),
                 launch, (struct token){.of = run, .kind = TOKEN_HOME});
    run->coming_home += pieces;
    worker->jobs.under_way += pieces;
}

static void answer(struct worker *worker, uint64_t id, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_EXPORTED, .status = status, .u.exported.id = id});
}

void exported_begin(struct worker *worker, const struct channel_message *message)
{
    const uint64_t id = message->u.exported.id;
    struct holding *array = store_find(worker, message->u.exported.array);
    struct holding *other = store_find(worker, message->u.exported.other);
    struct exporting *exporting = NULL;
    if (!store_is_unused(array) || !store_is_unused(other))
        worker_broken("EXPORT of an array that is in use", id);
    if (store_has_memory(array) && store_has_memory(other)) {
        if (array->memory.exportable || other->descriptor < 0 ||
            array->memory.bytes != other->memory.bytes)
            worker_broken("EXPORT to what is no new memory of the array's size", id);
        exporting = calloc(1, sizeof *exporting);
    }
    if (!exporting) {
        answer(worker, id, STATUS_OUT_OF_MEMORY);
        return;
    }
    array->downloads++;
    other->uploads++;
    *exporting = (struct exporting){.id = id, .array = array, .other = other};
    exporting->pieces = copy_all(worker, &other->memory, array->memory.at, NULL,
                                 (struct token){.of = exporting, .kind = TOKEN_EXPORT});
    worker->copies.under_way += exporting->pieces;
}

void exported_copied(struct worker *worker, struct exporting *exporting)
{
    struct holding *array = exporting->array, *other = exporting->other;
    if (--exporting->pieces)
        return;
    const struct channel_message message = {.type = CHANNEL_EXPORTED,
                                            .u.exported.id = exporting->id};
    const bool told = channel_queue_push(&worker->answers, &message, NULL, other->descriptor);
    other->descriptor = -1; /* taken in either case */
    if (told) {
        const struct holding_memory memory = array->memory;
        array->memory = other->memory;
        other->memory = memory;
    } else {
        answer(worker, exporting->id, STATUS_OUT_OF_MEMORY);
    }
    array->downloads--;
    other->uploads--;
    free(exporting);
}
