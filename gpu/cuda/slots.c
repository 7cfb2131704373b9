#include "gpu/cuda/slots.h"

#include "gpu/cuda/fault.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"

#include <stdbool.h>
#include <string.h>

static struct {
    struct slot {
        uint32_t users;      /* launches under way */
        uint64_t used;       /* when last, by the clock */
        uint64_t load;       /* number of it; 0: it holds no plan */
        cudaStream_t loader; /* the stream that loads it; NULL: it is loaded */
        cudaEvent_t loaded;
        uint64_t serial;        /* of the plan's table; 0: it has none */
        void *rows, *on_device; /* the table: pinned, and where the kernels read it; NULL: none */
        uint64_t bytes;         /* that both have room for */
    } slots[PASSES_SLOTS];
    struct passes_constants *constants; /* pinned mirror of the slots */
    uint64_t clock;                     /* counts the uses */
    uint64_t loads;
} cache;

enum { ROOM_BYTES = 1 << 20 }; /* each slot's own: tables of most plans fit */

static const uint64_t NOBODY = UINT64_MAX; /* owns the memory of tables */

static void leave_room(struct slot *slot)
{
    if (slot->on_device)
        memory_give(slot->on_device, slot->bytes, NOBODY);
    cudaFreeHost(slot->rows);
    slot->rows = slot->on_device = NULL;
    slot->bytes = 0;
    slot->load = 0;
}

/* Room for a table of so many bytes. A large one is rare, and may wait for the device. False: no
 * memory. */
static bool make_slot_room(struct slot *slot, uint64_t bytes)
{
    bool must_clear; /* all that is read is written */
    if (bytes <= slot->bytes)
        return true;
    leave_room(slot);
    slot->bytes = bytes < ROOM_BYTES ? ROOM_BYTES : bytes;
    slot->on_device = memory_take(slot->bytes, NOBODY, &must_clear);
    if (slot->on_device &&
        fault_check(cudaHostAlloc(&slot->rows, slot->bytes, cudaHostAllocDefault), "cudaHostAlloc"))
        return true;
    slot->rows = NULL;
    leave_room(slot);
    return false;
}

cudaError_t slots_open(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const cudaError_t error =
            cudaEventCreateWithFlags(&cache.slots[i].loaded, cudaEventDisableTiming);
        if (error != cudaSuccess)
            return error;
        if (!make_slot_room(&cache.slots[i], ROOM_BYTES))
            return cudaErrorMemoryAllocation;
    }
    return cudaHostAlloc((void **)&cache.constants, PASSES_SLOTS * sizeof *cache.constants,
                         cudaHostAllocDefault);
}

void slots_close(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++) {
        cudaEventDestroy(cache.slots[i].loaded);
        leave_room(&cache.slots[i]);
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
    return cache.slots[slot].load && cache.slots[slot].serial == serial_of(plan) &&
           memcmp(&cache.constants[slot].plan, plan, sizeof *plan) == 0;
}

static bool is_any_in_use(void)
{
    for (int i = 0; i < PASSES_SLOTS; i++)
        if (cache.slots[i].users > 0)
            return true;
    return false;
}

/* Nobody uses the slot. False: there is no memory until another launch has ended. */
static bool load_table(struct slot *slot, const struct plan *plan, cudaStream_t stream)
{
    slot->load = 0;
    slot->serial = serial_of(plan);
    if (!plan->table)
        return true;
    if (!make_slot_room(slot, plan->table->bytes)) {
        if (!is_any_in_use())
            fault_never(cudaErrorMemoryAllocation, "memory for a table");
        return false;
    }
    memcpy(slot->rows, plan_table_rows(plan->table), plan->table->bytes);
    fault_never(cudaMemcpyAsync(slot->on_device, slot->rows, plan->table->bytes,
                                cudaMemcpyHostToDevice, stream),
                "a table");
    return true;
}

/* The one that holds the plan already, else the unused one that was used longest ago; −1: all are
 * in use. */
static int choose(const struct plan *plan, bool *is_held)
{
    int oldest = -1;
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const struct slot *slot = &cache.slots[i];
        if ((*is_held = holds(i, plan)))
            return i;
        if (slot->users == 0 && (oldest < 0 || slot->used < cache.slots[oldest].used))
            oldest = i;
    }
    return oldest;
}

int slots_take(const struct plan *plan, cudaStream_t stream)
{
    bool is_held;
    const int i = choose(plan, &is_held);
    if (i < 0)
        return i;
    struct slot *slot = &cache.slots[i];
    if (!is_held) {
        if (!load_table(slot, plan, stream))
            return -1;
        passes_constants_init(&cache.constants[i], plan, slot->on_device);
        fault_never(passes_load(i, &cache.constants[i], stream), "weights");
        fault_never(cudaEventRecord(slot->loaded, stream), "cudaEventRecord");
        slot->load = ++cache.loads;
        slot->loader = stream;
    } else if (slot->loader && slot->loader != stream) {
        fault_never(cudaStreamWaitEvent(stream, slot->loaded, 0), "cudaStreamWaitEvent");
    }
    slot->users++;
    slot->used = ++cache.clock;
    return i;
}

uint64_t slots_load_of(int slot)
{
    return cache.slots[slot].load;
}

void slots_give(int slot)
{
    struct slot *given = &cache.slots[slot];
    given->users--;
    given->loader = NULL; /* no later user needs to wait */
    /* The server counts on that memory for arrays. */
    if (given->users == 0 && given->bytes > ROOM_BYTES)
        leave_room(given);
}
