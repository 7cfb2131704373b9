#include "server/devices/group_run.h"

#include "base/log.h"
#include "server/devices/mailbox.h"

#include <stdlib.h>
#include <string.h>

uint64_t group_run_bytes(const struct group *group)
{
    return sizeof(struct group_run) + group_run_parts(group) * sizeof(struct group_part);
}

struct field *group_run_use(struct field *field)
{
    if (!field)
        return NULL;
    field->parts->runs++;
    return field_reference(field);
}

/* A lost array gives its parts back once no run's orders use them. */
void group_run_let_go(struct field *field)
{
    if (!field)
        return;
    if (--field->parts->runs == 0 && field->lost)
        field_drop_parts(field);
    field_release(field);
}

static void cancel_parts(struct group_run *run)
{
    for (uint32_t i = 0; i < group_run_parts(run->device->group); i++) {
        struct group_part *part = &run->part[i];
        if (part->state == PART_WAITS)
            group_part_ended(part, 0);
        else if (part->state == PART_HANDED_OVER && !part->order.stopped)
            device_cancel(part->member, &part->order);
    }
    group_probes_cancel(run);
}

/* The member's part of the round before. */
static const struct group_part *part_before(const struct group_run *run,
                                            const struct group_part *part)
{
    const uint32_t count = run->device->group->count;
    return part < run->part + count ? part + count : part - count;
}

bool group_part_edges(struct order *order)
{
    struct group_run *run = order->run;
    struct group_part *part = LIST_ENTRY(order, struct group_part, order);
    if (!order->own.end || part->told || !list_empty(&order->record.link) ||
        part_before(run, part)->state != PART_ENDED)
        return false;
    part->told = true;
    if (run->order && run->status == STATUS_OK)
        group_round_edges(run, part);
    group_settle(run->device);
    return true;
}

void group_part_finished(struct order *order, enum status status,
                         const struct channel_message *said)
{
    struct group_run *run = order->run;
    struct group_part *part = LIST_ENTRY(order, struct group_part, order);
    struct device *member = part->member;
    const uint64_t device_us = said ? said->u.job.device_us : 0;
    if (status == STATUS_OK && order->kind == ORDER_RUN && !order->leg.to)
        schedule_learn(&order->user->part[member->number]->flow, order->job, device_us);
    group_part_ended(part, said ? schedule_time(device_us) : part->entry.cost_ns);
    if (status == STATUS_UNSUPPORTED && group_round_is_first_own(run))
        run->refused = true;
    else if (status != STATUS_OK)
        group_run_fail(run, status);
    else if (order->own.end && !part->told) /* others would wait for its edges */
        group_run_fail(run, STATUS_INTERNAL);
    run->device_us[part->number] += device_us;
    run->passes_begun |= said && said->u.job.done > 0;
    group_settle(run->device);
    member->devices->events->dispatch(member);
}

static void free_run(struct group_run *run)
{
    const struct group *group = run->device->group;
    list_remove(&run->link);
    for (int i = 0; i < RUN_ARRAYS; i++)
        group_run_let_go(run->array[i]);
    for (uint32_t i = 0; i < group_run_parts(group); i++)
        free(run->part[i].block);
    free(run);
}

/* The slowest member's time. */
static uint64_t time_on_devices(const struct group_run *run)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < run->device->group->count; i++)
        most = run->device_us[i] > most ? run->device_us[i] : most;
    return most;
}

static void finish(struct group_run *run)
{
    struct device *device = run->device;
    struct order *order = run->order;
    const enum status status = run->status;
    const struct channel_message said = {
        .type = CHANNEL_FINISHED,
        .u.job = {.done = run->passes_begun, .device_us = time_on_devices(run)}};
    free_run(run);
    if (!order)
        return;
    order->id = 0;
    device->devices->events->finished(order, status, &said);
}

static bool reads(const struct group_run *run, const struct field *field)
{
    bool reads = false;
    for (int i = 0; i < RUN_INPUTS; i++)
        reads = reads || group_run_input(run, i) == field;
    return reads;
}

/* Is another run about to exchange ghost planes of its inputs, or would this one exchange some that
 * another run reads? */
static bool is_in_the_way(const struct group_run *other, const struct group_run *run,
                          const struct field *field)
{
    return other != run && other->phase != GROUP_WAITING && reads(other, field) &&
           (other->phase == GROUP_READING || other->phase == GROUP_EXCHANGING ||
            group_run_needs(run, field));
}

/* Asked before the run begins: from then on others wait for it. */
static bool inputs_wait(const struct group_run *run)
{
    for (int i = 0; i < RUN_INPUTS; i++) {
        const struct field *field = group_run_input(run, i);
        if (field && field->copies) /* it is still arriving */
            return true;
        LIST_EACH (const struct group_run, other, &run->device->group->runs, link)
            if (field && is_in_the_way(other, run, field))
                return true;
    }
    return false;
}

/* Must it wait for an earlier run of its task, or for its inputs? */
static bool must_wait(const struct group_run *run)
{
    LIST_EACH (const struct group_run, other, &run->device->group->runs, link) {
        if (other == run)
            break;
        if (other->order && other->order->task == run->order->task)
            return true;
    }
    return inputs_wait(run);
}

/* Do all members compute own planes? */
static bool computes_own_planes(const struct group *group)
{
    bool all = true;
    for (uint32_t i = 0; i < group->count; i++)
        all = all && group->member[i]->info.own_planes;
    return all;
}

/* Admission has decomposed the job, whose steps and numbers alone may have changed since. */
static void decompose_order(struct group_run *run)
{
    const struct order *order = run->order;
    struct failure failure = {0};
    if (!decompose(order->job, order->in[0]->parts->planes, run->device->group->count, &run->cut,
                   &failure))
        group_run_fail(run, failure.code);
}

static bool write_results(struct group_run *run)
{
    run->phase = GROUP_WRITING;
    return group_round_copy(run, ORDER_WRITE);
}

/* Its first round was refused: begin again, which may need more ghost planes of the input, while
 * others read that. */
static bool go_without_overlap(struct group_run *run)
{
    const bool imposed = run->cut.imposed;
    run->refused = run->own = false;
    run->awaited = 0;
    run->phase = GROUP_WAITING;
    decompose_order(run);
    run->cut.imposed = imposed;
    return true;
}

/* What comes next, now that nothing of the run is under way. False: nothing, it has ended. */
static bool advance(struct group_run *run)
{
    const enum order_kind kind = run->order->kind;
    switch (run->phase) {
    case GROUP_WAITING:
        if (run->rounds) { /* one was refused */
            group_round_begin(run);
            return true;
        }
        run->phase = GROUP_READING;
        /* fall through */
    case GROUP_READING:
        if ((kind == ORDER_RUN || kind == ORDER_READ) && group_round_copy(run, ORDER_READ))
            return true;
        run->component = 0;
        if (kind == ORDER_READ || kind == ORDER_WRITE)
            return kind == ORDER_WRITE && write_results(run);
        group_round_begin(run);
        return true;
    case GROUP_EXCHANGING:
        group_round_order(run);
        return true;
    case GROUP_COMPUTING:
        if (run->refused)
            return go_without_overlap(run);
        if (group_round_end(run))
            return group_probes_gather(run) || write_results(run);
        group_round_begin(run);
        return true;
    default:
        return write_results(run);
    }
}

/* Take the run one step further. False: it waits for its parts, its copies or another run, or it
 * has ended but must not be finished yet. */
static bool go_on(struct group_run *run, bool may_finish)
{
    if (!run->order || run->order->stopped)
        group_run_fail(run, STATUS_CANCELLED);
    if (run->status != STATUS_OK)
        cancel_parts(run);
    if (run->status == STATUS_OK && group_round_overlaps(run) ? run->awaited : run->under_way)
        return false;
    if (group_probes_arrive(run))
        return false;
    if (run->status == STATUS_OK && run->phase == GROUP_WAITING && must_wait(run))
        return false;
    if (run->status == STATUS_OK && !run->has_ended)
        run->has_ended = !advance(run);
    if (run->status == STATUS_OK && !run->has_ended)
        return true;
    if (run->under_way)
        return false;
    if (may_finish)
        finish(run);
    return may_finish;
}

/* A run that ends may free others, and bring new ones: the scan begins anew after each change. */
void group_settle(struct device *device)
{
    struct group *group = device->group;
    if (group->settling)
        return;
    group->settling = true;
    struct list *link = list_begin(&group->runs);
    while (link != &group->runs) {
        struct group_run *run = LIST_ENTRY(link, struct group_run, link);
        link = go_on(run, true) ? list_begin(&group->runs) : link->next;
    }
    group->settling = false;
}

void group_flush(struct device *device)
{
    struct group *group = device->group;
    while (group->abandoned) {
        struct order *order = group->abandoned;
        group->abandoned = order->next_running;
        order->id = 0;
        static const struct channel_message unbegun = {.type = CHANNEL_FINISHED};
        device->devices->events->finished(order, STATUS_OUT_OF_MEMORY, &unbegun);
    }
    group_settle(device);
}

void group_order(struct device *device, struct order *order)
{
    struct group *group = device->group;
    struct group_run *run = calloc(1, group_run_bytes(group));
    order->stopped = false;
    if (!run) {
        order->next_running = group->abandoned;
        group->abandoned = order;
        return;
    }
    run->device = device;
    run->order = order;
    memcpy(run->in, order->in, sizeof run->in);
    memcpy(run->out, order->out, sizeof run->out);
    memcpy(run->scratch, order->scratch, sizeof run->scratch);
    memcpy(run->operand, order->operand, sizeof run->operand);
    for (int i = 0; i < RUN_ARRAYS; i++)
        group_run_use(run->array[i]);
    list_push(&group->runs, &run->link);
    if (order->kind == ORDER_RUN) {
        decompose_order(run);
        if (computes_own_planes(group))
            decomposition_overlap(&run->cut, order->job);
    } else if (order->kind == ORDER_MEASURE) {
        const struct field_parts *parts = order->in[0]->parts;
        run->cut = (struct decomposition){.planes = parts->planes, .count = parts->count};
    }
    const bool settles = group->settling;
    group->settling = true; /* its task is not to hear of its end before this returns */
    while (!settles && go_on(run, false))
        ;
    group->settling = settles;
}

/* --- the group and its members --- */

bool group_cuts(const struct device *group, const struct array_type *type)
{
    return type->dimensions && subdomain_fits(type->shape[0], group->group->count);
}

/* Become ready if all members are. */
static void become_ready(struct device *device)
{
    const struct group *group = device->group;
    uint64_t bytes = 0;
    uint32_t units = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct device *member = group->member[i];
        if (member->state != DEVICE_READY)
            return;
        bytes += member->memory_bytes;
        units += member->info.units;
    }
    device->memory_bytes = bytes;
    device->info.units = units;
    memcpy(device->info.name, group->member[0]->info.name, sizeof device->info.name);
    device->state = DEVICE_READY;
}

struct device *group_of(const struct device *member)
{
    struct device *device = member->devices->group;
    for (uint32_t i = 0; device && i < device->group->count; i++)
        if (device->group->member[i] == member)
            return device;
    return NULL;
}

void group_member_ready(const struct device *member)
{
    struct device *device = group_of(member);
    if (device)
        become_ready(device);
}

void group_lose(const struct device *member)
{
    struct device *device = group_of(member);
    if (!device)
        return;
    if (device->state != DEVICE_CLOSED)
        device->state = DEVICE_DOWN;
    device->generation++;
    users_forget_plans(device->devices->users, device->number);
    device->losing = true;
    device->group->abandoned = NULL;
    LIST_EACH (struct group_run, run, &device->group->runs, link) {
        run->order = NULL;
        group_probes_cancel(run);
        for (uint32_t i = 0; i < group_run_parts(device->group); i++) {
            struct group_part *part = &run->part[i];
            if (part->member == member || part->state == PART_WAITS)
                group_part_ended(part, 0);
            else if (part->state == PART_HANDED_OVER && part->order.kind == ORDER_WRITE)
                region_use_hold(&part->place); /* the task is answered meanwhile */
        }
    }
    LIST_EACH (struct field, field, &device->arrays, device_link) {
        field_lose(field);
        if (!field->parts->runs)
            field_drop_parts(field);
    }
}

void group_lost(const struct device *member)
{
    struct device *device = group_of(member);
    if (!device)
        return;
    group_settle(device);
    device->devices->events->worker_lost(device);
}

/* The devices of the first kind of which there are several. */
static void find_members(const struct devices *devices, struct group *group)
{
    LIST_EACH (const struct device, first, &devices->list, link) {
        group->count = 0;
        LIST_EACH (struct device, device, &devices->list, link)
            if (group->count < SUBDOMAINS_MOST && strcmp(device->info.kind, first->info.kind) == 0)
                group->member[group->count++] = device;
        if (group->count > 1)
            return;
    }
}

bool group_open(struct devices *devices)
{
    struct group group = {0};
    find_members(devices, &group);
    if (group.count < 2 || devices->count == DEVICES_MOST)
        return true;
    struct group *own = calloc(1, sizeof *own);
    struct device *device = own ? device_new(devices, GROUP_NAME) : NULL;
    if (!device) {
        free(own);
        return false;
    }
    *own = group;
    device->group = own;
    devices->group = device;
    memcpy(device->info.kind, group.member[0]->info.kind, sizeof device->info.kind);
    become_ready(device);
    for (uint32_t i = 0; i < own->count; i++)
        if (!mailbox_open(own->member[i]))
            return false;
    for (uint32_t i = 0; i < own->count; i++)
        mailbox_worker_ready(own->member[i]);
    log_info("%s: %u devices of kind %s", device->name, own->count, device->info.kind);
    return true;
}

void group_free(struct device *device)
{
    LIST_DRAIN (struct group_run, run, &device->group->runs, link)
        free_run(run);
    free(device->group);
}
