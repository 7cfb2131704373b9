/* Plans of the engine PLAN_TABLE on the host: their passes line by line on all cores, each point by
 * numerics/table_point.h. One caller at a time. */
#pragma once

#include "gpu/backend.h"
#include "gpu/host/kernels.h"

/* Lines [from, to) of one pass: rows along x, of which the pass has plan->lines. */
void rows_pass(const struct kernels *kernels, const struct plan *plan,
               const struct table_pass *pass, uint64_t from, uint64_t to);

/* All of a launch whose passes launch_table_pass() knows. */
void rows_passes(const struct kernels *kernels, const struct launch *launch);
