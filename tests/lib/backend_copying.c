/* The host backend without computation in clients' memory: arrays are copied in and out, as on a
 * GPU. For tests of the worker's copies. */
#include "gpu/backend.h"

const struct backend *backend_copying(void); /* backend_host() to the main.c of that test */

static bool open_copying(int index, void *arena, size_t arena_bytes, int wake,
                         struct device_info *info, struct failure *failure)
{
    const bool ok = backend_host()->open(index, arena, arena_bytes, wake, info, failure);
    info->direct = 0;
    return ok;
}

const struct backend *backend_copying(void)
{
    static struct backend backend;
    backend = *backend_host();
    backend.open = open_copying;
    return &backend;
}
