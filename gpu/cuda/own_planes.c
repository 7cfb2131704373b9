#include "gpu/cuda/own_planes.h"

#include "gpu/cuda/fault.h"
#include "gpu/cuda/passes.h"

static cudaStream_t edges;

cudaError_t own_planes_open(void)
{
    int least = 0, greatest = 0;
    const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return error == cudaSuccess
               ? cudaStreamCreateWithPriority(&edges, cudaStreamNonBlocking, greatest)
               : error;
}

void own_planes_close(void)
{
    cudaStreamDestroy(edges);
}

static void record(cudaEvent_t event, cudaStream_t stream)
{
    fault_never(cudaEventRecord(event, stream), "cudaEventRecord");
}

static void let_wait(cudaStream_t stream, cudaEvent_t event)
{
    fault_never(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

/* The stream goes on when the edges are about to begin, and its blocks fill what theirs leave free:
 * were it not to wait, its blocks would be there first, and the edges done last. */
static void put_edges(struct group *group, const struct operation *operation, int units,
                      cudaStream_t stream, cudaStream_t waker, cudaHostFn_t wake)
{
    group->told = operation_take(operation->completion.token);
    group->told->completion.edges = true;
    if (!group->edges)
        fault_never(cudaEventCreateWithFlags(&group->edges, cudaEventDisableTiming),
                    "cudaEventCreate");
    let_wait(edges, group->begin);
    record(group->edges, edges);
    let_wait(stream, group->edges);
    fault_never(passes_launch_own(&operation->launch, true, operation->slot, units, edges),
                "launch");
    record(group->edges, edges);
    let_wait(waker, group->edges);
    fault_never(cudaLaunchHostFunc(waker, wake, NULL), "cudaLaunchHostFunc");
}

void own_planes_put(struct group *group, int units, cudaStream_t stream, cudaStream_t waker,
                    cudaHostFn_t wake)
{
    const struct operation *operation = LIST_FIRST(&group->operations, struct operation, link);
    const struct own_planes *own = &operation->launch.own;
    if (own->edge[SIDE_LOW] || own->edge[SIDE_HIGH])
        put_edges(group, operation, units, stream, waker, wake);
    fault_never(passes_launch_own(&operation->launch, false, operation->slot, units, stream),
                "launch");
    if (group->told)
        let_wait(stream, group->edges);
}
