/* Happy path: readable → control bytes → splitter → (payload → slab → device)* → message → method.
 * What can go wrong: the bytes are no messages (an error, then we close); an array cannot be taken
 * (its bytes are read and dropped, the error answers the message); no slab is free (we stop reading
 * until one is); what the message needs takes long to find (we stop reading, and take the same
 * message again: bounds.h); the upload stands still (its slab is flushed, later the connection is
 * closed); the peer half-closes (it still gets its replies) or hangs up (its work is cancelled). */
#include "server/io/connection.h"

#include "base/log.h"
#include "server/users/memory.h"
#include "server/io/io.h"
#include "server/jobs/exports.h"
#include "server/jobs/placement.h"
#include "server/jobs/task.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    CONTROL_BUDGET_READS = 4, /* of what may be many messages: at once for one connection */
    /* With so many bytes of small replies unread a connection is not read itself. */
    CONTROL_UNSENT_MOST = 1 << 20,
    /* The same where its user is over the budget of memory.h; and the most that a message may then
     * have beside its payload. */
    CONTROL_UNSENT_OVER = 4 << 10,
    CONTROL_OVER = 8 << 10
};
/* An upload that stood still this long gives its slab back. */
#define FLUSH_NS UINT64_C(500000000)

/* Did the peer close both directions? An end of input alone may be a half-close. */
static bool hung_up(const struct connection *connection)
{
    struct pollfd descriptor = {.fd = connection->socket, .events = 0};
    return poll(&descriptor, 1, 0) == 1 && descriptor.revents & (POLLHUP | POLLERR);
}

/* Bytes of its client's have come, and it is we who have not read them yet. */
static bool has_unread(const struct connection *connection)
{
    int bytes = 0;
    return ioctl(connection->socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

static bool may_read(const struct connection *connection)
{
    return !connection->closing && !connection->receiving && !connection->end_of_input &&
           !connection->close_when_sent && list_empty(&connection->upload.waiter.link) &&
           !bounds_hold(connection) && !connection->outbox.broken &&
           connection->outbox.control_bytes <
               (memory_is_over(connection->user) ? CONTROL_UNSENT_OVER : CONTROL_UNSENT_MOST);
}

static void on_event(enum splitter_event event, struct connection *connection, bool is_last)
{
    if (event == SPLITTER_PAYLOAD) {
        upload_begin(&connection->upload, &connection->splitter.payload);
        if (!splitter_payload_due(&connection->splitter)) /* an empty bin in a list */
            event = splitter_payload_done(&connection->splitter, 0);
    }
    if (event == SPLITTER_MESSAGE) {
        connection->is_last = is_last;
        message_take(connection);
    } else if (event == SPLITTER_ERROR)
        message_fail(connection,
                     connection->splitter.no_memory ? STATUS_OUT_OF_MEMORY : STATUS_PROTOCOL,
                     connection->splitter.error);
}

/* Bytes that were read already: hand them on as far as they may go. Returns how many were used. */
static size_t consume(struct connection *connection, const uint8_t *bytes, size_t length)
{
    struct splitter *splitter = &connection->splitter;
    size_t used = 0;
    while (used < length && may_read(connection) && !connection->rests) {
        const uint64_t due = splitter_payload_due(splitter);
        size_t count = 0;
        if (splitter_idle(splitter))
            connection->message_ns = connection->read_ns;
        if (due) {
            void *place = upload_place(&connection->upload,
                                       due < length - used ? due : length - used, &count);
            if (!place)
                break;
            memcpy(place, bytes + used, count);
            upload_placed(&connection->upload, count);
            on_event(splitter_payload_done(splitter, count), connection, used + count == length);
        } else {
            const uint32_t room = splitter->control_room;
            const enum splitter_event event =
                splitter_feed(splitter, bytes + used, length - used, &count);
            if (splitter->control_room > room && splitter->control_room > CONTROL_OVER &&
                memory_is_over(connection->user))
                message_fail(connection, STATUS_OVER_BUDGET,
                             "no room for so large a message beside what you hold already");
            else
                on_event(event, connection, used + count == length);
        }
        used += count;
    }
    return used;
}

/* Keep what could not be handed on; it is at most a read buffer long. */
static void keep(struct connection *connection, const uint8_t *bytes, size_t length)
{
    if (!connection->leftover && length && !(connection->leftover = malloc(length))) {
        message_fail(connection, STATUS_OUT_OF_MEMORY, "the server has no memory to read on");
        return;
    }
    if (length) {
        memmove(connection->leftover, bytes, length); /* they may be a part of it */
    } else {
        free(connection->leftover);
        connection->leftover = NULL;
    }
    connection->leftover_bytes = (uint32_t)length;
}

static bool consume_leftover(struct connection *connection)
{
    if (!connection->leftover_bytes)
        return true;
    const size_t used = consume(connection, connection->leftover, connection->leftover_bytes);
    keep(connection, connection->leftover + used, connection->leftover_bytes - used);
    return !connection->leftover_bytes;
}

static void settle_later(struct connection *connection)
{
    if (!connection->closed && list_empty(&connection->changed_link))
        list_push(&connection->io->changed, &connection->changed_link);
}

/* A descriptor counts as held from its arrival on, since the rest of its message may never come. If
 * the user may not keep it, it is closed, and the message is refused once it is complete. */
static void limit_passed(struct connection *connection)
{
    struct passed_descriptor *passed = &connection->passed;
    if (passed->descriptor < 0 || descriptors_allow(connection->user, passed->descriptor, true))
        return;
    passing_forget(passed);
    passed->no_room = true;
}

static bool has_come(struct connection *connection, ssize_t n, int error)
{
    if (n > 0) {
        connection->read_ns = uv_hrtime();
        limit_passed(connection);
    } else if (n == 0 || (error != EAGAIN && error != EWOULDBLOCK)) {
        connection->end_of_input = true;
        if (n < 0 && (error == EUSERS || error == EMFILE))
            log_warning("user %u passes %s; a connection of theirs was closed",
                        connection->user->uid,
                        error == EUSERS ? "descriptors faster than they can be closed"
                                        : "several descriptors at once, while few are left");
        if (n < 0 || hung_up(connection))
            connection->outbox.broken = true;
    }
    return n > 0;
}

static void take_payload(struct connection *connection, size_t bytes)
{
    upload_placed(&connection->upload, bytes);
    on_event(splitter_payload_done(&connection->splitter, bytes), connection, true);
}

static void on_received(void *context, ssize_t n, int error)
{
    struct connection *connection = context;
    const uint64_t begun_ns = uv_hrtime();
    connection->receiving = false;
    turn_heard(connection->io);
    if (!connection->closing && has_come(connection, n, error))
        take_payload(connection, (size_t)n);
    settle_later(connection);
    turn_charge(connection->io, connection->user, begun_ns);
}

static bool hand_over(struct connection *connection, void *place, size_t room)
{
    struct io *io = connection->io;
    void *const slab = place == io->drop_buffer ? NULL : place;
    return connection->receiving =
               io_threads_receive(&io->io_threads, connection->socket, slab, room,
                                  &connection->passed, on_received, connection);
}

static void read_some(struct connection *connection)
{
    struct io *io = connection->io;
    size_t budget = io_threads_turn_bytes(&io->io_threads);
    int control_reads = CONTROL_BUDGET_READS;
    if (!consume_leftover(connection))
        return;
    while (budget && control_reads && may_read(connection) && !connection->rests) {
        const uint64_t due = splitter_payload_due(&connection->splitter);
        size_t room = sizeof io->read_buffer;
        void *place = due ? upload_place(&connection->upload, due, &room) : io->read_buffer;
        if (!place || (due && hand_over(connection, place, room)))
            return;
        if (due && room > budget)
            room = budget;
        const ssize_t n = passing_receive(connection->socket, place, room, &connection->passed);
        if (!has_come(connection, n, errno))
            return;
        budget -= (size_t)n < budget ? (size_t)n : budget;
        if (due) {
            take_payload(connection, (size_t)n);
        } else {
            control_reads--;
            const size_t used = consume(connection, place, (size_t)n);
            if (used < (size_t)n) {
                keep(connection, (const uint8_t *)place + used, (size_t)n - used);
                return;
            }
            if ((size_t)n < room && !splitter_payload_due(&connection->splitter))
                return; /* all that had come: another event tells of more */
        }
    }
}

/* Nothing can be sent any more, or nothing will come and nothing is owed. */
static bool is_over(const struct connection *connection)
{
    const bool owed = !outbox_empty(&connection->outbox) ||
                      !list_empty(&connection->client.tasks) || connection->regions.answers_due ||
                      bounds_hold(connection);
    const bool input_over =
        connection->close_when_sent || (connection->end_of_input && !connection->leftover_bytes);
    return connection->outbox.broken || (input_over && !owed);
}

static void watch(struct connection *connection)
{
    if (connection->closing)
        return;
    const uint32_t reading = may_read(connection) ? EPOLLIN : 0;
    if (!turn_watch(connection,
                    reading |
                        (connection->outbox.blocked && !connection->outbox.waits ? EPOLLOUT : 0)))
        connection_close(connection);
    else if ((reading && connection->leftover_bytes) || bounds_due(connection))
        turn_again(connection);
}

/* Close it or watch it. Called from the loop alone: a task or an upload of it may be at work
 * anywhere else. */
static void update(struct connection *connection)
{
    if (connection->closing)
        return;
    memory_recount(connection->user, &connection->counted_bytes,
                   sizeof *connection + connection->splitter.control_room +
                       connection->leftover_bytes);
    /* A half-closed peer in the middle of a message will never finish it. */
    if (connection->end_of_input && !connection->leftover_bytes && !bounds_hold(connection))
        upload_drop(&connection->upload);
    if (is_over(connection))
        connection_close(connection);
    else
        watch(connection);
}

void connection_serve(struct connection *connection, uint32_t events)
{
    if (connection->closing)
        return;
    if (events & EPOLLERR) {
        connection_close(connection);
        return;
    }
    if (events & EPOLLHUP)
        events |= connection->events; /* the call that it waits for tells */
    io_threads_meet(&connection->io->io_threads, connection);
    connection->rests = false;
    if (events & EPOLLOUT)
        outbox_write(&connection->outbox);
    if (bounds_due(connection))
        message_take(connection);
    if ((events & EPOLLIN || connection->leftover_bytes) && may_read(connection))
        read_some(connection);
    update(connection);
}

void connection_tick(struct connection *connection, uint64_t now_ns)
{
    const bool holds_passed = outbox_holds_passed(&connection->outbox);
    if (connection->closed && !holds_passed && list_empty(&connection->changed_link))
        list_push(&connection->io->closed, &connection->changed_link);
    if (connection->closing)
        return;
    outbox_check_stall(&connection->outbox, now_ns);
    const uint64_t still_ns = now_ns - connection->read_ns;
    const bool reading = connection->events & EPOLLIN;
    if (!reading)
        connection->read_ns = now_ns; /* it is we who wait: its clock stands */
    if (reading && still_ns > FLUSH_NS)
        upload_flush(&connection->upload);
    if (reading && !splitter_idle(&connection->splitter) &&
        still_ns > connection->io->config->upload_timeout_s * UINT64_C(1000000000) &&
        !has_unread(connection))
        message_fail(connection, STATUS_TIMEOUT, "the message stood still half-way for too long");
    /* The last resort: it reads nothing, and what waits for it is in its user's way. */
    if (connection->outbox.blocked && memory_is_over(connection->user) &&
        now_ns - connection->outbox.sent_ns >
            connection->io->config->upload_timeout_s * UINT64_C(1000000000))
        connection->outbox.broken = true;
    if (connection->outbox.waits)
        outbox_write(&connection->outbox);
    /* Without an event to wait for, a hang-up shows only here. */
    if (!reading && !connection->receiving && hung_up(connection)) {
        connection_close(connection);
        return;
    }
    update(connection);
}

void connection_settle(struct connection *connection)
{
    if (connection->closing) {
        connection_close(connection);
        return;
    }
    io_threads_meet(&connection->io->io_threads, connection);
    if (!connection->outbox.blocked)
        outbox_write(&connection->outbox);
    update(connection);
}

void connection_changed(struct outbox *outbox)
{
    settle_later(LIST_ENTRY(outbox, struct connection, outbox));
}

static void on_resume(struct upload *upload)
{
    settle_later(LIST_ENTRY(upload, struct connection, upload));
}

void connection_free(struct connection *connection)
{
    passing_forget(&connection->passed);
    passing_close_socket(connection->socket, &connection->user->passed);
    list_remove(&connection->link);
    USER_COUNT(connection->user, connections, -1);
    user_left(connection->user);
    memory_release(connection->user, connection->counted_bytes);
    splitter_free(&connection->splitter);
    free(connection->leftover);
    free(connection);
}

static void close_now(struct connection *connection)
{
    connection->closed = true;
    list_remove(&connection->changed_link);
    /* None finds the way back here, also not those that another one lets go as it ends. */
    LIST_EACH (struct task, task, &connection->client.tasks, client_link)
        task->client = NULL;
    bounds_release(connection);
    region_hang_up(
        &connection->regions); /* first: a task that ends may be what an unregister waits for */
    upload_drop(&connection->upload);
    outbox_close(&connection->outbox);
    LIST_DRAIN (struct task, task, &connection->client.tasks, client_link)
        task_hang_up(task);
    exports_forget(&connection->client);
    placement_forget(&connection->client);
    if (outbox_holds_passed(&connection->outbox))
        shutdown(connection->socket, SHUT_RDWR); /* connection_tick() goes on */
    else
        list_push(&connection->io->closed, &connection->changed_link);
}

void connection_close(struct connection *connection)
{
    if (connection->closed)
        return;
    connection->closing = true;
    turn_watch(connection, 0);
    if (!connection->receiving && !connection->outbox.sending_bytes)
        close_now(connection); /* else connection_settle() calls again */
}

/* May the peer connect? The last eighth of all connections is for users who have none. Sets the
 * user, where that is known; false: a line of the log says why. */
static bool may_connect(struct io *io, struct connection *connection, int descriptor)
{
    struct users *users = io->jobs->devices->users;
    const uint64_t most = io->config->max_connections, count = users->counters.connections;
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (!connection || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        !(connection->user = user_find(users, peer.uid))) {
        log_warning("a connection could not be taken: %s", strerror(errno));
        return false;
    }
    struct user *user = connection->user;
    if (count >= most)
        log_warning("a connection over the limit was closed: one of user %u, beyond "
                    "--max-connections %llu",
                    user->uid, (unsigned long long)most);
    else if (user->counters.connections && count >= reserve_most(most))
        log_warning("few connections are left; one more of user %u was closed", user->uid);
    else if (!descriptors_allow(user, descriptor, false))
        log_warning("few descriptors are left; a connection of user %u was closed", user->uid);
    else if (!turn_watch_user(io, user))
        log_warning("a connection cannot be watched: %s", strerror(errno));
    else
        return true;
    return false;
}

void connection_open(struct io *io, int descriptor)
{
    static struct passing_account strangers;
    const uint64_t begun_ns = uv_hrtime();
    struct connection *connection = calloc(1, sizeof *connection);
    if (!may_connect(io, connection, descriptor)) {
        struct user *user = connection ? connection->user : NULL;
        passing_close_socket(descriptor, user ? &user->passed : &strangers);
        free(connection);
        if (user)
            turn_charge(io, user, begun_ns);
        return;
    }
    connection->io = io;
    connection->socket = descriptor;
    connection->passed =
        (struct passed_descriptor){.account = &connection->user->passed, .descriptor = -1};
    splitter_init(&connection->splitter);
    connection->read_ns = uv_hrtime();
    /* As much as the system allows: fewer turns of the loop for a large result. */
    const int buffer_bytes = 4 << 20;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    connection->client =
        (struct client){.jobs = io->jobs, .user = connection->user, .outbox = &connection->outbox};
    connection->regions =
        (struct region_owner){.user = connection->user, .answer = message_region_answered};
    upload_init(&connection->upload, &connection->client, io->drop_buffer, on_resume);
    outbox_init(&connection->outbox, io, connection->user, descriptor);
    list_push(&io->connections, &connection->link);
    USER_COUNT(connection->user, connections, 1);
    watch(connection);
    turn_charge(io, connection->user, begun_ns);
}
