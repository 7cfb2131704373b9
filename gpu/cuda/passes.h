/* The kernels' side of the CUDA backend: weights in constant memory, and passes put on a stream. */
#pragma once

#include "gpu/backend.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

#define PASSES_JOBS 16 /* at most that are launched at once */

/* Constant memory holds this many plans at once, each in its slot: concurrent jobs have their own.
 */
#define PASSES_SLOTS 32

/* A plan as the kernels read it: rounded weights also in float32, so that no thread converts them.
 * Whole cache lines, so that loading one slot leaves no stale part of it beside another. */
struct passes_constants {
    struct plan plan;
    float c_f32[AXIS_COUNT][PLAN_RADIUS + 1];
    float centre_f32; /* of a point that is centred on all active axes */
    double centre;
    const void *rows; /* of the plan's table, on the device */
} __attribute__((aligned(256)));

/* rows: the plan's table, as the device sees it; read by no plan that has none. */
void passes_constants_init(struct passes_constants *constants, const struct plan *plan,
                           const void *rows);

/* Copy to a slot, in the stream's order. `constants` is pinned and stays until the copy has been
 * done; no kernel that uses the slot may be under way. */
cudaError_t passes_load(int slot, const struct passes_constants *constants, cudaStream_t stream);

/* Is it a plan whose passes are done at once for own planes (struct launch)? */
bool passes_take_own_planes(const struct plan *plan);

/* Put the launches of 1 … PASSES_JOBS jobs of one plan, the same lines of each: whole passes or a
 * part of a plan's only one (gpu/split.h), on the stream, all in one where the kernels can; the
 * slot holds the plan. None writes what another reads or writes. units: multiprocessors. */
cudaError_t passes_launch(const struct launch *const launches[], unsigned jobs, int slot, int units,
                          cudaStream_t stream);
/* The same of the edges of a launch of own planes, or of its other ones. */
cudaError_t passes_launch_own(const struct launch *launch, bool edges, int slot, int units,
                              cudaStream_t stream);

__END_DECLS
