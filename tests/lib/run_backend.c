#include "tests/lib/run_backend.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { POISON = 0xa5, OWNER = 1 };

bool bed_open(struct bed *bed, const struct backend *backend, int index, size_t arena_bytes,
              struct failure *failure)
{
    memset(bed, 0, sizeof *bed);
    bed->backend = backend;
    bed->arena_bytes = arena_bytes;
    bed->arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bed->arena == MAP_FAILED)
        return failure_set(failure, STATUS_INTERNAL, NULL, "no memory for the arena");
    return backend->open(index, bed->arena, arena_bytes, &bed->info, failure);
}

void bed_close(struct bed *bed)
{
    bed->backend->close();
    munmap(bed->arena, bed->arena_bytes);
}

/* Wait for one token; there is never another under way here. */
static struct completion wait_for(struct bed *bed, uint64_t token)
{
    struct completion completion;
    struct pollfd wake = {.fd = bed->backend->wake_descriptor(), .events = POLLIN};
    while (bed->backend->reap(&completion, 1) == 0)
        poll(&wake, 1, 100);
    if (completion.token != token) {
        fprintf(stderr, "a completion nobody waits for\n");
        abort();
    }
    return completion;
}

static size_t piece_of(const struct bed *bed, uint64_t bytes, uint64_t done)
{
    return bytes - done < bed->arena_bytes ? (size_t)(bytes - done) : bed->arena_bytes;
}

static void upload(struct bed *bed, uint8_t *device, const uint8_t *in, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += piece_of(bed, bytes, done)) {
        const size_t piece = piece_of(bed, bytes, done);
        if (in)
            memcpy(bed->arena, in + done, piece);
        else if (!done)
            memset(bed->arena, POISON, piece);
        bed->backend->upload(device + done, bed->arena, piece, 1);
        wait_for(bed, 1);
    }
}

static void download(struct bed *bed, uint8_t *out, const uint8_t *device, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += piece_of(bed, bytes, done)) {
        const size_t piece = piece_of(bed, bytes, done);
        bed->backend->download(bed->arena, device + done, piece, 2);
        wait_for(bed, 2);
        memcpy(out + done, bed->arena, piece);
    }
}

bool bed_run(struct bed *bed, const struct job *job, const void *in, void *out,
             uint64_t passes_a_launch, uint64_t *device_us)
{
    const struct backend *backend = bed->backend;
    const uint64_t bytes = job_bytes(job);
    struct plan *plan = malloc(sizeof *plan);
    if (!plan)
        abort();
    plan_init(plan, job);
    uint8_t *memory[3] = {0}; /* in, even, odd */
    const int arrays = plan->passes > 1 ? 3 : 2;
    bool ok = true;
    for (int i = 0; i < arrays; i++)
        ok = (memory[i] = backend->allocate(bytes, OWNER)) && ok;
    if (ok) {
        upload(bed, memory[0], in, bytes);
        for (int i = 1; i < arrays; i++)
            upload(bed, memory[i], NULL, bytes);
        const uint64_t total = plan->lines * plan->passes;
        const uint64_t step = passes_a_launch ? plan->lines * passes_a_launch : total;
        struct launch launch = {
            .plan = plan, .in = {memory[0]}, .even = {memory[1]}, .odd = memory[2], .to = 0};
        uint64_t us = 0;
        while (launch.to < total) {
            launch.from = launch.to;
            launch.to = total - launch.from < step ? total : launch.from + step;
            backend->launch(&launch, 3);
            us += wait_for(bed, 3).device_us;
        }
        if (device_us)
            *device_us = us;
        download(bed, out, plan->passes % 2 == 1 ? memory[1] : memory[2], bytes);
    }
    for (int i = 0; i < arrays; i++)
        if (memory[i])
            backend->release(memory[i], bytes, OWNER);
    free(plan);
    return ok;
}

static void wait_for_all(struct bed *bed, uint64_t count)
{
    struct completion completions[16];
    struct pollfd wake = {.fd = bed->backend->wake_descriptor(), .events = POLLIN};
    for (;;) {
        count -= (uint64_t)bed->backend->reap(completions, 16);
        if (count == 0)
            return;
        poll(&wake, 1, 100);
    }
}

bool bed_run_together(struct bed *bed, const struct bed_job *jobs, uint64_t count)
{
    const struct backend *backend = bed->backend;
    struct together {
        struct plan plan;
        uint8_t *memory[3]; /* in, even, odd */
    } *all = calloc(count, sizeof *all);
    if (!all)
        abort();
    bool ok = true;
    for (uint64_t i = 0; i < count; i++) {
        plan_init(&all[i].plan, &jobs[i].job);
        for (int m = 0; m < 3; m++) /* each job another owner: memory comes cleared */
            ok = (all[i].memory[m] = backend->allocate(job_bytes(&jobs[i].job), i)) && ok;
    }
    uint64_t place = 0;
    for (uint64_t i = 0; ok && i < count; i++) {
        const uint64_t bytes = job_bytes(&jobs[i].job);
        if (bytes > bed->arena_bytes - place)
            abort();
        memcpy(bed->arena + place, jobs[i].in, bytes);
        backend->upload(all[i].memory[0], bed->arena + place, bytes, 1);
        const struct launch launch = {.plan = &all[i].plan,
                                      .in = {all[i].memory[0]},
                                      .even = {all[i].memory[1]},
                                      .odd = all[i].memory[2],
                                      .to = all[i].plan.lines * all[i].plan.passes};
        backend->launch(&launch, 2);
        place += bytes;
    }
    if (ok)
        wait_for_all(bed, 2 * count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t bytes = job_bytes(&jobs[i].job);
        if (ok)
            download(bed, jobs[i].out, all[i].memory[all[i].plan.passes % 2 == 1 ? 1 : 2], bytes);
        for (int m = 0; m < 3; m++)
            if (all[i].memory[m])
                backend->release(all[i].memory[m], bytes, i);
    }
    free(all);
    return ok;
}
