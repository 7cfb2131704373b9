/* Cores to spare: what a program asks before it keeps one busy while it waits. */
#ifndef BASE_CORES_H
#define BASE_CORES_H

#include <sched.h>
#include <stdbool.h>

enum { CORES_TO_SPARE = 4 }; /* with fewer, others need ours more */

/* May this thread run on so many? */
static inline bool cores_to_spare(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) >= CORES_TO_SPARE;
}

#endif
