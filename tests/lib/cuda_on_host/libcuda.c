/* The emulated driver as a client's process loads it: libcuda.so.1, with one GPU, whose memory
 * other processes export (driver.c). For tests of client/python/fdclient.py without a GPU. */
#include "cuda.h"

#include <string.h>

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

CUresult cuDeviceGetUuid_v2(char uuid[16], CUdevice device)
{
    (void)device;
    memset(uuid, 0, 16); /* the worker's, too */
    return 0;
}

CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device)
{
    (void)device;
    *context = &driver_counts;
    return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    return 0;
}

CUresult cuCtxPushCurrent_v2(void *context)
{
    return context == &driver_counts ? 0 : 201; /* an invalid context */
}

CUresult cuCtxPopCurrent_v2(void **context)
{
    *context = &driver_counts;
    return 0;
}

CUresult cuCtxSynchronize(void)
{
    return 0;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

/* Of this process's mappings. */
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *all_bytes)
{
    *all_bytes = (size_t)1 << 40;
    *free_bytes = *all_bytes - driver_counts.bytes;
    return 0;
}
