/* The legs of a step of scheme rk4 or adi along the axis that is cut. */
#include "numerics/subdomain.h"

#include <string.h>

/* Of a plane, in a chunk at least: fewer are swept sooner than they are ordered. */
enum { CHUNK_POINTS = 4096 };

/* Where a leg is in the order of a round: the passes before the solve, the waves of the sweep
 * forward and of that back, of a periodic line those of its corner, and the passes behind. */
struct place {
    enum sweep sweep;
    bool is_last;
    uint64_t wave; /* member 0, or back the last one, has this chunk */
};

static uint64_t waves_of(const struct decomposition *decomposition)
{
    return decomposition->chunks + decomposition->count - 1;
}

static struct place place_of(const struct decomposition *decomposition, uint64_t leg)
{
    const uint64_t waves = waves_of(decomposition);
    if (leg == 0 || leg + 1 == decomposition->legs)
        return (struct place){.sweep = SWEEP_NONE, .is_last = leg > 0};
    leg--;
    if (leg < 2 * waves)
        return (struct place){.sweep = leg < waves ? SWEEP_FORWARD : SWEEP_BACK,
                              .wave = leg % waves};
    return (struct place){.sweep = leg == 2 * waves ? SWEEP_AROUND : SWEEP_CLOSE};
}

static uint64_t plane_points(const struct decomposition *decomposition, const struct job *job)
{
    return job_points(job) / decomposition->planes;
}

void decomposition_begin_legs(struct decomposition *decomposition, const struct job *job)
{
    decomposition->round = 1;
    if (job->more.scheme == SCHEME_RK4) {
        decomposition->legs = job_step_passes(job);
        decomposition->width /= decomposition->legs;
        return;
    }
    const uint64_t most = plane_points(decomposition, job) / CHUNK_POINTS;
    decomposition->chunks = most < 1                      ? 1
                            : most < decomposition->count ? most
                                                          : decomposition->count;
    decomposition->legs = 2 + 2 * waves_of(decomposition) + (decomposition->wraps ? 2 : 0);
    /* Passes along x and y, before the rate along z, leave the outermost ghost plane behind. */
    decomposition->width = job_is_symmetric_split(job) ? 2 : 1;
}

/* The points of a plane that member i has in that leg. False: none. */
static bool find_chunk(const struct decomposition *decomposition, const struct job *job,
                       const struct place *place, uint32_t i, struct subdomain *points)
{
    const uint64_t all = plane_points(decomposition, job);
    const bool is_back = place->sweep == SWEEP_BACK;
    const uint64_t before = is_back ? decomposition->count - 1 - i : i;
    *points = (struct subdomain){0, all};
    if (place->sweep != SWEEP_FORWARD && !is_back)
        return place->sweep != SWEEP_AROUND || i == 0;
    if (place->wave < before || place->wave - before >= decomposition->chunks)
        return false;
    *points = subdomain_of(all, (uint32_t)decomposition->chunks, (uint32_t)(place->wave - before));
    return true;
}

/* The whole field's job, but for what a solve does not read. */
static void solve_job(const struct job *job, struct job *solve)
{
    *solve = *job;
    solve->steps = 1;
    solve->imposed = 1;
    solve->more.source = 0;
    solve->more.source_value = 0;
    for (int face = 0; face < AXIS_COUNT * SIDE_COUNT; face++) {
        struct boundary *boundary = &solve->boundary[face / SIDE_COUNT][face % SIDE_COUNT];
        boundary->value_array = boundary->constant_array = NUMBER_CONSTANT;
    }
    solve->more.probes = 0;
    solve->more.block_bytes = 0;
    memset(solve->more.block_key, 0, sizeof solve->more.block_key);
}

bool decomposition_leg(const struct decomposition *decomposition, const struct job *job, uint32_t i,
                       uint64_t steps, uint64_t leg, struct subdomain_job *part)
{
    decomposition_job(decomposition, job, i, steps, part);
    if (decomposition->legs == 1)
        return true;
    const uint64_t imposes = job_imposes(&part->job);
    if (job->more.scheme == SCHEME_RK4) {
        part->leg = (struct leg){.from = leg ? imposes + leg : 0, .to = imposes + leg + 1};
        return true;
    }
    const struct place place = place_of(decomposition, leg);
    /* The pass that solves along the axis that is cut, which is the last one (numerics/stage.h). */
    const uint64_t number = job_is_symmetric_split(job) ? 7 : (uint64_t)job->axes;
    const uint64_t solve = imposes + number;
    if (place.sweep == SWEEP_NONE) {
        part->leg = place.is_last ? (struct leg){.from = solve + 1, .to = job_passes(&part->job)}
                                  : (struct leg){.to = solve};
        return true;
    }
    const struct subdomain own = subdomain_of(decomposition->planes, decomposition->count, i);
    struct subdomain points;
    const bool has = find_chunk(decomposition, job, &place, i, &points);
    solve_job(job, &part->job);
    part->leg =
        (struct leg){number, number + 1, place.sweep, own.begin, own.end, points.begin, points.end};
    part->ahead = 0;
    part->planes = own.end - own.begin;
    return has;
}

/* A stage reads what the one before wrote (numerics/stage.h). */
int decomposition_stage(const struct job *job, uint64_t leg)
{
    return job->more.scheme == SCHEME_RK4 && leg > 0 ? (int)((leg - 1) % 2) : -1;
}

/* Behind the last of subdomain i's own planes in its arrays. */
static uint64_t end_of(const struct decomposition *decomposition, uint32_t i)
{
    const struct subdomain own = subdomain_of(decomposition->planes, decomposition->count, i);
    return SUBDOMAIN_GHOSTS + own.end - own.begin;
}

/* Of κ, around the first row, for the last subdomain, which has nothing else to do in the leg. */
static void copy_coefficient(const struct decomposition *decomposition, const struct job *job,
                             struct leg_copy *copy)
{
    const uint64_t points = plane_points(decomposition, job);
    *copy = (struct leg_copy){
        .at = (SUBDOMAIN_GHOSTS - 2) * points,
        .to = (end_of(decomposition, decomposition->count - 1) - 1) * points,
        .elements = 4 * points,
        .of = {[2] = true},
        .of_coefficient = true,
    };
}

bool decomposition_copy(const struct decomposition *decomposition, const struct job *job,
                        uint32_t i, uint64_t leg, struct leg_copy *copy)
{
    if (decomposition->legs == 1 || job->more.scheme == SCHEME_RK4)
        return false;
    const struct place place = place_of(decomposition, leg);
    const uint32_t last = decomposition->count - 1;
    const bool of_field = job->more.coefficient, of_corner = of_field && decomposition->wraps;
    const uint64_t begin = SUBDOMAIN_GHOSTS, end = end_of(decomposition, i);
    struct subdomain points;
    if (leg == 1 && i == last && of_field && decomposition->endpoint) {
        copy_coefficient(decomposition, job, copy);
        return true;
    }
    if (!find_chunk(decomposition, job, &place, i, &points))
        return false;
    uint64_t at = begin, to = begin - 1; /* planes, ghosts among them */
    bool has = true;
    *copy = (struct leg_copy){.elements = points.end - points.begin, .of = {true}};
    switch (place.sweep) {
    case SWEEP_FORWARD:
        has = i > 0;
        copy->from = has ? i - 1 : 0;
        at = end_of(decomposition, copy->from) - 1;
        copy->of[1] = of_field;
        copy->of[2] = of_corner;
        break;
    case SWEEP_BACK:
        has = i < last;
        copy->from = i + 1;
        to = end;
        copy->of[2] = of_corner;
        break;
    case SWEEP_AROUND:
        copy->from = last;
        at = end_of(decomposition, last) - 1 - decomposition->endpoint;
        copy->of[2] = of_corner;
        break;
    case SWEEP_CLOSE:
        has = i > 0;
        at = begin - 1;
        break;
    default: /* an end point is no unknown */
        has = place.is_last && decomposition->endpoint && i == last;
        to = end - 1;
        break;
    }
    copy->at = at * plane_points(decomposition, job) + points.begin;
    copy->to = to * plane_points(decomposition, job) + points.begin;
    return has;
}
