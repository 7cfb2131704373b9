/* The CUDA backend gives the host backend's bits, for random jobs of every kind and for large jobs
 * as users run them, with fresh data and poisoned outputs.
 *
 *     backends_equal [--quick] [--huge] [--jobs N] [--device N] [--out FILE]
 *
 * --quick: few and small jobs, for a memory checker. --huge: also arrays of
 * more than 2^31 points. --out: a result file (JSON). Exit status: 0 equal, 1 not, 77 no GPU here.
 */
#include "gpu/compile/nvrtc.h"
#include "numerics/job_check.h"
#include "tests/lib/compile_stencil.h"
#include "tests/lib/fill.h"
#include "tests/lib/job_of.h"
#include "tests/lib/measure_reference.h"
#include "tests/lib/run_backend.h"
#include "tests/lib/sample.h"
#include "numerics/stability.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SKIPPED = 77, GROUPS = 16, ARENA_BYTES = 64 << 20 };

struct group {
    const char *name;
    uint64_t jobs, differ;
};

static struct bed cuda, host;
static struct random source;
static struct group groups[GROUPS];
static int group_count;

static struct group *begin(const char *name)
{
    struct group *group = &groups[group_count++];
    group->name = name;
    return group;
}

/* Equal to the bit, except the payloads of NaN. */
static uint64_t differences(const struct job *job, const void *a, const void *b, uint64_t *first)
{
    const uint64_t points = job_points(job);
    uint64_t count = 0;
    if (memcmp(a, b, job_bytes(job)) == 0)
        return 0;
    for (uint64_t i = 0; i < points; i++) {
        const bool same =
            job->dtype == DTYPE_F32
                ? memcmp((const float *)a + i, (const float *)b + i, 4) == 0 ||
                      (isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]))
                : memcmp((const double *)a + i, (const double *)b + i, 8) == 0 ||
                      (isnan(((const double *)a)[i]) && isnan(((const double *)b)[i]));
        if (!same && !count++)
            *first = i;
    }
    return count;
}

/* One more job of the group. */
static void count_job(struct group *group, const struct job *job, uint64_t differ, uint64_t first)
{
    group->jobs++;
    if (!differ)
        return;
    group->differ++;
    printf("%s: %" PRIu64 " of %" PRIu64 " points differ, the first is %" PRIu64 ": ", group->name,
           differ, job_points(job), first);
    random_job_print(job);
}

/* A sample on both backends, from `in`: its results and its probes. */
static void compare_sample(struct group *group, const struct sample *sample,
                           void *const in[AXIS_COUNT], uint64_t at_once)
{
    const struct job *job = &sample->job;
    struct failure failure = {0};
    if (!job_check(job, INFINITY, &failure)) {
        fprintf(stderr, "%s: no job: %s\n", group->name, failure.message);
        exit(1);
    }
    void *on_cuda[AXIS_COUNT], *on_host[AXIS_COUNT], *probed[AXIS_COUNT];
    const uint64_t values = job_operand_bytes(job, OPERAND_PROBES);
    arrays_make(on_cuda, job_outputs(job), job_bytes(job), 0x5a);
    arrays_make(on_host, job_outputs(job), job_bytes(job), 0xa5);
    arrays_make(probed, 1, values + 1, 0x5a);
    uint64_t first = 0, differ = 0;
    bool ran = bed_run(&cuda, job, sample->block, &sample->operands, in, on_cuda, at_once, NULL);
    if (values)
        memcpy(probed[0], sample->operands.at[OPERAND_PROBES], values);
    ran = bed_run(&host, job, sample->block, &sample->operands, in, on_host, 0, NULL) && ran;
    for (int i = 0; ran && i < job_outputs(job) && !differ; i++)
        differ = differences(job, on_cuda[i], on_host[i], &first);
    if (ran && values && !differ)
        differ = memcmp(probed[0], sample->operands.at[OPERAND_PROBES], values) != 0;
    if (!ran)
        printf("%s: no device memory\n", group->name);
    count_job(group, job, ran ? differ : 1, first);
    arrays_free(on_cuda);
    arrays_free(on_host);
    arrays_free(probed);
}

static void compare(struct group *group, const struct job *job, void *const in[AXIS_COUNT],
                    uint64_t at_once)
{
    compare_sample(group, &(struct sample){.job = *job}, in, at_once);
}

/* The sample, which is freed, with random inputs and in launches of random lengths. */
static void compare_random(struct group *group, struct sample *sample)
{
    void *in[AXIS_COUNT];
    arrays_make(in, job_inputs(&sample->job), job_bytes(&sample->job), 0);
    for (int c = 0; c < job_inputs(&sample->job); c++)
        random_field(&source, &sample->job, in[c]);
    compare_sample(group, sample, in, random_below(&source, 3));
    arrays_free(in);
    sample_free(sample);
}

static void samples(const char *name, enum family family, uint64_t jobs, uint64_t points)
{
    struct group *group = begin(name);
    for (uint64_t i = 0; i < jobs; i++) {
        struct sample sample;
        sample_make(&source, family, i % 10 ? points : 20 * points, &sample);
        compare_random(group, &sample);
    }
}

/* Give the stencil's job a kernel of its own; false: it needs none. */
static bool compile_kernel(struct group *group, const struct sample *sample)
{
    char why[400];
    struct plan plan;
    if (!plan_init(&plan, &sample->job, sample->block))
        abort();
    const enum compile_result result =
        compile_stencil(&plan, cuda.info.architecture, why, sizeof why);
    plan_release(&plan);
    if (result == COMPILE_FAILED) { /* it would be compared without */
        printf("%s: no kernel of %u points: %s\n", group->name, sample->job.more.stencil_points,
               why);
        group->differ++;
    }
    return result != COMPILE_NOT_NEEDED;
}

/* Random stencils of which each has a kernel of its own, on fields of up to so many points. */
static void compiled_stencils(uint64_t count, uint64_t points)
{
    struct group *group = begin("compiled stencils");
    char why[200];
    if (!nvrtc_open(why, sizeof why)) {
        printf("%s: left out: %s\n", group->name, why);
        return;
    }
    for (uint64_t tries = 0; group->jobs < count && tries < 1000 * count; tries++) {
        struct sample sample;
        sample_make(&source, FAMILY_STENCIL_SIDES, points, &sample);
        if (compile_kernel(group, &sample)) {
            compare_random(group, &sample); /* which frees it */
        } else {
            sample_free(&sample);
        }
    }
}

static void random_jobs(const char *name, uint64_t jobs, uint64_t points,
                        void (*make)(struct random *, uint64_t, struct job *))
{
    struct group *group = begin(name);
    for (uint64_t i = 0; i < jobs; i++) {
        struct sample sample = {.block = NULL};
        make(&source, points, &sample.job);
        compare_random(group, &sample);
    }
}

static void measures(uint64_t count, uint64_t most)
{
    struct group *group = begin("measures");
    for (uint64_t i = 0; i < count; i++) {
        const enum dtype dtype = i % 2 ? DTYPE_F64 : DTYPE_F32;
        const uint64_t points = i == 0 ? most : measure_reference_points(&source, most);
        void *arrays[AXIS_COUNT];
        arrays_make(arrays, 2, points * dtype_element_bytes(dtype), 0);
        for (int k = 0; k < 2; k++)
            measure_reference_values(&source, dtype, points, arrays[k]);
        const void *const other = random_below(&source, 2) ? arrays[1] : NULL;
        struct measured on_cuda, on_host;
        const bool ran = bed_measure(&cuda, dtype, points, arrays[0], other, 0, &on_cuda) &&
                         bed_measure(&host, dtype, points, arrays[0], other, 0, &on_host);
        group->jobs++;
        if (!ran || !measure_reference_equal(&on_cuda, &on_host)) {
            group->differ++;
            printf("%s: %" PRIu64 " points%s\n", group->name, points,
                   ran ? "" : ": no device memory");
        }
        arrays_free(arrays);
    }
}

/* Several steps at once with small blocks, for which passes.c would not choose them. */
static void blocks(uint64_t jobs, uint64_t points)
{
    struct group *group = begin("diffusion of blocks");
    setenv("FDSERVER_KERNELS", "temporal_blocking_3d", 1);
    for (uint64_t i = 0; i < jobs; i++) {
        struct sample sample;
        sample_block(&source, points, &sample);
        compare_random(group, &sample);
    }
    unsetenv("FDSERVER_KERNELS");
}

static void set_boundary(struct job *job, int axis, enum boundary_kind low, double low_value,
                         enum boundary_kind high, double high_value)
{
    job->boundary[axis][SIDE_LOW] = (struct boundary){.kind = low, .value = low_value};
    job->boundary[axis][SIDE_HIGH] = (struct boundary){.kind = high, .value = high_value};
}

static void fill(struct random *random, const struct job *job, void *in)
{
    fill_array((enum dtype)job->dtype, job_points(job), random_next(random), in);
}

static void compare_filled(struct group *group, const struct job *job, uint64_t at_once)
{
    void *in[AXIS_COUNT];
    arrays_make(in, job_inputs(job), job_bytes(job), 0);
    for (int i = 0; i < job_inputs(job); i++)
        fill(&source, job, in[i]);
    compare(group, job, in, at_once);
    arrays_free(in);
}

/* NVIDIA's derivative: 64³ and its relatives, both periods. */
static void cubes(void)
{
    struct group *group = begin("derivative of a cube");
    static const uint64_t sides[] = {64, 96, 128};
    for (int s = 0; s < 3; s++)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
            for (int accuracy = 2; accuracy <= 8; accuracy += 2)
                for (int axis = 0; axis < AXIS_COUNT; axis++) {
                    struct job job = job_of(OPERATOR_DERIVATIVE, (enum dtype)dtype, sides[s],
                                            sides[s], sides[s], accuracy);
                    job.axis = (uint8_t)axis;
                    job.spacing[axis] = 1.0 / (double)(sides[s] - 1);
                    job_set_sides(&job, axis,
                                  (struct boundary){.kind = accuracy % 4 ? BOUNDARY_PERIODIC
                                                                         : BOUNDARY_ENDPOINT});
                    compare_filled(group, &job, 0);
                }
}

/* CME 213's heat equation: 4096², 100 steps, a frame of data that decays by exp(−2 dt) a step. */
static void heat(uint64_t n, uint64_t steps)
{
    struct group *group = begin("heat equation");
    for (int accuracy = 2; accuracy <= 8; accuracy *= 2)
        for (int smooth = 0; smooth < 2; smooth++)
            for (int dtype = DTYPE_F32; dtype <= (smooth ? DTYPE_F32 : DTYPE_F64); dtype++) {
                struct job job = diffusion_of((enum dtype)dtype, n, n, 1, accuracy, steps);
                const double h = 6.283185307179586 / (double)(n - 1);
                for (int a = 0; a < 2; a++)
                    job.spacing[a] = h;
                job.dt = 0.9 * job_dt_max(&job);
                for (int a = 0; a < 2; a++)
                    job_set_sides(
                        &job, a,
                        (struct boundary){.kind = BOUNDARY_HALO, .value = exp(-2 * job.dt)});
                void *in[AXIS_COUNT];
                arrays_make(in, 1, job_bytes(&job), 0);
                fill(&source, &job, in[0]);
                for (uint64_t i = 0; smooth && i < n * n; i++)
                    ((float *)in[0])[i] =
                        (float)(sin(h * (double)(i % n)) * sin(h * (double)(i / n)));
                compare(group, &job, in, 0);
                arrays_free(in);
            }
}

/* Odd shapes at a size where whole tiles, remainders and edges all occur. */
static void odd_shapes(uint64_t nx, uint64_t ny, uint64_t nz)
{
    struct group *group = begin("odd shapes");
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
        for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
            const uint64_t at_once = accuracy % 4 ? 0 : 7;
            for (int axis = 0; axis < AXIS_COUNT; axis++) {
                struct job job =
                    job_of(OPERATOR_DERIVATIVE, (enum dtype)dtype, nx, ny, nz, accuracy);
                job.axis = (uint8_t)axis;
                if (accuracy == 4)
                    job_set_sides(&job, axis, (struct boundary){.kind = BOUNDARY_ONE_SIDED});
                if (accuracy == 6)
                    job.order = 2;
                compare_filled(group, &job, at_once);
            }
            struct job job = job_of(OPERATOR_LAPLACIAN, (enum dtype)dtype, nx, ny, nz, accuracy);
            if (accuracy == 4)
                job_set_sides(&job, AXIS_Y, (struct boundary){.kind = BOUNDARY_ONE_SIDED});
            if (accuracy == 8)
                job.spacing[AXIS_Z] = 0.5; /* axis by axis */
            compare_filled(group, &job, at_once);
            job = diffusion_of((enum dtype)dtype, nx, ny, nz, accuracy, 3);
            for (int a = 0; a < AXIS_COUNT && accuracy == 6; a++)
                job.diffusivity[a] = 1 + a;
            job.dt = job_dt_max(&job);
            if (accuracy >= 4) {
                set_boundary(&job, AXIS_X, BOUNDARY_VALUE, 0.25, BOUNDARY_DERIVATIVE, 0);
                set_boundary(&job, AXIS_Y, BOUNDARY_HALO, 0.875, BOUNDARY_VALUE, -1);
                job_set_sides(&job, AXIS_Z, (struct boundary){.kind = BOUNDARY_ENDPOINT});
            }
            compare_filled(group, &job, 2);
            for (int id = OPERATOR_GRADIENT; id <= OPERATOR_CURL; id++) {
                job = job_of((enum operator_id)id, (enum dtype)dtype, nx, ny, nz, accuracy);
                if (accuracy == 4)
                    job_set_sides(&job, AXIS_Z, (struct boundary){.kind = BOUNDARY_ONE_SIDED});
                if (accuracy == 6)
                    job_set_sides(&job, AXIS_X, (struct boundary){.kind = BOUNDARY_ENDPOINT});
                compare_filled(group, &job, at_once);
            }
        }
}

/* More than 2^31 points: every offset needs its 64 bits. */
static void huge(void)
{
    struct group *group = begin("more than 2^31 points");
    struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 1301, 1291, 1283, 8);
    job.axis = AXIS_Z;
    compare_filled(group, &job, 0);
    job = job_of(OPERATOR_LAPLACIAN, DTYPE_F32, 46349, 46351, 1, 4);
    compare_filled(group, &job, 0);
    job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, (UINT64_C(1) << 31) + 11, 1, 1, 2);
    job_set_sides(&job, AXIS_X, (struct boundary){.kind = BOUNDARY_ONE_SIDED});
    compare_filled(group, &job, 0);
}

/* Jobs that are all in flight together, each with arrays that are allocated here; set() fills the
 * inputs. */
static void compare_together(struct group *group, struct bed_job *jobs, uint64_t count,
                             void (*set)(struct random *, const struct job *, void *))
{
    void *(*expected)[AXIS_COUNT] = calloc(count, sizeof *expected);
    uint64_t first;
    if (!expected)
        exit(1);
    for (uint64_t i = 0; i < count; i++) {
        const struct job *job = &jobs[i].job;
        arrays_make(jobs[i].in, job_inputs(job), job_bytes(job), 0);
        arrays_make(jobs[i].out, job_outputs(job), job_bytes(job), 0);
        arrays_make(expected[i], job_outputs(job), job_bytes(job), 0);
        for (int c = 0; c < job_inputs(job); c++)
            set(&source, job, jobs[i].in[c]);
        if (!bed_run(&host, job, NULL, NULL, jobs[i].in, expected[i], 0, NULL))
            exit(1);
    }
    const bool ran = bed_run_together(&cuda, jobs, count);
    for (uint64_t i = 0; i < count; i++) {
        bool differs = !ran;
        for (int c = 0; c < job_outputs(&jobs[i].job) && !differs; c++)
            differs = differences(&jobs[i].job, jobs[i].out[c], expected[i][c], &first) > 0;
        group->jobs++;
        if (differs) {
            group->differ++;
            printf("%s: %s: ", group->name, ran ? "differs" : "no device memory");
            random_job_print(&jobs[i].job);
        }
        arrays_free(jobs[i].in);
        arrays_free(jobs[i].out);
        arrays_free(expected[i]);
    }
    free(expected);
}

/* One that needs its input alone. */
static void random_lone_table_job(uint64_t points, struct job *job)
{
    void *block;
    bool alone;
    do {
        random_table_job(&source, points, job, &block);
        alone = !block && job->more.scheme == SCHEME_EULER;
        for (int i = 0; i < OPERANDS; i++)
            alone = alone && !job_operand_points(job, i);
        free(block);
    } while (!alone);
}

/* Jobs of many kinds, several of some, all in flight together: their weights do not fit at once, so
 * that some jobs wait and weights are replaced; no job may read another's. */
static void many_at_once(uint64_t count, uint64_t points)
{
    struct bed_job *jobs = calloc(count, sizeof *jobs);
    if (!jobs)
        exit(1);
    for (uint64_t i = 0; i < count; i++)
        if (i > 0 && random_below(&source, 2))
            jobs[i].job = jobs[i - 1].job;
        else if (random_below(&source, 3))
            random_job(&source, points, &jobs[i].job);
        else
            random_lone_table_job(points, &jobs[i].job);
    compare_together(begin("many at once"), jobs, count, random_field);
    free(jobs);
}

/* Chains of them, each repeated often enough for a graph if all are small. */
static void chains(uint64_t count, uint64_t points)
{
    enum { LINKS = 8, ROUNDS = 7 };
    struct group *group = begin("chains");
    for (uint64_t i = 0; i < count; i++) {
        struct bed_job jobs[LINKS], again[LINKS];
        const uint64_t links = 1 + random_below(&source, LINKS);
        for (uint64_t k = 0; k < links; k++) {
            struct job *job = &jobs[k].job;
            do
                if (random_below(&source, 2))
                    random_job(&source, i % 10 ? points : 40 * points, job);
                else
                    random_lone_table_job(points, job);
            while (job_inputs(job) + job_outputs(job) > 2);
            arrays_make(jobs[k].in, 1, job_bytes(job), 0);
            arrays_make(jobs[k].out, 1, job_bytes(job), 0x5a);
            random_field(&source, job, jobs[k].in[0]);
            again[k] = jobs[k];
            arrays_make(again[k].out, 1, job_bytes(job), 0xa5);
        }
        const bool ran =
            bed_run_chain(&cuda, jobs, links, ROUNDS) && bed_run_chain(&host, again, links, ROUNDS);
        for (uint64_t k = 0; k < links; k++) {
            const struct job *job = &jobs[k].job;
            uint64_t first = 0, differ = 1;
            if (ran)
                differ = differences(job, jobs[k].out[0], again[k].out[0], &first);
            count_job(group, job, differ, first);
            arrays_free(jobs[k].in);
            arrays_free(jobs[k].out);
            arrays_free(again[k].out);
        }
    }
}

/* Jobs of one kind, small enough to share a launch. */
static void alike(struct group *group, const struct job *job)
{
    enum { AT_ONCE = 16 };
    static struct bed_job jobs[AT_ONCE];
    struct failure failure = {0};
    if (!job_check(job, INFINITY, &failure)) {
        fprintf(stderr, "%s: no job: %s\n", group->name, failure.message);
        exit(1);
    }
    for (int i = 0; i < AT_ONCE; i++)
        jobs[i].job = *job;
    compare_together(group, jobs, AT_ONCE, fill);
}

/* Common jobs of users. */
static void alike_at_once(uint64_t side)
{
    struct group *group = begin("alike at once");
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
        for (int accuracy = 2; accuracy <= 8; accuracy += 2)
            for (int axes = 1; axes <= AXIS_COUNT; axes++) {
                const uint64_t ny = axes > 1 ? side : 1, nz = axes > 2 ? side : 1;
                const bool is_closed = accuracy % 4;
                struct job job =
                    job_of(OPERATOR_DERIVATIVE, (enum dtype)dtype, side, ny, nz, accuracy);
                for (int a = 0; a < axes && is_closed; a++)
                    job_set_sides(&job, a, (struct boundary){.kind = BOUNDARY_ONE_SIDED});
                for (int id = OPERATOR_DERIVATIVE; id <= OPERATOR_GRADIENT; id++) {
                    if (id == OPERATOR_DIFFUSION)
                        continue;
                    job.operator_id = (uint8_t)id;
                    job.order = (uint8_t)job_order(&job);
                    job.axis = (uint8_t)(id == OPERATOR_DERIVATIVE ? axes - 1 : 0);
                    alike(group, &job);
                }
                job = diffusion_of((enum dtype)dtype, side, ny, axes > 2 ? 20 : 1, accuracy,
                                   axes > 2 ? 3 : 20);
                job.dt = 0.9 * job_dt_max(&job);
                for (int a = 0; a < axes && is_closed; a++)
                    set_boundary(&job, a, BOUNDARY_VALUE, 0.25, BOUNDARY_DERIVATIVE, 0);
                alike(group, &job);
            }
}

static bool write_result(const char *path, uint64_t seed, uint64_t differ)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return false;
    }
    char date[32];
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    const char *commit = getenv("FDSERVER_COMMIT");
    fprintf(file,
            "{\"test\": \"backends_equal\", \"commit\": \"%s\", \"date\": \"%s\",\n"
            " \"device\": \"%s\", \"driver\": %" PRIu32 ", \"host\": \"%s\", \"seed\": %" PRIu64
            ", \"equal\": %s,\n \"groups\": [\n",
            commit ? commit : "", date, cuda.info.name, cuda.info.driver, host.info.name, seed,
            differ ? "false" : "true");
    for (int i = 0; i < group_count; i++)
        fprintf(file, "  {\"name\": \"%s\", \"jobs\": %" PRIu64 ", \"differ\": %" PRIu64 "}%s\n",
                groups[i].name, groups[i].jobs, groups[i].differ, i + 1 < group_count ? "," : "");
    fprintf(file, " ]}\n");
    return fclose(file) == 0;
}

int main(int argc, char **argv)
{
    uint64_t jobs = 600;
    int device = 0;
    bool quick = false, with_huge = false;
    const char *out = NULL;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else if (strcmp(argv[i], "--huge") == 0) {
            with_huge = true;
        } else if (strcmp(argv[i], "--jobs") == 0 && more) {
            jobs = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--device") == 0 && more) {
            device = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--out") == 0 && more) {
            out = argv[++i];
        } else {
            fprintf(
                stderr,
                "usage: backends_equal [--quick] [--huge] [--jobs N] [--device N] [--out FILE]\n");
            return 2;
        }
    }
    struct failure failure = {0};
    if (!bed_open(&cuda, backend_cuda(), device, ARENA_BYTES, &failure)) {
        printf("skipped: %s\n", failure.message);
        return SKIPPED;
    }
    if (!bed_open(&host, backend_host(), 0, ARENA_BYTES, &failure)) {
        printf("%s\n", failure.message);
        return 1;
    }
    source = random_start();
    const uint64_t seed = source.state;
    if (quick) {
        random_jobs("small random jobs", jobs < 60 ? jobs : 60, 3000, random_job);
        samples("rows of tables", FAMILY_TABLE, jobs < 60 ? jobs : 60, 3000);
        random_jobs("gradients of many fields", 8, 40, random_column_job);
        blocks(jobs < 30 ? jobs : 30, 20000);
        many_at_once(60, 3000);
        chains(10, 3000);
        measures(20, 20000);
        samples("stencils", FAMILY_STENCIL_SIDES, 40, 1000);
        compiled_stencils(jobs / 2 + 3, 500000);
        samples("schemes", FAMILY_SCHEME, 30, 2000);
        samples("schemes with probes", FAMILY_PROBES, 30, 2000);
        alike_at_once(17);
        heat(67, 3);
        odd_shapes(37, 41, 23);
    } else {
        random_jobs("small random jobs", jobs, 20000, random_job);
        samples("rows of tables", FAMILY_TABLE, jobs, 20000);
        random_jobs("larger random jobs", jobs / 10, 2000000, random_job);
        random_jobs("gradients of many fields", jobs / 10, 60, random_column_job);
        blocks(jobs / 6, 300000);
        many_at_once(300, 20000);
        chains(60, 20000);
        measures(60, (1 << 24) + 4097);
        samples("stencils", FAMILY_STENCIL_SIDES, jobs / 2, 20000);
        compiled_stencils(40, 1500000);
        samples("schemes", FAMILY_SCHEME, jobs / 2, 20000);
        samples("schemes with probes", FAMILY_PROBES, jobs / 2, 20000);
        alike_at_once(64);
        cubes();
        heat(4096, 100);
        odd_shapes(513, 511, 509);
    }
    if (with_huge)
        huge();
    uint64_t total = 0, differ = 0;
    for (int i = 0; i < group_count; i++) {
        printf("%-24s %5" PRIu64 " jobs, %" PRIu64 " differ\n", groups[i].name, groups[i].jobs,
               groups[i].differ);
        total += groups[i].jobs;
        differ += groups[i].differ;
    }
    printf("%s: %" PRIu64 " jobs on %s and on %s (seed %" PRIu64 ")\n",
           differ ? "NOT EQUAL" : "equal", total, cuda.info.name, host.info.name, seed);
    if (out && !write_result(out, seed, differ))
        return 1;
    bed_close(&cuda);
    bed_close(&host);
    return differ ? 1 : 0;
}
