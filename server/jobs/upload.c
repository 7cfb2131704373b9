#include "server/jobs/upload.h"

#include "server/jobs/admission.h"
#include "server/jobs/placement.h"
#include "server/users/memory.h"

#include <stdlib.h>
#include <string.h>

static struct arena *arena_of(const struct upload *upload)
{
    return &upload->client->jobs->devices->arena;
}

static struct arrival *latest(struct upload *upload)
{
    return upload->count ? &upload->arrivals[upload->count - 1] : NULL;
}

static void make_void(struct upload *upload, struct arrival *arrival)
{
    field_release(arrival->field);
    if (arrival->numbers)
        memory_release(upload->client->user, arrival->expected);
    free(arrival->numbers);
    arrival->field = NULL;
    arrival->numbers = NULL;
}

static bool is_void(const struct arrival *arrival)
{
    return !arrival->field && !arrival->numbers;
}

static void release_slab(struct upload *upload)
{
    struct slab *slab = upload->slab;
    upload->slab = NULL;
    upload->slab_fill = 0;
    if (slab) /* last: its waiters are called at once */
        arena_release(arena_of(upload), slab);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct upload *upload = LIST_ENTRY(waiter, struct upload, waiter);
    if (!arena_take(arena_of(upload), upload->client->user, SHARE_UPLOAD, 1, &upload->slab))
        arena_wait(arena_of(upload), waiter);
    upload->resume(upload);
}

void upload_init(struct upload *upload, struct client *client, void *dropped,
                 void (*resume)(struct upload *upload))
{
    upload->client = client;
    upload->dropped = dropped;
    upload->resume = resume;
    upload->waiter = (struct slab_waiter){
        .user = client->user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab};
}

void upload_flush(struct upload *upload)
{
    struct slab *slab = upload->slab;
    const struct arrival *arrival = latest(upload);
    if (!slab || !upload->slab_fill || !arrival->field || arrival->field->lost) {
        release_slab(upload);
        return;
    }
    const uint32_t bytes = upload->slab_fill;
    upload->slab = NULL;
    upload->slab_fill = 0;
    device_upload(arrival->field, arrival->placed - bytes, slab, bytes);
}

void upload_drop(struct upload *upload)
{
    release_slab(upload);
    arena_forget(&upload->waiter);
    for (uint32_t i = 0; i < upload->count; i++)
        make_void(upload, &upload->arrivals[i]);
    memory_release(upload->client->user, upload->count * sizeof *upload->arrivals);
    free(upload->arrivals);
    upload->arrivals = NULL;
    upload->count = 0;
    memset(&upload->failure, 0, sizeof upload->failure);
}

static uint64_t numbers_bytes(const struct upload *upload)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < upload->count; i++)
        if (upload->arrivals[i].numbers)
            bytes += upload->arrivals[i].expected;
    return bytes;
}

static void begin_numbers(struct upload *upload, struct arrival *arrival)
{
    struct failure *failure = &upload->failure;
    const uint64_t taken = numbers_bytes(upload);
    if (arrival->expected > LIMIT_BLOCK_BYTES - taken)
        failure_set_limit(failure, STATUS_TOO_LARGE, arrival->name.text,
                          (double)taken + (double)arrival->expected, LIMIT_BLOCK_BYTES,
                          "the numbers of a message's parameters take at most %d bytes",
                          LIMIT_BLOCK_BYTES);
    else
        arrival->numbers =
            memory_new(upload->client->user, arrival->expected, arrival->name.text, failure);
}

static void begin_field(struct upload *upload, struct arrival *arrival,
                        const struct array_type *type)
{
    struct device *device = placement_of_array(upload->client, type, &upload->failure);
    if (device)
        arrival->field = field_new(device, upload->client->user, type, &upload->failure);
}

/* A new array: reserve its memory before the first byte of it is taken. */
static void begin_array(struct upload *upload, struct arrival *arrival,
                        const struct splitter_payload *payload)
{
    struct failure *failure = &upload->failure;
    struct array_type type = {0};
    const bool known = !failure->code && array_type_peek(payload, arrival->name.text,
                                                         arrival->is_numbers, &type, failure);
    if (!known)
        return;
    if (payload->list_count ? payload->bytes > type.bytes : payload->bytes != type.bytes) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name.text,
                    "its data has %llu bytes; its shape and type make %llu",
                    (unsigned long long)payload->bytes, (unsigned long long)type.bytes);
        return;
    }
    /* Arrays are charged as they come, so jobs must be counted here as well. */
    if (!admission_open(upload->client->jobs, upload->client->user, failure))
        return;
    arrival->expected = type.bytes;
    if (arrival->is_numbers)
        begin_numbers(upload, arrival);
    else
        begin_field(upload, arrival, &type);
}

/* Room for one more; false: the message has too many, or there is no memory. */
static bool add_arrival(struct upload *upload, const struct splitter_payload *payload)
{
    if (upload->count == LIMIT_ARRAYS)
        return failure_set(&upload->failure, STATUS_INVALID_ARGUMENT, NULL,
                           "a message has at most %d inline arrays", LIMIT_ARRAYS);
    struct arrival *arrivals =
        realloc(upload->arrivals, (upload->count + 1) * sizeof *upload->arrivals);
    if (!arrivals)
        return failure_set(&upload->failure, STATUS_OUT_OF_MEMORY, NULL,
                           "the server is out of memory");
    upload->arrivals = arrivals;
    memory_hold(upload->client->user, sizeof *arrivals);
    bool is_numbers;
    const struct failure_place name = request_payload_place(payload, &is_numbers);
    arrivals[upload->count++] = (struct arrival){
        .name = name,
        .is_numbers = is_numbers,
        .payload = payload->number,
        .map_at = payload->map_at,
        .map_pairs = payload->map_pairs,
    };
    return true;
}

/* Is it a further bin of the list that the latest array arrives in? Not every list begins with a
 * bin. */
static bool goes_on(const struct arrival *arrival, const struct splitter_payload *payload)
{
    return arrival && payload->list_index > 0 && payload->map_at == arrival->map_at &&
           payload->map_pairs == arrival->map_pairs;
}

void upload_begin(struct upload *upload, const struct splitter_payload *payload)
{
    struct arrival *arrival = latest(upload);
    if (!goes_on(arrival, payload)) {
        upload_flush(upload); /* what the array before it left unfinished is not this one's */
        if (!add_arrival(upload, payload)) {
            if (arrival)
                make_void(upload, arrival); /* the new one's bytes are dropped with it */
            return;
        }
        arrival = latest(upload);
        begin_array(upload, arrival, payload);
    } else if (!is_void(arrival) && payload->bytes > arrival->expected - arrival->received) {
        failure_set(&upload->failure, STATUS_INVALID_ARGUMENT, arrival->name.text,
                    "its list of data has more than the %llu bytes that its shape and type make",
                    (unsigned long long)arrival->expected);
        upload_flush(upload);
        make_void(upload, arrival);
    }
    arrival->received += payload->bytes;
}

/* The worker that the array was going to is gone, or the array is not wanted: read and drop. */
static bool dropping(struct upload *upload)
{
    struct arrival *arrival = latest(upload);
    if (!arrival) /* there was no memory to note it in */
        return true;
    if (arrival->field && arrival->field->lost) {
        failure_set(&upload->failure, STATUS_DEVICE_LOST, NULL,
                    "the device's worker ended while the array arrived");
        make_void(upload, arrival);
    }
    if (!arrival->field)
        release_slab(upload);
    return is_void(arrival);
}

void *upload_place(struct upload *upload, uint64_t due, size_t *room)
{
    struct arena *arena = arena_of(upload);
    if (dropping(upload)) {
        *room = due < UPLOAD_DROP_BYTES ? (size_t)due : UPLOAD_DROP_BYTES;
        return upload->dropped;
    }
    const struct arrival *arrival = latest(upload);
    if (arrival->numbers) {
        *room = (size_t)due;
        return arrival->numbers + arrival->placed;
    }
    if (!upload->slab && !arena_take(arena, upload->client->user, SHARE_UPLOAD, 1, &upload->slab)) {
        arena_wait(arena, &upload->waiter);
        return NULL;
    }
    /* A slab's bytes go to one device. */
    const uint64_t begin = arrival->placed - upload->slab_fill;
    const uint64_t piece = field_stretch(arrival->field, begin);
    const uint64_t most = piece < arena->slab_bytes ? piece : arena->slab_bytes;
    const uint64_t space = most - upload->slab_fill;
    *room = (size_t)(due < space ? due : space);
    return arena_memory_to_write(arena, upload->slab, upload->slab_fill + *room) +
           upload->slab_fill;
}

void upload_placed(struct upload *upload, size_t bytes)
{
    struct arrival *arrival = latest(upload);
    if (arrival)
        arrival->placed += bytes;
    USER_COUNT(upload->client->user, bytes_in, bytes);
    if (!upload->slab)
        return;
    upload->slab_fill += (uint32_t)bytes;
    if (upload->slab_fill == arena_of(upload)->slab_bytes ||
        upload->slab_fill == field_stretch(arrival->field, arrival->placed - upload->slab_fill))
        upload_flush(upload);
}

const struct arrival *upload_find(const struct upload *upload, const struct array *array,
                                  bool numbers, const char *parameter, struct failure *failure)
{
    const struct arrival *arrival = NULL;
    for (uint32_t i = 0; i < upload->count; i++)
        if (upload->arrivals[i].payload == array->payload_first)
            arrival = &upload->arrivals[i];
    if (!arrival || is_void(arrival) || arrival->is_numbers != numbers ||
        arrival->expected != array->type.bytes) {
        failure_set(failure, STATUS_PROTOCOL, parameter, "its data did not arrive");
        return NULL;
    }
    if (arrival->received == arrival->expected)
        return arrival;
    failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name.text,
                "its list of data has %llu bytes; its shape and type make %llu",
                (unsigned long long)arrival->received, (unsigned long long)arrival->expected);
    return NULL;
}
