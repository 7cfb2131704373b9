/* submit → route → outgoing → socket … socket → splitter → reply → ticket complete → next.
 *
 * Arrays in regions are not on the socket. The pool that ordinary arrays go through grows behind
 * the jobs: one that finds no room in it goes over the socket, and what it lacked is registered for
 * those that follow (but for the first one's, who may be the only one), by a ticket that the caller
 * never sees.
 *
 * What can go wrong: the connection ends at any byte (every ticket then ends with that error); a
 * reply comes before its request is wholly sent (the ticket is complete when both are, since the
 * array is borrowed until then); a reply's payload does not fit its place (it is read and dropped,
 * so that the replies behind it still arrive). */
#include "client/fdclient.h"

#include "client/connect.h"
#include "client/error.h"
#include "client/json_write.h"
#include "client/outgoing.h"
#include "client/region.h"
#include "client/route.h"
#include "protocol/array.h"
#include "protocol/object.h"
#include "protocol/reply.h"
#include "protocol/splitter.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10)
/* Read in one fdclient_process(), so that it returns to a caller's loop while a server keeps
 * sending. */
#define PROCESS_BYTES ((size_t)16 << 20)

/* Of one reply beside its payload: `list` of 65,536 fields. Memory is taken as it is touched. */
enum { REPLY_CONTROL_BYTES = 16 << 20, REPLY_ELEMENTS = 1 << 20 };

/* Arrays from here up go through the pool. The copies cost less than the socket already below, but
 * not by enough to keep memory for it. */
#define POOL_ARRAY_BYTES ((size_t)64 << 10)
/* Of the pool. Each of its regions stays in RAM. */
#define POOL_BYTES ((size_t)1 << 30)

enum answer { ANSWER_ARRAY, ANSWER_FIELD, ANSWER_NOTHING, ANSWER_JSON, ANSWER_REGION };

struct ticket {
    struct ticket *next;
    uint64_t id; /* its msgid */
    enum answer answer;
    struct fdclient_result *results; /* borrowed; NULL where the answer holds nothing */
    uint32_t result_count;
    struct outgoing out;
    struct route route;
    struct region *region; /* ANSWER_REGION */
    bool internal;         /* the caller does not know of it */
    bool replied, failed;
    struct part {
        bool has_type; /* the header of the reply's array was read, and memory found for it: */
        struct array_type type;
        uint64_t received_bytes; /* of its payload */
    } parts[FDCLIENT_AXES];      /* of a vector field by component, else the first */
    struct fdclient_error error;
};

struct tickets {
    struct ticket *first, **end;
};

struct fdclient {
    int socket;
    uint64_t last_id;
    struct tickets pending; /* in the order of submission */
    struct tickets done;    /* in the order of completion */
    struct splitter splitter;
    struct ticket *receiving; /* whose payload is due; NULL: drop it */
    uint32_t component;       /* of it */
    size_t from, to;          /* bytes in the buffer that are not used yet */
    bool broken;
    struct fdclient_error cause; /* of the break */
    struct region *regions;
    size_t pool_array_bytes; /* SIZE_MAX: none goes through the pool */
    size_t pool_bytes;       /* of its regions */
    bool by_region;          /* wait for room in the pool rather than take the socket */
    bool lacked;             /* a job found no room in the pool: the next such one makes it grow */
    bool refused;            /* the server took a region no more: the pool does not grow */
    struct fdclient_error refusal;
    fdclient_progress *progress;
    void *progress_context;
    uint8_t buffer[READ_BYTES];
};

static void tickets_init(struct tickets *tickets)
{
    tickets->first = NULL;
    tickets->end = &tickets->first;
}

static void tickets_add(struct tickets *tickets, struct ticket *ticket)
{
    ticket->next = NULL;
    *tickets->end = ticket;
    tickets->end = &ticket->next;
}

static struct ticket *tickets_find(const struct tickets *tickets, uint64_t id)
{
    struct ticket *ticket = tickets->first;
    while (ticket && ticket->id != id)
        ticket = ticket->next;
    return ticket;
}

static void tickets_remove(struct tickets *tickets, struct ticket *ticket)
{
    struct ticket **link = &tickets->first;
    while (*link != ticket)
        link = &(*link)->next;
    *link = ticket->next;
    if (tickets->end == &ticket->next)
        tickets->end = link;
}

static void ticket_free(struct ticket *ticket)
{
    outgoing_free(&ticket->out);
    free(ticket);
}

/* The first error stays: it is the cause. What was allocated for the result is given up. */
static void ticket_fail(struct ticket *ticket, const struct fdclient_error *error)
{
    if (ticket->failed)
        return;
    ticket->failed = true;
    ticket->error = *error;
    for (uint32_t i = 0; i < ticket->result_count; i++)
        if (ticket->results[i].allocated) {
            free(ticket->results[i].data);
            ticket->results[i].data = NULL;
            ticket->results[i].allocated = false;
        }
}

/* `register` was answered, or never will be. */
static void region_asked(struct fdclient *client, struct ticket *ticket)
{
    struct region *region = ticket->region;
    close(region->descriptor); /* the server has its own */
    region->descriptor = -1;
    if (!ticket->failed)
        return;
    region->state = REGION_REFUSED;
    if (region->pooled) {
        client->refused = true;
        client->refusal = ticket->error;
    }
}

/* A worker that was started anew may have been unable to map a region again: jobs that name it fail
 * so ever after. */
static void pool_doubt(const struct ticket *ticket)
{
    if (!ticket->failed || (strcmp(ticket->error.code, "INTERNAL") != 0 &&
                            strcmp(ticket->error.code, "OUT_OF_MEMORY") != 0))
        return;
    for (int i = 0; i < FDCLIENT_AXES; i++) {
        if (ticket->route.in[i].pooled)
            ticket->route.in[i].pooled->state = REGION_SPENT;
        if (ticket->route.out[i].pooled)
            ticket->route.out[i].pooled->state = REGION_SPENT;
    }
}

/* The ticket leaves those that are under way. */
static void complete(struct fdclient *client, struct ticket *ticket)
{
    tickets_remove(&client->pending, ticket);
    pool_doubt(ticket);
    route_release(&ticket->route);
    if (ticket->region)
        region_asked(client, ticket);
    if (ticket->internal)
        ticket_free(ticket);
    else
        tickets_add(&client->done, ticket);
}

static void complete_if_done(struct fdclient *client, struct ticket *ticket)
{
    if (ticket->replied && outgoing_done(&ticket->out))
        complete(client, ticket);
}

/* Nothing more will come: every ticket that has no reply ends with the cause. */
static void connection_break(struct fdclient *client, const char *reason)
{
    if (client->broken)
        return;
    client->broken = true;
    client->receiving = NULL;
    error_set(&client->cause, ERROR_CONNECTION, "", "%s", reason);
    for (struct ticket *ticket; (ticket = client->pending.first);) {
        if (!ticket->replied)
            ticket_fail(ticket, &client->cause);
        complete(client, ticket);
    }
}

/* --- receiving ------------------------------------------------------------------------------- */

static void bad_reply(struct ticket *ticket, const char *reason)
{
    struct fdclient_error error;
    error_set(&error, ERROR_CONNECTION, "", "the server's reply makes no sense: %s", reason);
    ticket_fail(ticket, &error);
}

/* The ticket of the response [1, msgid, … whose first bytes are these; NULL where there is none. */
static struct ticket *ticket_of(struct fdclient *client, const uint8_t *bytes, size_t length)
{
    if (length < 3 || bytes[0] != 0x94 || bytes[1] != 1)
        return NULL;
    const uint8_t first = bytes[2];
    if (first <= 0x7f)
        return tickets_find(&client->pending, first);
    if (first < 0xcc || first > 0xcf)
        return NULL;
    const size_t integer_bytes = (size_t)1 << (first - 0xcc);
    uint64_t id = 0;
    for (size_t i = 0; i < integer_bytes && 3 + i < length; i++)
        id = id << 8 | bytes[3 + i];
    return tickets_find(&client->pending, id);
}

/* Has the caller a place for the component? Else the ticket fails. */
static bool has_place(struct ticket *ticket, uint32_t component)
{
    struct fdclient_error error;
    if (component < ticket->result_count)
        return true;
    error_set(&error, "TOO_LARGE", "result",
              "the result is a vector field, and there is no room for its component %s",
              axis_name((enum axis)component));
    ticket_fail(ticket, &error);
    return false;
}

/* Find memory for an array of that type. */
static void result_prepare(struct ticket *ticket, uint32_t component, const struct array_type *type)
{
    struct fdclient_error error;
    if (ticket->failed || !has_place(ticket, component))
        return;
    struct fdclient_result *result = &ticket->results[component];
    if (result->data && type->bytes > result->capacity) {
        error_set(&error, "TOO_LARGE", "result",
                  "the result has %" PRIu64 " bytes, and there is room for %zu", type->bytes,
                  result->capacity);
        error.has_limit = true;
        error.need = (double)type->bytes;
        error.limit = (double)result->capacity;
        ticket_fail(ticket, &error);
        return;
    }
    if (!result->data) {
        result->data = malloc(type->bytes);
        result->allocated = result->data != NULL;
    }
    if (!result->data) {
        error_set(&error, "OUT_OF_MEMORY", "result", "no memory for a result of %" PRIu64 " bytes",
                  type->bytes);
        ticket_fail(ticket, &error);
        return;
    }
    ticket->parts[component].type = *type;
    ticket->parts[component].has_type = true;
}

static void result_describe(struct fdclient_result *result, const struct array_type *type)
{
    result->dtype = type->dtype == DTYPE_F64 ? FDCLIENT_F64 : FDCLIENT_F32;
    result->dimensions = type->dimensions;
    memcpy(result->shape, type->shape, sizeof result->shape);
    result->bytes = type->bytes;
}

/* Which component of a vector field, by the key that the array stands under; 0 where it is none. */
static uint32_t payload_component(const struct splitter_payload *payload)
{
    for (uint32_t i = 0; i < FDCLIENT_AXES; i++)
        if (payload->name_bytes == 1 && payload->name[0] == axis_name((enum axis)i)[0])
            return i;
    return 0;
}

/* Payload comes next: decide where it goes. */
static void payload_begin(struct fdclient *client)
{
    const struct splitter_payload *payload = &client->splitter.payload;
    struct ticket *ticket =
        ticket_of(client, client->splitter.control, client->splitter.control_bytes);
    client->receiving = NULL;
    client->component = payload_component(payload);
    if (!ticket || ticket->replied || ticket->answer != ANSWER_ARRAY || ticket->failed)
        return;
    struct part *part = &ticket->parts[client->component];
    if (!part->has_type) {
        struct array_type type;
        struct failure failure = {0};
        if (!array_type_peek(payload, "out", &type, &failure))
            bad_reply(ticket, failure.message);
        else
            result_prepare(ticket, client->component, &type);
    }
    if (ticket->failed)
        return;
    if (payload->bytes > part->type.bytes - part->received_bytes)
        bad_reply(ticket, "more data than its shape says");
    else
        client->receiving = ticket;
}

/* The type and shape beside a field's id, where the server gives them. */
static void field_describe(struct fdclient_result *result, const msgpack_object *out)
{
    const msgpack_object *dtype = object_find(out, "type"), *shape = object_find(out, "shape");
    if (!dtype || !shape || shape->type != MSGPACK_OBJECT_ARRAY ||
        shape->via.array.size > FDCLIENT_DIMENSIONS)
        return;
    struct array_type type = {.dtype = object_is(dtype, "<f8") ? DTYPE_F64 : DTYPE_F32,
                              .dimensions = shape->via.array.size};
    type.bytes = type.dtype == DTYPE_F64 ? 8 : 4;
    for (uint32_t i = 0; i < type.dimensions; i++)
        if (!object_unsigned(&shape->via.array.ptr[i], &type.shape[i]) ||
            __builtin_mul_overflow(type.bytes, type.shape[i], &type.bytes))
            return;
    result_describe(result, &type);
}

/* A result that lies in a region: where the caller wants it, or in the pool. */
static void region_take(struct ticket *ticket, uint32_t component, const struct array *array)
{
    const struct way *way = &ticket->route.out[component];
    if (component >= ticket->route.outs || array->region != way->region ||
        array->offset != way->offset || array->type.bytes == 0 ||
        (way->pooled && array->type.bytes > way->pooled->bytes)) {
        bad_reply(ticket, "a place in a region that was not asked for");
        return;
    }
    result_prepare(ticket, component, &array->type);
    if (ticket->failed)
        return;
    if (way->pooled)
        memcpy(ticket->results[component].data, way->pooled->memory, array->type.bytes);
    result_describe(&ticket->results[component], &array->type);
}

static void array_take(struct ticket *ticket, uint32_t component, const struct array *array,
                       const msgpack_object *object)
{
    const struct part *part = &ticket->parts[component];
    if (array->kind == ARRAY_REGION) {
        region_take(ticket, component, array);
        return;
    }
    if (array->kind == ARRAY_FIELD) {
        if (has_place(ticket, component)) {
            ticket->results[component].field = array->field;
            field_describe(&ticket->results[component], object);
        }
        return;
    }
    if (array->payload_count > 0) {
        if (!part->has_type || part->received_bytes != part->type.bytes ||
            memcmp(&part->type, &array->type, sizeof array->type) != 0) {
            bad_reply(ticket, "less data than its shape says");
            return;
        }
    } else {
        if (part->has_type) {
            bad_reply(ticket, "data beside its array");
            return;
        }
        result_prepare(ticket, component, &array->type);
        if (ticket->failed)
            return;
        memcpy(ticket->results[component].data, array->small, array->type.bytes);
    }
    result_describe(&ticket->results[component], &array->type);
}

/* An array, or a map of them by axis. */
static void out_take(struct ticket *ticket, const msgpack_object *out)
{
    struct arrays arrays;
    struct failure failure = {0};
    if (!out || !arrays_read(out, "out", &arrays, &failure)) {
        bad_reply(ticket, out ? failure.message : "it has no \"out\"");
        return;
    }
    for (uint32_t i = 0; i < FDCLIENT_AXES && !ticket->failed; i++) {
        const char *axis = axis_name((enum axis)i);
        if (arrays.at[i].kind != ARRAY_NONE)
            array_take(ticket, i, &arrays.at[i], arrays.is_vector ? object_find(out, axis) : out);
        else if (ticket->parts[i].has_type)
            bad_reply(ticket, "data beside its array");
    }
}

static void json_take(struct ticket *ticket, const msgpack_object *object)
{
    size_t length;
    FILE *text = open_memstream(&ticket->results->json, &length);
    if (text)
        json_write(text, object, 0);
    if (text && fclose(text) == 0)
        return;
    struct fdclient_error error;
    error_set(&error, "OUT_OF_MEMORY", "result", "no memory for the answer's text");
    ticket_fail(ticket, &error);
}

static void reply_take(struct ticket *ticket, const msgpack_object *error,
                       const msgpack_object *result)
{
    if (error->type != MSGPACK_OBJECT_NIL) {
        struct failure failure;
        struct fdclient_error read;
        reply_read_failure(error, &failure);
        error_from_failure(&read, &failure);
        /* A field that does not fit its place, said as for one that comes over the socket. */
        if (ticket->route.outs && read.has_limit && strncmp(read.parameter, "out", 3) == 0 &&
            strcmp(read.code, "INVALID_ARGUMENT") == 0) {
            strcpy(read.code, "TOO_LARGE");
            strcpy(read.parameter, "result");
        }
        ticket_fail(ticket, &read);
        return;
    }
    if (ticket->failed)
        return;
    switch (ticket->answer) {
    case ANSWER_ARRAY:
        out_take(ticket, object_find(result, "out"));
        return;
    case ANSWER_FIELD: {
        const msgpack_object *field = object_find(result, "field");
        if (!field || !object_unsigned(field, &ticket->results->field))
            bad_reply(ticket, "it has no \"field\"");
        return;
    }
    case ANSWER_JSON:
        json_take(ticket, result);
        return;
    case ANSWER_REGION: {
        const msgpack_object *id = object_find(result, "region");
        if (id && object_unsigned(id, &ticket->region->id) && ticket->region->id)
            ticket->region->state = REGION_READY;
        else
            bad_reply(ticket, "it has no \"region\"");
        return;
    }
    case ANSWER_NOTHING:
        return;
    }
}

static void notification_take(struct fdclient *client, const msgpack_object_array *message)
{
    if (!object_is(&message->ptr[1], "progress") || !client->progress ||
        message->ptr[2].type != MSGPACK_OBJECT_ARRAY || message->ptr[2].via.array.size != 1)
        return;
    const msgpack_object *map = message->ptr[2].via.array.ptr;
    const msgpack_object *id = object_find(map, "msgid"), *done = object_find(map, "done"),
                         *total = object_find(map, "total");
    uint64_t values[3];
    if (id && done && total && object_unsigned(id, &values[0]) &&
        object_unsigned(done, &values[1]) && object_unsigned(total, &values[2]) &&
        tickets_find(&client->pending, values[0]))
        client->progress(client->progress_context, values[0], values[1], values[2]);
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
            reply_take(ticket, &message->ptr[2], &message->ptr[3]);
            ticket->replied = true;
            complete_if_done(client, ticket);
        }
    } else {
        connection_break(client, "the server sent what is neither a reply nor a notification");
    }
    client->receiving = NULL;
    msgpack_unpacked_destroy(&unpacked);
}

static enum splitter_event payload_count(struct fdclient *client, size_t bytes)
{
    if (client->receiving)
        client->receiving->parts[client->component].received_bytes += bytes;
    return splitter_payload_done(&client->splitter, bytes);
}

static uint8_t *payload_place(const struct fdclient *client)
{
    const struct ticket *ticket = client->receiving;
    return ticket ? (uint8_t *)ticket->results[client->component].data +
                        ticket->parts[client->component].received_bytes
                  : NULL;
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

/* Use what is in the buffer. */
static void buffer_use(struct fdclient *client)
{
    while (client->from < client->to && !client->broken) {
        const uint64_t due = splitter_payload_due(&client->splitter);
        size_t used = client->to - client->from;
        enum splitter_event event;
        if (due > 0) {
            uint8_t *place = payload_place(client);
            if (used > due)
                used = (size_t)due;
            if (place)
                memcpy(place, client->buffer + client->from, used);
            event = payload_count(client, used);
        } else {
            event = splitter_feed(&client->splitter, client->buffer + client->from, used, &used);
        }
        client->from += used;
        event_take(client, event);
    }
    client->from = client->to = 0;
}

/* Read once: payload straight to its place, and what follows it into the buffer. Bytes read; 0: the
 * end; −1 with errno set. */
static ssize_t read_once(struct fdclient *client)
{
    const uint64_t due = splitter_payload_due(&client->splitter);
    uint8_t *place = due > 0 ? payload_place(client) : NULL;
    const size_t direct = !place ? 0 : due < PROCESS_BYTES ? (size_t)due : PROCESS_BYTES;
    struct iovec parts[2] = {{place, direct}, {client->buffer, sizeof client->buffer}};
    struct msghdr message = {.msg_iov = direct > 0 ? parts : parts + 1,
                             .msg_iovlen = direct == 0 || direct < due ? 1 : 2};
    const ssize_t count = recvmsg(client->socket, &message, MSG_DONTWAIT);
    if (count <= 0)
        return count;
    const size_t payload = (size_t)count < direct ? (size_t)count : direct;
    client->to = (size_t)count - payload;
    if (payload > 0)
        event_take(client, payload_count(client, payload));
    buffer_use(client);
    return count;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void read_some(struct fdclient *client)
{
    for (size_t bytes = 0; bytes < PROCESS_BYTES && !client->broken;) {
        const ssize_t count = read_once(client);
        if (count > 0) {
            bytes += (size_t)count;
        } else if (count == 0) {
            connection_break(client,
                             splitter_idle(&client->splitter)
                                 ? "the server closed the connection"
                                 : "the server closed the connection in the middle of a reply");
        } else if (would_block()) {
            return;
        } else {
            connection_break(client, strerror(errno));
        }
    }
}

/* --- sending --------------------------------------------------------------------------------- */

static struct ticket *unsent(const struct fdclient *client)
{
    struct ticket *ticket = client->pending.first;
    while (ticket && outgoing_done(&ticket->out))
        ticket = ticket->next;
    return ticket;
}

/* Send what the socket takes. False: it takes nothing any more (errno says why). */
static bool write_some(struct fdclient *client)
{
    size_t bytes = 0;
    for (struct ticket *ticket = unsent(client), *next; ticket; ticket = next) {
        next = ticket->next;
        while (!outgoing_done(&ticket->out)) {
            if (bytes >= PROCESS_BYTES)
                return true;
            const ssize_t sent = outgoing_send(&ticket->out, client->socket);
            if (sent < 0)
                return would_block();
            bytes += (size_t)sent;
        }
        complete_if_done(client, ticket);
    }
    return true;
}

/* --- what the header promises ---------------------------------------------------------------- */

static bool transport_read(struct fdclient *client, struct fdclient_error *error)
{
    const char *transport = getenv("FDCLIENT_TRANSPORT");
    client->pool_array_bytes = POOL_ARRAY_BYTES;
    if (!transport || !*transport)
        return true;
    client->by_region = strcmp(transport, "region") == 0;
    client->pool_array_bytes = client->by_region ? 1 : SIZE_MAX;
    return client->by_region || strcmp(transport, "socket") == 0 ||
           error_set(error, "INVALID_ARGUMENT", "FDCLIENT_TRANSPORT",
                     "FDCLIENT_TRANSPORT is socket or region; got '%.40s'", transport);
}

struct fdclient *fdclient_open(const char *address, struct fdclient_error *error)
{
    struct fdclient *client = calloc(1, sizeof *client);
    if (!client || !splitter_init_limits(&client->splitter, REPLY_CONTROL_BYTES, REPLY_ELEMENTS)) {
        free(client);
        error_set(error, "OUT_OF_MEMORY", "", "no memory for a connection");
        return NULL;
    }
    tickets_init(&client->pending);
    tickets_init(&client->done);
    client->socket = -1;
    if (transport_read(client, error))
        client->socket = connect_open(address, error);
    if (client->socket < 0) {
        fdclient_close(client);
        return NULL;
    }
    return client;
}

void fdclient_close(struct fdclient *client)
{
    if (!client)
        return;
    connection_break(client, "the connection was closed");
    for (struct ticket *ticket = client->done.first, *next; ticket; ticket = next) {
        next = ticket->next;
        ticket_free(ticket);
    }
    for (struct region *region = client->regions, *next; region; region = next) {
        next = region->next;
        region_free(region);
    }
    if (client->socket >= 0)
        close(client->socket);
    splitter_free(&client->splitter);
    free(client);
}

static enum answer answer_of(const char *method, const struct fdclient_array *f)
{
    if (strcmp(method, "put") == 0)
        return ANSWER_FIELD;
    if (strcmp(method, "free") == 0)
        return ANSWER_NOTHING;
    return f ? ANSWER_ARRAY : ANSWER_JSON;
}

/* Forget what an earlier use left in the result, but for the place that the caller gave. */
static void result_clear(struct fdclient_result *result)
{
    void *data = result->capacity > 0 ? result->data : NULL;
    const size_t capacity = data ? result->capacity : 0;
    *result = (struct fdclient_result){.data = data, .capacity = capacity};
}

/* --- regions --------------------------------------------------------------------------------- */

static void ticket_begin(struct fdclient *client, struct ticket *ticket)
{
    client->last_id = ticket->id;
    const bool first = unsent(client) == NULL;
    tickets_add(&client->pending, ticket);
    if (first)
        write_some(client); /* a failure here shows again in fdclient_process() */
}

/* Until something can be read or written. A signal ends it, too. */
static void wait_for_socket(const struct fdclient *client)
{
    struct pollfd wait = {client->socket, fdclient_events(client), 0};
    poll(&wait, 1, -1);
}

static struct ticket *ticket_internal(const struct fdclient *client, enum answer answer)
{
    struct ticket *ticket = calloc(1, sizeof *ticket);
    if (ticket) {
        ticket->id = client->last_id + 1;
        ticket->answer = answer;
        ticket->internal = true;
    }
    return ticket;
}

/* A new region, asked for. NULL: no memory. */
static struct region *region_ask(struct fdclient *client, size_t bytes, bool pooled)
{
    struct region *region = region_make(bytes, pooled);
    struct ticket *ticket = region ? ticket_internal(client, ANSWER_REGION) : NULL;
    if (!ticket || !outgoing_init_register(&ticket->out, ticket->id, region)) {
        free(ticket);
        if (region)
            region_free(region);
        return NULL;
    }
    ticket->region = region;
    region->next = client->regions;
    client->regions = region;
    client->pool_bytes += pooled ? bytes : 0;
    ticket_begin(client, ticket);
    return region;
}

static void region_await(struct fdclient *client, struct region *region)
{
    while (region->state == REGION_ASKED && fdclient_process(client, NULL))
        if (region->state == REGION_ASKED)
            wait_for_socket(client);
}

/* The region's memory goes; no job uses it. */
static void region_drop(struct fdclient *client, struct region *region)
{
    struct region **link = &client->regions;
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    client->pool_bytes -= region->pooled ? region->bytes : 0;
    struct ticket *ticket =
        region->id && !client->broken ? ticket_internal(client, ANSWER_NOTHING) : NULL;
    if (ticket && outgoing_init_unregister(&ticket->out, ticket->id, region->id))
        ticket_begin(client, ticket);
    else
        free(ticket); /* it goes with the connection */
    region_free(region);
}

/* Make room for so many bytes more in the pool, of what is idle. */
static bool pool_make_room(struct fdclient *client, size_t bytes)
{
    if (bytes > POOL_BYTES)
        return false;
    for (struct region *region = client->regions, *next; region; region = next) {
        if (client->pool_bytes <= POOL_BYTES - bytes)
            return true;
        next = region->next;
        if (region->pooled && !region->busy && region->state != REGION_ASKED)
            region_drop(client, region);
    }
    return client->pool_bytes <= POOL_BYTES - bytes;
}

static void pool_drop_spent(struct fdclient *client)
{
    for (struct region *region = client->regions, *next; region; region = next) {
        next = region->next;
        if (region->state == REGION_SPENT && !region->busy)
            region_drop(client, region);
    }
}

/* Ask for what a job did not find in the pool, less what is on its way already. */
static void pool_grow(struct fdclient *client, size_t bytes, uint32_t count)
{
    const size_t size = region_pool_bytes(bytes);
    for (struct region *region = client->regions; region && count; region = region->next)
        count -= region->pooled && region->state == REGION_ASKED && region->bytes == size;
    while (count-- && !client->refused && pool_make_room(client, size))
        if (!region_ask(client, size, true))
            return;
}

/* Which way the job's arrays go. False: only by regions, and there are none. */
static bool job_route(struct fdclient *client, struct route *route, const struct routed *job,
                      struct fdclient_error *error)
{
    size_t missing_bytes;
    uint32_t missing_count;
    pool_drop_spent(client);
    for (;;) {
        route_choose(route, job, client->regions, client->pool_array_bytes, &missing_bytes,
                     &missing_count);
        if (!missing_count)
            return true;
        /* Who has one job to run is spared the pool. */
        const bool first = !client->lacked;
        client->lacked = true;
        if (first && !client->by_region)
            return true;
        const bool was_refused = client->refused;
        pool_grow(client, missing_bytes, missing_count);
        if (!client->by_region)
            return true;
        route_release(route);
        if (was_refused) {
            if (error)
                *error = client->refusal;
            return false;
        }
        struct region *asked = client->regions;
        while (asked && asked->state != REGION_ASKED)
            asked = asked->next;
        if (!asked && !client->refused)
            return error_set(error, "OVER_BUDGET", "",
                             "the jobs under way use the %zu bytes of regions that a client has",
                             POOL_BYTES);
        if (asked)
            region_await(client, asked);
        if (client->broken) {
            if (error)
                *error = client->cause;
            return false;
        }
    }
}

void *fdclient_alloc(struct fdclient *client, size_t bytes)
{
    const bool by_socket = client->pool_array_bytes == SIZE_MAX;
    struct region *region;
    if (bytes == 0)
        return NULL;
    if (client->broken || by_socket) {
        region = region_make(bytes, false);
        if (!region)
            return NULL;
        region->state = REGION_REFUSED;
        region->next = client->regions;
        client->regions = region;
    } else {
        region = region_ask(client, bytes, false);
        if (!region)
            return NULL;
        region_await(client, region);
    }
    return region->memory;
}

void fdclient_dealloc(struct fdclient *client, void *memory)
{
    for (struct region *region = client->regions; memory && region; region = region->next)
        if (region->memory == memory && !region->pooled) {
            region_drop(client, region);
            return;
        }
}

bool fdclient_submit_vector(struct fdclient *client, const char *method,
                            const struct fdclient_array *f, uint32_t f_count,
                            const struct fdclient_params *params, struct fdclient_result *results,
                            uint32_t result_count, uint64_t *ticket_id,
                            struct fdclient_error *error)
{
    const enum answer answer = answer_of(method, f);
    if (client->broken) {
        if (error)
            *error = client->cause;
        return false;
    }
    if (answer != ANSWER_NOTHING && (!results || result_count == 0))
        return error_set(error, "INVALID_ARGUMENT", "result", "there is no place for the result");
    struct routed job = {.method = method,
                         .f = f,
                         .f_count = f_count,
                         .params = params,
                         .results = results,
                         .result_count = results ? result_count : 0};
    if (!outgoing_bytes(method, f, f_count, job.f_bytes, error))
        return false;
    struct ticket *ticket = calloc(1, sizeof *ticket);
    if (!ticket)
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    for (uint32_t i = 0; i < job.result_count; i++)
        result_clear(&results[i]);
    const bool routed = job_route(client, &ticket->route, &job, error);
    ticket->id = client->last_id + 1; /* the pool may have had some */
    ticket->answer = answer;
    ticket->results = results;
    ticket->result_count = job.result_count;
    if (!routed || !outgoing_init(&ticket->out, ticket->id, method, f, f_count, params,
                                  &ticket->route, error)) {
        route_release(&ticket->route);
        free(ticket);
        return false;
    }
    *ticket_id = ticket->id;
    ticket_begin(client, ticket);
    return true;
}

bool fdclient_cancel(struct fdclient *client, uint64_t ticket_id, struct fdclient_error *error)
{
    if (tickets_find(&client->done, ticket_id))
        return true;
    if (!tickets_find(&client->pending, ticket_id))
        return error_set(error, "INVALID_ARGUMENT", "ticket", "no such ticket is under way");
    struct ticket *ticket = ticket_internal(client, ANSWER_NOTHING);
    if (!ticket || !outgoing_init_cancel(&ticket->out, ticket->id, ticket_id)) {
        free(ticket);
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    }
    ticket_begin(client, ticket);
    return true;
}

bool fdclient_submit(struct fdclient *client, const char *method, const struct fdclient_array *f,
                     const struct fdclient_params *params, struct fdclient_result *result,
                     uint64_t *ticket, struct fdclient_error *error)
{
    return fdclient_submit_vector(client, method, f, 1, params, result, 1, ticket, error);
}

int fdclient_descriptor(const struct fdclient *client)
{
    return client->socket;
}

short fdclient_events(const struct fdclient *client)
{
    return (short)(client->broken ? 0 : unsent(client) ? POLLIN | POLLOUT : POLLIN);
}

bool fdclient_process(struct fdclient *client, struct fdclient_error *error)
{
    if (!client->broken) {
        const bool writable = write_some(client);
        const int reason = errno;
        read_some(client); /* even then: the server may have said why before it hung up */
        if (!writable)
            connection_break(client, reason == EPIPE || reason == ECONNRESET
                                         ? "the server closed the connection"
                                         : strerror(reason));
    }
    if (client->broken && error)
        *error = client->cause;
    return !client->broken;
}

/* Take a ticket out of those that are done. */
static bool done_take(struct fdclient *client, struct ticket *ticket, struct fdclient_error *error)
{
    const bool succeeded = !ticket->failed;
    if (error)
        *error = ticket->error;
    tickets_remove(&client->done, ticket);
    ticket_free(ticket);
    return succeeded;
}

int fdclient_next(struct fdclient *client, uint64_t *ticket, struct fdclient_error *error)
{
    struct ticket *first = client->done.first;
    if (!first)
        return 0;
    *ticket = first->id;
    return done_take(client, first, error) ? 1 : -1;
}

bool fdclient_wait(struct fdclient *client, uint64_t ticket, struct fdclient_error *error)
{
    if (!tickets_find(&client->pending, ticket) && !tickets_find(&client->done, ticket))
        return error_set(error, "INVALID_ARGUMENT", "ticket", "no such ticket is under way");
    for (;;) {
        struct ticket *done = tickets_find(&client->done, ticket);
        if (done)
            return done_take(client, done, error);
        fdclient_process(client, NULL); /* a break completes the ticket, too */
        if (!tickets_find(&client->done, ticket))
            wait_for_socket(client);
    }
}

static bool submit_and_wait(struct fdclient *client, const char *method,
                            const struct fdclient_array *f, const struct fdclient_params *params,
                            struct fdclient_result *result, struct fdclient_error *error)
{
    uint64_t ticket;
    return fdclient_submit(client, method, f, params, result, &ticket, error) &&
           fdclient_wait(client, ticket, error);
}

bool fdclient_run(struct fdclient *client, const char *operator_name,
                  const struct fdclient_array *f, const struct fdclient_params *params,
                  struct fdclient_result *result, struct fdclient_error *error)
{
    return submit_and_wait(client, operator_name, f, params, result, error);
}

bool fdclient_run_vector(struct fdclient *client, const char *operator_name,
                         const struct fdclient_array *f, uint32_t f_count,
                         const struct fdclient_params *params, struct fdclient_result *results,
                         uint32_t result_count, struct fdclient_error *error)
{
    uint64_t ticket;
    return fdclient_submit_vector(client, operator_name, f, f_count, params, results, result_count,
                                  &ticket, error) &&
           fdclient_wait(client, ticket, error);
}

bool fdclient_put(struct fdclient *client, const struct fdclient_array *f, uint64_t *field,
                  struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done = submit_and_wait(client, "put", f, NULL, &result, error);
    *field = result.field;
    return done;
}

bool fdclient_get(struct fdclient *client, uint64_t field, struct fdclient_result *result,
                  struct fdclient_error *error)
{
    const struct fdclient_array f = {.field = field};
    return submit_and_wait(client, "get", &f, NULL, result, error);
}

bool fdclient_free(struct fdclient *client, uint64_t field, struct fdclient_error *error)
{
    const struct fdclient_array f = {.field = field};
    return submit_and_wait(client, "free", &f, NULL, NULL, error);
}

bool fdclient_call(struct fdclient *client, const char *method, char **json,
                   struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done = submit_and_wait(client, method, NULL, NULL, &result, error);
    *json = result.json;
    return done;
}

void fdclient_on_progress(struct fdclient *client, fdclient_progress *call, void *context)
{
    client->progress = call;
    client->progress_context = context;
}

const char *fdclient_version(void)
{
    return FDSERVER_VERSION;
}
