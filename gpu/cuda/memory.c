#include "gpu/cuda/memory.h"

#include "gpu/cuda/fault.h"

#include <string.h>

enum {
    KEEP_BLOCKS = 1024,
    GRAIN_BYTES = 512,
    BUSY_TIMES = 2, /* as much may be kept while work is under way */
    STEPS = 16 /* sizes from one power of two to the next: few, so that blocks are of use again */
};

struct kept {
    void *memory;
    uint64_t bytes;
    uint64_t owner;
};

/* Oldest first. */
static struct {
    struct kept blocks[KEEP_BLOCKS];
    uint32_t count;
    uint64_t bytes, most_bytes;
    uint64_t freed; /* blocks */
} cache;

uint64_t memory_rounded(uint64_t bytes)
{
    uint64_t grain = GRAIN_BYTES;
    while (bytes / grain >= 2 * STEPS)
        grain *= 2;
    return bytes > UINT64_MAX - grain ? bytes : (bytes + grain - 1) / grain * grain;
}

static void forget(uint32_t i)
{
    cache.bytes -= cache.blocks[i].bytes;
    cache.count--;
    memmove(&cache.blocks[i], &cache.blocks[i + 1], (cache.count - i) * sizeof cache.blocks[0]);
}

static void drop_oldest_block(void)
{
    void *memory = cache.blocks[0].memory;
    forget(0);
    cache.freed++;
    fault_never(cudaFree(memory), "cudaFree");
}

uint64_t memory_freed(void)
{
    return cache.freed;
}

void memory_note_freed(void)
{
    cache.freed++;
}

bool memory_drop(void)
{
    if (cache.count == 0)
        return false;
    drop_oldest_block();
    return true;
}

void memory_open(uint64_t keep_bytes)
{
    cache.most_bytes = keep_bytes;
}

void memory_close(void)
{
    while (cache.count)
        drop_oldest_block();
}

/* The newest block of that size, its owner's own where there is one; KEEP_BLOCKS: there is none. */
static uint32_t choose(uint64_t bytes, uint64_t owner)
{
    uint32_t found = KEEP_BLOCKS;
    for (uint32_t i = cache.count; i-- > 0;) {
        if (cache.blocks[i].bytes != bytes)
            continue;
        if (cache.blocks[i].owner == owner)
            return i;
        if (found == KEEP_BLOCKS)
            found = i;
    }
    return found;
}

void *memory_take(uint64_t bytes, uint64_t owner, bool *must_clear)
{
    bytes = memory_rounded(bytes);
    const uint32_t i = choose(bytes, owner);
    if (i < KEEP_BLOCKS) {
        void *memory = cache.blocks[i].memory;
        *must_clear = cache.blocks[i].owner != owner;
        forget(i);
        return memory;
    }
    *must_clear = true;
    for (;;) {
        void *memory = NULL;
        if (fault_check(cudaMalloc(&memory, bytes), "cudaMalloc"))
            return memory;
        if (!memory_drop())
            return NULL;
    }
}

void memory_give(void *memory, uint64_t bytes, uint64_t owner)
{
    bytes = memory_rounded(bytes);
    if (cache.count == KEEP_BLOCKS)
        drop_oldest_block();
    cache.blocks[cache.count++] = (struct kept){memory, bytes, owner};
    cache.bytes += bytes;
    /* A worker that always has work never comes to memory_rest(). The cache is bounded higher here
     * than there, since to drop a block waits for the device, which is worth it only where a great
     * part of the memory lies unused. The newest block stays, however large it is: the next job of
     * its kind takes it. */
    while (cache.bytes > BUSY_TIMES * cache.most_bytes && cache.count > 1)
        drop_oldest_block();
}

bool memory_rest(void)
{
    if (cache.bytes > cache.most_bytes)
        drop_oldest_block();
    return cache.bytes > cache.most_bytes;
}
