/* Happy path: spawn → ARENA → READY → orders … → front leaves, the channel closes, the worker
 * exits. What can go wrong: the spawn fails; the worker refuses (REFUSED, exit); it dies or is
 * killed (exit callback); it breaks the channel's rules or stops answering pings (we kill it, exit
 * callback). All of them end in worker_gone(), once the process has been reaped. */
#include "server/devices/device.h"

#include "base/log.h"
#include "base/rights.h"
#include "server/devices/field.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKOFF_FIRST_MS = 5, BACKOFF_MOST_MS = 100, ANSWERS_AT_ONCE = 64 };

/* A worker that has served for so long was no failure. */
#define LIFE_NS UINT64_C(10000000000)

static void worker_start(struct device *device);
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

void device_tell(struct device *device, const struct channel_message *message, const uint8_t *block)
{
    if (device->state == DEVICE_CLOSED || channel_queue_push(&device->queue, message, block, -1))
        return;
    /* No memory for a longer queue: there is room in this one when some of it is sent. */
    device_flush(device);
    if (!channel_queue_push(&device->queue, message, block, -1))
        worker_kill(device, "no memory for its orders");
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

void device_give_up(struct device *device, const char *why)
{
    worker_kill(device, why);
    uv_timer_stop(&device->timer);
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
        if (result == CHANNEL_BROKEN || !orders_take(device, &message)) {
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
    if (device->socket < 0)
        return;
    const bool unsent = device->rests; /* its silence is our own fault */
    device->rests = false;
    poll_update(device);
    region_worker_ready(device); /* those that there was no descriptor for */
    static const struct channel_message ping = {.type = CHANNEL_PING};
    if (unsent)
        return;
    if (heartbeat_beat(&device->heartbeat))
        device_tell(device, &ping, NULL);
    if (heartbeat_is_lost(&device->heartbeat, device->state == DEVICE_STARTING))
        device_give_up(device, "its worker does not answer");
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
    orders_forget(device);

    /* A task that fails makes room for the next, whose arrays are lost too. */
    device->losing = true;
    LIST_EACH (struct field, field, &device->arrays, device_link)
        field_lose(field);
    region_worker_gone(device);
    orders_lose(device);
    device->devices->events->worker_lost(device);
    if (!closing && refused && !device->once_ready)
        device->devices->events->settled(device, false);
}

static void on_ended(uv_signal_t *handle, int signal)
{
    struct devices *devices = handle->data;
    (void)signal;
    LIST_EACH (struct device, device, &devices->list, link) {
        int status;
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

/* --- starting ---
 *
 * Workers are started from a thread with a table of descriptors of its own, in which nothing of the
 * clients' ever is. A program that starts first closes what it inherited and is not to keep, and
 * its parent waits for that: with our table, a file of a client's, whose file system a user serves,
 * could be closed there for as long as that user likes. */

/* On the stack of the caller, which waits for it. */
struct start {
    const char *program, *argument;
    pid_t pid;
    int error;
    sem_t ended;
};

static int entrance = -1, outlet = -1; /* of pointers to struct start, each with its channel */

/* It reads /dev/null, writes to our stderr, has `channel` as CHANNEL_DESCRIPTOR, and signals as
 * they are by default. Returns 0 or an errno. */
static int spawn(struct start *start, int channel)
{
    char *const arguments[] = {(char *)(uintptr_t)start->program,
                               (char *)(uintptr_t)start->argument, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL_DESCRIPTOR);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (!error)
        error = posix_spawn(&start->pid, start->program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static void *run_starter(void *unused)
{
    (void)unused;
    if (!rights_own_table(outlet))
        log_warning("no table of descriptors to start workers from: %s", strerror(errno));
    for (;;) {
        struct start *start = NULL;
        int channel;
        rights_receive(outlet, &start, sizeof start, 0, &channel);
        if (!start)
            continue;
        start->error = channel < 0 ? EMFILE : spawn(start, channel);
        if (channel >= 0)
            close(channel);
        sem_post(&start->ended);
    }
    return NULL;
}

/* Returns 0 or an errno; waits for the program's start, and for nobody else. The caller keeps its
 * end of `channel`. */
static int start_program(const char *program, const char *argument, int channel, pid_t *pid)
{
    struct start start = {.program = program, .argument = argument}, *sent = &start;
    struct iovec piece = {&sent, sizeof sent};
    sem_init(&start.ended, 0, 0);
    if (rights_send(entrance, &piece, 1, channel) < 0)
        return errno;
    while (sem_wait(&start.ended) != 0)
        ;
    sem_destroy(&start.ended);
    *pid = start.pid;
    return start.error;
}

static int make_worker(struct device *device)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return errno;
    device->socket = ends[0];
    const int error =
        start_program(device->devices->worker_path, device->name, ends[1], &device->pid);
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
    device->rests = false;
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
    entrance = rights_thread(run_starter, &outlet, "start workers");
    return entrance >= 0;
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
    LIST_EACH (struct device, device, &devices->list, link) {
        if (device->state == DEVICE_CLOSED)
            continue;
        device->state = DEVICE_CLOSED;
        uv_timer_stop(&device->timer);
        /* It would exit when its channel closes; a hung one must not keep us. */
        end_process(device);
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

struct device *device_place(struct devices *devices, struct user *user)
{
    if (user->device)
        return user->device;
    struct device *best = NULL;
    LIST_EACH (struct device, device, &devices->list, link) {
        const bool ready = device->state == DEVICE_READY;
        const bool best_ready = best && best->state == DEVICE_READY;
        if (!best || (ready && !best_ready) ||
            (ready == best_ready && (device->users < best->users || (device->users == best->users &&
                                                                     device->bytes < best->bytes))))
            best = device;
    }
    user->device = best;
    best->users++;
    return best;
}

void device_unplace(struct user *user)
{
    if (!user->device || user->counters.jobs || user->counters.fields || user->arrays ||
        user->mapped_regions)
        return;
    user->device->users--;
    user->device = NULL;
}
