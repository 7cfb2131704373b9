#include "server/main/join.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/signals.h"
#include "gpu/worker/channel.h"
#include "server/devices/start.h"
#include "server/io/io.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENT_MOST = 64, TICK_MS = 500, PROBE_MS = 65000, PROBE_BYTES = 16 << 20 };
#define PAUSE_NS UINT64_C(1000000000) /* between an end and the next start */

struct lent {
    char device[CONFIG_DEVICE_BYTES], name[80]; /* "cuda:0", "NODE/cuda:0" */
    pid_t worker, bridge;                       /* 0: has ended */
    int channel;                                /* of a worker that is asked */
    uint64_t start_ns;                          /* when to start both */
};

static struct {
    const char *worker_path, *bridge_path;
    struct lent lent[LENT_MOST];
    uint32_t count;
} node;

static void end_process(pid_t pid)
{
    if (pid > 0)
        kill(pid, SIGKILL);
}

static void start(struct lent *lent)
{
    int channel;
    int error = start_program(node.worker_path, lent->device, SOCK_SEQPACKET | SOCK_NONBLOCK,
                              &channel, &lent->worker);
    if (!error) {
        error = start_program_at(node.bridge_path, lent->name, channel, &lent->bridge);
        close(channel);
    }
    if (error)
        log_error("%s: %s", lent->name, strerror(error));
    if (!lent->bridge) /* the worker sees its channel close */
        end_process(lent->worker);
    if (error)
        lent->start_ns = clock_ns() + PAUSE_NS;
}

static void reap(void)
{
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        for (uint32_t i = 0; i < node.count; i++) {
            struct lent *lent = &node.lent[i];
            if (pid != lent->worker && pid != lent->bridge)
                continue;
            if (pid == lent->bridge)
                end_process(lent->worker);
            *(pid == lent->worker ? &lent->worker : &lent->bridge) = 0;
            lent->start_ns = clock_ns() + PAUSE_NS;
        }
}

static void add(const struct config *config, const char *device)
{
    if (node.count == LENT_MOST)
        return;
    struct lent *lent = &node.lent[node.count++];
    snprintf(lent->device, sizeof lent->device, "%s", device);
    snprintf(lent->name, sizeof lent->name, "%s/%s", config->node, device);
}

/* --- what it has --- */

static bool is_gpu(const struct lent *lent)
{
    return strncmp(lent->device, "cuda", 4) == 0;
}

/* Have a worker open the device. */
static void ask(struct lent *lent)
{
    const struct channel_message arena = {.type = CHANNEL_ARENA, .u.arena.bytes = PROBE_BYTES};
    const int memfd = rights_memfd("probe", PROBE_BYTES);
    const int error =
        memfd < 0 ? errno
                  : start_program(node.worker_path, lent->device, SOCK_SEQPACKET | SOCK_NONBLOCK,
                                  &lent->channel, &lent->worker);
    if (error)
        log_error("%s: %s", lent->name, strerror(error));
    else
        channel_send(lent->channel, &arena, memfd);
    rights_close(memfd);
}

/* How many GPUs there are, as that worker says, which ends; 0 where there may be none. False: the
 * device cannot be used. */
static bool hear(struct lent *lent, bool is_auto, uint32_t *gpus)
{
    struct channel_message said = {.u.refused.text = "its worker did not start, or said nothing"};
    struct channel_inbox inbox = {0};
    struct pollfd polls = {.fd = lent->channel, .events = POLLIN};
    int descriptor = -1;
    if (lent->worker && poll(&polls, 1, PROBE_MS) == 1)
        channel_receive(lent->channel, &inbox, &said, &descriptor);
    rights_close(descriptor);
    if (lent->worker) {
        end_process(lent->worker);
        close(lent->channel);
        waitpid(lent->worker, NULL, 0);
    }
    lent->worker = 0;
    *gpus = said.type == CHANNEL_READY ? said.u.ready.info.count : 0;
    if (*gpus || (is_auto && said.type == CHANNEL_REFUSED && said.status == STATUS_NOT_FOUND))
        return true;
    log_error("%s cannot be used: %.199s", lent->device, said.u.refused.text);
    return false;
}

/* --- the node --- */

/* False: one of the GPUs that are asked for cannot be used. They take seconds to open, all at once.
 */
static bool find_devices(const struct config *config, uint32_t *hosts)
{
    char device[CONFIG_DEVICE_BYTES];
    const bool is_auto = strcmp(config->device, "auto") == 0;
    const char *left = is_auto ? "cuda:0" : config->device;
    uint32_t gpus = 0;
    while (config_next_device(&left, hosts, device))
        add(config, device);
    for (uint32_t i = 0; i < node.count; i++)
        if (is_gpu(&node.lent[i]))
            ask(&node.lent[i]);
    for (uint32_t i = 0; i < node.count; i++)
        if (is_gpu(&node.lent[i]) && !hear(&node.lent[i], is_auto, &gpus))
            return false;
    for (uint32_t i = 1; is_auto && i < gpus; i++) {
        snprintf(device, sizeof device, "cuda:%u", i);
        add(config, device);
    }
    if (is_auto && !gpus) {
        node.count = 0;
        add(config, "host");
    }
    return true;
}

/* Bridges read these; those that were given as options are not there yet. */
static void set_environment(const struct config *config, uint32_t hosts)
{
    char number[24];
    setenv("FDSERVER_JOIN", config->join, 1);
    snprintf(number, sizeof number, "%llu", (unsigned long long)config->threads);
    setenv("FDSERVER_THREADS", number, 1);
    snprintf(number, sizeof number, "%u", hosts);
    setenv("FDSERVER_HOST_WORKERS", number, 1);
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)(node.count ? config->region_memory / node.count : 0));
    setenv("FDSERVER_REGION_SHARE", number, 1);
}

/* A bridge whose worker has ended passes on its last words before it ends, too. */
static void tend(bool starts)
{
    for (uint32_t i = 0; i < node.count; i++) {
        struct lent *lent = &node.lent[i];
        if (lent->worker || clock_ns() < lent->start_ns)
            continue;
        if (lent->bridge)
            end_process(lent->bridge);
        else if (starts)
            start(lent);
    }
}

/* Until a process ends, or something else comes, or for a tick. polls: SIGCHLD first. */
static void turn(struct pollfd *polls, nfds_t count, bool starts)
{
    tend(starts);
    if (poll(polls, count, TICK_MS) > 0 && polls[0].revents) {
        signals_take(polls[0].fd);
        reap();
    }
    notify_send("WATCHDOG=1");
}

/* Let jobs that run here finish, for so long at most: a bridge leaves when the head has nothing
 * left for it, and its worker follows. */
static void drain(struct pollfd *polls, uint64_t timeout_s)
{
    const uint64_t end_ns = clock_ns() + timeout_s * UINT64_C(1000000000);
    bool lends = true;
    while (lends && clock_ns() < end_ns) {
        lends = false;
        for (uint32_t i = 0; i < node.count; i++) {
            if (!node.lent[i].bridge)
                continue;
            lends = true;
            kill(node.lent[i].bridge, SIGTERM); /* again, since one that starts ignores it */
        }
        if (lends)
            turn(polls, 1, false);
    }
}

static void leave(void)
{
    for (uint32_t i = 0; i < node.count; i++) {
        end_process(node.lent[i].bridge);
        end_process(node.lent[i].worker);
    }
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

int join_head(const struct config *config, const char *worker_path, const char *bridge_path)
{
    struct pollfd polls[] = {{.fd = signals_open(SIGCHLD), .events = POLLIN},
                             {.fd = signals_open(SIGTERM), .events = POLLIN},
                             {.fd = signals_open(SIGINT), .events = POLLIN}};
    if (!*bridge_path) {
        log_error("--join: fdbridge is not beside fdserver; it is built where OpenSSL is found");
        return EXIT_FAILURE;
    }
    if (polls[0].fd < 0 || polls[1].fd < 0 || polls[2].fd < 0 || !start_open())
        return EXIT_FAILURE;
    node.worker_path = worker_path;
    node.bridge_path = bridge_path;
    uint32_t hosts = 0; /* workers on the host share its memory */
    if (!find_devices(config, &hosts))
        return EXIT_FAILURE;
    set_environment(config, hosts);
    log_info("%s lends %u device%s to %s", config->node, node.count, node.count == 1 ? "" : "s",
             config->join);
    notify_send("READY=1\nSTATUS=Lends its devices");
    while (!polls[1].revents && !polls[2].revents)
        turn(polls, 3, true);
    notify_stopping(config->drain_timeout_s);
    drain(polls, config->drain_timeout_s);
    leave();
    return 0;
}
