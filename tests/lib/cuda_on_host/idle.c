/* A device on which every call succeeds at once and does nothing, but for memory, which is the
 * host's: what a test of one file of gpu/cuda/ links and does not define itself. */
#include "gpu/cuda/fault.h"
#include "gpu/cuda/passes.h"

#include <stdlib.h>
#include <string.h>

#define IDLE __attribute__((weak))

IDLE bool fault_check(cudaError_t error, const char *what)
{
    (void)what;
    return error == cudaSuccess;
}

IDLE void fault_never(cudaError_t error, const char *what)
{
    (void)what;
    if (error != cudaSuccess)
        abort();
}

IDLE void passes_constants_init(struct passes_constants *constants, const struct plan *plan,
                                const void *rows)
{
    memset(constants, 0, sizeof *constants);
    constants->plan = *plan;
    constants->rows = rows;
}

IDLE cudaError_t passes_load(int slot, const struct passes_constants *constants,
                             cudaStream_t stream)
{
    (void)slot, (void)constants, (void)stream;
    return cudaSuccess;
}

IDLE cudaError_t cudaGetDevice(int *index)
{
    *index = 0;
    return cudaSuccess;
}

IDLE cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int index)
{
    (void)attribute, (void)index;
    *value = 0;
    return cudaSuccess;
}

IDLE cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return cudaSuccess;
}

IDLE cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

IDLE cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory = malloc(bytes);
    return cudaSuccess;
}

IDLE cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

IDLE cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

IDLE cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

IDLE cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return cudaSuccess;
}

IDLE cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static cudaError_t nothing(const void *what)
{
    (void)what;
    return cudaSuccess;
}

IDLE cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return nothing(stream);
}

IDLE cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return nothing(stream);
}

IDLE cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)event, (void)flags;
    return nothing(stream);
}

IDLE cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    return nothing(event);
}

IDLE cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return nothing(event);
}

IDLE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    return nothing(event);
}

IDLE cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return nothing(graph);
}
