/* The cores that this process may run on. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

static inline int cores_count(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores)
                                                           : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

enum { CORES_TO_SPARE = 4 }; /* with fewer, other processes need the core more */

/* May it keep one core busy while it waits (busy polling)? */
static inline bool cores_to_spare(void)
{
    return cores_count() >= CORES_TO_SPARE;
}
