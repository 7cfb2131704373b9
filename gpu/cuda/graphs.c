#include "gpu/cuda/graphs.h"

#include "gpu/cuda/copy.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/pause.h"
#include "gpu/cuda/slots.h"
#include "base/log.h"

#include <string.h>

enum {
    GRAPHS_KEPT = 16,
    GRAPH_LAUNCHES = PASSES_JOBS,
    PAUSE_FIRST_S = 60, /* a capture that can never work costs next to nothing at that rate */
    PAUSE_MOST_S = 600
};

/* All that decides what a launch's kernels are told. Without padding: equal ones are equal bytes.
 */
struct told {
    uint64_t load, from, to;
    struct leg leg;
    const void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd, *spare[2], *operands[OPERANDS];
};

struct graph {
    uint32_t count;       /* launches; 0: what is told is no longer so */
    uint32_t users;       /* groups under way */
    uint64_t used;        /* when last, by the clock */
    cudaGraphExec_t exec; /* NULL: it was noted alone */
    struct told told[GRAPH_LAUNCHES];
};

static struct {
    struct graph kept[GRAPHS_KEPT];
    cudaStream_t stream; /* to capture on: nothing is ever done there */
    uint64_t clock;      /* counts the uses */
    uint64_t freed;      /* memory_freed() when last looked */
    struct pause pause;  /* a graph has failed, often for want of memory: there are none for now */
} cache;

cudaError_t graphs_open(void)
{
    return cudaStreamCreateWithFlags(&cache.stream, cudaStreamNonBlocking);
}

static void drop(struct graph *graph)
{
    graph->count = 0;
    if (graph->users || !graph->exec)
        return;
    fault_never(cudaGraphExecDestroy(graph->exec), "cudaGraphExecDestroy");
    graph->exec = NULL;
}

static void drop_all(void)
{
    for (int i = 0; i < GRAPHS_KEPT; i++)
        drop(&cache.kept[i]);
}

void graphs_close(void)
{
    for (int i = 0; i < GRAPHS_KEPT; i++)
        cache.kept[i].users = 0;
    drop_all();
    cudaStreamDestroy(cache.stream);
    memset(&cache, 0, sizeof cache);
}

void graphs_ended(struct graph *graph)
{
    graph->users--;
    if (!graph->count)
        drop(graph);
}

/* What the group's launches tell; how many there are. */
static uint32_t tell_launches(struct group *group, struct told told[GRAPH_LAUNCHES])
{
    uint32_t count = 0;
    LIST_EACH (struct operation, o, &group->operations, link) {
        const struct launch *launch = &o->launch;
        struct told *one = &told[count++];
        *one = (struct told){.load = slots_load_of(o->slot),
                             .from = launch->from,
                             .to = launch->to,
                             .leg = launch->leg,
                             .odd = launch->odd};
        for (int i = 0; i < AXIS_COUNT; i++) {
            one->in[i] = launch->in[i];
            one->even[i] = launch->even[i];
        }
        for (int i = 0; i < 2; i++)
            one->spare[i] = launch->spare[i];
        for (int i = 0; i < OPERANDS && launch->operands; i++)
            one->operands[i] = launch->operands->at[i];
    }
    return count;
}

static struct graph *find_graph(const struct told *told, uint32_t count)
{
    for (int i = 0; i < GRAPHS_KEPT; i++)
        if (cache.kept[i].count == count &&
            memcmp(cache.kept[i].told, told, count * sizeof *told) == 0)
            return &cache.kept[i];
    return NULL;
}

/* In the place of the one that was used longest ago, of those that are not under way. */
static void note(const struct told *told, uint32_t count)
{
    struct graph *oldest = NULL;
    for (int i = 0; i < GRAPHS_KEPT; i++) {
        struct graph *graph = &cache.kept[i];
        if (!graph->users && (!oldest || graph->used < oldest->used))
            oldest = graph;
    }
    if (!oldest)
        return;
    drop(oldest);
    oldest->count = count;
    oldest->used = ++cache.clock;
    memcpy(oldest->told, told, count * sizeof *told);
}

static cudaError_t put_each(struct group *group, int units, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    LIST_EACH (struct operation, o, &group->operations, link) {
        const struct launch *launch = &o->launch;
        if (error == cudaSuccess)
            error = passes_launch(&launch, 1, o->slot, units, stream);
    }
    return error;
}

/* Relaxed: what else a launch asks of CUDA, and other threads do, is none of the capture's. False:
 * there is no graph. */
static bool capture(struct graph *graph, struct group *group, int units)
{
    cudaGraph_t captured = NULL;
    bool ok = fault_check(cudaStreamBeginCapture(cache.stream, cudaStreamCaptureModeRelaxed),
                          "cudaStreamBeginCapture");
    if (ok) {
        ok = fault_check(put_each(group, units, cache.stream), "a captured launch");
        ok = fault_check(cudaStreamEndCapture(cache.stream, &captured), "cudaStreamEndCapture") &&
             ok;
    }
    if (ok)
        ok = fault_check(cudaGraphInstantiateWithFlags(&graph->exec, captured, 0),
                         "cudaGraphInstantiate");
    if (captured)
        fault_never(cudaGraphDestroy(captured), "cudaGraphDestroy");
    return ok;
}

/* False: it has not been, and none will be for a while. */
static bool launch_graph(struct graph *graph, struct group *group, int units, cudaStream_t stream)
{
    if ((graph->exec || capture(graph, group, units)) &&
        fault_check(cudaGraphLaunch(graph->exec, stream), "cudaGraphLaunch")) {
        cache.pause = (struct pause){0};
        return true;
    }
    pause_begin(&cache.pause, PAUSE_FIRST_S, PAUSE_MOST_S);
    log_warning("cuda: no graph could be had: chains go launch by launch for %u s",
                (unsigned)cache.pause.s);
    drop_all();
    return false;
}

/* NULL: there is none for the group. */
static struct graph *graph_of(struct group *group)
{
    struct told told[GRAPH_LAUNCHES];
    if (!group->ends_round || pause_lasts(&cache.pause))
        return NULL;
    if (cache.freed != memory_freed()) {
        cache.freed = memory_freed();
        drop_all();
    }
    const uint32_t count = tell_launches(group, told);
    struct graph *graph = count > 1 ? find_graph(told, count) : NULL;
    if (!graph && count > 1)
        note(told, count);
    return graph;
}

/* False: the launches of the group are to go one by one. */
static bool put_graph(struct group *group, int units, cudaStream_t stream)
{
    struct graph *graph = graph_of(group);
    if (!graph || !launch_graph(graph, group, units, stream))
        return false;
    graph->users++;
    graph->used = ++cache.clock;
    group->graph = graph;
    return true;
}

/* Put the copies of the group's launches on the stream: from sources, or to targets. */
static void copy_by_kernel(struct group *group, bool in, cudaStream_t stream)
{
    _Static_assert(COPY_MOST >= PASSES_JOBS * AXIS_COUNT, "room for a group's copies");
    struct copies copies;
    copies.count = 0;
    LIST_EACH (struct operation, o, &group->operations, link) {
        const struct launch *launch = &o->launch;
        for (int i = 0; i < AXIS_COUNT; i++) {
            struct copy_arrays *copy = &copies.arrays[copies.count];
            copy->to = in ? (void *)(uintptr_t)launch->in[i] : launch->target[i];
            copy->from = in ? launch->source[i] : launch_result(launch, i);
            copy->bytes = plan_array_bytes(launch->plan);
            copies.count += in ? launch->source[i] != NULL : launch->target[i] != NULL;
        }
    }
    if (copies.count)
        fault_never(copy_launch(&copies, stream), "a copy by a kernel");
}

/* The same lines of one plan, by kernels that take several jobs. */
static bool are_equal(const struct operation *a, const struct operation *b)
{
    return a->launch.plan->plain && a->launch.plan->probes == 0 && a->slot == b->slot &&
           a->launch.from == b->launch.from && a->launch.to == b->launch.to;
}

/* Put the passes of the group's launches on the stream, those of equal ones at once: none waits for
 * another. */
static void put_passes(struct group *group, int units, cudaStream_t stream)
{
    const struct operation *left[PASSES_JOBS];
    int count = 0;
    LIST_EACH (struct operation, o, &group->operations, link)
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
        fault_never(passes_launch(equal, jobs, first->slot, units, stream), "launch");
        count = others;
    }
}

void graphs_put(struct group *group, int units, cudaStream_t stream)
{
    if (!group->chain) {
        copy_by_kernel(group, true, stream);
        put_passes(group, units, stream);
        copy_by_kernel(group, false, stream);
    } else if (!put_graph(group, units, stream)) {
        fault_never(put_each(group, units, stream), "launch");
    }
}
