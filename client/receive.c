/* From the socket to the tickets: payload straight to its place, the rest through the splitter. */
#include "client/connection.h"

#include "base/rights.h"
#include "client/error.h"
#include "protocol/object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read in one receive_some(), so that it returns to a caller's loop while a server keeps
 * sending. */
#define RECEIVE_BYTES ((size_t)16 << 20)

static void incoming_drop(struct fdclient *client)
{
    free(client->incoming.data);
    client->incoming = (struct part){0};
}

/* Payload of a notification: [2, …. It is kept if there is a callback for it, and memory. */
static struct part *incoming_begin(struct fdclient *client)
{
    const struct splitter *splitter = &client->splitter;
    struct part *incoming = &client->incoming;
    struct failure failure = {0};
    if (!client->snapshot || splitter->control_bytes < 2 || splitter->control[0] != 0x93 ||
        splitter->control[1] != 2)
        return NULL;
    if (!incoming->data && incoming->received_bytes == 0 &&
        array_type_peek(&splitter->payload, "out", false, &incoming->type, &failure))
        incoming->data = malloc(incoming->type.bytes);
    if (incoming->data && splitter->payload.bytes > incoming->type.bytes - incoming->received_bytes)
        incoming_drop(client);
    return incoming->data ? incoming : NULL;
}

/* Payload comes next: decide where it goes. */
static void payload_begin(struct fdclient *client)
{
    uint64_t id;
    struct ticket *ticket = splitter_peek_msgid(&client->splitter, SPLITTER_RESPONSE, &id)
                                ? tickets_find(&client->pending, id)
                                : NULL;
    client->receiving =
        ticket ? answer_payload(ticket, &client->splitter.payload) : incoming_begin(client);
}

static void progress_take(struct fdclient *client, const msgpack_object *map)
{
    uint64_t id, done, total;
    if (object_find_unsigned(map, "msgid", &id) && object_find_unsigned(map, "done", &done) &&
        object_find_unsigned(map, "total", &total) && tickets_find(&client->pending, id))
        client->progress(client->progress_context, id, done, total);
}

/* The snapshot's array: its bytes have come as payload or stand in the message, or it is a field.
 */
static bool snapshot_array(const struct fdclient *client, const msgpack_object *out,
                           struct fdclient_array *to)
{
    const struct part *incoming = &client->incoming;
    struct array array;
    struct failure failure = {0};
    if (!array_read(out, "out", &array, &failure))
        return false;
    if (array.kind == ARRAY_FIELD) {
        to->field = array.field;
        if (!answer_field_type(out, &array.type))
            return false;
    } else if (array.kind != ARRAY_INLINE) {
        return false;
    } else if (array.payload_count == 0) {
        to->data = array.small;
    } else if (incoming->data && incoming->received_bytes == incoming->type.bytes &&
               memcmp(&incoming->type, &array.type, sizeof array.type) == 0) {
        to->data = incoming->data;
    } else {
        return false;
    }
    answer_describe(&array.type, &to->dtype, &to->dimensions, to->shape);
    return true;
}

static void snapshot_take(struct fdclient *client, const msgpack_object *map)
{
    const msgpack_object *time = object_find(map, "time"), *out = object_find(map, "out");
    struct fdclient_snapshot snapshot = {0};
    if (object_find_unsigned(map, "msgid", &snapshot.ticket) &&
        object_find_unsigned(map, "step", &snapshot.step) && time &&
        object_real(time, &snapshot.time) && out &&
        tickets_find(&client->pending, snapshot.ticket) &&
        snapshot_array(client, out, &snapshot.array))
        client->snapshot(client->snapshot_context, &snapshot);
}

static void notification_take(struct fdclient *client, const msgpack_object_array *message)
{
    const msgpack_object *what = &message->ptr[1], *about = &message->ptr[2];
    if (about->type != MSGPACK_OBJECT_ARRAY || about->via.array.size != 1)
        return;
    if (client->progress && object_is(what, "progress"))
        progress_take(client, about->via.array.ptr);
    else if (client->snapshot && object_is(what, "snapshot"))
        snapshot_take(client, about->via.array.ptr);
}

/* One whole message has come. */
static void message_take(struct fdclient *client)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    if (msgpack_unpack_next(&unpacked, (const char *)client->splitter.control,
                            client->splitter.control_bytes, &offset) != MSGPACK_UNPACK_SUCCESS) {
        connection_break(client, "the server's reply could not be unpacked");
        msgpack_unpacked_destroy(&unpacked);
        return;
    }
    const msgpack_object_array *message = &unpacked.data.via.array; /* the splitter saw to that */
    uint64_t type = UINT64_MAX, id;
    if (message->size > 0)
        object_unsigned(&message->ptr[0], &type);
    if (type == 2 && message->size == 3) {
        notification_take(client, message);
    } else if (type == 1 && message->size == 4 && object_unsigned(&message->ptr[1], &id)) {
        struct ticket *ticket = tickets_find(&client->pending, id);
        if (ticket && !ticket->replied) {
            answer_take(client, ticket, &message->ptr[2], &message->ptr[3]);
            ticket->replied = true;
            connection_settle(client, ticket);
        }
    } else {
        connection_break(client, "the server sent what is neither a reply nor a notification");
    }
    client->receiving = NULL;
    incoming_drop(client);
    msgpack_unpacked_destroy(&unpacked);
}

static enum splitter_event payload_count(struct fdclient *client, size_t bytes)
{
    if (client->receiving)
        client->receiving->received_bytes += bytes;
    return splitter_payload_done(&client->splitter, bytes);
}

static uint8_t *payload_place(const struct fdclient *client)
{
    const struct part *part = client->receiving;
    return part ? part->data + part->received_bytes : NULL;
}

static void event_take(struct fdclient *client, enum splitter_event event)
{
    if (event == SPLITTER_PAYLOAD) {
        payload_begin(client);
        if (splitter_payload_due(&client->splitter) == 0)
            event = payload_count(client, 0);
    }
    if (event == SPLITTER_MESSAGE) {
        message_take(client);
        splitter_next(&client->splitter);
    } else if (event == SPLITTER_ERROR) {
        char reason[160];
        snprintf(reason, sizeof reason, "the server's bytes cannot be followed: %s",
                 client->splitter.error);
        connection_break(client, reason);
    }
}

/* Use so many bytes of the buffer. */
static void buffer_use(struct fdclient *client, size_t count)
{
    for (size_t at = 0, used; at < count && !client->broken; at += used) {
        const uint64_t due = splitter_payload_due(&client->splitter);
        uint8_t *place = payload_place(client);
        enum splitter_event event;
        if (due > 0) {
            used = due < count - at ? (size_t)due : count - at;
            if (place)
                memcpy(place, client->buffer + at, used);
            event = payload_count(client, used);
        } else {
            event = splitter_feed(&client->splitter, client->buffer + at, count - at, &used);
        }
        event_take(client, event);
    }
}

/* Read once: payload straight to its place, and what follows it into the buffer. Bytes read, and in
 * *whole whether as many as there was room for; 0: the end; −1 with errno set. */
static ssize_t receive_once(struct fdclient *client, bool *whole)
{
    const uint64_t due = splitter_payload_due(&client->splitter);
    uint8_t *place = due > 0 ? payload_place(client) : NULL;
    const size_t direct = !place ? 0 : due < RECEIVE_BYTES ? (size_t)due : RECEIVE_BYTES;
    const bool behind = direct == 0 || direct == due;
    const size_t room = behind ? sizeof client->buffer : 0;
    struct iovec parts[2] = {{place, direct}, {client->buffer, room}};
    struct rights rights;
    const ssize_t count = rights_receive_pieces(client->socket, parts, 2, MSG_DONTWAIT, 1, &rights);
    if (count <= 0)
        return count;
    if (rights.count) {
        rights_close(client->passed);
        client->passed = rights.descriptors[0];
    }
    *whole = (size_t)count == direct + room;
    const size_t payload = (size_t)count < direct ? (size_t)count : direct;
    if (payload > 0)
        event_take(client, payload_count(client, payload));
    buffer_use(client, (size_t)count - payload);
    return count;
}

void receive_some(struct fdclient *client)
{
    size_t bytes = 0;
    /* After a short read nothing is left: another call would return nothing. */
    for (bool whole = true; whole && bytes < RECEIVE_BYTES && !client->broken;) {
        const ssize_t count = receive_once(client, &whole);
        if (count > 0) {
            bytes += (size_t)count;
        } else if (count == 0) {
            connection_break(client,
                             splitter_idle(&client->splitter)
                                 ? "the server closed the connection"
                                 : "the server closed the connection in the middle of a reply");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
            return;
        } else {
            connection_break(client, strerror(errno));
        }
    }
}
