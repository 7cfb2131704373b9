/* Plans of several passes a step on the host (gpu/stage.h): whole passes, each shared by all cores.
 * One caller at a time. */
#ifndef GPU_HOST_SCHEMES_H
#define GPU_HOST_SCHEMES_H

#include "gpu/adi.h"
#include "gpu/backend.h"
#include "gpu/host/kernels.h"
#include "gpu/stage.h"

/* A stage of a plan of the engine PLAN_ADI. base may be write. */
struct adi_work {
    const struct adi *adi;
    const struct operands *operands;
    int kind, axis; /* as in struct stage */
    int64_t lines;  /* along x, of the whole batch */
    const void *read, *base;
    void *write, *spare[2];
};

enum { ADI_TOGETHER = 8 }; /* lines along x that are solved at once */

/* All of a launch of a plan that is staged. */
void schemes_launch(const struct kernels *kernels, const struct launch *launch);

#endif
