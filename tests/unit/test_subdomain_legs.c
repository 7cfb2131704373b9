/* A step of scheme adi whose lines go through several subdomains, or of rk4 stage by stage, in legs
 * of a round, has the bits that it has in one piece. */
#include "gpu/host/pass.h"
#include "numerics/job_check.h"
#include "tests/lib/random_scheme.h"
#include "tests/lib/sample.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 600 / ONE_JOB_IN, STAGED_JOBS = 96 / ONE_JOB_IN, SCRATCHES = 3 };

/* A field in subdomains, each of whose arrays begins and ends with ghost planes. */
struct members {
    const struct sample *sample;
    struct decomposition cut;
    uint64_t plane_bytes;
    struct member {
        struct subdomain own;
        char *in, *out, *scratch[SCRATCHES], *operand[OPERAND_PROBES], *probed;
    } at[SUBDOMAINS_MOST];
};

static char *new_array(const struct members *all, const struct member *member)
{
    const uint64_t planes = member->own.end - member->own.begin + 2 * SUBDOMAIN_GHOSTS,
                   bytes = planes * all->plane_bytes;
    char *array = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(array, 0xa5, bytes);
    return array;
}

/* The member's planes of the whole field, and so many ghost planes. */
static void cut_out(const struct members *all, const struct member *member, const char *whole,
                    uint64_t ghosts, char *array)
{
    const int64_t planes = (int64_t)all->cut.planes, period = planes - all->cut.endpoint;
    const int64_t first = (int64_t)(member->own.begin - ghosts),
                  end = (int64_t)(member->own.end + ghosts);
    array += (SUBDOMAIN_GHOSTS - ghosts) * all->plane_bytes;
    for (int64_t at = first; at < end; at++, array += all->plane_bytes) {
        const bool inside = at >= 0 && at < planes;
        const int64_t plane = inside ? at : (at + period) % period;
        if (inside || all->cut.wraps)
            memcpy(array, whole + (uint64_t)plane * all->plane_bytes, all->plane_bytes);
    }
}

static void members_make(struct members *all, const struct sample *sample, const void *in)
{
    const struct job *job = &sample->job;
    all->sample = sample;
    all->plane_bytes = job_bytes(job) / all->cut.planes;
    for (uint32_t i = 0; i < all->cut.count; i++) {
        struct member *member = &all->at[i];
        *member = (struct member){.own = subdomain_of(all->cut.planes, all->cut.count, i)};
        member->in = new_array(all, member);
        member->out = new_array(all, member);
        cut_out(all, member, in, SUBDOMAIN_GHOSTS, member->in);
        for (int k = 0; k < job_scratch(job, false, false); k++)
            member->scratch[k] = new_array(all, member);
        for (int k = 0; k < OPERAND_PROBES; k++)
            if (sample->operands.at[k]) {
                member->operand[k] = new_array(all, member);
                cut_out(all, member, sample->operands.at[k], SUBDOMAIN_GHOSTS, member->operand[k]);
            }
        member->probed = malloc(job_operand_bytes(job, OPERAND_PROBES) + 1);
    }
}

static void members_free(struct members *all)
{
    for (uint32_t i = 0; i < all->cut.count; i++) {
        free(all->at[i].in);
        free(all->at[i].out);
        for (int k = 0; k < SCRATCHES; k++)
            free(all->at[i].scratch[k]);
        for (int k = 0; k < OPERAND_PROBES; k++)
            free(all->at[i].operand[k]);
        free(all->at[i].probed);
    }
}

/* What one member is given before the leg. */
static void receive(struct members *all, uint32_t i, uint64_t leg)
{
    const struct job *job = &all->sample->job;
    const uint64_t element = dtype_element_bytes(job->dtype);
    struct leg_copy copy;
    if (!decomposition_copy(&all->cut, job, i, leg, &copy))
        return;
    for (int k = 0; k < SCRATCHES; k++)
        if (copy.of[k])
            memcpy(all->at[i].scratch[k] + copy.to * element,
                   (copy.of_coefficient ? all->at[copy.from].operand[OPERAND_COEFFICIENT]
                                        : all->at[copy.from].scratch[k]) +
                       copy.at * element,
                   copy.elements * element);
}

/* All members' own planes of that scratch array; −1: of the output. */
static void gather(const struct members *all, int scratch, char *whole)
{
    for (uint32_t i = 0; i < all->cut.count; i++) {
        const struct member *member = &all->at[i];
        const char *array = scratch < 0 ? member->out : member->scratch[scratch];
        memcpy(whole + member->own.begin * all->plane_bytes,
               array + SUBDOMAIN_GHOSTS * all->plane_bytes,
               (member->own.end - member->own.begin) * all->plane_bytes);
    }
}

/* What all are given of the stage that the leg reads. */
static void exchange_stage(struct members *all, uint64_t leg)
{
    const int stage = decomposition_stage(&all->sample->job, leg);
    if (stage < 0)
        return;
    char *const whole = malloc(job_bytes(&all->sample->job));
    gather(all, stage, whole);
    for (uint32_t i = 0; i < all->cut.count; i++)
        cut_out(all, &all->at[i], whole, decomposition_ghosts(&all->cut, 1),
                all->at[i].scratch[stage]);
    free(whole);
}

/* One member's part of the leg number `leg` of the step after `done` others, by these loops. */
static void compute(struct members *all, const struct kernels *kernels, uint32_t i, uint64_t done,
                    uint64_t leg)
{
    const struct sample *sample = all->sample;
    struct member *member = &all->at[i];
    struct subdomain_job part;
    struct plan plan;
    struct operands operands = {{0}};
    if (!decomposition_leg(&all->cut, &sample->job, i, 1, leg, &part))
        return;
    void *block = malloc(part.job.more.block_bytes + 1);
    if (part.job.more.block_bytes)
        decomposition_block(&all->cut, &sample->job, sample->block, i, &part, block);
    assert_true(plan_init(&plan, &part.job, block));
    assert_true(part.leg.from < part.leg.to && part.leg.to <= plan.passes);
    const uint64_t ahead = (SUBDOMAIN_GHOSTS - part.ahead) * all->plane_bytes;
    for (int k = 0; k < OPERAND_PROBES; k++)
        operands.at[k] = job_operand_points(&part.job, k) ? member->operand[k] + ahead : NULL;
    operands.at[OPERAND_PROBES] =
        member->probed + done * sample->job.more.probes * dtype_element_bytes(sample->job.dtype);
    struct launch launch = {.plan = &plan,
                            .in = {member->in + ahead},
                            .even = {member->out + ahead},
                            .odd = member->scratch[0] + ahead,
                            .operands = &operands,
                            .from = part.leg.from * plan.lines,
                            .to = part.leg.to * plan.lines,
                            .leg = part.leg};
    for (int k = 1; k < plan.staged; k++)
        launch.spare[k - 1] = member->scratch[k] + ahead;
    pass_launch(kernels, &launch, UINT64_MAX);
    plan_release(&plan);
    free(block);
}

/* All members' outputs are the next step's inputs. */
static void end_step(struct members *all, char *whole)
{
    gather(all, -1, whole);
    for (uint32_t i = 0; i < all->cut.count; i++)
        cut_out(all, &all->at[i], whole, SUBDOMAIN_GHOSTS, all->at[i].in);
}

/* Each probe's column, of the member that has it. */
static void gather_probes(const struct members *all, char *probed)
{
    const struct sample *sample = all->sample;
    const uint64_t probes = sample->job.more.probes,
                   element = dtype_element_bytes(sample->job.dtype);
    const int64_t *probe = job_block_at(&sample->job, sample->block, BLOCK_PROBES);
    for (uint64_t at = 0; at < (sample->job.steps + 1) * probes; at++) {
        const uint32_t i =
            decomposition_probe(&all->cut, &sample->job, probe + at % probes * (AXIS_COUNT + 1));
        memcpy(probed + at * element, all->at[i].probed + at * element, element);
    }
}

static void check(struct random *random, const struct sample *sample,
                  const struct decomposition *cut)
{
    const struct job *job = &sample->job;
    const struct kernels *kernels[PASS_KERNELS];
    const int count = pass_kernels(kernels);
    struct trial trial;
    struct members all = {.cut = *cut};
    trial_make(&trial, random, sample);
    members_make(&all, sample, trial.in[0]);
    for (uint64_t step = 0; step < job->steps; step++) {
        const struct kernels *by = kernels[random_below(random, (uint64_t)count)];
        for (uint64_t leg = 0; leg < all.cut.legs; leg++) {
            exchange_stage(&all, leg);
            for (uint32_t i = 0; i < all.cut.count; i++)
                receive(&all, i, leg);
            for (uint32_t i = 0; i < all.cut.count; i++)
                compute(&all, by, i, step, leg);
        }
        end_step(&all, trial.out[0]);
        all.cut.imposed = true;
    }
    if (job->more.probes)
        gather_probes(&all, sample->operands.at[OPERAND_PROBES]);
    if (!trial_is_right(&trial, "subdomains"))
        fail_msg("%u subdomains along %d, %llu chunks", cut->count, cut->axis,
                 (unsigned long long)cut->chunks);
    members_free(&all);
    trial_free(&trial);
}

/* A job that can be cut, of so many planes or more; one of rk4 may have an end point there. */
static void random_cut_job(struct random *random, enum scheme scheme, uint64_t planes,
                           struct job *job)
{
    do {
        do
            random_scheme_job(random, 300, job);
        while (job->more.scheme != scheme);
        if (scheme == SCHEME_RK4)
            job->accuracy = (uint8_t)(2 + 2 * random_below(random, 5));
        if (scheme == SCHEME_RK4 && random_below(random, 2))
            for (int side = 0; side < SIDE_COUNT; side++)
                job->boundary[job->axes - 1][side] = (struct boundary){.kind = BOUNDARY_ENDPOINT};
        job->batch = 1;
        job->steps = 1 + random_below(random, 3);
        job->n[job->axes - 1] = planes + random_below(random, 60);
        for (int a = 0; a < job->axes; a++)
            for (int side = 0; side < SIDE_COUNT; side++)
                job->boundary[a][side].value_array = job->boundary[a][side].constant_array = 0;
    } while (!job_is_valid(job));
}

/* Lines go in more chunks than their number asks for: each of a wave is in another subdomain. */
TEST(lines_through_subdomains_have_the_bits_of_whole_ones)
{
    struct random random = random_start();
    int corners = 0, endpoints = 0, fields = 0;
    for (int done = 0; done < JOBS; done++) {
        const uint32_t count = 2 + (uint32_t)random_below(&random, 4);
        struct sample sample = {0};
        struct decomposition cut;
        struct failure failure = {0};
        random_cut_job(&random, SCHEME_ADI, count * SUBDOMAIN_PLANES, &sample.job);
        sample_complete(&random, &sample, random_below(&random, 2));
        const struct job *job = &sample.job;
        const uint64_t planes = job->n[job->axes - 1], points = job_points(job) / planes;
        assert_true(decompose(job, planes, count, &cut, &failure));
        assert_true(cut.chunks == 1 && cut.legs == (cut.wraps ? 4 : 2) + 2 * count);
        cut.chunks = 1 + random_below(&random, points < 7 ? points : 7);
        cut.legs += 2 * (cut.chunks - 1);
        check(&random, &sample, &cut);
        corners += cut.wraps && !cut.endpoint;
        endpoints += cut.endpoint;
        fields += cut.endpoint && job->more.coefficient;
        sample_free(&sample);
    }
    print_message("%d jobs: %d around, %d with an end point, %d of them of a field\n", JOBS,
                  corners, endpoints, fields);
    assert_true(ONE_JOB_IN > 1 || (corners && endpoints && fields)); /* few may have none */
}

/* Where its four stages reach over more ghost planes than there are, or beyond an end point. */
TEST(steps_of_rk4_go_through_subdomains_by_stages)
{
    struct random random = random_start();
    int far = 0, endpoints = 0, fields = 0;
    for (int done = 0; done < STAGED_JOBS;) {
        const uint32_t count = 2 + (uint32_t)random_below(&random, 4);
        struct sample sample = {0};
        struct decomposition cut;
        struct failure failure = {0};
        random_cut_job(&random, SCHEME_RK4, count * SUBDOMAIN_PLANES, &sample.job);
        sample_complete(&random, &sample, random_below(&random, 2));
        const struct job *job = &sample.job;
        if (decompose(job, job->n[job->axes - 1], count, &cut, &failure) && cut.legs > 1) {
            assert_true(cut.legs == 4 && cut.round == 1);
            assert_true(cut.width <= 5 || cut.width == SUBDOMAIN_GHOSTS); /* for thick closures */
            check(&random, &sample, &cut);
            far += cut.width == 5;
            endpoints += cut.endpoint;
            fields += job->more.coefficient;
            done++;
        }
        sample_free(&sample);
    }
    print_message("%d jobs: %d reach far, %d with an end point, %d of a field\n", STAGED_JOBS, far,
                  endpoints, fields);
    assert_true(ONE_JOB_IN > 1 || (far && endpoints && fields));
}

/* Planes of many points go in as many chunks as there are members, no more. */
TEST(large_planes_go_in_chunks)
{
    struct job job;
    struct decomposition cut;
    struct failure failure = {0};
    job_init(&job);
    job.operator_id = OPERATOR_DIFFUSION;
    job.order = job.accuracy = job.axes = 2;
    job.more.scheme = SCHEME_ADI;
    job.spacing[AXIS_Y] = job.diffusivity[AXIS_X] = job.diffusivity[AXIS_Y] = job.dt = 1;
    job.n[AXIS_Y] = 100;
    const uint64_t points[] = {4095, 8191, 8192, 12288, 1 << 20}, chunks[] = {1, 1, 2, 3, 3};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        job.n[AXIS_X] = points[i];
        assert_true(decompose(&job, 100, 3, &cut, &failure));
        assert_int_equal(cut.chunks, chunks[i]);
        assert_int_equal(cut.legs, 4 + 2 * (chunks[i] + 2));
    }
}
