#include "tests/lib/compile_stencil.h"

#include "gpu/backend.h"
#include "gpu/compile/nvrtc.h"
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/stencil_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum compile_result compile_stencil(const struct plan *plan, uint32_t architecture, char *why,
                                    size_t room)
{
    static char text[KERNEL_SOURCE_BYTES];
    static uint32_t slot, version;
    const uint64_t points = plan->points * plan->batch;
    struct kernel_key key;
    size_t bytes;
    if (plan->engine != PLAN_STENCIL || points <= KERNEL_LEAST_POINTS ||
        !own_kernel_key(&key, stencil_table_of(plan->table), plan->dtype) || kernel_is_common(&key))
        return COMPILE_NOT_NEEDED;
    if (compiled_find(&key, points))
        return COMPILED;
    version = version ? version : nvrtc_open(why, room);
    void *code = version && kernel_source(&key, KERNEL_ASKED, text, sizeof text)
                     ? nvrtc_compile(text, architecture, &bytes, why, room)
                     : NULL;
    if (!code)
        return COMPILE_FAILED;
    struct kernel_image *image = calloc(1, sizeof *image + bytes);
    if (!image)
        abort();
    image->key = key;
    memcpy(image->code, code, bytes);
    free(code);
    compiled_take(slot++ % DEVICE_KERNELS, (uint8_t *)image, sizeof *image + bytes);
    compiled_wait();
    snprintf(why, room, "its kernel was dropped");
    return compiled_find(&key, points) ? COMPILED : COMPILE_FAILED;
}
