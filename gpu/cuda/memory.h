/* Device memory, with freed blocks kept: cudaMalloc takes longer than a small job, and cudaFree
 * waits for the device. One thread. */
#ifndef GPU_CUDA_MEMORY_H
#define GPU_CUDA_MEMORY_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Keep at most that many bytes of freed blocks. */
void memory_open(uint64_t keep_bytes);
void memory_close(void);

/* The size of the block that an array of `bytes` lies in. */
uint64_t memory_rounded(uint64_t bytes);

/* NULL where there is none. *must_clear: it may hold bytes of another owner's. */
void *memory_take(uint64_t bytes, uint64_t owner, bool *must_clear);
void memory_give(void *memory, uint64_t bytes, uint64_t owner);

#endif
