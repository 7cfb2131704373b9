#include "gpu/cuda/export.h"

#include "gpu/cuda/driver.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/memory.h"

#include <cuda.h>
#include <string.h>
#include <unistd.h>

/* X(member, name, version of CUDA that has it) */
#define DRIVER_LIST(X)                                                                             \
    X(attribute, cuDeviceGetAttribute, 2000)                                                       \
    X(granularity, cuMemGetAllocationGranularity, 10020)                                           \
    X(create, cuMemCreate, 10020)                                                                  \
    X(release, cuMemRelease, 10020)                                                                \
    X(reserve, cuMemAddressReserve, 10020)                                                         \
    X(leave, cuMemAddressFree, 10020)                                                              \
    X(map, cuMemMap, 10020)                                                                        \
    X(unmap, cuMemUnmap, 10020)                                                                    \
    X(set_access, cuMemSetAccess, 10020)                                                           \
    X(share, cuMemExportToShareableHandle, 10020)                                                  \
    X(import, cuMemImportFromShareableHandle, 10020)

static struct {
#define MEMBER(member, name, version) __typeof__(name) *member;
    DRIVER_LIST(MEMBER)
#undef MEMBER
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
    size_t grain;
} driver;

static bool find_driver(void)
{
    bool all = true;
    void *found;
#define FIND(member, name, version)                                                                \
    found = driver_find(#name, version);                                                           \
    memcpy(&driver.member, &found, sizeof found);                                                  \
    all = all && found;
    DRIVER_LIST(FIND)
#undef FIND
    return all;
}

/* The driver's errors have the runtime's numbers. */
static bool succeeds(CUresult result, const char *what)
{
    return fault_check((cudaError_t)result, what);
}

/* Where descriptors are not passed on (by some virtual machines), that shows only here. */
static bool can_share(void)
{
    CUmemGenericAllocationHandle handle;
    int descriptor = -1;
    if (driver.create(&handle, driver.grain, &driver.properties, 0) != CUDA_SUCCESS)
        return false;
    const bool can = driver.share(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  0) == CUDA_SUCCESS;
    if (can)
        close(descriptor);
    driver.release(handle);
    return can;
}

uint64_t export_open(int device)
{
    int memory = 0, descriptors = 0;
    driver.grain = 0;
    if (!find_driver() ||
        !succeeds(driver.attribute(&memory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                   device),
                  "cuDeviceGetAttribute") ||
        !succeeds(driver.attribute(&descriptors,
                                   CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                   device),
                  "cuDeviceGetAttribute") ||
        !memory || !descriptors)
        return 0;
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    driver.properties =
        (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                              .location = location};
    driver.access =
        (CUmemAccessDesc){.location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!succeeds(
            driver.granularity(&driver.grain, &driver.properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            "cuMemGetAllocationGranularity") ||
        !can_share())
        driver.grain = 0;
    return driver.grain;
}

uint64_t export_rounded(uint64_t bytes)
{
    return (bytes + driver.grain - 1) / driver.grain * driver.grain;
}

static void unmap(CUdeviceptr at, uint64_t bytes)
{
    fault_never((cudaError_t)driver.unmap(at, bytes), "cuMemUnmap");
    memory_note_freed();
}

static void leave(CUdeviceptr at, uint64_t bytes)
{
    fault_never((cudaError_t)driver.leave(at, bytes), "cuMemAddressFree");
}

/* 0: that could not be. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle, uint64_t bytes)
{
    CUdeviceptr at = 0;
    if (!succeeds(driver.reserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve"))
        return 0;
    if (succeeds(driver.map(at, bytes, 0, handle, 0), "cuMemMap")) {
        if (succeeds(driver.set_access(at, bytes, &driver.access, 1), "cuMemSetAccess"))
            return at;
        unmap(at, bytes);
    }
    leave(at, bytes);
    return 0;
}

void export_unimport(void *memory, uint64_t bytes)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;
    unmap(at, bytes);
    leave(at, bytes);
}

void *export_allocate(uint64_t bytes, int *descriptor)
{
    CUmemGenericAllocationHandle handle;
    *descriptor = -1;
    bytes = export_rounded(bytes);
    while (!succeeds(driver.create(&handle, bytes, &driver.properties, 0), "cuMemCreate"))
        if (!memory_drop())
            return NULL;
    CUdeviceptr at = map(handle, bytes);
    if (at &&
        !succeeds(driver.share(descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                  "cuMemExportToShareableHandle")) {
        export_unimport((void *)(uintptr_t)at, bytes);
        at = 0;
    }
    /* The mapping and the descriptor keep the memory. */
    fault_never((cudaError_t)driver.release(handle), "cuMemRelease");
    return (void *)(uintptr_t)at;
}

void export_release(void *memory, uint64_t bytes)
{
    export_unimport(memory, export_rounded(bytes));
}

void *export_import(int descriptor, uint64_t bytes)
{
    CUmemGenericAllocationHandle handle;
    if (!driver.grain || !succeeds(driver.import(&handle, (void *)(intptr_t)descriptor,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                                   "cuMemImportFromShareableHandle"))
        return NULL;
    const CUdeviceptr at = map(handle, bytes);
    fault_never((cudaError_t)driver.release(handle), "cuMemRelease");
    return (void *)(uintptr_t)at;
}
