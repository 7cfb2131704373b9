/* The CUDA kernels, run on the host without a GPU (tests/lib/cuda_on_host), give the contract's
 * bits for random jobs in pieces and parts, whatever the size of the device that the grid is made
 * for. */
#include "gpu/cuda/passes.h"
#include "tests/lib/random_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 3000, BLOCK_JOBS = 150 };

static bool check(struct random *random, const struct job *job)
{
    struct plan plan;
    plan_init(&plan, job);
    const uint64_t bytes = job_bytes(job);
    void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd[AXIS_COUNT], *expected[AXIS_COUNT];
    arrays_make(in, plan.inputs, bytes, 0);
    arrays_make(even, plan.outputs, bytes, 0x5a);
    arrays_make(odd, 1, bytes, 0xa5);
    arrays_make(expected, plan.outputs, bytes, 0);
    for (int i = 0; i < plan.inputs; i++) {
        random_field(random, job, in[i]);
        random_exceptions(random, job, in[i]);
    }
    reference_run(&plan, in, expected);

    struct passes_constants constants;
    const bool in_parts = random_below(random, 2);
    const int slot = (int)random_below(random, PASSES_SLOTS);
    const int units = (int)random_below(random, random_below(random, 2) ? 300 : 1) + 1;
    passes_constants_init(&constants, &plan);
    bool ok = passes_load(slot, &constants, NULL) == cudaSuccess;
    struct launch launch = {.plan = &plan, .odd = odd[0]};
    memcpy(launch.in, in, sizeof in);
    memcpy(launch.even, even, sizeof even);
    while (ok && launch.to < plan.lines * plan.passes) {
        launch.from = launch.to;
        if (plan.passes == 1 && in_parts)
            launch.to = random_part(random, &plan, launch.from);
        else
            launch.to +=
                plan.lines * (1 + random_below(random, plan.passes - launch.to / plan.lines));
        ok = passes_launch(&launch, slot, units, NULL) == cudaSuccess;
    }
    for (int i = 0; ok && i < plan.outputs; i++)
        ok = results_equal(job, plan.passes % 2 == 1 ? even[i] : odd[i], expected[i]);
    if (!ok)
        random_job_print(job);
    arrays_free(in);
    arrays_free(even);
    arrays_free(odd);
    arrays_free(expected);
    return ok;
}

int main(void)
{
    struct random random = random_start();
    int differ = 0;
    for (int i = 0; i < JOBS + BLOCK_JOBS; i++) {
        struct job job;
        do { /* every third a diffusion at least: it has the most kernels */
            if (i < JOBS)
                random_job(&random, i % 10 ? 4000 : 60000, &job);
            else
                random_block_job(&random, i % 10 ? 20000 : 120000, &job);
        } while (i % 3 == 0 && job.operator_id != OPERATOR_DIFFUSION);
        if (i == JOBS) /* in blocks as small as these nothing else would choose it */
            setenv("FDSERVER_KERNELS", "stairs", 1);
        differ += !check(&random, &job);
    }
    printf("%d jobs, %d differ\n", JOBS + BLOCK_JOBS, differ);
    return differ > 0;
}
