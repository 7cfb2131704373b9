/* How one pass is split into parts, for copies that overlap with it and for kernels: in units along
 * the slowest axis that has more than one point (planes in 3D, rows in 2D), and in rows where these
 * are independent of each other. A field of one row is one unit.
 *
 * A part that a backend without splits_passes (backend.h) computes alone is of whole fields, or
 * begins at a multiple of `grain` units and ends at one that is not nearer than `reach` to its
 * field's end, or at that end. */
#pragma once

#include "numerics/plan.h"

#include <stdbool.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

struct split {
    int axis; /* enum axis; where it has no derivative, those slower than it count as part of it */
    uint64_t unit_lines;
    uint64_t units;  /* of a field */
    uint64_t fields; /* one after another; where units do not depend on each other all are one */
    /* Parts begin at multiples of so many units of their field: rows of any length are aligned
     * there, and no closure is cut. */
    uint64_t grain;
    /* A unit's results depend on units of its field at most so far away, and those nearer than that
     * to an end, where `wraps`, on as many at the other end. */
    uint64_t reach;
    bool wraps;
};

struct split split_of(const struct plan *plan);

__END_DECLS
