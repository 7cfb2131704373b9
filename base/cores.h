/* Whether a process may keep one core busy while it waits (busy polling). */
#pragma once

#include <sched.h>
#include <stdbool.h>

enum { CORES_TO_SPARE = 4 }; /* with fewer, other processes need the core more */

/* May this thread run on so many? */
static inline bool cores_to_spare(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) >= CORES_TO_SPARE;
}
