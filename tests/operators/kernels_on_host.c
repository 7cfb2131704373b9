/* The CUDA kernels, run on the host without a GPU (tests/lib/cuda_on_host), give the contract's
 * bits for random jobs in slices and parts, alone and several at once, for any size of the device.
 * A part reads only the inputs that gpu/split.h states, and writes only its own output. Copies of
 * any length copy every byte and no other. Measures have the contract's bits, too. */
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/copy.h"
#include "gpu/cuda/room.h"
#include "gpu/cuda/stencil_kernels.h"
#include "gpu/cuda/passes.h"
#include "tests/lib/measure_reference.h"
#include "tests/lib/random_scheme.h"
#include "tests/lib/random_stencil.h"
#include "tests/lib/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The build has made some of the kernels that are compiled elsewhere: a kernel is its row here. */
extern const struct stencil_kernel stencil_kernels_padded_0[], stencil_kernels_padded_1[],
    stencil_kernels_padded_2[], stencil_kernels_upwind_2[], stencil_kernels_upwind_7[];

static uint64_t found; /* of them, so far */

const void *compiled_find(const struct kernel_key *key, uint64_t points)
{
    static const struct stencil_kernel *const shapes[] = {
        stencil_kernels_padded_0, stencil_kernels_padded_1, stencil_kernels_padded_2,
        stencil_kernels_upwind_2, stencil_kernels_upwind_7};
    (void)points;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int j = 0; j < STENCIL_KERNELS_EACH; j++)
            if (memcmp(&shapes[i][j].key, key, sizeof *key) == 0) {
                found++;
                return &shapes[i][j];
            }
    return NULL;
}

void compiled_used(const void *kernel, cudaStream_t stream)
{
    (void)kernel, (void)stream;
}

cudaError_t cuda_on_host_compiled(const void *kernel, unsigned blocks, void **arguments,
                                  cudaStream_t stream);

cudaError_t cuda_on_host_compiled(const void *kernel, unsigned blocks, void **arguments,
                                  cudaStream_t stream)
{
    return ((const struct stencil_kernel *)kernel)->launch(blocks, arguments, stream);
}

/* Exactly as large as asked for, and poisoned, so that a sanitizer sees what goes beyond it. */
static void *room;
static uint64_t paddings; /* so far */

void *room_take(uint64_t bytes, cudaStream_t stream)
{
    (void)stream;
    room = malloc(bytes);
    if (room)
        memset(room, 0xff, bytes);
    return room;
}

void room_give(cudaStream_t stream)
{
    (void)stream;
    free(room);
    room = NULL;
    paddings++;
}

/* In shown[], the lines of the inputs that the part [from, to) of a pass may depend on; the rest
 * are NaN. */
static void show_part(const struct plan *plan, uint64_t from, uint64_t to,
                      void *const in[AXIS_COUNT], void *const shown[AXIS_COUNT])
{
    const struct split split = split_of(plan);
    const uint64_t field = split.units * split.unit_lines, first = from / field * field;
    const uint64_t bytes = plan_array_bytes(plan);
    const uint64_t unit = bytes / plan->lines * split.unit_lines;
    const bool whole = from % field == 0 && to % field == 0;
    const int64_t reach = whole ? 0 : (int64_t)split.reach, units = (int64_t)split.units;
    const int64_t begin = (int64_t)((from - first) / split.unit_lines) - reach;
    const int64_t end = (int64_t)((to - first) / split.unit_lines) + reach;
    for (int i = 0; i < plan->inputs; i++) {
        memset(shown[i], 0xff, bytes);
        for (int64_t k = begin; k < end; k++) {
            const int64_t at = !split.wraps || whole ? k : (k % units + units) % units;
            const uint64_t offset = first / split.unit_lines * unit + (uint64_t)at * unit;
            if (at >= 0 && (whole || at < units))
                memcpy((char *)shown[i] + offset, (char *)in[i] + offset, unit);
        }
    }
}

/* Whether two arrays are equal outside the lines [from, to). */
static bool rest_equals(const struct plan *plan, uint64_t from, uint64_t to, const void *a,
                        const void *b)
{
    const uint64_t bytes = plan_array_bytes(plan);
    const uint64_t line = bytes / plan->lines, end = to * line;
    return memcmp(a, b, from * line) == 0 &&
           memcmp((const char *)a + end, (const char *)b + end, bytes - end) == 0;
}

/* A job's arrays. */
struct bed {
    struct trial trial;
    void *shown[AXIS_COUNT], *before[AXIS_COUNT]; /* for parts */
};

static void bed_make(struct bed *bed, struct random *random, const struct sample *sample)
{
    const struct job *job = &sample->job;
    trial_make(&bed->trial, random, sample);
    arrays_make(bed->shown, bed->trial.plan.inputs, job_bytes(job), 0);
    arrays_make(bed->before, bed->trial.plan.outputs, job_bytes(job), 0);
    if (random_below(random, 2))
        trial_over_input(&bed->trial);
}

static void bed_free(struct bed *bed)
{
    trial_free(&bed->trial);
    arrays_free(bed->shown);
    arrays_free(bed->before);
}

/* The next part of the only pass. */
static void begin_part(struct bed *bed, uint64_t from, uint64_t to)
{
    const struct plan *plan = &bed->trial.plan;
    show_part(plan, from, to, bed->trial.in, bed->shown);
    memcpy(bed->trial.launch.in, bed->shown, sizeof bed->shown);
    for (int i = 0; i < plan->outputs; i++)
        memcpy(bed->before[i], bed->trial.out[i], plan_array_bytes(plan));
}

/* The rest of the output is unchanged. */
static bool part_is_clean(const struct bed *bed)
{
    const struct launch *launch = &bed->trial.launch;
    bool ok = true;
    for (int i = 0; ok && i < launch->plan->outputs; i++)
        ok = rest_equals(launch->plan, launch->from, launch->to, bed->trial.out[i], bed->before[i]);
    return ok;
}

/* The number of jobs that are launched at once. */
static unsigned random_jobs(struct random *random, const struct job *job)
{
    if (random_below(random, 4))
        return 1;
    return (unsigned)(2 + random_below(random, job_points(job) < 500 ? PASSES_JOBS - 1 : 2));
}

/* A sample in launches of some passes, on a device of any size; at times in place. One that reads
 * nothing but its inputs is launched several times at once, or part by part. */
static bool check(struct random *random, const struct sample *sample)
{
    struct bed beds[PASSES_JOBS];
    const struct launch *launches[PASSES_JOBS];
    const bool is_alone = !job_is_plain(&sample->job) || sample->job.more.probes;
    const unsigned jobs = is_alone ? 1 : random_jobs(random, &sample->job);
    for (unsigned j = 0; j < jobs; j++) {
        bed_make(&beds[j], random, sample);
        beds[j].trial.launch.plan = &beds[0].trial.plan;
        launches[j] = &beds[j].trial.launch;
    }
    const struct plan *plan = &beds[0].trial.plan;
    struct passes_constants constants;
    const bool in_parts = !is_alone && plan->passes == 1 && random_below(random, 2);
    const int slot = (int)random_below(random, PASSES_SLOTS);
    const int units = (int)random_below(random, random_below(random, 2) ? 300 : 1) + 1;
    passes_constants_init(&constants, plan, plan_table_rows(plan->table));
    bool ok = passes_load(slot, &constants, NULL) == cudaSuccess;
    for (uint64_t from = 0, to; ok && from < plan->lines * plan->passes; from = to) {
        to = in_parts ? random_part(random, plan, from)
                      : from + plan->lines *
                                   (1 + random_below(random, plan->passes - from / plan->lines));
        for (unsigned j = 0; j < jobs; j++) {
            if (in_parts)
                begin_part(&beds[j], from, to);
            beds[j].trial.launch.from = from;
            beds[j].trial.launch.to = to;
        }
        ok = passes_launch(launches, jobs, slot, units, NULL) == cudaSuccess;
        for (unsigned j = 0; j < jobs && in_parts; j++)
            ok = ok && part_is_clean(&beds[j]);
    }
    for (unsigned j = 0; j < jobs; j++)
        ok = ok && trial_is_right(&beds[j].trial, jobs > 1 ? "of several at once" : "alone");
    for (unsigned j = 0; j < jobs; j++)
        bed_free(&beds[j]);
    return ok;
}

/* Random own planes of a field. */
static struct own_planes random_own(struct random *random, uint64_t planes)
{
    struct own_planes own = {.begin = 4 * random_below(random, 2),
                             .end = planes - 4 * random_below(random, 2)};
    for (int side = 0; side < SIDE_COUNT; side++)
        own.edge[side] = 4 * random_below(random, 2);
    return own;
}

/* Own planes of a job, the edges first or last, have the bits that they have in the whole field,
 * and no other plane is written. */
static bool check_own(struct random *random, struct trial *trial)
{
    const struct plan *plan = &trial->plan;
    const uint64_t planes = (uint64_t)plan->axis[AXIS_Z].n, bytes = plan_array_bytes(plan);
    const uint64_t plane = bytes / planes, lines = plan->lines / planes;
    const int slot = (int)random_below(random, PASSES_SLOTS), first = (int)random_below(random, 2);
    const int units = 1 + (int)random_below(random, 200);
    const struct own_planes own = random_own(random, planes);
    struct passes_constants constants;
    trial->launch.own = own;
    for (uint64_t p = 0; p < planes; p++)
        if (p < own.begin || p >= own.end)
            memcpy((char *)trial->expected[0] + p * plane, (char *)trial->out[0] + p * plane,
                   plane);
    passes_constants_init(&constants, plan, plan_table_rows(plan->table));
    const bool ok =
        passes_load(slot, &constants, NULL) == cudaSuccess &&
        passes_launch_own(&trial->launch, first, slot, units, NULL) == cudaSuccess &&
        passes_launch_own(&trial->launch, !first, slot, units, NULL) == cudaSuccess &&
        rest_equals(plan, own.begin * lines, own.end * lines, trial->out[0], trial->expected[0]) &&
        results_equal(&trial->sample->job, trial->out[0], trial->expected[0]);
    if (!ok)
        printf("planes %d to %d of %d, edges of %d and %d: ", (int)own.begin, (int)own.end,
               (int)planes, (int)own.edge[SIDE_LOW], (int)own.edge[SIDE_HIGH]);
    return ok;
}

static bool check_any_own(struct random *random, int i)
{
    struct sample sample;
    struct trial trial;
    for (bool takes = false; !takes;) {
        sample_block(random, i % 8 ? 20000 : 100000, &sample);
        sample.job.steps = 1 + random_below(random, 4);
        sample.job.batch = 1;
        trial_make(&trial, random, &sample);
        takes = passes_take_own_planes(&trial.plan);
        if (!takes) {
            trial_free(&trial);
            sample_free(&sample);
        }
    }
    const bool ok = check_own(random, &trial);
    if (!ok)
        sample_print(&sample);
    trial_free(&trial);
    sample_free(&sample);
    return ok;
}

/* Several copies at once, to arrays with room for the padding that is copied past the end. */
static bool check_copies(struct random *random, uint64_t most_bytes)
{
    enum { SOME = 5, GUARD = 64 };
    struct copies copies = {.count = 1 + (uint32_t)random_below(random, SOME)};
    char *to[SOME], *from[SOME];
    for (uint32_t i = 0; i < copies.count; i++) {
        const uint64_t bytes = 1 + random_below(random, most_bytes);
        const uint64_t whole = (bytes + GUARD + GUARD - 1) / GUARD * GUARD;
        to[i] = aligned_alloc(GUARD, whole);
        from[i] = aligned_alloc(GUARD, whole);
        if (!to[i] || !from[i])
            abort();
        memset(to[i], 0x5a, whole);
        for (uint64_t k = 0; k < whole; k++)
            from[i][k] = (char)random_next(random);
        copies.arrays[i] = (struct copy_arrays){to[i], from[i], bytes};
    }
    bool ok = copy_launch(&copies, NULL) == cudaSuccess;
    for (uint32_t i = 0; i < copies.count; i++) {
        const uint64_t bytes = copies.arrays[i].bytes;
        ok = ok && memcmp(to[i], from[i], bytes) == 0;
        for (uint64_t k = bytes; k % GUARD; k++)
            ok = ok && to[i][k] == 0x5a;
        free(to[i]);
        free(from[i]);
    }
    return ok;
}

static bool check_measure(struct random *random, enum dtype dtype)
{
    const uint64_t points = measure_reference_points(random, 40000);
    const uint64_t bytes = points * dtype_element_bytes(dtype);
    void *arrays[AXIS_COUNT], *result[AXIS_COUNT];
    arrays_make(arrays, 2, bytes, 0);
    arrays_make(result, 1, measure_bytes(points) + sizeof(struct measured), 0xa5);
    for (int i = 0; i < 2; i++)
        measure_reference_values(random, dtype, points, arrays[i]);
    struct plan plan;
    plan_init_measure(&plan, dtype, points, 1 + (int)random_below(random, 2));
    struct launch launch = {.plan = &plan, .in = {arrays[0]}, .even = {result[0]}};
    if (plan.inputs == 2)
        launch.in[1] = arrays[1];
    launch.to = plan.lines;
    const struct launch *const launches[] = {&launch};
    const struct measured expected = measure_reference(dtype, points, launch.in[0], launch.in[1]);
    const struct measured *got = result[0];
    bool ok = true;
    for (int again = 0; again < 2 && ok; again++) { /* from its blocks' results */
        ok = passes_launch(launches, 1, 0, 8, NULL) == cudaSuccess &&
             measure_reference_equal(got + plan_measure_bytes(&plan) / sizeof *got - 1, &expected);
        plan_init_measure(&plan, dtype, measure_blocks(points), 0);
        launch.to = plan.lines;
    }
    if (!ok)
        printf("a measure of %llu points\n", (unsigned long long)points);
    arrays_free(arrays);
    arrays_free(result);
    return ok;
}

/* ---- samples: from an empty one ---- */

static void make_stencil(struct random *random, int i, struct sample *sample)
{
    sample_make(random, FAMILY_STENCIL_SIDES, i % 5 ? 600 : 40000, sample);
}

/* Between sides of any kind: some read a padding. */
static void make_padded(struct random *random, int i, struct sample *sample)
{
    (void)i;
    random_cube_stencil(random, sample);
}

/* Of stencils that reach to one side alone: next to a short axis's other side, too, there are
 * images of points that lie beyond the first one. */
static void make_upwind(struct random *random, int i, struct sample *sample)
{
    random_upwind_stencil(random, i % 2 ? 2 : 3, sample);
}

static void make_scheme(struct random *random, int i, struct sample *sample)
{
    sample_make(random, FAMILY_SCHEME, i % 30 ? 2000 : 20000, sample);
}

static void make_table(struct random *random, int i, struct sample *sample)
{
    sample_make(random, i % 8 ? FAMILY_TABLE : FAMILY_CONDUCTING, i % 10 ? 2000 : 60000, sample);
}

/* Of axes with coordinates, large enough for points that are far from all sides. */
static void make_indexed(struct random *random, int i, struct sample *sample)
{
    if (i % 7 == 0) {
        random_indexed_job(random, &sample->job, &sample->block);
        sample_complete(random, sample, false);
        return;
    }
    for (sample_make(random, FAMILY_TABLE, i % 4 ? 4000 : 40000, sample);
         !sample->job.more.coordinates;
         sample_make(random, FAMILY_TABLE, i % 4 ? 4000 : 40000, sample))
        sample_free(sample);
}

/* Diffusions of any scheme and plain ones, with probes. */
static void make_probes(struct random *random, int i, struct sample *sample)
{
    if (i % 2) {
        sample_make(random, FAMILY_PROBES, 1000, sample);
        return;
    }
    do
        random_job(random, 1000, &sample->job);
    while (sample->job.operator_id != OPERATOR_DIFFUSION || sample->job.steps > 9);
    sample_complete(random, sample, true);
}

/* ADI with lines of several parts in a block's shared memory, or that it does not hold, along any
 * axis; in every eighth job, of a field κ, a block has several tiles of them. */
static void make_long_lines(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        random_adi_job(random, 100, job);
        const int axis = (int)random_below(random, job->axes);
        for (int a = 0; a < job->axes; a++)
            job->n[a] = a != axis ? 1 + random_below(random, i % 8 == 1 ? 24 : 3)
                        : i % 4   ? 65 + random_below(random, 600)
                                  : 1500 + random_below(random, 9000);
        job->batch = 1;
        job->steps = 1 + (uint64_t)(i % 2);
    } while ((i % 8 == 1 && !(job->more.coefficient && job->axes == AXIS_COUNT)) ||
             !job_is_valid(job));
    sample_complete(random, sample, i % 2);
}

/* Another job of tables in the place of the last one. */
static void remake(struct random *random, struct sample *sample)
{
    free(sample->block);
    random_table_job(random, 1000, &sample->job, &sample->block);
}

/* div(k grad) and biharmonics in grids that their streaming kernels take. */
static void make_columns(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        remake(random, sample);
        job->n[AXIS_X] = 4 + (i % 3 ? 4 : 1) * random_below(random, i % 5 ? 10 : 60);
        job->n[AXIS_Y] = 1 + random_below(random, 30);
        job->n[AXIS_Z] = 1 + random_below(random, 30);
    } while (job->axes < AXIS_COUNT || job->more.coordinates ||
             (!job->more.coefficient && job->operator_id != OPERATOR_BIHARMONIC) ||
             !job_is_valid(job));
    sample_complete(random, sample, false);
}

/* Mostly sides with closures. */
static void close_sides(struct random *random, struct job *job)
{
    static const uint32_t kinds[] = {BOUNDARY_ONE_SIDED, BOUNDARY_VALUE, BOUNDARY_MIXED,
                                     BOUNDARY_CURVATURE};
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int s = 0; s < SIDE_COUNT && !boundary_is_periodic(job->boundary[a]); s++) {
            struct boundary *side = &job->boundary[a][s];
            if (random_below(random, 8) == 0)
                continue;
            side->kind = kinds[random_below(random, 4)];
            side->value_array = side->constant_array = NUMBER_CONSTANT;
            side->at_face = side->kind == BOUNDARY_CURVATURE && random_below(random, 2);
            side->value = side->kind == BOUNDARY_ONE_SIDED ? 0 : 0.25;
            job->more.constant[a][s] = side->kind == BOUNDARY_MIXED ? 0.5 : 0;
        }
}

/* Sums and vector operators of uniform axes, with faces of several blocks. */
static void make_faces(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        remake(random, sample);
        job->n[AXIS_X] =
            i % 3 ? 4 * (4 + random_below(random, i % 5 ? 10 : 90)) : 14 + random_below(random, 40);
        job->n[AXIS_Y] = 14 + random_below(random, 40);
        job->n[AXIS_Z] = 14 + random_below(random, 30);
        job->batch = 1 + random_below(random, 2);
        close_sides(random, job);
    } while (job->axes < AXIS_COUNT || job->more.coordinates || job->more.coefficient ||
             job->more.stagger || job->operator_id == OPERATOR_BIHARMONIC ||
             (i % 2 && job->operator_id < OPERATOR_GRADIENT) || !job_is_valid(job));
    sample_complete(random, sample, false);
}

static bool sums_neighbours(const struct job *job)
{
    return job->operator_id == OPERATOR_LAPLACIAN || job->operator_id == OPERATOR_DIFFUSION;
}

/* Sums of a point's neighbours in rows of any length that several blocks share, and what a pass
 * adds to them. */
static void make_wide(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        if (i % 2)
            random_scheme_job(random, 1000, job);
        else
            random_job(random, 1000, job);
        job->n[AXIS_X] = 150 + random_below(random, 500);
        job->n[AXIS_Y] = 10 + random_below(random, 40);
        job->n[AXIS_Z] = job->axes == 2 ? 1 : 1 + random_below(random, 20);
    } while (job->axes < 2 || job->more.scheme == SCHEME_ADI || !sums_neighbours(job) ||
             !job_is_valid(job));
    sample_complete(random, sample, false);
}

/* An even derivative along y or z between sides that are mostly mirrors, of a plain plan or by its
 * table, of axes that are shorter than a window or have several, long ones, too. */
static void make_mirrors(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        if (i % 2)
            remake(random, sample);
        else
            random_job(random, 1000, job);
        job->n[AXIS_X] = i % 5 ? 1 + random_below(random, 40) : 200 + random_below(random, 800);
        job->n[job->axis] = i % 5 ? 2 + random_below(random, 40) : 60 + random_below(random, 100);
        for (int s = 0; s < SIDE_COUNT; s++)
            if (random_below(random, 4))
                job->boundary[job->axis][s] = (struct boundary){.kind = BOUNDARY_MIRROR};
    } while (job->operator_id != OPERATOR_DERIVATIVE || job->order % 2 || job->axis == AXIS_X ||
             job->more.coordinates || !job_is_valid(job));
    sample_complete(random, sample, false);
}

/* Sums in 3D of the radius of error estimates, in several columns. */
static void make_reach(struct random *random, int i, struct sample *sample)
{
    struct job *job = &sample->job;
    do {
        remake(random, sample);
        job->accuracy = 10;
        job->n[AXIS_X] = i % 3 ? 4 * (1 + random_below(random, 45)) : 1 + random_below(random, 180);
        job->n[AXIS_Y] = 1 + random_below(random, 50);
        job->n[AXIS_Z] = 1 + random_below(random, 30);
        job->batch = 1 + random_below(random, 2);
    } while (job->axes < AXIS_COUNT || job->more.coordinates || job->more.coefficient ||
             !sums_neighbours(job) || !job_is_valid(job));
    sample_complete(random, sample, false);
}

static void make_streaming_3d(struct random *random, int i, struct sample *sample)
{
    (void)i;
    random_column_job(random, 2, &sample->job);
}

/* At least every third job is a diffusion, which has the most kernels. */
static void make_plain(struct random *random, int i, struct sample *sample)
{
    do
        random_job(random, i % 10 ? 4000 : 60000, &sample->job);
    while (i % 3 == 0 && sample->job.operator_id != OPERATOR_DIFFUSION);
}

/* A second derivative along an axis that is mostly boundary, of several fields, so that parts may
 * have more planes than one field. */
static void make_short(struct random *random, int i, struct sample *sample)
{
    (void)i;
    struct job *job = &sample->job;
    do
        random_job(random, 4000, job);
    while (job->operator_id != OPERATOR_DERIVATIVE || job->order != 2 || job->batch == 1 ||
           job->n[job->axis] > 8);
}

/* A first derivative of one float32 array along an axis, any boundary. */
static void random_derivative(struct random *random, int axis, uint64_t nx, uint64_t ny,
                              struct job *job)
{
    do {
        do
            random_job(random, 4000, job);
        while (job->operator_id != OPERATOR_DERIVATIVE || job->axes < 2 || job->axis != axis ||
               job->dtype != DTYPE_F32);
        job->n[AXIS_X] = nx;
        job->n[AXIS_Y] = ny;
        job->n[AXIS_Z] = 1;
        job->axes = 2;
        job->batch = 1;
    } while (!job_is_valid(job));
}

/* Along y in rows of odd length, whose ends share sectors with other blocks' columns. */
static void make_odd_rows(struct random *random, int i, struct sample *sample)
{
    (void)i;
    random_derivative(random, AXIS_Y, 97 + 2 * random_below(random, 400),
                      60 + random_below(random, 100), &sample->job);
}

/* Rows much longer than a block's part, with lengths whose quotient in binary64 is rounded down
 * wrongly (49 · (1/49) < 1), and more windows along y than a grid has blocks. */
static void make_long_axis(struct random *random, int i, struct sample *sample)
{
    if (i % 4)
        random_derivative(random, AXIS_X, 49 * 1024 * (1 + random_below(random, 3)), 4,
                          &sample->job);
    else
        random_derivative(random, AXIS_Y, 1, 16 * 65536 + 1 + random_below(random, 1000),
                          &sample->job);
}

static void make_block(struct random *random, int i, struct sample *sample)
{
    sample_block(random, i % 10 ? 20000 : 120000, sample);
}

/* ---- what is checked otherwise ---- */

static bool check_any_copies(struct random *random, int i)
{
    return check_copies(random, i % 10 ? 30000 : 3 << 20);
}

static bool check_any_measure(struct random *random, int i)
{
    return check_measure(random, i % 2 ? DTYPE_F64 : DTYPE_F32);
}

/* The kernel launches of a job with FDSERVER_KERNELS=`names`. */
static uint64_t launches_with(struct random *random, const struct sample *sample, const char *names)
{
    struct trial trial;
    struct passes_constants constants;
    const struct launch *launch = &trial.launch;
    const uint64_t before = cuda_on_host_launches();
    trial_make(&trial, random, sample);
    trial.launch.to = launch->plan->lines * launch->plan->passes;
    passes_constants_init(&constants, launch->plan, plan_table_rows(launch->plan->table));
    setenv("FDSERVER_KERNELS", names, 1);
    const bool ok = passes_load(0, &constants, NULL) == cudaSuccess &&
                    passes_launch(&launch, 1, 0, 132, NULL) == cudaSuccess;
    unsetenv("FDSERVER_KERNELS");
    trial_free(&trial);
    return ok ? cuda_on_host_launches() - before : 0;
}

/* Temporal blocking by its name and by its alias: fewer launches than one for each pass, of forward
 * Euler and of RK4. */
static bool check_names(struct random *random, int i)
{
    bool ok = false;
    for (int tries = 0; tries < 1000 && !ok; tries++) {
        struct sample block;
        sample_block(random, 20000, &block);
        if ((block.job.more.scheme == SCHEME_RK4) == (i > 0)) {
            const uint64_t blocked = launches_with(random, &block, "along_x,temporal_blocking_3d");
            ok = blocked > 0 && blocked < launches_with(random, &block, "streaming_2d") &&
                 launches_with(random, &block, "stairs,row") == blocked;
        }
        sample_free(&block);
    }
    return ok;
}

/* ASan's build, three times as slow, has the kernels as they are: it looks at what calls them. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARE = 4 };
#else
enum { SHARE = 1 };
#endif

static const struct kind {
    const char *name;
    int count;
    void (*make)(struct random *random, int i, struct sample *sample);
    const char *kernels;                         /* that are preferred; NULL: as on a device */
    const uint64_t *seen;                        /* for more than every eighth; NULL: whatever */
    bool (*check)(struct random *random, int i); /* what is no sample */
} kinds[] = {
    {"padded", 24, .make = make_padded, .seen = &paddings},
    {"upwind", 1200, .make = make_upwind, .seen = &found},
    {"stencil", 600, .make = make_stencil},
    {"copies", 40, .check = check_any_copies},
    {"measure", 60, .check = check_any_measure},
    {"scheme", 600, .make = make_scheme},
    {"long_lines", 160, .make = make_long_lines},
    {"probes", 200, .make = make_probes},
    {"table", 400, .make = make_table},
    {"indexed", 400, .make = make_indexed},
    {"columns", 150, .make = make_columns},
    {"streaming_3d", 150, .make = make_streaming_3d},
    {"wide", 200, .make = make_wide},
    {"plain", 3000, .make = make_plain},
    {"short", 100, .make = make_short},
    {"odd_rows", 60, .make = make_odd_rows},
    {"long_axis", 8, .make = make_long_axis},
    /* Several steps a pass, with blocks for which that would not be chosen. */
    {"block", 300, .make = make_block, .kernels = "temporal_blocking_3d"},
    {"names", 2, .check = check_names},
    {"own_planes", 400, .check = check_any_own},
    {"faces", 200, .make = make_faces},
    {"mirrors", 300, .make = make_mirrors},
    {"reach", 100, .make = make_reach},
};

static bool check_one(const struct kind *kind, struct random *random, int i)
{
    if (kind->check)
        return kind->check(random, i);
    struct sample sample = {.block = NULL};
    kind->make(random, i, &sample);
    if (kind->kernels)
        setenv("FDSERVER_KERNELS", kind->kernels, 1);
    const bool ok = check(random, &sample);
    if (kind->kernels)
        unsetenv("FDSERVER_KERNELS");
    sample_free(&sample);
    return ok && (!kind->seen || i + 1 < kind->count || *kind->seen > (uint64_t)kind->count / 8);
}

/* kernels_on_host [KIND…]: all kinds of checks without one. */
int main(int argc, char **argv)
{
    struct random random = random_start();
    int jobs = 0, differ = 0, known = 0;
    for (size_t f = 0; f < sizeof kinds / sizeof *kinds; f++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], kinds[f].name) == 0)
                wanted = true, known++;
        for (int i = 0; wanted && i * SHARE < kinds[f].count; i++, jobs++)
            differ += !check_one(&kinds[f], &random, i);
    }
    printf("%d copies, measures and jobs, %d differ\n", jobs, differ);
    return differ > 0 || known != argc - 1;
}
