#include "bench/floors.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 15 };

static void must(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

#define MUST(call) must(call, #call)

/* Median time of what `begin` enqueues on the stream, by the device's own clock. */
template <typename Begin> static double timed_us(Begin begin)
{
    cudaStream_t stream;
    cudaEvent_t start, stop;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&stop));
    double samples[SAMPLES];
    for (int i = -2; i < SAMPLES; i++) {
        MUST(cudaEventRecord(start, stream));
        begin(stream);
        MUST(cudaEventRecord(stop, stream));
        MUST(cudaEventSynchronize(stop));
        float ms = 0;
        MUST(cudaEventElapsedTime(&ms, start, stop));
        if (i >= 0)
            samples[i] = 1000.0 * ms;
    }
    MUST(cudaEventDestroy(start));
    MUST(cudaEventDestroy(stop));
    MUST(cudaStreamDestroy(stream));
    return floors_median(samples, SAMPLES);
}

/* Not zeros: they can move faster than data. */
static void *device_memory(size_t bytes, int value)
{
    void *memory;
    MUST(cudaMalloc(&memory, bytes));
    MUST(cudaMemset(memory, value, bytes));
    return memory;
}

static void *pinned_memory(size_t bytes)
{
    void *memory;
    MUST(cudaMallocHost(&memory, bytes));
    for (size_t i = 0; i < bytes / sizeof(unsigned); i++)
        ((unsigned *)memory)[i] = (unsigned)i * 2654435761u;
    return memory;
}

extern "C" double floors_device_copy_us(size_t bytes)
{
    void *from = device_memory(bytes, 0x5a), *to = device_memory(bytes, 0xa5);
    const double us = timed_us([=](cudaStream_t stream) {
        MUST(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    });
    MUST(cudaFree(from));
    MUST(cudaFree(to));
    return us;
}

static double pinned_us(size_t bytes, bool up)
{
    void *device = device_memory(bytes, 0x5a), *host = pinned_memory(bytes);
    const double us = timed_us([=](cudaStream_t stream) {
        MUST(cudaMemcpyAsync(up ? device : host, up ? host : device, bytes, cudaMemcpyDefault,
                             stream));
    });
    MUST(cudaFree(device));
    MUST(cudaFreeHost(host));
    return us;
}

extern "C" double floors_pinned_up_us(size_t bytes)
{
    return pinned_us(bytes, true);
}

extern "C" double floors_pinned_down_us(size_t bytes)
{
    return pinned_us(bytes, false);
}

extern "C" double floors_pinned_both_us(size_t bytes)
{
    void *device[2] = {device_memory(bytes, 0x5a), device_memory(bytes, 0xa5)};
    void *host[2] = {pinned_memory(bytes), pinned_memory(bytes)};
    cudaStream_t other;
    cudaEvent_t fork, join;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const double us = timed_us([=](cudaStream_t stream) {
        MUST(cudaEventRecord(fork, stream));
        MUST(cudaStreamWaitEvent(other, fork, 0));
        MUST(cudaMemcpyAsync(device[0], host[0], bytes, cudaMemcpyHostToDevice, stream));
        MUST(cudaMemcpyAsync(host[1], device[1], bytes, cudaMemcpyDeviceToHost, other));
        MUST(cudaEventRecord(join, other));
        MUST(cudaStreamWaitEvent(stream, join, 0));
    });
    for (int i = 0; i < 2; i++) {
        MUST(cudaFree(device[i]));
        MUST(cudaFreeHost(host[i]));
    }
    MUST(cudaEventDestroy(fork));
    MUST(cudaEventDestroy(join));
    MUST(cudaStreamDestroy(other));
    return us;
}

static __global__ void nothing()
{
}

extern "C" double floors_launch_us(void)
{
    double samples[SAMPLES];
    for (int i = -2; i < SAMPLES; i++) {
        const uint64_t start = floors_now_ns();
        nothing<<<1, 32>>>();
        MUST(cudaDeviceSynchronize());
        if (i >= 0)
            samples[i] = (double)(floors_now_ns() - start) / 1000;
    }
    return floors_median(samples, SAMPLES);
}
