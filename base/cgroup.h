/* The memory limit of this process's control groups. The front and the host's workers ask for it.
 */
#pragma once

#include <stdint.h>

/* Bytes; UINT64_MAX: there is no limit. */
struct cgroup_memory {
    uint64_t limit; /* the least of those of the process's group and of those around it */
    uint64_t free;  /* the least that one of them leaves; page cache can be reclaimed */
};

/* By version 1 or 2. `root` stands before /proc and /sys: "" but in tests. */
struct cgroup_memory cgroup_memory(const char *root);

/* The number after the key at the beginning of a line, in such a file or one of /proc; `otherwise`
 * where there is none, as in "max". */
uint64_t cgroup_number(const char *folder, const char *name, const char *key, uint64_t otherwise);
