#include "gpu/host/memory.h"

#include "base/cgroup.h"
#include "base/list.h"
#include "base/rights.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    KEPT_BLOCKS = 16,
    /* Below this, /proc/meminfo is not worth reading. */
    MEASURED_BYTES = 16 << 20,
    LARGE_PAGE_BYTES = 2 << 20,
    PLACES = 16, /* that large blocks begin at */
    PLACE_BYTES = (44 << 10) + 832
};
#define KEPT_BYTES (UINT64_C(1) << 30)

struct freed {
    void *memory;
    uint64_t bytes, owner;
};

/* Freed blocks, oldest first. */
static struct freed kept[KEPT_BLOCKS];
static int kept_count;
static uint64_t kept_bytes;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t memory_free(void)
{
    const uint64_t most = UINT64_MAX >> 10; /* KiB */
    const uint64_t total = cgroup_number("/proc", "meminfo", "MemTotal:", most);
    const uint64_t available = cgroup_number("/proc", "meminfo", "MemAvailable:", total);
    return smaller(available << 10, cgroup_memory("").free);
}

uint32_t memory_most_blocks(void)
{
    enum { USUAL = 65530 };
    const uint64_t most = cgroup_number("/proc/sys/vm", "max_map_count", "", USUAL);
    return (uint32_t)(smaller(most, UINT32_MAX) / 8 * 7);
}

static bool is_large(uint64_t bytes)
{
    return bytes >= 2 * LARGE_PAGE_BYTES;
}

/* Whole pages; 0 where the size is beyond any. */
static uint64_t page_bytes(uint64_t bytes)
{
    return bytes > INT64_MAX
               ? 0
               : (bytes + MEMORY_PAGE_BYTES - 1) / MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES;
}

/* One page at least, and large ones for what is large, with one more for the place that it begins
 * at; 0 where the size is beyond any. */
static uint64_t block_bytes(uint64_t bytes)
{
    bytes = page_bytes(bytes ? bytes : 1);
    return is_large(bytes) ? (bytes / LARGE_PAGE_BYTES + 2) * LARGE_PAGE_BYTES : bytes;
}

static void unmap(void *memory, uint64_t bytes)
{
    const uint64_t place = is_large(bytes) ? (uintptr_t)memory % LARGE_PAGE_BYTES : 0;
    munmap((char *)memory - place, bytes);
}

/* Block number i is kept no longer. */
static void *take_kept(int i)
{
    void *memory = kept[i].memory;
    kept_bytes -= kept[i].bytes;
    kept_count--;
    memmove(kept + i, kept + i + 1, (size_t)(kept_count - i) * sizeof *kept);
    return memory;
}

static void drop_oldest_mapping(void)
{
    const uint64_t bytes = kept[0].bytes;
    unmap(take_kept(0), bytes);
}

void memory_trim(void)
{
    while (kept_count > 0)
        drop_oldest_mapping();
}

static bool fits(uint64_t bytes)
{
    return bytes < MEASURED_BYTES || bytes <= memory_free();
}

/* Large blocks begin at a large page, or none of their pages could be one. */
static void *map_block(uint64_t bytes)
{
    const uint64_t extra = is_large(bytes) ? LARGE_PAGE_BYTES : 0;
    char *memory =
        mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (extra == 0)
        return memory;
    const uint64_t before = -(uintptr_t)memory % LARGE_PAGE_BYTES;
    if (before > 0)
        munmap(memory, before);
    if (before < extra)
        munmap(memory + before + bytes, extra - before);
    madvise(memory + before, bytes, MADV_HUGEPAGE);
    /* Arrays that begin alike would meet in the same few places of a cache. */
    static uint64_t count;
    return memory + before + count++ % PLACES * PLACE_BYTES;
}

void *memory_allocate(uint64_t bytes, uint64_t owner)
{
    bytes = block_bytes(bytes);
    if (bytes == 0)
        return NULL;
    for (int i = kept_count - 1; i >= 0; i--)
        if (kept[i].bytes == bytes && kept[i].owner == owner)
            return take_kept(i);
    if (!fits(bytes)) {
        memory_trim();
        if (!fits(bytes))
            return NULL;
    }
    void *memory = map_block(bytes);
    if (!memory && kept_count > 0) {
        memory_trim();
        memory = map_block(bytes);
    }
    return memory;
}

void memory_release(void *memory, uint64_t bytes, uint64_t owner)
{
    if (!memory)
        return;
    bytes = block_bytes(bytes);
    if (bytes > KEPT_BYTES / 2) {
        unmap(memory, bytes);
        return;
    }
    while (kept_count == KEPT_BLOCKS || kept_bytes + bytes > KEPT_BYTES)
        drop_oldest_mapping();
    kept[kept_count++] = (struct freed){memory, bytes, owner};
    kept_bytes += bytes;
}

void *memory_allocate_shared(uint64_t bytes, int *descriptor)
{
    bytes = page_bytes(bytes);
    *descriptor = -1;
    if (bytes == 0)
        return NULL;
    if (!fits(bytes))
        memory_trim();
    return fits(bytes) ? rights_memory("field", bytes, descriptor) : NULL;
}

void *memory_import(int descriptor, uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void memory_unimport(void *memory, uint64_t bytes)
{
    munmap(memory, bytes);
}

/* Shared memory that goes. That takes as long as its owner likes, who may have it mapped a thousand
 * times: a thread waits for it. */
struct leaving {
    struct list link;
    void *memory;
    uint64_t bytes;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct list waiting; /* struct leaving */
    bool started;        /* the thread: asked by the one that allocates alone */
} leavers = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* Pages are charged to this process until they are freed, even if only others map them. */
static void empty_shared(void *memory, uint64_t bytes)
{
    madvise(memory, bytes, MADV_REMOVE);
    rights_unmap(memory, bytes);
}

static void *run_leaver(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&leavers.mutex);
        while (list_empty(&leavers.waiting))
            pthread_cond_wait(&leavers.more, &leavers.mutex);
        struct leaving *leaving = LIST_TAKE(&leavers.waiting, struct leaving, link);
        pthread_mutex_unlock(&leavers.mutex);
        empty_shared(leaving->memory, leaving->bytes);
        free(leaving);
    }
    return NULL;
}

void memory_release_shared(void *memory, uint64_t bytes)
{
    struct leaving *leaving = malloc(sizeof *leaving);
    bytes = page_bytes(bytes);
    leavers.started = leavers.started || thread_start(run_leaver, NULL);
    if (!leaving || !leavers.started) {
        free(leaving);
        empty_shared(memory, bytes);
        return;
    }
    leaving->memory = memory;
    leaving->bytes = bytes;
    pthread_mutex_lock(&leavers.mutex);
    list_push(&leavers.waiting, &leaving->link);
    pthread_cond_signal(&leavers.more);
    pthread_mutex_unlock(&leavers.mutex);
}
