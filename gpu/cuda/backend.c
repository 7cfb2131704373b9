/* A CUDA device behind gpu/backend.h: its memory, and what opens it. */
#include "gpu/backend.h"
#include "gpu/cuda/communicators.h"
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/export.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/graphs.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/pin.h"
#include "gpu/cuda/queues.h"
#include "gpu/cuda/room.h"
#include "gpu/cuda/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAUNCH_COPIES_BYTES = 1 << 20, /* longer copies are left to the copy engines */
    KEEP_PART = 8,                 /* of the memory may be kept in freed blocks: 1 in 8 */
    /* For the context's own needs (local memory, queues), what cudaMalloc rounds up, and
     * room.h. */
    RESERVE_BYTES = 512 << 20
};

static void *pinned_arena;

/* --- opening and closing --- */

static bool open_failed(struct failure *failure, const char *what, cudaError_t error)
{
    cudaGetLastError();
    return failure_set(failure, STATUS_INTERNAL, NULL, "%s: %s", what, cudaGetErrorString(error));
}

/* What the device is, but for its memory. */
static bool describe(int index, struct device_info *info, struct failure *failure)
{
    struct cudaDeviceProp properties;
    int count = 0, driver = 0, addresses = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        open_failed(failure, "CUDA", error);
        if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
            error == cudaErrorStubLibrary) /* no driver, or none of a GPU's */
            failure->code = STATUS_NOT_FOUND;
        return false;
    }
    if (index < 0 || index >= count)
        return failure_set(failure, STATUS_NOT_FOUND, NULL,
                           "there is no CUDA device %d: there are %d", index, count);
    error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, index);
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&addresses, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess)
        return open_failed(failure, "the device does not answer", error);
    pin_open(index, addresses != 0);
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "cuda");
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, properties.name);
    memcpy(info->uuid, &properties.uuid, sizeof info->uuid);
    info->units = (uint32_t)properties.multiProcessorCount;
    info->count = (uint32_t)count;
    info->driver = (uint32_t)driver;
    info->architecture = (uint32_t)(10 * properties.major + properties.minor);
    return true;
}

static bool cuda_open(int index, void *arena, size_t arena_bytes, int wake,
                      struct device_info *info, struct failure *failure)
{
    size_t free_bytes = 0, memory_bytes = 0;
    /* Kernels are loaded now, not by the first job that needs each of them. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    /* A queue of the device's for each stream: where two share one, each waits for the other. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (!describe(index, info, failure))
        return false;
    cudaError_t error = queues_open((int)info->units, wake);
    if (error == cudaSuccess)
        error = slots_open();
    if (error == cudaSuccess)
        error = graphs_open();
    if (error != cudaSuccess)
        return open_failed(failure, "streams and weights", error);
    if (!compiled_open(index, (int)info->units))
        info->architecture = 0;
    error = cudaHostRegister(arena, arena_bytes, cudaHostRegisterDefault);
    if (error != cudaSuccess)
        return open_failed(failure, "the arena cannot be pinned", error);
    error = cudaMemGetInfo(&free_bytes, &memory_bytes);
    if (error != cudaSuccess)
        return open_failed(failure, "cudaMemGetInfo", error);
    error = room_open(memory_bytes);
    if (error != cudaSuccess)
        return open_failed(failure, "an event", error);
    pinned_arena = arena;
    memory_open(memory_bytes / KEEP_PART);
    info->export_bytes = export_open(index);
    info->communicates = communicators_open(index, wake);
    info->free_bytes = free_bytes > RESERVE_BYTES ? free_bytes - RESERVE_BYTES : 0;
    return true;
}

static void cuda_close(void)
{
    fault_never(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    compiled_close();
    room_close();
    graphs_close();
    slots_close();
    memory_close();
    queues_close();
    cudaHostUnregister(pinned_arena);
}

/* --- memory --- */

static void *cuda_allocate(uint64_t bytes, uint64_t owner)
{
    bool must_clear;
    void *memory = memory_take(bytes, owner, &must_clear);
    if (memory && must_clear)
        queues_clear(memory, memory_rounded(bytes));
    return memory;
}

static void *cuda_allocate_exportable(uint64_t bytes, int *descriptor)
{
    void *memory = export_allocate(bytes, descriptor);
    if (memory)
        queues_clear(memory, export_rounded(bytes));
    return memory;
}

static void cuda_release_exportable(void *memory, uint64_t bytes)
{
    queues_await_clears(); /* it may be of no use before it was cleared */
    export_release(memory, bytes);
}

static bool cuda_reap(struct completion *completion)
{
    return communicators_reap(completion) || queues_reap(completion);
}

const struct backend *backend_cuda(void)
{
    static const struct backend backend = {
        .splits_passes = false,
        .launch_copies_bytes = LAUNCH_COPIES_BYTES,
        .takes_own_planes = passes_take_own_planes,
        .open = cuda_open,
        .close = cuda_close,
        .pin = pin_memory,
        .unpin = unpin_memory,
        .allocate = cuda_allocate,
        .release = memory_give,
        .allocate_exportable = cuda_allocate_exportable,
        .await_zeroed = queues_await_clears,
        .release_exportable = cuda_release_exportable,
        .import = export_import,
        .unimport = export_unimport,
        .connect = communicators_connect,
        .exchange = communicators_exchange,
        .disconnect = communicators_disconnect,
        .take_kernel = compiled_take,
        .upload = queues_upload,
        .download = queues_download,
        .launch = queues_launch,
        .begin = queues_begin,
        .arm = queues_arm,
        .rest = memory_rest,
        .busy_polls = true,
        .reap = cuda_reap,
    };
    return &backend;
}
