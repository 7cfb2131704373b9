#include "gpu/plans.h"

#include <stdlib.h>
#include <string.h>

const struct plan *plans_get(struct plans *plans, const struct job *job, const void *block)
{
    const uint64_t bytes = job->more.block_bytes;
    for (uint32_t i = 0; i < plans->count; i++)
        if (memcmp(&plans->kept[i].job, job, sizeof *job) == 0 &&
            (bytes == 0 || memcmp(plans->kept[i].block, block, bytes) == 0))
            return &plans->kept[i].plan;
    void *kept_block = bytes ? malloc(bytes) : NULL;
    struct plan plan;
    if ((bytes && !kept_block) || !plan_init(&plan, job, block)) {
        free(kept_block);
        return NULL;
    }
    const uint32_t i = plans->next;
    plans->next = (i + 1) % PLANS_KEPT;
    if (plans->count < PLANS_KEPT) {
        plans->count++;
    } else {
        plan_release(&plans->kept[i].plan);
        free(plans->kept[i].block);
    }
    if (bytes)
        memcpy(kept_block, block, bytes);
    plans->kept[i].job = *job;
    plans->kept[i].block = kept_block;
    plans->kept[i].plan = plan;
    return &plans->kept[i].plan;
}

void plans_free(struct plans *plans)
{
    for (uint32_t i = 0; i < plans->count; i++) {
        plan_release(&plans->kept[i].plan);
        free(plans->kept[i].block);
    }
    memset(plans, 0, sizeof *plans);
}
