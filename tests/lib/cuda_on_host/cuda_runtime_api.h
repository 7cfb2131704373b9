/* The part of CUDA with which gpu/cuda/ compiles as C++ and runs on the host, one block after
 * another, with a fiber for each thread. Without a GPU it checks the bits, the indices (with
 * sanitizers every access), the alignment of wide loads, the limits of grids, barriers that not all
 * threads reach, and reads of uninitialised shared memory. It does not detect races between
 * barriers. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef void *cudaStream_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorStubLibrary = 34,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorSystemNotReady = 802,
    cudaErrorUnknown = 999,
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4 /* by the addresses */
};

#ifdef __cplusplus
extern "C"
#endif
    uint64_t
    cuda_on_host_launches(void); /* of kernels, so far */

/* Functions that only gpu/cuda/backend.c uses: streams.c. */
#ifndef __cplusplus
#define CUDART_CB
typedef void *cudaEvent_t;
typedef void *cudaGraph_t;
typedef void *cudaGraphExec_t;
typedef struct library *cudaLibrary_t;
typedef struct kernel *cudaKernel_t;
typedef void (*cudaHostFn_t)(void *argument);
struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    int multiProcessorCount, major, minor;
};
enum {
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
    cudaStreamCaptureModeRelaxed = 2,
    cudaHostAllocDefault = 0,
    cudaHostRegisterDefault = 0,
    cudaHostRegisterMapped = 2,
    cudaHostRegisterReadOnly = 8,
    cudaDevAttrCanUseHostPointerForRegisteredMem = 91
};
cudaError_t cudaGetDevice(int *index);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int index);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *argument);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, void *jit,
                                void **jit_values, unsigned jit_count, void *options, void **values,
                                unsigned count);
cudaError_t cudaLibraryUnload(cudaLibrary_t library);
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name);
cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value);

/* driver.c */
#define CUDART_VERSION 13000
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess,
    cudaDriverEntryPointSymbolNotFound
};
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result);
#endif

#ifdef __cplusplus
#include "cuda_on_host.h"
#endif
