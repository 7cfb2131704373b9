#include "gpu/cuda/nccl_library.h"

#include "base/log.h"

#include <dlfcn.h>
#include <string.h>

bool nccl_library_load(const char *file, struct nccl_library *library)
{
#define NAMED(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct nccl_library, name)                                                 \
    }
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {NAMED(ncclGetUniqueId),
                     NAMED(ncclCommInitRankConfig),
                     NAMED(ncclCommGetAsyncError),
                     NAMED(ncclCommAbort),
                     NAMED(ncclGroupStart),
                     NAMED(ncclGroupEnd),
                     NAMED(ncclSend),
                     NAMED(ncclRecv),
                     NAMED(ncclGetErrorString)};
    void *found = dlopen(file, RTLD_NOW | RTLD_LOCAL), *function = found;
    for (size_t i = 0; function && i < sizeof functions / sizeof functions[0]; i++) {
        function = dlsym(found, functions[i].name);
        memcpy((char *)library + functions[i].at, &function, sizeof function);
    }
    if (!function)
        log_warning("NCCL cannot be used: %s", dlerror());
    return function != NULL;
}
