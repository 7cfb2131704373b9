/* Every generation of the host's loops that this processor supports gives the contract's bits for
 * jobs of every family, in slices that begin and end anywhere, streaming or not, and in place. */
#include "base/thread_pool.h"
#include "gpu/host/pass.h"
#include "tests/lib/sample.h"
#include "tests/unit/unit.h"

static const struct {
    enum family family;
    int jobs;
    uint64_t points, many; /* at most; of one job in 50 */
} cases[] = {
    {FAMILY_PLAIN, 600, 12000, 400000},   {FAMILY_TABLE, 600, 3000, 100000},
    {FAMILY_CONDUCTING, 100, 3000, 3000}, {FAMILY_PROBES, 100, 1000, 1000},
    {FAMILY_ADI, 1500, 2000, 60000},      {FAMILY_STENCIL_SIDES, 1500, 600, 6000},
};

static void run_pieces(struct random *random, const struct kernels *kernels, struct trial *trial,
                       uint64_t stream_bytes)
{
    const struct plan *plan = &trial->plan;
    const uint64_t lines = plan->lines * plan->passes;
    const uint64_t grain = plan->engine == PLAN_ADI || plan->probes ? plan->lines : 1;
    for (struct launch *launch = &trial->launch; launch->to < lines;) {
        const uint64_t left = (lines - launch->to) / grain;
        launch->from = launch->to;
        launch->to +=
            grain * (random_below(random, 3) == 0 ? left : 1 + random_below(random, left));
        pass_launch(kernels, launch, stream_bytes);
    }
}

static void check(struct random *random, const struct sample *sample)
{
    const struct kernels *kernels[PASS_KERNELS];
    const int count = pass_kernels(kernels);
    struct trial trial;
    trial_make(&trial, random, sample);
    const int runs = trial.plan.plain ? 3 : 2; /* the third by the table, with the same bits */
    for (int run = 0; run <= runs * count; run++) {
        const struct kernels *by = kernels[run / runs % count];
        trial.plan.plain = runs == 3 && run % runs < 2;
        if (run == runs * count)
            trial_over_input(&trial);
        trial_poison(&trial);
        run_pieces(random, by, &trial, run % runs ? 0 : UINT64_MAX);
        if (!trial_is_right(&trial, by->name))
            fail();
    }
    trial_free(&trial);
}

TEST(loops_give_the_bits_of_the_reference)
{
    struct random random = random_start();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int i = 0; i < cases[c].jobs / ONE_JOB_IN; i++) {
            struct sample sample;
            sample_make(&random, cases[c].family, i % 50 ? cases[c].points : cases[c].many,
                        &sample);
            check(&random, &sample);
            sample_free(&sample);
        }
}

/* The fewest points that closures fit: a row of one side reads the node of the other. */
TEST(shortest_lines_give_the_bits_of_the_reference)
{
    struct random random = random_start();
    for (int i = 0; i < 100000 / ONE_JOB_IN; i++) {
        struct sample sample = {.block = NULL};
        struct job *job = &sample.job;
        job_init(job);
        job->dtype = (uint8_t)(random_below(&random, 2) ? DTYPE_F32 : DTYPE_F64);
        job->axes = 1;
        job->accuracy = (uint8_t)(2 * (1 + random_below(&random, 4)));
        job->order = (uint8_t)(1 + random_below(&random, 2));
        job->n[0] = (uint64_t)job->accuracy + job->order + random_below(&random, 2);
        job->spacing[0] = 0.5;
        for (int s = 0; s < 2; s++)
            job->boundary[0][s] =
                (struct boundary){.kind = (uint32_t)random_below(&random, BOUNDARY_KINDS),
                                  .value = (double)random_below(&random, 2),
                                  .at_face = random_below(&random, 4) == 0};
        if (!job_is_valid(job))
            continue;
        sample_complete(&random, &sample, false);
        check(&random, &sample);
        sample_free(&sample);
    }
}

int main(void)
{
    struct failure failure;
    if (!thread_pool_open(3, &failure))
        return 1;
    return unit_run(NULL, NULL);
}
