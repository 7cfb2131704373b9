/* What every pass of a plan has in common: the points that are centred on every active axis (the
 * interior), along axes with coordinates also those of closures of points alone, and all others
 * (the boundary); of a part of a pass, those of its units (gpu/split.h). */
#pragma once

#include "gpu/cuda/passes.h"

#include <stdbool.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum { BOUNDARY_BOXES = 2 * AXIS_COUNT };

/* Boxes that do not overlap: together all that the other kernels leave out. */
struct boundary_shape {
    int64_t begin[BOUNDARY_BOXES][AXIS_COUNT], size[BOUNDARY_BOXES][AXIS_COUNT];
    int32_t axis[BOUNDARY_BOXES], side[BOUNDARY_BOXES]; /* of the edge that it lies at */
    int64_t end[BOUNDARY_BOXES];                        /* points in this box and those before it */
    int64_t points;                                     /* of all boxes */
    int64_t batch;
    int32_t boxes, slot;
};

/* Where an array of each job of a launch is, in elements from the first's. */
struct job_arrays {
    int64_t in[PASSES_JOBS], out[PASSES_JOBS];
};

struct geometry {
    const struct plan *plan; /* &part */
    int slot, units;
    cudaStream_t stream;
    uint64_t first;  /* the element of the arrays that is the first of the plan's fields */
    uint64_t points; /* that are computed */
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT]; /* those, of each field */
    int64_t low[AXIS_COUNT], high[AXIS_COUNT];  /* the interior */
    /* So many planes further are as many again (passes.c: of the families that take such); 0: not.
     */
    int64_t apart;
    bool has_interior;
    struct boundary_shape boundary;
    unsigned jobs; /* that are launched at once, each with a share of the units */
    /* By component: what the pass at hand goes from and to. */
    struct job_arrays arrays[AXIS_COUNT];
    /* The plan with the batch, and where no stencil lies along the split axis its length, of the
     * part alone. The slot holds the whole one. */
    struct plan part;
};

/* Of the lines [from, to) of a pass, all or a part (gpu/split.h), of one job or several on a device
 * of so many units. *geometry stays where it is. */
void geometry_init(struct geometry *geometry, const struct plan *plan, uint64_t from, uint64_t to,
                   unsigned jobs, int slot, int units, cudaStream_t stream);

/* The most shared memory that a block of the device at hand may ask for; 0: unknown. */
static inline int block_shared_bytes(void)
{
    int device = 0, bytes = 0;
    const bool known = cudaGetDevice(&device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                              device) == cudaSuccess;
    return known ? bytes : 0;
}

/* After a change of the interior: sets has_interior, and the boundary to all other points. */
void geometry_boundary(struct geometry *geometry);

__END_DECLS
