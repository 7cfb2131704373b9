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
#include "bench/bars.h"
#include "bench/floors.h"
#include "bench/row.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { FLOORS_MOST = 16 };

struct bench bench;

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
    floors[n++] = (struct floor){"copy_gbs", 2e-3 * (double)large / row_copy_us(large)};
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
        differ += !row_is_right(&bench.rows[i]);
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
        bars_cuda();
    else if (!bench.floors)
        bars_host();
    if (!bench.small) {
        floors[floor_count++] = (struct floor){"copy_last_gbs", copy_gbs()};
        printf("  floor %-24s %10.2f at the end\n", "copy_gbs", floors[floor_count - 1].value);
    }
    const bool equal = summary();
    return (json && !write_json(json, floors, floor_count)) || !equal ? 1 : 0;
}
