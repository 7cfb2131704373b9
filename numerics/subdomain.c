#include "numerics/subdomain.h"

#include "numerics/job_check.h"
#include "numerics/measure.h"
#include "numerics/side.h"

#include <math.h>
#include <string.h>

/* A part begins at a multiple of PLACE_ALIGNMENT, whatever the size of a plane: so many planes of
 * one element of the smallest type have so many bytes. */
enum { ALIGNED_PLANES = 4 };

bool subdomain_fits(uint64_t planes, uint32_t count)
{
    return count >= 2 && count <= SUBDOMAINS_MOST && planes / count >= SUBDOMAIN_PLANES;
}

struct subdomain subdomain_of(uint64_t planes, uint32_t count, uint32_t i)
{
    const uint64_t each = planes / count, more = planes % count;
    const uint64_t begin = i * each + (i < more ? i : more);
    return (struct subdomain){begin, begin + each + (i < more)};
}

struct subdomain subdomain_blocks(uint64_t planes, uint64_t elements, uint32_t count, uint32_t i)
{
    const struct subdomain own = subdomain_of(planes, count, i);
    return (struct subdomain){measure_blocks(own.begin * elements),
                              measure_blocks(own.end * elements)};
}

uint64_t subdomain_behind(uint64_t planes, uint64_t elements, uint32_t count)
{
    uint64_t most = SUBDOMAIN_GHOSTS;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const uint64_t end = subdomain_blocks(planes, elements, count, i).end * MEASURE_BLOCK,
                       own = subdomain_of(planes, count, i).end * elements, all = planes * elements;
        const uint64_t beyond = (end < all ? end : all) - own;
        const uint64_t behind = (beyond + elements - 1) / elements;
        most = behind > most ? behind : most;
    }
    return most;
}

bool subdomain_cuts(const struct job *job, int operand)
{
    if (operand < OPERAND_VALUE)
        return operand != OPERAND_PROBES;
    const int face = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    const struct boundary *boundary = &job->boundary[face / SIDE_COUNT][face % SIDE_COUNT];
    if (job->batch == 1)
        return face / SIDE_COUNT != job->axes - 1;
    return (operand < OPERAND_CONSTANT ? boundary->value_array : boundary->constant_array) ==
           NUMBER_FACE_BATCH;
}

uint64_t subdomain_operand_bytes(const struct job *job, int operand, uint64_t bytes)
{
    const uint64_t planes = job->batch > 1 ? job->batch : job->n[job->axes - 1];
    return subdomain_cuts(job, operand)
               ? bytes / (job_bytes(job) / planes) * (job_operand_bytes(job, operand) / planes)
               : 0;
}

bool decomposition_cuts(const struct decomposition *decomposition, uint32_t i, int side)
{
    const bool is_outer = side == SIDE_LOW ? i == 0 : i + 1 == decomposition->count;
    return decomposition->axis != AXIS_COUNT && (!is_outer || decomposition->wraps);
}

uint64_t decomposition_ghosts(const struct decomposition *decomposition, uint64_t steps)
{
    const uint64_t planes = decomposition->width * steps;
    return (planes + ALIGNED_PLANES - 1) / ALIGNED_PLANES * ALIGNED_PLANES;
}

/* Does the part of a subdomain know all coordinates of the axis that is cut? A ghost plane beyond
 * the field's ends has none of its own that is a number to the bit. */
static bool knows_whole(const struct decomposition *decomposition, const struct job *job)
{
    return decomposition->wraps && job->more.coordinates >> decomposition->axis & 1;
}

void decomposition_job(const struct decomposition *decomposition, const struct job *job, uint32_t i,
                       uint64_t steps, struct subdomain_job *part)
{
    const struct subdomain own = subdomain_of(decomposition->planes, decomposition->count, i);
    const int axis = decomposition->axis;
    const uint64_t ghosts = decomposition_ghosts(decomposition, steps);
    const bool cuts[SIDE_COUNT] = {decomposition_cuts(decomposition, i, SIDE_LOW),
                                   decomposition_cuts(decomposition, i, SIDE_HIGH)};
    const uint64_t planes =
        own.end - own.begin + ghosts * ((uint64_t)cuts[SIDE_LOW] + cuts[SIDE_HIGH]);
    part->job = *job;
    part->leg = (struct leg){0};
    part->ahead = cuts[SIDE_LOW] ? ghosts : 0;
    part->planes = planes;
    part->own = (struct own_planes){0};
    if (job_has_steps(job))
        part->job.steps = steps;
    part->job.imposed = decomposition->imposed;
    if (knows_whole(decomposition, job))
        part->job.more.whole = (struct job_whole){
            .n = job->n[axis],
            .first = own.begin - part->ahead +
                     (own.begin < part->ahead) * (job->n[axis] - decomposition->endpoint),
            .kind = job->boundary[axis][SIDE_LOW].kind};
    if (axis == AXIS_COUNT) {
        part->job.batch = job->batch / decomposition->planes * planes;
        return;
    }
    /* A cut restricts no step: the whole job's dt was judged. */
    part->job.allow_unstable = job->operator_id == OPERATOR_DIFFUSION;
    part->job.n[axis] = planes;
    const bool is_own = decomposition->overlaps && !job_imposes(&part->job);
    if (is_own)
        part->own = (struct own_planes){
            .begin = part->ahead,
            .end = part->ahead + own.end - own.begin,
            .edge = {cuts[SIDE_LOW] ? SUBDOMAIN_EDGE : 0, cuts[SIDE_HIGH] ? SUBDOMAIN_EDGE : 0}};
    /* Its own planes look past no side that is a cut: it may stay periodic. */
    if (is_own && decomposition->wraps)
        return;
    /* The ghost planes of a result are not used, but job_check() asks for 0 of such operators. */
    const double factor = job_inputs(job) > job_outputs(job) ? 0 : 1;
    for (int side = 0; side < SIDE_COUNT; side++) {
        struct boundary *boundary = &part->job.boundary[axis][side];
        if (!cuts[side] || (!job_is_active(job, axis) && boundary_is_periodic(boundary)))
            continue;
        *boundary = job_is_active(job, axis)
                        ? (struct boundary){.kind = BOUNDARY_HALO, .value = factor}
                        : (struct boundary){.kind = BOUNDARY_SYMMETRIC}; /* it is not read */
        part->job.more.constant[axis][side] = 0;
    }
    part->job.more.block_bytes = job_block_part(&part->job, BLOCK_END);
}

/* Of the index of a probe that tells its plane: so many are one. It is that of the axis that is
 * cut, behind which comes the batch's. */
static uint64_t probe_indices(const struct decomposition *decomposition, const struct job *job)
{
    return decomposition->axis == AXIS_COUNT ? job->batch / decomposition->planes : 1;
}

uint32_t decomposition_probe(const struct decomposition *decomposition, const struct job *job,
                             const int64_t *probe)
{
    const uint64_t plane = (uint64_t)probe[decomposition->axis] / probe_indices(decomposition, job);
    uint32_t i = 0;
    while (plane >= subdomain_of(decomposition->planes, decomposition->count, i).end)
        i++;
    return i;
}

/* Of those of part i, that begins with so many planes of the field, the places there. */
static void move_probes(const struct decomposition *decomposition, const struct job *job,
                        uint32_t i, int64_t first, int64_t *probe)
{
    const int64_t before = first * (int64_t)probe_indices(decomposition, job);
    for (uint32_t k = 0; k < job->more.probes; k++, probe += AXIS_COUNT + 1) {
        const bool is_own = decomposition_probe(decomposition, job, probe) == i;
        probe[decomposition->axis] = is_own ? probe[decomposition->axis] - before : 0;
    }
}

void decomposition_block(const struct decomposition *decomposition, const struct job *job,
                         const void *block, uint32_t i, struct subdomain_job *part, void *to)
{
    const struct subdomain own = subdomain_of(decomposition->planes, decomposition->count, i);
    for (int p = 0; p < BLOCK_END; p++) {
        const uint64_t at = job_block_part(&part->job, (enum block_part)p),
                       end = job_block_part(&part->job, (enum block_part)(p + 1));
        if (end == at)
            continue;
        const double *from = job_block_at(job, block, (enum block_part)p);
        const bool is_cut =
            p <= BLOCK_Z && p == decomposition->axis && !knows_whole(decomposition, job);
        memcpy((char *)to + at, from + (is_cut ? own.begin - part->ahead : 0), end - at);
    }
    move_probes(decomposition, job, i, (int64_t)own.begin - (int64_t)part->ahead,
                job_block_at(&part->job, to, BLOCK_PROBES));
    job_block_key(to, part->job.more.block_bytes, part->job.more.block_key);
}

/* Does it read or write operands? */
static bool has_operands(const struct job *job)
{
    bool has = false;
    for (int i = 0; i < OPERANDS; i++)
        has = has || job_operand_points(job, i) > 0;
    return has;
}

bool decomposition_overlap(struct decomposition *decomposition, const struct job *job)
{
    const uint64_t width = decomposition->width;
    if (job->operator_id != OPERATOR_DIFFUSION || job->more.scheme != SCHEME_EULER ||
        has_operands(job) || decomposition->axis != AXIS_Z || decomposition->endpoint ||
        width == 0 || width > SUBDOMAIN_EDGE)
        return false;
    decomposition->overlaps = true;
    decomposition->round =
        job->steps < SUBDOMAIN_EDGE / width ? job->steps : SUBDOMAIN_EDGE / width;
    return true;
}

static bool refuse(struct failure *failure, const char *parameter, const char *what)
{
    return failure_set(
        failure, STATUS_UNSUPPORTED, parameter,
        "a distributed job cannot have %s; the device that placement names can run it", what);
}

/* Do the jobs of all subdomains pass job_check()? Closures beside a halo may need more points than
 * a subdomain has. A dt of 0 is chosen later, when κ has been measured. */
static bool check_parts(const struct decomposition *decomposition, const struct job *job,
                        struct failure *failure)
{
    struct subdomain_job part;
    for (uint32_t i = 0; i < decomposition->count; i++) {
        struct failure reason = {0};
        decomposition_job(decomposition, job, i, 1, &part);
        if (job->operator_id == OPERATOR_DIFFUSION && job->dt == 0)
            part.job.dt = 1;
        if (!job_check(&part.job, INFINITY, &reason))
            return failure_set(failure, STATUS_UNSUPPORTED, reason.parameter,
                               "a subdomain is too thin for this job: %s", reason.message);
    }
    return true;
}

bool decompose(const struct job *job, uint64_t planes, uint32_t count,
               struct decomposition *decomposition, struct failure *failure)
{
    const int axis = job->axes - 1;
    const struct boundary *low = &job->boundary[axis][SIDE_LOW];
    if (!subdomain_fits(planes, count))
        return refuse(failure, "f", "arrays with so few planes along the slowest axis");
    *decomposition = (struct decomposition){
        .planes = planes, .count = count, .axis = AXIS_COUNT, .round = job->steps, .legs = 1};
    if (job->batch > 1)
        return true;
    decomposition->axis = axis;
    decomposition->wraps = boundary_is_periodic(low);
    decomposition->endpoint = low->kind == BOUNDARY_ENDPOINT;

    struct job inner = *job;
    inner.boundary[axis][SIDE_LOW] = inner.boundary[axis][SIDE_HIGH] =
        (struct boundary){.kind = BOUNDARY_HALO};
    decomposition->width = (uint64_t)side_of(&inner, axis, SIDE_LOW).held * job_step_passes(job);
    if (!job_is_active(job, axis))
        decomposition->width = 0;
    if (job->more.scheme == SCHEME_ADI ||
        (job->more.scheme == SCHEME_RK4 &&
         (decomposition->endpoint || decomposition->width > SUBDOMAIN_GHOSTS)))
        decomposition_begin_legs(decomposition, job);
    if (decomposition->width > SUBDOMAIN_GHOSTS)
        return refuse(failure, job->operator_id == OPERATOR_STENCIL ? "offsets" : "accuracy",
                      "steps that reach so far");
    if (decomposition->width && decomposition->round > SUBDOMAIN_GHOSTS / decomposition->width)
        decomposition->round = SUBDOMAIN_GHOSTS / decomposition->width;
    if (decomposition->endpoint)
        decomposition->round = 1; /* ghosts beyond the end do not evolve as their images do */
    struct failure thin = {0};
    if (check_parts(decomposition, job, &thin))
        return true;
    decomposition->width = SUBDOMAIN_GHOSTS; /* all of them are points for the closures */
    decomposition->round = 1;
    return check_parts(decomposition, job, failure);
}
