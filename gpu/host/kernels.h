/* The host backend's loops, compiled once for each processor generation (CMakeLists.txt); pass.c
 * chooses. Every generation gives the bits of gpu/point.h. */
#ifndef GPU_HOST_KERNELS_H
#define GPU_HOST_KERNELS_H

#include "gpu/backend.h"

/* A box of one field of a batch in one pass. Lines outside [from, to) are left alone, so that a
 * piece of a job may begin and end anywhere in the box. */
struct tile {
    const struct plan *plan;
    const struct launch *launch; /* that it is part of */
    const void *in;              /* the whole arrays; they do not overlap */
    void *out;
    uint64_t from, to; /* lines of the pass */
    int64_t field;     /* of the batch */
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    bool impose; /* copy, with the boundary values in their nodes */
    bool stream; /* write past the caches: the output is much larger than they are */
};

struct kernels {
    const char *name;
    void (*tile[2])(const struct tile *tile); /* by enum dtype */
};

extern const struct kernels kernels_baseline;
extern const struct kernels kernels_v3; /* x86-64-v3: AVX2 and FMA. Only where HAVE_X86_64_V3 */
extern const struct kernels kernels_v4; /* x86-64-v4: AVX-512. Only where HAVE_X86_64_V4 */

#endif
