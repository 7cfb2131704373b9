#include "gpu/cuda/group.h"

#include "gpu/cuda/fault.h"
#include "base/log.h"

#include <stdlib.h>

static struct {
    struct operation *operations;
    struct group *launches, *copies;
} spare;

void operations_init(struct operations *operations)
{
    operations->first = NULL;
    operations->end = &operations->first;
}

void operations_add(struct operations *operations, struct operation *operation)
{
    operation->next = NULL;
    *operations->end = operation;
    operations->end = &operation->next;
}

struct operation *operations_take(struct operations *operations)
{
    struct operation *operation = operations->first;
    operations->first = operation->next;
    if (!operations->first)
        operations->end = &operations->first;
    return operation;
}

static void *new_item(size_t bytes)
{
    void *item = calloc(1, bytes);
    if (!item)
        log_fatal(BACKEND_FAULT_EXIT, "cuda: no memory for an operation");
    return item;
}

struct operation *operation_take(struct token token)
{
    struct operation *operation = spare.operations;
    if (operation)
        spare.operations = operation->next;
    else
        operation = new_item(sizeof *operation);
    operation->completion = (struct completion){.token = token};
    operation->has_begun = false;
    operation->group = NULL;
    operations_init(&operation->followers);
    return operation;
}

void operation_give(struct operation *operation)
{
    operation->next = spare.operations;
    spare.operations = operation;
}

static struct group *make_group(bool is_copy)
{
    struct group *group = new_item(sizeof *group);
    group->is_copy = is_copy;
    if (!is_copy)
        fault_never(cudaEventCreate(&group->begin), "cudaEventCreate");
    fault_never(cudaEventCreateWithFlags(&group->end, is_copy ? cudaEventDisableTiming : 0),
                "cudaEventCreate");
    return group;
}

static struct group **spare_groups(bool is_copy)
{
    return is_copy ? &spare.copies : &spare.launches;
}

struct group *group_take(bool is_copy)
{
    struct group *group = *spare_groups(is_copy);
    if (group)
        *spare_groups(is_copy) = group->next;
    else
        group = make_group(is_copy);
    operations_init(&group->operations);
    group->chain = NULL;
    group->ends_round = false;
    group->graph = NULL;
    return group;
}

void group_give(struct group *group)
{
    group->next = *spare_groups(group->is_copy);
    *spare_groups(group->is_copy) = group;
}

struct chain *chains_find(struct chain **chains, uint64_t number)
{
    struct chain *chain = *chains;
    while (chain && chain->number != number)
        chain = chain->next;
    if (!chain) {
        chain = new_item(sizeof *chain);
        chain->number = number;
        operations_init(&chain->ordered);
        chain->next = *chains;
        *chains = chain;
    }
    return chain;
}

void chains_settle(struct chain **chains, struct chain *chain)
{
    if (chain->ordered.first || chain->groups)
        return;
    while (*chains != chain)
        chains = &(*chains)->next;
    *chains = chain->next;
    free(chain);
}

static void free_groups(struct group **groups)
{
    while (*groups) {
        struct group *group = *groups;
        *groups = group->next;
        if (!group->is_copy)
            cudaEventDestroy(group->begin);
        cudaEventDestroy(group->end);
        free(group);
    }
}

void groups_close(void)
{
    while (spare.operations) {
        struct operation *operation = spare.operations;
        spare.operations = operation->next;
        free(operation);
    }
    free_groups(&spare.launches);
    free_groups(&spare.copies);
}
