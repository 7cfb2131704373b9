/* fdserver: start the workers, listen, serve until SIGTERM or SIGINT, drain, leave.
 *
 * The front is one process, put together from its layers (docs/ARCHITECTURE.md); everything runs on
 * its loop's thread, but for what I/O threads and the closer of passed descriptors are given.
 */
#include "base/log.h"
#include "base/signals.h"
#include "server/devices/group.h"
#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/jobs/task.h"
#include "server/main/join.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_START = 1 };
enum { TICK_MS = 500, DRAIN_TICK_MS = 20 };

struct server {
    uv_loop_t loop;
    struct config config;
    struct users users;
    struct devices devices;
    struct jobs jobs;
    struct io io;
    bool auto_device; /* --device auto, still looking for GPUs */
    bool opening;     /* devices: there may be more than settle */
    bool listening;
    uint64_t drain_until_ns;
    uint64_t stop_ns; /* nothing is waited for any more; 0: it drains, or serves */
    bool stopped;
    int exit_status;
    uv_timer_t tick; /* stalls, drain */
    uv_timer_t watchdog;
    uv_poll_t terminate, interrupt; /* SIGTERM, SIGINT */
};

/* Leave: everything is told to close, and the loop ends when it has. */
static void server_stop(struct server *server, int status)
{
    if (server->stopped)
        return;
    server->stopped = true;
    server->exit_status = status;
    io_threads_close(&server->io.io_threads); /* first: then a connection closes at once */
    listener_close_all(&server->io);
    LIST_EACH (struct connection, connection, &server->io.connections, link)
        connection_close(connection);
    field_withdraw_all(&server->users);
    device_close_all(&server->devices);
    turn_close(&server->io);
    deadlines_close(&server->jobs.deadlines);
    uv_close((uv_handle_t *)&server->tick, NULL);
    uv_close((uv_handle_t *)&server->watchdog, NULL);
    uv_close((uv_handle_t *)&server->terminate, NULL);
    uv_close((uv_handle_t *)&server->interrupt, NULL);
}

static void drain(struct server *server)
{
    if (server->jobs.draining)
        return;
    log_info("draining: %llu jobs", (unsigned long long)server->users.counters.jobs);
    notify_stopping(server->config.drain_timeout_s);
    server->jobs.draining = true;
    server->drain_until_ns = uv_hrtime() + server->config.drain_timeout_s * UINT64_C(1000000000);
    listener_close_all(&server->io);
    LIST_EACH (struct device, device, &server->devices.list, link)
        task_drain(device, false);
}

/* Drained when every job has been answered and every answer taken; at the time limit running jobs
 * are cancelled, and two seconds later nothing is waited for. */
static void drain_tick(struct server *server, uint64_t now_ns)
{
    bool unsent = false;
    LIST_EACH (const struct connection, connection, &server->io.connections, link) {
        unsent |= !outbox_empty(&connection->outbox) || bounds_hold(connection);
    }
    if (!server->users.counters.jobs && !unsent) {
        server_stop(server, 0);
        return;
    }
    if (now_ns < server->drain_until_ns)
        return;
    if (!server->stop_ns)
        server->stop_ns = now_ns + UINT64_C(2000000000);
    if (now_ns > server->stop_ns) {
        log_warning("%llu jobs were not answered in time",
                    (unsigned long long)server->users.counters.jobs);
        server_stop(server, 0);
        return;
    }
    LIST_EACH (struct device, device, &server->devices.list, link)
        task_drain(device, true);
}

static void on_tick(uv_timer_t *timer)
{
    struct server *server = timer->data;
    const uint64_t now_ns = uv_hrtime();
    LIST_EACH (struct connection, connection, &server->io.connections, link)
        connection_tick(connection, now_ns);
    listener_tick(&server->io);
    turn_tick(&server->io);
    descriptors_tick();
    if (server->devices.trace)
        trace_flush(server->devices.trace);
    if (server->jobs.draining)
        drain_tick(server, now_ns);
}

/* Once: the signal stays pending, and others join it. */
static void on_signal(uv_poll_t *poll, int status, int events)
{
    struct server *server = poll->data;
    (void)status, (void)events;
    log_info("received %s", poll == &server->terminate ? "SIGTERM" : "SIGINT");
    uv_poll_stop(&server->terminate);
    uv_poll_stop(&server->interrupt);
    drain(server);
    uv_timer_start(&server->tick, on_tick, 0, DRAIN_TICK_MS);
}

static void await_signal(struct server *server, uv_poll_t *poll, int number)
{
    const int descriptor = signals_open(number);
    if (descriptor < 0 || uv_poll_init(&server->loop, poll, descriptor) != 0)
        log_fatal(EXIT_START, "signal %d could not be heard", number);
    poll->data = server;
    uv_poll_start(poll, UV_READABLE, on_signal);
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    notify_send("WATCHDOG=1");
}

static void serve_clients(struct server *server)
{
    if (server->listening || server->stopped)
        return;
    server->listening = true;
    if (!listener_open_all(&server->io)) {
        server_stop(server, EXIT_START);
        return;
    }
    notify_send("READY=1\nSTATUS=Serving");
    log_info("fdserver " FDSERVER_VERSION " is ready");
}

static bool open_device(struct server *server, const char *name)
{
    return !server->stopped && device_open(&server->devices, name);
}

/* With --device auto cuda:0 was tried first: the other GPUs follow it or, where there is none, the
 * host's cores. */
static bool open_rest(struct server *server, struct device *first, bool ready)
{
    server->auto_device = false;
    if (!ready) {
        log_info("no GPU (%s): the host's cores serve", first->refusal);
        device_forget(first);
        return open_device(server, "host");
    }
    bool open = true;
    server->opening = true; /* one that cannot be started settles at once */
    for (uint32_t i = 1; i < first->info.count && open; i++) {
        char name[24];
        snprintf(name, sizeof name, "cuda:%u", i);
        open = open_device(server, name);
    }
    server->opening = false;
    return open;
}

/* Other nodes are not waited for. */
static void serve_if_settled(struct server *server)
{
    if (server->opening)
        return;
    LIST_EACH (const struct device, other, &server->devices.list, link)
        if (!other->group && !other->bridged && !other->once_ready)
            return;
    if (!server->devices.group && !group_open(&server->devices))
        server_stop(server, EXIT_START);
    else
        serve_clients(server);
}

static void on_device_settled(struct device *device, bool ready)
{
    struct server *server = LIST_ENTRY(device->devices, struct server, devices);
    const bool is_first = server->auto_device;
    bool goes_on = true;
    if (is_first && (ready || device->is_absent)) {
        goes_on = open_rest(server, device, ready);
    } else if (!ready) {
        log_error("%s cannot be used: %s", device->name,
                  device->refusal[0] ? device->refusal : "its worker ended before it was ready");
        /* A GPU that was found beside the first one is left out. */
        goes_on = !is_first && strcmp(server->config.device, "auto") == 0 &&
                  strcmp(device->name, "host") != 0;
        if (goes_on)
            device_forget(device);
    }
    if (!goes_on)
        server_stop(server, EXIT_START);
    serve_if_settled(server);
}

static bool open_devices(struct server *server)
{
    if (strcmp(server->config.device, "auto") == 0) {
        server->auto_device = true;
        return open_device(server, "cuda:0");
    }
    const char *left = server->config.device;
    char name[CONFIG_DEVICE_BYTES];
    for (uint32_t hosts = 0; config_next_device(&left, &hosts, name);)
        if (!open_device(server, name))
            return false;
    serve_if_settled(server); /* if all are on other nodes */
    return true;
}

/* Another program of ours, which stands beside this one, installed or in the build tree. It is kept
 * open, and started by its descriptor: whatever replaces its file while this server runs, it is of
 * our build. */
static bool find_program(const char *own, const char *name, char *path, size_t room)
{
    static const char *const places[] = {"", "../gpu/"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, room, "%s/%s%s", own, places[i], name);
        if (access(path, X_OK) != 0)
            continue;
        /* Our number in /proc may be of another namespace; who is not dumpable is closed to others.
         */
        const int program = open(path, O_PATH | O_CLOEXEC);
        char self[24];
        const ssize_t digits = readlink("/proc/self", self, sizeof self - 1);
        if (program >= 0 && digits > 0 && prctl(PR_GET_DUMPABLE) == 1)
            snprintf(path, room, "/proc/%.*s/fd/%d", (int)digits, self, program);
        return true;
    }
    *path = 0;
    return false;
}

static bool find_programs(struct server *server)
{
    struct compiler *compiler = &server->devices.kernels.compiler;
    char own[sizeof server->devices.worker_path - 64];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return false;
    own[length] = 0;
    char *slash = strrchr(own, '/');
    if (!slash)
        return false;
    *slash = 0;
    /* These two may be missing. */
    find_program(own, "fdcompile", compiler->path, sizeof compiler->path);
    find_program(own, "fdbridge", server->devices.nodes.bridge_path,
                 sizeof server->devices.nodes.bridge_path);
    if (find_program(own, "fdworker", server->devices.worker_path,
                     sizeof server->devices.worker_path))
        return true;
    log_error("fdworker is not beside fdserver in %s", own);
    return false;
}

static bool open_trace(struct server *server)
{
    const struct config *config = &server->config;
    if (config->trace)
        server->devices.trace = trace_open(&server->loop, config->trace, config->trace_bytes);
    return !config->trace || server->devices.trace;
}

/* Half of the cores at most: those that send the payload need theirs. */
static bool open_io_threads(struct server *server)
{
    const bool open =
        io_threads_open(&server->io.io_threads, &server->loop, uv_available_parallelism() / 2);
    if (!open)
        log_error("the loop cannot be woken from other threads");
    return open;
}

static void init(struct server *server)
{
    static struct device_events events;
    events = task_events;
    events.settled = on_device_settled;
    server->devices = (struct devices){.loop = &server->loop,
                                       .config = &server->config,
                                       .users = &server->users,
                                       .events = &events,
                                       .arena.descriptor = -1,
                                       .nodes.listener = -1};
    server->users.config = &server->config;
    server->jobs = (struct jobs){.devices = &server->devices, .calls = &outbox_calls};
    server->io.loop = &server->loop;
    server->io.config = &server->config;
    server->io.jobs = &server->jobs;
    server->io.started_ns = uv_hrtime();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until there is something to reload */
    uv_loop_init(&server->loop);
    turn_open(&server->io);
    deadlines_open(&server->jobs.deadlines, &server->loop);
    uv_timer_init(&server->loop, &server->tick);
    uv_timer_init(&server->loop, &server->watchdog);
    server->tick.data = server;
    uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
    await_signal(server, &server->terminate, SIGTERM);
    await_signal(server, &server->interrupt, SIGINT);
    const uint64_t watchdog_ms = notify_watchdog_ms();
    if (watchdog_ms)
        uv_timer_start(&server->watchdog, on_watchdog, watchdog_ms, watchdog_ms);
}

/* A standard descriptor that was closed would be the next socket's, or libuv's own, and get the
 * lines of the log. */
static void open_standard(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO)
        close(descriptor);
}

/* Workers read their level and NCCL's library from the environment, and bridges the key's file. */
static void open_log(const struct config *config)
{
    char level[24];
    snprintf(level, sizeof level, "%llu", (unsigned long long)config->log_level);
    setenv("FDSERVER_LOG_LEVEL", level, 1);
    if (config->cluster_key)
        setenv("FDSERVER_CLUSTER_KEY", config->cluster_key, 1);
    if (config->nccl)
        setenv("FDSERVER_NCCL", config->nccl, 1);
    if (!log_open("fdserver", (enum log_level)config->log_level))
        log_fatal(EXIT_START, "no thread for the log");
}

/* --join. */
static int lend(struct server *server)
{
    const int status = find_programs(server)
                           ? join_head(&server->config, server->devices.worker_path,
                                       server->devices.nodes.bridge_path)
                           : EXIT_START;
    log_flush();
    return status;
}

int main(int argc, char **argv)
{
    static struct server server; /* large: not on the stack */
    open_standard();
    signals_block();
    config_read(&server.config, argc, argv);
    open_log(&server.config);
    notify_init();
    if (server.config.join)
        return lend(&server);
    init(&server);
    if (!msgpack_zone_init(&server.io.message, MSGPACK_ZONE_CHUNK_SIZE) ||
        !find_programs(&server) || !descriptors_open(&server.users, &server.loop, &server.config) ||
        !bounds_open(&server.loop) || !open_trace(&server) || !open_io_threads(&server) ||
        !arena_open(&server.devices.arena, server.config.staging_bytes) ||
        !devices_open(&server.devices) || !open_devices(&server))
        server_stop(&server, EXIT_START);
    uv_run(&server.loop, UV_RUN_DEFAULT);
    LIST_EACH (struct connection, connection, &server.io.connections, link)
        connection_free(connection);
    trace_close(server.devices.trace);
    kernels_free(&server.devices.kernels);
    devices_free(&server.devices);
    arena_close(&server.devices.arena);
    msgpack_zone_destroy(&server.io.message);
    log_info("ended (%d)", server.exit_status);
    log_flush();
    return server.exit_status;
}
