/* Device memory, with freed blocks kept: cudaMalloc takes longer than a small job, and cudaFree
 * waits for the device. One thread. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Freed blocks of more bytes than that are not kept for long: memory_rest(). While work is under
 * way there are at most twice as many, or one block. */
void memory_open(uint64_t keep_bytes);
void memory_close(void);

/* The size of the block that an array of `bytes` lies in: at most 1/16 more, and 512 bytes. */
uint64_t memory_rounded(uint64_t bytes);

/* NULL where there is none. *must_clear: it may hold bytes of another owner's. */
void *memory_take(uint64_t bytes, uint64_t owner, bool *must_clear);
void memory_give(void *memory, uint64_t bytes, uint64_t owner);

/* The number of blocks given back to the device so far; their addresses may be reused. */
uint64_t memory_freed(void);

/* One more was: by others. */
void memory_note_freed(void);

/* Give the block that is kept longest back to the device, for others. False: none is kept. */
bool memory_drop(void);

/* While nothing is under way: give one block back to the device, if too much is kept. True: there
 * is more to give. */
bool memory_rest(void);
