#include "tests/lib/counted_device.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>

struct counted_device counted_device;

/* A block is its size in malloc's memory. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (bytes > counted_device.has_bytes - counted_device.bytes)
        return cudaErrorMemoryAllocation;
    uint64_t *block = malloc(sizeof *block);
    if (!block)
        abort();
    *block = bytes;
    *memory = block;
    counted_device.bytes += bytes;
    counted_device.made++;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    counted_device.bytes -= *(uint64_t *)memory;
    counted_device.freed++;
    free(memory);
    return cudaSuccess;
}
