#include "client/region.h"

#include "protocol/array.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_LEAST_BYTES ((size_t)64 << 10)
enum { POOL_TOO_LARGE = 4 }; /* times */

struct region *region_make(size_t bytes, bool pooled)
{
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    region->bytes = bytes;
    region->pooled = pooled;
    region->descriptor = memfd_create("fdclient", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (region->descriptor >= 0 && ftruncate(region->descriptor, (off_t)bytes) == 0 &&
        fcntl(region->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        region->memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->descriptor, 0);
        if (region->memory != MAP_FAILED) {
            madvise(region->memory, bytes, MADV_HUGEPAGE); /* where the system offers it */
            return region;
        }
    }
    region->memory = NULL;
    region_free(region);
    return NULL;
}

void region_free(struct region *region)
{
    if (region->memory)
        munmap(region->memory, region->bytes);
    if (region->descriptor >= 0)
        close(region->descriptor);
    free(region);
}

/* Four steps between powers of two. */
size_t region_pool_bytes(size_t bytes)
{
    size_t step = POOL_LEAST_BYTES / 4;
    if (bytes <= POOL_LEAST_BYTES)
        return POOL_LEAST_BYTES;
    while (step * 8 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

struct region *region_around(struct region *first, const void *data, size_t bytes)
{
    const uintptr_t at = (uintptr_t)data;
    for (struct region *region = first; region; region = region->next) {
        const uintptr_t from = (uintptr_t)region->memory;
        if (at >= from && at - from <= region->bytes && bytes <= region->bytes - (at - from))
            return !region->pooled && region->state == REGION_READY &&
                           (at - from) % ARRAY_OFFSET_BYTES == 0
                       ? region
                       : NULL;
    }
    return NULL;
}

struct region *region_idle(struct region *first, size_t bytes)
{
    struct region *best = NULL;
    for (struct region *region = first; region; region = region->next)
        if (region->pooled && !region->busy && region->state == REGION_READY &&
            region->bytes >= bytes && region->bytes / POOL_TOO_LARGE <= region_pool_bytes(bytes) &&
            (!best || region->bytes < best->bytes))
            best = region;
    return best;
}
