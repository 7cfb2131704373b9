#include "gpu/cuda/room.h"

#include "gpu/cuda/fault.h"

#include <stddef.h>

enum { PART = 64 }; /* of a small device's memory at most 1 in so many */

static struct {
    void *memory;
    uint64_t bytes;
    cudaEvent_t given; /* by the pass that used it last */
} room;

cudaError_t room_open(uint64_t memory_bytes)
{
    room.memory = NULL;
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

void *room_take(uint64_t bytes, cudaStream_t stream)
{
    if (bytes > room.bytes)
        return NULL;
    if (!room.memory && !fault_check(cudaMalloc(&room.memory, room.bytes), "cudaMalloc"))
        return NULL;
    fault_never(cudaStreamWaitEvent(stream, room.given, 0), "cudaStreamWaitEvent");
    return room.memory;
}

void room_give(cudaStream_t stream)
{
    fault_never(cudaEventRecord(room.given, stream), "cudaEventRecord");
}
