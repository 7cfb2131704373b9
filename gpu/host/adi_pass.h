/* Plans of the engine PLAN_ADI on the host: whole passes (numerics/stage.h), each shared by the
 * pool's threads. Any thread. */
#pragma once

#include "numerics/adi.h"
#include "gpu/backend.h"
#include "gpu/host/kernels.h"
#include "numerics/stage.h"

/* A stage. base may be write. */
struct adi_work {
    const struct adi *adi;
    const struct operands *operands;
    int kind, axis; /* as in struct stage */
    int64_t lines;  /* along x, of the whole batch */
    const void *read, *base;
    void *write, *spare[2];
    const struct leg *leg;
};

/* Compute the launch's lines, which are of one pass, whose stage this is. */
void adi_pass(const struct kernels *kernels, const struct launch *launch,
              const struct stage *stage);
