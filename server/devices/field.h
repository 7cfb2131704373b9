/* Arrays on devices: resident fields with an id, and the arrays of jobs, which have none.
 *
 * An array is referenced by its user's tree of ids and by tasks, replies, uploads and copies. The
 * last release frees its memory on the device and ends its charge.
 *
 * An array on a group of devices (group.h) has its memory in parts, an array on each member: a
 * subdomain with its ghost planes or, of an array with too few planes to be cut (the result of a
 * measure, the values at probes), the whole: what is copied from or to the array is the first one.
 *
 * Accesses keep the order in which requests came: readers of a field run together, a writer alone,
 * and no access overtakes an earlier one. All accesses of a task are queued at once, so the
 * order is total and no cycle of waits arises.
 */
#pragma once

#include "server/devices/region.h"
#include "server/metrics/trace.h"

#include <uv/tree.h>

struct users;

/* An array's memory on its device. */
struct field_memory {
    uint64_t bytes; /* charged */
    int descriptor; /* that others map it by; until it is there, one that holds its number. −1: it
                       is not exported */
};

/* The parts of an array on a group. */
struct field_parts {
    uint32_t count;
    bool is_cut;     /* else each is as large as the array */
    uint64_t planes; /* of the array, along its slowest axis */
    uint64_t plane_bytes;
    uint64_t behind;      /* subdomain_behind() */
    uint32_t runs;        /* that use it (group.c) */
    uint64_t ghosts;      /* planes beside each cut that hold what the neighbour's hold */
    bool wraps, endpoint; /* … and beyond the ends, as of a periodic job (struct decomposition) */
    struct field *at[];   /* count of them, referenced */
};

struct field {
    uint64_t id;             /* on the wire; 0: not (any longer) in its user's tree */
    RB_ENTRY(field) by_id;   /* there */
    struct list device_link; /* in its device's list of arrays */
    struct user *user;
    struct device *device;
    uint64_t array; /* its number on the channel (device_array()) */
    struct array_type type;
    struct field_memory memory;
    struct field_parts *parts; /* on a group; owned. NULL: it is on one device */
    uint32_t references;
    uint32_t copies;          /* of it that the worker has not finished */
    struct span copied;       /* the copies to it, where there is a trace */
    struct task *awaited_by;  /* waits for them; NULL: none */
    struct region_use source; /* from there the worker copies to it; … */
    struct list operand_link; /* … meanwhile in the device's list of operands, … */
    struct field *whole;      /* … as a part of that array, or all of it; referenced */
    bool allocated;           /* its worker has been told of it */
    bool lost;                /* with its worker */
    bool torn;                /* a job that wrote it was stopped half-way */
    bool resident;            /* it has, or has had, an id: no longer an array of a job */
    bool refused;             /* the worker had no memory for it */
    struct list accesses;     /* struct access, first come first */
    uint32_t writers;         /* of them */
};

struct access {
    struct list link;
    struct field *field; /* NULL: not in use */
    struct task *task;
    bool writes;
    bool granted;
};

/* A new array of `type` for the user on the device, with one reference: charged to the user, the
 * device and the queue. NULL, before anything is allocated, where one
 * of them has no room: OVER_BUDGET, of the queue QUEUE_FULL, or TOO_LARGE where it never will have;
 * with need and limit. */
struct field *field_new(struct device *device, struct user *user, const struct array_type *type,
                        struct failure *failure);

/* The same of an array like `of` on its device, in memory that can be exported: one allocation,
 * with a descriptor, which counts among the user's regions. UNSUPPORTED where the device has no
 * such memory. */
struct field *field_new_exportable(const struct field *of, struct failure *failure);
/* Is it exported? */
static inline bool field_is_exported(const struct field *field)
{
    return field->memory.descriptor >= 0;
}
/* The worker has exchanged the memory of the field and of the new array `other`: the descriptor,
 * which is taken over, is that of the field's memory from here on. */
void field_take_exported(struct field *field, struct field *other, int descriptor);

/* Is there room for so many bytes more of the user's on the device, and for one more array? False
 * with the failure set, as above. The last eighth of its memory, and of the number that it can
 * hold, is for users who have little there (server/users/reserve.h). */
bool field_has_room(const struct device *device, const struct user *user, uint64_t bytes,
                    struct failure *failure);

/* Could the device hold so much, if it held nothing else? */
bool field_fits(const struct device *device, uint64_t bytes);

/* The bytes that it is charged with, all parts together. */
uint64_t field_bytes(const struct field *field);

/* Is there room for so much more of the user's jobs in the queue? False with the failure set, as
 * above. */
bool field_queue_has_room(const struct user *user, uint64_t bytes, struct failure *failure);

/* The array of one device that holds the byte at `offset`, not referenced: the field itself or a
 * part; *there: where in it. The field is not lost. */
struct field *field_at(struct field *field, uint64_t offset, uint64_t *there);
/* The bytes from `offset` on that lie together on one device. */
uint64_t field_stretch(const struct field *field, uint64_t offset);
/* Release the parts of a lost array on a group, which no order uses any more. */
void field_drop_parts(struct field *field);
/* Did a worker have no memory for it, or for a part of it? */
bool field_is_refused(const struct field *field);

struct field *field_reference(struct field *field);
void field_release(struct field *field);

/* An id that cannot be guessed, below 2^63, since some languages have no unsigned integers. */
bool field_make_id(uint64_t *id, struct failure *failure);

/* Enter the array into its user's tree under a fresh, unguessable id. False with the failure set
 * where the user has too many fields. */
bool field_publish(struct field *field, struct failure *failure);
/* Take it out: the id is void at once, the memory goes when the last user of it has finished. */
void field_withdraw(struct field *field);
void field_withdraw_all(const struct users *users);

/* The user's field with that id; NULL with NOT_FOUND, alike for foreign and absent ones, or
 * FIELD_LOST. A torn one is found: a job may make it whole by writing it. */
struct field *field_find(const struct user *user, uint64_t id, const char *parameter,
                         struct failure *failure);

/* The user's field of the least id above `after`; NULL: there is none. */
struct field *field_after(const struct user *user, uint64_t after);

/* The same as field_find(), lost or not. */
struct field *field_find_any(const struct user *user, uint64_t id, const char *parameter,
                             struct failure *failure);

/* The device's worker is gone and its memory with it: no charge remains, its id answers
 * FIELD_LOST. */
void field_lose(struct field *field);

/* Queue an access; returns whether it is granted at once. granted() follows when it is later. */
bool field_access(struct field *field, struct access *access, struct task *task, bool writes);
void field_access_end(struct access *access);
