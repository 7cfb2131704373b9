#include "server/upload.h"

#include "server/admission.h"
#include "server/device.h"
#include "server/server.h"

#include <stdio.h>
#include <string.h>

static struct arena *arena_of(const struct upload *upload)
{
    return &upload->server->arena;
}

static struct arrival *latest(struct upload *upload)
{
    return upload->count ? &upload->arrivals[upload->count - 1] : NULL;
}

static void make_void(struct arrival *arrival)
{
    field_release(arrival->field);
    arrival->field = NULL;
}

static void release_slab(struct upload *upload)
{
    struct slab *slab = upload->slab;
    upload->slab = NULL;
    upload->slab_fill = 0;
    if (slab) /* last: whoever waited for it acts at once */
        arena_release(arena_of(upload), slab);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct upload *upload = LIST_ENTRY(waiter, struct upload, waiter);
    if (!arena_take(arena_of(upload), upload->user, SHARE_UPLOAD, 1, &upload->slab))
        arena_wait(arena_of(upload), waiter);
    upload->resume(upload);
}

void upload_init(struct upload *upload, struct server *server, struct user *user,
                 void (*resume)(struct upload *upload))
{
    memset(upload, 0, sizeof *upload);
    upload->server = server;
    upload->user = user;
    upload->resume = resume;
    upload->waiter =
        (struct slab_waiter){.user = user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab};
    list_init(&upload->waiter.link);
}

static void slab_copied(struct slab *slab, void *context, bool ok)
{
    (void)ok; /* a lost worker takes the field with it, and that is what is looked at */
    arena_release(context, slab);
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
    device_upload(arrival->field, arrival->placed - bytes, slab, bytes, slab_copied,
                  arena_of(upload));
}

void upload_drop(struct upload *upload)
{
    release_slab(upload);
    arena_forget(&upload->waiter);
    for (uint32_t i = 0; i < upload->count; i++)
        make_void(&upload->arrivals[i]);
    upload->count = 0;
    memset(&upload->failure, 0, sizeof upload->failure);
}

/* "f", or where the array is a component, "f y". */
static void name_arrival(struct arrival *arrival, const struct splitter_payload *payload)
{
    strcpy(arrival->name, "f");
    for (int a = 0; a < AXIS_COUNT; a++)
        if (payload->name_bytes == 1 && payload->name[0] == axis_name((enum axis)a)[0])
            snprintf(arrival->name, sizeof arrival->name, "f %c", payload->name[0]);
}

/* A new array: reserve its memory before the first byte of it is taken. */
static void begin_array(struct upload *upload, const struct splitter_payload *payload)
{
    struct failure *failure = &upload->failure;
    struct arrival *arrival = &upload->arrivals[upload->count++];
    struct array_type type;
    memset(arrival, 0, sizeof *arrival);
    arrival->payload = payload->number;
    arrival->map = payload->map;
    arrival->map_pairs = payload->map_pairs;
    name_arrival(arrival, payload);
    if (failure->code || !array_type_peek(payload, arrival->name, &type, failure))
        return;
    if (payload->list_count ? payload->bytes > type.bytes : payload->bytes != type.bytes) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name,
                    "its data has %llu bytes; its shape and type make %llu",
                    (unsigned long long)payload->bytes, (unsigned long long)type.bytes);
        return;
    }
    /* Arrays are charged as they come, so jobs must be counted here as well. */
    if (!admission_open(upload->server, upload->user, failure))
        return;
    arrival->expected = type.bytes;
    arrival->field = field_new(upload->server, upload->user, &type, failure);
}

/* Is it a further bin of the list that the latest array arrives in? Not every list begins with a
 * bin. */
static bool goes_on(const struct arrival *arrival, const struct splitter_payload *payload)
{
    return arrival && payload->list_index > 0 && payload->map == arrival->map &&
           payload->map_pairs == arrival->map_pairs;
}

void upload_begin(struct upload *upload, const struct splitter_payload *payload)
{
    struct arrival *arrival = latest(upload);
    if (!goes_on(arrival, payload)) {
        upload_flush(upload); /* what the array before it left unfinished is not this one's */
        if (upload->count == LIMIT_ARRAYS) {
            failure_set(&upload->failure, STATUS_INVALID_ARGUMENT, NULL,
                        "a message has at most %d inline arrays", LIMIT_ARRAYS);
            make_void(arrival); /* the new one's bytes are dropped with it */
            return;
        }
        begin_array(upload, payload);
        arrival = latest(upload);
    } else if (arrival->field && payload->bytes > arrival->expected - arrival->received) {
        failure_set(&upload->failure, STATUS_INVALID_ARGUMENT, arrival->name,
                    "its list of data has more than the %llu bytes that its shape and type make",
                    (unsigned long long)arrival->expected);
        upload_flush(upload);
        make_void(arrival);
    }
    arrival->received += payload->bytes;
}

/* The worker that the array was going to is gone, or the array is not wanted: read and drop. */
static bool dropping(struct upload *upload)
{
    struct arrival *arrival = latest(upload);
    if (arrival->field && arrival->field->lost) {
        failure_set(&upload->failure, STATUS_DEVICE_LOST, NULL,
                    "the device's worker ended while the array arrived");
        make_void(arrival);
    }
    if (!arrival->field)
        release_slab(upload);
    return !arrival->field;
}

void *upload_place(struct upload *upload, uint64_t due, size_t *room)
{
    struct arena *arena = arena_of(upload);
    if (dropping(upload)) {
        *room = due < SERVER_DROP_BYTES ? (size_t)due : SERVER_DROP_BYTES;
        return upload->server->drop_buffer;
    }
    if (!upload->slab && !arena_take(arena, upload->user, SHARE_UPLOAD, 1, &upload->slab)) {
        arena_wait(arena, &upload->waiter);
        return NULL;
    }
    const uint64_t space = arena->slab_bytes - upload->slab_fill;
    *room = (size_t)(due < space ? due : space);
    return arena_memory(arena, upload->slab) + upload->slab_fill;
}

void upload_placed(struct upload *upload, size_t bytes)
{
    struct arrival *arrival = latest(upload);
    arrival->placed += bytes;
    upload->user->counters.bytes_in += bytes;
    upload->server->totals.bytes_in += bytes;
    if (!upload->slab)
        return;
    upload->slab_fill += (uint32_t)bytes;
    if (upload->slab_fill == arena_of(upload)->slab_bytes || arrival->placed == arrival->expected)
        upload_flush(upload);
}

bool upload_waits(const struct upload *upload)
{
    return !list_empty(&upload->waiter.link);
}

static struct field *claim(struct upload *upload, const struct array *array,
                           struct failure *failure)
{
    for (uint32_t i = 0; i < upload->count; i++) {
        struct arrival *arrival = &upload->arrivals[i];
        if (!arrival->field || arrival->payload != array->payload_first)
            continue;
        if (arrival->received != arrival->expected) {
            failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name,
                        "its list of data has %llu bytes; its shape and type make %llu",
                        (unsigned long long)arrival->received,
                        (unsigned long long)arrival->expected);
            return NULL;
        }
        struct field *field = arrival->field;
        arrival->field = NULL;
        return field;
    }
    failure_set(failure, STATUS_PROTOCOL, "f", "its data did not arrive");
    return NULL;
}

bool upload_claim(struct upload *upload, const struct arrays *f, struct field *fields[AXIS_COUNT],
                  struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (f->at[i].kind == ARRAY_INLINE && f->at[i].payload_count &&
            !(fields[i] = claim(upload, &f->at[i], failure)))
            return false;
    return true;
}
