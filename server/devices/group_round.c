#include "server/devices/device_copy.h"
#include "server/devices/group_run.h"

#include <stdlib.h>

enum { PROGRESS_NS = 100000000 };

/* Set in the ids of orders to members, which no id of a task's order reaches. */
#define PART_ID (UINT64_C(1) << 61)

void group_run_fail(struct group_run *run, enum status status)
{
    run->status = run->status == STATUS_OK ? status : run->status;
}

struct field *group_run_input(const struct group_run *run, int i)
{
    return i < AXIS_COUNT                     ? run->in[i]
           : i - AXIS_COUNT == OPERAND_PROBES ? NULL
                                              : run->operand[i - AXIS_COUNT];
}

static uint64_t next_steps(const struct group_run *run)
{
    const uint64_t left = run->order->job->steps - run->done;
    return left < run->cut.round ? left : run->cut.round;
}

/* The ghost planes of its inputs that its next round reads. */
static uint64_t next_ghosts(const struct group_run *run)
{
    const enum order_kind kind = run->order->kind;
    return kind == ORDER_RUN       ? decomposition_ghosts(&run->cut, next_steps(run))
           : kind == ORDER_MEASURE ? group_measure_reads(run)
                                   : 0;
}

bool group_run_needs(const struct group_run *run, const struct field *field)
{
    return !group_exchange_has(run, field, next_ghosts(run));
}

static struct field *part_of(const struct field *field, uint32_t i)
{
    return field ? field->parts->at[i] : NULL;
}

/* Whose first so many members the round is of. */
static uint32_t members(const struct group_run *run)
{
    return group_measure_joins(run) ? 1 : run->device->group->count;
}

/* Parts of a round are not those of the one beside it. */
static struct group_part *part_of_round(struct group_run *run, uint32_t i)
{
    const struct group *group = run->device->group;
    struct group_part *part = &run->part[run->rounds % 2 * group->count + i];
    part->member = group->member[i];
    part->number = i;
    return part;
}

/* Where the next of the rounds that overlap writes: to and fro between two arrays, so that the last
 * one writes the output where there is a choice. */
static struct field *next_result(const struct group_run *run)
{
    struct field *const out = run->out[0];
    struct field *const other = run->scratch[0] ? run->scratch[0] : run->in[0];
    const uint64_t left = run->order->job->steps - run->done;
    const uint64_t rounds = (left + run->cut.round - 1) / run->cut.round;
    struct field *const next = rounds % 2 ? out : other;
    return next != run->result ? next : next == out ? other : out;
}

/* Of a part of own planes: what the order names. */
static void set_own(const struct group_run *run, struct group_part *part)
{
    struct order *order = &part->order;
    order->in[0] = part_of(run->result, part->number);
    order->out[0] = part_of(next_result(run), part->number);
    order->scratch[0] = NULL;
    order->own = part->job.own;
    part->told = false;
    order->chain = PART_ID | run->order->id;
}

/* Of a part of a RUN: its job in this leg, and which arrays and bytes of them it has. */
static void set_job(const struct group_run *run, struct group_part *part)
{
    const struct job *job = &part->job.job;
    const uint64_t plane_bytes = run->in[0]->parts->plane_bytes;
    struct order *order = &part->order;
    part->idle = !decomposition_leg(&run->cut, run->order->job, part->number, run->steps, run->leg,
                                    &part->job);
    order->job = job;
    order->leg = part->job.leg;
    order->ahead -= part->job.ahead * plane_bytes;
    order->behind = order->in[0]->type.bytes - order->ahead - part->job.planes * plane_bytes;
    for (int k = 0; k < AXIS_COUNT; k++)
        if (order->leg.to && k >= job_scratch(job, false, false))
            order->scratch[k] = NULL;
    for (int k = 0; k < OPERANDS; k++)
        if (job_operand_points(job, k))
            order->operand[k] = part_of(run->operand[k], part->number);
}

/* False: no memory. */
static bool set_part(struct group_run *run, uint32_t i)
{
    const struct order *whole = run->order;
    struct group_part *part = part_of_round(run, i);
    struct order *order = &part->order;
    *order = (struct order){.run = run, .user = whole->user, .kind = whole->kind};
    for (int k = 0; k < AXIS_COUNT; k++) {
        order->in[k] = part_of(run->in[k], i);
        order->out[k] = part_of(run->out[k], i);
        order->scratch[k] = part_of(run->scratch[k], i);
    }
    order->ahead = SUBDOMAIN_GHOSTS * run->in[0]->parts->plane_bytes;
    part->idle = false;
    if (whole->kind == ORDER_MEASURE) {
        part->idle = !group_measure_part(run, i, order);
        return true;
    }
    set_job(run, part);
    free(part->block);
    part->block = NULL;
    if (part->job.job.more.block_bytes) {
        if (!(part->block = malloc(part->job.job.more.block_bytes)))
            return false;
        decomposition_block(&run->cut, whole->job, whole->block, i, &part->job, part->block);
    }
    order->block = part->block;
    order->probed = group_probes_before(run);
    if (run->own)
        set_own(run, part);
    return true;
}

/* Their ghost planes are no longer what the neighbours hold, once these are written. */
static void spoil_ghosts(struct field *const *fields, int count)
{
    for (int i = 0; i < count; i++)
        if (fields[i])
            fields[i]->parts->ghosts = 0;
}

static void begin_part(struct entry *entry)
{
    struct group_part *part = LIST_ENTRY(entry, struct group_part, entry);
    struct order *order = &part->order;
    part->state = PART_HANDED_OVER;
    order->id = PART_ID | ++part->member->devices->last_part;
    order->is_short = schedule_is_short(entry);
    device_order(part->member, order);
    device_flush(part->member);
}

/* Its turn may come at once. Its cost is that of its job or, of a leg, a measure and a copy, of so
 * many bytes. */
static void wait_for_turn(struct group_run *run, struct group_part *part)
{
    const struct order *order = &part->order;
    struct flow *flow = &order->user->part[part->member->number]->flow;
    part->entry = (struct entry){
        .begin = begin_part,
        .priority = run->order->priority,
        .arrival = run->order->arrival,
        .cost_ns = order->job && !order->leg.to
                       ? schedule_estimate(flow, order->job) + schedule_plan(flow, order->job)
                       : schedule_copy(order->in[0]->type.bytes - order->ahead - order->behind)};
    part->state = PART_WAITS;
    run->under_way++;
    schedule_add(&part->member->schedule, flow, &part->entry);
    part->member->devices->events->dispatch(part->member);
}

void group_part_ended(struct group_part *part, int64_t device_ns)
{
    if (part->state == PART_WAITS)
        schedule_remove(&part->member->schedule, &part->entry);
    else if (part->state == PART_HANDED_OVER)
        schedule_done(&part->member->schedule, &part->entry, device_ns);
    else
        return;
    part->state = PART_ENDED;
    part->order.run->under_way--;
    region_use_end(&part->place);
}

/* The array of that component, and its place in a region; NULL: it has none. */
static struct field *copied_array(const struct group_run *run, enum order_kind kind, int component,
                                  const struct region_use **place)
{
    const struct order *order = run->order;
    const struct region_use *places = kind == ORDER_READ ? order->in_place : order->out_place;
    const bool has = places && (component == 0 || order->kind == ORDER_RUN);
    *place = has && places[component].region ? &places[component] : NULL;
    if (!*place)
        return NULL;
    return kind == ORDER_READ || order->kind != ORDER_RUN ? run->in[component]
                                                          : run->out[component];
}

static void copy_part(struct group_run *run, enum order_kind kind, struct field *array,
                      const struct region_use *place, uint32_t i)
{
    const struct field_parts *parts = array->parts;
    const struct subdomain own = subdomain_of(parts->planes, parts->count, i);
    struct group_part *part = part_of_round(run, i);
    struct order *order = &part->order;
    *order = (struct order){.run = run,
                            .user = run->order->user,
                            .kind = kind,
                            .ahead = SUBDOMAIN_GHOSTS * parts->plane_bytes,
                            .behind = parts->behind * parts->plane_bytes,
                            .in = {parts->at[i]},
                            .in_place = &part->place,
                            .out_place = &part->place};
    region_use_share(&part->place, place);
    part->place.offset += own.begin * parts->plane_bytes;
    wait_for_turn(run, part);
}

bool group_round_copy(struct group_run *run, enum order_kind kind)
{
    const struct group *group = run->device->group;
    const struct region_use *place = NULL;
    struct field *array = NULL;
    while (!array && run->component < AXIS_COUNT)
        array = copied_array(run, kind, run->component++, &place);
    if (!array)
        return false;
    if (kind == ORDER_READ)
        array->parts->ghosts = 0;
    for (uint32_t i = 0; i < group->count; i++)
        copy_part(run, kind, array, place, i);
    return true;
}

bool group_round_is_first_own(const struct group_run *run)
{
    return run->own && run->order && run->rounds == 1 + (uint32_t)job_imposes(run->order->job);
}

bool group_round_overlaps(const struct group_run *run)
{
    return run->phase == GROUP_COMPUTING && run->own && !run->refused &&
           run->done + run->steps < run->order->job->steps;
}

void group_round_order(struct group_run *run)
{
    run->phase = GROUP_COMPUTING;
    run->rounds++;
    const uint32_t parts = members(run);
    for (uint32_t i = 0; i < parts; i++)
        if (!set_part(run, i)) {
            group_run_fail(run, STATUS_OUT_OF_MEMORY);
            return;
        }
    if (run->own)
        run->result = next_result(run);
    spoil_ghosts(run->out, AXIS_COUNT);
    spoil_ghosts(run->scratch, AXIS_COUNT);
    if (group_round_overlaps(run))
        run->awaited += parts;
    for (uint32_t i = 0; i < parts; i++)
        if (!part_of_round(run, i)->idle)
            wait_for_turn(run, part_of_round(run, i));
}

void group_round_edges(struct group_run *run, const struct group_part *part)
{
    if (!group_round_overlaps(run))
        return;
    group_exchange_edges(run, run->result, part->number,
                         decomposition_ghosts(&run->cut, run->cut.round));
    run->awaited--;
}

/* Operands do not change between rounds, and other runs may read them: all of their ghost
 * planes come at once. */
void group_round_begin(struct group_run *run)
{
    run->phase = GROUP_EXCHANGING;
    if (run->order->kind == ORDER_MEASURE && run->rounds) {
        group_measure_gather(run);
        return;
    }
    if (run->leg) {
        group_exchange_leg(run);
        return;
    }
    if (run->order->kind == ORDER_RUN) {
        run->steps = next_steps(run);
        if (run->own) { /* they came beside the round before */
            group_round_order(run);
            return;
        }
        run->own = run->cut.overlaps && (run->cut.imposed || !job_imposes(run->order->job));
        run->result = run->in[0];
    }
    const uint64_t ghosts = next_ghosts(run);
    for (int i = 0; i < RUN_INPUTS; i++) {
        struct field *field = group_run_input(run, i);
        if (!field || group_exchange_has(run, field, ghosts))
            continue;
        if (run->order->kind == ORDER_MEASURE)
            group_measure_fetch(run, field);
        else
            group_exchange_ghosts(run, field, i < AXIS_COUNT ? ghosts : SUBDOMAIN_GHOSTS);
    }
}

static void merge_measured(struct group_run *run)
{
    run->order->measured = measured_none();
    for (uint32_t i = 0; i < members(run); i++)
        measured_join(&run->order->measured, &part_of_round(run, i)->order.measured);
}

/* Where the last round that overlapped has written another array than the output, the two exchange
 * theirs, and with them whether these count as a job's: their charges stay what they are. */
static void place_result(struct group_run *run)
{
    struct field_parts *result = run->result->parts, *out = run->out[0]->parts;
    for (uint32_t i = 0; i < out->count && result != out; i++) {
        struct field *const part = out->at[i];
        const bool resident = part->resident;
        out->at[i] = result->at[i];
        result->at[i] = part;
        part->resident = out->at[i]->resident;
        out->at[i]->resident = resident;
    }
}

/* The next round begins from the result. Of rounds that overlap the first, which alone reads the
 * input, is still under way when its edges are there: it has ended when the second's are. */
static void let_go_of_input(struct group_run *run)
{
    if (run->in[0] == run->out[0] || (run->own && run->rounds == 1))
        return;
    group_run_let_go(run->in[0]);
    run->in[0] = group_run_use(run->out[0]);
}

static void tell_progress(struct group_run *run)
{
    const struct order *order = run->order;
    struct job done = *order->job;
    done.steps = run->done;
    const uint64_t now_ns = uv_hrtime();
    if (!order->progress || now_ns - run->told_ns < PROGRESS_NS)
        return;
    run->told_ns = now_ns;
    run->device->devices->events->progress(run->order, job_passes(&done));
}

/* All parts of a round have ended well, or their edges are there. True: it was the last one. */
bool group_round_end(struct group_run *run)
{
    if (run->order->kind == ORDER_MEASURE) {
        const bool was_last = group_measure_is_last(run);
        if (was_last)
            merge_measured(run);
        return was_last;
    }
    if (++run->leg < run->cut.legs)
        return false;
    run->leg = 0;
    run->done += run->steps;
    const bool was_last = run->done == run->order->job->steps;
    if (was_last && run->own)
        place_result(run);
    if (!was_last) {
        run->cut.imposed = run->order->job->operator_id == OPERATOR_DIFFUSION;
        let_go_of_input(run);
        tell_progress(run);
    }
    return was_last;
}
