/* A CUDA device. One stream for uploads, one for downloads, several lanes for launches:
 *
 *   upload:    memset, copies ─┬─ event
 *   lane i:                    └► weights, passes ── host function ─► completed ─► eventfd ─►
 * reap() download:  copies ──────────────────────────────── host function ─┘
 *
 * A download that is to come after a launch waits for its end on the device.
 *
 * Host functions run on a thread of the driver's; they only push onto a lock-free list. After a
 * fault they are not called any more, so reap() asks the streams too. */
#include "gpu/backend.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    LANES = 8,
    KEEP_PART = 8, /* of the memory may be kept in freed blocks: 1 in 8 */
    /* For the context's own needs (local memory, queues) and what cudaMalloc rounds up. */
    RESERVE_BYTES = 256 << 20
};

/* A copy or launch under way, or waiting for a slot. Recycled, with its events. */
struct operation {
    struct operation *next;
    uint64_t token;
    bool is_launch;
    /* A launch: is it on a lane, with which slot; the downloads after it that wait for that. */
    bool has_begun;
    int slot;
    struct launch launch;
    struct operation *followers, **followers_end;
    /* A download. */
    void *to;
    const void *from;
    size_t bytes;
    cudaEvent_t begin, end;
};

/* A plan in constant memory. */
struct slot {
    uint32_t users; /* launches under way */
    uint64_t used;  /* when last, by cuda.clock */
    bool filled;
    cudaStream_t loader; /* the lane that loaded it */
    cudaEvent_t loaded;
};

static struct {
    cudaStream_t upload, download, lanes[LANES];
    cudaEvent_t uploaded;     /* the latest recording of uploads */
    uint64_t uploads;         /* put on the stream */
    uint64_t recorded;        /* … of them before `uploaded` was recorded */
    uint64_t seen[LANES + 1]; /* … that each lane, and the download stream, waits for */
    uint32_t lane;            /* of the last launch */
    struct slot slots[PASSES_SLOTS];
    struct passes_constants *constants; /* pinned mirror of the slots */
    uint64_t clock;
    struct operation *free_operations;
    struct operation *waiting, **waiting_end; /* launches that found no slot, in order */
    struct operation *ready, **ready_end;     /* completed, in order, not yet reaped */
    _Atomic(struct operation *) completed;    /* pushed by host functions, newest first */
    void *arena;
    int device, units, wake;
} cuda = {.wake = -1};

static void CUDART_CB complete(void *argument)
{
    struct operation *operation = argument;
    const uint64_t one = 1;
    struct operation *before = atomic_load(&cuda.completed);
    do
        operation->next = before;
    while (!atomic_compare_exchange_weak(&cuda.completed, &before, operation));
    if (!before) /* else the one who pushed first has written, or is about to */
        while (write(cuda.wake, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

static struct operation *take_operation(uint64_t token)
{
    struct operation *operation = cuda.free_operations;
    if (operation) {
        cuda.free_operations = operation->next;
    } else {
        operation = calloc(1, sizeof *operation);
        if (!operation) {
            fprintf(stderr, "<2>cuda: no memory for an operation\n");
            _exit(BACKEND_FAULT_EXIT);
        }
        fault_never(cudaEventCreate(&operation->begin), "cudaEventCreate");
        fault_never(cudaEventCreate(&operation->end), "cudaEventCreate");
    }
    operation->next = NULL;
    operation->token = token;
    return operation;
}

/* Make the stream wait for all uploads so far. `who` indexes cuda.seen. */
static void wait_for_uploads(cudaStream_t stream, int who)
{
    if (cuda.seen[who] == cuda.uploads)
        return;
    if (cuda.recorded != cuda.uploads) {
        fault_never(cudaEventRecord(cuda.uploaded, cuda.upload), "cudaEventRecord");
        cuda.recorded = cuda.uploads;
    }
    fault_never(cudaStreamWaitEvent(stream, cuda.uploaded, 0), "cudaStreamWaitEvent");
    cuda.seen[who] = cuda.uploads;
}

/* --- opening and closing --- */

static bool open_failed(struct failure *failure, const char *what, cudaError_t error)
{
    cudaGetLastError();
    return failure_set(failure, STATUS_INTERNAL, NULL, "%s: %s", what, cudaGetErrorString(error));
}

static bool make_streams(struct failure *failure)
{
    cudaError_t error = cudaStreamCreateWithFlags(&cuda.upload, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&cuda.download, cudaStreamNonBlocking);
    for (int i = 0; i < LANES && error == cudaSuccess; i++)
        error = cudaStreamCreateWithFlags(&cuda.lanes[i], cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&cuda.uploaded, cudaEventDisableTiming);
    for (int i = 0; i < PASSES_SLOTS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&cuda.slots[i].loaded, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaHostAlloc((void **)&cuda.constants, PASSES_SLOTS * sizeof *cuda.constants,
                              cudaHostAllocDefault);
    return error == cudaSuccess || open_failed(failure, "streams and weights", error);
}

static bool cuda_open(int index, void *arena, size_t arena_bytes, struct device_info *info,
                      struct failure *failure)
{
    struct cudaDeviceProp properties;
    int count = 0, driver = 0;
    size_t free_bytes = 0, memory_bytes = 0;
    /* Kernels are loaded now, not by the first job that needs each of them. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return open_failed(failure, "CUDA", error);
    if (index < 0 || index >= count)
        return failure_set(failure, STATUS_INTERNAL, NULL,
                           "there is no CUDA device %d: there are %d", index, count);
    error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, index);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess)
        return open_failed(failure, "the device does not answer", error);
    if (!make_streams(failure))
        return false;
    error = cudaHostRegister(arena, arena_bytes, cudaHostRegisterDefault);
    if (error != cudaSuccess)
        return open_failed(failure, "the arena cannot be pinned", error);
    cuda.arena = arena;
    error = cudaMemGetInfo(&free_bytes, &memory_bytes);
    if (error != cudaSuccess)
        return open_failed(failure, "cudaMemGetInfo", error);
    cuda.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cuda.wake < 0)
        return failure_set(failure, STATUS_INTERNAL, NULL, "eventfd: %s", strerror(errno));
    cuda.device = index;
    cuda.units = properties.multiProcessorCount;
    cuda.waiting_end = &cuda.waiting;
    cuda.ready_end = &cuda.ready;
    memory_open(memory_bytes / KEEP_PART);
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "cuda");
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, properties.name);
    info->memory_bytes = memory_bytes;
    info->free_bytes = free_bytes > RESERVE_BYTES ? free_bytes - RESERVE_BYTES : 0;
    info->units = (uint32_t)properties.multiProcessorCount;
    info->count = (uint32_t)count;
    info->driver = (uint32_t)driver;
    return true;
}

static void cuda_close(void)
{
    fault_never(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    memory_close();
    while (cuda.free_operations) {
        struct operation *operation = cuda.free_operations;
        cuda.free_operations = operation->next;
        cudaEventDestroy(operation->begin);
        cudaEventDestroy(operation->end);
        free(operation);
    }
    for (int i = 0; i < PASSES_SLOTS; i++)
        cudaEventDestroy(cuda.slots[i].loaded);
    cudaEventDestroy(cuda.uploaded);
    for (int i = 0; i < LANES; i++)
        cudaStreamDestroy(cuda.lanes[i]);
    cudaStreamDestroy(cuda.upload);
    cudaStreamDestroy(cuda.download);
    cudaFreeHost(cuda.constants);
    cudaHostUnregister(cuda.arena);
    close(cuda.wake);
    memset(&cuda, 0, sizeof cuda);
    cuda.wake = -1;
}

/* --- memory and copies --- */

static enum status cuda_pin(void *memory, size_t bytes, bool writable)
{
    fault_never(cudaSetDevice(cuda.device), "cudaSetDevice"); /* of this thread */
    const cudaError_t error = cudaHostRegister(
        memory, bytes, writable ? cudaHostRegisterDefault : cudaHostRegisterReadOnly);
    if (fault_check(error, "cudaHostRegister"))
        return STATUS_OK;
    fprintf(stderr, "<4>cuda: %zu bytes of a client's memory cannot be pinned: %s\n", bytes,
            cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? STATUS_OUT_OF_MEMORY : STATUS_INTERNAL;
}

static void cuda_unpin(void *memory)
{
    fault_check(cudaHostUnregister(memory), "cudaHostUnregister");
}

static void *cuda_allocate(uint64_t bytes, uint64_t owner)
{
    bool must_clear;
    void *memory = memory_take(bytes, owner, &must_clear);
    if (memory && must_clear) {
        fault_never(cudaMemsetAsync(memory, 0, memory_rounded(bytes), cuda.upload),
                    "cudaMemsetAsync");
        cuda.uploads++;
    }
    return memory;
}

static void cuda_upload(void *device, const void *arena, size_t bytes, uint64_t token)
{
    struct operation *operation = take_operation(token);
    operation->is_launch = false;
    fault_never(cudaMemcpyAsync(device, arena, bytes, cudaMemcpyHostToDevice, cuda.upload),
                "upload");
    cuda.uploads++;
    fault_never(cudaLaunchHostFunc(cuda.upload, complete, operation), "cudaLaunchHostFunc");
}

static void begin_download(struct operation *operation)
{
    fault_never(cudaMemcpyAsync(operation->to, operation->from, operation->bytes,
                                cudaMemcpyDeviceToHost, cuda.download),
                "download");
    fault_never(cudaLaunchHostFunc(cuda.download, complete, operation), "cudaLaunchHostFunc");
}

static void cuda_download(void *arena, const void *device, size_t bytes, const void *after,
                          uint64_t token)
{
    struct operation *operation = take_operation(token);
    struct operation *launch = (struct operation *)(uintptr_t)after;
    operation->is_launch = false;
    operation->to = arena;
    operation->from = device;
    operation->bytes = bytes;
    if (launch && !launch->has_begun) {
        *launch->followers_end = operation;
        launch->followers_end = &operation->next;
        return;
    }
    if (launch)
        fault_never(cudaStreamWaitEvent(cuda.download, launch->end, 0), "cudaStreamWaitEvent");
    else
        wait_for_uploads(cuda.download, LANES);
    begin_download(operation);
}

/* --- launches --- */

/* The slot that holds the plan already, else the unused one that was used longest ago; −1: all are
 * in use. */
static int choose_slot(const struct plan *plan)
{
    int oldest = -1;
    for (int i = 0; i < PASSES_SLOTS; i++) {
        const struct slot *slot = &cuda.slots[i];
        if (slot->filled && memcmp(&cuda.constants[i].plan, plan, sizeof *plan) == 0)
            return i;
        if (slot->users == 0 && (oldest < 0 || slot->used < cuda.slots[oldest].used))
            oldest = i;
    }
    return oldest;
}

/* Put it on a lane; false where there is no slot for its weights. */
static bool begin_launch(struct operation *operation)
{
    const struct plan *plan = operation->launch.plan;
    const int i = choose_slot(plan);
    if (i < 0)
        return false;
    struct slot *slot = &cuda.slots[i];
    const int lane = (int)(++cuda.lane % LANES);
    cudaStream_t stream = cuda.lanes[lane];
    if (!slot->filled || memcmp(&cuda.constants[i].plan, plan, sizeof *plan) != 0) {
        passes_constants_init(&cuda.constants[i], plan);
        fault_never(passes_load(i, &cuda.constants[i], stream), "weights");
        fault_never(cudaEventRecord(slot->loaded, stream), "cudaEventRecord");
        slot->filled = true;
        slot->loader = stream;
    } else if (slot->loader && slot->loader != stream) {
        fault_never(cudaStreamWaitEvent(stream, slot->loaded, 0), "cudaStreamWaitEvent");
    }
    slot->users++;
    slot->used = ++cuda.clock;
    operation->slot = i;
    wait_for_uploads(stream, lane);
    fault_never(cudaEventRecord(operation->begin, stream), "cudaEventRecord");
    fault_never(passes_launch(&operation->launch, i, cuda.units, stream), "launch");
    fault_never(cudaEventRecord(operation->end, stream), "cudaEventRecord");
    fault_never(cudaLaunchHostFunc(stream, complete, operation), "cudaLaunchHostFunc");
    operation->has_begun = true;
    if (operation->followers)
        fault_never(cudaStreamWaitEvent(cuda.download, operation->end, 0), "cudaStreamWaitEvent");
    while (operation->followers) {
        struct operation *download = operation->followers;
        operation->followers = download->next;
        download->next = NULL;
        begin_download(download);
    }
    return true;
}

static const void *cuda_launch(const struct launch *launch, uint64_t token)
{
    struct operation *operation = take_operation(token);
    operation->is_launch = true;
    operation->has_begun = false;
    operation->followers = NULL;
    operation->followers_end = &operation->followers;
    operation->launch = *launch;
    if (cuda.waiting || !begin_launch(operation)) {
        *cuda.waiting_end = operation;
        cuda.waiting_end = &operation->next;
    }
    return operation;
}

/* --- completions --- */

/* An error that sticks is the answer to every call, so one will do where something has completed;
 * where nothing has, all streams are asked what became of their work. */
static void look_for_faults(bool thoroughly)
{
    for (int i = thoroughly ? 0 : LANES + 1; i < LANES + 2; i++) {
        cudaStream_t stream = i < LANES ? cuda.lanes[i] : i == LANES ? cuda.upload : cuda.download;
        const cudaError_t error = cudaStreamQuery(stream);
        if (error != cudaErrorNotReady)
            fault_never(error, "the device");
    }
    cudaGetLastError(); /* "not ready" is no error */
}

/* Move what the host functions have pushed to the end of `ready`, oldest first. */
static void collect(void)
{
    uint64_t count;
    while (read(cuda.wake, &count, sizeof count) < 0 && errno == EINTR)
        ;
    struct operation *newest = atomic_exchange(&cuda.completed, NULL), *oldest = NULL;
    if (!newest)
        return;
    struct operation **end = &newest->next;
    while (newest) {
        struct operation *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    *cuda.ready_end = oldest;
    cuda.ready_end = end;
}

/* Device time of a launch; its slot is free for other plans. */
static uint64_t end_launch(struct operation *operation)
{
    struct slot *slot = &cuda.slots[operation->slot];
    float ms = 0;
    fault_never(cudaEventElapsedTime(&ms, operation->begin, operation->end),
                "cudaEventElapsedTime");
    slot->users--;
    slot->loader = NULL; /* it is loaded: nobody needs to wait any more */
    return (uint64_t)(ms * 1000.0f + 0.5f);
}

static int cuda_reap(struct completion *completions, int max)
{
    int count = 0;
    collect();
    look_for_faults(!cuda.ready);
    while (cuda.ready && count < max) {
        struct operation *operation = cuda.ready;
        cuda.ready = operation->next;
        if (!cuda.ready)
            cuda.ready_end = &cuda.ready;
        completions[count++] =
            (struct completion){operation->token, operation->is_launch ? end_launch(operation) : 0};
        operation->next = cuda.free_operations;
        cuda.free_operations = operation;
    }
    while (cuda.waiting) {
        struct operation *operation = cuda.waiting, *next = operation->next;
        operation->next = NULL;
        if (!begin_launch(operation)) {
            operation->next = next;
            break;
        }
        cuda.waiting = next;
        if (!next)
            cuda.waiting_end = &cuda.waiting;
    }
    if (cuda.ready) { /* there was no room for all: stay readable */
        const uint64_t one = 1;
        while (write(cuda.wake, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
    return count;
}

static int cuda_wake_descriptor(void)
{
    return cuda.wake;
}

const struct backend *backend_cuda(void)
{
    static const struct backend backend = {
        .kind = "cuda",
        .splits_passes = false,
        .open = cuda_open,
        .close = cuda_close,
        .pin = cuda_pin,
        .unpin = cuda_unpin,
        .allocate = cuda_allocate,
        .release = memory_give,
        .upload = cuda_upload,
        .download = cuda_download,
        .launch = cuda_launch,
        .wake_descriptor = cuda_wake_descriptor,
        .reap = cuda_reap,
    };
    return &backend;
}
