/* The measure of an array: four numbers, in one order of evaluation for C and CUDA alike
 * (docs/NUMERICS.md, "Measures"): blocks of MEASURE_BLOCK elements in order, in each of them
 * lane i mod MEASURE_LANES takes its elements ascending, then lanes are joined in pairs 16, 8, 4, 2
 * and 1 apart; the blocks' results are measured in the same way until one is left. In double,
 * without multiply-adds.
 *
 * MEASURE_FUNCTION: such as `static inline`, or `static __device__`. */
#pragma once

#include <math.h>
#include <stdint.h>

#ifndef MEASURE_FUNCTION
#define MEASURE_FUNCTION static inline
#endif

enum { MEASURE_BLOCK = 4096, MEASURE_LANES = 32 };

/* Of values, or of the distances |a − b| of two arrays' values. */
struct measured {
    double min, max; /* of what is no NaN; NaN where there is nothing else */
    double sum;      /* of what is no NaN; of distances their squares' */
    double nan;      /* how many are NaN */
};

/* Of nothing. */
MEASURE_FUNCTION struct measured measured_none(void)
{
    const struct measured none = {NAN, NAN, 0, 0};
    return none;
}

/* One more value, which counts `term` for the sum. */
MEASURE_FUNCTION void measured_take(struct measured *all, double value, double term)
{
    const int number = value == value;
    all->min = number && !(all->min <= value) ? value : all->min;
    all->max = number && !(all->max >= value) ? value : all->max;
    all->sum = number ? all->sum + term : all->sum;
    all->nan = number ? all->nan : all->nan + 1;
}

MEASURE_FUNCTION void measured_value(struct measured *all, double value)
{
    measured_take(all, value, value);
}

MEASURE_FUNCTION void measured_distance(struct measured *all, double a, double b)
{
    const double distance = fabs(a - b);
    measured_take(all, distance, distance * distance);
}

MEASURE_FUNCTION void measured_join(struct measured *all, const struct measured *other)
{
    all->min = other->min == other->min && !(all->min <= other->min) ? other->min : all->min;
    all->max = other->max == other->max && !(all->max >= other->max) ? other->max : all->max;
    all->sum = all->sum + other->sum;
    all->nan = all->nan + other->nan;
}

/* Blocks that so many elements make. */
MEASURE_FUNCTION uint64_t measure_blocks(uint64_t count)
{
    return (count + MEASURE_BLOCK - 1) / MEASURE_BLOCK;
}

/* Bytes of all results of a measure of so many elements, from 1 up: of the blocks of values, then
 * of the blocks of those results, and so on; the last one is the measure. */
static inline uint64_t measure_bytes(uint64_t count)
{
    uint64_t all = 0;
    do {
        count = measure_blocks(count);
        all += count;
    } while (count > 1);
    return all * sizeof(struct measured);
}
