/* Inputs of a task that lie on other devices, or are cut otherwise than its arrays, copied to the
 * task's device (server/devices/device_copy.h).
 * A relay begins when its task has been granted all that it waits for, and `from` has arrived. */
#pragma once

#include "server/devices/device_copy.h"

struct relay {
    struct list link; /* in its task's, until all is sent */
    struct task *task;
    struct field *from, *to;  /* referenced; `to` is the task's own */
    struct device_copy *copy; /* NULL: it has not begun, or has failed */
};

/* An array of that type, which has the bytes of `from`, on the task's device, referenced, to which
 * `from` will be copied: one for all of the task's operators. NULL with the failure set: there is
 * no room. */
struct field *relay_add(struct task *task, struct field *from, const struct array_type *type,
                        struct failure *failure);

/* The array that the task's relay copies to `field`; without one, `field` itself. */
struct field *relay_source(const struct task *task, struct field *field);

/* Go on with all of the task's. True: every byte was sent, and later orders find it. False:
 * task_proceed() follows, or the task was failed. */
bool relays_go_on(struct task *task);

/* The task needs none of them any more. */
void relays_release(struct task *task);
