#include "gpu/cuda/compiled.h"

#include "base/list.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/stencil_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS_MOST = 16 }; /* that a kernel is launched on */

/* A slot is empty for the main thread from compiled_take() until what it took has been loaded. */
struct slot {
    atomic_bool offered;
    uint64_t taken; /* how often: what was loaded for an earlier time is not offered any more */
    struct kernel_key key;
    cudaLibrary_t library; /* the thread's; NULL: none */
    cudaKernel_t kernel;
    struct {
        cudaStream_t stream;
        cudaEvent_t last; /* launch on it */
    } used[STREAMS_MOST];
    int streams;
};

/* What the thread is to load. */
struct load {
    struct list link;
    uint32_t slot;
    uint64_t taken;
    uint8_t *image;
};

static struct {
    struct slot slots[DEVICE_KERNELS];
    pthread_t thread;
    bool is_open, ends;
    int device, units;
    pthread_mutex_t lock; /* of the following, and of `taken` and `offered` of slots */
    pthread_cond_t changed;
    struct list loads;
    bool loading;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* --- the thread --- */

/* Nothing that the main thread launches from now on uses it. (To wait for the whole device would
 * break a graph that the main thread captures meanwhile.) */
static void unload(struct slot *slot)
{
    if (!slot->library)
        return;
    for (; slot->streams; slot->streams--) {
        cudaEvent_t last = slot->used[slot->streams - 1].last;
        fault_never(cudaEventSynchronize(last), "cudaEventSynchronize");
        fault_never(cudaEventDestroy(last), "cudaEventDestroy");
    }
    fault_check(cudaLibraryUnload(slot->library), "cudaLibraryUnload");
    slot->library = NULL;
}

static bool load_image(struct slot *slot, const struct load *load)
{
    const struct kernel_image *image = (const struct kernel_image *)load->image;
    const struct kernel_tile tile = kernel_tile_of(&image->key);
    const int64_t shared = kernel_asks(tile.wide * tile.high, tile.shared_bytes);
    slot->key = image->key;
    if (!fault_check(cudaLibraryLoadData(&slot->library, image->code, NULL, NULL, 0, NULL, NULL, 0),
                     "cudaLibraryLoadData")) {
        slot->library = NULL;
        return false;
    }
    return fault_check(cudaLibraryGetKernel(&slot->kernel, slot->library, KERNEL_ASKED),
                       "cudaLibraryGetKernel") &&
           fault_check(cudaFuncSetAttribute((const void *)slot->kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)shared),
                       "cudaFuncSetAttribute");
}

static void load_slot(const struct load *load)
{
    struct slot *slot = &all.slots[load->slot];
    unload(slot);
    if (!load_image(slot, load)) {
        log_warning("cuda: a compiled kernel cannot be loaded: its stencil goes without");
        return;
    }
    if (!compiled_check(&slot->key, (const void *)slot->kernel, all.units)) {
        log_error("cuda: a compiled kernel of %u points gives other values: it is dropped",
                  slot->key.points);
        return;
    }
    pthread_mutex_lock(&all.lock);
    if (slot->taken == load->taken)
        atomic_store_explicit(&slot->offered, true, memory_order_release);
    pthread_mutex_unlock(&all.lock);
}

static void *run(void *unused)
{
    (void)unused;
    fault_never(cudaSetDevice(all.device), "cudaSetDevice");
    pthread_mutex_lock(&all.lock);
    for (;;) {
        struct load *load = LIST_TAKE(&all.loads, struct load, link);
        all.loading = load != NULL;
        pthread_cond_broadcast(&all.changed);
        if (!load && all.ends)
            break;
        if (!load) {
            pthread_cond_wait(&all.changed, &all.lock);
            continue;
        }
        pthread_mutex_unlock(&all.lock);
        load_slot(load);
        free(load->image);
        free(load);
        pthread_mutex_lock(&all.lock);
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* --- the main thread --- */

bool compiled_open(int device, int units)
{
    memset(all.slots, 0, sizeof all.slots);
    all.device = device;
    all.units = units;
    all.ends = all.loading = false;
    all.is_open = pthread_create(&all.thread, NULL, run, NULL) == 0;
    return all.is_open;
}

void compiled_close(void)
{
    if (!all.is_open)
        return;
    pthread_mutex_lock(&all.lock);
    all.ends = true;
    LIST_DRAIN (struct load, load, &all.loads, link) {
        free(load->image);
        free(load);
    }
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
    pthread_join(all.thread, NULL);
    for (int i = 0; i < DEVICE_KERNELS; i++)
        unload(&all.slots[i]);
    all.is_open = false;
}

void compiled_take(uint32_t number, uint8_t *image, uint64_t bytes)
{
    struct load *load = all.is_open && bytes > sizeof(struct kernel_image) &&
                                kernel_key_check(&((struct kernel_image *)image)->key)
                            ? calloc(1, sizeof *load)
                            : NULL;
    if (!load) {
        free(image);
        return;
    }
    struct slot *slot = &all.slots[number];
    pthread_mutex_lock(&all.lock);
    atomic_store_explicit(&slot->offered, false, memory_order_relaxed);
    *load = (struct load){.slot = number, .taken = ++slot->taken, .image = image};
    list_push(&all.loads, &load->link);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

void compiled_wait(void)
{
    pthread_mutex_lock(&all.lock);
    while (all.is_open && (all.loading || !list_empty(&all.loads)))
        pthread_cond_wait(&all.changed, &all.lock);
    pthread_mutex_unlock(&all.lock);
}

const void *compiled_find(const struct kernel_key *key, uint64_t points)
{
    for (int i = 0; i < DEVICE_KERNELS && points > KERNEL_LEAST_POINTS; i++) {
        const struct slot *slot = &all.slots[i];
        if (atomic_load_explicit(&slot->offered, memory_order_acquire) &&
            slot->key.points == key->points && memcmp(&slot->key, key, sizeof *key) == 0)
            return (const void *)slot->kernel;
    }
    return NULL;
}

void compiled_used(const void *kernel, cudaStream_t stream)
{
    struct slot *slot = all.slots;
    enum cudaStreamCaptureStatus status;
    fault_never(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
    if (status != cudaStreamCaptureStatusNone)
        return; /* a benchmark's graph, whose kernels stay */
    /* compiled_find() has just found it. The thread writes a slot that is not offered. */
    while (!atomic_load_explicit(&slot->offered, memory_order_acquire) ||
           slot->kernel != (cudaKernel_t)(uintptr_t)kernel)
        slot++;
    int i = 0;
    while (i < slot->streams && slot->used[i].stream != stream)
        i++;
    if (i == slot->streams) {
        if (i == STREAMS_MOST)
            fault_never(cudaErrorUnknown, "more streams than there are");
        fault_never(cudaEventCreateWithFlags(&slot->used[i].last, cudaEventDisableTiming),
                    "cudaEventCreate");
        slot->used[slot->streams++].stream = stream;
    }
    fault_never(cudaEventRecord(slot->used[i].last, stream), "cudaEventRecord");
}
