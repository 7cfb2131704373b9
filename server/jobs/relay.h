/* Arrays on their way from one device to another, for a task that needs them where it runs: slab by
 * slab through the staging arena, which all workers map, so that the front touches no byte.
 *
 *   worker of `from` ──download──► slab ──upload──► worker of `to`
 *
 * A relay begins when its task has been granted all that it waits for, and `from` has arrived. */
#pragma once

#include "server/devices/field.h"
#include "server/users/arena.h"

struct relay {
    struct relay *next; /* of its task, until all is sent */
    struct task *task;  /* NULL: it has all, or needs it no longer; the last slab frees the relay */
    struct user *user;
    struct arena *arena;
    struct field *from, *to; /* referenced while there is the task; `to` is the task's own */
    uint64_t asked;          /* bytes that were ordered from `from`, … */
    uint64_t sent;           /* … and went on to `to` */
    uint32_t under_way;      /* slabs that were ordered and have not come */
    struct slab_waiter waiter;
};

/* An array on the task's device, referenced, to which `from` will be copied: one for all of the
 * task's operators. NULL with the failure set: there is no room, or `from` is lost. */
struct field *relay_add(struct task *task, struct field *from, struct failure *failure);

/* The array that the task's relay copies to `field`; without one, `field` itself. */
struct field *relay_source(const struct task *task, struct field *field);

/* Go on with all of the task's. True: every byte was sent, and later orders find it. False:
 * task_proceed() follows, or the task was failed. */
bool relays_go_on(struct task *task);

/* The task needs none of them any more. */
void relays_release(struct task *task);
