/* Kernels of stencils compiled in this process, as fdcompile and the front do it for a worker. */
#pragma once

#include "numerics/plan.h"

enum compile_result { COMPILE_NOT_NEEDED, COMPILED, COMPILE_FAILED };

/* Have a kernel of its own for the plan, if it needs one: compiled_open() was called. FAILED: with
 * the reason in `why`. Aborts without memory. */
enum compile_result compile_stencil(const struct plan *plan, uint32_t architecture, char *why,
                                    size_t room);
