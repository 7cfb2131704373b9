/* One device kind, behind one table of functions: a new kind is one file and one line in main.c.
 * All functions but pin and unpin are called from the worker's main thread, and none of them waits
 * for the device.
 * What was begun ends as a completion with the caller's token, in any order.
 *
 * A fault that the device cannot come back from (a sticky CUDA error) is never answered: the
 * backend logs it and ends the process with BACKEND_FAULT_EXIT; the front starts another worker.
 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H

#include "gpu/device_info.h"
#include "gpu/launch.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BACKEND_FAULT_EXIT 70
/* Memory is pinned in pieces that end where addresses are multiples of this. A power of two. */
#define BACKEND_PIN_BYTES (8 << 20)

struct completion {
    uint64_t token;
    /* Launches: time on the device, microseconds, of passes and of their own copies. Copies: 0. */
    uint64_t device_us, copy_us;
};

struct backend {
    const char *kind;
    /* May a launch begin and end anywhere inside a pass, but of a plan that is staged? Else from
     * and to are multiples of plan->lines or, where the plan has one pass, lines that
     * split_allows(). */
    bool splits_passes;
    /* Arrays of up to so many bytes are better copied by launches, from their source and to their
     * target, than by upload and download. 0: launches cannot. */
    uint64_t launch_copies_bytes;

    /* Open device `index`, with the arena mapped at `arena` (pin it). Fills info. INTERNAL with the
     * reason in `failure` where there is no such device or it does not answer. */
    bool (*open)(int index, void *arena, size_t arena_bytes, struct device_info *info,
                 struct failure *failure);
    void (*close)(void);

    /* Make a client's memory, which is mapped for reading alone or for writing too, one that upload
     * and download copy from and to; undo it, when no copy is under way. From another thread, one
     * call at a time, while the device is open. STATUS_OK, OUT_OF_MEMORY or INTERNAL. *addressable:
     * launches may have it as source and, where it is writable, as target. NULL: nothing needs to
     * be done, and nothing is addressable. */
    enum status (*pin)(void *memory, size_t bytes, bool writable, bool *addressable);
    void (*unpin)(void *memory, size_t bytes);

    /* Device memory; holds no byte of another owner's. NULL where there is none. */
    void *(*allocate)(uint64_t bytes, uint64_t owner);
    void (*release)(void *memory, uint64_t bytes, uint64_t owner);

    /* Copy between the arena, or a client's memory, and the device. A launch that is not resident
     * sees every upload begun before it. A download sees the launch that `after` names and what has
     * completed. The caller keeps everything else in order. */
    void (*upload)(void *device, const void *arena, size_t bytes, uint64_t token);
    void (*download)(void *arena, const void *device, size_t bytes, const void *after,
                     uint64_t token);

    /* Order a launch. It may wait for the next begin(), one of a chain for the one after
     * earlier ones of it have been reaped: small ones that were ordered together are
     * begun together, and those of one plan may run at once. Returns a name for it, never NULL
     * and no other launch's, until its completion has been reaped. */
    const void *(*launch)(const struct launch *launch, uint64_t token);
    void (*begin)(void);

    /* Readable when completions may wait: of what was under way at the last arm(), which the caller
     * calls before it sleeps. */
    int (*wake_descriptor)(void);
    void (*arm)(void);
    /* Nothing is under way and the caller would sleep: give a part of what is kept in reserve
     * beyond measure back. True: there is more. */
    bool (*rest)(void);
    /* Does it pay to call reap() again and again for a while, rather than to sleep? */
    bool busy_polls;
    /* For how long the slowest part of what is under way has not gone on, microseconds that do not
     * count where the machine is only slow; counted from one call to the next. NULL: it shows in
     * what completes. */
    uint64_t (*still_us)(void);
    /* Take up to max completions; also looks for faults. */
    int (*reap)(struct completion *completions, int max);
};

const struct backend *backend_host(void);
const struct backend *backend_cuda(void); /* only where built with CUDA (HAVE_CUDA) */

#ifdef __cplusplus
}
#endif
#endif
