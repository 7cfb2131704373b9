#include "gpu/cuda/room.h"

#include "gpu/cuda/fault.h"

#include <stddef.h>

enum { PART = 64 }; /* of a small device's memory at most 1 in so many */

static struct {
    void *memory;
    uint64_t bytes;
    cudaEvent_t given;   /* by the pass that used it last, */
    cudaStream_t stream; /* on that stream */
} room;

cudaError_t room_open(uint64_t memory_bytes)
{
    room.stream = NULL;
    room.bytes = memory_bytes / PART < ROOM_MOST ? memory_bytes / PART : ROOM_MOST;
    return cudaEventCreateWithFlags(&room.given, cudaEventDisableTiming);
}

void room_close(void)
{
    if (room.memory)
        fault_never(cudaFree(room.memory), "cudaFree");
    room.memory = NULL;
    fault_never(cudaEventDestroy(room.given), "cudaEventDestroy");
}

/* Launches that are captured (by benchmarks; the worker captures none with a padding) are ordered
 * by their graph, and no event of it is for others. */
static bool is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status;
    fault_never(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

void *room_take(uint64_t bytes, cudaStream_t stream)
{
    if (bytes > room.bytes)
        return NULL;
    if (!room.memory && !fault_check(cudaMalloc(&room.memory, room.bytes), "cudaMalloc"))
        return NULL;
    if (stream != room.stream && !is_captured(stream))
        fault_never(cudaStreamWaitEvent(stream, room.given, 0), "cudaStreamWaitEvent");
    return room.memory;
}

void room_give(cudaStream_t stream)
{
    if (is_captured(stream))
        return;
    fault_never(cudaEventRecord(room.given, stream), "cudaEventRecord");
    room.stream = stream;
}
