#include "gpu/cuda/compiled.h"

#include "base/list.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/pause.h"
#include "gpu/cuda/stencil_kernels.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STREAMS_MOST = 16, /* that a kernel is launched on */
    PAUSE_FIRST_S = 1,
    PAUSE_MOST_S = 60
};

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
    struct list put_off; /* loads that there was no memory for, until the end of the pause */
    struct pause pause;
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

static cudaError_t load_image(struct slot *slot, const struct load *load)
{
    const struct kernel_image *image = (const struct kernel_image *)load->image;
    const struct kernel_tile tile = kernel_tile_of(&image->key);
    const int64_t shared = kernel_asks(tile.wide * tile.high, tile.shared_bytes);
    slot->key = image->key;
    cudaError_t error =
        cudaLibraryLoadData(&slot->library, image->code, NULL, NULL, 0, NULL, NULL, 0);
    if (error != cudaSuccess)
        slot->library = NULL;
    else
        error = cudaLibraryGetKernel(&slot->kernel, slot->library, KERNEL_ASKED);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute((const void *)slot->kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    fault_check(error, "to load a compiled kernel");
    return error;
}

static void offer(struct slot *slot, const struct load *load)
{
    pthread_mutex_lock(&all.lock);
    if (slot->taken == load->taken)
        atomic_store_explicit(&slot->offered, true, memory_order_release);
    pthread_mutex_unlock(&all.lock);
}

/* False: there was no memory to load it or to try it, which tells nothing of the kernel. */
static bool load_slot(const struct load *load)
{
    struct slot *slot = &all.slots[load->slot];
    unload(slot);
    const cudaError_t error = load_image(slot, load);
    if (error == cudaErrorMemoryAllocation)
        return false;
    if (error != cudaSuccess) {
        log_warning("cuda: a compiled kernel cannot be loaded: its stencil goes without");
        return true;
    }
    const enum compiled_verdict verdict =
        compiled_check(&slot->key, (const void *)slot->kernel, all.units);
    if (verdict == COMPILED_RIGHT)
        offer(slot, load);
    else if (verdict == COMPILED_WRONG)
        log_error("cuda: a compiled kernel of %u points gives other values or cannot be launched: "
                  "it is dropped",
                  slot->key.points);
    return verdict != COMPILED_UNTRIED;
}

static void free_load(struct load *load)
{
    free(load->image);
    free(load);
}

/* The load has been tried, or there was no memory to. Another one of its slot may have come
 * meanwhile: what is put off is always the latest of its slot. */
static void end_load(struct load *load, bool is_tried)
{
    if (is_tried || all.ends || load->taken != all.slots[load->slot].taken) {
        free_load(load);
        if (is_tried && list_empty(&all.put_off))
            all.pause = (struct pause){0};
        return;
    }
    if (!all.pause.s)
        log_info("cuda: there is no memory to try a compiled kernel: it is tried again later");
    if (list_empty(&all.put_off))
        pause_begin(&all.pause, PAUSE_FIRST_S, PAUSE_MOST_S);
    list_push(&all.put_off, &load->link);
}

/* Until a load has come, the pause is over, or the thread is to end. */
static void wait_for_load(void)
{
    const struct timespec end = {.tv_sec = (time_t)(all.pause.end_ns / UINT64_C(1000000000)),
                                 .tv_nsec = (long)(all.pause.end_ns % UINT64_C(1000000000))};
    if (list_empty(&all.put_off))
        pthread_cond_wait(&all.changed, &all.lock);
    else if (pthread_cond_clockwait(&all.changed, &all.lock, CLOCK_MONOTONIC, &end) == ETIMEDOUT)
        list_move(&all.put_off, &all.loads);
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
            wait_for_load();
            continue;
        }
        pthread_mutex_unlock(&all.lock);
        const bool is_tried = load_slot(load);
        pthread_mutex_lock(&all.lock);
        end_load(load, is_tried);
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
    all.pause = (struct pause){0};
    all.is_open = pthread_create(&all.thread, NULL, run, NULL) == 0;
    return all.is_open;
}

void compiled_close(void)
{
    if (!all.is_open)
        return;
    pthread_mutex_lock(&all.lock);
    all.ends = true;
    list_move(&all.put_off, &all.loads);
    LIST_DRAIN (struct load, load, &all.loads, link)
        free_load(load);
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
    LIST_EACH (struct load, earlier, &all.put_off, link)
        if (earlier->slot == number) {
            list_remove(&earlier->link);
            free_load(earlier);
        }
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
