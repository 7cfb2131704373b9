/* What numerics/measure.h says, written down a second time; and arrays to measure. */
#pragma once

#include "numerics/measure.h"
#include "numerics/job.h"
#include "tests/lib/random_job.h"

/* Of an array, or where b is none NULL of the distances of two. */
struct measured measure_reference(enum dtype dtype, uint64_t points, const void *a, const void *b);

/* The same bits; a NaN is a NaN. */
bool measure_reference_equal(const struct measured *a, const struct measured *b);

/* Now and then nothing but NaN, or none at all. */
void measure_reference_values(struct random *random, enum dtype dtype, uint64_t points,
                              void *values);

/* A number of points: one, about a block, about a block of blocks, or anything below `most`. */
uint64_t measure_reference_points(struct random *random, uint64_t most);
