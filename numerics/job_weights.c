#include "numerics/job_weights.h"

#include <stddef.h>

bool job_conducts(const struct job *job, int axis)
{
    return job->operator_id == OPERATOR_DIFFUSION && job->more.coefficient &&
           (!(job->more.coordinates >> axis & 1) || job->accuracy == 2);
}

/* Is ∂n f = g at the side taken as the mirror image about it? In a diffusion that keeps the sum,
 * and the order only where all odd derivatives from the third on are 0 there, as they are where g
 * is one number and so are κ and the source; on uniform axes. A stencil has no order to keep. */
static bool reflects(const struct job *job, int axis, const struct boundary *boundary)
{
    if (job->operator_id == OPERATOR_STENCIL)
        return boundary_is_zero(boundary);
    return job->operator_id == OPERATOR_DIFFUSION && !boundary->value_array && !job->more.source &&
           !job->more.coefficient && !(job->more.coordinates >> axis & 1);
}

const double *job_coordinates(const struct job *job, const void *block, int axis)
{
    return job->more.coordinates >> axis & 1
               ? job_block_at(job, block, (enum block_part)(BLOCK_X + axis))
               : NULL;
}

static uint8_t kind_of(const struct job *job, int axis, int side)
{
    const struct boundary *boundary = &job->boundary[axis][side];
    const struct boundary_traits *traits = boundary_traits(boundary->kind);
    const bool conducts = job_conducts(job, axis);
    if (traits->has & BOUNDARY_MIRRORS && (conducts || reflects(job, axis, boundary))) {
        if (boundary_is_zero(boundary))
            return boundary->at_face ? WEIGHTS_SYMMETRIC : WEIGHTS_MIRROR;
        return conducts ? WEIGHTS_EVEN : WEIGHTS_REFLECT;
    }
    return conducts ? traits->conducts : traits->rows;
}

void job_weights(const struct job *job, int axis, const double *x, struct weights_axis *rows)
{
    *rows = (struct weights_axis){.n = (int64_t)job->n[axis],
                                  .spacing = x ? 0 : job->spacing[axis],
                                  .x = x,
                                  .conducts = x && job_conducts(job, axis)};
    if (job->more.whole.n && axis == job->axes - 1) {
        rows->whole_n = (int64_t)job->more.whole.n;
        rows->whole_first = (int64_t)job->more.whole.first;
        rows->whole_kind = boundary_traits((uint32_t)job->more.whole.kind)->rows;
    }
    for (int s = 0; s < SIDE_COUNT; s++) {
        const struct boundary *boundary = &job->boundary[axis][s];
        struct weights_side *side = &rows->side[s];
        side->kind = kind_of(job, axis, s);
        side->at_face = boundary->at_face && side->kind != WEIGHTS_SYMMETRIC;
        side->mixed =
            boundary_traits(boundary->kind)->has & BOUNDARY_HAS_CONSTANT ? boundary->value : 0;
    }
}

int job_face_order(const struct job *job)
{
    if (job->operator_id == OPERATOR_STENCIL)
        return 0;
    return job_order(job) > 0 ? job_order(job) : 1;
}
