/* Regions: clients' own memory, named by jobs and mapped by the worker of each device whose jobs
 * name it: of one when it is registered, of the others at the first such job. The front keeps the
 * descriptor, so that all of them and their successors can map it, and never maps it itself.
 *
 * A thread allocates its blocks. Then, of each device that was asked to map it:
 *
 *   UNMAPPED ─told the worker─► MAPPING ─OK──────► MAPPED
 *      ▲                           │  └──refused──► LOST: its jobs that name it fail
 *      └──── the worker ended ─────┴─────────────────┘
 *
 * If its blocks cannot be allocated, or the first device refuses it, register is answered with the
 * error and the region is freed.
 *
 * A region that is leaving (unregistered, or its owner is gone) has no id any more; it is freed
 * when no task uses it and no thread or worker works on it. A task that names a region which its
 * device has not mapped yet waits for it as for a field. Jobs on the same bytes are not kept in
 * order: that is up to the client.
 */
#pragma once

#include "protocol/request.h"
#include "base/list.h"

#include <uv.h>

struct region;

enum mapping_state { REGION_UNMAPPED, REGION_MAPPING, REGION_MAPPED, REGION_LOST };

/* A region on one device. */
struct mapping {
    struct list link; /* device->regions */
    struct region *region;
    struct device *device; /* NULL: it was not asked */
    enum mapping_state state;
    enum status loss; /* LOST: why */
};

/* Who registers regions, and is answered later. */
struct region_owner {
    struct user *user;
    struct list regions;  /* struct region: gone with the owner */
    uint32_t answers_due; /* to register and unregister */
    /* To register: the region, or why not. To unregister: neither. */
    void (*answer)(struct region_owner *owner, uint64_t msgid, const struct region *region,
                   const struct failure *failure);
};

struct region {
    struct list user_link, owner_link;
    struct devices *devices;
    struct region_owner *owner; /* NULL: it hung up */
    struct user *user;
    uint64_t id;     /* on the wire */
    uint64_t number; /* on the channels of all devices */
    uint64_t bytes;
    uint64_t inode; /* the memory's: two regions may be of the same */
    int descriptor; /* owned */
    bool writable;
    bool leaving;
    bool busy;                       /* its uses are being granted or lost */
    bool registering, unregistering; /* an answer is due, to: */
    uint64_t msgid;
    struct list uses; /* struct region_use */
    uint32_t held;    /* of them, by jobs that were answered and may still write here */
    bool allocated;   /* or it could not be; until then: */
    bool working;     /* a thread allocates it; else another of the user's goes first */
    pthread_t thread;
    uv_async_t ended; /* the thread has */
    uv_work_t work;
    uint64_t allocated_bytes;
    int error;                /* of the allocation: an errno */
    struct mapping mapping[]; /* by the number of each of the devices: all were there before it */
};

/* Where an operand of a task lies. */
struct region_use {
    struct list link;
    struct region *region;   /* NULL: nowhere in a region */
    struct device *device;   /* the task's */
    struct mapping *mapping; /* of it there; on a group, of the member furthest from MAPPED */
    struct task *task;
    uint64_t offset; /* bytes */
    bool waits;      /* for the region to be mapped there, and to be held no longer */
    bool holds;
};

/* region_register.c. Register the memory of a descriptor, which is taken over in every case, as the
 * request says; the answer follows when `device` has mapped it, or could not. All devices have been
 * opened by now. False with the failure set: it was refused at once. */
bool region_register(struct devices *devices, struct region_owner *owner, struct device *device,
                     const struct request *request, int descriptor, struct failure *failure);

/* Unregister a region of that owner; the answer follows when no job uses it. */
bool region_unregister(struct region_owner *owner, const struct request *request,
                       struct failure *failure);

/* The owner's regions leave, and none of them answers it any more. */
void region_hang_up(struct region_owner *owner);

/* Make `array`, of `bytes` in one of the user's regions, an operand of the task on that device;
 * writes: an output. If use->waits, granted() or region_lost() follows. False with the failure set:
 * NOT_FOUND, alike for foreign and absent ids; the region is read-only, ends before the array does,
 * or was lost on that device. */
bool region_use(struct region_use *use, const struct user *user, struct device *device,
                struct task *task, const struct array *array, uint64_t bytes, bool writes,
                const char *parameter, struct failure *failure);
/* Only the checks of region_use(): the region, or NULL with the same failures. */
struct region *region_check(const struct user *user, const struct device *device,
                            const struct array *array, uint64_t bytes, bool writes,
                            const char *parameter, struct failure *failure);
/* Could the device not map the user's region of that id? */
bool region_is_lost(const struct user *user, uint64_t id, const struct device *device);
void region_use_end(struct region_use *use);
/* Its task was answered, but may write there until the use ends: later jobs wait for that. */
void region_use_hold(struct region_use *use);
/* A second use of the same bytes by the same task: it waits for nothing of its own. */
void region_use_share(struct region_use *use, const struct region_use *with);

/* Do `bytes` of the two operands overlap? False unless both lie in regions of the user's. */
bool region_would_overlap(const struct user *user, const struct array *a, const struct array *b,
                          uint64_t bytes);

/* Events of a device's worker. */
void region_worker_ready(struct device *device);
/* It is gone: it has mapped nothing any more, before uses end; then regions may go. */
void region_worker_lost(struct device *device);
void region_worker_gone(struct device *device);
/* False: the worker was not told to map such a region. */
bool region_mapped(struct device *device, uint64_t number, enum status status);

/* For region_register.c. Charge and enter a region whose owner, bytes, number and id are set.
 * That device is the first to map it, once its blocks are allocated. */
void region_begin(struct region *region, struct device *device);
/* Its allocation has ended: map it, or answer with the error. */
void region_allocated(struct region *region, enum status status, const char *text);
