/* The host backend without computation in clients' memory: arrays are copied in and out, as on a
 * GPU, and compiled kernels are taken, as by one of compute capability 9.0, and told of in the log.
 * For tests of the worker's copies and of what the front has compiled. */
#include "base/log.h"
#include "gpu/backend.h"

#include <stdlib.h>

const struct backend *backend_copying(void); /* backend_host() to the main.c of that test */

static bool open_copying(int index, void *arena, size_t arena_bytes, int wake,
                         struct device_info *info, struct failure *failure)
{
    const bool ok = backend_host()->open(index, arena, arena_bytes, wake, info, failure);
    info->direct = 0;
    info->architecture = 90;
    return ok;
}

static void take_kernel(uint32_t slot, uint8_t *image, uint64_t bytes)
{
    uint32_t sum = 0; /* of all that came */
    for (uint64_t i = 0; i < bytes; i++)
        sum = sum * 31 + image[i];
    log_info("kernel in slot %u: %llu bytes, sum %08x", slot, (unsigned long long)bytes, sum);
    free(image);
}

const struct backend *backend_copying(void)
{
    static struct backend backend;
    backend = *backend_host();
    backend.open = open_copying;
    backend.take_kernel = take_kernel;
    return &backend;
}
