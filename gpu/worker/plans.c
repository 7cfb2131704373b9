#include "gpu/worker/plans.h"

#include <stdlib.h>
#include <string.h>

/* From the oldest, 0, on. */
static struct kept_plan *at(struct plans *plans, uint32_t i)
{
    return &plans->kept[(plans->oldest + i) % PLANS_KEPT];
}

static bool is_of(const struct kept_plan *kept, const struct job *job, const void *block)
{
    const uint64_t bytes = job->more.block_bytes;
    return memcmp(&kept->job, job, sizeof *job) == 0 &&
           (bytes == 0 || memcmp(kept->block, block, bytes) == 0);
}

static uint64_t plan_bytes_of(const struct kept_plan *kept)
{
    return kept->job.more.block_bytes + (kept->plan.table ? kept->plan.table->bytes : 0);
}

static void drop_oldest_plan(struct plans *plans)
{
    struct kept_plan *kept = at(plans, 0);
    plans->bytes -= plan_bytes_of(kept);
    plan_release(&kept->plan);
    free(kept->block);
    plans->oldest = (plans->oldest + 1) % PLANS_KEPT;
    plans->count--;
}

static bool make(struct kept_plan *made, const struct job *job, const void *block)
{
    const uint64_t bytes = job->more.block_bytes;
    made->job = *job;
    made->block = bytes ? malloc(bytes) : NULL;
    if ((bytes && !made->block) || !plan_init(&made->plan, job, block)) {
        free(made->block);
        return false;
    }
    if (bytes)
        memcpy(made->block, block, bytes);
    return true;
}

const struct plan *plans_get(struct plans *plans, const struct job *job, const void *block)
{
    struct kept_plan made;
    for (uint32_t i = 0; i < plans->count; i++)
        if (is_of(at(plans, i), job, block))
            return &at(plans, i)->plan;
    if (!make(&made, job, block))
        return NULL;
    const uint64_t bytes = plan_bytes_of(&made);
    while (plans->count == PLANS_KEPT || (plans->count && plans->bytes + bytes > PLANS_KEPT_BYTES))
        drop_oldest_plan(plans);
    struct kept_plan *kept = at(plans, plans->count++);
    *kept = made;
    plans->bytes += bytes;
    return &kept->plan;
}

void plans_free(struct plans *plans)
{
    while (plans->count)
        drop_oldest_plan(plans);
}
