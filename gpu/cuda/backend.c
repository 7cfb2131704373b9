/* A CUDA device. One stream for uploads, one for downloads, several for launches; each is a queue
 * that keeps what is under way on it, in order:
 *
 *   clears:     memset ─ event, which all others wait for
 *   uploads:    copies ─────────┬─ event, which launches of what is not resident wait for
 *   queue i:                    └► weights, passes of a group of launches ─ event ─► reap()
 *   downloads:  copies ───────────────────────────────────────────────────── event ─► reap()
 *
 * A download that is to come after a launch waits for its end on the device.
 *
 * Launches with sources and targets have queues of their own, so that others do not wait for PCIe:
 *
 *   queue j:    weights, copies by a kernel, passes, copies by a kernel ─ event ─► reap()
 *
 * Launches of a chain go on one of the queues i, behind those of it that are under way there, a
 * round of them in a group: as a graph (graphs.h) where it was there before.
 *
 * The copy engine does one copy after another, as they came from all queues: a kernel is not kept
 * waiting by the slabs of large jobs that are in its queue.
 *
 * Launches that were ordered together and are small make a group: they run back to back on one
 * queue and complete at once, for the cost of one; those of one plan share a launch. reap() looks
 * at the events itself; only before the worker sleeps do host functions go behind what is under
 * way, to wake it. */
#include "base/thread.h"
#include "gpu/backend.h"
#include "gpu/cuda/copy.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/graphs.h"
#include "gpu/cuda/group.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/pin.h"
#include "gpu/cuda/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLAIN_QUEUES = 8, /* for launches */
    COPYING_QUEUES =
        4, /* … that copy: some are on their way in while others are on their way out */
    QUEUES = PLAIN_QUEUES + COPYING_QUEUES,
    UPLOADS = QUEUES,
    DOWNLOADS,
    ALL_QUEUES,
    LAUNCH_COPIES_BYTES = 1 << 20, /* longer copies are left to the copy engines */
    SMALL_POINTS = 1 << 18,        /* × passes, of a launch that may be one of a group … */
    GROUP_POINTS = 1 << 21, /* … of so many: the device is done with them in about 10 µs */
    GROUP_MOST = PASSES_JOBS,
    CHAIN_GROUPS = 2, /* of a chain under way: one more may gather meanwhile what comes */
    /* Until a launch of so many, some 80 µs, has ended, what completed before it on its queue can
     * wait: a host function in between would hold the queue up. */
    SHORT_POINTS = 1 << 24,
    COPIED_POINTS = 5, /* a byte over PCIe takes as long as so many */
    KEEP_PART = 8,     /* of the memory may be kept in freed blocks: 1 in 8 */
    /* For the context's own needs (local memory, queues) and what cudaMalloc rounds up. */
    RESERVE_BYTES = 256 << 20
};

/* Of launches: without and with sources or targets. */
enum { PLAIN, COPYING, KINDS };

struct queue {
    cudaStream_t stream;
    struct group *first, **end; /* under way */
    bool armed;                 /* a host function stands behind the last of them */
    uint64_t seen;              /* uploads that it waits for */
    uint64_t seen_clears;
};

static struct {
    struct queue queues[ALL_QUEUES];
    cudaEvent_t uploaded; /* the latest recording of uploads */
    uint64_t uploads;     /* put on the stream */
    uint64_t recorded;    /* … of them before `uploaded` was recorded */
    cudaStream_t clearing;
    cudaEvent_t cleared; /* all clears so far */
    uint64_t clears;
    struct kind {
        uint32_t first, count;     /* its queues */
        uint32_t last;             /* of them, that of the last launch */
        struct operations ordered; /* launches that have not begun */
    } kinds[KINDS];
    struct chain *chains;        /* of which something is ordered or under way */
    struct operations completed; /* not yet reaped */
    void *arena;
    bool addresses; /* the device finds memory that was pinned where the host does */
    int device, units, wake;
} cuda;

static void CUDART_CB wake(void *unused)
{
    (void)unused;
    thread_wake(cuda.wake);
}

/* --- queues --- */

/* The group is under way: all of it has been put on the queue. */
static void queue_add(struct queue *queue, struct group *group)
{
    fault_never(cudaEventRecord(group->end, queue->stream), "cudaEventRecord");
    group->next = NULL;
    *queue->end = group;
    queue->end = &group->next;
    queue->armed = false;
}

/* Have the worker woken when what is on the queue now has completed. */
static void queue_arm(struct queue *queue)
{
    if (!queue->first || queue->armed)
        return;
    fault_never(cudaLaunchHostFunc(queue->stream, wake, NULL), "cudaLaunchHostFunc");
    queue->armed = true;
}

/* One for a launch of the kind: a queue with nothing under way, else the next in turn. */
static struct queue *queue_choose(struct kind *kind)
{
    for (uint32_t i = 1; i <= kind->count; i++) {
        struct queue *queue = &cuda.queues[kind->first + (kind->last + i) % kind->count];
        if (!queue->first) {
            kind->last += i;
            return queue;
        }
    }
    return &cuda.queues[kind->first + ++kind->last % kind->count];
}

/* Make the queue wait for all clears so far: memory is handed out before it is clear. */
static void wait_for_clears(struct queue *queue)
{
    if (queue->seen_clears == cuda.clears)
        return;
    fault_never(cudaStreamWaitEvent(queue->stream, cuda.cleared, 0), "cudaStreamWaitEvent");
    queue->seen_clears = cuda.clears;
}

/* Make the queue wait for all uploads so far. */
static void wait_for_uploads(struct queue *queue)
{
    if (queue->seen == cuda.uploads)
        return;
    if (cuda.recorded != cuda.uploads) {
        fault_never(cudaEventRecord(cuda.uploaded, cuda.queues[UPLOADS].stream), "cudaEventRecord");
        cuda.recorded = cuda.uploads;
    }
    fault_never(cudaStreamWaitEvent(queue->stream, cuda.uploaded, 0), "cudaStreamWaitEvent");
    queue->seen = cuda.uploads;
}

/* --- opening and closing --- */

static bool open_failed(struct failure *failure, const char *what, cudaError_t error)
{
    cudaGetLastError();
    return failure_set(failure, STATUS_INTERNAL, NULL, "%s: %s", what, cudaGetErrorString(error));
}

static bool make_streams(struct failure *failure)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < ALL_QUEUES && error == cudaSuccess; i++) {
        struct queue *queue = &cuda.queues[i];
        queue->end = &queue->first;
        error = cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking);
    }
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&cuda.clearing, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&cuda.uploaded, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&cuda.cleared, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = slots_open();
    if (error == cudaSuccess)
        error = graphs_open();
    return error == cudaSuccess || open_failed(failure, "streams and weights", error);
}

static bool cuda_open(int index, void *arena, size_t arena_bytes, int wake_descriptor,
                      struct device_info *info, struct failure *failure)
{
    struct cudaDeviceProp properties;
    int count = 0, driver = 0, addresses = 0;
    size_t free_bytes = 0, memory_bytes = 0;
    /* Kernels are loaded now, not by the first job that needs each of them. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    /* A queue of the device's for each stream: where two share one, each waits for the other. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return open_failed(failure, "CUDA", error);
    if (index < 0 || index >= count)
        return failure_set(failure, STATUS_INTERNAL, NULL,
                           "there is no CUDA device %d: there are %d", index, count);
    error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, index);
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&addresses, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess)
        return open_failed(failure, "the device does not answer", error);
    if (!make_streams(failure))
        return false;
    error = cudaHostRegister(arena, arena_bytes, cudaHostRegisterDefault);
    if (error != cudaSuccess)
        return open_failed(failure, "the arena cannot be pinned", error);
    cuda.arena = arena;
    error = cudaMemGetInfo(&free_bytes, &memory_bytes);
    if (error != cudaSuccess)
        return open_failed(failure, "cudaMemGetInfo", error);
    cuda.wake = wake_descriptor;
    cuda.device = index;
    cuda.units = properties.multiProcessorCount;
    cuda.addresses = addresses != 0;
    cuda.kinds[PLAIN] = (struct kind){.count = PLAIN_QUEUES};
    cuda.kinds[COPYING] = (struct kind){.first = PLAIN_QUEUES, .count = COPYING_QUEUES};
    for (int kind = 0; kind < KINDS; kind++)
        operations_init(&cuda.kinds[kind].ordered);
    operations_init(&cuda.completed);
    memory_open(memory_bytes / KEEP_PART);
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "cuda");
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, properties.name);
    info->memory_bytes = memory_bytes;
    info->free_bytes = free_bytes > RESERVE_BYTES ? free_bytes - RESERVE_BYTES : 0;
    info->units = (uint32_t)properties.multiProcessorCount;
    info->count = (uint32_t)count;
    info->driver = (uint32_t)driver;
    return true;
}

static void cuda_close(void)
{
    fault_never(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    groups_close();
    graphs_close();
    slots_close();
    memory_close();
    cudaEventDestroy(cuda.uploaded);
    cudaEventDestroy(cuda.cleared);
    cudaStreamDestroy(cuda.clearing);
    for (int i = 0; i < ALL_QUEUES; i++)
        cudaStreamDestroy(cuda.queues[i].stream);
    cudaHostUnregister(cuda.arena);
    memset(&cuda, 0, sizeof cuda);
}

/* --- memory and copies --- */

static enum status cuda_pin(void *memory, size_t bytes, bool writable, bool *addressable)
{
    bool pinned;
    fault_never(cudaSetDevice(cuda.device), "cudaSetDevice"); /* of this thread */
    const enum status status = pin_memory(memory, bytes, writable, &pinned);
    *addressable = pinned && cuda.addresses;
    return status;
}

static void cuda_unpin(void *memory, size_t bytes)
{
    fault_never(cudaSetDevice(cuda.device), "cudaSetDevice"); /* of this thread */
    unpin_memory(memory, bytes);
}

static void *cuda_allocate(uint64_t bytes, uint64_t owner)
{
    bool must_clear;
    void *memory = memory_take(bytes, owner, &must_clear);
    if (memory && must_clear) {
        fault_never(cudaMemsetAsync(memory, 0, memory_rounded(bytes), cuda.clearing),
                    "cudaMemsetAsync");
        fault_never(cudaEventRecord(cuda.cleared, cuda.clearing), "cudaEventRecord");
        cuda.clears++;
    }
    return memory;
}

/* A copy is a group of its own. */
static void begin_copy(struct queue *queue, struct operation *operation, enum cudaMemcpyKind kind)
{
    struct group *group = group_take(true);
    char *to = operation->to;
    const char *from = operation->from, *outside = kind == cudaMemcpyHostToDevice ? from : to;
    wait_for_clears(queue);
    for (size_t piece, done = 0; done < operation->bytes; done += piece) {
        piece = pin_piece(outside + done, operation->bytes - done);
        fault_never(cudaMemcpyAsync(to + done, from + done, piece, kind, queue->stream), "a copy");
    }
    operations_add(&group->operations, operation);
    queue_add(queue, group);
}

static struct operation *take_copy(void *to, const void *from, size_t bytes, struct token token)
{
    struct operation *operation = operation_take(token);
    operation->to = to;
    operation->from = from;
    operation->bytes = bytes;
    return operation;
}

static void cuda_upload(void *device, const void *arena, size_t bytes, struct token token)
{
    begin_copy(&cuda.queues[UPLOADS], take_copy(device, arena, bytes, token),
               cudaMemcpyHostToDevice);
    cuda.uploads++;
}

/* Downloads that are begun from now on come after the group. */
static void downloads_wait(const struct group *group)
{
    fault_never(cudaStreamWaitEvent(cuda.queues[DOWNLOADS].stream, group->end, 0),
                "cudaStreamWaitEvent");
}

static void cuda_download(void *arena, const void *device, size_t bytes, const void *after,
                          struct token token)
{
    struct operation *operation = take_copy(arena, device, bytes, token);
    struct operation *launch = (struct operation *)(uintptr_t)after;
    if (launch && !launch->has_begun) {
        operations_add(&launch->followers, operation);
        return;
    }
    if (launch && launch->group)
        downloads_wait(launch->group);
    begin_copy(&cuda.queues[DOWNLOADS], operation, cudaMemcpyDeviceToHost);
}

/* --- launches --- */

/* Points × passes. */
static uint64_t computing_of(const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    return (launch->to - launch->from) * (plan->points * plan->batch / plan->lines);
}

/* The time of its copies, in the same. */
static uint64_t copying_of(const struct launch *launch)
{
    uint64_t count = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        count += (launch->source[i] != NULL) + (launch->target[i] != NULL);
    return count * plan_array_bytes(launch->plan) * COPIED_POINTS;
}

static uint64_t work_of(const struct launch *launch)
{
    return computing_of(launch) + copying_of(launch);
}

static bool is_small(const struct operation *operation)
{
    return work_of(&operation->launch) <= SMALL_POINTS;
}

/* Take those that begin together: the one that was ordered first, and where it is small those small
 * ones behind it that make a group. Their weights are loaded first on the queue. None where there
 * is no slot for these. */
static void take_together(struct kind *kind, const struct queue *queue, struct group *group)
{
    uint64_t work = 0;
    for (int count = 0; kind->ordered.first && count < GROUP_MOST; count++) {
        struct operation *operation = kind->ordered.first;
        work += work_of(&operation->launch);
        if (count && (!is_small(operation) || work > GROUP_POINTS ||
                      operation->launch.is_resident != group->operations.first->launch.is_resident))
            return;
        operation->slot = slots_take(operation->launch.plan, queue->stream);
        if (operation->slot < 0)
            return;
        operations_add(&group->operations, operations_take(&kind->ordered));
    }
}

/* Put the copies of the group's launches on the queue: from sources, or to targets. */
static void copy_by_kernel(const struct queue *queue, const struct group *group, bool in)
{
    _Static_assert(COPY_MOST >= GROUP_MOST * AXIS_COUNT, "room for a group's copies");
    struct copies copies;
    copies.count = 0;
    for (const struct operation *o = group->operations.first; o; o = o->next) {
        const struct launch *launch = &o->launch;
        const bool ends_even =
            launch->to / launch->plan->lines % 2 == 1 || launch->plan->staged > 0;
        for (int i = 0; i < AXIS_COUNT; i++) {
            struct copy_arrays *copy = &copies.arrays[copies.count];
            const void *result = ends_even ? launch->even[i] : launch->odd;
            copy->to = in ? (void *)(uintptr_t)launch->in[i] : launch->target[i];
            copy->from = in ? launch->source[i] : result;
            copy->bytes = plan_array_bytes(launch->plan);
            copies.count += in ? launch->source[i] != NULL : launch->target[i] != NULL;
        }
    }
    if (copies.count)
        fault_never(copy_launch(&copies, queue->stream), "a copy by a kernel");
}

/* The same lines of one plan, by kernels that take several jobs. */
static bool are_equal(const struct operation *a, const struct operation *b)
{
    return a->launch.plan->plain && a->launch.plan->probes == 0 && a->slot == b->slot &&
           a->launch.from == b->launch.from && a->launch.to == b->launch.to;
}

/* Put the passes of the group's launches on the queue, those of equal ones at once: none waits for
 * another. */
static void put_passes(const struct queue *queue, const struct group *group)
{
    const struct operation *left[GROUP_MOST];
    int count = 0;
    for (const struct operation *o = group->operations.first; o; o = o->next)
        left[count++] = o;
    while (count > 0) {
        const struct operation *first = left[0];
        const struct launch *equal[PASSES_JOBS];
        unsigned jobs = 0;
        int others = 0;
        for (int i = 0; i < count; i++)
            if (i == 0 || are_equal(left[i], first))
                equal[jobs++] = &left[i]->launch;
            else
                left[others++] = left[i];
        fault_never(passes_launch(equal, jobs, first->slot, cuda.units, queue->stream), "launch");
        count = others;
    }
}

/* Put all of the group on the queue. Where that takes long, what is there before wakes the worker
 * on its own. */
static void begin_launches(struct queue *queue, struct group *group)
{
    const struct launch *first = &group->operations.first->launch; /* the others are of its kind */
    const bool copies = copying_of(first) > 0;
    if (work_of(first) > SHORT_POINTS)
        queue_arm(queue);
    if (!first->is_resident)
        wait_for_uploads(queue);
    fault_never(cudaEventRecord(group->begin, queue->stream), "cudaEventRecord");
    if (copies)
        copy_by_kernel(queue, group, true);
    if (group->chain)
        graphs_put(group, cuda.units, queue->stream);
    else
        put_passes(queue, group);
    if (copies)
        copy_by_kernel(queue, group, false);
    for (struct operation *o = group->operations.first; o; o = o->next) {
        o->has_begun = true;
        o->group = group;
    }
}

/* All of its launches are on the queue: it ends here, and the downloads after them may come. */
static void end_group(struct queue *queue, struct group *group)
{
    bool waits = false;
    queue_add(queue, group);
    for (struct operation *o = group->operations.first; o; o = o->next)
        while (o->followers.first) {
            if (!waits)
                downloads_wait(group);
            waits = true;
            begin_copy(&cuda.queues[DOWNLOADS], operations_take(&o->followers),
                       cudaMemcpyDeviceToHost);
        }
}

/* False where there is no slot. */
static bool begin_group(struct kind *kind)
{
    struct queue *queue = queue_choose(kind);
    struct group *group = group_take(false);
    wait_for_clears(queue); /* of what is computed on, and of what tables come to lie in */
    take_together(kind, queue, group);
    if (group->operations.first) {
        begin_launches(queue, group);
        end_group(queue, group);
        return true;
    }
    group_give(group);
    return false;
}

/* How many launches of the chain begin together: those of a round, or one that is not small.
 * is_whole: what else may come of it does not belong to them. */
static int together(const struct chain *chain, bool *is_whole)
{
    const struct operation *first = chain->ordered.first;
    int count = 0;
    *is_whole = true;
    for (const struct operation *o = first; o; o = o->next) {
        if (!is_small(o) || o->launch.is_resident != first->launch.is_resident)
            return count ? count : 1;
        if (++count == GROUP_MOST || o->launch.ends_round)
            return count;
    }
    *is_whole = false;
    return count;
}

/* Where enough of it is under way, what comes meanwhile makes whole rounds. False: nothing begins.
 */
static bool begin_round(struct chain *chain)
{
    bool is_whole;
    const int count = together(chain, &is_whole);
    if (!count || chain->groups == CHAIN_GROUPS || (!is_whole && chain->groups))
        return false;
    struct queue *queue = chain->groups ? chain->queue : queue_choose(&cuda.kinds[PLAIN]);
    struct group *group = group_take(false);
    wait_for_clears(queue);
    for (int i = 0; i < count; i++) {
        struct operation *operation = chain->ordered.first;
        operation->slot = slots_take(operation->launch.plan, queue->stream);
        if (operation->slot < 0)
            break;
        operations_add(&group->operations, operations_take(&chain->ordered));
        group->ends_round = operation->launch.ends_round;
    }
    if (!group->operations.first) {
        group_give(group);
        return false;
    }
    group->chain = chain;
    chain->queue = queue;
    chain->groups++;
    begin_launches(queue, group);
    end_group(queue, group);
    return true;
}

static void begin_kind(struct kind *kind)
{
    while (kind->ordered.first && begin_group(kind))
        ;
}

static void cuda_begin(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        begin_kind(&cuda.kinds[kind]);
    for (struct chain *chain = cuda.chains; chain; chain = chain->next)
        while (begin_round(chain))
            ;
}

/* One that is not small begins at once: it must not wait for uploads that come after it. */
static const void *cuda_launch(const struct launch *launch, struct token token)
{
    struct kind *kind = &cuda.kinds[copying_of(launch) ? COPYING : PLAIN];
    struct operation *operation = operation_take(token);
    operation->launch = *launch;
    if (launch->chain) {
        struct chain *chain = chains_find(&cuda.chains, launch->chain);
        operations_add(&chain->ordered, operation);
        while (!is_small(operation) && begin_round(chain))
            ;
        return operation;
    }
    operations_add(&kind->ordered, operation);
    if (!is_small(operation))
        begin_kind(kind);
    return operation;
}

/* --- completions --- */

/* What of the group's time passed between these two points of its work. Rounded so that the parts
 * add up. */
static uint64_t us_between(double before, double after, double us_each)
{
    return (uint64_t)(after * us_each + 0.5) - (uint64_t)(before * us_each + 0.5);
}

/* The group's time on the device, be it a graph's, is shared out by work; the plans' slots are free
 * for others. */
static void end_launches(struct group *group)
{
    float ms = 0;
    double work = 0, before = 0;
    fault_never(cudaEventElapsedTime(&ms, group->begin, group->end), "cudaEventElapsedTime");
    for (struct operation *o = group->operations.first; o; o = o->next)
        work += (double)work_of(&o->launch);
    const double us_each = 1000.0 * (double)ms / work;
    for (struct operation *o = group->operations.first; o; o = o->next) {
        const double computed = before + (double)computing_of(&o->launch);
        const double after = before + (double)work_of(&o->launch);
        o->completion.device_us = us_between(before, computed, us_each);
        o->completion.copy_us = us_between(computed, after, us_each);
        before = after;
        slots_give(o->slot);
    }
    if (group->graph)
        graphs_ended(group->graph);
    if (group->chain) {
        group->chain->groups--;
        chains_settle(&cuda.chains, group->chain);
    }
}

/* Move what has completed from the queue to the end of a list. An error that sticks is the answer
 * to every call. */
static void queue_collect(struct queue *queue, struct operations *completed)
{
    while (queue->first) {
        struct group *group = queue->first;
        const cudaError_t error = cudaEventQuery(group->end);
        if (error == cudaErrorNotReady)
            return;
        fault_never(error, "the device");
        if (!group->is_copy)
            end_launches(group);
        while (group->operations.first) {
            struct operation *operation = operations_take(&group->operations);
            operation->group = NULL;
            operations_add(completed, operation);
        }
        queue->first = group->next;
        if (!queue->first)
            queue->end = &queue->first;
        group_give(group);
    }
}

/* Queues are polled against the order in which their work goes on, and told of in that order: a
 * launch never completes before the uploads that it has seen. */
static void collect(void)
{
    struct operations lists[3];
    for (int i = 0; i < 3; i++)
        operations_init(&lists[i]);
    queue_collect(&cuda.queues[DOWNLOADS], &lists[2]);
    for (int i = 0; i < QUEUES; i++)
        queue_collect(&cuda.queues[i], &lists[1]);
    queue_collect(&cuda.queues[UPLOADS], &lists[0]);
    for (int i = 0; i < 3; i++)
        while (lists[i].first)
            operations_add(&cuda.completed, operations_take(&lists[i]));
    cudaGetLastError(); /* "not ready" is no error */
}

static bool cuda_reap(struct completion *completion)
{
    if (!cuda.completed.first)
        collect();
    if (!cuda.completed.first)
        return false;
    struct operation *operation = operations_take(&cuda.completed);
    *completion = operation->completion;
    operation_give(operation);
    return true;
}

static void cuda_arm(void)
{
    for (int i = 0; i < ALL_QUEUES; i++)
        queue_arm(&cuda.queues[i]);
}

const struct backend *backend_cuda(void)
{
    static const struct backend backend = {
        .kind = "cuda",
        .splits_passes = false,
        .launch_copies_bytes = LAUNCH_COPIES_BYTES,
        .open = cuda_open,
        .close = cuda_close,
        .pin = cuda_pin,
        .unpin = cuda_unpin,
        .allocate = cuda_allocate,
        .release = memory_give,
        .upload = cuda_upload,
        .download = cuda_download,
        .launch = cuda_launch,
        .begin = cuda_begin,
        .arm = cuda_arm,
        .rest = memory_rest,
        .busy_polls = true,
        .reap = cuda_reap,
    };
    return &backend;
}
