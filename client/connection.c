/* Tickets and the socket: sending, waiting, and how tickets and the connection end. */
#include "client/connection.h"

#include "base/clock.h"
#include "base/rights.h"
#include "client/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/fdserver/fdserver.sock"

/* Sent in one call, so that it returns to a caller's loop while a server keeps reading. */
#define SEND_BYTES ((size_t)16 << 20)

/* A thread that sleeps is woken 5 µs late, and 40 on a core that sleeps too: about a small job's
 * time. So a wait polls first, where the process has cores to spare. */
enum { BUSY_POLL_NS = 100000 };

/* ---- tickets ---- */

struct ticket *ticket_new(struct fdclient *client, enum answer answer, bool internal)
{
    struct ticket *ticket = calloc(1, sizeof *ticket);
    if (ticket) {
        ticket->id = client->last_id + 1;
        ticket->answer = answer;
        ticket->internal = internal;
    }
    return ticket;
}

void ticket_free(struct ticket *ticket)
{
    outgoing_free(&ticket->out);
    free(ticket);
}

struct fdclient_result *ticket_result(const struct ticket *ticket, uint32_t part)
{
    if (part == TICKET_PROBES)
        return ticket->result_count ? ticket->results->probes : NULL;
    return part < ticket->result_count ? &ticket->results[part] : NULL;
}

void ticket_fail(struct ticket *ticket, const struct fdclient_error *error)
{
    if (ticket->failed)
        return;
    ticket->failed = true;
    ticket->error = *error;
    for (uint32_t i = 0; i < TICKET_PARTS; i++) {
        struct fdclient_result *result = ticket_result(ticket, i);
        if (result && result->allocated) {
            free(result->data);
            result->data = NULL;
            result->allocated = false;
        }
    }
}

struct ticket *tickets_find(const struct list *tickets, uint64_t id)
{
    LIST_EACH (struct ticket, ticket, tickets, link)
        if (ticket->id == id)
            return ticket;
    return NULL;
}

static void complete_ticket(struct fdclient *client, struct ticket *ticket)
{
    list_remove(&ticket->link);
    pool_settle(client, ticket);
    if (ticket->internal)
        ticket_free(ticket);
    else
        list_push(&client->done, &ticket->link);
}

void connection_settle(struct fdclient *client, struct ticket *ticket)
{
    if (ticket->replied && outgoing_done(&ticket->out))
        complete_ticket(client, ticket);
}

void connection_break(struct fdclient *client, const char *reason)
{
    if (client->broken)
        return;
    client->broken = true;
    client->receiving = NULL;
    error_set(&client->cause, ERROR_CONNECTION, "", "%s", reason);
    LIST_DRAIN (struct ticket, ticket, &client->pending, link) {
        if (!ticket->replied)
            ticket_fail(ticket, &client->cause);
        complete_ticket(client, ticket);
    }
}

/* ---- connecting ---- */

/* The default socket: the system's; where that is absent and the user's own exists, the latter. */
static bool default_path(struct sockaddr_un *at, struct fdclient_error *error)
{
    snprintf(at->sun_path, sizeof at->sun_path, "%s", SYSTEM_SOCKET);
    if (access(at->sun_path, F_OK) == 0)
        return true;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const int length = runtime && *runtime ? snprintf(at->sun_path, sizeof at->sun_path,
                                                      "%s/fdserver.sock", runtime)
                                           : 0;
    if (length > 0 && length < (int)sizeof at->sun_path && access(at->sun_path, F_OK) == 0)
        return true;
    return error_set(error, ERROR_CONNECTION, "",
                     "no fdserver is running here: there is no " SYSTEM_SOCKET "%s%.100s%s",
                     length > 0 ? " and no " : "", length > 0 ? runtime : "",
                     length > 0 ? "/fdserver.sock" : "");
}

static bool given_path(const char *address, struct sockaddr_un *at, struct fdclient_error *error)
{
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    if (!*path || (path == address && !strchr("/.", *path)))
        return error_set(error, "INVALID_ARGUMENT", "connect",
                         "an address is unix:PATH; got '%.100s'", address);
    if (strlen(path) >= sizeof at->sun_path)
        return error_set(error, "INVALID_ARGUMENT", "connect",
                         "a socket's path is at most %zu bytes long; got %zu",
                         sizeof at->sun_path - 1, strlen(path));
    memcpy(at->sun_path, path, strlen(path) + 1);
    return true;
}

/* To a socket of this system: one that a signal interrupted has not begun. 0, or an errno. */
static int connect_again(int descriptor, const struct sockaddr_un *at)
{
    while (connect(descriptor, (const struct sockaddr *)at, sizeof *at) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

int connection_open(const char *address, struct fdclient_error *error)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *environment = getenv("FDSERVER_SOCKET");
    /* As much as the system allows: a small job's array goes out in one call. */
    const int buffer_bytes = 4 << 20;
    if (!address && environment && *environment)
        address = environment;
    if (address ? !given_path(address, &at, error) : !default_path(&at, error))
        return -1;
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int failed = descriptor < 0 ? errno : connect_again(descriptor, &at);
    if (failed == 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0) {
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
        return descriptor;
    }
    error_set(error, ERROR_CONNECTION, "", "cannot connect to %s: %s%s", at.sun_path,
              strerror(failed),
              failed == EACCES                             ? "; it is open to its group alone"
              : failed == ENOENT || failed == ECONNREFUSED ? "; is fdserver running?"
                                                           : "");
    rights_close(descriptor);
    return -1;
}

/* ---- sending and waiting ---- */

static struct ticket *find_unsent(const struct fdclient *client)
{
    LIST_EACH (struct ticket, ticket, &client->pending, link)
        if (!outgoing_done(&ticket->out))
            return ticket;
    return NULL;
}

/* Send what the socket takes. False: it takes nothing any more (errno says why). */
static bool send_some(struct fdclient *client)
{
    size_t bytes = 0;
    LIST_EACH (struct ticket, ticket, &client->pending, link) {
        while (!outgoing_done(&ticket->out)) {
            if (bytes >= SEND_BYTES)
                return true;
            const ssize_t sent = outgoing_send(&ticket->out, client->socket, SEND_BYTES - bytes);
            if (sent < 0)
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
            bytes += (size_t)sent;
        }
        connection_settle(client, ticket);
    }
    return true;
}

void connection_begin(struct fdclient *client, struct ticket *ticket)
{
    client->last_id = ticket->id;
    const bool first = !find_unsent(client);
    list_push(&client->pending, &ticket->link);
    if (first)
        send_some(client); /* a failure here shows again in fdclient_process() */
}

struct ticket *connection_ask(struct fdclient *client, enum answer answer, bool internal,
                              const char *method, const char *name, uint64_t number, int descriptor)
{
    struct ticket *ticket = ticket_new(client, answer, internal);
    if (!ticket ||
        !outgoing_init_number(&ticket->out, ticket->id, method, name, number, descriptor)) {
        free(ticket);
        return NULL;
    }
    connection_begin(client, ticket);
    return ticket;
}

short fdclient_events(const struct fdclient *client)
{
    return (short)(client->broken ? 0 : find_unsent(client) ? POLLIN | POLLOUT : POLLIN);
}

bool fdclient_process(struct fdclient *client, struct fdclient_error *error)
{
    if (client->broken)
        return error_copy(error, &client->cause);
    const bool writable = send_some(client);
    const int reason = errno;
    receive_some(client); /* even then: the server may have said why before it hung up */
    if (!writable)
        connection_break(client, reason == EPIPE || reason == ECONNRESET
                                     ? "the server closed the connection"
                                     : strerror(reason));
    return !client->broken || error_copy(error, &client->cause);
}

/* Only what poll() names is tried: any other call would come back with nothing. This beats a read
 * that waits, whose sleeper Linux wakes a microsecond later. */
void connection_wait(struct fdclient *client)
{
    struct pollfd wait = {client->socket, fdclient_events(client), 0};
    int ready = 0;
    if (client->busy_polls)
        for (const uint64_t end_ns = clock_ns() + BUSY_POLL_NS; !ready && clock_ns() < end_ns;)
            ready = poll(&wait, 1, 0);
    if (!ready)
        ready = poll(&wait, 1, -1);
    if (ready <= 0)
        return; /* a signal: the caller decides whether to wait on */
    if (wait.revents == POLLIN)
        receive_some(client);
    else if (wait.revents != POLLOUT || !send_some(client))
        fdclient_process(client, NULL);
}
