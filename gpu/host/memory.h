/* The host's memory as a device's: blocks that come zeroed from the system, and a few freed ones
 * kept for their owner, so that jobs of one size do not fault every page anew. One thread. */
#pragma once

#include <stdint.h>

enum { MEMORY_PAGE_BYTES = 4096 };

/* What is free of physical memory, in bytes; by its control groups where that is less. */
uint64_t memory_free(void);

/* The number of blocks that there can be. Each may be a mapping of its own, whose number the kernel
 * limits; an eighth of that is left for regions and for all else that the process maps. */
uint32_t memory_most_blocks(void);

/* NULL where it would not fit into what is free. Holds no byte of another owner's. */
void *memory_allocate(uint64_t bytes, uint64_t owner);
void memory_release(void *memory, uint64_t bytes, uint64_t owner);

/* Zeroed memory of its own that others map, of whole pages, and its sealed memfd, the caller's.
 * NULL: there is none. Released, it becomes empty, soon, for whoever still maps it. */
void *memory_allocate_shared(uint64_t bytes, int *descriptor);
void memory_release_shared(void *memory, uint64_t bytes);
/* Map another worker's, by its descriptor, which stays the caller's. NULL: it cannot be mapped. */
void *memory_import(int descriptor, uint64_t bytes);
void memory_unimport(void *memory, uint64_t bytes);

/* Give back what is kept. */
void memory_trim(void);
