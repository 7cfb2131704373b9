#include "tests/lib/measure_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, LANES = 32 };

static struct measured joined(struct measured a, struct measured b)
{
    struct measured all = {.sum = a.sum + b.sum, .nan = a.nan + b.nan};
    all.min = isnan(a.min) || b.min < a.min ? b.min : a.min;
    all.max = isnan(a.max) || b.max > a.max ? b.max : a.max;
    return all;
}

static double at(enum dtype dtype, const void *values, uint64_t i)
{
    return dtype == DTYPE_F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

/* Blocks of `count` until one is left. */
static struct measured reduced(struct measured *values, uint64_t count)
{
    const uint64_t blocks = (count + BLOCK - 1) / BLOCK;
    for (uint64_t block = 0; block < blocks; block++) {
        struct measured lanes[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] = (struct measured){NAN, NAN, 0, 0};
            for (uint64_t i = block * BLOCK + (uint64_t)lane; i < (block + 1) * BLOCK && i < count;
                 i += LANES)
                lanes[lane] = joined(lanes[lane], values[i]);
        }
        for (int apart = 16; apart >= 1; apart /= 2)
            for (int lane = 0; lane < apart; lane++)
                lanes[lane] = joined(lanes[lane], lanes[lane + apart]);
        values[block] = lanes[0];
    }
    return blocks > 1 ? reduced(values, blocks) : values[0];
}

struct measured measure_reference(enum dtype dtype, uint64_t points, const void *a, const void *b)
{
    struct measured *values = malloc(points * sizeof *values);
    if (!values)
        abort();
    for (uint64_t i = 0; i < points; i++) {
        const double value = b ? fabs(at(dtype, a, i) - at(dtype, b, i)) : at(dtype, a, i);
        values[i] = isnan(value) ? (struct measured){NAN, NAN, 0, 1}
                                 : (struct measured){value, value, b ? value * value : value, 0};
    }
    const struct measured result = reduced(values, points);
    free(values);
    return result;
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

bool measure_reference_equal(const struct measured *a, const struct measured *b)
{
    return same(a->min, b->min) && same(a->max, b->max) && same(a->sum, b->sum) &&
           same(a->nan, b->nan);
}

void measure_reference_values(struct random *random, enum dtype dtype, uint64_t points,
                              void *values)
{
    struct job job;
    job_init(&job);
    job.dtype = (uint8_t)dtype;
    job.n[AXIS_X] = points;
    random_field(random, &job, values);
    if (random_below(random, 2))
        random_exceptions(random, &job, values);
    if (random_below(random, 8) == 0)
        memset(values, 0xff, job_bytes(&job));
}

uint64_t measure_reference_points(struct random *random, uint64_t most)
{
    const uint64_t blocks = (uint64_t)BLOCK << random_below(random, 3);
    const uint64_t choices[] = {1 + random_below(random, 70), blocks - 1, blocks, blocks + 1,
                                1 + random_below(random, most)};
    const uint64_t points = choices[random_below(random, sizeof choices / sizeof *choices)];
    return points < most ? points : most;
}
