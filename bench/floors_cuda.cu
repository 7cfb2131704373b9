#include "bench/floors.h"
#include "bench/timed.h"

#include <cuda_runtime.h>
#include <math.h>

enum { SAMPLES = 15 };

#define MUST(call) timed_must(call, #call)

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

static __global__ void scramble(unsigned *memory, size_t words)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        memory[i] = (unsigned)i * 2654435761u ^ (unsigned)(i >> 7);
}

/* Not zeros, which can move faster than data. */
static void *device_memory(size_t bytes)
{
    void *memory;
    MUST(cudaMalloc(&memory, bytes));
    scramble<<<1024, 256>>>((unsigned *)memory, bytes / sizeof(unsigned));
    MUST(cudaDeviceSynchronize());
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

struct device_copy {
    void *to;
    const void *from;
    size_t bytes;
};

static cudaError_t enqueue_copy(const void *what, cudaStream_t stream)
{
    const device_copy *copy = (const device_copy *)what;
    return cudaMemcpyAsync(copy->to, copy->from, copy->bytes, cudaMemcpyDeviceToDevice, stream);
}

/* A kernel of our own: 64 bytes a thread, four loads in flight. */
static __global__ void copy_kernel(uint4 *__restrict__ to, const uint4 *__restrict__ from,
                                   size_t packs)
{
    const size_t first = (size_t)blockIdx.x * 4 * blockDim.x + threadIdx.x;
    uint4 own[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (first + i * blockDim.x < packs)
            own[i] = __ldcs(from + first + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (first + i * blockDim.x < packs)
            __stcs(to + first + i * blockDim.x, own[i]);
}

static cudaError_t enqueue_copy_kernel(const void *what, cudaStream_t stream)
{
    const device_copy *copy = (const device_copy *)what;
    const size_t packs = copy->bytes / sizeof(uint4), threads = 256;
    const unsigned blocks = (unsigned)((packs + 4 * threads - 1) / (4 * threads));
    copy_kernel<<<blocks, threads, 0, stream>>>((uint4 *)copy->to, (const uint4 *)copy->from,
                                                packs);
    return cudaGetLastError();
}

/* The fastest of three: CUDA's copy, by itself and in a graph, and a kernel. */
extern "C" double floors_device_copy_us(size_t bytes)
{
    void *from = device_memory(bytes), *to = device_memory(bytes);
    const device_copy copy = {to, from, bytes};
    double us = timed(TIMED_GRAPH, enqueue_copy, &copy).us;
    us = fmin(us, timed(TIMED_LAUNCHES, enqueue_copy, &copy).us);
    us = fmin(us, timed(TIMED_GRAPH, enqueue_copy_kernel, &copy).us);
    MUST(cudaFree(from));
    MUST(cudaFree(to));
    return us;
}

static double pinned_us(size_t bytes, bool up)
{
    void *device = device_memory(bytes), *host = pinned_memory(bytes);
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
    void *device[2] = {device_memory(bytes), device_memory(bytes)};
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
