#include "tests/lib/sample.h"

#include "tests/lib/random_scheme.h"
#include "tests/lib/random_stencil.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xa5 };

void sample_complete(struct random *random, struct sample *sample, bool probes)
{
    if (probes)
        sample->block = random_probes(random, &sample->job);
    random_operands(random, &sample->job, &sample->operands);
}

void sample_make(struct random *random, enum family family, uint64_t max_points,
                 struct sample *sample)
{
    memset(sample, 0, sizeof *sample);
    switch (family) {
    case FAMILY_STENCIL:
    case FAMILY_STENCIL_SIDES:
        random_stencil(random, max_points,
                       family == FAMILY_STENCIL ? BOUNDARY_NEAREST : BOUNDARY_KINDS, sample);
        return;
    case FAMILY_TABLE:
        random_table_job(random, max_points, &sample->job, &sample->block);
        break;
    case FAMILY_CONDUCTING:
        random_conducting_job(random, max_points, &sample->job, &sample->block);
        break;
    case FAMILY_SCHEME:
    case FAMILY_PROBES:
        random_scheme_job(random, max_points, &sample->job);
        break;
    case FAMILY_ADI:
        random_adi_job(random, max_points, &sample->job);
        break;
    default:
        random_job(random, max_points, &sample->job);
    }
    sample_complete(random, sample, family == FAMILY_PROBES);
}

static void nest(struct random *random, struct job *job)
{
    job->more.scheme = SCHEME_RK4;
    job->accuracy = 2;
    job->steps = 1 + random_below(random, 6);
    for (int a = 0; a < job->axes; a++)
        for (int side = 0; side < SIDE_COUNT; side++)
            if (job->boundary[a][side].kind == BOUNDARY_VALUE)
                job->boundary[a][side].value_array = (uint8_t)random_below(random, NUMBER_KINDS);
}

void sample_block(struct random *random, uint64_t max_points, struct sample *sample)
{
    struct job *job = &sample->job;
    memset(sample, 0, sizeof *sample);
    do {
        random_job(random, max_points, job);
        if (random_below(random, 2))
            nest(random, job);
    } while (job->operator_id != OPERATOR_DIFFUSION || job->axes < AXIS_COUNT ||
             job->n[AXIS_X] < 16 || job->n[AXIS_Y] < 16 || job->n[AXIS_Z] < 16 ||
             !job_is_valid(job));
    sample_complete(random, sample, false);
}

void sample_free(struct sample *sample)
{
    free(sample->block);
    operands_free(&sample->operands);
}

void sample_print(const struct sample *sample)
{
    const struct job *job = &sample->job;
    if (job->operator_id == OPERATOR_STENCIL)
        printf("%" PRIu32 " points, radius %d %d %d (x y z): ", job->more.stencil_points,
               job->more.stencil_radius[AXIS_X], job->more.stencil_radius[AXIS_Y],
               job->more.stencil_radius[AXIS_Z]);
    random_job_print(job);
}

void reference(const struct plan *plan, const struct operands *operands, void *const in[AXIS_COUNT],
               void *const out[AXIS_COUNT])
{
    if (plan->engine == PLAN_STENCIL)
        reference_stencil(plan, operands, in[0], out[0]);
    else
        reference_scheme(plan, operands, in, out);
}

static uint64_t probed_values(const struct job *job)
{
    return job_operand_points(job, OPERAND_PROBES);
}

void trial_make(struct trial *trial, struct random *random, const struct sample *sample)
{
    const struct job *job = &sample->job;
    const uint64_t bytes = job_bytes(job);
    struct plan *plan = &trial->plan;
    memset(trial, 0, sizeof *trial);
    trial->sample = sample;
    if (!plan_init(plan, job, sample->block))
        abort();
    arrays_make(trial->in, plan->inputs, bytes, 0);
    arrays_make(trial->out, plan->outputs, bytes, POISON);
    arrays_make(trial->expected, plan->outputs, bytes, 0);
    arrays_make(trial->scratch, AXIS_COUNT, bytes, POISON);
    for (int c = 0; c < plan->inputs; c++) {
        random_field(random, job, trial->in[c]);
        random_exceptions(random, job, trial->in[c]);
    }
    reference(plan, &sample->operands, trial->in, trial->expected);
    if (probed_values(job)) {
        arrays_make(trial->probed, 1, job_operand_bytes(job, OPERAND_PROBES), 0);
        reference_probes(job, sample->block, &sample->operands, trial->in[0], trial->probed[0]);
    }
    trial->launch = (struct launch){.plan = plan,
                                    .odd = trial->scratch[0],
                                    .spare = {trial->scratch[1], trial->scratch[2]},
                                    .operands = &sample->operands};
    memcpy(trial->launch.in, trial->in, sizeof trial->in);
    memcpy(trial->launch.even, trial->out, sizeof trial->out);
}

void trial_poison(struct trial *trial)
{
    for (int c = 0; c < trial->plan.outputs; c++)
        memset(trial->out[c], POISON, job_bytes(&trial->sample->job));
    for (int c = 0; c < AXIS_COUNT; c++)
        memset(trial->scratch[c], POISON, job_bytes(&trial->sample->job));
    trial->launch.from = trial->launch.to = 0;
}

void trial_over_input(struct trial *trial)
{
    if (trial->plan.staged)
        trial->launch.even[0] = trial->in[0];
    else if (trial->plan.passes > 1)
        trial->launch.odd = trial->in[0];
}

/* The first wrong component. */
static void print_differences(const struct job *job, const char *result, const char *expected)
{
    const uint64_t element = dtype_element_bytes(job->dtype);
    uint64_t wrong = 0, first = 0;
    for (uint64_t i = job_points(job); i-- > 0;)
        if (memcmp(result + i * element, expected + i * element, element) != 0) {
            wrong++;
            first = i;
        }
    printf("%" PRIu64 " of %" PRIu64 " points differ, the first is %" PRIu64 ": ", wrong,
           job_points(job), first);
}

bool probes_equal(const struct job *job, const void *a, const void *b)
{
    struct job values = *job;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        values.n[axis] = 1;
    values.batch = probed_values(job);
    return results_equal(&values, a, b);
}

bool trial_is_right(const struct trial *trial, const char *who)
{
    const struct plan *plan = &trial->plan;
    const struct sample *sample = trial->sample;
    const bool ends_even = plan->staged || plan->passes % 2 == 1;
    bool right = true;
    for (int c = 0; right && c < plan->outputs; c++) {
        const void *result = ends_even ? trial->launch.even[c] : trial->launch.odd;
        right = results_equal(&sample->job, result, trial->expected[c]);
        if (!right) {
            printf("%s: component %d: ", who, c);
            print_differences(&sample->job, result, trial->expected[c]);
        }
    }
    if (right && trial->probed[0]) {
        right = probes_equal(&sample->job, sample->operands.at[OPERAND_PROBES], trial->probed[0]);
        if (!right)
            printf("%s: probes: ", who);
    }
    if (!right)
        sample_print(sample);
    return right;
}

void trial_free(struct trial *trial)
{
    arrays_free(trial->in);
    arrays_free(trial->out);
    arrays_free(trial->expected);
    arrays_free(trial->scratch);
    arrays_free(trial->probed);
    plan_release(&trial->plan);
}
