#include "gpu/cuda/operations.h"

#include "base/log.h"
#include "gpu/cuda/fault.h"

#include <stdlib.h>

enum { COPIED_POINTS = 5 }; /* a byte over PCIe takes as long as so many */

static struct {
    struct list groups[2]; /* of launches, and of copies */
    struct list operations;
} spare;

void operations_close(void)
{
    for (int is_copy = 0; is_copy < 2; is_copy++)
        LIST_DRAIN (struct group, group, &spare.groups[is_copy], link) {
            if (!is_copy)
                cudaEventDestroy(group->begin);
            cudaEventDestroy(group->end);
            if (group->edges)
                cudaEventDestroy(group->edges);
            free(group);
        }
    LIST_DRAIN (struct operation, operation, &spare.operations, link)
        free(operation);
}

void *operations_allocate(size_t bytes)
{
    void *item = calloc(1, bytes);
    if (!item)
        log_fatal(BACKEND_FAULT_EXIT, "cuda: no memory for an operation");
    return item;
}

struct operation *operation_take(struct token token)
{
    struct operation *operation = LIST_TAKE(&spare.operations, struct operation, link);
    if (!operation)
        operation = operations_allocate(sizeof *operation);
    operation->completion = (struct completion){.token = token};
    operation->has_begun = false;
    operation->group = NULL;
    return operation;
}

void operation_give(struct operation *operation)
{
    list_push_front(&spare.operations, &operation->link);
}

struct group *group_take(bool is_copy)
{
    struct group *group = LIST_TAKE(&spare.groups[is_copy], struct group, link);
    if (!group) {
        group = operations_allocate(sizeof *group);
        if (!is_copy)
            fault_never(cudaEventCreate(&group->begin), "cudaEventCreate");
        fault_never(cudaEventCreateWithFlags(&group->end, is_copy ? cudaEventDisableTiming : 0),
                    "cudaEventCreate");
    }
    *group = (struct group){
        .is_copy = is_copy, .begin = group->begin, .end = group->end, .edges = group->edges};
    return group;
}

void group_give(struct group *group)
{
    list_push_front(&spare.groups[group->is_copy], &group->link);
}

uint64_t launch_computing(const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    return (launch->to - launch->from) * (plan->points * plan->batch / plan->lines);
}

uint64_t launch_copying(const struct launch *launch)
{
    uint64_t count = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        count += (launch->source[i] != NULL) + (launch->target[i] != NULL);
    return count * plan_array_bytes(launch->plan) * COPIED_POINTS;
}

uint64_t launch_work(const struct launch *launch)
{
    return launch_computing(launch) + launch_copying(launch);
}
