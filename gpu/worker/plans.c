#include "gpu/worker/plans.h"

#include <stdlib.h>
#include <string.h>

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
    made->slice = 0;
    made->bytes = bytes + (made->plan.table ? made->plan.table->bytes : 0);
    if (bytes)
        memcpy(made->block, block, bytes);
    return made;
}

static struct kept_plan *kept_of(const struct plan *plan)
{
    return LIST_ENTRY((uintptr_t)plan, struct kept_plan, plan);
}

uint64_t plans_slice(const struct plan *plan)
{
    return kept_of(plan)->slice;
}

void plans_learn(const struct plan *plan, uint64_t slice)
{
    kept_of(plan)->slice = slice;
}

void plans_give(const struct plan *plan)
{
    struct kept_plan *kept = kept_of(plan);
    if (--kept->users > 0)
        return;
    plan_release(&kept->plan);
    free(kept);
}

static void drop(struct plans *plans, struct kept_plan *kept)
{
    list_remove(&kept->link);
    plans->count--;
    plans->bytes -= kept->bytes;
    plans_give(&kept->plan);
}

/* Of the owner that has most, in number or in bytes, the one unused for longest; not the newest. */
static struct kept_plan *surplus(struct plans *plans, const struct kept_plan *newest, bool in_bytes)
{
    struct {
        struct kept_plan *last;
        uint64_t sum;
    } of[PLANS_KEPT + 1], *most = NULL;
    int owners = 0;
    LIST_EACH (struct kept_plan, kept, &plans->kept, link) {
        int i = 0;
        while (i < owners && of[i].last->owner != kept->owner)
            i++;
        if (i == owners)
            of[owners++].sum = 0;
        of[i].last = kept;
        of[i].sum += in_bytes ? kept->bytes : 1;
    }
    for (int i = 0; i < owners; i++)
        if (of[i].last != newest && (!most || of[i].sum >= most->sum))
            most = &of[i];
    return most->last;
}

const struct plan *plans_find(struct plans *plans, const struct job *job, const void *block)
{
    LIST_EACH (struct kept_plan, kept, &plans->kept, link)
        if (is_of(kept, job, block)) {
            list_remove(&kept->link);
            list_push_front(&plans->kept, &kept->link);
            kept->users++;
            return &kept->plan;
        }
    return NULL;
}

const struct plan *plans_make(struct plans *plans, uint64_t owner, const struct job *job,
                              const void *block)
{
    struct kept_plan *made = make(job, block);
    if (!made)
        return NULL;
    made->owner = owner;
    made->users++;
    list_push_front(&plans->kept, &made->link);
    plans->count++;
    plans->bytes += made->bytes;
    while (plans->count > PLANS_KEPT)
        drop(plans, surplus(plans, made, false));
    while (plans->bytes - made->bytes > PLANS_KEPT_BYTES)
        drop(plans, surplus(plans, made, true));
    return &made->plan;
}

const struct plan *plans_measure(enum dtype dtype, uint64_t points, int inputs)
{
    struct kept_plan *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    made->users = 1;
    made->slice = 0;
    plan_init_measure(&made->plan, dtype, points, inputs);
    return &made->plan;
}

void plans_free(struct plans *plans)
{
    LIST_EACH (struct kept_plan, kept, &plans->kept, link)
        drop(plans, kept);
}
