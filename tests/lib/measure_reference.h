/* An independent implementation of numerics/measure.h, and arrays to measure. */
#pragma once

#include "numerics/measure.h"
#include "numerics/job.h"
#include "tests/lib/random_job.h"

/* The measure of an array or, if b is not NULL, of the distances of two. */
struct measured measure_reference(enum dtype dtype, uint64_t points, const void *a, const void *b);

/* Whether the bits are equal; all NaN are equal. */
bool measure_reference_equal(const struct measured *a, const struct measured *b);

/* Some arrays consist of NaN alone, some have none. */
void measure_reference_values(struct random *random, enum dtype dtype, uint64_t points,
                              void *values);

/* A number of points: one, about a block, about a block of blocks, or any number below `most`. */
uint64_t measure_reference_points(struct random *random, uint64_t most);
