/* A copy of bytes from one device's array to another's: slab by slab through the staging arena,
 * which all workers map, so that the front touches no byte; or, among the members of a group,
 * through slots of the mailbox of the device that they go to; or, between nodes that have NCCL, in
 * passages of a communicator.
 *
 *   worker of `from` ──download──► slab ──upload──► worker of `to`
 *   worker of `from` ───────────passage───────────► worker of `to`
 *
 * Where a way fails, as a connection between two nodes does, and both arrays are still there, it
 * begins again, another way.
 *
 * The caller begins it when no upload to these bytes is under way. When ended() is called, every
 * upload has been ordered, so orders that come later read what it wrote. */
#pragma once

#include "server/devices/communicator.h"
#include "server/users/arena.h"

enum {
    DEVICE_COPY_UNDER_WAY = 4, /* slabs or passages: while one worker fills some, the other empties
                                  some */
    DEVICE_COPY_AGAIN = 8      /* times at most; each way that fails is not taken for a while */
};

struct device_copy {
    struct arena *arena;
    struct field *from, *to; /* referenced */
    uint64_t from_offset, to_offset, bytes;
    uint64_t asked;     /* bytes that were ordered from `from`, … */
    uint64_t sent;      /* … and went on to `to` */
    uint32_t under_way; /* slabs and passages that were ordered and have not come */
    bool failed;        /* nothing more is ordered until all that is under way has come */
    uint32_t failures;
    struct passage passage[DEVICE_COPY_UNDER_WAY]; /* from NULL: not under way */
    struct slab_waiter waiter;                     /* in the arena or in a mailbox */
    /* Called once, last; ok: all bytes were sent. NULL: nobody waits for it. The last slab or
     * passage frees the copy. */
    void (*ended)(void *context, bool ok);
    void *context;
};

/* Begin one, of arrays of one user; *copy is valid until ended(), which may be called before this
 * returns. False: no memory, and ended() is not called. */
bool device_copy_begin(struct device_copy **copy, struct field *from, uint64_t from_offset,
                       struct field *to, uint64_t to_offset, uint64_t bytes,
                       void (*ended)(void *context, bool ok), void *context);

/* End a copy that has not ended: ended() is not called any more. */
void device_copy_forget(struct device_copy *copy);
