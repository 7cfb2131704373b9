/* Happy path: spawn → ARENA → READY → orders … → front leaves, the channel closes, the worker
 * exits. What can go wrong: the spawn fails; the worker refuses (REFUSED, exit); it dies or is
 * killed (exit callback); it breaks the channel's rules or stops answering pings (we kill it, exit
 * callback). All of them end in worker_gone(), once the process has been reaped. */
#include "server/devices/device.h"

#include "base/log.h"
#include "server/users/descriptors.h"
#include "server/devices/region.h"
#include "server/devices/starter.h"
#include "server/devices/field.h"
#include "server/devices/order.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKOFF_FIRST_MS = 5, BACKOFF_MOST_MS = 100, ANSWERS_AT_ONCE = 64 };

/* A worker that has served for so long was no failure. */
#define LIFE_NS UINT64_C(10000000000)
/* What a point of a pass may take one of the host's cores. */
#define HOST_POINT_NS 10.0

/* A copy's tag is its slab's number or, with this, its order's. */
#define TAG_ORDER (UINT64_C(1) << 63)
#define TAG_FIELD (UINT64_C(1) << 62) /* its array's number: an operand from a region */

static void worker_start(struct device *device);
static void worker_gone(struct device *device);
static void poll_update(struct device *device);

/* Not one that was reaped, or was never there: to kill 0 would be to kill our own process group. */
static void end_process(const struct device *device)
{
    if (device->pid > 0)
        kill(device->pid, SIGKILL);
}

static void worker_kill(struct device *device, const char *why)
{
    log_error("%s: %s; ending its worker", device->name, why);
    end_process(device);
}

/* It goes out with what else this turn of the loop has to say. Without a socket it waits for the
 * next worker. */
static void tell_with(struct device *device, const struct channel_message *message,
                      const uint8_t *block)
{
    if (device->state == DEVICE_CLOSED || channel_queue_push(&device->queue, message, block, -1))
        return;
    /* No memory for a longer queue: there is room in this one when some of it is sent. */
    device_flush(device);
    if (!channel_queue_push(&device->queue, message, block, -1))
        worker_kill(device, "no memory for its orders");
}

static void tell_worker(struct device *device, const struct channel_message *message)
{
    tell_with(device, message, NULL);
}

void device_flush(struct device *device)
{
    if (device->socket < 0 || device->state == DEVICE_CLOSED)
        return;
    if (device->queue.count) /* a channel that is closed shows in its poll */
        channel_queue_flush(&device->queue, device->socket);
    poll_update(device);
}

void device_allocate(struct device *device, const struct field *field)
{
    struct channel_message message = {.type = CHANNEL_ALLOCATE};
    message.u.allocate.array = field->array;
    message.u.allocate.bytes = field->type.bytes;
    message.u.allocate.owner = field->user->uid;
    tell_worker(device, &message);
}

void device_release(struct device *device, const struct field *field)
{
    struct channel_message message = {.type = CHANNEL_RELEASE};
    message.u.job.id = field->array;
    tell_worker(device, &message);
}

static void send_copy(struct device *device, const struct slab *slab)
{
    const struct field *field = slab->field;
    struct channel_message message = {.type = slab->goes_up ? CHANNEL_UPLOAD : CHANNEL_DOWNLOAD};
    message.u.copy.array = field->array;
    message.u.copy.offset = slab->offset;
    message.u.copy.arena_offset = arena_offset(&field->device->devices->arena, slab);
    message.u.copy.bytes = slab->bytes;
    message.u.copy.tag = slab->number;
    tell_worker(device, &message);
    if (slab->bytes == field->device->devices->arena.slab_bytes)
        device_flush(device); /* much is under way: it need not wait for what else there is */
}

static void send_order(struct device *device, const struct order *order);

/* Send what the user's window lets go. */
static void send_some(struct device *device, struct user *user)
{
    const uint64_t now_ns = uv_hrtime();
    for (struct record *record;
         (record = send_window_next(&user->window, &device->contention, now_ns));)
        if (record->is_order)
            send_order(device, LIST_ENTRY(record, struct order, record));
        else
            send_copy(device, LIST_ENTRY(record, struct slab, record));
}

/* The worker has answered it. */
static void answered(struct device *device, struct user *user, const struct record *record)
{
    send_window_answered(&user->window, record);
    send_some(device, user);
}

static void copy(bool goes_up, struct field *field, uint64_t offset, struct slab *slab,
                 uint64_t bytes, void (*copied)(struct slab *, void *, bool), void *context)
{
    struct device *device = field->device;
    slab->field = field_reference(field);
    slab->copied = copied;
    slab->context = context;
    slab->copying = true;
    slab->goes_up = goes_up;
    slab->offset = offset;
    slab->bytes = bytes;
    const int64_t copy_ns = schedule_copy(bytes);
    slab->record = (struct record){
        .cost_ns = copy_ns > SEND_WINDOW_RECORD_NS ? copy_ns : SEND_WINDOW_RECORD_NS};
    list_push(&device->copies, &slab->link);
    field->copies++;
    send_window_add(&field->user->window, &device->contention, &slab->record, uv_hrtime());
    send_some(device, field->user);
}

void device_upload(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                   void (*copied)(struct slab *, void *, bool), void *context)
{
    if (field->device->devices->trace && !field->copied.begin_ns)
        field->copied.begin_ns = uv_hrtime();
    copy(true, field, offset, slab, bytes, copied, context);
}

void device_download(struct field *field, uint64_t offset, struct slab *slab, uint64_t bytes,
                     void (*copied)(struct slab *, void *, bool), void *context)
{
    arena_memory_to_write(&field->device->devices->arena, slab, bytes);
    copy(false, field, offset, slab, bytes, copied, context);
}

bool device_map(struct device *device, const struct region *region)
{
    struct channel_message message = {.type = CHANNEL_REGION};
    message.u.region.region = region->number;
    message.u.region.bytes = region->bytes;
    message.u.region.writable = region->writable;
    const int descriptor = fcntl(region->descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor >= 0 && !descriptors_are_few(device->devices->users, descriptor))
        return channel_queue_push(&device->queue, &message, NULL, descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return false;
}

void device_unmap(struct device *device, const struct region *region)
{
    struct channel_message message = {.type = CHANNEL_UNREGION};
    message.u.region.region = region->number;
    tell_worker(device, &message);
}

static uint64_t number(const struct field *field)
{
    return field ? field->array : 0;
}

/* Where the order with that id is in its bucket, or else the end of it. */
static struct order **bucket_place(struct device *device, uint64_t id)
{
    struct order **place = &device->running[id % DEVICE_BUCKETS];
    while (*place && (*place)->id != id)
        place = &(*place)->next_running;
    return place;
}

/* The order with that id, which is with the worker no longer; NULL: there is none. */
static struct order *take_back(struct device *device, uint64_t id)
{
    struct order **place = bucket_place(device, id);
    struct order *order = *place;
    if (!order || !list_empty(&order->record.link))
        return NULL;
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
    run->chain = order->chain;
    run->progress = order->progress;
    run->ends_round = order->ends_round;
    run->job = *order->job;
    for (int i = 0; i < AXIS_COUNT; i++) {
        run->in[i] = number(order->in[i]);
        run->out[i] = number(order->out[i]);
        run->scratch[i] = number(order->scratch[i]);
        run->from[i] = place_of(order->in_place, i);
        run->to[i] = place_of(order->out_place, i);
    }
    for (int i = 0; i < OPERANDS; i++)
        run->operand[i] = number(order->operand[i]);
    tell_with(device, &message, order->block);
}

static void measure(struct device *device, const struct order *order)
{
    const struct array_type *type = &order->in[0]->type;
    struct channel_message message = {.type = CHANNEL_MEASURE};
    message.u.measure.id = order->id;
    message.u.measure.array = number(order->in[0]);
    message.u.measure.other = number(order->in[1]);
    message.u.measure.result = number(order->out[0]);
    message.u.measure.points = type->bytes / (type->dtype == DTYPE_F64 ? 8 : 4);
    message.u.measure.dtype = type->dtype;
    tell_worker(device, &message);
}

static void copy_region(struct device *device, const struct order *order)
{
    const bool reads = order->kind == ORDER_READ;
    const struct region_use *use = reads ? order->in_place : order->out_place;
    struct channel_message message = {.type = reads ? CHANNEL_UPLOAD : CHANNEL_DOWNLOAD};
    message.u.copy.array = order->in[0]->array;
    message.u.copy.region = use->region->number;
    message.u.copy.arena_offset = use->offset;
    message.u.copy.bytes = order->in[0]->type.bytes;
    message.u.copy.tag = TAG_ORDER | order->id;
    tell_worker(device, &message);
}

void device_copy_operand(struct device *device, struct field *field, const struct region_use *use)
{
    region_use_share(&field->source, use);
    field_reference(field);
    struct channel_message message = {.type = CHANNEL_UPLOAD};
    message.u.copy.array = field->array;
    message.u.copy.region = use->region->number;
    message.u.copy.arena_offset = use->offset;
    message.u.copy.bytes = field->type.bytes;
    message.u.copy.tag = TAG_FIELD | field->array;
    tell_worker(device, &message);
}

/* The copy to an operand is over. */
static void operand_copied(struct field *field)
{
    region_use_end(&field->source);
    field_release(field);
}

/* A field that is being copied to from a region: with that number, 0 any. NULL: none is. */
static struct field *find_copied(struct device *device, uint64_t array)
{
    for (struct list *link = device->arrays.next; link != &device->arrays; link = link->next) {
        struct field *field = LIST_ENTRY(link, struct field, device_link);
        if (field->source.region && (!array || field->array == array))
            return field;
    }
    return NULL;
}

/* A copy takes its course. */
static void send_cancel(struct device *device, const struct order *order)
{
    struct channel_message message = {.type = CHANNEL_CANCEL};
    message.u.job.id = order->id;
    tell_worker(device, &message);
}

static void send_order(struct device *device, const struct order *order)
{
    if (order->kind == ORDER_RUN)
        send_run(device, order);
    else if (order->kind == ORDER_MEASURE)
        measure(device, order);
    else
        copy_region(device, order);
    if (order->stopped)
        send_cancel(device, order);
}

void device_order(struct device *device, struct order *order)
{
    struct user *user = order->user;
    order->next_running = NULL;
    order->stopped = false;
    *bucket_place(device, order->id) = order;
    order->record =
        (struct record){.is_order = true, .cost_ns = order->is_short ? SEND_WINDOW_RECORD_NS : 0};
    send_window_add(&user->window, &device->contention, &order->record, uv_hrtime());
    send_some(device, user);
}

void device_cancel(struct device *device, struct order *order)
{
    order->stopped = true;
    if (list_empty(&order->record.link))
        send_cancel(device, order);
}

static void copy_ended(struct slab *slab, bool ok)
{
    struct field *field = slab->field;
    slab->field = NULL;
    slab->copying = false;
    list_remove(&slab->link);
    field->copies--;
    if (field->device->devices->trace)
        field->copied.end_ns = uv_hrtime();
    slab->copied(slab, slab->context, ok);
    if (ok && field->put && !field->copies)
        field->device->devices->events->put_arrived(field->put);
    field_release(field);
}

static bool is_host(const struct device *device)
{
    return strcmp(device->info.kind, "host") == 0;
}

static void take_ready(struct device *device, const struct channel_message *message)
{
    const struct config *config = device->devices->config;
    device->info = message->u.ready.info;
    device->info.kind[sizeof device->info.kind - 1] = 0;
    device->info.name[sizeof device->info.name - 1] = 0;
    /* On the host the page cache and everybody else live in the same memory. */
    const uint64_t free_bytes = device->info.free_bytes;
    const uint64_t own =
        is_host(device) ? free_bytes / 2 / device->devices->hosts : free_bytes / 10 * 9;
    device->memory_bytes = config->device_memory ? config->device_memory : own;
    if (!is_host(device))
        device->devices->has_gpu = true;
    device->state = DEVICE_READY;
    device->ready_ns = uv_hrtime();
    log_info("%s: %s, %llu bytes for arrays (worker %d, generation %llu)", device->name,
             device->info.name, (unsigned long long)device->memory_bytes, (int)device->pid,
             (unsigned long long)device->generation);
    region_worker_ready(device);
    if (!device->once_ready) {
        device->once_ready = true;
        device->devices->events->settled(device, true);
    }
}

/* False, as of take_message(): it is no copy that is under way. */
static bool take_copied(struct device *device, uint64_t tag, enum status status)
{
    const struct arena *arena = &device->devices->arena;
    if (tag & TAG_ORDER) {
        struct order *order = take_back(device, tag & ~TAG_ORDER);
        if (order)
            device->devices->events->finished(order, status, NULL);
        return order != NULL;
    }
    if (tag & TAG_FIELD) {
        struct field *field = find_copied(device, tag & ~TAG_FIELD);
        if (field)
            operand_copied(field);
        return field != NULL;
    }
    struct slab *slab = tag < arena->slab_count ? &arena->slabs[tag] : NULL;
    if (!slab || !slab->copying || slab->field->device != device || !list_empty(&slab->record.link))
        return false;
    answered(device, slab->field->user, &slab->record);
    copy_ended(slab, true);
    return true;
}

/* There was no memory for the array. */
static void take_failed(struct device *device, uint64_t array)
{
    for (struct list *link = device->arrays.next; link != &device->arrays; link = link->next) {
        struct field *field = LIST_ENTRY(link, struct field, device_link);
        if (field->array == array)
            field->refused = true;
    }
}

/* The longest that the device should be at one thing of the order's. On a GPU a pass: those of many
 * points are cut into less, and of few points into more, of some milliseconds. On the host, where
 * several threads are at a pass, what one of them does alone: a row along x at least, and as much
 * as all of it where each line is solved from end to end (gpu/host/share.c). */
static double piece_ns(const struct device *device, const struct order *order)
{
    const struct job *job = order->job;
    if (!is_host(device))
        return (double)schedule_estimate(&order->user->flow, job) / (double)job_passes(job);
    const bool solves = job->operator_id == OPERATOR_DIFFUSION && job->more.scheme == SCHEME_ADI;
    return HOST_POINT_NS * job_point_work(job) *
           (double)(solves ? job_points(job) : job->n[AXIS_X]);
}

static double longest_piece_ns(const struct device *device)
{
    double longest_ns = 0;
    for (size_t i = 0; i < DEVICE_BUCKETS; i++)
        for (const struct order *order = device->running[i]; order; order = order->next_running) {
            const double ns = order->kind == ORDER_RUN ? piece_ns(device, order) : 0;
            longest_ns = ns > longest_ns ? ns : longest_ns;
        }
    return longest_ns;
}

/* It hangs: its exit starts it again. */
static void give_up(struct device *device, const char *why)
{
    worker_kill(device, why);
    uv_timer_stop(&device->timer);
}

/* Judged at once: what PONG tells of may end, and leave the device, before the next beat. */
static void take_pong(struct device *device, const struct channel_pong *pong)
{
    heartbeat_pong(&device->heartbeat, pong);
    if (heartbeat_is_stuck(&device->heartbeat, longest_piece_ns(device)))
        give_up(device, "its device ends nothing of what it was given");
}

/* False: the worker does not keep to the channel's rules. */
static bool take_message(struct device *device, const struct channel_message *message)
{
    struct order *order;
    switch (message->type) {
    case CHANNEL_READY:
        if (device->state != DEVICE_STARTING)
            return false;
        take_ready(device, message);
        return true;
    case CHANNEL_REFUSED:
        memcpy(device->refusal, message->u.refused.text, sizeof device->refusal);
        device->refusal[sizeof device->refusal - 1] = 0;
        return true;
    case CHANNEL_COPIED:
        return message->status < STATUS_COUNT &&
               take_copied(device, message->u.copy.tag, (enum status)message->status);
    case CHANNEL_FAILED:
        take_failed(device, message->u.allocate.array);
        return true;
    case CHANNEL_MAPPED:
        return message->status < STATUS_COUNT &&
               region_mapped(device, message->u.region.region, (enum status)message->status);
    case CHANNEL_PROGRESS:
        order = *bucket_place(device, message->u.job.id);
        if (order)
            device->devices->events->progress(order, message->u.job.done);
        return order != NULL;
    case CHANNEL_FINISHED:
        order = take_back(device, message->u.job.id);
        if (!order || message->status >= STATUS_COUNT)
            return false;
        order->measured = message->u.job.measured;
        device->devices->events->finished(order, (enum status)message->status, message);
        return true;
    case CHANNEL_PONG:
        take_pong(device, &message->u.pong);
        return true;
    default:
        return false;
    }
}

/* A worker that is leaving on purpose needs no push. */
static bool leaves(const struct device *device)
{
    return device->state == DEVICE_CLOSED || device->refusal[0];
}

static void channel_closed(struct device *device)
{
    if (!leaves(device))
        worker_kill(device, "its channel closed");
}

static void on_channel_poll(uv_poll_t *poll, int status, int events)
{
    struct device *device = poll->data;
    device->devices->heard_ns = uv_hrtime();
    if (device->state == DEVICE_CLOSED) { /* whatever it still says */
        uv_poll_stop(poll);
        return;
    }
    if (status < 0) { /* the other end is gone */
        uv_poll_stop(poll);
        channel_closed(device);
        return;
    }
    if (events & UV_WRITABLE &&
        channel_queue_flush(&device->queue, device->socket) == CHANNEL_CLOSED) {
        uv_poll_stop(poll); /* its exit is on its way */
        return;
    }
    for (int i = 0; i < ANSWERS_AT_ONCE || channel_inbox_holds(&device->inbox); i++) {
        struct channel_message message;
        int descriptor;
        const enum channel_result result =
            channel_receive(device->socket, &device->inbox, &message, &descriptor);
        if (descriptor >= 0)
            close(descriptor);
        if (result == CHANNEL_AGAIN)
            break;
        if (result == CHANNEL_CLOSED) {
            uv_poll_stop(poll);
            channel_closed(device);
            return;
        }
        heartbeat_heard(&device->heartbeat);
        if (result == CHANNEL_BROKEN || !take_message(device, &message)) {
            uv_poll_stop(poll);
            worker_kill(device, "its worker broke the channel's rules");
            return;
        }
        if (device->state == DEVICE_CLOSED)
            return;
    }
}

/* Watch for room in the channel only while something waits for it: asked once a turn, after what
 * the turn had to say, so that the watch is not changed to and fro. */
static void poll_update(struct device *device)
{
    if (device->socket < 0 || !device->poll_open || device->state == DEVICE_CLOSED)
        return;
    const bool writes = device->queue.count > 0;
    if (writes == device->poll_writes)
        return;
    device->poll_writes = writes;
    uv_poll_start(&device->poll, UV_READABLE | (writes ? UV_WRITABLE : 0), on_channel_poll);
}

static void on_timer(uv_timer_t *timer)
{
    struct device *device = timer->data;
    if (device->state == DEVICE_DOWN) {
        worker_start(device);
        return;
    }
    if (device->socket < 0)
        return;
    poll_update(device);
    region_worker_ready(device); /* those that there was no descriptor for */
    static const struct channel_message ping = {.type = CHANNEL_PING};
    if (heartbeat_beat(&device->heartbeat))
        tell_worker(device, &ping);
    if (heartbeat_is_lost(&device->heartbeat, device->state == DEVICE_STARTING))
        give_up(device, "its worker does not answer");
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct device *device = handle->data;
    struct devices *devices = device->devices;
    list_remove(&device->link);
    channel_queue_free(&device->queue);
    free(device);
    if (list_empty(&devices->list))
        uv_unref((uv_handle_t *)&devices->ended);
}

static void restart_or_end(struct device *device)
{
    if (device->pid > 0 || device->poll_open)
        return;
    if (device->state == DEVICE_CLOSED) {
        if (!uv_is_closing((uv_handle_t *)&device->timer))
            uv_close((uv_handle_t *)&device->timer, on_timer_closed);
        return;
    }
    uint64_t delay_ms = 0;
    if (device->short_lives) {
        delay_ms = BACKOFF_FIRST_MS;
        for (uint64_t i = 1; i < device->short_lives && delay_ms < BACKOFF_MOST_MS; i++)
            delay_ms *= 2;
        if (delay_ms > BACKOFF_MOST_MS)
            delay_ms = BACKOFF_MOST_MS;
        log_info("%s: the next worker in %llu ms", device->name, (unsigned long long)delay_ms);
    }
    uv_timer_start(&device->timer, on_timer, delay_ms, 0);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct device *device = handle->data;
    device->poll_open = false;
    restart_or_end(device);
}

/* The worker has been reaped: nothing touches its slabs and arrays any more. */
static void worker_gone(struct device *device)
{
    const bool closing = device->state == DEVICE_CLOSED;
    const bool refused = device->state == DEVICE_STARTING;
    const bool served = !refused && uv_hrtime() - device->ready_ns >= LIFE_NS;
    device->pid = 0;
    if (!closing)
        device->state = DEVICE_DOWN;
    device->short_lives = served ? 0 : device->short_lives + 1;
    device->generation++; /* what is made from here on is the next worker's */
    uv_timer_stop(&device->timer);
    if (device->poll_open) {
        uv_poll_stop(&device->poll);
        uv_close((uv_handle_t *)&device->poll, on_poll_closed);
    }
    if (device->socket >= 0)
        close(device->socket);
    device->socket = -1;
    channel_queue_free(&device->queue);
    memset(&device->inbox, 0, sizeof device->inbox);
    memset(device->running, 0, sizeof device->running);
    struct list *const users = &device->devices->users->list;
    for (struct list *one = users->next; one != users; one = one->next)
        if (LIST_ENTRY(one, struct user, link)->device == device)
            send_window_clear(&LIST_ENTRY(one, struct user, link)->window);

    /* A task that fails makes room for the next, whose arrays are lost too. */
    device->losing = true;
    struct list *link;
    for (link = device->arrays.next; link != &device->arrays; link = link->next)
        field_lose(LIST_ENTRY(link, struct field, device_link));
    region_worker_gone(device);
    while ((link = list_first(&device->copies)))
        copy_ended(LIST_ENTRY(link, struct slab, link), false);
    for (struct field *field; (field = find_copied(device, 0));)
        operand_copied(field);
    device->devices->events->worker_lost(device);
    device->losing = false;
    device->devices->events->dispatch(device);
    if (!closing && refused && !device->once_ready)
        device->devices->events->settled(device, false);
}

/* Some of our children have ended. */
static void on_ended(uv_signal_t *handle, int signal)
{
    struct devices *devices = handle->data;
    (void)signal;
    for (struct list *link = devices->list.next, *next; link != &devices->list; link = next) {
        struct device *device = LIST_ENTRY(link, struct device, link);
        int status;
        next = link->next;
        if (device->pid <= 0 || waitpid(device->pid, &status, WNOHANG) != device->pid)
            continue;
        if (!leaves(device))
            log_warning("%s: worker %d ended (status %d, signal %d)", device->name,
                        (int)device->pid, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                        WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        worker_gone(device);
        restart_or_end(device);
    }
}

/* A process, and the channel to it. Returns 0 or an errno. */
static int make_worker(struct device *device)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return errno;
    device->socket = ends[0];
    const int error =
        starter_start(device->devices->worker_path, device->name, ends[1], &device->pid);
    close(ends[1]);
    return error;
}

static void worker_start(struct device *device)
{
    struct devices *devices = device->devices;
    device->state = DEVICE_STARTING;
    device->heartbeat = (struct heartbeat){0};
    device->refusal[0] = 0;
    const int error = make_worker(device);
    if (error) {
        log_error("%s: %s: %s", device->name, devices->worker_path, strerror(error));
        snprintf(device->refusal, sizeof device->refusal, "cannot start %.150s", strerror(error));
        worker_gone(device);
        restart_or_end(device);
        return;
    }
    /* ARENA goes first, past what waits for this worker. */
    struct channel_message message = {.type = CHANNEL_ARENA};
    message.u.arena.bytes = devices->arena.bytes;
    message.u.arena.threads = (uint32_t)devices->config->threads;
    const int unwatched = uv_poll_init(devices->loop, &device->poll, device->socket);
    if (unwatched) {
        worker_kill(device, uv_strerror(unwatched));
        return;
    }
    device->poll.data = device;
    device->poll_open = true;
    device->poll_writes = device->queue.count > 0;
    uv_poll_start(&device->poll, UV_READABLE | (device->poll_writes ? UV_WRITABLE : 0),
                  on_channel_poll);
    uv_timer_start(&device->timer, on_timer, HEARTBEAT_MS, HEARTBEAT_MS);
    if (channel_send(device->socket, &message, devices->arena.descriptor) != CHANNEL_OK)
        worker_kill(device, "its channel broke");
}

bool devices_open(struct devices *devices)
{
    const int error = uv_signal_init(devices->loop, &devices->ended);
    devices->ended.data = devices;
    if (error || uv_signal_start(&devices->ended, on_ended, SIGCHLD) != 0) {
        log_error("the end of a worker could not be heard");
        return false;
    }
    uv_unref((uv_handle_t *)&devices->ended); /* it is waited for while there is a device */
    return starter_open();
}

bool device_open(struct devices *devices, const char *name)
{
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return false;
    device->devices = devices;
    device->socket = -1;
    device->generation = 1;
    snprintf(device->name, sizeof device->name, "%s", name);
    devices->hosts += *name == 'h';
    list_init(&device->arrays);
    list_init(&device->regions);
    list_init(&device->copies);
    list_init(&device->tasks);
    schedule_init(&device->schedule, uv_hrtime);
    list_push(&devices->list, &device->link);
    uv_ref((uv_handle_t *)&devices->ended);
    uv_timer_init(devices->loop, &device->timer);
    device->timer.data = device;
    worker_start(device);
    return true;
}

void device_forget(struct device *device)
{
    device->state = DEVICE_CLOSED;
    list_remove(&device->link);
}

void device_close_all(struct devices *devices)
{
    for (struct list *link = devices->list.next; link != &devices->list; link = link->next) {
        struct device *device = LIST_ENTRY(link, struct device, link);
        if (device->state == DEVICE_CLOSED)
            continue;
        device->state = DEVICE_CLOSED;
        uv_timer_stop(&device->timer);
        end_process(
            device); /* it would exit when its channel closes; a hung one must not keep us */
        restart_or_end(device);
    }
}

const char *device_state_name(const struct device *device)
{
    static const char *const names[] = {"starting", "ready", "down", "closed"};
    if (device->state == DEVICE_READY && heartbeat_is_stalled(&device->heartbeat))
        return "stalled";
    return names[device->state];
}
