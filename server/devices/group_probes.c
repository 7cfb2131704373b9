#include "server/devices/group_run.h"

#include <string.h>

/* Of rows that are gathered at once, at most: others wait while the front copies them. A slab has
 * as many bytes, or more, and a row has fewer. */
enum { GATHERED_BYTES = 1 << 16 };

/* The array of the values; NULL: the run has no probes. */
static struct field *array_of(const struct group_run *run)
{
    return run->operand[OPERAND_PROBES];
}

static uint64_t row_bytes(const struct group_run *run)
{
    return run->order->job->more.probes * dtype_element_bytes(run->order->job->dtype);
}

uint64_t group_probes_before(const struct group_run *run)
{
    return array_of(run) ? run->done * row_bytes(run) : 0;
}

bool group_probes_arrive(const struct group_run *run)
{
    return array_of(run) && array_of(run)->copies;
}

static void release_slabs(struct group_run *run)
{
    struct arena *arena = &run->device->devices->arena;
    for (int i = 0; i < PROBES_SLABS; i++)
        if (run->probes.slab[i])
            device_release_slab(arena, run->probes.slab[i]);
    memset(run->probes.slab, 0, sizeof run->probes.slab);
}

void group_probes_cancel(struct group_run *run)
{
    if (list_empty(&run->probes.waiter.link))
        return;
    arena_forget(&run->probes.waiter);
    run->under_way--;
}

/* The next of the member's probes, from number k on; how many the job has: there is none. */
static uint32_t next_probe(const struct group_run *run, uint32_t k)
{
    const struct job *job = run->order->job;
    const int64_t *probe = job_block_at(job, run->order->block, BLOCK_PROBES);
    while (k < job->more.probes &&
           run->probes.member !=
               decomposition_probe(&run->cut, job, probe + (uint64_t)k * (AXIS_COUNT + 1)))
        k++;
    return k;
}

/* Of the rows that came from a member, the columns of its own probes. */
static void copy_columns(struct group_run *run)
{
    const struct group_probes *probes = &run->probes;
    const struct arena *arena = &run->device->devices->arena;
    const uint64_t element = dtype_element_bytes(run->order->job->dtype);
    const uint64_t row = row_bytes(run), bytes = probes->rows * row;
    const uint8_t *from = arena_memory(arena, probes->slab[PROBES_FROM]);
    uint8_t *to = arena_memory_to_write(arena, probes->slab[PROBES_TO], bytes);
    for (uint32_t k = next_probe(run, 0); k < run->order->job->more.probes;
         k = next_probe(run, k + 1))
        for (uint64_t at = k * element; at < bytes; at += row)
            memcpy(to + at, from + at, element);
}

/* All slabs at once: runs that hold one do not wait for another. False: it waits for them. */
static bool take_slabs(struct group_run *run)
{
    struct arena *arena = &run->device->devices->arena;
    struct group_probes *probes = &run->probes;
    const uint64_t most = GATHERED_BYTES / row_bytes(run),
                   left = run->order->job->steps + 1 - probes->row;
    if (!arena_take(arena, run->order->user, SHARE_UPLOAD, PROBES_SLABS, probes->slab)) {
        arena_wait(arena, &probes->waiter);
        return false;
    }
    probes->rows = left < most ? left : most;
    probes->member = 0;
    return true;
}

static void on_rows(struct slab *slab, void *context, bool ok);

/* Ask the next member for the rows; if there is none, they are complete, and others follow. */
static void gather(struct group_run *run)
{
    struct group_probes *probes = &run->probes;
    struct field *array = array_of(run);
    const uint64_t row = row_bytes(run), all = run->order->job->steps + 1;
    while (probes->row < all) {
        if (!probes->slab[PROBES_TO] && !take_slabs(run))
            return;
        while (probes->member < run->cut.count &&
               next_probe(run, 0) == run->order->job->more.probes)
            probes->member++;
        if (probes->member < run->cut.count) {
            device_download(array->parts->at[probes->member], probes->row * row,
                            probes->slab[PROBES_FROM], probes->rows * row, on_rows, run);
            return;
        }
        device_upload(array, probes->row * row, probes->slab[PROBES_TO], probes->rows * row);
        probes->slab[PROBES_TO] = NULL;
        probes->row += probes->rows;
        release_slabs(run);
    }
    run->under_way--;
}

static void on_rows(struct slab *slab, void *context, bool ok)
{
    struct group_run *run = context;
    (void)slab;
    if (!ok)
        group_run_fail(run, STATUS_OUT_OF_MEMORY);
    if (run->order && run->status == STATUS_OK) {
        copy_columns(run);
        run->probes.member++;
        gather(run);
    } else {
        release_slabs(run);
        run->under_way--;
    }
    group_settle(run->device);
}

/* A run that fails meanwhile has been taken off the queue. */
static void on_slabs(struct slab_waiter *waiter)
{
    gather(LIST_ENTRY(waiter, struct group_run, probes.waiter));
}

bool group_probes_gather(struct group_run *run)
{
    if (!array_of(run))
        return false;
    run->phase = GROUP_GATHERING;
    run->under_way++;
    run->probes.waiter = (struct slab_waiter){
        .user = run->order->user, .share = SHARE_UPLOAD, .count = PROBES_SLABS, .ready = on_slabs};
    gather(run);
    return true;
}
