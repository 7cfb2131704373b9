/* Happy path: spawn → ARENA → READY → orders … → front leaves, the channel closes, the worker
 * exits. What can go wrong: the spawn fails; the worker refuses (REFUSED, exit); it dies or is
 * killed; it breaks the channel's rules or stops answering pings (we kill it). All of them end in
 * worker_gone(), once the process has been reaped. */
#include "server/devices/device.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/signals.h"
#include "server/devices/communicator.h"
#include "server/devices/group.h"
#include "server/devices/mailbox.h"
#include "server/devices/region.h"
#include "server/devices/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKOFF_FIRST_MS = 5, BACKOFF_MOST_MS = 100, ANSWERS_AT_ONCE = 64 };
enum {
    BACKOFF_REFUSED_MS = 10000, /* of a device that cannot be used, as after a fault of its own */
    HELD_MS = 10000 /* a worker that was killed ends in far less, unless the kernel holds it */
};

/* A worker that has served for so long was no failure. */
#define LIFE_NS UINT64_C(10000000000)

static void worker_start(struct device *device);
static void poll_update(struct device *device);
static void on_timer(uv_timer_t *timer);

/* Not one that was reaped, or was never there: to kill 0 would be to kill our own process group. */
static void end_process(const struct device *device)
{
    if (device->pid > 0)
        kill(device->pid, SIGKILL);
}

void device_give_up(struct device *device, const char *why)
{
    if (device->is_given_up)
        return;
    log_error("%s: %s; ending its worker", device->name, why);
    end_process(device);
    device->is_given_up = device->pid > 0;
    if (device->is_given_up)
        uv_timer_start(&device->timer, on_timer, HELD_MS, 0);
}

void device_tell(struct device *device, const struct channel_message *message, const uint8_t *block)
{
    if (device->state == DEVICE_CLOSED || channel_queue_push(&device->queue, message, block, -1))
        return;
    /* No memory for a longer queue: there is room in this one when some of it is sent. */
    device_flush(device);
    if (!channel_queue_push(&device->queue, message, block, -1))
        device_give_up(device, "no memory for its orders");
}

bool device_pass(struct device *device, const struct channel_message *message, int descriptor)
{
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0 && !descriptors_are_few(device->devices->users, copy))
        return channel_queue_push(&device->queue, message, NULL, copy);
    rights_close(copy);
    return false;
}

bool device_map(struct device *device, const struct region *region)
{
    const struct channel_message message = {.type = CHANNEL_REGION,
                                            .u.region = {.region = region->number,
                                                         .bytes = region->bytes,
                                                         .writable = region->writable}};
    return device_pass(device, &message, region->descriptor);
}

void device_unmap(struct device *device, const struct region *region)
{
    const struct channel_message message = {.type = CHANNEL_UNREGION,
                                            .u.region.region = region->number};
    device_tell(device, &message, NULL);
}

/* False: the channel is closed. */
static bool flush(struct device *device)
{
    const uint32_t waiting = device->queue.count;
    const bool open = channel_queue_flush(&device->queue, device->socket) != CHANNEL_CLOSED;
    device->rests &= device->queue.count == waiting;
    return open;
}

void device_flush(struct device *device)
{
    if (device->socket < 0 || device->state == DEVICE_CLOSED)
        return;
    if (device->queue.count)
        flush(device); /* a channel that is closed shows in its poll */
    poll_update(device);
}

/* A worker that is leaving on purpose needs no push. */
static bool leaves(const struct device *device)
{
    return device->state == DEVICE_CLOSED || device->refusal[0] || device->leaving;
}

/* Whatever it still says. */
static void channel_closed(struct device *device)
{
    uv_poll_stop(&device->poll);
    if (!leaves(device))
        device_give_up(device, "its channel closed");
}

static void on_channel_poll(uv_poll_t *poll, int status, int events)
{
    struct device *device = poll->data;
    device->devices->heard_ns = uv_hrtime();
    if (status < 0 || device->state == DEVICE_CLOSED) { /* one end is gone, or goes */
        channel_closed(device);
        return;
    }
    if (events & UV_WRITABLE) {
        device->rests = device->queue.count > 0;
        if (!flush(device)) {
            uv_poll_stop(poll); /* its exit is on its way */
            return;
        }
    }
    for (int i = 0; i < ANSWERS_AT_ONCE || channel_inbox_holds(&device->inbox); i++) {
        struct channel_message message;
        int descriptor;
        const enum channel_result result =
            channel_receive(device->socket, &device->inbox, &message, &descriptor);
        if (result == CHANNEL_AGAIN)
            break;
        if (result == CHANNEL_CLOSED) {
            channel_closed(device);
            return;
        }
        heartbeat_heard(&device->heartbeat);
        const bool keeps = result != CHANNEL_BROKEN && orders_take(device, &message, &descriptor);
        rights_close(descriptor);
        if (!keeps) {
            uv_poll_stop(poll);
            device_give_up(device, "its worker broke the channel's rules");
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
    const bool writes = device->queue.count > 0 && !device->rests;
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
    if (device->is_given_up) {
        log_error("%s: worker %d has been killed and does not end: the kernel or a driver holds it",
                  device->name, (int)device->pid);
        return;
    }
    const bool unsent = device->rests; /* its silence is our own fault */
    device->rests = false;
    poll_update(device);
    region_worker_ready(device); /* those that there was no descriptor for */
    mailbox_worker_ready(device);
    communicators_beat(device);
    if (device->leaving)
        nodes_end_if_idle(device);
    static const struct channel_message ping = {.type = CHANNEL_PING};
    if (unsent)
        return;
    if (heartbeat_beat(&device->heartbeat))
        device_tell(device, &ping, NULL);
    /* To be held in the kernel need not be its fault: a client may work on its own memory so slowly
     * that a worker which touches it waits. */
    if (heartbeat_is_stalled(&device->heartbeat) && start_is_held(device->pid))
        heartbeat_is_held(&device->heartbeat);
    if (heartbeat_is_lost(&device->heartbeat, device->state == DEVICE_STARTING))
        device_give_up(device, "its worker does not answer");
}

static void leave(struct device *device)
{
    struct devices *devices = device->devices;
    list_remove(&device->link);
    list_push(&devices->gone, &device->link);
    if (list_empty(&devices->list))
        uv_unref((uv_handle_t *)&devices->ended);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct device *device = handle->data;
    channel_queue_free(&device->queue);
    leave(device);
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
    if (device->bridged)
        return; /* until its node joins */
    uint64_t delay_ms = 0;
    if (device->short_lives) {
        const uint64_t most_ms = device->refusal[0] ? BACKOFF_REFUSED_MS : BACKOFF_MOST_MS;
        const uint64_t doublings = device->short_lives <= 16 ? device->short_lives - 1 : 15;
        delay_ms = (uint64_t)BACKOFF_FIRST_MS << doublings;
        delay_ms = delay_ms < most_ms ? delay_ms : most_ms;
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
    if (device->refusal[0] && (device->bridged || device->once_ready))
        log_warning("%s cannot be used: %s", device->name, device->refusal);
    if (!closing)
        device->state = DEVICE_DOWN;
    device->leaving = false;
    device->short_lives = served ? 0 : device->short_lives + 1;
    device->generation++; /* what is made from here on is the next worker's */
    users_forget_plans(device->devices->users, device->number);
    uv_timer_stop(&device->timer);
    if (device->poll_open)
        uv_close((uv_handle_t *)&device->poll, on_poll_closed);
    rights_close(device->socket);
    device->socket = -1;
    channel_queue_free(&device->queue);
    memset(&device->inbox, 0, sizeof device->inbox);
    kernels_worker_lost(device);
    orders_forget(device);

    /* A task that fails makes room for the next, whose arrays are lost too. */
    device->losing = true;
    LIST_EACH (struct field, field, &device->arrays, device_link)
        field_lose(field);
    region_worker_lost(device);
    group_lose(device);
    region_worker_gone(device);
    mailbox_worker_lost(device); /* before slots come back: its next worker knows of none */
    communicators_worker_lost(device);
    orders_lose(device);
    device->devices->events->worker_lost(device);
    group_lost(device);
    if (!closing && refused && !device->once_ready && !device->bridged)
        device->devices->events->settled(device, false);
    restart_or_end(device);
}

/* Why a worker does not start may still lie in the channel when it is reaped. */
static void hear_refusal(struct device *device)
{
    struct channel_message message;
    int descriptor;
    while (device->state == DEVICE_STARTING && device->socket >= 0 &&
           channel_receive(device->socket, &device->inbox, &message, &descriptor) == CHANNEL_OK)
        if (message.type != CHANNEL_REFUSED || orders_take(device, &message, &descriptor))
            rights_close(descriptor);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct devices *devices = poll->data;
    (void)status, (void)events;
    signals_take(devices->child_signal);
    compiler_reap(&devices->kernels.compiler);
    nodes_reap(devices);
    LIST_EACH (struct device, device, &devices->list, link) {
        int how;
        if (device->pid <= 0 || waitpid(device->pid, &how, WNOHANG) != device->pid)
            continue;
        hear_refusal(device);
        if (!leaves(device))
            log_warning("%s: worker %d ended (status %d, signal %d)", device->name,
                        (int)device->pid, WIFEXITED(how) ? WEXITSTATUS(how) : 0,
                        WIFSIGNALED(how) ? WTERMSIG(how) : 0);
        worker_gone(device);
    }
}

/* --- starting --- */

_Static_assert(START_DESCRIPTOR == CHANNEL_DESCRIPTOR, "where a worker has its channel");

/* A process has the other end of the channel: tell it of the arena. */
static void open_channel(struct device *device)
{
    struct devices *devices = device->devices;
    /* ARENA goes first, past what waits for this worker. */
    struct channel_message message = {.type = CHANNEL_ARENA};
    message.u.arena.bytes = devices->arena.bytes;
    message.u.arena.threads = (uint32_t)devices->config->threads;
    const int unwatched = uv_poll_init(devices->loop, &device->poll, device->socket);
    if (unwatched) {
        device_give_up(device, uv_strerror(unwatched));
        return;
    }
    device->poll.data = device;
    device->poll_open = true;
    device->rests = false;
    device->poll_writes = device->queue.count > 0;
    uv_poll_start(&device->poll, UV_READABLE | (device->poll_writes ? UV_WRITABLE : 0),
                  on_channel_poll);
    uv_timer_start(&device->timer, on_timer, HEARTBEAT_MS, HEARTBEAT_MS);
    if (channel_send(device->socket, &message, devices->arena.descriptor) != CHANNEL_OK)
        device_give_up(device, "its channel broke");
}

static void begin(struct device *device)
{
    device->state = DEVICE_STARTING;
    device->heartbeat = (struct heartbeat){0};
    device->is_given_up = false;
    device->refusal[0] = 0;
}

static void worker_start(struct device *device)
{
    struct devices *devices = device->devices;
    begin(device);
    const int error = start_program(devices->worker_path, device->name,
                                    SOCK_SEQPACKET | SOCK_NONBLOCK, &device->socket, &device->pid);
    if (error) {
        log_error("%s: %s: %s", device->name, devices->worker_path, strerror(error));
        snprintf(device->refusal, sizeof device->refusal, "cannot start %.150s", strerror(error));
        worker_gone(device);
        return;
    }
    open_channel(device);
}

bool device_joins(struct device *device, int channel, pid_t pid)
{
    if (device->state != DEVICE_DOWN || device->pid > 0 || device->poll_open)
        return false;
    begin(device);
    link_rate_lost(&device->rate);
    device->socket = channel;
    device->pid = pid;
    open_channel(device);
    return true;
}

bool device_is_away(const struct device *device)
{
    bool away = device->bridged && (device->state != DEVICE_READY || device->leaving);
    for (uint32_t i = 0; device->group && i < device->group->count; i++)
        away = away || device_is_away(device->group->member[i]);
    return away;
}

bool devices_open(struct devices *devices)
{
    devices->child_signal = signals_open(SIGCHLD);
    if (devices->child_signal < 0 ||
        uv_poll_init(devices->loop, &devices->ended, devices->child_signal) != 0) {
        log_error("the end of a worker cannot be watched for");
        return false;
    }
    devices->ended.data = devices;
    uv_poll_start(&devices->ended, UV_READABLE, on_ended);
    uv_unref((uv_handle_t *)&devices->ended); /* it is waited for while there is a device */
    kernels_open(&devices->kernels, devices);
    return start_open() && nodes_open(devices);
}

struct device *device_new(struct devices *devices, const char *name)
{
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->devices = devices;
    device->number = devices->count++;
    device->socket = -1;
    device->generation = 1;
    snprintf(device->name, sizeof device->name, "%s", name);
    device->schedule.clock = uv_hrtime;
    list_push(&devices->list, &device->link);
    uv_ref((uv_handle_t *)&devices->ended);
    return device;
}

bool device_open(struct devices *devices, const char *name)
{
    if (devices->count == DEVICES_MOST) {
        log_error("%s cannot be used: there are %d devices already", name, DEVICES_MOST);
        return false;
    }
    struct device *device = device_new(devices, name);
    if (!device)
        return false;
    const char *slash = strchr(name, '/');
    uv_timer_init(devices->loop, &device->timer);
    device->timer.data = device;
    if (slash) {
        device->bridged = true;
        device->state = DEVICE_DOWN;
        snprintf(device->info.kind, sizeof device->info.kind, "%.4s", slash + 1);
        return true;
    }
    devices->hosts += *name == 'h';
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
    compiler_close(&devices->kernels.compiler);
    nodes_close(devices);
    LIST_EACH (struct device, device, &devices->list, link) {
        device->state = DEVICE_CLOSED;
        if (device->group) {
            devices->group = NULL;
            leave(device);
            continue;
        }
        uv_timer_stop(&device->timer);
        /* It would exit when its channel closes; a hung one must not keep us. */
        end_process(device);
        restart_or_end(device);
    }
}

void devices_free(struct devices *devices)
{
    communicators_free(devices);
    LIST_DRAIN (struct device, device, &devices->gone, link) {
        if (device->group)
            group_free(device);
        mailbox_free(device);
        free(device);
    }
}

double device_copy_ns(const struct device *device, uint64_t bytes)
{
    return device->bridged ? link_rate_ns(&device->rate, bytes, uv_hrtime())
                           : (double)schedule_copy(bytes);
}

const char *device_state_name(const struct device *device)
{
    static const char *const names[] = {"starting", "ready", "down", "closed"};
    if (device->leaving)
        return "leaving";
    if (!device->group && device->state == DEVICE_READY &&
        (device->is_given_up || heartbeat_is_stalled(&device->heartbeat)))
        return "stalled";
    return names[device->state];
}
