/* A process locks itself in: it can compute and use the descriptors that it has, and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From here on this process (one thread) opens nothing, starts nothing, sends no signals, maps no
 * code, and takes at most `bytes` of address space more than it has. What it may not do fails with
 * EPERM. False: with errno, and it may still do all or some of it. */
bool sandbox_enter(uint64_t bytes);
