#include "bench/row.h"

#include "bench/bed.h"
#include "numerics/job_check.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CLASSIC_STEPS = 100,
    CLASSICS_MOST = 16 /* for one job */
};

static const double CLASSIC_TOLERANCE = 1e-5; /* of fields in [−1, 1) */

double row_copy_us(uint64_t bytes)
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

static void measure(struct row *row, const struct bed *bed, int which)
{
    struct launch launch = bed_launch(&bed->plan, &bed->device);
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

bool row_is_right(const struct row *row)
{
    return !row->checked || row->difference <= (row->does[0] ? CLASSIC_TOLERANCE : 0);
}

static const char *compared(const struct row *row)
{
    return !row->checked          ? ""
           : row->difference == 0 ? "equal"
           : row_is_right(row)    ? "close"
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
    row->floor_us = floor_us > 0 ? floor_us : row_copy_us(job_bytes(job) * (uint64_t)moved / 2);
    row->gbs = 1e-3 * moved * (double)job_bytes(job) / row->us;
    row->gcells = 1e-3 * (double)job_points(job) / row->us;
    row->ratio = row->floor_us / row->us;
    print_row(row);
}

void row_add_with_block(const char *name, const struct job *job, const void *block,
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
    if (bench.row_count + count > ROWS_MOST) {
        fprintf(stderr, "%s: more than %d rows\n", name, ROWS_MOST);
        exit(1);
    }
    if (count == 0 || job_bytes(job) * (uint64_t)(moved + 1) > bench.runner->free_bytes() / 10 * 9)
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

void row_add(const char *name, const struct job *job, const char *boundary, double floor_us,
             enum against against, double bar)
{
    row_add_with_block(name, job, NULL, boundary, floor_us, against, bar);
}
