#include "client/exchange.h"

#include "client/receive.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* Sent in one exchange, so that it returns to a caller's loop while a server keeps reading. */
#define EXCHANGE_BYTES ((size_t)16 << 20)

/* Who sleeps is woken 5 µs late, and on a core that has gone to sleep 40: about a small job's time.
 * So a wait busy-polls first, where its thread has cores to spare. */
enum { BUSY_POLL_NS = 100000 };

static struct ticket *unsent(const struct fdclient *client)
{
    struct ticket *ticket = client->pending.first;
    while (ticket && outgoing_done(&ticket->out))
        ticket = ticket->next;
    return ticket;
}

/* Send what the socket takes. False: it takes nothing any more (errno says why). */
static bool send_some(struct fdclient *client)
{
    size_t bytes = 0;
    for (struct ticket *ticket = unsent(client), *next; ticket; ticket = next) {
        next = ticket->next;
        while (!outgoing_done(&ticket->out)) {
            if (bytes >= EXCHANGE_BYTES)
                return true;
            const ssize_t sent = outgoing_send(&ticket->out, client->socket);
            if (sent < 0)
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
            bytes += (size_t)sent;
        }
        connection_settle(client, ticket);
    }
    return true;
}

void exchange_begin(struct fdclient *client, struct ticket *ticket)
{
    client->last_id = ticket->id;
    const bool first = unsent(client) == NULL;
    tickets_add(&client->pending, ticket);
    if (first)
        send_some(client); /* a failure here shows again in exchange_now() */
}

short exchange_events(const struct fdclient *client)
{
    return (short)(client->broken ? 0 : unsent(client) ? POLLIN | POLLOUT : POLLIN);
}

void exchange_now(struct fdclient *client)
{
    if (client->broken)
        return;
    const bool writable = send_some(client);
    const int reason = errno;
    receive_some(client); /* even then: the server may have said why before it hung up */
    if (!writable)
        connection_break(client, reason == EPIPE || reason == ECONNRESET
                                     ? "the server closed the connection"
                                     : strerror(reason));
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* poll(), which busy-polls before it blocks. */
static int poll_or_sleep(struct fdclient *client, struct pollfd *wait)
{
    int ready = 0;
    if (client->busy_polls)
        for (const int64_t end_ns = now_ns() + BUSY_POLL_NS; !ready && now_ns() < end_ns;)
            ready = poll(wait, 1, 0);
    return ready ? ready : poll(wait, 1, -1);
}

/* Of what poll() names only that is tried: any other call would come back with nothing. It beats a
 * read that waits, whose sleeper Linux wakes a microsecond later. */
void exchange_wait(struct fdclient *client)
{
    struct pollfd wait = {client->socket, exchange_events(client), 0};
    if (poll_or_sleep(client, &wait) <= 0)
        return; /* a signal: the caller sees whether to wait on */
    if (wait.revents == POLLIN)
        receive_some(client);
    else if (wait.revents != POLLOUT || !send_some(client))
        exchange_now(client);
}
