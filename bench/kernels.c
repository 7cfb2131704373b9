/* Measures the operators of one device relative to the machine's floors, and checks their results.
 *
 *     bench_kernels [--device host|cuda:N] [--only TEXT]… [--no-check] [--quick] [--small]
 *                   [--floors] [--json FILE]
 *
 * floor: a device copy of as many bytes as the operator must move, measured in the same run and in
 * the same way; ratio = floor's time ÷ operator's time (diffusion: a step's, over the copy of
 * arrays that no cache holds). bar: the ratio to reach, where one is set. Where the device is a
 * GPU, each row's result is compared with the host backend's, bit for bit, on fresh random data.
 *
 * --only: rows whose name, shape, dtype and boundary, with a space between them, contain TEXT; it
 * may have wildcards ("derivative x*512*float64") and be repeated. --quick: smaller arrays on the
 * host. --small: small shapes, only checked and not timed, for compute-sanitizer. --floors: only
 * the floors. FDSERVER_COMMIT is written into the JSON.
 */
#include "bench/floors.h"
#include "bench/runner.h"
#include "numerics/job_check.h"
#include "tests/lib/fill.h"
#include "numerics/stability.h"

#include <float.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

enum {
    ROWS_MOST = 256,
    COPIES_MOST = 64,
    FLOORS_MOST = 16,
    ONLY_MOST = 16,
    CHECK_PIECE = 32 << 20, /* bytes compared at a time */
    CHECK_STEPS = 37,       /* of a diffusion: groups of steps as full as those timed, and others */
    CLASSIC_STEPS = 100,
    CLASSICS_MOST = 16, /* for one job */
    ROOFLINE_BYTES = 512 << 20
};

static const double CLASSIC_TOLERANCE = 1e-5; /* of fields in [−1, 1) */

struct row {
    char name[40], shape[24], boundary[16];
    const char *dtype;
    double us;          /* a pass; diffusion: a step */
    double gbs, gcells; /* of what it must move; points a time */
    double floor_us;    /* the copy */
    double ratio, bar;  /* bar: 0 where none is set */
    double spread;      /* of the samples */
    bool checked;
    double difference; /* from the host backend's result at most; 0: equal to the bit */
    char does[40];     /* a classical kernel's: the name of the product's row that does the same */
    struct timing_kernel kernel;
};

static struct {
    const struct runner *runner;
    bool cuda, check, quick, small, floors;
    const char *only[ONLY_MOST];
    int only_count;
    uint64_t started_ns;
    uint64_t key; /* of this run's random data */
    struct row rows[ROWS_MOST];
    int row_count;
    struct {
        uint64_t bytes;
        double us;
    } copies[COPIES_MOST];
    int copy_count;
} bench;

/* The copy of that many bytes: on a GPU measured once in a run; on a host, whose memory other
 * processes may use, beside every row. */
static double copy_us(uint64_t bytes)
{
    for (int i = 0; bench.cuda && i < bench.copy_count; i++)
        if (bench.copies[i].bytes == bytes)
            return bench.copies[i].us;
    const double us = bench.runner->copy_us(bytes);
    if (bench.copy_count < COPIES_MOST) {
        bench.copies[bench.copy_count].bytes = bytes;
        bench.copies[bench.copy_count++].us = us;
    }
    return us;
}

/* --- one row --- */

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

/* The arrays of a launch: those of a staged plan are odd and spare. */
struct arrays {
    void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd, *spare[2];
    struct operands operands; /* fields: OPERAND_COEFFICIENT and OPERAND_SOURCE */
};

static struct launch launch_of(const struct plan *plan, const struct arrays *arrays)
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

/* A job's fields on the device and, if results are checked, the host backend's. */
struct bed {
    const struct job *job;
    struct plan plan;
    struct arrays device;
    bool checked;
    struct job checked_job; /* of fewer steps */
    struct plan checked_plan;
    struct arrays host;
};

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

static void bed_make(struct bed *bed, const struct job *job, const void *block)
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
    const struct launch expected = launch_of(&bed->checked_plan, &bed->host);
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

static void bed_free(struct bed *bed)
{
    const uint64_t bytes = job_bytes(bed->job);
    plan_release(&bed->plan);
    if (bed->checked)
        plan_release(&bed->checked_plan);
    release_arrays(&bed->device, bench.runner->release, bytes);
    release_arrays(&bed->host, free_host_memory, bytes);
}

/* The largest difference of two arrays of the job's type; 0 where they are equal to the bit, else
 * more than 0. */
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

/* The outputs are poisoned first. */
static double bed_difference(const struct bed *bed, int which)
{
    const uint64_t bytes = job_bytes(bed->job);
    const struct launch launch = launch_of(&bed->checked_plan, &bed->device);
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

static void measure(struct row *row, const struct bed *bed, int which)
{
    struct launch launch = launch_of(&bed->plan, &bed->device);
    double steps = (double)bed->job->steps;
    if (which != RUNNER_PRODUCT && steps > CLASSIC_STEPS) { /* one is like the next */
        steps = CLASSIC_STEPS;
        launch.to = CLASSIC_STEPS * bed->plan.lines;
    }
    row->checked = bed->checked;
    if (bed->checked)
        row->difference = bed_difference(bed, which);
    if (bench.small) {
        row->kernel = bench.runner->kernel(which, &launch);
        return;
    }
    const struct timing timing = bench.runner->time(which, &launch);
    row->us = timing.us / steps;
    row->spread = timing.spread;
    row->kernel = timing.kernel;
}

/* Compare with the host backend's bits. A classical kernel may round differently. */
static bool is_right(const struct row *row)
{
    return !row->checked || row->difference <= (row->does[0] ? CLASSIC_TOLERANCE : 0);
}

static const char *compared(const struct row *row)
{
    return !row->checked          ? ""
           : row->difference == 0 ? "equal"
           : is_right(row)        ? "close"
                                  : "DIFFERS";
}

static void print_row(const struct row *row)
{
    char bar[32] = "";
    if (row->bar > 0)
        snprintf(bar, sizeof bar, "%4.2f %s", row->bar, row->ratio >= row->bar ? "met" : "MISSED");
    printf("%-26s %-14s %-7s %-10s %10.2f us %7.1f GB/s %8.2f Gcells/s %5.3f %-11s %s", row->name,
           row->shape, row->dtype, row->boundary, row->us, row->gbs, row->gcells, row->ratio, bar,
           compared(row));
    if (row->kernel.launches)
        printf("  %s x%d, %d threads, %d registers, %d B, %.0f%%", row->kernel.name,
               row->kernel.launches, row->kernel.threads, row->kernel.registers,
               row->kernel.shared_bytes, 100 * row->kernel.occupancy);
    printf("\n");
    fflush(stdout);
}

static bool wanted(const struct row *row)
{
    char line[128];
    snprintf(line, sizeof line, "%s %s %s %s", row->name, row->shape, row->dtype, row->boundary);
    for (int i = 0; i < bench.only_count; i++) {
        char pattern[128];
        snprintf(pattern, sizeof pattern, "*%s*", bench.only[i]);
        if (fnmatch(pattern, line, 0) == 0)
            return true;
    }
    return bench.only_count == 0;
}

static void row_init(struct row *row, const char *name, const struct job *job, const char *boundary)
{
    *row = (struct row){.dtype = job->dtype == DTYPE_F32 ? "float32" : "float64"};
    snprintf(row->name, sizeof row->name, "%s", name);
    snprintf(row->boundary, sizeof row->boundary, "%s", boundary);
    if (job->axes == 3)
        snprintf(row->shape, sizeof row->shape, "%" PRIu64 "x%" PRIu64 "x%" PRIu64, job->n[AXIS_Z],
                 job->n[AXIS_Y], job->n[AXIS_X]);
    else
        snprintf(row->shape, sizeof row->shape, "%" PRIu64 "x%" PRIu64, job->n[AXIS_Y],
                 job->n[AXIS_X]);
}

/* Arrays that one application must read and write; of RK4 each stage, of which three have a base.
 */
static int moved_arrays(const struct job *job)
{
    const int once = job_inputs(job) + job_outputs(job) + job->more.coefficient + job->more.source;
    return job->more.scheme == SCHEME_RK4 ? 4 * once + 3 : once;
}

static void finish_row(struct row *row, const struct job *job, double floor_us)
{
    const int moved = moved_arrays(job);
    if (bench.small) {
        printf("%-26s %-14s %-7s %-10s %-7s %s\n", row->name, row->shape, row->dtype, row->boundary,
               compared(row), row->kernel.name);
        return;
    }
    row->floor_us = floor_us > 0 ? floor_us : copy_us(job_bytes(job) * (uint64_t)moved / 2);
    row->gbs = 1e-3 * moved * (double)job_bytes(job) / row->us;
    row->gcells = 1e-3 * (double)job_points(job) / row->us;
    row->ratio = row->floor_us / row->us;
    print_row(row);
}

/* The floor of a row. */
enum against {
    AGAINST_COPY,    /* or a time that is known */
    AGAINST_CLASSICS /* the fastest of the classical kernels */
};

/* Measure a job and the classical kernels for it, unless --only excludes them. block: the
 * job's, or NULL. floor_us: 0 to measure it, the copy of as many bytes as the job must move. bar: 0
 * for none. */
static void add_rows_of(const char *name, const struct job *job, const void *block,
                        const char *boundary, double floor_us, enum against against, double bar)
{
    struct failure failure = {0};
    struct row rows[CLASSICS_MOST + 1];
    int which[CLASSICS_MOST + 1], count = 0;
    const int moved = moved_arrays(job);
    const char *classic;
    if (!job_check(job, INFINITY, &failure)) {
        fprintf(stderr, "%s: %s\n", name, failure.message);
        exit(1);
    }
    row_init(&rows[0], name, job, boundary);
    rows[0].bar = bar;
    which[0] = RUNNER_PRODUCT;
    const bool product = wanted(&rows[0]);
    count = product;
    for (int i = 0; (classic = bench.runner->classic(i, job)) && count <= CLASSICS_MOST; i++) {
        struct row *row = &rows[count];
        if (!*classic)
            continue;
        row_init(row, classic, job, boundary);
        snprintf(row->does, sizeof row->does, "%s", name);
        if (wanted(row) || (product && against == AGAINST_CLASSICS))
            which[count++] = i;
    }
    if (count == 0 || bench.row_count + count > ROWS_MOST ||
        job_bytes(job) * (uint64_t)(moved + 1) > bench.runner->free_bytes() / 10 * 9)
        return;
    struct bed *bed = malloc(sizeof *bed);
    if (!bed)
        exit(1);
    bed_make(bed, job, block);
    for (int i = 0; i < count; i++) {
        measure(&rows[i], bed, which[i]);
        if (against == AGAINST_CLASSICS && which[i] != RUNNER_PRODUCT)
            floor_us = floor_us > 0 ? fmin(floor_us, rows[i].us) : rows[i].us;
    }
    bed_free(bed);
    free(bed);
    for (int i = 0; i < count; i++) {
        finish_row(&rows[i], job, floor_us);
        bench.rows[bench.row_count++] = rows[i];
    }
}

static void add_rows(const char *name, const struct job *job, const char *boundary, double floor_us,
                     enum against against, double bar)
{
    add_rows_of(name, job, NULL, boundary, floor_us, against, bar);
}

/* --- the rows --- */

static struct job job_of(enum operator_id operator_id, enum dtype dtype, int accuracy, int axes,
                         uint64_t nx, uint64_t ny, uint64_t nz)
{
    struct job job;
    job_init(&job);
    job.operator_id = (uint8_t)operator_id;
    job.dtype = (uint8_t)dtype;
    job.axes = (uint8_t)axes;
    job.accuracy = (uint8_t)accuracy;
    job.order = (uint8_t)job_order(&job);
    job.n[AXIS_X] = nx;
    job.n[AXIS_Y] = ny;
    job.n[AXIS_Z] = nz;
    return job;
}

/* name: as in a row's column. */
static void set_boundary(struct job *job, int axis, const char *name)
{
    static const struct {
        const char *name;
        struct boundary boundary;
    } boundaries[] = {{"periodic", {.kind = BOUNDARY_PERIODIC}},
                      {"endpoint", {.kind = BOUNDARY_ENDPOINT}},
                      {"one-sided", {.kind = BOUNDARY_ONE_SIDED}},
                      {"halo", {.kind = BOUNDARY_HALO, .value = 0.999}},
                      {"value", {.kind = BOUNDARY_VALUE, .value = 0.5}},
                      {"derivative", {.kind = BOUNDARY_DERIVATIVE}},
                      {"mixed", {.kind = BOUNDARY_MIXED, .value = 0.5}},
                      {"curvature", {.kind = BOUNDARY_CURVATURE, .value = 0.5}},
                      {"mirror", {.kind = BOUNDARY_MIRROR}},
                      {"nearest", {.kind = BOUNDARY_NEAREST}},
                      {"constant", {.kind = BOUNDARY_CONSTANT, .value = 0.5}}};
    size_t i = 0;
    while (strcmp(name, boundaries[i].name) != 0)
        if (++i == sizeof boundaries / sizeof *boundaries) {
            fprintf(stderr, "no boundary is called %s\n", name);
            exit(2);
        }
    for (int side = 0; side < SIDE_COUNT; side++)
        job->boundary[axis][side] = boundaries[i].boundary;
}

/* Along x, y and z. */
static void derivatives(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int order,
                        int accuracy, const char *boundary, double bar)
{
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        char name[40];
        struct job job = job_of(OPERATOR_DERIVATIVE, dtype, accuracy, 3, nx, ny, nz);
        job.axis = (uint8_t)axis;
        job.order = (uint8_t)order;
        set_boundary(&job, axis, boundary);
        static const char *const orders[] = {"", "", " second", " third", " fourth"};
        snprintf(name, sizeof name, "derivative %c%s accuracy %d", "xyz"[axis], orders[order],
                 accuracy);
        add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
    }
}

static void cubes(uint64_t n, enum dtype dtype, int order, int accuracy, const char *boundary,
                  double bar)
{
    derivatives(n, n, n, dtype, order, accuracy, boundary, bar);
}

/* Compared with kernels for one size: for 64³ NVIDIA's own, as measured on an H200, for the others
 * the fastest of bench/classics.cu in this run. */
static void small_cubes(uint64_t n)
{
    static const double found_us[AXIS_COUNT] = {3.0, 3.4, 3.4};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        char name[40];
        struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 8, 3, n, n, n);
        job.axis = (uint8_t)axis;
        set_boundary(&job, axis, "endpoint");
        snprintf(name, sizeof name, "derivative %c accuracy 8", "xyz"[axis]);
        if (n == 64)
            add_rows(name, &job, "endpoint", found_us[axis], AGAINST_COPY, 1);
        else
            add_rows(name, &job, "endpoint", 0, AGAINST_CLASSICS, 1);
    }
}

static void laplacian(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                      const char *boundary, double bar)
{
    char name[40];
    struct job job = job_of(OPERATOR_LAPLACIAN, dtype, accuracy, 3, nx, ny, nz);
    for (int a = 0; a < AXIS_COUNT; a++)
        set_boundary(&job, a, boundary);
    snprintf(name, sizeof name, "laplacian 3D accuracy %d", accuracy);
    add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
}

/* Gradient, divergence and curl. */
static void vector_operators(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                             const char *boundary, double bar)
{
    static const enum operator_id ids[] = {OPERATOR_GRADIENT, OPERATOR_DIVERGENCE, OPERATOR_CURL};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char name[40];
        struct job job = job_of(ids[i], dtype, accuracy, 3, nx, ny, nz);
        for (int a = 0; a < AXIS_COUNT; a++)
            set_boundary(&job, a, boundary);
        snprintf(name, sizeof name, "%s 3D accuracy %d", operator_name(ids[i]), accuracy);
        add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
    }
}

static struct job diffusion_of(int axes, uint64_t n, enum dtype dtype, int accuracy, uint64_t steps,
                               const char *boundary)
{
    struct job job = job_of(OPERATOR_DIFFUSION, dtype, accuracy, axes, n, n, axes == 3 ? n : 1);
    job.steps = steps;
    for (int a = 0; a < axes; a++) {
        job.diffusivity[a] = 1;
        set_boundary(&job, a, boundary);
    }
    job.dt = 0.9 * job_dt_max(&job);
    return job;
}

static void rk4(int axes, uint64_t n, enum dtype dtype, int accuracy, const char *boundary,
                double bar)
{
    char name[40];
    struct job job = diffusion_of(axes, n, dtype, accuracy, 4, boundary);
    job.more.scheme = SCHEME_RK4;
    snprintf(name, sizeof name, "rk4 %dD accuracy %d", axes, accuracy);
    add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
}

static void diffusion_with_source(int axes, uint64_t n, enum dtype dtype, int accuracy,
                                  const char *boundary, double bar)
{
    char name[40];
    struct job job = diffusion_of(axes, n, dtype, accuracy, 6, boundary);
    job.more.source = 1;
    snprintf(name, sizeof name, "diffusion %dD source accuracy %d", axes, accuracy);
    add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
}

/* Crank–Nicolson split by axes, with steps far beyond what forward Euler takes; κ is a number, or a
 * field. */
static void adi(int axes, uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, bool field,
                const char *boundary, double bar)
{
    char name[40];
    struct job job = job_of(OPERATOR_DIFFUSION, dtype, 2, axes, nx, ny, nz);
    job.more.scheme = SCHEME_ADI;
    job.more.coefficient = field;
    job.more.coefficient_max = field;
    job.steps = 2;
    job.dt = 5;
    for (int a = 0; a < axes; a++) {
        job.diffusivity[a] = field ? 0 : 1;
        set_boundary(&job, a, boundary);
    }
    snprintf(name, sizeof name, "adi %dD%s", axes, field ? " of a field" : "");
    add_rows(name, &job, boundary, 0, AGAINST_COPY, bar);
}

/* ∇·(k∇f), and a diffusion of a field k; biharmonic. */
static void flows(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy, double bar)
{
    char name[40];
    struct job job = job_of(OPERATOR_LAPLACIAN, dtype, accuracy, 3, nx, ny, nz);
    job.more.coefficient = 1;
    snprintf(name, sizeof name, "div(k grad) 3D accuracy %d", accuracy);
    add_rows(name, &job, "periodic", 0, AGAINST_COPY, bar);
    if (accuracy > 2)
        return;
    job.operator_id = OPERATOR_DIFFUSION;
    job.more.coefficient_max = 1;
    job.steps = 2;
    job.dt = 0.1;
    add_rows("diffusion of a field 3D accuracy 2", &job, "periodic", 0, AGAINST_COPY, bar);
}

static void biharmonic(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                       double bar)
{
    char name[40];
    const struct job job = job_of(OPERATOR_BIHARMONIC, dtype, accuracy, 3, nx, ny, nz);
    snprintf(name, sizeof name, "biharmonic 3D accuracy %d", accuracy);
    add_rows(name, &job, "periodic", 0, AGAINST_COPY, bar);
}

/* What a step, or an application, may take, as a share of the copy of what it must move. float64
 * has 0.9 of float32's, shapes that nothing divides 0.8. */
static void lines_and_flows(uint64_t cube, uint64_t plane)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        const enum dtype type = (enum dtype)dtype;
        const double share = type == DTYPE_F32 ? 1 : 0.9;
        adi(3, cube, cube, cube, type, false, "derivative", 0.173 * share);
        adi(3, cube, cube, cube, type, false, "periodic", 0.173 * share);
        adi(3, cube - 3, cube - 1, cube + 1, type, false, "derivative", 0.138 * share);
        adi(2, plane, plane, 1, type, false, "derivative", 0);
        adi(3, cube, cube, cube, type, true, "derivative", 0.097 * share);
        adi(3, cube, cube, cube, type, true, "periodic", 0);
        adi(3, cube - 3, cube - 1, cube + 1, type, true, "derivative", 0.078 * share);
        flows(cube, cube, cube, type, 2, 0.9 * share);
        flows(cube, cube, cube, type, 4, 0.7 * share);
        flows(cube, cube, cube, type, 8, 0.217 * share);
        flows(cube - 3, cube - 1, cube + 1, type, 2, 0.72 * share);
        biharmonic(cube, cube, cube, type, 2, 0.43 * share);
        biharmonic(cube, cube, cube, type, 8, 0.24 * share);
    }
}

/* Compared with the copy roofline: the bytes of a step at the speed of copies larger than caches.
 */
static void diffusion(int axes, uint64_t n, enum dtype dtype, int accuracy, uint64_t steps,
                      const char *boundary, double bar)
{
    char name[40];
    const struct job job = diffusion_of(axes, n, dtype, accuracy, steps, boundary);
    snprintf(name, sizeof name, "diffusion %dD accuracy %d", axes, accuracy);
    const double floor_us = job_bytes(&job) < ROOFLINE_BYTES && !bench.quick
                                ? copy_us(ROOFLINE_BYTES) * (double)job_bytes(&job) / ROOFLINE_BYTES
                                : 0;
    add_rows(name, &job, boundary, floor_us, AGAINST_COPY, bar);
}

/* A derivative along an axis, or a Laplacian along all (AXIS_COUNT), by coordinates. */
static void by_coordinates(int axis, uint64_t n, enum dtype dtype, int accuracy,
                           const char *boundary, double bar)
{
    char name[40];
    const bool all = axis == AXIS_COUNT;
    struct job job =
        job_of(all ? OPERATOR_LAPLACIAN : OPERATOR_DERIVATIVE, dtype, accuracy, 3, n, n, n);
    job.axis = (uint8_t)(all ? 0 : axis);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (all || a == axis) {
            set_boundary(&job, a, boundary);
            job.more.coordinates |= (uint8_t)(1 << a);
        }
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    char *block = calloc(1, job.more.block_bytes);
    if (!block)
        exit(1);
    double *x = (double *)(void *)block;
    for (uint64_t i = 0; i < job.more.block_bytes / sizeof *x; i++)
        x[i] = (double)i + 0.3 * sin((double)i);
    job_block_key(block, job.more.block_bytes, job.more.block_key);
    if (all)
        snprintf(name, sizeof name, "laplacian coordinates accuracy %d", accuracy);
    else
        snprintf(name, sizeof name, "derivative %c coordinates accuracy %d", "xyz"[axis], accuracy);
    add_rows_of(name, &job, block, boundary, 0, AGAINST_COPY, bar);
    free(block);
}

/* A stencil of a user's own: the box, or the star, of that radius. */
static void stencil(int axes, uint64_t n, enum dtype dtype, int radius, bool star,
                    const char *boundary, double bar)
{
    static int32_t offsets[JOB_STENCIL_POINTS][AXIS_COUNT];
    static double weights[JOB_STENCIL_POINTS];
    char name[40];
    struct job job = job_of(OPERATOR_STENCIL, dtype, 8, axes, n, n, axes == 3 ? n : 1);
    const int32_t radius_z = axes == 3 ? radius : 0;
    uint32_t points = 0;
    int32_t at[AXIS_COUNT];
    for (at[AXIS_Z] = -radius_z; at[AXIS_Z] <= radius_z; at[AXIS_Z]++)
        for (at[AXIS_Y] = -radius; at[AXIS_Y] <= radius; at[AXIS_Y]++)
            for (at[AXIS_X] = -radius; at[AXIS_X] <= radius; at[AXIS_X]++) {
                if (star && (at[AXIS_X] != 0) + (at[AXIS_Y] != 0) + (at[AXIS_Z] != 0) > 1)
                    continue;
                memcpy(offsets[points], at, sizeof at);
                weights[points] = 1.0 / (points + 3);
                points++;
            }
    for (int a = 0; a < axes; a++) {
        job.more.stencil_radius[a] = (uint8_t)radius;
        set_boundary(&job, a, boundary);
    }
    job.more.stencil_points = points;
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    char *block = calloc(1, job.more.block_bytes);
    if (!block)
        exit(1);
    memcpy(block + job_block_part(&job, BLOCK_OFFSETS), offsets, points * sizeof *offsets);
    memcpy(block + job_block_part(&job, BLOCK_WEIGHTS), weights, points * sizeof *weights);
    job_block_key(block, job.more.block_bytes, job.more.block_key);
    snprintf(name, sizeof name, "stencil %dD %s of %" PRIu32, axes, star ? "star" : "box", points);
    add_rows_of(name, &job, block, boundary, 0, AGAINST_COPY, bar);
    free(block);
}

static void stencils(uint64_t cube, uint64_t plane)
{
    static const char *const sides[] = {"value", "one-sided", "mirror", "nearest", "constant"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        const double share = dtype == DTYPE_F32 ? 1 : 0.9;
        stencil(3, cube, dtype, 1, true, "periodic", share * 0.88);
        stencil(3, cube, dtype, 1, false, "periodic", share * 0.88);
        stencil(3, cube, dtype, 4, true, "periodic", share * 0.88);
        stencil(3, cube, dtype, 2, false, "periodic", share * 0.40);
        stencil(2, plane, dtype, 1, true, "periodic", share * 0.88);
        stencil(2, plane, dtype, 1, false, "periodic", share * 0.87);
        stencil(2, plane, dtype, 4, false, "periodic", share * 0.6);
    }
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        stencil(3, cube, DTYPE_F32, 1, true, sides[i], 0.75);
        stencil(3, cube, DTYPE_F32, 1, false, sides[i], 0.75);
        stencil(3, cube, DTYPE_F32, 4, true, sides[i], 0.75);
    }
}

/* The table of the bars for one H200. */
static void rows_cuda(void)
{
    const uint64_t cube = bench.small ? 64 : 512, steps = bench.small ? CHECK_STEPS : 1000;
    const uint64_t steps_3d = bench.small ? CHECK_STEPS : 100;
    const uint64_t plane = bench.small ? 256 : 4096, wide = bench.small ? 320 : 16384;
    /* float32, accuracy 8; then the other accuracies and float64 */
    for (uint64_t n = cube / 2; n <= 2 * cube; n *= 2)
        cubes(n, DTYPE_F32, 1, 8, "periodic", 0.92);
    for (int accuracy = 2; accuracy <= 6; accuracy += 2)
        cubes(cube, DTYPE_F32, 1, accuracy, "periodic", 0.92);
    for (int accuracy = 2; accuracy <= 8; accuracy += 2)
        cubes(cube, DTYPE_F64, 1, accuracy, "periodic", 0.92);
    /* the other boundaries, and shapes that no vector or tile divides */
    cubes(cube, DTYPE_F32, 1, 8, "endpoint", 0.85);
    cubes(cube, DTYPE_F32, 1, 8, "one-sided", 0.85);
    cubes(cube, DTYPE_F64, 1, 8, "one-sided", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "periodic", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "endpoint", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "one-sided", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 2, "one-sided", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F64, 1, 8, "one-sided", 0.85);
    /* resident in L2 */
    for (uint64_t n = 64; n <= 128; n += 32) {
        small_cubes(n);
        cubes(n, DTYPE_F32, 1, 8, "periodic", 0);
    }
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        cubes(cube, (enum dtype)dtype, 2, 8, "periodic", 0.85);
        for (int accuracy = 2; accuracy <= 8; accuracy += 2)
            laplacian(cube, cube, cube, (enum dtype)dtype, accuracy, "periodic", 0.85);
        laplacian(cube, cube, cube, (enum dtype)dtype, 8, "one-sided", 0);
        laplacian(cube + 1, cube - 1, cube - 3, (enum dtype)dtype, 8, "periodic", 0);
        laplacian(cube + 1, cube - 1, cube - 3, (enum dtype)dtype, 8, "one-sided", 0);
    }
    vector_operators(cube, cube, cube, DTYPE_F32, 8, "periodic", 0.85);
    for (int accuracy = 2; accuracy <= 6; accuracy += 2)
        vector_operators(cube, cube, cube, DTYPE_F32, accuracy, "periodic", 0.85);
    vector_operators(cube, cube, cube, DTYPE_F64, 8, "periodic", 0.85);
    vector_operators(cube, cube, cube, DTYPE_F32, 8, "one-sided", 0);
    vector_operators(cube + 1, cube - 1, cube - 3, DTYPE_F32, 8, "periodic", 0);
    /* sides with numbers */
    laplacian(cube, cube, cube, DTYPE_F32, 2, "value", 0.80);
    laplacian(cube, cube, cube, DTYPE_F32, 8, "value", 0.67);
    laplacian(cube, cube, cube, DTYPE_F32, 8, "mixed", 0.65);
    laplacian(cube, cube, cube, DTYPE_F32, 8, "curvature", 0.65);
    laplacian(cube, cube, cube, DTYPE_F64, 8, "value", 0);
    laplacian(cube + 1, cube - 1, cube - 3, DTYPE_F32, 8, "value", 0);
    cubes(cube, DTYPE_F32, 1, 8, "value", 0);
    vector_operators(cube, cube, cube, DTYPE_F32, 8, "value", 0.65);
    vector_operators(cube, cube, cube, DTYPE_F32, 8, "mixed", 0);
    diffusion(3, cube, DTYPE_F32, 8, steps_3d, "mixed", 0);
    static const double bars_16384[] = {3.4, 1.9, 1.2}, bars_4096[] = {2.2, 1.3, 0.9};
    for (int i = 0; i < 3; i++) {
        diffusion(2, wide, DTYPE_F32, 2 << i, steps, "periodic", bars_16384[i]);
        diffusion(2, wide, DTYPE_F32, 2 << i, steps, "halo", bars_16384[i]);
    }
    for (int i = 0; i < 3; i++) {
        diffusion(2, plane, DTYPE_F32, 2 << i, steps, "periodic", bars_4096[i]);
        diffusion(2, plane, DTYPE_F32, 2 << i, steps, "halo", bars_4096[i]);
        diffusion(2, plane, DTYPE_F32, 2 << i, steps, "value", bars_4096[i]);
        diffusion(2, plane, DTYPE_F32, 2 << i, steps, "derivative", bars_4096[i]);
    }
    diffusion(2, plane, DTYPE_F64, 2, steps, "periodic", 0);
    diffusion(2, plane - 1, DTYPE_F32, 2, steps, "value", 0);
    static const char *const of_3d[] = {"periodic", "value"};
    for (int b = 0; b < 2; b++) {
        diffusion(3, cube, DTYPE_F32, 2, steps_3d, of_3d[b], 1.3);
        diffusion(3, cube, DTYPE_F64, 2, steps_3d, of_3d[b], 1.2);
        diffusion(3, cube, DTYPE_F32, 4, steps_3d, of_3d[b], 0.95);
        diffusion(3, cube, DTYPE_F32, 8, steps_3d, of_3d[b], 0.85);
    }
    stencils(cube, 2 * plane);
    lines_and_flows(cube, 2 * plane);
    /* What a pass adds to its centred rows. */
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        rk4(3, cube, (enum dtype)dtype, 2, "periodic", 2);
        rk4(3, cube, (enum dtype)dtype, 8, "periodic", 0.79);
        rk4(3, cube - 3, (enum dtype)dtype, 8, "periodic", 0.63);
        rk4(2, 2 * plane, (enum dtype)dtype, 8, "periodic", 0.79);
        diffusion_with_source(3, cube, (enum dtype)dtype, 2, "periodic", 0.87);
        diffusion_with_source(3, cube, (enum dtype)dtype, 8, "periodic", 0);
        diffusion_with_source(2, 2 * plane, (enum dtype)dtype, 2, "periodic", 0.87);
        for (int order = 3; order <= 4; order++) {
            cubes(cube, (enum dtype)dtype, order, 8, "periodic", 0.88);
            derivatives(cube - 3, cube - 1, cube + 1, (enum dtype)dtype, order, 8, "periodic", 0.7);
        }
    }
    cubes(cube, DTYPE_F32, 4, 8, "one-sided", 0.88);
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        for (int axis = 0; axis < AXIS_COUNT; axis++)
            by_coordinates(axis, cube, (enum dtype)dtype, 8, "periodic", 0.85);
        by_coordinates(AXIS_COUNT, cube, (enum dtype)dtype, 2, "periodic", 0);
        by_coordinates(AXIS_COUNT, cube, (enum dtype)dtype, 8, "periodic", 0.6);
        by_coordinates(AXIS_COUNT, cube - 3, (enum dtype)dtype, 8, "periodic", 0.48);
    }
    by_coordinates(AXIS_X, cube, DTYPE_F32, 8, "one-sided", 0.85);
    by_coordinates(AXIS_COUNT, cube, DTYPE_F32, 8, "one-sided", 0.6);
}

/* In main memory, with one bar; and some that the second and third caches may hold, where copies
 * are faster, too. */
static void rows_host(void)
{
    const uint64_t cube = bench.quick ? 128 : 512, square = bench.quick ? 1024 : 4096;
    const uint64_t steps = bench.quick ? 5 : 10;
    cubes(cube, DTYPE_F32, 1, 8, "periodic", 0.85);
    cubes(cube, DTYPE_F64, 1, 8, "periodic", 0.85);
    cubes(cube, DTYPE_F32, 1, 2, "periodic", 0.85);
    derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "one-sided", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
            laplacian(cube, cube, cube, (enum dtype)dtype, accuracy, "periodic", 0.85);
    vector_operators(cube, cube, cube, DTYPE_F32, 8, "periodic", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy *= 2)
        diffusion(2, square, DTYPE_F32, accuracy, steps, "halo", 0.85);
    diffusion(2, square, DTYPE_F32, 8, steps, "periodic", 0.85);
    diffusion(2, square, DTYPE_F32, 8, steps, "value", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        diffusion(3, cube, DTYPE_F32, accuracy, steps, "periodic", 0.85);
    diffusion(3, cube, DTYPE_F64, 2, steps, "derivative", 0.85);
    for (uint64_t n = cube / 2; n >= 64; n /= 2) {
        cubes(n, DTYPE_F32, 1, 8, "periodic", 0);
        laplacian(n, n, n, DTYPE_F32, 8, "periodic", 0);
        vector_operators(n, n, n, DTYPE_F32, 8, "periodic", 0);
    }
    stencils(cube, 2 * square);
}

/* --- the machine, and the report --- */

struct floor {
    const char *name;
    double value;
};

static size_t large_bytes(void)
{
    return bench.quick ? 32 << 20 : ROOFLINE_BYTES;
}

/* Measured anew. */
static double copy_gbs(void)
{
    return 2e-3 * (double)large_bytes() / bench.runner->copy_us(large_bytes());
}

static int measure_floors(struct floor *floors)
{
    const size_t large = large_bytes(), small = 1 << 20;
    int n = 0;
    floors[n++] = (struct floor){"copy_gbs", 2e-3 * (double)large / copy_us(large)};
    if (bench.only_count)
        return n;
    floors[n++] = (struct floor){"memcpy_gbs", 1e-3 * (double)large / floors_memcpy_us(large)};
    floors[n++] =
        (struct floor){"host_copy_gbs", 2e-3 * (double)large / floors_host_copy_us(large)};
    floors[n++] = (struct floor){"socket_gbs", 1e-3 * (double)large / floors_socket_us(large)};
    floors[n++] = (struct floor){"socket_round_trip_us", floors_socket_round_trip_us()};
    if (!bench.cuda)
        return n;
    floors[n++] = (struct floor){"copy_1mb_us", floors_device_copy_us(small)};
    floors[n++] =
        (struct floor){"pinned_up_gbs", 1e-3 * (double)large / floors_pinned_up_us(large)};
    floors[n++] =
        (struct floor){"pinned_down_gbs", 1e-3 * (double)large / floors_pinned_down_us(large)};
    floors[n++] =
        (struct floor){"pinned_both_gbs", 2e-3 * (double)large / floors_pinned_both_us(large)};
    floors[n++] =
        (struct floor){"pinned_up_1mb_gbs", 1e-3 * (double)small / floors_pinned_up_us(small)};
    floors[n++] =
        (struct floor){"pinned_down_1mb_gbs", 1e-3 * (double)small / floors_pinned_down_us(small)};
    floors[n++] = (struct floor){"launch_and_wait_us", floors_launch_us()};
    return n;
}

static bool write_json(const char *path, const struct floor *floors, int floor_count)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return false;
    }
    char date[32], machine[512];
    const time_t now = time(NULL);
    const char *commit = getenv("FDSERVER_COMMIT");
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    bench.runner->describe(machine, sizeof machine);
    fprintf(file, "{\"commit\": \"%s\", \"date\": \"%s\", \"device\": \"%s\", %s,\n \"floors\": {",
            commit ? commit : "", date, bench.runner->name(), machine);
    for (int i = 0; i < floor_count; i++)
        fprintf(file, "%s\"%s\": %.4g", i ? ", " : "", floors[i].name, floors[i].value);
    fprintf(file, "},\n \"rows\": [\n");
    for (int i = 0; i < bench.row_count; i++) {
        const struct row *row = &bench.rows[i];
        char bar[16] = "null";
        if (row->bar > 0)
            snprintf(bar, sizeof bar, "%.2f", row->bar);
        fprintf(file,
                "  {\"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"boundary\": \"%s\", "
                "\"us\": %.3f, \"gbs\": %.2f, \"gcells\": %.3f, \"ratio\": %.4f, \"bar\": %s, "
                "\"floor_us\": %.3f, \"spread\": %.3f, \"equal\": %s, \"difference\": %.3g",
                row->name, row->shape, row->dtype, row->boundary, row->us, row->gbs, row->gcells,
                row->ratio, bar, row->floor_us, row->spread,
                !row->checked          ? "null"
                : row->difference == 0 ? "true"
                                       : "false",
                isfinite(row->difference) ? row->difference : DBL_MAX);
        if (row->does[0])
            fprintf(file, ", \"does\": \"%s\"", row->does);
        if (row->kernel.launches)
            fprintf(file,
                    ",\n   \"kernel\": \"%s\", \"launches\": %d, \"blocks\": %d, \"threads\": %d, "
                    "\"registers\": %d, \"shared_bytes\": %d, \"occupancy\": %.3f",
                    row->kernel.name, row->kernel.launches, row->kernel.blocks, row->kernel.threads,
                    row->kernel.registers, row->kernel.shared_bytes, row->kernel.occupancy);
        fprintf(file, "}%s\n", i + 1 < bench.row_count ? "," : "");
    }
    fprintf(file, " ]}\n");
    return fclose(file) == 0;
}

/* How many rows reach their bars; false where a result differs from the host backend's. */
static bool summary(void)
{
    int bars = 0, met = 0, differ = 0;
    for (int i = 0; i < bench.row_count; i++) {
        bars += bench.rows[i].bar > 0 && !bench.small;
        met += bench.rows[i].bar > 0 && bench.rows[i].ratio >= bench.rows[i].bar;
        differ += !is_right(&bench.rows[i]);
    }
    printf("%d rows, %d of %d bars met, %d differ from the host backend, %.0f s\n", bench.row_count,
           met, bars, differ, 1e-9 * (double)(floors_now_ns() - bench.started_ns));
    return differ == 0;
}

static bool open_devices(const char *name)
{
    bench.cuda = strncmp(name, "cuda:", 5) == 0;
    bench.runner = &runner_host;
    runner_host.open(0);
    if (!bench.cuda)
        return true;
#ifdef HAVE_CUDA
    bench.runner = &runner_cuda;
    runner_cuda.open(atoi(name + 5));
    return true;
#else
    fprintf(stderr, "built without CUDA\n");
    return false;
#endif
}

int main(int argc, char **argv)
{
    const char *device = "host", *json = NULL;
    bench.check = true;
    bench.started_ns = floors_now_ns();
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--device") == 0 && more) {
            device = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0 && more) {
            json = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && more && bench.only_count < ONLY_MOST) {
            bench.only[bench.only_count++] = argv[++i];
        } else if (strcmp(argv[i], "--no-check") == 0) {
            bench.check = false;
        } else if (strcmp(argv[i], "--quick") == 0) {
            bench.quick = true;
        } else if (strcmp(argv[i], "--small") == 0) {
            bench.small = true;
        } else if (strcmp(argv[i], "--floors") == 0) {
            bench.floors = true;
        } else {
            fprintf(stderr,
                    "usage: bench_kernels [--device host|cuda:N] [--only TEXT]... [--no-check] "
                    "[--quick] [--small] [--floors] [--json FILE]\n");
            return 2;
        }
    }
    if (getrandom(&bench.key, sizeof bench.key, 0) != sizeof bench.key || !open_devices(device))
        return 1;
    struct floor floors[FLOORS_MOST];
    int floor_count = bench.small ? 0 : measure_floors(floors);
    printf("%s\n", bench.runner->name());
    for (int i = 0; i < floor_count; i++)
        printf("  floor %-24s %10.2f\n", floors[i].name, floors[i].value);
    if (bench.cuda && !bench.floors)
        rows_cuda();
    else if (!bench.floors)
        rows_host();
    if (!bench.small) {
        floors[floor_count++] = (struct floor){"copy_last_gbs", copy_gbs()};
        printf("  floor %-24s %10.2f at the end\n", "copy_gbs", floors[floor_count - 1].value);
    }
    const bool equal = summary();
    return (json && !write_json(json, floors, floor_count)) || !equal ? 1 : 0;
}
