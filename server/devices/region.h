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
 * No blocks, or refused by the first device: register is answered with that, and it is gone.
 *
 * A region that is leaving (unregistered, or its owner is gone) has no id any more; it goes
 * when no task uses it and neither a thread nor a worker is at it. A task that names a region
 * which its device has not mapped yet waits for that as for a field. Nobody keeps jobs on the same
 * bytes in order: that is the client's own affair.
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
    bool working;     /* a thread is at it; else another of the user's goes first */
    uv_work_t work;
    uint64_t allocated_bytes;
    int error;                /* of the allocation: an errno */
    uint32_t count;           /* of the devices: */
    struct mapping mapping[]; /* by their number */
};

/* Where an operand of a task lies. */
struct region_use {
    struct list link;
    struct region *region;   /* NULL: nowhere in a region */
    struct mapping *mapping; /* of it, on the task's device */
    struct task *task;
    uint64_t offset; /* bytes */
    bool waits;      /* for the region to be mapped there, and to be held no longer */
    bool holds;
};

/* region_register.c. Make the threads that allocate. False: a line of the log says why. */
bool regions_open(uv_loop_t *loop);

/* Register the memory of a descriptor, which is taken over in every case, as the request says; the
 * answer follows when `device` has mapped it, or could not. All devices have been opened by now.
 * False with the failure set: it was refused at once. */
bool region_register(struct devices *devices, struct region_owner *owner, struct device *device,
                     const struct request *request, int descriptor, struct failure *failure);

/* Unregister a region of that owner; the answer follows when no job uses it. */
bool region_unregister(struct region_owner *owner, const struct request *request,
                       struct failure *failure);

/* The owner's regions leave, and none of them answers it any more. */
void region_hang_up(struct region_owner *owner);

/* Let `array`, of `bytes` and in one of the user's regions, be an operand of the task on that
 * device, which is to write it where `writes`; where use->waits, granted() or region_lost()
 * follows. False with the failure set: NOT_FOUND, alike for foreign and absent ids; read-only; it
 * reaches past the end; or what befell the region on that device. */
bool region_use(struct region_use *use, const struct user *user, struct device *device,
                struct task *task, const struct array *array, uint64_t bytes, bool writes,
                const char *parameter, struct failure *failure);
/* Could it be? The region; NULL with the same failures. The device is not asked to map it. */
struct region *region_check(const struct user *user, const struct device *device,
                            const struct array *array, uint64_t bytes, bool writes,
                            const char *parameter, struct failure *failure);
/* Could the device not map the user's region of that id? */
bool region_is_lost(const struct user *user, uint64_t id, const struct device *device);
void region_use_end(struct region_use *use);
/* Its task is answered, and may write there until the use ends: jobs that come now wait for that.
 */
void region_use_hold(struct region_use *use);
/* A second use of the same bytes by the same task: it waits for nothing of its own. */
void region_use_share(struct region_use *use, const struct region_use *with);

/* Would `bytes` of two operands have a byte in common? Not, where one of them is no array in one of
 * the user's regions. */
bool region_would_overlap(const struct user *user, const struct array *a, const struct array *b,
                          uint64_t bytes);

/* What a device says of its worker. */
void region_worker_ready(struct device *device);
void region_worker_gone(struct device *device);
/* False: it is none that it was told to map. */
bool region_mapped(struct device *device, uint64_t number, enum status status);

/* For region_register.c. A region is there from here on, and is to be mapped by that device first:
 * it is charged, and its owner, bytes, number, id and count stay. */
void region_begin(struct region *region, struct device *device);
/* No thread is at it any more: map it, or say why it was refused. */
void region_allocated(struct region *region, enum status status, const char *text);
