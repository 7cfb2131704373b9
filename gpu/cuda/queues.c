#include "gpu/cuda/queues.h"

#include "base/wake.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/graphs.h"
#include "gpu/cuda/own_planes.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/pin.h"
#include "gpu/cuda/slots.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLAIN_QUEUES = 8,   /* for launches */
    COPYING_QUEUES = 4, /* … that copy: some do so inwards while others do outwards */
    UPLOADS = PLAIN_QUEUES + COPYING_QUEUES,
    DOWNLOADS,
    QUEUES
};

enum {
    SMALL_POINTS = 1 << 18, /* × passes, of a launch that may be one of a group … */
    GROUP_POINTS = 1 << 21, /* … of so many: the device is done with them in about 10 µs */
    GROUP_MOST = PASSES_JOBS,
    /* The same of a chain's: a group of one would end before the worker has put the next. A stencil
     * of more than SMALL_POINTS may have a compiled kernel, which cannot be in a graph. */
    SMALL_OF_CHAIN = 1 << 20,
    CHAIN_GROUPS = 2, /* of a chain under way: one more may gather meanwhile what comes */
    /* Until a launch of so many, some 80 µs, has ended, what completed before it on its queue can
     * wait: to be woken costs more than to find it then. */
    SHORT_POINTS = 1 << 24
};

/* Of launches: without and with sources or targets. */
enum { PLAIN, COPYING, KINDS };

struct queue {
    cudaStream_t stream;
    cudaStream_t waker;   /* for host functions: on the stream itself all behind one waits for it */
    struct list groups;   /* under way */
    bool armed;           /* a host function waits for the last of them */
    uint64_t seen;        /* uploads that it waits for */
    uint64_t seen_clears; /* … and clears */
};

/* Of struct launch: its launches that have not begun, and where those are that have. */
struct chain {
    struct list link;
    uint64_t number;
    struct list ordered;
    struct queue *queue; /* that has those under way, … */
    uint32_t groups;     /* … in so many groups */
};

static struct {
    struct queue queues[QUEUES];
    cudaEvent_t uploaded; /* the latest recording of uploads */
    uint64_t uploads;     /* put on the stream */
    uint64_t recorded;    /* … of them before `uploaded` was recorded */
    cudaStream_t clearing;
    cudaEvent_t cleared; /* all clears so far */
    uint64_t clears;
    struct kind {
        int first, count;    /* its queues */
        int last;            /* of them, that of the last launch */
        struct list ordered; /* launches that have not begun */
    } kinds[KINDS];
    struct list chains;    /* of which something is ordered or under way */
    struct list completed; /* operations that are not reaped yet */
    bool reaping;          /* … of which the last reap() took one */
    int units, wake;
} all;

/* --- queues --- */

static void CUDART_CB wake(void *unused)
{
    (void)unused;
    wake_send(all.wake);
}

cudaError_t queues_open(int units, int wake_descriptor)
{
    memset(&all, 0, sizeof all);
    all.units = units;
    all.wake = wake_descriptor;
    all.kinds[PLAIN] = (struct kind){.count = PLAIN_QUEUES};
    all.kinds[COPYING] = (struct kind){.first = PLAIN_QUEUES, .count = COPYING_QUEUES};
    cudaError_t error = cudaStreamCreateWithFlags(&all.clearing, cudaStreamNonBlocking);
    for (int i = 0; i < QUEUES && error == cudaSuccess; i++) {
        error = cudaStreamCreateWithFlags(&all.queues[i].stream, cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaStreamCreateWithFlags(&all.queues[i].waker, cudaStreamNonBlocking);
    }
    if (error == cudaSuccess)
        error = own_planes_open();
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&all.uploaded, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&all.cleared, cudaEventDisableTiming);
    return error;
}

void queues_close(void)
{
    operations_close();
    own_planes_close();
    cudaEventDestroy(all.uploaded);
    cudaEventDestroy(all.cleared);
    cudaStreamDestroy(all.clearing);
    for (int i = 0; i < QUEUES; i++) {
        cudaStreamDestroy(all.queues[i].waker);
        cudaStreamDestroy(all.queues[i].stream);
    }
}

static void wait_for_clears(struct queue *queue)
{
    if (queue->seen_clears == all.clears)
        return;
    fault_never(cudaStreamWaitEvent(queue->stream, all.cleared, 0), "cudaStreamWaitEvent");
    queue->seen_clears = all.clears;
}

static void record_uploads(void)
{
    if (all.recorded == all.uploads)
        return;
    fault_never(cudaEventRecord(all.uploaded, all.queues[UPLOADS].stream), "cudaEventRecord");
    all.recorded = all.uploads;
}

void queues_let_wait(cudaStream_t stream)
{
    record_uploads();
    fault_never(cudaStreamWaitEvent(stream, all.uploaded, 0), "cudaStreamWaitEvent");
    fault_never(cudaStreamWaitEvent(stream, all.cleared, 0), "cudaStreamWaitEvent");
}

static void wait_for_uploads(struct queue *queue)
{
    if (queue->seen == all.uploads)
        return;
    record_uploads();
    fault_never(cudaStreamWaitEvent(queue->stream, all.uploaded, 0), "cudaStreamWaitEvent");
    queue->seen = all.uploads;
}

static void queue_add(struct queue *queue, struct group *group)
{
    fault_never(cudaEventRecord(group->end, queue->stream), "cudaEventRecord");
    list_push(&queue->groups, &group->link);
    queue->armed = false;
}

static void queue_arm(struct queue *queue)
{
    if (list_empty(&queue->groups) || queue->armed)
        return;
    const struct group *last = LIST_ENTRY(queue->groups.prev, struct group, link);
    fault_never(cudaStreamWaitEvent(queue->waker, last->end, 0), "cudaStreamWaitEvent");
    fault_never(cudaLaunchHostFunc(queue->waker, wake, NULL), "cudaLaunchHostFunc");
    queue->armed = true;
}

/* --- clears and copies --- */

void queues_clear(void *memory, uint64_t bytes)
{
    fault_never(cudaMemsetAsync(memory, 0, bytes, all.clearing), "cudaMemsetAsync");
    fault_never(cudaEventRecord(all.cleared, all.clearing), "cudaEventRecord");
    all.clears++;
}

void queues_await_clears(void)
{
    fault_never(cudaStreamSynchronize(all.clearing), "cudaStreamSynchronize");
}

/* A copy is a group of its own. `outside` is its end that may be a client's memory, pinned in
 * pieces; it may also be imported memory, or another array. */
static void begin_copy(struct queue *queue, struct operation *operation, const void *outside)
{
    struct group *group = group_take(true);
    char *to = operation->to;
    const char *from = operation->from;
    wait_for_clears(queue);
    for (size_t piece, done = 0; done < operation->bytes; done += piece) {
        piece = pin_piece((const char *)outside + done, operation->bytes - done);
        fault_never(
            cudaMemcpyAsync(to + done, from + done, piece, cudaMemcpyDefault, queue->stream),
            "a copy");
    }
    list_push(&group->operations, &operation->link);
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

void queues_upload(void *device, const void *arena, size_t bytes, struct token token)
{
    begin_copy(&all.queues[UPLOADS], take_copy(device, arena, bytes, token), arena);
    all.uploads++;
}

static void begin_download(struct operation *operation, const struct group *group)
{
    struct queue *queue = &all.queues[DOWNLOADS];
    if (group)
        fault_never(cudaStreamWaitEvent(queue->stream, group->end, 0), "cudaStreamWaitEvent");
    begin_copy(queue, operation, operation->to);
}

void queues_download(void *arena, const void *device, size_t bytes, const void *after,
                     struct token token)
{
    struct operation *copy = take_copy(arena, device, bytes, token);
    struct operation *launch = (struct operation *)(uintptr_t)after;
    if (launch && !launch->has_begun)
        list_push(&launch->followers, &copy->link);
    else
        begin_download(copy, launch ? launch->group : NULL);
}

/* --- launches --- */

/* One for a launch of the kind: a queue with nothing under way, else the next in turn. */
static struct queue *choose_queue(struct kind *kind)
{
    struct queue *const queues = &all.queues[kind->first];
    int i = 1;
    while (i <= kind->count && !list_empty(&queues[(kind->last + i) % kind->count].groups))
        i++;
    kind->last = (kind->last + (i > kind->count ? 1 : i)) % kind->count;
    return &queues[kind->last];
}

static bool is_small(const struct operation *operation)
{
    const struct launch *launch = &operation->launch;
    const bool of_chain = launch->chain && launch->plan->engine != PLAN_STENCIL;
    if (launch->own.end) /* it is a group of its own */
        return false;
    return launch_work(launch) <= (of_chain ? SMALL_OF_CHAIN : SMALL_POINTS);
}

/* How many of the ordered launches begin together: a large one alone, small ones as a group; of a
 * chain, those of a round. *is_whole: what may still come does not belong to them. */
static int count_together(struct list *ordered, bool is_chain, bool *is_whole)
{
    const struct operation *first = LIST_FIRST(ordered, struct operation, link);
    uint64_t work = 0;
    int count = 0;
    *is_whole = true;
    LIST_EACH (struct operation, o, ordered, link) {
        work += launch_work(&o->launch);
        if (!is_small(o) || o->launch.is_resident != first->launch.is_resident ||
            (!is_chain && work > GROUP_POINTS))
            return count ? count : 1;
        if (++count == GROUP_MOST || o->launch.ends_round)
            return count;
    }
    *is_whole = false;
    return count;
}

/* Put all of the group on the queue, and the downloads after its launches on theirs. Where that
 * takes long, what is there before wakes the worker on its own. */
static void put_group(struct queue *queue, struct group *group)
{
    /* The others are of its kind. */
    const struct launch *first = &LIST_FIRST(&group->operations, struct operation, link)->launch;
    if (launch_work(first) > SHORT_POINTS)
        queue_arm(queue);
    if (!first->is_resident)
        wait_for_uploads(queue);
    fault_never(cudaEventRecord(group->begin, queue->stream), "cudaEventRecord");
    if (first->own.end)
        own_planes_put(group, all.units, queue->stream, queue->waker, wake);
    else
        graphs_put(group, all.units, queue->stream);
    queue_add(queue, group);
    const struct group *awaited = group; /* by the first download, for those behind it */
    LIST_EACH (struct operation, o, &group->operations, link) {
        o->has_begun = true;
        o->group = group;
        LIST_DRAIN (struct operation, follower, &o->followers, link) {
            begin_download(follower, awaited);
            awaited = NULL;
        }
    }
}

/* Begin so many of those that are ordered; chain NULL: they are of none. False where there is no
 * slot for the first one's plan: slots are loaded first on the queue. */
static bool begin_group(struct queue *queue, struct list *ordered, int count, struct chain *chain)
{
    struct group *group = group_take(false);
    wait_for_clears(queue); /* of what is computed on, and of what tables come to lie in */
    for (; count; count--) {
        struct operation *operation = LIST_FIRST(ordered, struct operation, link);
        operation->slot = slots_take(operation->launch.plan, queue->stream);
        if (operation->slot < 0)
            break;
        list_remove(&operation->link);
        list_push(&group->operations, &operation->link);
        group->ends_round = operation->launch.ends_round;
    }
    if (list_empty(&group->operations)) {
        group_give(group);
        return false;
    }
    group->chain = chain;
    if (chain) {
        chain->queue = queue;
        chain->groups++;
    }
    put_group(queue, group);
    return true;
}

static void begin_kind(struct kind *kind)
{
    bool is_whole;
    while (!list_empty(&kind->ordered) &&
           begin_group(choose_queue(kind), &kind->ordered,
                       count_together(&kind->ordered, false, &is_whole), NULL))
        ;
}

/* Where enough of it is under way, what comes meanwhile makes whole rounds. */
static void begin_chain(struct chain *chain)
{
    bool is_whole;
    int count;
    while ((count = count_together(&chain->ordered, true, &is_whole)) > 0 &&
           chain->groups < CHAIN_GROUPS && (is_whole || !chain->groups) &&
           begin_group(chain->groups ? chain->queue : choose_queue(&all.kinds[PLAIN]),
                       &chain->ordered, count, chain))
        ;
}

void queues_begin(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        begin_kind(&all.kinds[kind]);
    LIST_EACH (struct chain, chain, &all.chains, link)
        begin_chain(chain);
}

static struct chain *find_chain(uint64_t number)
{
    LIST_EACH (struct chain, chain, &all.chains, link)
        if (chain->number == number)
            return chain;
    struct chain *chain = operations_allocate(sizeof *chain);
    chain->number = number;
    list_push(&all.chains, &chain->link);
    return chain;
}

/* One that is not small begins at once: it must not wait for uploads that come after it. */
const void *queues_launch(const struct launch *launch, struct token token)
{
    struct operation *operation = operation_take(token);
    struct kind *kind = &all.kinds[launch_copying(launch) ? COPYING : PLAIN];
    struct chain *chain = launch->chain ? find_chain(launch->chain) : NULL;
    operation->launch = *launch;
    list_push(chain ? &chain->ordered : &kind->ordered, &operation->link);
    if (!is_small(operation) && chain)
        begin_chain(chain);
    else if (!is_small(operation))
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

/* Share the group's time on the device out by work, and give the plans' slots back. */
static void end_launches(struct group *group)
{
    float ms = 0;
    double work = 0, before = 0;
    struct chain *chain = group->chain;
    fault_never(cudaEventElapsedTime(&ms, group->begin, group->end), "cudaEventElapsedTime");
    LIST_EACH (struct operation, o, &group->operations, link)
        work += (double)launch_work(&o->launch);
    const double us_each = 1000.0 * (double)ms / work;
    LIST_EACH (struct operation, o, &group->operations, link) {
        const double computed = before + (double)launch_computing(&o->launch);
        const double after = before + (double)launch_work(&o->launch);
        o->completion.device_us = us_between(before, computed, us_each);
        o->completion.copy_us = us_between(computed, after, us_each);
        before = after;
        slots_give(o->slot);
    }
    if (group->graph)
        graphs_ended(group->graph);
    if (chain && --chain->groups == 0 && list_empty(&chain->ordered)) {
        list_remove(&chain->link);
        free(chain);
    }
}

/* Move what has completed to the end of a list. An error that sticks answers every call. */
static void collect_from(struct queue *queue, struct list *completed)
{
    LIST_EACH (struct group, group, &queue->groups, link) {
        const cudaError_t error = cudaEventQuery(group->end);
        if (group->told &&
            (error != cudaErrorNotReady || cudaEventQuery(group->edges) != cudaErrorNotReady)) {
            list_push(completed, &group->told->link);
            group->told = NULL;
        }
        if (error == cudaErrorNotReady)
            return;
        fault_never(error, "the device");
        if (!group->is_copy)
            end_launches(group);
        LIST_DRAIN (struct operation, operation, &group->operations, link) {
            operation->group = NULL;
            list_push(completed, &operation->link);
        }
        list_remove(&group->link);
        group_give(group);
    }
}

/* Queues are polled against the order in which their work goes on, and told of in that order: a
 * launch never completes before the uploads that it has seen. */
static void collect(void)
{
    struct list downloads = {&downloads, &downloads}, launches = {&launches, &launches};
    collect_from(&all.queues[DOWNLOADS], &downloads);
    for (int i = 0; i < UPLOADS; i++)
        collect_from(&all.queues[i], &launches);
    collect_from(&all.queues[UPLOADS], &all.completed);
    list_move(&launches, &all.completed);
    list_move(&downloads, &all.completed);
    cudaGetLastError(); /* "not ready" is no error */
}

bool queues_reap(struct completion *completion)
{
    if (!all.reaping)
        collect();
    struct operation *operation = LIST_TAKE(&all.completed, struct operation, link);
    all.reaping = operation != NULL;
    if (!operation)
        return false;
    *completion = operation->completion;
    operation_give(operation);
    return true;
}

void queues_arm(void)
{
    for (int i = 0; i < QUEUES; i++)
        queue_arm(&all.queues[i]);
}
