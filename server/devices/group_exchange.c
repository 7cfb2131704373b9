#include "server/devices/device_copy.h"
#include "server/devices/group_run.h"

/* Has a member no memory for an array? */
static bool is_refused(const struct group_run *run)
{
    bool is = false;
    for (int i = 0; i < RUN_ARRAYS; i++)
        is = is || (run->array[i] && field_is_refused(run->array[i]));
    return is;
}

/* Which ghost planes have come is unknown: none count. */
static void fail_exchange(struct group_run *run, enum status status)
{
    group_run_fail(run, status);
    for (int i = 0; i < RUN_INPUTS; i++)
        if (group_run_input(run, i))
            group_run_input(run, i)->parts->ghosts = 0;
}

static void on_exchanged(void *context, bool ok)
{
    struct group_run *run = context;
    run->under_way--;
    run->awaited--;
    if (!ok)
        fail_exchange(run, is_refused(run) ? STATUS_OUT_OF_MEMORY : STATUS_DEVICE_LOST);
    group_settle(run->device);
}

void group_exchange_part(struct group_run *run, struct field *from, uint64_t at, struct field *to,
                         uint64_t there, uint64_t bytes)
{
    struct device_copy *copy;
    run->under_way++;
    run->awaited++;
    if (!device_copy_begin(&copy, from, at, to, there, bytes, on_exchanged, run)) {
        run->under_way--;
        run->awaited--;
        fail_exchange(run, STATUS_OUT_OF_MEMORY);
    }
}

/* Copy planes of one part beside another's cut; from and to: planes of the parts' arrays. */
static void copy_planes(struct group_run *run, const struct field *field, uint32_t from_part,
                        uint64_t from, uint32_t to_part, uint64_t to, uint64_t planes)
{
    const struct field_parts *parts = field->parts;
    const uint64_t bytes = parts->plane_bytes;
    group_exchange_part(run, parts->at[from_part], from * bytes, parts->at[to_part], to * bytes,
                        planes * bytes);
}

static void copy_to_previous(struct group_run *run, const struct field *field, uint32_t i,
                             uint64_t ghosts)
{
    const struct decomposition *cut = &run->cut;
    const uint32_t previous = (i + cut->count - 1) % cut->count;
    const struct subdomain its = subdomain_of(cut->planes, cut->count, previous);
    const uint64_t repeated = i == 0 && cut->endpoint; /* the last plane is the first */
    copy_planes(run, field, i, SUBDOMAIN_GHOSTS + repeated, previous,
                SUBDOMAIN_GHOSTS + its.end - its.begin, ghosts);
}

static void copy_to_next(struct group_run *run, const struct field *field, uint32_t i,
                         uint64_t ghosts)
{
    const struct decomposition *cut = &run->cut;
    const uint32_t next = (i + 1) % cut->count;
    const struct subdomain own = subdomain_of(cut->planes, cut->count, i);
    const uint64_t end = SUBDOMAIN_GHOSTS + own.end - own.begin;
    const uint64_t repeated = next == 0 && cut->endpoint;
    copy_planes(run, field, i, end - repeated - ghosts, next, SUBDOMAIN_GHOSTS - ghosts, ghosts);
}

void group_exchange_edges(struct group_run *run, const struct field *field, uint32_t i,
                          uint64_t ghosts)
{
    if (decomposition_cuts(&run->cut, i, SIDE_LOW))
        copy_to_previous(run, field, i, ghosts);
    if (decomposition_cuts(&run->cut, i, SIDE_HIGH))
        copy_to_next(run, field, i, ghosts);
}

bool group_exchange_has(const struct group_run *run, const struct field *field, uint64_t ghosts)
{
    const struct decomposition *cut = &run->cut;
    const struct field_parts *parts = field->parts;
    if (!parts->is_cut)
        return parts->ghosts > 0;
    return cut->axis == AXIS_COUNT || ghosts == 0 ||
           (parts->ghosts >= ghosts &&
            (!cut->wraps || (parts->wraps && parts->endpoint == cut->endpoint)));
}

void group_exchange_ghosts(struct group_run *run, struct field *field, uint64_t ghosts)
{
    const struct decomposition *cut = &run->cut;
    field->parts->ghosts = ghosts; /* unless a copy fails */
    field->parts->wraps = cut->wraps;
    field->parts->endpoint = cut->endpoint;
    for (uint32_t i = 0; i < cut->count && field->parts->is_cut; i++)
        group_exchange_edges(run, field, i, ghosts);
    if (field->parts->is_cut)
        return;
    /* The numbers of the cut axis's sides are for the first member and the last one alone. */
    for (uint32_t i = cut->axis == AXIS_COUNT ? 1 : cut->count - 1; i < cut->count; i++)
        group_exchange_part(run, field->parts->at[0], 0, field->parts->at[i], 0, field->type.bytes);
}

void group_exchange_leg(struct group_run *run)
{
    const struct job *job = run->order->job;
    const uint64_t element = dtype_element_bytes(job->dtype),
                   ghosts = decomposition_ghosts(&run->cut, run->steps);
    const int stage = decomposition_stage(job, run->leg);
    struct leg_copy copy;
    for (uint32_t i = 0; i < run->cut.count; i++) {
        if (stage >= 0)
            group_exchange_edges(run, run->scratch[stage], i, ghosts);
        if (!decomposition_copy(&run->cut, job, i, run->leg, &copy))
            continue;
        for (int k = 0; k < AXIS_COUNT; k++) {
            const struct field *to = run->scratch[k],
                               *from = copy.of_coefficient ? run->operand[OPERAND_COEFFICIENT] : to;
            if (copy.of[k])
                group_exchange_part(run, from->parts->at[copy.from], copy.at * element,
                                    to->parts->at[i], copy.to * element, copy.elements * element);
        }
    }
}
