/* The clock that all of a worker's times are by, and the front's too: CLOCK_MONOTONIC. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_us(void)
{
    return clock_ns() / 1000;
}
