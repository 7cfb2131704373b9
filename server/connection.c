/* Happy path: readable → control bytes → splitter → (payload → slab → device)* → message → method.
 * What can go wrong: the bytes are no messages (an error, then we close); an array cannot be taken
 * (its bytes are read and dropped, the error answers the message); no slab is free (we stop reading
 * until one is); the upload stands still (its slab is flushed, later the connection is closed); the
 * peer half-closes (it still gets its replies) or hangs up (its work is cancelled). */
#include "server/connection.h"

#include "protocol/reply.h"
#include "server/device.h"
#include "server/log.h"
#include "server/method.h"
#include "server/passed.h"
#include "server/server.h"
#include "server/task.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BUDGET_BYTES = 4 << 20,  /* a turn of the loop for one connection */
    CONTROL_UNSENT_MOST = 1 << 20 /* a client that owes us this much reading is not read itself */
};
#define FLUSH_NS                                                                                   \
    UINT64_C(500000000) /* an upload that stood still this long gives its slab back                \
                         */

static struct arena *arena_of(const struct connection *connection)
{
    return &connection->server->arena;
}

/* Did the peer close both directions? An end of input alone may be a half-close. */
static bool hung_up(const struct connection *connection)
{
    struct pollfd descriptor = {.fd = connection->socket, .events = 0};
    return poll(&descriptor, 1, 0) == 1 && descriptor.revents & (POLLHUP | POLLERR);
}

/* ---- arrays that arrive ---- */

static struct arrival *arriving(struct connection *connection)
{
    return connection->arrival_count ? &connection->arrivals[connection->arrival_count - 1] : NULL;
}

static void slab_copied(struct slab *slab, void *context, bool ok)
{
    (void)ok; /* a lost worker takes the field with it, and that is what is looked at */
    arena_release(context, slab);
}

/* What has arrived of the latest array goes to its device; the slab comes back when it is there. */
static void flush(struct connection *connection)
{
    struct slab *slab = connection->slab;
    if (!slab)
        return;
    struct arrival *arrival = arriving(connection);
    connection->slab = NULL;
    if (connection->slab_fill && arrival->field && !arrival->field->lost)
        device_upload(arrival->field, arrival->placed - connection->slab_fill, slab,
                      connection->slab_fill, slab_copied, arena_of(connection));
    else
        arena_release(arena_of(connection), slab);
    connection->slab_fill = 0;
}

static void drop_arrivals(struct connection *connection)
{
    if (connection->slab) {
        arena_release(arena_of(connection), connection->slab);
        connection->slab = NULL;
        connection->slab_fill = 0;
    }
    arena_forget(&connection->slab_waiter);
    for (uint32_t i = 0; i < connection->arrival_count; i++) {
        field_release(connection->arrivals[i].field);
        connection->arrivals[i].field = NULL;
    }
    connection->arrival_count = 0;
}

/* "f", or where the array is a component, "f y". */
static void name_arrival(struct arrival *arrival, const struct splitter_payload *payload)
{
    strcpy(arrival->name, "f");
    for (int a = 0; a < AXIS_COUNT; a++)
        if (payload->name_bytes == 1 && payload->name[0] == axis_name((enum axis)a)[0])
            snprintf(arrival->name, sizeof arrival->name, "f %c", payload->name[0]);
}

/* A new array: reserve its memory before the first byte of it is taken. */
static void begin_array(struct connection *connection, const struct splitter_payload *payload)
{
    struct server *server = connection->server;
    struct failure *failure = &connection->failure;
    struct arrival *arrival = &connection->arrivals[connection->arrival_count++];
    struct array_type type;
    memset(arrival, 0, sizeof *arrival);
    arrival->payload = payload->number;
    arrival->map = payload->map;
    arrival->map_pairs = payload->map_pairs;
    name_arrival(arrival, payload);
    if (failure->code || !array_type_peek(payload, arrival->name, &type, failure))
        return;
    if (payload->list_count ? payload->bytes > type.bytes : payload->bytes != type.bytes) {
        failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name,
                    "its data has %llu bytes; its shape and type make %llu",
                    (unsigned long long)payload->bytes, (unsigned long long)type.bytes);
        return;
    }
    if (server->draining) {
        failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
        return;
    }
    /* Arrays are charged as they come, so jobs must be counted here as well. */
    if (connection->user->jobs >= server->config.max_jobs) {
        failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)connection->user->jobs + 1,
                          (double)server->config.max_jobs, "you have %llu jobs unanswered already",
                          (unsigned long long)connection->user->jobs);
        return;
    }
    arrival->expected = type.bytes;
    arrival->field = field_new(server, connection->user, &type, failure);
}

/* Is it a further bin of the list that the latest array arrives in? Not every list begins with a
 * bin. */
static bool goes_on(const struct arrival *arrival, const struct splitter_payload *payload)
{
    return arrival && payload->list_index > 0 && payload->map == arrival->map &&
           payload->map_pairs == arrival->map_pairs;
}

static void begin_payload(struct connection *connection)
{
    const struct splitter_payload *payload = &connection->splitter.payload;
    struct arrival *arrival = arriving(connection);
    if (!goes_on(arrival, payload)) {
        flush(connection); /* what the array before it left unfinished is not this one's */
        if (connection->arrival_count == CONNECTION_ARRAYS) {
            failure_set(&connection->failure, STATUS_INVALID_ARGUMENT, NULL,
                        "a message has at most %d inline arrays", CONNECTION_ARRAYS);
            /* Its bytes are dropped with the array before it, which is void now. */
            field_release(arrival->field);
            arrival->field = NULL;
            return;
        }
        begin_array(connection, payload);
        arrival = arriving(connection);
    } else if (arrival->field && payload->bytes > arrival->expected - arrival->received) {
        failure_set(&connection->failure, STATUS_INVALID_ARGUMENT, arrival->name,
                    "its list of data has more than the %llu bytes that its shape and type make",
                    (unsigned long long)arrival->expected);
        flush(connection);
        field_release(arrival->field);
        arrival->field = NULL;
    }
    arrival->received += payload->bytes;
}

/* The worker that the array was going to is gone, or the array is not wanted: read and drop. */
static bool dropping(struct connection *connection)
{
    struct arrival *arrival = arriving(connection);
    if (arrival->field && arrival->field->lost) {
        failure_set(&connection->failure, STATUS_DEVICE_LOST, NULL,
                    "the device's worker ended while the array arrived");
        field_release(arrival->field);
        arrival->field = NULL;
    }
    if (!arrival->field && connection->slab) {
        arena_release(arena_of(connection), connection->slab);
        connection->slab = NULL;
        connection->slab_fill = 0;
    }
    return !arrival->field;
}

static void on_slab(struct slab_waiter *waiter)
{
    struct connection *connection = LIST_ENTRY(waiter, struct connection, slab_waiter);
    if (!arena_take(arena_of(connection), connection->user, SHARE_UPLOAD, 1, &connection->slab))
        arena_wait(arena_of(connection), waiter);
    connection_update(connection);
}

/* Where the next payload bytes go, and how many fit there. NULL: wait for a slab. */
static void *payload_place(struct connection *connection, uint64_t due, size_t *room)
{
    struct arena *arena = arena_of(connection);
    if (dropping(connection)) {
        *room = due < SERVER_DROP_BYTES ? (size_t)due : SERVER_DROP_BYTES;
        return connection->server->drop_buffer;
    }
    if (!connection->slab &&
        !arena_take(arena, connection->user, SHARE_UPLOAD, 1, &connection->slab)) {
        arena_wait(arena, &connection->slab_waiter);
        return NULL;
    }
    const uint64_t space = arena->slab_bytes - connection->slab_fill;
    *room = (size_t)(due < space ? due : space);
    return arena_memory(arena, connection->slab) + connection->slab_fill;
}

static void payload_placed(struct connection *connection, size_t count)
{
    struct arrival *arrival = arriving(connection);
    arrival->placed += count;
    connection->user->counters.bytes_in += count;
    connection->server->totals.bytes_in += count;
    if (!connection->slab)
        return;
    connection->slab_fill += (uint32_t)count;
    if (connection->slab_fill == arena_of(connection)->slab_bytes ||
        arrival->placed == arrival->expected)
        flush(connection);
}

/* ---- messages ---- */

/* The bytes cannot be followed any further: say why, then close. */
static void protocol_failure(struct connection *connection, enum status status, const char *text)
{
    struct failure failure = {0};
    uint64_t msgid = 0;
    splitter_peek_msgid(&connection->splitter, &msgid);
    failure_set(&failure, status, NULL, "%s", text);
    connection->close_when_sent = true;
    drop_arrivals(connection);
    outbox_push_failure(connection, msgid, NULL, &failure);
}

/* The uploaded array of a payload that the request names. The reference is the caller's. */
static struct field *claim_upload(struct connection *connection, const struct array *array,
                                  struct failure *failure)
{
    for (uint32_t i = 0; i < connection->arrival_count; i++) {
        struct arrival *arrival = &connection->arrivals[i];
        if (!arrival->field || arrival->payload != array->payload_first)
            continue;
        if (arrival->received != arrival->expected) {
            failure_set(failure, STATUS_INVALID_ARGUMENT, arrival->name,
                        "its list of data has %llu bytes; its shape and type make %llu",
                        (unsigned long long)arrival->received,
                        (unsigned long long)arrival->expected);
            return NULL;
        }
        struct field *field = arrival->field;
        arrival->field = NULL;
        return field;
    }
    failure_set(failure, STATUS_PROTOCOL, "f", "its data did not arrive");
    return NULL;
}

/* Those of all its inline arrays. */
static bool claim_uploads(struct connection *connection, const struct arrays *f,
                          struct field *uploads[AXIS_COUNT], struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (f->at[i].kind == ARRAY_INLINE && f->at[i].payload_count &&
            !(uploads[i] = claim_upload(connection, &f->at[i], failure)))
            return false;
    return true;
}

static void take_message(struct connection *connection)
{
    msgpack_unpacked object;
    struct request request;
    struct failure failure = {0};
    bool has_msgid = false;
    flush(connection);
    msgpack_unpacked_init(&object);
    const bool unpacked =
        msgpack_unpack_next(&object, (const char *)connection->splitter.control,
                            connection->splitter.control_bytes, NULL) == MSGPACK_UNPACK_SUCCESS;
    bool ok = unpacked && request_decode(&object.data, &request, &has_msgid, &failure);
    if (!unpacked)
        failure_set(&failure, STATUS_PROTOCOL, NULL, "the message is no valid MessagePack");
    if (connection->failure.code) { /* why its array was dropped is what the client must know */
        failure = connection->failure;
        ok = false;
    }
    struct field *uploads[AXIS_COUNT] = {NULL};
    ok = ok && claim_uploads(connection, &request.f, uploads, &failure);
    drop_arrivals(connection);
    memset(&connection->failure, 0, sizeof connection->failure);
    const bool call = ok && !request.is_notification;
    for (int i = 0; i < AXIS_COUNT && !call; i++)
        field_release(uploads[i]);
    if (call)
        method_call(connection, &request, uploads);
    else if (!ok && has_msgid && !request.is_notification)
        outbox_push_failure(connection, request.msgid, NULL, &failure);
    else if (!ok && !has_msgid && !(unpacked && request.is_notification)) {
        /* Whoever sent this does not speak the protocol. */
        connection->close_when_sent = true;
        outbox_push_failure(connection, 0, NULL, &failure);
    }
    msgpack_unpacked_destroy(&object);
    splitter_next(&connection->splitter);
}

/* ---- reading ---- */

static bool may_read(const struct connection *connection)
{
    return !connection->closing && !connection->end_of_input && !connection->close_when_sent &&
           list_empty(&connection->slab_waiter.link) &&
           connection->outbox.control_bytes < CONTROL_UNSENT_MOST;
}

static void on_event(enum splitter_event event, struct connection *connection)
{
    if (event == SPLITTER_PAYLOAD) {
        begin_payload(connection);
        if (!splitter_payload_due(&connection->splitter)) /* an empty bin in a list */
            event = splitter_payload_done(&connection->splitter, 0);
    }
    if (event == SPLITTER_MESSAGE)
        take_message(connection);
    else if (event == SPLITTER_ERROR)
        protocol_failure(connection, STATUS_PROTOCOL, connection->splitter.error);
}

/* Bytes that were read already: hand them on as far as they may go. Returns how many were used. */
static size_t consume(struct connection *connection, const uint8_t *bytes, size_t length)
{
    struct splitter *splitter = &connection->splitter;
    size_t used = 0;
    while (used < length && may_read(connection)) {
        const uint64_t due = splitter_payload_due(splitter);
        size_t count = 0;
        if (due) {
            void *place =
                payload_place(connection, due < length - used ? due : length - used, &count);
            if (!place)
                break;
            memcpy(place, bytes + used, count);
            payload_placed(connection, count);
            on_event(splitter_payload_done(splitter, count), connection);
        } else {
            on_event(splitter_feed(splitter, bytes + used, length - used, &count), connection);
        }
        used += count;
    }
    return used;
}

/* Keep what could not be handed on; it is at most a read buffer long. */
static void keep(struct connection *connection, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = NULL;
    if (length) {
        copy = malloc(length);
        if (!copy) {
            connection->outbox.broken = true;
            length = 0;
        } else {
            memcpy(copy, bytes, length);
        }
    }
    free(connection->leftover);
    connection->leftover = copy;
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

static void read_some(struct connection *connection)
{
    struct server *server = connection->server;
    size_t budget = READ_BUDGET_BYTES;
    if (!consume_leftover(connection))
        return;
    while (budget && may_read(connection)) {
        const uint64_t due = splitter_payload_due(&connection->splitter);
        size_t room = sizeof server->read_buffer;
        void *place = due ? payload_place(connection, due, &room) : server->read_buffer;
        if (!place)
            return;
        const ssize_t n = passed_receive(connection->socket, place, room);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            connection->end_of_input = true;
            if (n < 0 || hung_up(connection))
                connection->outbox.broken = true;
            return;
        }
        connection->read_ns = uv_hrtime();
        budget -= (size_t)n < budget ? (size_t)n : budget;
        if (due) {
            payload_placed(connection, (size_t)n);
            on_event(splitter_payload_done(&connection->splitter, (uint64_t)n), connection);
        } else {
            const size_t used = consume(connection, place, (size_t)n);
            if (used < (size_t)n) {
                keep(connection, (const uint8_t *)place + used, (size_t)n - used);
                return;
            }
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    if (events & UV_WRITABLE && !connection->closing)
        outbox_write(connection);
    if ((events & UV_READABLE || connection->leftover_bytes) && may_read(connection))
        read_some(connection);
    connection_update(connection);
}

void connection_update(struct connection *connection)
{
    if (connection->closing)
        return;
    /* A half-closed peer in the middle of a message will never finish it. */
    if (connection->end_of_input && !connection->leftover_bytes && connection->arrival_count)
        drop_arrivals(connection);
    const bool owed = !outbox_empty(connection) || !list_empty(&connection->tasks);
    const bool input_over =
        connection->close_when_sent || (connection->end_of_input && !connection->leftover_bytes);
    if (outbox_broken(connection) || (input_over && !owed)) {
        connection_close(connection);
        return;
    }
    int events = 0;
    if (may_read(connection))
        events |= UV_READABLE;
    if (outbox_wants_write(connection) || (connection->leftover_bytes && may_read(connection)))
        events |= UV_WRITABLE; /* or a reason to come back at once */
    if (events == connection->events)
        return;
    connection->events = events;
    if (events)
        uv_poll_start(&connection->poll, events, on_poll);
    else
        uv_poll_stop(&connection->poll);
}

void connection_tick(struct connection *connection, uint64_t now_ns)
{
    if (connection->closing)
        return;
    outbox_check_stall(connection, now_ns);
    const uint64_t still_ns = now_ns - connection->read_ns;
    const bool reading = connection->events & UV_READABLE;
    if (!reading)
        connection->read_ns = now_ns; /* it is we who wait: its clock stands */
    if (reading && connection->slab && still_ns > FLUSH_NS)
        flush(connection);
    if (reading && !splitter_idle(&connection->splitter) &&
        still_ns > connection->server->config.upload_timeout_s * UINT64_C(1000000000))
        protocol_failure(connection, STATUS_TIMEOUT,
                         "the message stood still half-way for too long");
    /* Without an event to wait for, a hang-up shows only here. */
    if (!reading && hung_up(connection)) {
        connection_close(connection);
        return;
    }
    connection_update(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    passed_drain(connection->socket);
    close(connection->socket);
    list_remove(&connection->link);
    connection->server->connection_count--;
    connection->user->connections--;
    splitter_free(&connection->splitter);
    free(connection->leftover);
    free(connection);
}

void connection_close(struct connection *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    drop_arrivals(connection);
    outbox_close(connection);
    struct list *link;
    while ((link = list_first(&connection->tasks)))
        task_hang_up(LIST_ENTRY(link, struct task, connection_link));
    uv_poll_stop(&connection->poll);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
}

void connection_open(struct server *server, int descriptor)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        !(connection->user = user_find(server, peer.uid)) ||
        !splitter_init(&connection->splitter)) {
        log_warning("a connection could not be taken: %s", strerror(errno));
        free(connection);
        close(descriptor);
        return;
    }
    /* The last eighth is for users who have none. */
    const uint64_t most = server->config.max_connections;
    if (connection->user->connections && server->connection_count >= most - most / 8) {
        log_warning("few connections are left; one more of user %u was closed", peer.uid);
        splitter_free(&connection->splitter);
        free(connection);
        close(descriptor);
        return;
    }
    passed_refuse(descriptor);
    connection->server = server;
    connection->socket = descriptor;
    connection->read_ns = uv_hrtime();
    /* As much as the system allows: fewer turns of the loop for a large result. */
    const int buffer_bytes = 4 << 20;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    list_init(&connection->tasks);
    connection->slab_waiter = (struct slab_waiter){
        .user = connection->user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab};
    list_init(&connection->slab_waiter.link);
    outbox_init(connection);
    list_push(&server->connections, &connection->link);
    server->connection_count++;
    connection->user->connections++;
    uv_poll_init(&server->loop, &connection->poll, descriptor);
    connection->poll.data = connection;
    connection_update(connection);
}
