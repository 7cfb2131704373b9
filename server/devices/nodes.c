#include "server/devices/nodes.h"

#include "base/address.h"
#include "base/log.h"
#include "base/rights.h"
#include "server/devices/device.h"
#include "server/devices/group.h"
#include "server/devices/start.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CONNECTIONS_AT_ONCE = 4, /* of a turn of the loop, which a flood is not to hold up */
    MOMENT_MS = 500          /* in which a node joins */
};

/* A bridge that has not joined. It is freed once the poll is closed and the process is reaped, or
 * the device's. */
struct joining {
    struct list link;
    struct devices *devices;
    struct sockaddr_storage from;
    uint64_t began_ms;
    pid_t pid;   /* 0: reaped, or the device's */
    int channel; /* −1: it is over */
    uv_poll_t poll;
    bool poll_open;
};

static void free_if_over(struct joining *joining)
{
    if (joining->pid || joining->poll_open)
        return;
    list_remove(&joining->link);
    free(joining);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct joining *joining = handle->data;
    joining->poll_open = false;
    free_if_over(joining);
}

static void stop_listening(struct joining *joining)
{
    if (joining->poll_open && !uv_is_closing((uv_handle_t *)&joining->poll))
        uv_close((uv_handle_t *)&joining->poll, on_poll_closed);
}

/* It need not know what it is told to end. */
static void end(struct joining *joining)
{
    stop_listening(joining);
    rights_close(joining->channel);
    joining->channel = -1;
}

static struct device *find(const struct devices *devices, const char *name)
{
    LIST_EACH (struct device, device, &devices->list, link)
        if (device->bridged && strcmp(device->name, name) == 0)
            return device;
    return NULL;
}

/* Why it cannot join; NULL: it has. */
static const char *join(struct joining *joining, struct channel_message *message)
{
    char *name = message->u.join.device, *version = message->u.join.version;
    name[sizeof message->u.join.device - 1] = version[sizeof message->u.join.version - 1] = 0;
    struct device *device = find(joining->devices, name);
    if (strcmp(version, FDSERVER_VERSION) != 0)
        return "the head is fdserver " FDSERVER_VERSION ", which the node is not";
    if (!device)
        return "the head's --device does not name it";
    if (!device_joins(device, joining->channel, joining->pid))
        return "it has joined already, or has not quite left";
    joining->channel = -1;
    joining->pid = 0;
    return NULL;
}

static void on_channel(uv_poll_t *poll, int status, int events)
{
    static struct channel_inbox inbox; /* a bridge sends one record */
    struct joining *joining = poll->data;
    struct channel_message message, refused = {.type = CHANNEL_REFUSED};
    int descriptor;
    (void)status, (void)events;
    memset(&inbox, 0, sizeof inbox);
    const enum channel_result result =
        channel_receive(joining->channel, &inbox, &message, &descriptor);
    if (result == CHANNEL_AGAIN)
        return;
    rights_close(descriptor);
    stop_listening(joining); /* the device listens from here on */
    const char *why = result == CHANNEL_OK && message.type == CHANNEL_JOIN ? join(joining, &message)
                                                                           : "it said nothing";
    if (!why)
        return;
    if (result == CHANNEL_OK) {
        log_warning("%.*s may not join: %s", (int)sizeof message.u.join.device,
                    message.u.join.device, why);
        snprintf(refused.u.refused.text, sizeof refused.u.refused.text, "%s", why);
        channel_send(joining->channel, &refused, -1);
    }
    end(joining);
}

/* Start a bridge for a connection, which it gets. False: there is no memory, process or descriptor
 * for it. */
static bool begin(struct devices *devices, int connection, const struct sockaddr_storage *from)
{
    static const struct channel_message socket = {.type = CHANNEL_SOCKET};
    struct joining *joining = calloc(1, sizeof *joining);
    if (!joining)
        return false;
    joining->devices = devices;
    joining->from = *from;
    joining->began_ms = uv_now(devices->loop);
    if (start_program(devices->nodes.bridge_path, "head", SOCK_SEQPACKET | SOCK_NONBLOCK,
                      &joining->channel, &joining->pid)) {
        free(joining);
        return false;
    }
    list_push(&devices->nodes.joining, &joining->link);
    joining->poll.data = joining;
    joining->poll_open = uv_poll_init(devices->loop, &joining->poll, joining->channel) == 0;
    if (joining->poll_open)
        uv_poll_start(&joining->poll, UV_READABLE, on_channel);
    if (!joining->poll_open || channel_send(joining->channel, &socket, connection) != CHANNEL_OK)
        end(joining); /* it ends, and is reaped */
    return true;
}

/* --- strangers --- */

/* The bytes of an address that tell strangers apart: of IPv6 the network's, in which a stranger may
 * have as many addresses as it likes. */
static uint64_t origin(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    uint64_t network;
    uint32_t host;
    if (address->ss_family == AF_INET)
        return v4->sin_addr.s_addr;
    memcpy(&network, v6->s6_addr, sizeof network);
    memcpy(&host, v6->s6_addr + 12, sizeof host);
    return IN6_IS_ADDR_V4MAPPED(v6) ? host : network;
}

static uint32_t count_from(const struct nodes *nodes, uint64_t from)
{
    uint32_t count = 0;
    LIST_EACH (const struct joining, joining, &nodes->joining, link)
        count += joining->channel >= 0 && origin(&joining->from) == from;
    return count;
}

/* Make room for one from there: a node, which joins within a moment, is to prevail over strangers,
 * who may say nothing for as long as they can. Of those from where the most are, the one that came
 * first goes. Where its address has no more than its share, only when it has had its moment: no
 * flood is to start a process for each of its connections. False: there is no room. */
static bool make_room(struct devices *devices, uint64_t from)
{
    struct joining *first = NULL;
    uint32_t most = 0, open = 0, all = 0;
    LIST_EACH (struct joining, joining, &devices->nodes.joining, link) {
        const uint32_t count = count_from(&devices->nodes, origin(&joining->from));
        all++;
        if (joining->channel < 0)
            continue;
        open++;
        if (count > most) {
            first = joining;
            most = count;
        }
    }
    const bool fits = all < 2 * NODES_JOINING; /* with those that are not reaped yet */
    if (open < NODES_JOINING)
        return fits;
    if (most <= count_from(&devices->nodes, from) + 1 &&
        uv_now(devices->loop) < first->began_ms + MOMENT_MS)
        return false;
    kill(first->pid, SIGKILL);
    end(first);
    return fits;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct devices *devices = poll->data;
    (void)status, (void)events;
    for (int i = 0; i < CONNECTIONS_AT_ONCE; i++) {
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof from;
        const int connection =
            accept4(devices->nodes.listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC);
        if (connection < 0)
            return;
        if (!make_room(devices, origin(&from)) || descriptors_are_few(devices->users, connection) ||
            !begin(devices, connection, &from))
            log_warning("a node's connection was closed: too many join, or nothing is left for it");
        close(connection);
    }
}

void nodes_reap(struct devices *devices)
{
    LIST_EACH (struct joining, joining, &devices->nodes.joining, link) {
        if (!joining->pid || waitpid(joining->pid, NULL, WNOHANG) != joining->pid)
            continue;
        joining->pid = 0;
        end(joining);
        free_if_over(joining);
    }
}

/* --- leaving --- */

/* A copy may wait for a slab, and nothing of it be with a worker meanwhile. */
static bool is_idle(const struct device *device)
{
    return list_empty(&device->tasks) && list_empty(&device->copies) && !device->sends;
}

void nodes_end_if_idle(const struct device *device)
{
    const struct device *group = group_of(device);
    if (device->pid > 0 && is_idle(device) && (!group || is_idle(group)))
        kill(device->pid, SIGKILL);
}

bool nodes_leave(struct device *device)
{
    struct device *group = group_of(device);
    if (!device->bridged || device->state != DEVICE_READY || device->leaving)
        return false;
    log_info("%s leaves when its jobs have ended", device->name);
    device->leaving = true;
    device->devices->events->leaving(device);
    if (group)
        device->devices->events->leaving(group);
    nodes_end_if_idle(device);
    return true;
}

/* --- listening --- */

/* −1: *why says so. */
static int listen_at(const char *address, const char **why)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    const int on = 1;
    *why = address_find(address, &hints, &found);
    if (*why)
        return -1;
    const int listener =
        socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol);
    if (listener >= 0)
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool listens = listener >= 0 && bind(listener, found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(listener, SOMAXCONN) == 0;
    *why = strerror(errno);
    freeaddrinfo(found);
    if (listens)
        return listener;
    rights_close(listener);
    return -1;
}

static void log_address(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[128], port[16];
    if (getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        log_info("nodes join at %s:%s", host, port);
}

bool nodes_open(struct devices *devices)
{
    struct nodes *nodes = &devices->nodes;
    const char *address = devices->config->nodes, *why;
    if (!address)
        return true;
    if (!*nodes->bridge_path) {
        log_error("--nodes: fdbridge is not beside fdserver; it is built where OpenSSL is found");
        return false;
    }
    const int listener = listen_at(address, &why);
    if (listener < 0 || uv_poll_init(devices->loop, &nodes->poll, listener) != 0) {
        log_error("--nodes %s: %s", address, why);
        rights_close(listener);
        return false;
    }
    nodes->listener = listener;
    nodes->poll.data = devices;
    uv_poll_start(&nodes->poll, UV_READABLE, on_connection);
    log_address(nodes->listener);
    return true;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct devices *devices = handle->data;
    close(devices->nodes.listener);
    devices->nodes.listener = -1;
}

void nodes_close(struct devices *devices)
{
    struct nodes *nodes = &devices->nodes;
    if (nodes->listener >= 0 && !uv_is_closing((uv_handle_t *)&nodes->poll))
        uv_close((uv_handle_t *)&nodes->poll, on_listener_closed);
    LIST_EACH (struct joining, joining, &nodes->joining, link) {
        if (joining->pid)
            kill(joining->pid, SIGKILL);
        end(joining);
    }
}
