/* The operators of one backend, as shares of what the machine can do.
 *
 *     bench_kernels [--device host|cuda:N] [--quick] [--json FILE]
 *
 * An operator must read its field and write its result: 2 × bytes. The floor is a copy of as many
 * bytes in the same run; ratio = floor's time ÷ operator's time (for diffusion: a step's).
 * FDSERVER_COMMIT is written into the JSON.
 */
#include "bench/floors.h"
#include "gpu/backend.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROWS_MOST = 256, COPIES_MOST = 64, ARENA_BYTES = 16 << 20, OWNER = 1, SAMPLES = 9 };

struct row {
    char name[48], shape[40], boundary[24];
    const char *dtype;
    double us, gbs, gcells, ratio;
};

static struct {
    const struct backend *backend;
    struct device_info info;
    bool cuda;
    struct row rows[ROWS_MOST];
    int row_count;
    size_t copy_bytes[COPIES_MOST];
    double copy_us[COPIES_MOST];
    int copy_count;
} bench;

/* The copy of that many bytes, measured once a run. */
static double copy_us(size_t bytes)
{
    for (int i = 0; i < bench.copy_count; i++)
        if (bench.copy_bytes[i] == bytes)
            return bench.copy_us[i];
    const double us = bench.cuda ? floors_device_copy_us(bytes) : floors_host_copy_us(bytes);
    if (bench.copy_count < COPIES_MOST) {
        bench.copy_bytes[bench.copy_count] = bytes;
        bench.copy_us[bench.copy_count++] = us;
    }
    return us;
}

static void wait_one(struct completion *completion)
{
    struct pollfd wake = {.fd = bench.backend->wake_descriptor(), .events = POLLIN};
    while (bench.backend->reap(completion, 1) == 0)
        poll(&wake, 1, 100);
}

/* Fill a device array with numbers that differ, through the backend itself. */
static void fill(uint8_t *device, uint64_t bytes, bool is_double, uint8_t *arena)
{
    uint64_t h = 88172645463325252u;
    for (size_t i = 0; i < ARENA_BYTES / (is_double ? 8 : 4); i++) {
        h ^= h << 13;
        h ^= h >> 7;
        h ^= h << 17;
        const double value = (double)(h >> 11) * 0x1p-53;
        if (is_double)
            ((double *)arena)[i] = value;
        else
            ((float *)arena)[i] = (float)value;
    }
    for (uint64_t done = 0; done < bytes; done += ARENA_BYTES) {
        struct completion completion;
        const uint64_t left = bytes - done;
        bench.backend->upload(device + done, arena, left < ARENA_BYTES ? left : ARENA_BYTES, 1);
        wait_one(&completion);
    }
}

/* One operator on resident arrays: the median time on the device of one pass. Short ones are
 * launched many times in a row and timed together. */
static double measure_us(const struct job *job, uint8_t *arena)
{
    const struct backend *backend = bench.backend;
    const uint64_t bytes = job_bytes(job);
    struct plan *plan = malloc(sizeof *plan);
    if (!plan)
        exit(1);
    plan_init(plan, job);
    uint8_t *memory[3];
    for (int i = 0; i < 3; i++) {
        memory[i] = backend->allocate(bytes, OWNER);
        if (!memory[i]) {
            fprintf(stderr, "no memory for %" PRIu64 " bytes\n", bytes);
            exit(1);
        }
        fill(memory[i], bytes, job->dtype == DTYPE_F64, arena);
    }
    struct launch launch = {.plan = plan,
                            .in = {memory[0]},
                            .even = {memory[1]},
                            .odd = memory[2],
                            .to = plan->lines * plan->passes};
    struct completion completion;
    backend->launch(&launch, 2); /* warm */
    wait_one(&completion);
    double samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        uint64_t begun = 0, ended = 0, us = 0;
        const uint64_t enough = completion.device_us > 200 ? 1 : 64;
        const uint64_t start = floors_now_ns();
        while (ended < enough) {
            while (begun < enough && begun - ended < 4) {
                backend->launch(&launch, 2);
                begun++;
            }
            wait_one(&completion);
            us += completion.device_us;
            ended++;
        }
        const double wall_us = (double)(floors_now_ns() - start) / 1000;
        samples[s] = (enough == 1 ? (double)us : wall_us) / (double)(enough * plan->passes);
    }
    for (int i = 0; i < 3; i++)
        backend->release(memory[i], bytes, OWNER);
    free(plan);
    return floors_median(samples, SAMPLES);
}

static void row(const char *name, const struct job *job, const char *boundary, uint8_t *arena)
{
    struct failure failure = {0};
    if (!job_check(job, INFINITY, &failure)) {
        fprintf(stderr, "%s: %s\n", name, failure.message);
        exit(1);
    }
    if (bench.row_count == ROWS_MOST || job_bytes(job) * 3 > bench.info.free_bytes / 10 * 9)
        return;
    struct row *row = &bench.rows[bench.row_count++];
    snprintf(row->name, sizeof row->name, "%s", name);
    snprintf(row->boundary, sizeof row->boundary, "%s", boundary);
    if (job->axes == 3)
        snprintf(row->shape, sizeof row->shape, "%" PRIu64 "x%" PRIu64 "x%" PRIu64, job->n[AXIS_Z],
                 job->n[AXIS_Y], job->n[AXIS_X]);
    else
        snprintf(row->shape, sizeof row->shape, "%" PRIu64 "x%" PRIu64, job->n[AXIS_Y],
                 job->n[AXIS_X]);
    row->dtype = job->dtype == DTYPE_F32 ? "float32" : "float64";
    row->us = measure_us(job, arena);
    row->gbs = 2e-3 * (double)job_bytes(job) / row->us;
    row->gcells = 1e-3 * (double)job_points(job) / row->us;
    row->ratio = copy_us(job_bytes(job)) / row->us;
    printf("%-26s %-14s %-8s %-10s %11.1f us %8.1f GB/s %8.2f Gcells/s  %5.2f of copy\n", row->name,
           row->shape, row->dtype, row->boundary, row->us, row->gbs, row->gcells, row->ratio);
    fflush(stdout);
}

static struct job job_of(enum operator_id operator_id, enum dtype dtype, int axes, uint64_t n,
                         int accuracy)
{
    struct job job;
    job_init(&job);
    job.operator_id = (uint8_t)operator_id;
    job.dtype = (uint8_t)dtype;
    job.axes = (uint8_t)axes;
    job.accuracy = (uint8_t)accuracy;
    job.order = operator_id == OPERATOR_DERIVATIVE ? 1 : 2;
    for (int a = 0; a < axes; a++)
        job.n[a] = n;
    return job;
}

static void boundaries(struct job *job, enum boundary_kind kind, double value)
{
    for (int a = 0; a < job->axes; a++)
        for (int side = 0; side < SIDE_COUNT; side++)
            job->boundary[a][side] = (struct boundary){.kind = kind, .value = value};
}

static void derivatives(uint64_t n, enum dtype dtype, int accuracy, uint8_t *arena)
{
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        char name[48];
        struct job job = job_of(OPERATOR_DERIVATIVE, dtype, 3, n, accuracy);
        job.axis = (uint8_t)axis;
        snprintf(name, sizeof name, "derivative %c accuracy %d", "xyz"[axis], accuracy);
        row(name, &job, "periodic", arena);
    }
}

static void diffusion(int axes, uint64_t n, enum dtype dtype, int accuracy, uint64_t steps,
                      enum boundary_kind kind, double value, const char *boundary, uint8_t *arena)
{
    char name[48];
    struct job job = job_of(OPERATOR_DIFFUSION, dtype, axes, n, accuracy);
    job.steps = steps;
    for (int a = 0; a < axes; a++)
        job.diffusivity[a] = 1;
    job.dt = 0.9 * job_dt_max(&job);
    boundaries(&job, kind, value);
    snprintf(name, sizeof name, "diffusion %dD accuracy %d", axes, accuracy);
    row(name, &job, boundary, arena);
}

static void run_rows(bool quick, uint8_t *arena)
{
    const uint64_t cube = quick ? 128 : bench.cuda ? 512 : 256;
    const uint64_t square = quick ? 1024 : 4096;
    const uint64_t steps = quick ? 5 : bench.cuda ? 100 : 10;
    derivatives(64, DTYPE_F32, 8, arena);
    derivatives(cube / 2, DTYPE_F32, 8, arena);
    derivatives(cube, DTYPE_F32, 8, arena);
    if (bench.cuda && !quick)
        derivatives(1024, DTYPE_F32, 8, arena);
    derivatives(cube, DTYPE_F64, 8, arena);
    derivatives(cube, DTYPE_F32, 2, arena);
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, 3, cube, 8);
        char name[48];
        job.axis = (uint8_t)axis;
        job.n[AXIS_X] = cube + 1;
        job.n[AXIS_Y] = cube - 1;
        job.n[AXIS_Z] = cube - 3;
        boundaries(&job, BOUNDARY_ONE_SIDED, 0);
        snprintf(name, sizeof name, "derivative %c accuracy 8", "xyz"[axis]);
        row(name, &job, "one-sided", arena);
    }
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
            char name[48];
            const struct job job = job_of(OPERATOR_LAPLACIAN, (enum dtype)dtype, 3, cube, accuracy);
            snprintf(name, sizeof name, "laplacian 3D accuracy %d", accuracy);
            row(name, &job, "periodic", arena);
        }
    for (int accuracy = 2; accuracy <= 8; accuracy *= 2)
        diffusion(2, square, DTYPE_F32, accuracy, steps, BOUNDARY_HALO, 0.999, "halo", arena);
    diffusion(2, square, DTYPE_F32, 8, steps, BOUNDARY_PERIODIC, 0, "periodic", arena);
    diffusion(2, square, DTYPE_F32, 8, steps, BOUNDARY_VALUE, 0.5, "value", arena);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        diffusion(3, cube, DTYPE_F32, accuracy, steps / 5 + 1, BOUNDARY_PERIODIC, 0, "periodic",
                  arena);
    diffusion(3, cube, DTYPE_F64, 2, steps / 5 + 1, BOUNDARY_DERIVATIVE, 0, "derivative 0", arena);
}

struct floor {
    const char *name;
    double value;
};

static int measure_floors(struct floor *floors, bool quick)
{
    const size_t large = quick ? 32 << 20 : 512 << 20, small = 1 << 20;
    int n = 0;
    floors[n++] = (struct floor){"copy_gbs", 2e-3 * (double)large / copy_us(large)};
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
    char date[32];
    const time_t now = time(NULL);
    const char *commit = getenv("FDSERVER_COMMIT");
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(file,
            "{\"commit\": \"%s\", \"date\": \"%s\", \"device\": \"%s\", \"driver\": %" PRIu32
            ", \"units\": %" PRIu32 ",\n \"floors\": {",
            commit ? commit : "", date, bench.info.name, bench.info.driver, bench.info.units);
    for (int i = 0; i < floor_count; i++)
        fprintf(file, "%s\"%s\": %.4g", i ? ", " : "", floors[i].name, floors[i].value);
    fprintf(file, "},\n \"rows\": [\n");
    for (int i = 0; i < bench.row_count; i++) {
        const struct row *row = &bench.rows[i];
        fprintf(file,
                "  {\"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"boundary\": \"%s\", "
                "\"us\": %.3f, \"gbs\": %.2f, \"gcells\": %.3f, \"ratio\": %.4f}%s\n",
                row->name, row->shape, row->dtype, row->boundary, row->us, row->gbs, row->gcells,
                row->ratio, i + 1 < bench.row_count ? "," : "");
    }
    fprintf(file, " ]}\n");
    return fclose(file) == 0;
}

static bool open_device(const char *name, uint8_t *arena)
{
    struct failure failure = {0};
    int index = 0;
    bench.cuda = strncmp(name, "cuda:", 5) == 0;
#ifdef HAVE_CUDA
    bench.backend = bench.cuda ? backend_cuda() : backend_host();
    index = bench.cuda ? atoi(name + 5) : 0;
#else
    bench.backend = backend_host();
    if (bench.cuda) {
        fprintf(stderr, "built without CUDA\n");
        return false;
    }
#endif
    if (bench.backend->open(index, arena, ARENA_BYTES, &bench.info, &failure))
        return true;
    fprintf(stderr, "%s: %s\n", name, failure.message);
    return false;
}

int main(int argc, char **argv)
{
    const char *device = "host", *json = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
            device = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            json = argv[++i];
        } else if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else {
            fprintf(stderr,
                    "usage: bench_kernels [--device host|cuda:N] [--quick] [--json FILE]\n");
            return 2;
        }
    }
    uint8_t *arena =
        mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED || !open_device(device, arena))
        return 1;
    struct floor floors[16];
    const int floor_count = measure_floors(floors, quick);
    printf("%s (%u units)\n", bench.info.name, bench.info.units);
    for (int i = 0; i < floor_count; i++)
        printf("  floor %-24s %10.2f\n", floors[i].name, floors[i].value);
    run_rows(quick, arena);
    bench.backend->close();
    return json && !write_json(json, floors, floor_count) ? 1 : 0;
}
