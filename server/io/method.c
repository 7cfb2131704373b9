#include "server/io/method.h"

#include "protocol/reply.h"
#include "server/io/connection.h"
#include "server/jobs/dry_run.h"
#include "server/devices/region.h"
#include "server/io/report.h"
#include "server/io/io.h"
#include "server/jobs/task.h"

/* A handler either leaves the answer to a task or a region, or packs the result itself, or fails;
 * method_call() alone replies. */
enum outcome { OUTCOME_LATER, OUTCOME_RESULT, OUTCOME_FAILURE };

struct call {
    struct connection *connection;
    struct request *request;
    msgpack_packer *result;
    struct failure failure;
};

static enum outcome call_task(struct call *call)
{
    return task_accept(&call->connection->client, call->request, &call->connection->upload,
                       call->connection->message_ns, &call->failure)
               ? OUTCOME_LATER
               : OUTCOME_FAILURE;
}

static enum outcome call_dry_run(struct call *call)
{
    struct connection *connection = call->connection;
    return dry_run(connection->io->jobs, connection->user, call->request, call->result,
                   &call->failure)
               ? OUTCOME_RESULT
               : OUTCOME_FAILURE;
}

static enum outcome call_free(struct call *call)
{
    struct user *user = call->connection->user;
    struct field *field = field_find_any(user, call->request->field, "field", &call->failure);
    if (!field)
        return OUTCOME_FAILURE;
    field_withdraw(field);
    msgpack_pack_map(call->result, 0);
    return OUTCOME_RESULT;
}

static enum outcome call_register(struct call *call)
{
    struct connection *connection = call->connection;
    const int descriptor = connection->passed.descriptor;
    connection->passed.descriptor = -1;
    if (connection->io->jobs->draining) {
        passing_close(descriptor, &connection->user->passed);
        failure_set(&call->failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
        return OUTCOME_FAILURE;
    }
    return region_register(connection->io->jobs->devices, &connection->regions, call->request,
                           descriptor, &call->failure)
               ? OUTCOME_LATER
               : OUTCOME_FAILURE;
}

static enum outcome call_unregister(struct call *call)
{
    return region_unregister(&call->connection->regions, call->request, &call->failure)
               ? OUTCOME_LATER
               : OUTCOME_FAILURE;
}

void method_region_answered(struct region_owner *owner, uint64_t msgid, const struct region *region,
                            const struct failure *failure)
{
    struct connection *connection = LIST_ENTRY(owner, struct connection, regions);
    msgpack_sbuffer message;
    msgpack_packer packer;
    if (failure) {
        outbox_push_failure(&connection->outbox, msgid, NULL, failure);
        return;
    }
    reply_buffer_init(&message, &packer);
    reply_write_begin(&packer, msgid);
    msgpack_pack_map(&packer, region ? 2 : 0);
    if (region) {
        reply_write_str(&packer, "region");
        msgpack_pack_uint64(&packer, region->id);
        reply_write_str(&packer, "writable");
        if (region->writable)
            msgpack_pack_true(&packer);
        else
            msgpack_pack_false(&packer);
    }
    outbox_push(&connection->outbox, msgid, &message, NULL);
}

static enum outcome call_cancel(struct call *call)
{
    msgpack_pack_map(call->result, 1);
    reply_write_str(call->result, "state");
    reply_write_str(call->result, task_cancel(&call->connection->client, call->request->cancel));
    return OUTCOME_RESULT;
}

static enum outcome call_list(struct call *call)
{
    return report_fields(call->result, call->connection->user, call->request, &call->failure)
               ? OUTCOME_RESULT
               : OUTCOME_FAILURE;
}

static enum outcome call_ping(struct call *call)
{
    msgpack_pack_map(call->result, 0);
    return OUTCOME_RESULT;
}

static enum outcome call_info(struct call *call)
{
    report_info(call->result, call->connection->io, call->connection->user);
    return OUTCOME_RESULT;
}

static enum outcome call_stats(struct call *call)
{
    report_stats(call->result, call->connection->io, call->connection->user);
    return OUTCOME_RESULT;
}

static enum outcome (*const handlers[METHOD_COUNT])(struct call *) = {
    [METHOD_OPERATOR] = call_task,     [METHOD_CHAIN] = call_task,
    [METHOD_HESSIAN] = call_task,      [METHOD_PUT] = call_task,
    [METHOD_GET] = call_task,          [METHOD_FREE] = call_free,
    [METHOD_LIST_FIELDS] = call_list,  [METHOD_PING] = call_ping,
    [METHOD_INFO] = call_info,         [METHOD_STATS] = call_stats,
    [METHOD_REGISTER] = call_register, [METHOD_UNREGISTER] = call_unregister,
    [METHOD_CANCEL] = call_cancel,
};

void method_call(struct connection *connection, struct request *request)
{
    msgpack_sbuffer message;
    msgpack_packer packer;
    enum outcome (*const handle)(struct call *) =
        request->dry_run ? call_dry_run : handlers[request->method];
    reply_buffer_init(&message, &packer);
    if (handle != call_task)
        reply_write_begin(&packer, request->msgid);
    struct call call = {.connection = connection, .request = request, .result = &packer};
    const enum outcome outcome = handle(&call);
    if (outcome == OUTCOME_RESULT) {
        outbox_push(&connection->outbox, request->msgid, &message, NULL);
        return;
    }
    msgpack_sbuffer_destroy(&message);
    if (outcome == OUTCOME_FAILURE)
        outbox_push_failure(&connection->outbox, request->msgid, NULL, &call.failure);
}
