/* Functions of CUDA's driver, which the runtime finds: nothing is linked against it. */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

/* As it is since that version of CUDA; NULL: this driver has it not. */
static inline void *driver_find(const char *name, unsigned version)
{
    enum cudaDriverEntryPointQueryResult result;
    void *found = NULL;
#if CUDART_VERSION >= 12050
    if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) !=
        cudaSuccess)
        found = NULL;
#else
    (void)version;
    if (cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result) != cudaSuccess)
        found = NULL;
#endif
    return found;
}
