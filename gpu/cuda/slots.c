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
        uint64_t serial;        /* of the plan's table; 0: it has none */
        void *rows, *on_device; /* the table: pinned, and where the kernels read it */
        uint64_t bytes;         /* that both have room for */
    } slots[PASSES_SLOTS];
    struct passes_constants *constants; /* pinned mirror of the slots */
    uint64_t clock;                     /* counts the uses */
} cache;

/* A table of most plans fits: no launch waits for memory. */
enum { TABLE_BYTES = 64 << 10 };

/* Room for a table of so many bytes. A large one is rare, and may wait for the device. */
static cudaError_t make_room(struct slot *slot, uint64_t bytes)
{
    if (bytes <= slot->bytes)
        return cudaSuccess;
    cudaFreeHost(slot->rows);
    cudaFree(slot->on_device);
    slot->rows = slot->on_device = NULL;
    slot->bytes = 0;
    cudaError_t error = cudaHostAlloc(&slot->rows, bytes, cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaMalloc(&slot->on_device, bytes);
    if (error == cudaSuccess)
        slot->bytes = bytes;
    return error;
}

cudaError_t slots_open(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const cudaError_t error =
            cudaEventCreateWithFlags(&cache.slots[i].loaded, cudaEventDisableTiming);
        const cudaError_t room = make_room(&cache.slots[i], TABLE_BYTES);
        if (error != cudaSuccess || room != cudaSuccess)
            return error != cudaSuccess ? error : room;
    }
    return cudaHostAlloc((void **)&cache.constants, PASSES_SLOTS * sizeof *cache.constants,
                         cudaHostAllocDefault);
}

void slots_close(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++) {
        cudaEventDestroy(cache.slots[i].loaded);
        cudaFreeHost(cache.slots[i].rows);
        cudaFree(cache.slots[i].on_device);
    }
    cudaFreeHost(cache.constants);
    memset(&cache, 0, sizeof cache);
}

static uint64_t serial_of(const struct plan *plan)
{
    return plan->table ? plan->table->serial : 0;
}

/* A table that is gone may have left its place to another. */
static bool holds(int slot, const struct plan *plan)
{
    return cache.slots[slot].filled && cache.slots[slot].serial == serial_of(plan) &&
           memcmp(&cache.constants[slot].plan, plan, sizeof *plan) == 0;
}

/* Nobody uses the slot. */
static void load_table(struct slot *slot, const struct plan *plan, cudaStream_t stream)
{
    slot->serial = serial_of(plan);
    if (!plan->table)
        return;
    fault_never(make_room(slot, plan->table->bytes), "memory for a table");
    memcpy(slot->rows, plan_table_rows(plan->table), plan->table->bytes);
    fault_never(cudaMemcpyAsync(slot->on_device, slot->rows, plan->table->bytes,
                                cudaMemcpyHostToDevice, stream),
                "a table");
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
        load_table(slot, plan, stream);
        passes_constants_init(&cache.constants[i], plan, slot->on_device);
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
