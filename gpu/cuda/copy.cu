/* Reads over PCIe take about a microsecond each, whatever else is under way: 32 blocks of 512
 * threads with four of them under way each copy 1 MiB at the speed of the link, and leave the
 * device to others. */
#include "gpu/cuda/copy.h"

enum { THREADS = 512, BLOCKS = 32, TOGETHER = 4 };

/* A row of blocks for each copy. */
static __global__ void __launch_bounds__(THREADS)
    copy_kernel(const __grid_constant__ struct copies copies)
{
    const struct copy_arrays &arrays = copies.arrays[blockIdx.y];
    const uint4 *from = (const uint4 *)arrays.from;
    uint4 *to = (uint4 *)arrays.to;
    const uint64_t units = arrays.bytes / sizeof(uint4), step = gridDim.x * THREADS;
    const uint64_t first = blockIdx.x * THREADS + threadIdx.x;
    uint64_t i = first;
    for (; i + (TOGETHER - 1) * step < units; i += TOGETHER * step) {
        uint4 held[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            held[k] = from[i + k * step];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            to[i + k * step] = held[k];
    }
    for (; i < units; i += step)
        to[i] = from[i];
    const uint64_t rest = units * sizeof(uint4) + first;
    if (rest < arrays.bytes)
        ((char *)to)[rest] = ((const char *)from)[rest];
}

extern "C" cudaError_t copy_launch(const struct copies *copies, cudaStream_t stream)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < copies->count; i++)
        most = max(most, copies->arrays[i].bytes);
    const uint64_t block_bytes = THREADS * sizeof(uint4);
    const unsigned blocks = (unsigned)min((most + block_bytes - 1) / block_bytes, (uint64_t)BLOCKS);
    void *arguments[] = {(void *)copies};
    return cudaLaunchKernel(copy_kernel, dim3(blocks, copies->count), dim3(THREADS), arguments, 0,
                            stream);
}
