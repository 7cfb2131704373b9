#include "base/log.h"
#include "server/devices/communicator.h"
#include "server/devices/field.h"
#include "server/devices/group.h"
#include "server/devices/mailbox.h"

#include <assert.h>
#include <string.h>

/* A copy's tag is the number of its slab in the arena or, with DEVICE_OPERAND_TAG or one of these
 * bits, … */
#define TAG_ORDER (UINT64_C(1) << 63) /* its order's */
#define TAG_SLOT (UINT64_C(1) << 60)  /* its use of a slot (mailbox_use_number()) */

static void tell(struct device *device, struct channel_message message)
{
    device_tell(device, &message, NULL);
}

uint64_t device_array(struct field *field)
{
    if (!field)
        return 0;
    if (!field->allocated)
        tell(field->device,
             (struct channel_message){.type = CHANNEL_ALLOCATE,
                                      .u.allocate = {.array = field->array,
                                                     .bytes = field->type.bytes,
                                                     .owner = field->user->uid,
                                                     .exportable = field_is_exported(field)}});
    field->allocated = true;
    return field->array;
}

void device_release(const struct field *field)
{
    if (field->allocated)
        tell(field->device,
             (struct channel_message){.type = CHANNEL_RELEASE, .u.job.id = field->array});
}

static void send_copy(struct device *device, const struct slab *slab)
{
    const struct arena *arena = &device->devices->arena;
    link_rate_begin(&device->rate, uv_hrtime());
    struct channel_message message = {.type = slab->goes_up ? CHANNEL_UPLOAD : CHANNEL_DOWNLOAD,
                                      .u.copy = {.array = device_array(slab->part),
                                                 .offset = slab->part_offset,
                                                 .bytes = slab->bytes}};
    if (slab->mailbox) {
        message.u.copy.region = slab->mailbox->region;
        message.u.copy.arena_offset = mailbox_offset(slab);
        message.u.copy.tag = TAG_SLOT | mailbox_use_number(slab);
    } else {
        message.u.copy.arena_offset = arena_offset(arena, slab);
        message.u.copy.tag = slab->number;
    }
    tell(device, message);
    if (slab->mailbox || slab->bytes == arena->slab_bytes)
        device_flush(device); /* much is under way: it need not wait for what else there is */
}

void device_release_slab(struct arena *arena, struct slab *slab)
{
    if (slab->mailbox)
        mailbox_release(slab);
    else
        arena_release(arena, slab);
}

static void send_order(struct device *device, const struct order *order);

static struct send_window *window_of(const struct device *device, const struct user *user)
{
    return &user->part[device->number]->window;
}

static void send_cancel(struct device *device, const struct order *order)
{
    tell(device, (struct channel_message){.type = CHANNEL_CANCEL, .u.job.id = order->id});
}

/* Send what the user's window lets go. */
static void send_some(struct device *device, struct send_window *window, uint64_t now_ns)
{
    for (struct record *record; (record = send_window_next(window, &device->contention, now_ns));) {
        struct order *order = LIST_ENTRY(record, struct order, record);
        if (record->is_order)
            send_order(device, order);
        else
            send_copy(device, LIST_ENTRY(record, struct slab, record));
        record->position = device->queue.pushed;
        if (record->is_order && order->stopped)
            send_cancel(device, order);
    }
}

/* Only then may it be answered. A node that answers what it was not sent would have memory that is
 * still to be sent to it used for something else. */
static bool was_sent(const struct device *device, const struct record *record)
{
    return list_empty(&record->link) &&
           record->position <= device->queue.pushed - device->queue.count;
}

static void queue_record(struct device *device, const struct user *user, struct record *record)
{
    struct send_window *window = window_of(device, user);
    const uint64_t now_ns = uv_hrtime();
    send_window_add(window, &device->contention, record, now_ns);
    send_some(device, window, now_ns);
}

static void answered(struct device *device, const struct user *user, const struct record *record)
{
    struct send_window *window = window_of(device, user);
    send_window_answered(window, record);
    if (!list_empty(&window->waiting))
        send_some(device, window, uv_hrtime());
}

static void copy(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes)
{
    slab->part = field_reference(field_at(field, offset, &slab->part_offset));
    struct device *device = slab->part->device;
    assert(bytes <= field_stretch(field, offset));
    slab->field = field_reference(field);
    slab->offset = offset;
    slab->bytes = bytes;
    const int64_t copy_ns = schedule_copy(bytes);
    slab->record = (struct record){
        .cost_ns = copy_ns > SEND_WINDOW_RECORD_NS ? copy_ns : SEND_WINDOW_RECORD_NS};
    list_push(&device->copies, &slab->link);
    field->copies++;
    queue_record(device, field->user, &slab->record);
}

void device_upload(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes)
{
    if (field->device->devices->trace && !field->copied.begin_ns)
        field->copied.begin_ns = uv_hrtime();
    slab->goes_up = true;
    copy(field, offset, slab, bytes);
}

void device_download(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                     void (*copied)(struct slab *, void *, bool), void *context)
{
    if (!slab->mailbox)
        arena_memory_to_write(&field->device->devices->arena, slab, bytes);
    slab->goes_up = false;
    slab->copied = copied;
    slab->context = context;
    copy(field, offset, slab, bytes);
}

/* Where the order with that id is in its bucket, or else the end of it. */
static struct order **bucket_place(struct device *device, uint64_t id)
{
    struct order **place = &device->running[id % DEVICE_BUCKETS];
    while (*place && (*place)->id != id)
        place = &(*place)->next_running;
    return place;
}

/* The order with that id, of one of two kinds, that is with the worker; NULL: there is none. */
static struct order *find_order(struct device *device, uint64_t id, enum order_kind kind,
                                enum order_kind or_kind)
{
    struct order *order = *bucket_place(device, id);
    const bool is = order && (order->kind == kind || order->kind == or_kind);
    return is && was_sent(device, &order->record) ? order : NULL;
}

/* The same, which is with the worker no longer. An answer of another kind than the order's would
 * end it in the front, and not in the bridge, which knows what an answer may write by its kind. */
static struct order *take_back(struct device *device, uint64_t id, enum order_kind kind,
                               enum order_kind or_kind)
{
    struct order *order = find_order(device, id, kind, or_kind);
    if (!order)
        return NULL;
    struct order **place = bucket_place(device, id);
    *place = order->next_running;
    order->id = 0;
    answered(device, order->user, &order->record);
    return order;
}

static struct place place_of(const struct region_use *uses, int component)
{
    const struct region_use *use = uses ? &uses[component] : NULL;
    return use && use->region ? (struct place){use->region->number, use->offset}
                              : (struct place){0};
}

static void send_run(struct device *device, const struct order *order)
{
    struct channel_message message = {.type = CHANNEL_RUN};
    struct channel_run *run = &message.u.run;
    run->id = order->id;
    run->owner = order->user->uid;
    run->chain = order->chain;
    run->progress = order->progress;
    run->ends_round = order->ends_round;
    run->job = *order->job;
    run->ahead = order->ahead;
    run->behind = order->behind;
    run->probed = order->probed;
    run->own = order->own;
    run->leg = order->leg;
    for (int i = 0; i < AXIS_COUNT; i++) {
        run->in[i] = device_array(order->in[i]);
        run->out[i] = device_array(order->out[i]);
        run->scratch[i] = device_array(order->scratch[i]);
        run->from[i] = place_of(order->in_place, i);
        run->to[i] = place_of(order->out_place, i);
    }
    for (int i = 0; i < OPERANDS; i++)
        run->operand[i] = device_array(order->operand[i]);
    kernels_use(device, order->user, order->job, order->block);
    device_tell(device, &message, order->block);
}

static void measure(struct device *device, const struct order *order)
{
    const struct array_type *type = &order->in[0]->type;
    const uint64_t bytes = type->bytes - order->ahead - order->behind;
    const uint64_t of =
        order->in[0] == order->out[0] ? sizeof(struct measured) : dtype_element_bytes(type->dtype);
    tell(device, (struct channel_message){.type = CHANNEL_MEASURE,
                                          .u.measure = {.id = order->id,
                                                        .array = device_array(order->in[0]),
                                                        .other = device_array(order->in[1]),
                                                        .result = device_array(order->out[0]),
                                                        .ahead = order->ahead,
                                                        .behind = order->behind,
                                                        .points = bytes / of,
                                                        .dtype = type->dtype}});
}

/* But for so many bytes of the array at its begin and at its end. */
static void copy_region(struct device *device, enum channel_type type, const struct order *order,
                        const struct region_use *use)
{
    struct field *field = order->in[0];
    tell(device, (struct channel_message){
                     .type = type,
                     .u.copy = {.array = device_array(field),
                                .offset = order->ahead,
                                .region = use->region->number,
                                .arena_offset = use->offset,
                                .bytes = field->type.bytes - order->ahead - order->behind,
                                .tag = TAG_ORDER | order->id}});
}

static void send_order(struct device *device, const struct order *order)
{
    if (order->kind == ORDER_RUN)
        send_run(device, order);
    else if (order->kind == ORDER_MEASURE)
        measure(device, order);
    else if (order->kind == ORDER_EXPORT)
        tell(device,
             (struct channel_message){.type = CHANNEL_EXPORT,
                                      .u.exported = {.id = order->id,
                                                     .array = device_array(order->in[0]),
                                                     .other = device_array(order->scratch[0])}});
    else if (order->kind == ORDER_READ)
        copy_region(device, CHANNEL_UPLOAD, order, order->in_place);
    else
        copy_region(device, CHANNEL_DOWNLOAD, order, order->out_place);
}

void device_order(struct device *device, struct order *order)
{
    if (device->group) {
        group_order(device, order);
        return;
    }
    order->next_running = NULL;
    order->stopped = false;
    *bucket_place(device, order->id) = order;
    order->record =
        (struct record){.is_order = true, .cost_ns = order->is_short ? SEND_WINDOW_RECORD_NS : 0};
    queue_record(device, order->user, &order->record);
}

void device_cancel(struct device *device, struct order *order)
{
    order->stopped = true;
    if (!device->group && list_empty(&order->record.link))
        send_cancel(device, order);
}

void device_settle_copies(struct field *field)
{
    struct task *task = field->copies ? NULL : field->awaited_by;
    if (task) {
        field->awaited_by = NULL;
        field->device->devices->events->copied(task, field);
    }
    if (field->parts && !field->copies)
        group_settle(field->device);
}

static void copy_ended(struct slab *slab, bool ok)
{
    struct field *field = slab->field, *part = slab->part;
    slab->field = slab->part = NULL;
    list_remove(&slab->link);
    field->copies--;
    if (field->device->devices->trace)
        field->copied.end_ns = uv_hrtime();
    if (slab->goes_up)
        device_release_slab(&field->device->devices->arena, slab);
    else
        slab->copied(slab, slab->context, ok);
    device_settle_copies(field);
    field_release(part);
    field_release(field);
}

void orders_forget(struct device *device)
{
    memset(device->running, 0, sizeof device->running);
    LIST_EACH (struct user, user, &device->devices->users->list, link)
        if (user->part[device->number])
            send_window_clear(window_of(device, user));
}

void orders_lose(struct device *device)
{
    LIST_DRAIN (struct slab, slab, &device->copies, link)
        copy_ended(slab, false);
    operands_lose(device);
}

static void take_ready(struct device *device, const struct channel_message *message)
{
    const struct config *config = device->devices->config;
    const bool is_same =
        device->once_ready && !device->bridged &&
        memcmp(device->info.uuid, message->u.ready.info.uuid, sizeof device->info.uuid) == 0;
    device->info = message->u.ready.info;
    device->info.kind[sizeof device->info.kind - 1] = 0;
    device->info.name[sizeof device->info.name - 1] = 0;
    /* On the host the page cache and everybody else live in the same memory. */
    const uint64_t free_bytes = device->info.free_bytes;
    const uint64_t hosts = device->bridged ? 1 : device->devices->hosts;
    const uint64_t own = device_is_host(device) ? free_bytes / 2 / hosts : free_bytes / 10 * 9;
    /* What others hold at this moment is no reason for less than the worker before had: it may
     * have ended for want of it, and clients map a GPU's memory for longer than it lives. */
    const uint64_t least = is_same ? device->memory_bytes : 0;
    device->memory_bytes = config->device_memory ? config->device_memory
                           : own > least         ? own
                                                 : least;
    device->devices->has_gpu |= !device_is_host(device);
    device->state = DEVICE_READY;
    device->ready_ns = uv_hrtime();
    log_info("%s: %s, %llu bytes for arrays (worker %d, generation %llu)", device->name,
             device->info.name, (unsigned long long)device->memory_bytes, (int)device->pid,
             (unsigned long long)device->generation);
    region_worker_ready(device);
    group_member_ready(device);
    mailbox_worker_ready(device);
    if (!device->once_ready) {
        device->once_ready = true;
        device->devices->events->settled(device, true);
    }
}

static void finished(const struct device *device, struct order *order, enum status status,
                     const struct channel_message *said)
{
    if (order->run)
        group_part_finished(order, status, said);
    else
        device->devices->events->finished(order, status, said);
}

/* False, as of orders_take(): it is no copy that is under way. */
static bool take_copied(struct device *device, uint64_t tag, enum status status)
{
    const struct arena *arena = &device->devices->arena;
    if (tag & TAG_ORDER) {
        struct order *order = take_back(device, tag & ~TAG_ORDER, ORDER_READ, ORDER_WRITE);
        if (order)
            finished(device, order, status, NULL);
        return order != NULL;
    }
    if (tag & DEVICE_OPERAND_TAG)
        return operands_take(device, tag & ~DEVICE_OPERAND_TAG);
    struct slab *slab = tag & TAG_SLOT            ? mailbox_slot(device, tag & ~TAG_SLOT)
                        : tag < arena->slab_count ? &arena->slabs[tag]
                                                  : NULL;
    if (!slab || !slab->field || slab->part->device != device || !was_sent(device, &slab->record))
        return false;
    link_rate_end(&device->rate, slab->bytes, uv_hrtime());
    answered(device, slab->field->user, &slab->record);
    if (slab->mailbox)
        mailbox_copied(device, slab, status == STATUS_OK);
    copy_ended(slab, status == STATUS_OK);
    return true;
}

/* False, as of orders_take(). */
static bool take_exported(struct device *device, const struct channel_message *message,
                          int *descriptor)
{
    const bool ok = message->status == STATUS_OK;
    if (message->status >= STATUS_COUNT || ok != (*descriptor >= 0))
        return false;
    struct order *order = take_back(device, message->u.exported.id, ORDER_EXPORT, ORDER_EXPORT);
    if (!order)
        return false;
    if (ok)
        field_take_exported(order->in[0], order->scratch[0], *descriptor);
    *descriptor = -1;
    finished(device, order, (enum status)message->status, NULL);
    return true;
}

/* False, as of orders_take(). */
static bool take_progress(struct device *device, uint64_t id, uint64_t passes)
{
    struct order *order = find_order(device, id, ORDER_RUN, ORDER_RUN);
    if (!order || !order->progress || passes > job_passes(order->job))
        return false;
    device->devices->events->progress(order, passes);
    return true;
}

bool orders_take(struct device *device, const struct channel_message *message, int *descriptor)
{
    struct order *order;
    switch (message->type) {
    case CHANNEL_READY:
        if (device->state != DEVICE_STARTING ||
            (device->bridged && strncmp(device->info.kind, message->u.ready.info.kind, 5) != 0))
            return false;
        take_ready(device, message);
        return true;
    case CHANNEL_REFUSED:
        snprintf(device->refusal, sizeof device->refusal, "%.199s", message->u.refused.text);
        device->is_absent = message->status == STATUS_NOT_FOUND;
        return true;
    case CHANNEL_COPIED:
        return message->status < STATUS_COUNT &&
               take_copied(device, message->u.copy.tag, (enum status)message->status);
    case CHANNEL_FAILED:
        LIST_EACH (struct field, field, &device->arrays, device_link)
            field->refused |= field->array == message->u.allocate.array;
        return true;
    case CHANNEL_MAPPED:
        return message->status < STATUS_COUNT &&
               (mailbox_mapped(device, message->u.region.region, (enum status)message->status) ||
                region_mapped(device, message->u.region.region, (enum status)message->status));
    case CHANNEL_MAILBOX:
        mailbox_opened(device, message, descriptor);
        return true;
    case CHANNEL_EXPORTED:
        return take_exported(device, message, descriptor);
    case CHANNEL_PROGRESS:
        return take_progress(device, message->u.job.id, message->u.job.done);
    case CHANNEL_EDGES:
        order = find_order(device, message->u.job.id, ORDER_RUN, ORDER_RUN);
        return order && order->run && group_part_edges(order);
    case CHANNEL_FINISHED:
        if (message->status >= STATUS_COUNT)
            return false;
        order = take_back(device, message->u.job.id, ORDER_RUN, ORDER_MEASURE);
        if (!order)
            return false;
        order->measured = message->u.job.measured;
        finished(device, order, (enum status)message->status, message);
        return true;
    case CHANNEL_ALIVE: /* as any message tells */
        return true;
    case CHANNEL_LEAVING:
        return nodes_leave(device);
    case CHANNEL_PONG:
        /* Judged at once: what it tells of may end, and leave the device, before the next beat. */
        heartbeat_pong(&device->heartbeat, &message->u.pong);
        if (heartbeat_is_stuck(&device->heartbeat, device_longest_piece_ns(device)))
            device_give_up(device, "its device ends nothing of what it was given");
        return true;
    default:
        return communicators_take(device, message);
    }
}
