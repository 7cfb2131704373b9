/* An emulated driver whose allocations are memfds: a process that is given the descriptor maps the
 * same memory. Memory holds anything at first, and what was unmapped cannot be touched. */
#include "cuda.h"
#include "cuda_runtime_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GRAIN_BYTES = 2 << 20,
    MAPPINGS_MOST = 256,
    /* Of an allocation, at most: to touch all of a mailbox can take a machine that is short of
     * memory longer than a worker may be silent. */
    DIRTY_BYTES = 4 << 20
};

struct driver_counts driver_counts;

static struct {
    char *begin;
    size_t bytes;
} mapped[MAPPINGS_MOST];

static void broken(const char *what)
{
    fprintf(stderr, "the emulated driver: %s\n", what);
    abort();
}

int cuda_on_host_is_mapped(const void *memory, size_t bytes)
{
    for (int i = 0; i < MAPPINGS_MOST; i++)
        if (mapped[i].bytes && (const char *)memory >= mapped[i].begin &&
            (const char *)memory + bytes <= mapped[i].begin + mapped[i].bytes)
            return 1;
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
             attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    return cudaSuccess;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       int option)
{
    (void)properties;
    (void)option;
    *bytes = GRAIN_BYTES;
    return cudaSuccess;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    (void)flags;
    if (bytes == 0 || bytes % GRAIN_BYTES ||
        properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        broken("memory of no whole grains, or that cannot be exported");
    if (driver_counts.has_bytes && driver_counts.bytes + bytes > driver_counts.has_bytes)
        return cudaErrorMemoryAllocation;
    const int memfd = memfd_create("device", MFD_CLOEXEC);
    if (memfd < 0 || ftruncate(memfd, (off_t)bytes) != 0)
        broken("no memfd");
    const size_t dirty = bytes < DIRTY_BYTES ? bytes : DIRTY_BYTES;
    void *memory = mmap(NULL, dirty, PROT_WRITE, MAP_SHARED, memfd, 0);
    if (memory == MAP_FAILED) {
        close(memfd);
        return cudaErrorMemoryAllocation;
    }
    memset(memory, 0xee, dirty);
    munmap(memory, dirty);
    driver_counts.handles++;
    *handle = (CUmemGenericAllocationHandle)memfd;
    return cudaSuccess;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    driver_counts.handles--;
    close((int)handle);
    return cudaSuccess;
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    (void)alignment;
    (void)wanted;
    (void)flags;
    void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    driver_counts.reservations++;
    *at = (CUdeviceptr)(uintptr_t)memory;
    return cudaSuccess;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    if (cuda_on_host_is_mapped((void *)(uintptr_t)at, 1))
        broken("addresses are given back that memory is mapped at");
    driver_counts.reservations--;
    munmap((void *)(uintptr_t)at, bytes);
    return cudaSuccess;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    (void)flags;
    char *const begin = (char *)(uintptr_t)at;
    int i = 0;
    while (i < MAPPINGS_MOST && mapped[i].bytes)
        i++;
    if (i == MAPPINGS_MOST)
        return cudaErrorMemoryAllocation;
    if (mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle,
             (off_t)offset) != begin)
        broken("mmap");
    mapped[i].begin = begin;
    mapped[i].bytes = bytes;
    driver_counts.mappings++;
    driver_counts.bytes += bytes;
    return cudaSuccess;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    for (int i = 0; i < MAPPINGS_MOST; i++)
        if (mapped[i].begin == (char *)(uintptr_t)at && mapped[i].bytes == bytes) {
            mmap(mapped[i].begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            mapped[i].bytes = 0;
            driver_counts.mappings--;
            driver_counts.bytes -= bytes;
            return cudaSuccess;
        }
    return cudaErrorInvalidValue;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        !cuda_on_host_is_mapped((void *)(uintptr_t)at, bytes))
        broken("access to what is not mapped, or to be read alone");
    return cudaSuccess;
}

CUresult cuMemExportToShareableHandle(void *descriptor, CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags)
{
    (void)type;
    (void)flags;
    *(int *)descriptor = dup((int)handle);
    return *(int *)descriptor < 0 ? cudaErrorMemoryAllocation : cudaSuccess;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *descriptor,
                                        int type)
{
    const int own = dup((int)(intptr_t)descriptor);
    if (own < 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return cudaErrorInvalidValue;
    driver_counts.handles++;
    *handle = (CUmemGenericAllocationHandle)own;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    (void)version;
    (void)flags;
#define FUNCTION(function)                                                                         \
    {                                                                                              \
#function, (void *)(uintptr_t)function                                                     \
    }
    static const struct {
        const char *name;
        void *function;
    } functions[] = {FUNCTION(cuDeviceGetAttribute),
                     FUNCTION(cuMemGetAllocationGranularity),
                     FUNCTION(cuMemCreate),
                     FUNCTION(cuMemRelease),
                     FUNCTION(cuMemAddressReserve),
                     FUNCTION(cuMemAddressFree),
                     FUNCTION(cuMemMap),
                     FUNCTION(cuMemUnmap),
                     FUNCTION(cuMemSetAccess),
                     FUNCTION(cuMemExportToShareableHandle),
                     FUNCTION(cuMemImportFromShareableHandle)};
#undef FUNCTION
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(name, functions[i].name) == 0)
            *function = functions[i].function;
    *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
