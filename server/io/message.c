#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/jobs/placement.h"
#include "server/jobs/requirements.h"
#include "server/jobs/task.h"

static bool call_register(struct connection *connection, const struct request *request,
                          struct failure *failure)
{
    static const struct array_type nothing;
    const int descriptor = connection->passed.descriptor;
    connection->passed.descriptor = -1;
    struct device *device = NULL;
    if (connection->io->jobs->draining)
        failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
    else
        device = placement_of_array(&connection->client, &nothing, failure);
    if (device)
        return region_register(device->devices, &connection->regions, device, request, descriptor,
                               failure);
    passing_close(descriptor, &connection->user->passed);
    return false;
}

/* Methods that are answered at once pack their result. False with the failure set. */
static bool call_at_once(struct connection *connection, struct request *request,
                         msgpack_packer *result, struct failure *failure)
{
    struct user *user = connection->user;
    struct field *field;
    if (request->dry_run)
        return dry_run(&connection->client, request, &connection->upload, result, failure);
    switch (request->method) {
    case METHOD_LIST_FIELDS:
        return report_fields(result, user, request, failure);
    case METHOD_INFO:
        report_info(result, connection->io, user);
        return true;
    case METHOD_STATS:
        report_stats(result, connection->io, user);
        return true;
    case METHOD_CANCEL:
        msgpack_pack_map(result, 1);
        reply_write_text(result, "state", task_cancel(&connection->client, request->cancel));
        return true;
    case METHOD_FREE:
        if (!(field = field_find_any(user, request->field, "field", failure)))
            return false;
        field_withdraw(field);
        break;
    default: /* ping */
        break;
    }
    msgpack_pack_map(result, 0);
    return true;
}

static bool answer_at_once(struct connection *connection, struct request *request,
                           struct failure *failure)
{
    struct answer answer;
    answer_init(&answer);
    reply_write_begin(&answer.packer, request->msgid);
    const bool ok = call_at_once(connection, request, &answer.packer, failure);
    if (ok)
        outbox_push(&connection->outbox, request->msgid, &answer, NULL);
    else
        msgpack_sbuffer_destroy(&answer.text);
    return ok;
}

/* Every request gets exactly one reply: here, or from its task or region later. */
static void call_method(struct connection *connection, struct request *request)
{
    struct failure failure = {0};
    bool ok;
    if (request_is_job(request) && !request->dry_run)
        ok = task_accept(&connection->client, request, &connection->upload, connection->message_ns,
                         &failure);
    else if (request->method == METHOD_REGISTER)
        ok = call_register(connection, request, &failure);
    else if (request->method == METHOD_UNREGISTER)
        ok = region_unregister(&connection->regions, request, &failure);
    else
        ok = answer_at_once(connection, request, &failure);
    if (!ok)
        outbox_push_failure(&connection->outbox, request->msgid, NULL, &failure);
}

void message_region_answered(struct region_owner *owner, uint64_t msgid,
                             const struct region *region, const struct failure *failure)
{
    struct connection *connection = LIST_ENTRY(owner, struct connection, regions);
    struct answer answer;
    if (failure) {
        outbox_push_failure(&connection->outbox, msgid, NULL, failure);
        return;
    }
    answer_init(&answer);
    reply_write_begin(&answer.packer, msgid);
    msgpack_pack_map(&answer.packer, region ? 2 : 0);
    if (region) {
        reply_write_count(&answer.packer, "region", region->id);
        reply_write_flag(&answer.packer, "writable", region->writable);
    }
    outbox_push(&connection->outbox, msgid, &answer, NULL);
}

void message_fail(struct connection *connection, enum status status, const char *text)
{
    struct failure failure = {0};
    uint64_t msgid = 0;
    splitter_peek_msgid(&connection->splitter, SPLITTER_REQUEST, &msgid);
    failure_set(&failure, status, NULL, "%s", text);
    connection->close_when_sent = true;
    bounds_release(connection); /* one that waits for them has this answer, and no other */
    upload_drop(&connection->upload);
    outbox_push_failure(&connection->outbox, msgid, NULL, &failure);
}

/* A descriptor belongs to the message whose bytes it came with: to a register, else to the last
 * message of what was read at once, since a read ends with those bytes. */
static bool check_passed(const struct connection *connection, const struct request *request,
                         struct failure *failure)
{
    const struct passed_descriptor *passed = &connection->passed;
    if (request->method != METHOD_REGISTER)
        return !connection->is_last || !passing_any(passed) ||
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
    for (int i = 0; i < REQUEST_NUMBERS; i++) {
        struct array *array = &request->numbers[i];
        if (array->kind != ARRAY_INLINE || !array->payload_count)
            continue;
        const struct arrival *arrival =
            upload_find(&connection->upload, array, true, request_numbers_name(i), failure);
        if (!arrival)
            return false;
        array->small = arrival->numbers;
    }
    for (uint32_t i = 0; request->chain && i < request->chain->count; i++)
        if (!find_numbers(connection, &request->chain->link[i].request, failure))
            return request_chain_place(request->chain, failure, i);
    return true;
}

/* Unpack and decode it, and find what came beside it. False with the failure set. */
static bool read_message(struct connection *connection, struct request *request, bool *has_msgid,
                         struct failure *failure)
{
    struct splitter *splitter = &connection->splitter;
    msgpack_object object;
    const msgpack_unpack_return result =
        msgpack_unpack((const char *)splitter->control, splitter->control_bytes, NULL,
                       &connection->io->message, &object);
    const bool unpacked = result == MSGPACK_UNPACK_SUCCESS;
    bool ok = unpacked && request_decode(&object, request, has_msgid, failure);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
        *has_msgid = splitter_peek_msgid(splitter, SPLITTER_REQUEST, &request->msgid);
        request->is_notification = !*has_msgid;
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server has no memory to read it");
    } else if (!unpacked) {
        failure_set(failure, STATUS_PROTOCOL, NULL, "the message is no valid MessagePack");
    }
    if (connection->upload.failure.code) {
        *failure = connection->upload.failure; /* why its array was dropped goes first */
        ok = false;
    }
    return ok && check_passed(connection, request, failure) &&
           find_numbers(connection, request, failure);
}

void message_take(struct connection *connection)
{
    struct request request;
    struct failure failure = {0};
    bool has_msgid = false;
    request.method = METHOD_COUNT;
    request.msgid = 0;
    request.is_notification = false;
    request.chain = NULL;
    upload_flush(&connection->upload);
    bool ok = read_message(connection, &request, &has_msgid, &failure);
    const enum bounds_answer bounds =
        ok ? bounds_prepare(connection, &request, &failure) : BOUNDS_REFUSED;
    ok = bounds == BOUNDS_GO_ON;
    if (bounds != BOUNDS_LATER) {
        if (!ok && request_is_job(&request))
            USER_COUNT(connection->user, ended[TASK_REFUSED], 1);
        if (ok && !request.is_notification) {
            call_method(connection, &request);
        } else if (!request.is_notification) {
            connection->close_when_sent |= !has_msgid; /* the sender does not speak the protocol */
            outbox_push_failure(&connection->outbox, request.msgid, NULL, &failure);
        }
        upload_drop(&connection->upload);
        bounds_release(connection);
        /* The descriptor of a refused register is not the next message's. */
        if (connection->is_last || request.method == METHOD_REGISTER)
            passing_forget(&connection->passed);
        splitter_next(&connection->splitter);
    }
    request_free(&request);
    msgpack_zone_clear(&connection->io->message);
    connection->rests = turn_is_over(connection->io);
}
