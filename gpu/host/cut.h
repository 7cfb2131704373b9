/* Arithmetic of boxes that are cut into pieces. */
#pragma once

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of at most so many each. */
static inline int64_t ceil_div(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}
