#include "gpu/worker/plans.h"

#include <stdlib.h>
#include <string.h>

void plans_init(struct plans *plans)
{
    *plans = (struct plans){.count = 0};
    list_init(&plans->kept);
}

static bool is_of(const struct kept_plan *kept, const struct job *job, const void *block)
{
    const uint64_t bytes = job->more.block_bytes;
    return memcmp(&kept->job, job, sizeof *job) == 0 &&
           (bytes == 0 || memcmp(kept->block, block, bytes) == 0);
}

static struct kept_plan *make(const struct job *job, const void *block)
{
    const uint64_t bytes = job->more.block_bytes;
    struct kept_plan *made = malloc(sizeof *made + bytes);
    if (!made || !plan_init(&made->plan, job, block)) {
        free(made);
        return NULL;
    }
    made->job = *job;
    made->users = 1;
    made->bytes = bytes + (made->plan.table ? made->plan.table->bytes : 0);
    if (bytes)
        memcpy(made->block, block, bytes);
    return made;
}

void plans_give(const struct plan *plan)
{
    struct kept_plan *kept = LIST_ENTRY((uintptr_t)plan, struct kept_plan, plan);
    if (--kept->users > 0)
        return;
    plan_release(&kept->plan);
    free(kept);
}

/* Drop the oldest ones until there are no more than so many, of so many bytes. */
static void shrink(struct plans *plans, uint32_t count, uint64_t bytes)
{
    while (plans->count && (plans->count > count || plans->bytes > bytes)) {
        struct kept_plan *kept = LIST_TAKE(&plans->kept, struct kept_plan, link);
        plans->count--;
        plans->bytes -= kept->bytes;
        plans_give(&kept->plan);
    }
}

const struct plan *plans_find(struct plans *plans, const struct job *job, const void *block)
{
    LIST_EACH (struct kept_plan, kept, &plans->kept, link)
        if (is_of(kept, job, block)) {
            kept->users++;
            return &kept->plan;
        }
    return NULL;
}

const struct plan *plans_make(struct plans *plans, const struct job *job, const void *block)
{
    struct kept_plan *made = make(job, block);
    if (!made)
        return NULL;
    shrink(plans, PLANS_KEPT - 1,
           made->bytes < PLANS_KEPT_BYTES ? PLANS_KEPT_BYTES - made->bytes : 0);
    list_push(&plans->kept, &made->link);
    plans->count++;
    plans->bytes += made->bytes;
    made->users++;
    return &made->plan;
}

const struct plan *plans_measure(enum dtype dtype, uint64_t points, bool of_two)
{
    struct kept_plan *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    made->users = 1;
    plan_init_measure(&made->plan, dtype, points, of_two);
    return &made->plan;
}

void plans_free(struct plans *plans)
{
    shrink(plans, 0, 0);
}
