/* An emulated device whose streams are threads, for tests of gpu/cuda/backend.c without a GPU. A
 * stream executes its work in order, sometimes with a delay; streams are concurrent except for
 * events. Device memory is the host's, and kernels are the host backend's. The emulation aborts at
 * a copy of a client's memory that is not pinned or that spans two pinned pieces, a kernel whose
 * slot does not hold its plan, a copy by a kernel that the device could not address, and a graph
 * that contains more than kernels and their copies or that is destroyed in flight. */
#include "base/thread_pool.h"
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/copy.h"
#include "gpu/cuda/passes.h"
#include "gpu/host/pass.h"
#include "tests/lib/cuda_on_host/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS_MOST = 64, LATE_EVERY = 8, LATE_US = 200, ALIGNMENT = 256, PIECES_MOST = 4096 };
static const size_t DEVICE_BYTES = (size_t)1 << 32;

enum kind { KIND_COPY, KIND_CLEAR, KIND_LAUNCH, KIND_RECORD, KIND_WAIT, KIND_CALL, KIND_END };

struct event {
    uint64_t recorded, done; /* how often */
    bool is_timed;
    struct timespec time; /* of the latest done */
};

struct order {
    struct order *next;
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    struct launch launch;
    int slot; /* that has its plan */
    struct event *event;
    uint64_t count; /* of the event's recordings */
    cudaHostFn_t call;
};

/* The work captured on a stream, with its arguments by value. */
struct captured {
    struct captured *next;
    struct order order;
    struct plan plan;
    struct operands operands;
};

struct graph {
    struct captured *first, **end;
    struct event launched;
};

struct stream {
    pthread_t thread;
    struct order *first, **end; /* the one at work is still among them */
    pthread_cond_t filled;      /* there is a first one */
    unsigned seed;
    struct graph *captures; /* NULL: it does not */
};

static struct {
    pthread_mutex_t mutex;   /* guards streams and events */
    pthread_cond_t changed;  /* an event, or what a stream has */
    pthread_mutex_t kernels; /* pass_launch() has one caller at a time */
    struct stream *streams[STREAMS_MOST];
    int count;
    struct {
        const char *memory;
        size_t bytes;
        bool is_mapped;
    } pinned[PIECES_MOST];
} device = {.mutex = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER,
            .kernels = PTHREAD_MUTEX_INITIALIZER};

/* Constant memory. */
static struct passes_constants table[PASSES_SLOTS];

/* The backend has used the device as no device may be used. */
static _Noreturn void broken(const char *rule)
{
    fprintf(stderr, "streams: %s\n", rule);
    abort();
}

/* Do some of these planes depend on that one? */
static bool is_read(const struct plan *plan, const struct own_planes *own, int64_t plane)
{
    const struct plan_axis *axis = &plan->axis[AXIS_Z];
    const int64_t passes = (int64_t)plan->passes, reach = passes * plan->radius,
                  closure = passes * axis->row_points, begin = (int64_t)own->begin,
                  end = (int64_t)own->end;
    const bool wraps = axis->side[SIDE_LOW].map == SIDE_MAP_PERIODIC;
    bool is = (begin < axis->side[SIDE_LOW].rows && plane < closure) ||
              (end > axis->n - axis->side[SIDE_HIGH].rows && plane >= axis->n - closure);
    for (int64_t at = plane - axis->n; at <= plane + axis->n; at += axis->n)
        is = is || (at >= begin - reach && at < end + reach && (at == plane || wraps));
    return is;
}

/* Own planes: all of the job beside its arrays, from the planes that they may depend on, and these
 * planes from there. Others may be copied to meanwhile. */
static void launch_own(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    const uint64_t planes = (uint64_t)plan->axis[AXIS_Z].n, bytes = plan_array_bytes(plan),
                   plane = bytes / planes;
    const uint64_t begin = launch->own.begin * plane, end = launch->own.end * plane;
    char *memory = malloc(3 * bytes);
    if (!memory)
        broken("no memory for own planes");
    memset(memory, 0x7f, bytes);
    for (uint64_t p = 0; p < planes; p++)
        if (is_read(plan, &launch->own, (int64_t)p))
            memcpy(memory + p * plane, (const char *)launch->in[0] + p * plane, plane);
    struct launch whole = *launch;
    whole.own = (struct own_planes){0};
    whole.in[0] = memory;
    whole.even[0] = memory + bytes;
    whole.odd = memory + 2 * bytes;
    pass_launch(kernels, &whole, pass_stream_bytes());
    memcpy((char *)launch->even[0] + begin, (const char *)launch_result(&whole, 0) + begin,
           end - begin);
    free(memory);
}

static void launch(const struct launch *launch, int slot)
{
    const struct kernels *kernels[PASS_KERNELS];
    struct plan plan = *launch->plan;
    plan.table = table[slot].plan.table; /* a graph has a copy, whose rows are compared below */
    if (memcmp(&table[slot].plan, &plan, sizeof plan) != 0)
        broken("a kernel with another plan's weights");
    const struct plan_table *rows = launch->plan->table;
    if (rows && memcmp(table[slot].rows, plan_table_rows(rows), rows->bytes) != 0)
        broken("a kernel with another plan's table");
    pass_kernels(kernels);
    pthread_mutex_lock(&device.kernels);
    if (launch->own.end)
        launch_own(kernels[0], launch);
    else
        pass_launch(kernels[0], launch, pass_stream_bytes());
    pthread_mutex_unlock(&device.kernels);
}

static void record(struct event *event, uint64_t count)
{
    pthread_mutex_lock(&device.mutex);
    if (count > event->done)
        event->done = count;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    pthread_cond_broadcast(&device.changed);
    pthread_mutex_unlock(&device.mutex);
}

static void wait_for(const struct event *event, uint64_t count)
{
    pthread_mutex_lock(&device.mutex);
    while (event->done < count)
        pthread_cond_wait(&device.changed, &device.mutex);
    pthread_mutex_unlock(&device.mutex);
}

static void carry_out(const struct order *order)
{
    switch (order->kind) {
    case KIND_COPY:
        memcpy(order->to, order->from, order->bytes);
        break;
    case KIND_CLEAR:
        memset(order->to, 0, order->bytes);
        break;
    case KIND_LAUNCH:
        launch(&order->launch, order->slot);
        break;
    case KIND_RECORD:
        record(order->event, order->count);
        break;
    case KIND_WAIT:
        wait_for(order->event, order->count);
        break;
    case KIND_CALL:
        order->call(order->to);
        break;
    case KIND_END:
        break;
    }
}

static void *run(void *argument)
{
    struct stream *stream = argument;
    enum kind kind;
    do {
        pthread_mutex_lock(&device.mutex);
        while (!stream->first)
            pthread_cond_wait(&stream->filled, &device.mutex);
        struct order *order = stream->first;
        pthread_mutex_unlock(&device.mutex);
        if (rand_r(&stream->seed) % LATE_EVERY == 0)
            usleep(LATE_US);
        carry_out(order);
        kind = order->kind;
        pthread_mutex_lock(&device.mutex);
        stream->first = order->next;
        if (!stream->first)
            stream->end = &stream->first;
        pthread_cond_broadcast(&device.changed);
        pthread_mutex_unlock(&device.mutex);
        free(order);
    } while (kind != KIND_END);
    free(thread_pool_scratch(0)); /* its kernels' */
    return NULL;
}

static void add_captured(struct graph *graph, const struct order *order)
{
    struct captured *captured = calloc(1, sizeof *captured);
    if (!captured)
        broken("no memory");
    if (order->kind != KIND_LAUNCH && order->kind != KIND_COPY)
        broken("a graph of more than kernels and their copies");
    captured->order = *order;
    if (order->kind == KIND_LAUNCH) {
        captured->plan = *order->launch.plan; /* it may go before the graph does */
        if (captured->plan.table) {
            captured->plan.table = plan_table_new(captured->plan.table->bytes);
            if (!captured->plan.table)
                broken("no memory");
            memcpy(plan_table_rows(captured->plan.table),
                   plan_table_rows(order->launch.plan->table), captured->plan.table->bytes);
        }
        captured->order.launch.plan = &captured->plan;
        if (order->launch.operands) {
            captured->operands = *order->launch.operands;
            captured->order.launch.operands = &captured->operands;
        }
    }
    *graph->end = captured;
    graph->end = &captured->next;
}

static cudaError_t put(cudaStream_t stream_, const struct order *given)
{
    struct stream *stream = stream_;
    if (stream->captures) {
        add_captured(stream->captures, given);
        return cudaSuccess;
    }
    struct order *order = malloc(sizeof *order);
    if (!order)
        broken("no memory");
    *order = *given;
    order->next = NULL;
    pthread_mutex_lock(&device.mutex);
    if (order->kind == KIND_RECORD)
        order->count = ++order->event->recorded;
    if (order->kind == KIND_WAIT)
        order->count = order->event->recorded;
    *stream->end = order;
    stream->end = &order->next;
    pthread_cond_signal(&stream->filled);
    pthread_mutex_unlock(&device.mutex);
    return cudaSuccess;
}

/* --- streams --- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream_, unsigned flags)
{
    (void)flags;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream || device.count == STREAMS_MOST)
        broken("too many streams");
    stream->end = &stream->first;
    pthread_cond_init(&stream->filled, NULL);
    stream->seed = (unsigned)device.count;
    pthread_mutex_lock(&device.mutex);
    device.streams[device.count++] = stream;
    pthread_mutex_unlock(&device.mutex);
    *stream_ = stream;
    return pthread_create(&stream->thread, NULL, run, stream) == 0 ? cudaSuccess : cudaErrorUnknown;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    put(stream, &(struct order){.kind = KIND_END});
    pthread_join(((struct stream *)stream)->thread, NULL);
    pthread_cond_destroy(&((struct stream *)stream)->filled);
    pthread_mutex_lock(&device.mutex);
    for (int i = 0; i < device.count; i++)
        if (device.streams[i] == stream) {
            device.streams[i] = device.streams[--device.count];
            break;
        }
    pthread_mutex_unlock(&device.mutex);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    pthread_mutex_lock(&device.mutex);
    for (int i = 0; i < device.count; i++)
        while (device.streams[i]->first)
            pthread_cond_wait(&device.changed, &device.mutex);
    pthread_mutex_unlock(&device.mutex);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream_)
{
    const struct stream *stream = stream_;
    pthread_mutex_lock(&device.mutex);
    while (stream->first)
        pthread_cond_wait(&device.changed, &device.mutex);
    pthread_mutex_unlock(&device.mutex);
    return cudaSuccess;
}

/* The pinned piece that contains the whole range; −1: none. Under the mutex. */
static int find_piece(const char *memory, size_t bytes)
{
    for (int i = 0; i < PIECES_MOST; i++)
        if (device.pinned[i].bytes && memory >= device.pinned[i].memory &&
            memory + bytes <= device.pinned[i].memory + device.pinned[i].bytes)
            return i;
    return -1;
}

static bool is_pinned(const void *memory, size_t bytes)
{
    pthread_mutex_lock(&device.mutex);
    const bool is = find_piece(memory, bytes) >= 0;
    pthread_mutex_unlock(&device.mutex);
    return is;
}

/* Whether the device can address the range: all of it is pinned, in any number of pieces. */
static bool is_addressable(const void *memory, size_t bytes)
{
    const char *at = memory, *end = at + bytes;
    pthread_mutex_lock(&device.mutex);
    while (at < end) {
        const int i = find_piece(at, 1);
        if (i < 0 || !device.pinned[i].is_mapped)
            break;
        at = device.pinned[i].memory + device.pinned[i].bytes;
    }
    pthread_mutex_unlock(&device.mutex);
    return at >= end;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const bool by_address = kind == cudaMemcpyDefault;
    const bool is_inside =
        kind == cudaMemcpyDeviceToDevice ||
        (by_address && (cuda_on_host_is_mapped(to, bytes) || cuda_on_host_is_mapped(from, bytes)));
    const bool has_pinned = (kind != cudaMemcpyHostToDevice && is_pinned(to, bytes)) ||
                            (kind != cudaMemcpyDeviceToHost && is_pinned(from, bytes));
    if (!is_inside && !has_pinned)
        broken("a copy of memory that is not pinned, or not in one piece");
    return put(stream, &(struct order){.kind = KIND_COPY, .to = to, .from = from, .bytes = bytes});
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)value;
    return put(stream, &(struct order){.kind = KIND_CLEAR, .to = memory, .bytes = bytes});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    return put(stream, &(struct order){.kind = KIND_CALL, .call = call, .to = argument});
}

/* --- events --- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_, unsigned flags)
{
    struct event *event = *event_ = calloc(1, sizeof *event);
    if (event)
        event->is_timed = !(flags & cudaEventDisableTiming);
    return event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return put(stream, &(struct order){.kind = KIND_RECORD, .event = event});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    return put(stream, &(struct order){.kind = KIND_WAIT, .event = event});
}

cudaError_t cudaEventQuery(cudaEvent_t event_)
{
    const struct event *event = event_;
    pthread_mutex_lock(&device.mutex);
    const bool is_done = event->done == event->recorded;
    pthread_mutex_unlock(&device.mutex);
    return is_done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin_, cudaEvent_t end_)
{
    const struct event *begin = begin_, *end = end_;
    if (!begin->is_timed || !end->is_timed)
        return cudaErrorInvalidValue;
    *ms = (float)(1e3 * (double)(end->time.tv_sec - begin->time.tv_sec) +
                  1e-6 * (double)(end->time.tv_nsec - begin->time.tv_nsec));
    return cudaSuccess;
}

/* --- graphs --- */

static struct graph *new_graph(void)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        broken("no memory");
    graph->end = &graph->first;
    return graph;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
    (void)mode;
    ((struct stream *)stream)->captures = new_graph();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = ((struct stream *)stream)->captures;
    ((struct stream *)stream)->captures = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    (void)flags;
    *exec = new_graph();
    for (const struct captured *c = ((struct graph *)graph)->first; c; c = c->next)
        add_captured(*exec, &c->order);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct graph *graph = exec;
    for (const struct captured *c = graph->first; c; c = c->next)
        put(stream, &c->order);
    return cudaEventRecord(&graph->launched, stream);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph_)
{
    struct graph *graph = graph_;
    if (cudaEventQuery(&graph->launched) != cudaSuccess)
        broken("a graph that is destroyed while it is under way");
    while (graph->first) {
        struct captured *captured = graph->first;
        graph->first = captured->next;
        plan_release(&captured->plan);
        free(captured);
    }
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaGraphDestroy(exec);
}

/* --- memory, and what the device is --- */

/* Not cleared: the contents are those of the former owner. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = NULL;
    if (bytes <= DEVICE_BYTES)
        *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!*memory)
        return cudaErrorMemoryAllocation;
    memset(*memory, 0xee, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    const cudaError_t error = cudaMalloc(memory, bytes);
    return error == cudaSuccess ? cudaHostRegister(*memory, bytes, flags) : error;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (memory)
        cudaHostUnregister(memory);
    return cudaFree(memory);
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    pthread_mutex_lock(&device.mutex);
    int i = 0;
    while (i < PIECES_MOST && device.pinned[i].bytes)
        i++;
    if (i < PIECES_MOST) {
        device.pinned[i].memory = memory;
        device.pinned[i].bytes = bytes;
        device.pinned[i].is_mapped = flags & cudaHostRegisterMapped;
    }
    pthread_mutex_unlock(&device.mutex);
    return i < PIECES_MOST ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaHostUnregister(void *memory)
{
    pthread_mutex_lock(&device.mutex);
    const int i = find_piece(memory, 1);
    const bool was = i >= 0 && device.pinned[i].memory == (const char *)memory;
    if (was)
        device.pinned[i].bytes = 0;
    pthread_mutex_unlock(&device.mutex);
    return was ? cudaSuccess : cudaErrorInvalidValue;
}

/* Each worker has one, by itself. */
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 4;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
    (void)index;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index)
{
    const char *folder = getenv("CUDA_ON_HOST_FAULTS"); /* a file of its number: it has one */
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", folder ? folder : "", index);
    if (folder && access(path, F_OK) == 0)
        return cudaErrorSystemNotReady;
    *properties = (struct cudaDeviceProp){.name = "threads", .multiProcessorCount = 1, .major = 9};
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaGetDevice(int *index)
{
    *index = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int index)
{
    (void)index;
    *value = attribute == cudaDevAttrCanUseHostPointerForRegisteredMem;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    *free_bytes = *all_bytes = DEVICE_BYTES;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    static char text[32];
    snprintf(text, sizeof text, "error %d", error);
    return text;
}

/* --- compiled kernels: none can be loaded --- */

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event; /* of a kernel that was loaded */
    return cudaErrorUnknown;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, void *jit,
                                void **jit_values, unsigned jit_count, void *options, void **values,
                                unsigned count)
{
    (void)library, (void)code, (void)jit, (void)jit_values;
    (void)jit_count, (void)options, (void)values, (void)count;
    return cudaErrorUnknown;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    (void)library;
    return cudaErrorUnknown;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    (void)kernel, (void)library, (void)name;
    return cudaErrorUnknown;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value)
{
    (void)kernel, (void)attribute, (void)value;
    return cudaErrorUnknown;
}

enum compiled_verdict compiled_check(const struct kernel_key *key, const void *kernel, int units)
{
    (void)key, (void)kernel, (void)units;
    return COMPILED_WRONG;
}

/* --- kernels --- */

cudaError_t passes_load(int slot, const struct passes_constants *constants, cudaStream_t stream)
{
    return put(stream, &(struct order){.kind = KIND_COPY,
                                       .to = &table[slot],
                                       .from = constants,
                                       .bytes = sizeof *constants});
}

/* As temporal_blocking_3d does several passes at once. */
static bool takes_at_once(const struct plan *plan)
{
    bool takes = plan->identity && plan->radius <= 2 && plan->passes * (uint64_t)plan->radius <= 4;
    for (int a = 0; a < AXIS_COUNT; a++) {
        takes = takes && plan->axis[a].active && plan->axis[a].n >= 16;
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct side *side = &plan->axis[a].side[s];
            takes =
                takes && side->datum == SIDE_DATUM_NONE && side->rows <= side->held &&
                (side->held > 0 || side->map == SIDE_MAP_PERIODIC || side->map == SIDE_MAP_NODE);
        }
    }
    return takes;
}

/* Those that the kernels take. */
bool passes_take_own_planes(const struct plan *plan)
{
    return plan->engine == PLAN_TABLE && plan->plain && !plan->impose && !plan->probes &&
           plan->batch == 1 && plan->inputs == 1 && plan->outputs == 1 &&
           plan->axis[AXIS_Z].active && (plan->passes == 1 || takes_at_once(plan));
}

cudaError_t passes_launch(const struct launch *const launches[], unsigned jobs, int slot, int units,
                          cudaStream_t stream)
{
    (void)units;
    if (jobs == 0 || jobs > PASSES_JOBS)
        broken("a launch of no jobs or too many");
    for (unsigned i = 0; i < jobs; i++) {
        if (launches[i]->from != launches[0]->from || launches[i]->to != launches[0]->to)
            broken("a launch of jobs whose lines differ");
        put(stream, &(struct order){.kind = KIND_LAUNCH, .launch = *launches[i], .slot = slot});
    }
    return cudaSuccess;
}

cudaError_t passes_launch_own(const struct launch *launch, bool edges, int slot, int units,
                              cudaStream_t stream)
{
    const struct own_planes *own = &launch->own;
    const uint64_t low = own->begin + own->edge[SIDE_LOW], high = own->end - own->edge[SIDE_HIGH];
    const struct own_planes parts[] = {{own->begin, low, {0}}, {high, own->end, {0}}},
                            others = {low, high, {0}};
    (void)units;
    for (int i = 0; i < (edges ? 2 : 1); i++) {
        struct order order = {.kind = KIND_LAUNCH, .launch = *launch, .slot = slot};
        order.launch.own = edges ? parts[i] : others;
        if (order.launch.own.begin < order.launch.own.end)
            put(stream, &order);
    }
    return cudaSuccess;
}

cudaError_t copy_launch(const struct copies *copies, cudaStream_t stream)
{
    for (uint32_t i = 0; i < copies->count; i++) {
        const struct copy_arrays *copy = &copies->arrays[i];
        if (is_addressable(copy->to, copy->bytes) == is_addressable(copy->from, copy->bytes) ||
            (uintptr_t)copy->to % 16 || (uintptr_t)copy->from % 16)
            broken("a copy that no kernel can do");
        put(stream,
            &(struct order){
                .kind = KIND_COPY, .to = copy->to, .from = copy->from, .bytes = copy->bytes});
    }
    return cudaSuccess;
}
