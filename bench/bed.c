#include "bench/bed.h"

#include "bench/row.h"
#include "tests/lib/fill.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CHECK_PIECE = 32 << 20 }; /* bytes compared at a time */

/* Different at every point, in [−1, 1). */
static void fill(const struct job *job, void *in)
{
    fill_array((enum dtype)job->dtype, job_points(job), ++bench.key << 40, in);
}

/* Pages that are there already. */
static void *host_memory(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    perror("mmap");
    exit(1);
}

struct launch bed_launch(const struct plan *plan, const struct arrays *arrays)
{
    struct launch launch = {.plan = plan,
                            .odd = arrays->odd,
                            .operands = &arrays->operands,
                            .to = plan->lines * plan->passes};
    memcpy(launch.in, arrays->in, sizeof launch.in);
    memcpy(launch.even, arrays->even, sizeof launch.even);
    memcpy(launch.spare, arrays->spare, sizeof launch.spare);
    return launch;
}

/* The fields that the job reads beside its inputs. A coefficient is in [0.5, 1]. */
static void bed_operands(struct bed *bed)
{
    const struct job *job = bed->job;
    const uint64_t bytes = job_bytes(job);
    const bool has[OPERANDS] = {
        [OPERAND_COEFFICIENT] = job->more.coefficient, [OPERAND_SOURCE] = job->more.source};
    for (int i = 0; i < OPERANDS; i++) {
        if (!has[i])
            continue;
        void *field = bed->host.operands.at[i] = host_memory(bytes);
        fill(job, field);
        for (uint64_t k = 0; i == OPERAND_COEFFICIENT && k < job_points(job); k++)
            if (job->dtype == DTYPE_F32)
                ((float *)field)[k] = 0.5f + 0.5f * fabsf(((float *)field)[k]);
            else
                ((double *)field)[k] = 0.5 + 0.5 * fabs(((double *)field)[k]);
        bed->device.operands.at[i] = bench.runner->allocate(bytes);
        bench.runner->put(bed->device.operands.at[i], field, bytes);
    }
}

void bed_make(struct bed *bed, const struct job *job, const void *block)
{
    const uint64_t bytes = job_bytes(job);
    *bed = (struct bed){.job = job, .checked = bench.cuda && bench.check, .checked_job = *job};
    plan_init(&bed->plan, job, block);
    for (int i = 0; i < bed->plan.inputs; i++) {
        bed->host.in[i] = host_memory(bytes);
        fill(job, bed->host.in[i]);
        bed->device.in[i] = bench.runner->allocate(bytes);
        bench.runner->put(bed->device.in[i], bed->host.in[i], bytes);
    }
    for (int i = 0; i < bed->plan.outputs; i++)
        bed->device.even[i] = bench.runner->allocate(bytes);
    bed_operands(bed);
    if (bed->plan.passes > 1)
        bed->device.odd = bench.runner->allocate(bytes);
    for (int i = 0; i + 1 < bed->plan.staged; i++)
        bed->device.spare[i] = bench.runner->allocate(bytes);
    if (!bed->checked)
        return;
    if (job->steps > CHECK_STEPS)
        bed->checked_job.steps = CHECK_STEPS;
    plan_init(&bed->checked_plan, &bed->checked_job, block);
    for (int i = 0; i < bed->plan.outputs; i++)
        bed->host.even[i] = host_memory(bytes);
    if (bed->plan.passes > 1)
        bed->host.odd = host_memory(bytes);
    for (int i = 0; i + 1 < bed->plan.staged; i++)
        bed->host.spare[i] = host_memory(bytes);
    const struct launch expected = bed_launch(&bed->checked_plan, &bed->host);
    runner_host.run(RUNNER_PRODUCT, &expected);
}

static void free_host_memory(void *memory, uint64_t bytes)
{
    munmap(memory, bytes);
}

static void release_arrays(const struct arrays *arrays, void (*release)(void *, uint64_t),
                           uint64_t bytes)
{
    void *const *all = (void *const *)arrays;
    for (size_t i = 0; i < sizeof *arrays / sizeof *all; i++)
        if (all[i])
            release(all[i], bytes);
}

void bed_free(struct bed *bed)
{
    const uint64_t bytes = job_bytes(bed->job);
    plan_release(&bed->plan);
    if (bed->checked)
        plan_release(&bed->checked_plan);
    release_arrays(&bed->device, bench.runner->release, bytes);
    release_arrays(&bed->host, free_host_memory, bytes);
}

/* As bed_difference(), of two arrays of the job's type. */
static double difference(const struct job *job, const void *device, const uint8_t *expected)
{
    const uint64_t bytes = job_bytes(job), element_bytes = dtype_element_bytes(job->dtype);
    uint8_t *piece = malloc(CHECK_PIECE);
    double most = 0;
    if (!piece)
        exit(1);
    for (uint64_t done = 0; done < bytes; done += CHECK_PIECE) {
        const uint64_t size = bytes - done < CHECK_PIECE ? bytes - done : CHECK_PIECE;
        bench.runner->get(piece, (const uint8_t *)device + done, size);
        if (memcmp(piece, expected + done, size) == 0)
            continue;
        most = fmax(most, DBL_MIN); /* zeros of either sign are equal numbers, not equal bits */
        for (uint64_t i = 0; i < size / element_bytes; i++) {
            const void *a = piece + i * element_bytes, *b = expected + done + i * element_bytes;
            const double d = job->dtype == DTYPE_F32
                                 ? fabs((double)*(const float *)a - *(const float *)b)
                                 : fabs(*(const double *)a - *(const double *)b);
            most = isnan(d) ? INFINITY : fmax(most, d);
        }
    }
    free(piece);
    return most;
}

double bed_difference(const struct bed *bed, int which)
{
    const uint64_t bytes = job_bytes(bed->job);
    const struct launch launch = bed_launch(&bed->checked_plan, &bed->device);
    const bool even = bed->checked_plan.passes % 2 == 1 || bed->checked_plan.staged;
    double most = 0;
    for (int i = 0; i < bed->plan.outputs; i++)
        bench.runner->poison(bed->device.even[i], bytes);
    if (bed->device.odd)
        bench.runner->poison(bed->device.odd, bytes);
    bench.runner->run(which, &launch);
    for (int i = 0; i < bed->plan.outputs; i++)
        most = fmax(most, difference(bed->job, even ? bed->device.even[i] : bed->device.odd,
                                     even ? bed->host.even[i] : bed->host.odd));
    return most;
}
