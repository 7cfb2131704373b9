#include "server/jobs/relay.h"

#include "server/devices/device.h"
#include "server/jobs/admission.h"
#include "server/jobs/task.h"
#include "server/users/memory.h"

#include <stdlib.h>

static void fail(struct task *task, const struct field *from)
{
    const char *device = from->device->name;
    struct failure failure = {0};
    if (from->lost)
        failure_set(&failure, from->resident ? STATUS_FIELD_LOST : STATUS_DEVICE_LOST, NULL,
                    "the worker of %s ended while it held an input of this job", device);
    else if (field_is_refused(from))
        failure_set(&failure, STATUS_OUT_OF_MEMORY, NULL, "%s could not allocate an input", device);
    else
        failure_set(&failure, STATUS_DEVICE_LOST, NULL,
                    "an input of this job could not be copied from %s", device);
    task_fail_with(task, &failure);
}

/* Its task needs it no longer, or has all of it. */
static void release(struct relay *relay)
{
    struct task *task = relay->task;
    list_remove(&relay->link);
    if (relay->copy)
        device_copy_forget(relay->copy);
    if (relay->from->awaited_by == task)
        relay->from->awaited_by = NULL;
    field_release(relay->from);
    field_release(relay->to);
    memory_release(task->user, sizeof *relay);
    free(relay);
}

static void on_ended(void *context, bool ok)
{
    struct relay *relay = context;
    struct task *task = relay->task;
    relay->copy = NULL;
    if (ok) {
        release(relay);
        task_proceed(task);        /* another may have waited for the copies of the same array */
    } else if (!relay->to->lost) { /* else worker_lost() is about to fail it */
        fail(task, relay->from);
    }
}

bool relays_go_on(struct task *task)
{
    LIST_EACH (struct relay, relay, &task->relays, link) {
        struct field *from = relay->from;
        if (relay->copy)
            continue;
        if (from->lost) {
            fail(task, from);
            return false;
        }
        /* It is still arriving: a download could overtake its uploads. */
        if (!from->resident && from->copies) {
            from->awaited_by = task;
        } else if (!device_copy_begin(&relay->copy, from, 0, relay->to, 0, from->type.bytes,
                                      on_ended, relay)) {
            task_fail(task, STATUS_OUT_OF_MEMORY, "the server is out of memory");
            return false;
        }
    }
    return list_empty(&task->relays);
}

struct field *relay_source(const struct task *task, struct field *field)
{
    LIST_EACH (const struct relay, relay, &task->relays, link)
        if (relay->to == field)
            return relay->from;
    return field;
}

struct field *relay_add(struct task *task, struct field *from, const struct array_type *type,
                        struct failure *failure)
{
    LIST_EACH (const struct relay, relay, &task->relays, link)
        if (relay->from == from &&
            (!relay->to->parts || relay->to->type.shape[0] == type->shape[0]))
            return field_reference(relay->to);
    struct relay *relay = memory_new(task->user, sizeof *relay, NULL, failure);
    if (!relay)
        return NULL;
    relay->task = task;
    relay->from = field_reference(from);
    /* Before: an error that tells what the task needs counts `from`. */
    list_push(&task->relays, &relay->link);
    relay->to = admission_new_array(task, type, failure);
    if (!relay->to) {
        release(relay);
        return NULL;
    }
    return field_reference(relay->to);
}

void relays_release(struct task *task)
{
    LIST_EACH (struct relay, relay, &task->relays, link)
        release(relay);
}
