#include "numerics/side.h"

#include "numerics/job_weights.h"

/* Of that kind of rows; where the place of the image is the face, the face's. */
static int32_t map_of(const struct weights_side *rows, bool has_ghosts)
{
    static const int32_t maps[WEIGHTS_KINDS][2] = {
        [WEIGHTS_PERIODIC] = {SIDE_MAP_PERIODIC},
        [WEIGHTS_ENDPOINT] = {SIDE_MAP_ENDPOINT},
        [WEIGHTS_SYMMETRIC] = {SIDE_MAP_FACE},
        [WEIGHTS_MIRROR] = {SIDE_MAP_NODE},
        [WEIGHTS_ANTISYMMETRIC] = {SIDE_MAP_ANTISYMMETRIC},
        [WEIGHTS_REFLECT] = {SIDE_MAP_NODE, SIDE_MAP_FACE},
        [WEIGHTS_EVEN] = {SIDE_MAP_NODE, SIDE_MAP_FACE},
        [WEIGHTS_ODD] = {SIDE_MAP_ODD_NODE, SIDE_MAP_ODD_FACE},
        [WEIGHTS_NEAREST] = {SIDE_MAP_NEAREST},
        [WEIGHTS_CONSTANT] = {SIDE_MAP_GHOST},
    };
    if (weights_has_closures(rows))
        return has_ghosts ? SIDE_MAP_GHOST : SIDE_MAP_NONE;
    return maps[rows->kind][rows->at_face];
}

static enum side_datum datum_of(const struct boundary *boundary)
{
    const unsigned has = boundary_traits(boundary->kind)->has;
    if (has & BOUNDARY_HAS_CONSTANT)
        return boundary->at_face ? SIDE_DATUM_MIXED_FACE : SIDE_DATUM_MIXED_NODE;
    const bool states = has & BOUNDARY_HAS_VALUE && !(has & BOUNDARY_IS_HALO);
    return states && !boundary_is_held(boundary) ? SIDE_DATUM_NUMBER : SIDE_DATUM_NONE;
}

static struct side_number number_of(const struct job *job, double number, int array, int operand)
{
    return (struct side_number){.number = rounded(number, job->dtype),
                                .operand = array == NUMBER_CONSTANT ? -1 : operand,
                                .batched = array == NUMBER_FACE_BATCH};
}

struct side side_of(const struct job *job, int a, int s)
{
    static const double coordinates[1]; /* that there are some is all that matters */
    const struct boundary *boundary = &job->boundary[a][s];
    const bool is_stencil = job->operator_id == OPERATOR_STENCIL;
    struct weights_axis rows;
    job_weights(job, a, job->more.coordinates >> a & 1 ? coordinates : NULL, &rows);
    struct side side = {
        .map = map_of(&rows.side[s], is_stencil),
        .held = boundary_is_held(boundary),
        .halo = rows.side[s].kind == WEIGHTS_HALO,
        .datum = datum_of(boundary),
        .value = number_of(job, boundary->value, boundary->value_array,
                           OPERAND_VALUE + SIDE_COUNT * a + s),
        .constant = number_of(job, job->more.constant[a][s], boundary->constant_array,
                              OPERAND_CONSTANT + SIDE_COUNT * a + s),
    };
    if (side.halo && is_stencil)
        side.held = job->more.stencil_radius[a];
    else if (side.halo)
        side.held = weights_radius(&rows, job_order(job), job->accuracy,
                                   job_is_active(job, a) ? job->more.stagger : STAGGER_NONE);
    return side;
}
