#include "server/io/message.h"

#include "protocol/request_chain.h"
#include "server/io/bounds.h"
#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/io/method.h"

void message_fail(struct connection *connection, enum status status, const char *text)
{
    struct failure failure = {0};
    uint64_t msgid = 0;
    splitter_peek_msgid(&connection->splitter, SPLITTER_REQUEST, &msgid);
    failure_set(&failure, status, NULL, "%s", text);
    connection->close_when_sent = true;
    upload_drop(&connection->upload);
    outbox_push_failure(&connection->outbox, msgid, NULL, &failure);
}

/* A descriptor belongs to the message whose bytes it came with: to a register, else to the last
 * message of what was read at once, since a read ends with those bytes. */
static bool check_passed(const struct connection *connection, const struct request *request,
                         bool is_last, struct failure *failure)
{
    const struct passed_descriptor *passed = &connection->passed;
    if (request->method != METHOD_REGISTER)
        return !is_last || !passing_any(passed) ||
               failure_set(failure, STATUS_PROTOCOL, NULL,
                           "a descriptor came with a message that takes none");
    if (passed->many)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, NULL,
                           "register takes one descriptor, and more came");
    if (passed->no_room)
        return failure_set(failure, STATUS_OVER_BUDGET, NULL,
                           "the server has as many descriptors as it may");
    return passed->descriptor >= 0 ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, NULL,
                       "register takes the memory's descriptor, by SCM_RIGHTS with its first byte");
}

/* The numbers of its parameters that came as payload. */
static bool find_numbers(const struct connection *connection, struct request *request,
                         struct failure *failure)
{
    for (int i = 0; i < REQUEST_NUMBERS; i++)
        if (!upload_find_numbers(&connection->upload, &request->numbers[i], request_numbers_name(i),
                                 failure))
            return false;
    for (uint32_t i = 0; request->chain && i < request->chain->count; i++)
        if (!find_numbers(connection, &request->chain->link[i].request, failure)) {
            request_chain_place(request->chain, failure, i);
            return false;
        }
    return true;
}

void message_take(struct connection *connection)
{
    const bool is_last = connection->is_last;
    msgpack_zone *const zone = &connection->io->message;
    msgpack_object object;
    struct request request;
    struct failure failure = {0};
    bool has_msgid = false;
    request.method = METHOD_COUNT;
    request.chain = NULL;
    upload_flush(&connection->upload);
    const msgpack_unpack_return result =
        msgpack_unpack((const char *)connection->splitter.control,
                       connection->splitter.control_bytes, NULL, zone, &object);
    const bool unpacked = result == MSGPACK_UNPACK_SUCCESS;
    bool ok = unpacked && request_decode(&object, &request, &has_msgid, &failure);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
        has_msgid = splitter_peek_msgid(&connection->splitter, SPLITTER_REQUEST, &request.msgid);
        request.is_notification = !has_msgid;
        failure_set(&failure, STATUS_OUT_OF_MEMORY, NULL, "the server has no memory to read it");
    } else if (!unpacked) {
        failure_set(&failure, STATUS_PROTOCOL, NULL, "the message is no valid MessagePack");
    }
    if (connection->upload.failure.code) {
        failure = connection->upload.failure; /* why its array was dropped goes first */
        ok = false;
    }
    ok = ok && check_passed(connection, &request, is_last, &failure);
    ok = ok && find_numbers(connection, &request, &failure);
    const enum bounds_answer bounds =
        ok ? bounds_prepare(connection, &request, &failure) : BOUNDS_GO_ON;
    if (bounds == BOUNDS_LATER) {
        request_free(&request);
        msgpack_zone_clear(zone);
        return;
    }
    ok = ok && bounds == BOUNDS_GO_ON;
    if (!ok && request_is_job(&request))
        user_count_refused(connection->user);
    if (ok && !request.is_notification)
        method_call(connection, &request);
    else if (!ok && has_msgid && !request.is_notification)
        outbox_push_failure(&connection->outbox, request.msgid, NULL, &failure);
    else if (!ok && !has_msgid &&
             (result == MSGPACK_UNPACK_PARSE_ERROR || !request.is_notification)) {
        /* The sender does not speak the protocol. */
        connection->close_when_sent = true;
        outbox_push_failure(&connection->outbox, 0, NULL, &failure);
    }
    upload_drop(&connection->upload);
    request_free(&request);
    bounds_release(connection);
    if (is_last)
        passing_forget(&connection->passed);
    msgpack_zone_clear(zone);
    splitter_next(&connection->splitter);
    splitter_shrink(&connection->splitter);
}
