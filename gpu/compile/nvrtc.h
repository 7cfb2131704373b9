/* NVRTC, NVIDIA's run-time compiler, loaded from the system where it is installed. One thread. */
#pragma once

#include "gpu/compile/source.h"

/* Load it. Its version, 1000 × major + 10 × minor; 0: there is none that can be used, and `why`
 * says so. */
uint32_t nvrtc_open(char *why, size_t room);

/* Compile the text of a kernel (kernel_source()) for a compute capability (90: 9.0). Returns the
 * code, of *bytes, which is the caller's to free; NULL: with the first lines of the log in `why`.
 */
void *nvrtc_compile(const char *text, uint32_t architecture, size_t *bytes, char *why, size_t room);
