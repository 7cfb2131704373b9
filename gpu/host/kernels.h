/* The host backend's loops, compiled once for each processor generation (CMakeLists.txt); pass.c
 * chooses. Every generation gives the bits of numerics/table_point.h. */
#pragma once

#include "gpu/host/share.h"
#include "numerics/plan.h"
#include "numerics/table.h"

/* Planes of a level's ring: what the next level reads while `lines` more planes are computed. */
#define RING_PLANES(reach, lines) (2 * (reach) + (lines))

/* A box of one field. Where there are more levels than one, each is a pass, and all but the last
 * stay in the cache: level t is computed a margin of (levels − t) × reach wider than the box, a few
 * planes behind level t − 1, in a ring of planes. */
struct tile {
    const struct table_header *table; /* folded: see pass.c; its box as pass.c opens it */
    const void *rows;                 /* the first byte of the plan's table */
    const struct table_pass *pass;    /* arrays aside */
    int radius;                       /* of the centred rows */
    const void *in[AXIS_COUNT];
    void *out[AXIS_COUNT]; /* the whole field; no out is an in */
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    int levels;
    void *rings; /* of levels − 1, one after another; NULL where there is none */
    bool stream; /* write past the caches: the output is much larger than they are */
};

/* How far a pass reads along an axis. */
static inline int64_t tile_reach(const struct tile *tile, int axis)
{
    const struct table_rows *rows = &tile->table->rows[0][axis];
    return !(tile->table->active >> axis & 1) ? 0
           : rows->low > 0 || rows->high > 0  ? PLAN_ROW_POINTS
                                              : tile->radius;
}

/* Lines that are computed at once along z: a neighbour is read once for all of them. */
enum { LINES = 4 };

enum { LEVELS = 9 }; /* of a tile, at most */

/* Lines along x of a pass of an operator, all by their table. */
struct table_lines {
    const struct table_header *table;
    const struct table_pass *pass;
    int64_t first; /* unit 0 is this line of the whole batch's */
};
struct stencil_box; /* gpu/host/stencil_pass.h */
struct adi_work;    /* gpu/host/adi_pass.h */

struct kernels {
    const char *name;
    void (*tile[2])(const struct tile *tile); /* by enum dtype */
    void (*stencil[2])(const struct stencil_box *box);
    share_part *lines[2]; /* of a struct table_lines */
    /* Units that a stage is made of, in any order or at once; some of them. */
    int64_t (*adi_units[2])(const struct adi_work *work);
    share_part *adi[2]; /* of a struct adi_work */
};

extern const struct kernels kernels_baseline;
extern const struct kernels kernels_v3; /* x86-64-v3: AVX2 and FMA. Only where HAVE_X86_64_V3 */
extern const struct kernels kernels_v4; /* x86-64-v4: AVX-512. Only where HAVE_X86_64_V4 */
