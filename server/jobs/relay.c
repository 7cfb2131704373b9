#include "server/jobs/relay.h"

#include "server/devices/device.h"
#include "server/jobs/admission.h"
#include "server/jobs/task.h"
#include "server/users/memory.h"

#include <stdlib.h>

/* Slabs of one relay: while one worker fills some, the other empties some. */
enum { UNDER_WAY = 4 };

static void go_on(struct relay *relay);

static void free_if_unused(struct relay *relay)
{
    if (relay->task || relay->under_way)
        return;
    memory_release(relay->user, sizeof *relay);
    free(relay);
}

static void fail(struct task *task, const struct field *from)
{
    const char *device = from->device->name;
    struct failure failure = {0};
    if (from->lost)
        failure_set(&failure, from->resident ? STATUS_FIELD_LOST : STATUS_DEVICE_LOST, NULL,
                    "the worker of %s ended while it held an input of this job", device);
    else
        failure_set(&failure, STATUS_OUT_OF_MEMORY, NULL, "%s could not allocate an input", device);
    task_fail_with(task, &failure);
}

/* Its task needs it no longer, or has all of it. */
static void leave(struct relay *relay)
{
    struct relay **place = &relay->task->relays;
    while (*place != relay)
        place = &(*place)->next;
    *place = relay->next;
    arena_forget(&relay->waiter);
    if (relay->from->awaited_by == relay->task)
        relay->from->awaited_by = NULL;
    field_release(relay->from);
    field_release(relay->to);
    relay->task = NULL;
}

/* A slab was filled by the one device; it is released when the other has emptied it. */
static void on_downloaded(struct slab *slab, void *context, bool ok)
{
    struct relay *relay = context;
    struct task *task = relay->task;
    bool ended = false;
    if (task && !relay->to->lost && ok && !relay->from->refused) {
        relay->sent += slab->bytes;
        device_upload(relay->to, slab->offset, slab, slab->bytes);
        if ((ended = relay->sent == relay->to->type.bytes))
            leave(relay);
        else
            go_on(relay);
    } else {
        if (task && !relay->to->lost) /* else worker_lost() is about to fail it */
            fail(task, relay->from);
        arena_release(relay->arena, slab); /* last: who waits for it may be the same task's */
    }
    relay->under_way--; /* not before: until here it keeps the relay */
    free_if_unused(relay);
    if (ended && !task->relays)
        task_proceed(task);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct relay *relay = LIST_ENTRY(waiter, struct relay, waiter);
    if (relay->from->lost)
        fail(relay->task, relay->from);
    else
        go_on(relay);
}

static void go_on(struct relay *relay)
{
    const uint64_t bytes = relay->to->type.bytes;
    while (relay->asked < bytes && relay->under_way < UNDER_WAY) {
        struct slab *slab;
        if (!arena_take(relay->arena, relay->user, SHARE_UPLOAD, 1, &slab)) {
            arena_wait(relay->arena, &relay->waiter);
            return;
        }
        const uint64_t left = bytes - relay->asked, most = relay->arena->slab_bytes;
        const uint64_t part = left < most ? left : most, offset = relay->asked;
        relay->asked += part;
        relay->under_way++;
        device_download(relay->from, offset, slab, part, on_downloaded, relay);
    }
}

bool relays_go_on(struct task *task)
{
    for (struct relay *relay = task->relays; relay; relay = relay->next) {
        struct field *from = relay->from;
        if (relay->asked)
            continue;
        if (from->lost) {
            fail(task, from);
            return false;
        }
        /* It is still arriving: a download could overtake its uploads. */
        if (!from->resident && from->copies)
            from->awaited_by = task;
        else
            go_on(relay);
    }
    return !task->relays;
}

struct field *relay_source(const struct task *task, struct field *field)
{
    for (const struct relay *relay = task->relays; relay; relay = relay->next)
        if (relay->to == field)
            return relay->from;
    return field;
}

struct field *relay_add(struct task *task, struct field *from, struct failure *failure)
{
    for (const struct relay *relay = task->relays; relay; relay = relay->next)
        if (relay->from == from)
            return field_reference(relay->to);
    if (from->lost) {
        failure_set(failure, STATUS_DEVICE_LOST, NULL,
                    "the worker of %s ended while the array arrived", from->device->name);
        return NULL;
    }
    struct relay *relay = memory_new(task->user, sizeof *relay, NULL, failure);
    if (!relay)
        return NULL;
    relay->task = task;
    relay->user = task->user;
    relay->arena = &task->jobs->devices->arena;
    relay->from = field_reference(from);
    relay->waiter = (struct slab_waiter){
        .user = task->user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab};
    list_init(&relay->waiter.link);
    relay->next = task->relays;
    task->relays = relay; /* before: an error that tells what the task needs counts `from` */
    relay->to = admission_new_array(task, &from->type, failure);
    if (!relay->to) {
        leave(relay);
        free_if_unused(relay);
        return NULL;
    }
    return field_reference(relay->to);
}

void relays_release(struct task *task)
{
    while (task->relays) {
        struct relay *relay = task->relays;
        leave(relay);
        free_if_unused(relay);
    }
}
