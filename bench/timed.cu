#include "bench/timed.h"
#include "bench/floors.h"

#include <cxxabi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

enum { SAMPLES = 9, SAMPLES_LONG = 3, TIMES_MOST = 512 };

static const double SAMPLE_US = 2000; /* short work is repeated until a sample takes this long */
static const double LONG_US = 50000;  /* longer work is sampled less often */

void timed_must(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

#define MUST(call) timed_must(call, #call)

/* "rows<float, 4, 4>" of "void rows<float, 4, 4>(…)". */
static void set_name(char *name, size_t size, const char *mangled)
{
    char *demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr);
    const char *text = demangled ? demangled : mangled;
    if (strncmp(text, "void ", 5) == 0)
        text += 5;
    snprintf(name, size, "%.*s", (int)strcspn(text, "("), text);
    free(demangled);
}

static void look_at(const cudaKernelNodeParams &node, struct timing_kernel *kernel)
{
    int device, resident = 0;
    const int threads = (int)(node.blockDim.x * node.blockDim.y * node.blockDim.z);
    const char *mangled = "";
    cudaFuncAttributes attributes;
    cudaDeviceProp properties;
    MUST(cudaGetDevice(&device));
    MUST(cudaGetDeviceProperties(&properties, device));
    MUST(cudaFuncGetAttributes(&attributes, node.func));
    MUST(cudaFuncGetName(&mangled, node.func));
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, node.func, threads,
                                                       node.sharedMemBytes));
    set_name(kernel->name, sizeof kernel->name, mangled);
    kernel->blocks = (int)(node.gridDim.x * node.gridDim.y * node.gridDim.z);
    kernel->threads = threads;
    kernel->registers = attributes.numRegs;
    kernel->shared_bytes = (int)(node.sharedMemBytes + attributes.sharedSizeBytes);
    kernel->occupancy = (double)resident * threads / properties.maxThreadsPerMultiProcessor;
}

/* The kernel with the most threads; the boundary's kernel only if there is no other. */
static void look_at_kernels(cudaGraph_t graph, struct timing_kernel *kernel)
{
    size_t count = 0;
    double most = 0;
    int launches = 0;
    MUST(cudaGraphGetNodes(graph, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    MUST(cudaGraphGetNodes(graph, nodes.data(), &count));
    for (cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type;
        cudaKernelNodeParams params;
        const char *mangled = "";
        MUST(cudaGraphNodeGetType(node, &type));
        if (type != cudaGraphNodeTypeKernel)
            continue;
        launches++;
        if (cudaGraphKernelNodeGetParams(node, &params) == cudaErrorInvalidDeviceFunction) {
            cudaGetLastError(); /* a compiled one, which the runtime does not describe */
            *kernel = {};
            snprintf(kernel->name, sizeof kernel->name, "compiled");
            most = INFINITY;
            continue;
        }
        MUST(cudaFuncGetName(&mangled, params.func));
        double threads = 1.0 * params.gridDim.x * params.gridDim.y * params.gridDim.z *
                         params.blockDim.x * params.blockDim.y * params.blockDim.z;
        if (strstr(mangled, "boundary"))
            threads = 1;
        if (threads > most) {
            most = threads;
            look_at(params, kernel);
        }
    }
    kernel->launches = launches;
}

struct work {
    timed_enqueue *enqueue;
    const void *what;
    int times;             /* that it is enqueued in one sample */
    cudaGraphExec_t graph; /* of all of them; NULL where they are launched one by one */
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

static void capture(struct work *work, struct timing_kernel *kernel)
{
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(work->stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < work->times; i++)
        MUST(work->enqueue(work->what, work->stream));
    MUST(cudaStreamEndCapture(work->stream, &graph));
    if (work->graph)
        MUST(cudaGraphExecDestroy(work->graph));
    else
        look_at_kernels(graph, kernel);
    MUST(cudaGraphInstantiate(&work->graph, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphUpload(work->graph, work->stream));
}

static double sample_us(const struct work *work)
{
    float ms = 0;
    MUST(cudaEventRecord(work->begin, work->stream));
    if (work->graph)
        MUST(cudaGraphLaunch(work->graph, work->stream));
    else
        for (int i = 0; i < work->times; i++)
            MUST(work->enqueue(work->what, work->stream));
    MUST(cudaEventRecord(work->end, work->stream));
    MUST(cudaEventSynchronize(work->end));
    MUST(cudaEventElapsedTime(&ms, work->begin, work->end));
    return 1000.0 * ms / work->times;
}

struct timing_kernel timed_kernel(timed_enqueue *enqueue, const void *what)
{
    struct timing_kernel kernel = {};
    struct work work = {enqueue, what, 1, nullptr, nullptr, nullptr, nullptr};
    MUST(cudaStreamCreateWithFlags(&work.stream, cudaStreamNonBlocking));
    capture(&work, &kernel);
    MUST(cudaGraphExecDestroy(work.graph));
    MUST(cudaStreamDestroy(work.stream));
    return kernel;
}

struct timing timed(enum timed_way way, timed_enqueue *enqueue, const void *what)
{
    struct timing timing = {};
    struct work work = {enqueue, what, 1, nullptr, nullptr, nullptr, nullptr};
    double samples[SAMPLES];
    int count = 0;
    MUST(cudaStreamCreateWithFlags(&work.stream, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&work.begin));
    MUST(cudaEventCreate(&work.end));
    if (way == TIMED_GRAPH)
        capture(&work, &timing.kernel);
    sample_us(&work); /* warm */
    const double once_us = sample_us(&work);
    if (once_us > SAMPLE_US) {
        samples[count++] = once_us;
    } else {
        work.times = (int)fmin(TIMES_MOST, ceil(SAMPLE_US / once_us));
        if (way == TIMED_GRAPH)
            capture(&work, nullptr);
        sample_us(&work);
    }
    while (count < (once_us > LONG_US ? SAMPLES_LONG : SAMPLES))
        samples[count++] = sample_us(&work);
    timing.us = floors_median(samples, count); /* and sorts them */
    timing.spread = (samples[count - 1] - samples[0]) / timing.us;
    if (work.graph)
        MUST(cudaGraphExecDestroy(work.graph));
    MUST(cudaEventDestroy(work.begin));
    MUST(cudaEventDestroy(work.end));
    MUST(cudaStreamDestroy(work.stream));
    return timing;
}
