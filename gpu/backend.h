/* A kind of device behind one table of functions: a new kind is one file and one line in main.c.
 * All functions but pin and unpin are called from the worker's main thread, and none of them but
 * await_zeroed and release_exportable waits for the device. Each operation that was begun ends as a
 * completion with the caller's token, in any order.
 *
 * A fault from which the device cannot recover (a sticky CUDA error) is never answered: the backend
 * logs it and ends the process with BACKEND_FAULT_EXIT; the front starts another worker. */
#pragma once

#include "gpu/communicator.h"
#include "gpu/device_info.h"
#include "gpu/launch.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

#define BACKEND_FAULT_EXIT 70
/* Memory is pinned in pieces that end where addresses are multiples of this. A power of two. */
#define BACKEND_PIN_BYTES (8 << 20)

/* The caller's name for an operation, which its completion carries; backends do not look at it. */
struct token {
    void *of;
    uint64_t number;
    int kind;
};

struct completion {
    struct token token;
    bool edges;  /* no end of the launch: the edges of its own planes are there, to be downloaded */
    bool failed; /* of a communicator: it is of no use any more */
    /* Launches: time on the device, microseconds, of passes and of their own copies. Copies: 0. */
    uint64_t device_us, copy_us;
};

struct backend {
    /* May a launch begin and end anywhere inside a pass, unless its plan is staged? Else from and
     * to are multiples of plan->lines or, if the plan has one pass, the ends of a part
     * (gpu/split.h). */
    bool splits_passes;
    /* The largest array, in bytes, that launches copy faster, from source and to target, than
     * upload and download do. 0: launches cannot copy. */
    uint64_t launch_copies_bytes;
    /* Can launches do all passes of the plan at once for some of its planes alone
     * (launch.own)? Where these have edges, a completion tells of them before that of the launch.
     * NULL: of no plan. */
    bool (*takes_own_planes)(const struct plan *plan);

    /* Open device `index`, with the arena mapped at `arena` (pin it). Completions of operations
     * that were under way at the last arm(), at least, write to the eventfd `wake`. Fills info.
     * INTERNAL with the reason in `failure` where there is no such device or it does not answer.
     */
    bool (*open)(int index, void *arena, size_t arena_bytes, int wake, struct device_info *info,
                 struct failure *failure);
    void (*close)(void);

    /* Pin a client's memory, which is mapped for reading or for reading and writing, so that upload
     * and download may copy from and to it; unpin it when no copy is under way. From another
     * thread, one call at a time, while the device is open. STATUS_OK, OUT_OF_MEMORY or INTERNAL.
     * *addressable: launches may have it as source and, if it is writable, as target. NULL: nothing
     * needs to be done, and nothing is addressable. */
    enum status (*pin)(void *memory, size_t bytes, bool writable, bool *addressable);
    void (*unpin)(void *memory, size_t bytes);

    /* Device memory without a byte of another owner's. NULL if there is none. */
    void *(*allocate)(uint64_t bytes, uint64_t owner);
    void (*release)(void *memory, uint64_t bytes, uint64_t owner);

    /* The same of one zeroed allocation that other processes can map by *descriptor, which is the
     * caller's. After its release the pages are freed when no other process maps them; on the host
     * soon, even if one does. NULL where there is none. */
    void *(*allocate_exportable)(uint64_t bytes, int *descriptor);
    /* Wait until memory that was allocated is zeroed: this device's copies and launches see to that
     * themselves, those of other processes, which may write to it, cannot. NULL: it always is. */
    void (*await_zeroed)(void);
    void (*release_exportable)(void *memory, uint64_t bytes);

    /* Map exportable memory of another worker's device, or of this one, of a multiple of that
     * device's export_bytes, to copy from and to; the descriptor is the caller's. NULL: it cannot
     * be reached from here. Unmap it when no copy is under way. */
    void *(*import)(int descriptor, uint64_t bytes);
    void (*unimport)(void *memory, uint64_t bytes);

    /* Where device_info has `communicates`. Begin to make a communicator of two ranks, of which
     * rank 0 writes the id and rank 1 reads it. The completion tells whether it is there. NULL: it
     * cannot be made. */
    struct communicator *(*connect)(int rank, uint8_t id[COMMUNICATOR_ID_BYTES],
                                    struct token token);
    /* Send bytes of an array to the other rank, which receives as many, and receive others, at
     * once; either may be 0. Exchanges of a communicator go in the order of the calls. What one
     * depends on has completed, and what depends on it waits for its completion. One that failed
     * may have written any part of what it was to receive. */
    void (*exchange)(struct communicator *communicator, const void *sent, size_t sent_bytes,
                     void *received, size_t received_bytes, struct token token);
    /* Give it up: what is under way fails, a connect() too. The completion comes after all of
     * theirs, and with it the communicator is gone. */
    void (*disconnect)(struct communicator *communicator, struct token token);

    /* Take a kernel that was compiled for stencils of one key into the slot, in the place of the
     * one there; launches come to use it, with the same bits. image: struct kernel_image
     * (gpu/compile/source.h), which is the callee's. NULL: there is no use for kernels. */
    void (*take_kernel)(uint32_t slot, uint8_t *image, uint64_t bytes);

    /* Copy between the arena, or a client's memory, and the device; download also from array to
     * array on the device. A launch that is not resident
     * sees every upload begun before it. A download sees the launch that `after` names and all that
     * has completed. All other ordering is the caller's. */
    void (*upload)(void *device, const void *arena, size_t bytes, struct token token);
    void (*download)(void *arena, const void *device, size_t bytes, const void *after,
                     struct token token);

    /* Enqueue a launch. It may be held until the next begin(); one of a chain until the begin()
     * after earlier ones of the chain have been reaped. Small launches enqueued together begin
     * together, and those of one plan may run at once. Returns an identifier, never NULL and unique
     * until the launch's completion has been reaped. */
    const void *(*launch)(const struct launch *launch, struct token token);
    void (*begin)(void);

    /* To be called before the caller sleeps, so that operations under way wake it. */
    void (*arm)(void);
    /* Call when nothing is under way and the caller would sleep: gives part of the memory kept in
     * reserve back. True: there is more to give back. */
    bool (*rest)(void);
    /* Does busy polling with reap() pay, rather than sleeping at once? */
    bool busy_polls;
    /* The longest time, in microseconds, that a part under way has made no progress, without time
     * in which the machine was only slow; counted from one call to the next. NULL: hangs show in
     * completions. */
    uint64_t (*still_us)(void);
    /* Take one completion. False where all are taken that were there at the first call after the
     * last false: so a caller that takes until then answers between one look at the device and the
     * next. Also checks for faults. */
    bool (*reap)(struct completion *completion);
};

const struct backend *backend_host(void);
const struct backend *backend_cuda(void); /* only where built with CUDA (HAVE_CUDA) */

__END_DECLS
