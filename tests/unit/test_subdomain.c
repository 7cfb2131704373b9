/* A job that is carried out in subdomains, with its ghost planes exchanged between rounds of steps,
 * has the bits that it has in one piece. */
#include "numerics/subdomain.h"

#include "numerics/job_check.h"
#include "numerics/measure.h"
#include "tests/lib/random_scheme.h"
#include "tests/lib/sample.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 150 / ONE_JOB_IN, DRAWS = 4000 };

static const struct {
    enum family family;
    uint64_t points;
} cases[] = {{FAMILY_PLAIN, 6000},  {FAMILY_TABLE, 4000},   {FAMILY_CONDUCTING, 4000},
             {FAMILY_SCHEME, 4000}, {FAMILY_STENCIL, 2000}, {FAMILY_STENCIL_SIDES, 2000},
             {FAMILY_PROBES, 2000}};

/* The field's plane that lies at a place of a subdomain's array. */
static uint64_t plane_at(const struct decomposition *cut, int64_t at)
{
    const int64_t planes = (int64_t)cut->planes, period = planes - cut->endpoint;
    return at >= 0 && at < planes ? (uint64_t)at : (uint64_t)((at % period + period) % period);
}

/* The planes of a subdomain's job, out of an array of the whole field; `planes` of them. */
static void *cut_out(const struct decomposition *cut, const struct subdomain_job *part, uint32_t i,
                     const void *whole, uint64_t plane_bytes, uint64_t planes)
{
    const struct subdomain own = subdomain_of(cut->planes, cut->count, i);
    char *array = aligned_alloc(64, (planes * plane_bytes + 63) / 64 * 64);
    for (uint64_t p = 0; p < planes; p++) {
        const int64_t at = (int64_t)own.begin - (int64_t)part->ahead + (int64_t)p;
        memcpy(array + p * plane_bytes, (const char *)whole + plane_at(cut, at) * plane_bytes,
               plane_bytes);
    }
    return array;
}

/* The values of its own probes, to their columns of the rows of this round. */
static void probe_part(const struct decomposition *cut, const struct sample *sample, uint32_t i,
                       const struct job *part, const void *block, const struct operands *operands,
                       void *in, char *rows)
{
    const struct job *job = &sample->job;
    const uint64_t probes = job->more.probes, element = dtype_element_bytes(job->dtype);
    const int64_t *probe = job_block_at(job, sample->block, BLOCK_PROBES);
    char *values = malloc(job_operand_points(part, OPERAND_PROBES) * element);
    struct failure failure = {0};
    assert_true(part->more.probes == probes && job_check_block(part, block, &failure));
    reference_probes(part, block, operands, in, values);
    for (uint64_t at = 0; at < (part->steps + 1) * probes; at++)
        if (decomposition_probe(cut, job, probe + at % probes * (AXIS_COUNT + 1)) == i)
            memcpy(rows + at * element, values + at * element, element);
    free(values);
}

/* An operand of the subdomain's job: its planes of one that is cut, or the whole; NULL: its job has
 * none such. */
static void *operand_of(const struct decomposition *cut, const struct sample *sample,
                        const struct subdomain_job *part, uint32_t i, int operand)
{
    void *whole = sample->operands.at[operand];
    if (operand == OPERAND_PROBES || !job_operand_points(&part->job, operand))
        return NULL;
    assert_true(subdomain_cuts(&sample->job, operand) == subdomain_cuts(&part->job, operand));
    if (!subdomain_cuts(&sample->job, operand))
        return whole;
    const uint64_t bytes = job_operand_bytes(&sample->job, operand) / cut->planes,
                   plane_bytes = job_bytes(&sample->job) / cut->planes;
    assert_int_equal(subdomain_operand_bytes(&part->job, operand, 3 * plane_bytes), 3 * bytes);
    return cut_out(cut, part, i, whole, bytes, job_operand_bytes(&part->job, operand) / bytes);
}

/* One round of a subdomain's: its own planes of the results, and its probes. */
static void run_part(const struct decomposition *cut, const struct sample *sample, uint32_t i,
                     uint64_t steps, void *const in[AXIS_COUNT], void *const out[AXIS_COUNT],
                     char *rows)
{
    const struct job *job = &sample->job;
    const uint64_t plane_bytes = job_bytes(job) / cut->planes;
    const struct subdomain own = subdomain_of(cut->planes, cut->count, i);
    struct subdomain_job part;
    decomposition_job(cut, job, i, steps, &part);
    void *block = malloc(part.job.more.block_bytes + 1);
    decomposition_block(cut, job, sample->block, i, &part, block);
    struct plan plan;
    assert_true(plan_init(&plan, &part.job, block));

    const uint64_t planes = job_bytes(&part.job) / plane_bytes;
    void *from[AXIS_COUNT] = {0}, *to[AXIS_COUNT];
    struct operands operands = {{0}};
    for (int c = 0; c < job_inputs(job); c++)
        from[c] = cut_out(cut, &part, i, in[c], plane_bytes, planes);
    for (int k = 0; k < OPERANDS; k++)
        operands.at[k] = operand_of(cut, sample, &part, i, k);
    arrays_make(to, job_outputs(job), job_bytes(&part.job), 0xa5);
    reference(&plan, &operands, from, to);
    if (job->more.probes)
        probe_part(cut, sample, i, &part.job, block, &operands, from[0], rows);
    for (int c = 0; c < job_outputs(job); c++)
        memcpy((char *)out[c] + own.begin * plane_bytes, (char *)to[c] + part.ahead * plane_bytes,
               (own.end - own.begin) * plane_bytes);
    arrays_free(to);
    for (int c = 0; c < AXIS_COUNT; c++)
        free(from[c]);
    for (int k = 0; k < OPERANDS; k++)
        if (operands.at[k] != sample->operands.at[k])
            free(operands.at[k]);
    plan_release(&plan);
    free(block);
}

static void check(struct random *random, const struct sample *sample, struct decomposition *cut)
{
    const struct job *job = &sample->job;
    struct trial trial;
    trial_make(&trial, random, sample);
    trial_poison(&trial);
    void *const *in = trial.in;
    const uint64_t row_bytes = job->more.probes * dtype_element_bytes(job->dtype);
    char *const probed = malloc((job->steps + 1) * row_bytes + 1);
    for (uint64_t left = job->steps; left > 0;) {
        const uint64_t most = left < cut->round ? left : cut->round;
        const uint64_t steps = 1 + random_below(random, most);
        void *out[AXIS_COUNT];
        arrays_make(out, job_outputs(job), job_bytes(job), 0x5a);
        for (uint32_t i = 0; i < cut->count; i++)
            run_part(cut, sample, i, steps, in, out, probed + (job->steps - left) * row_bytes);
        for (int c = 0; c < job_outputs(job); c++)
            memcpy(trial.out[c], out[c], job_bytes(job));
        arrays_free(out);
        in = trial.out;
        left -= steps;
        cut->imposed = job->operator_id == OPERATOR_DIFFUSION && random_below(random, 4);
    }
    bool right = !row_bytes || probes_equal(job, probed, trial.probed[0]);
    for (int c = 0; c < job_outputs(job); c++)
        right = right && results_equal(job, trial.out[c], trial.expected[c]);
    free(probed);
    if (!right) {
        sample_print(sample);
        fail_msg("%u subdomains along %d, width %llu, rounds of %llu", cut->count, cut->axis,
                 (unsigned long long)cut->width, (unsigned long long)cut->round);
    }
    trial_free(&trial);
}

/* A batch of small fields, whose operands are made anew. */
static void sample_batch(struct random *random, enum family family, struct sample *sample)
{
    sample_make(random, family, 100, sample);
    operands_free(&sample->operands);
    sample->job.batch = 34 + random_below(random, 40);
    sample_complete(random, sample, false);
}

static bool has_faces(const struct job *job)
{
    uint64_t points = 0;
    for (int i = OPERAND_VALUE; i < OPERANDS; i++)
        points += job_operand_points(job, i);
    return points > 0;
}

TEST(subdomains_give_the_bits_of_the_whole_field)
{
    struct random random = random_start();
    int done[sizeof cases / sizeof *cases][2] = {{0}}, faces[2] = {0}, wholes = 0, thin = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int draw = 0; draw < DRAWS && done[c][0] + done[c][1] < JOBS; draw++) {
            struct sample sample;
            if (cases[c].family <= FAMILY_SCHEME && draw % 8 == 0)
                sample_batch(&random, cases[c].family, &sample);
            else
                sample_make(&random, cases[c].family, cases[c].points, &sample);
            const struct job *job = &sample.job;
            const uint64_t planes = job->batch > 1 ? job->batch : job->n[job->axes - 1];
            const uint32_t count = 2 + (uint32_t)random_below(&random, 3);
            struct decomposition cut;
            struct failure failure = {0};
            const bool fits = subdomain_fits(planes, count);
            assert_int_equal(decompose(job, planes, count, &cut, &failure), fits);
            thin += fits && cut.axis != AXIS_COUNT && cut.width == SUBDOMAIN_GHOSTS;
            if (fits && cut.legs == 1) {
                check(&random, &sample, &cut);
                done[c][cut.axis == AXIS_COUNT]++;
                faces[cut.axis == AXIS_COUNT] += has_faces(job);
                wholes += cut.wraps && job->more.coordinates >> (job->axes - 1) & 1;
            }
            sample_free(&sample);
        }
        print_message("family %d: %d jobs cut along space, %d along the batch\n",
                      (int)cases[c].family, done[c][0], done[c][1]);
        assert_true(done[c][0] + done[c][1] > 0);
    }
    print_message("with arrays over faces: %d, and %d\n", faces[0], faces[1]);
    print_message("cut along periodic coordinates: %d, with all ghost planes: %d\n", wholes, thin);
    assert_true(ONE_JOB_IN > 1 ||
                (faces[0] > 0 && faces[1] > 0 && wholes > 0)); /* few may have none */
}

/* Own planes, and the edges among them, are the subdomain's. */
static void check_own(const struct decomposition *cut, const struct job *job)
{
    for (uint32_t i = 0; i < cut->count; i++) {
        const struct subdomain own = subdomain_of(cut->planes, cut->count, i);
        struct subdomain_job part;
        decomposition_job(cut, job, i, 1, &part);
        assert_int_equal(part.own.begin, part.ahead);
        assert_int_equal(part.own.end - part.own.begin, own.end - own.begin);
        for (int side = 0; side < SIDE_COUNT; side++)
            assert_int_equal(part.own.edge[side],
                             decomposition_cuts(cut, i, side) ? SUBDOMAIN_EDGE : 0);
    }
}

/* A subdomain's planes of a round, the ghost planes of whose input hold anything: those beside no
 * cut have the bits that they have with the neighbours'. */
static void check_others(const struct sample *sample, const struct decomposition *cut, uint32_t i,
                         const void *whole)
{
    const struct job *job = &sample->job;
    const uint64_t plane_bytes = job_bytes(job) / cut->planes;
    const struct operands none = {{0}};
    struct subdomain_job part;
    decomposition_job(cut, job, i, cut->round, &part);
    const struct own_planes *own = &part.own;
    void *block = malloc(part.job.more.block_bytes + 1);
    decomposition_block(cut, job, sample->block, i, &part, block);
    struct plan plan;
    assert_true(plan_init(&plan, &part.job, block));
    const uint64_t bytes = job_bytes(&part.job), planes = bytes / plane_bytes,
                   low = own->begin + own->edge[SIDE_LOW], high = own->end - own->edge[SIDE_HIGH];
    void *in[AXIS_COUNT] = {cut_out(cut, &part, i, whole, plane_bytes, planes)}, *right[AXIS_COUNT],
         *blind[AXIS_COUNT];
    arrays_make(right, 1, bytes, 0xa5);
    arrays_make(blind, 1, bytes, 0x5a);
    reference(&plan, &none, in, right);
    memset(in[0], 0x7f, own->begin * plane_bytes);
    memset((char *)in[0] + own->end * plane_bytes, 0x7f, (planes - own->end) * plane_bytes);
    reference(&plan, &none, in, blind);
    assert_true(low < high);
    assert_memory_equal((char *)right[0] + low * plane_bytes, (char *)blind[0] + low * plane_bytes,
                        (high - low) * plane_bytes);
    arrays_free(right);
    arrays_free(blind);
    free(in[0]);
    plan_release(&plan);
    free(block);
}

/* Of all subdomains, once values are imposed. */
static void check_ghosts(struct random *random, const struct sample *sample,
                         struct decomposition *cut)
{
    struct trial trial;
    trial_make(&trial, random, sample);
    cut->imposed = true;
    for (uint32_t i = 0; i < cut->count; i++)
        check_others(sample, cut, i, trial.in[0]);
    trial_free(&trial);
}

TEST(rounds_that_overlap_give_them_too)
{
    struct random random = random_start();
    for (int done = 0; done < JOBS;) {
        struct sample sample;
        struct decomposition cut;
        struct failure failure = {0};
        sample_block(&random, 30000, &sample);
        struct job *job = &sample.job;
        job->steps = 1 + random_below(&random, 12);
        if (decompose(job, job->n[AXIS_Z], 2 + (uint32_t)random_below(&random, 2), &cut,
                      &failure) &&
            decomposition_overlap(&cut, job)) {
            if (!job_imposes(job))
                check_own(&cut, job);
            check(&random, &sample, &cut);
            check_ghosts(&random, &sample, &cut);
            done++;
        }
        sample_free(&sample);
    }
}

TEST(a_field_is_cut_into_subdomains_that_differ_by_a_plane)
{
    for (uint32_t count = 2; count <= SUBDOMAINS_MOST; count++)
        for (uint64_t planes = 0; planes < 400; planes++) {
            uint64_t at = 0;
            assert_int_equal(subdomain_fits(planes, count), planes >= count * SUBDOMAIN_PLANES);
            for (uint32_t i = 0; i < count; i++) {
                const struct subdomain own = subdomain_of(planes, count, i);
                assert_int_equal(own.begin, at);
                assert_true(own.end - own.begin - planes / count <= 1);
                at = own.end;
            }
            assert_int_equal(at, planes);
        }
}

/* Each element is measured once, in the subdomain in which its block begins or in the planes behind
 * it. */
TEST(blocks_of_a_measure_lie_in_a_subdomain_and_the_planes_behind_it)
{
    struct random random = random_start();
    int far = 0, none = 0;
    for (int draw = 0; draw < 10000; draw++) {
        const uint32_t count = 2 + (uint32_t)random_below(&random, SUBDOMAINS_MOST - 1);
        const uint64_t planes = count * (SUBDOMAIN_PLANES + random_below(&random, 40)),
                       elements = 1 + random_below(&random, draw % 2 ? 600 : 9000),
                       behind = subdomain_behind(planes, elements, count);
        uint64_t at = 0, most = SUBDOMAIN_GHOSTS;
        for (uint32_t i = 0; i < count; i++) {
            const struct subdomain own = subdomain_of(planes, count, i),
                                   blocks = subdomain_blocks(planes, elements, count, i);
            assert_int_equal(blocks.begin, at);
            at = blocks.end;
            const uint64_t end = at * MEASURE_BLOCK, all = planes * elements,
                           last = ((end < all ? end : all) + elements - 1) / elements;
            assert_true(last >= own.end && blocks.begin * MEASURE_BLOCK >= own.begin * elements);
            none += blocks.end == blocks.begin;
            most = last - own.end > most ? last - own.end : most;
        }
        assert_int_equal(at, measure_blocks(planes * elements));
        assert_int_equal(behind, most);
        assert_true(elements < MEASURE_BLOCK / SUBDOMAIN_GHOSTS || behind == SUBDOMAIN_GHOSTS);
        far += behind > SUBDOMAIN_GHOSTS;
    }
    assert_true(far && none);
}
