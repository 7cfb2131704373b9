/* Jobs that a few words state; all else is as job_init() has it. */
#pragma once

#include "numerics/job.h"

/* Of so many points along x, y and z; its axes are those up to the last one with more than one. */
static inline struct job job_of(enum operator_id operator_id, enum dtype dtype, uint64_t nx,
                                uint64_t ny, uint64_t nz, int accuracy)
{
    struct job job;
    job_init(&job);
    job.operator_id = (uint8_t)operator_id;
    job.dtype = (uint8_t)dtype;
    job.axes = nz > 1 ? 3 : ny > 1 ? 2 : 1;
    job.n[AXIS_X] = nx;
    job.n[AXIS_Y] = ny;
    job.n[AXIS_Z] = nz;
    job.accuracy = (uint8_t)accuracy;
    job.order = (uint8_t)job_order(&job);
    return job;
}

/* κ is 1; its step is 0 yet. */
static inline struct job diffusion_of(enum dtype dtype, uint64_t nx, uint64_t ny, uint64_t nz,
                                      int accuracy, uint64_t steps)
{
    struct job job = job_of(OPERATOR_DIFFUSION, dtype, nx, ny, nz, accuracy);
    job.steps = steps;
    for (int a = 0; a < job.axes; a++)
        job.diffusivity[a] = 1;
    return job;
}

/* The same at both ends of an axis. */
static inline void job_set_sides(struct job *job, int axis, struct boundary boundary)
{
    job->boundary[axis][SIDE_LOW] = job->boundary[axis][SIDE_HIGH] = boundary;
}
