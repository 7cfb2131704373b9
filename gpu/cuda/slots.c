#include "gpu/cuda/slots.h"

#include "gpu/cuda/fault.h"
#include "gpu/cuda/passes.h"

#include <stdbool.h>
#include <string.h>

static struct {
    struct slot {
        uint32_t users; /* launches under way */
        uint64_t used;  /* when last, by the clock */
        bool filled;
        cudaStream_t loader; /* the stream that loads it; NULL: it is loaded */
        cudaEvent_t loaded;
    } slots[PASSES_SLOTS];
    struct passes_constants *constants; /* pinned mirror of the slots */
    uint64_t clock;                     /* counts the uses */
} cache;

cudaError_t slots_open(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const cudaError_t error =
            cudaEventCreateWithFlags(&cache.slots[i].loaded, cudaEventDisableTiming);
        if (error != cudaSuccess)
            return error;
    }
    return cudaHostAlloc((void **)&cache.constants, PASSES_SLOTS * sizeof *cache.constants,
                         cudaHostAllocDefault);
}

void slots_close(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++)
        cudaEventDestroy(cache.slots[i].loaded);
    cudaFreeHost(cache.constants);
    memset(&cache, 0, sizeof cache);
}

static bool holds(int slot, const struct plan *plan)
{
    return cache.slots[slot].filled && memcmp(&cache.constants[slot].plan, plan, sizeof *plan) == 0;
}

/* The one that holds the plan already, else the unused one that was used longest ago; −1: all are
 * in use. */
static int choose(const struct plan *plan)
{
    int oldest = -1;
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const struct slot *slot = &cache.slots[i];
        if (holds(i, plan))
            return i;
        if (slot->users == 0 && (oldest < 0 || slot->used < cache.slots[oldest].used))
            oldest = i;
    }
    return oldest;
}

int slots_take(const struct plan *plan, cudaStream_t stream)
{
    const int i = choose(plan);
    if (i < 0)
        return i;
    struct slot *slot = &cache.slots[i];
    if (!holds(i, plan)) {
        passes_constants_init(&cache.constants[i], plan);
        fault_never(passes_load(i, &cache.constants[i], stream), "weights");
        fault_never(cudaEventRecord(slot->loaded, stream), "cudaEventRecord");
        slot->filled = true;
        slot->loader = stream;
    } else if (slot->loader && slot->loader != stream) {
        fault_never(cudaStreamWaitEvent(stream, slot->loaded, 0), "cudaStreamWaitEvent");
    }
    slot->users++;
    slot->used = ++cache.clock;
    return i;
}

void slots_give(int slot)
{
    cache.slots[slot].users--;
    cache.slots[slot].loader = NULL; /* nobody needs to wait any more */
}
