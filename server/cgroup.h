/* What this process's control groups let it have. */
#ifndef SERVER_CGROUP_H
#define SERVER_CGROUP_H

#include <stdint.h>

/* Bytes of memory: the least of the limits of the process's group and of those around it, by
 * version 1 or 2; UINT64_MAX: there is none. `root` stands before /proc and /sys: "" but in tests.
 */
uint64_t cgroup_memory_bytes(const char *root);

#endif
