/* What can go wrong: the connection ends at any byte (every ticket then ends with that error); a
 * reply comes before its request is wholly sent (the ticket is complete when both are, since the
 * array is borrowed until then); a reply's payload does not fit its place (it is read and dropped,
 * so that the replies behind it still arrive). */
#include "client/connection.h"

#include "base/cores.h"
#include "base/rights.h"
#include "client/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one reply beside its payload: many times `list` of 4,096 fields. Memory is taken as it is
 * touched. */
enum { REPLY_CONTROL_BYTES = 16 << 20, REPLY_ELEMENTS = 1 << 20 };

struct fdclient *fdclient_open(const char *address, struct fdclient_error *error)
{
    struct fdclient *client = calloc(1, sizeof *client);
    if (!client) {
        error_set(error, "OUT_OF_MEMORY", "", "no memory for a connection");
        return NULL;
    }
    splitter_init_limits(&client->splitter, REPLY_CONTROL_BYTES, REPLY_ELEMENTS);
    client->socket = client->passed = -1;
    client->busy_polls = cores_to_spare();
    if (pool_open(client, error))
        client->socket = connection_open(address, error);
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
    LIST_DRAIN (struct ticket, ticket, &client->done, link)
        ticket_free(ticket);
    pool_close(client);
    rights_close(client->socket);
    rights_close(client->passed);
    splitter_free(&client->splitter);
    free(client->incoming.data);
    free(client);
}

static enum answer answer_of(const char *method, const struct fdclient_array *f,
                             const struct fdclient_params *params)
{
    if (params && params->dry_run)
        return ANSWER_JSON;
    if (strcmp(method, "put") == 0)
        return ANSWER_FIELD;
    if (strcmp(method, "free") == 0)
        return ANSWER_NOTHING;
    return f || strcmp(method, "chain") == 0 ? ANSWER_ARRAY : ANSWER_JSON;
}

/* Forget what an earlier use left in the result, but for the place that the caller gave. */
static void result_clear(struct fdclient_result *result)
{
    void *data = result->capacity > 0 ? result->data : NULL;
    const size_t capacity = data ? result->capacity : 0;
    struct fdclient_result *probes = result->probes;
    *result = (struct fdclient_result){.data = data, .capacity = capacity, .probes = probes};
    if (probes)
        result_clear(probes);
}

bool fdclient_submit_vector(struct fdclient *client, const char *method,
                            const struct fdclient_array *f, uint32_t f_count,
                            const struct fdclient_params *params, struct fdclient_result *results,
                            uint32_t result_count, uint64_t *ticket_id,
                            struct fdclient_error *error)
{
    const enum answer answer = answer_of(method, f, params);
    if (client->broken)
        return error_copy(error, &client->cause);
    if (answer != ANSWER_NOTHING && (!results || result_count == 0))
        return error_set(error, "INVALID_ARGUMENT", "result", "there is no place for the result");
    struct call call = {method, f, f_count, params, results, results ? result_count : 0, {{0}}};
    if (!call_types(&call, error))
        return false;
    struct ticket *ticket = ticket_new(client, answer, false);
    if (!ticket)
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    for (uint32_t i = 0; i < call.result_count; i++)
        result_clear(&results[i]);
    const bool routed = answer == ANSWER_JSON || pool_route(client, &ticket->route, &call, error);
    ticket->id = client->last_id + 1; /* the pool may have had some */
    ticket->names = call_result_names(method);
    ticket->takes_fields = strcmp(method, "chain") == 0 || (params && params->out_is_field);
    ticket->results = results;
    ticket->result_count = call.result_count;
    if (!routed || !outgoing_init(&ticket->out, ticket->id, &call, &ticket->route, error)) {
        route_release(&ticket->route);
        free(ticket);
        return false;
    }
    *ticket_id = ticket->id;
    connection_begin(client, ticket);
    return true;
}

void fdclient_on_snapshot(struct fdclient *client, fdclient_snapshots *call, void *context)
{
    client->snapshot = call;
    client->snapshot_context = context;
}

bool fdclient_cancel(struct fdclient *client, uint64_t ticket_id, struct fdclient_error *error)
{
    if (tickets_find(&client->done, ticket_id))
        return true;
    if (!tickets_find(&client->pending, ticket_id))
        return error_set(error, "INVALID_ARGUMENT", "ticket", "no such ticket is under way");
    return connection_ask(client, ANSWER_NOTHING, true, "cancel", "msgid", ticket_id, -1) ||
           error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
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

/* Take a ticket out of those that are done. */
static bool done_take(struct ticket *ticket, struct fdclient_error *error)
{
    const bool succeeded = !ticket->failed;
    if (error)
        *error = ticket->error;
    list_remove(&ticket->link);
    ticket_free(ticket);
    return succeeded;
}

int fdclient_next(struct fdclient *client, uint64_t *ticket, struct fdclient_error *error)
{
    struct ticket *first = LIST_FIRST(&client->done, struct ticket, link);
    if (!first)
        return 0;
    *ticket = first->id;
    return done_take(first, error) ? 1 : -1;
}

bool fdclient_wait(struct fdclient *client, uint64_t ticket, struct fdclient_error *error)
{
    for (;;) {
        struct ticket *done = tickets_find(&client->done, ticket);
        if (done)
            return done_take(done, error);
        if (!tickets_find(&client->pending, ticket))
            return error_set(error, "INVALID_ARGUMENT", "ticket", "no such ticket is under way");
        connection_wait(client); /* a break completes the ticket, too */
    }
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

bool fdclient_run(struct fdclient *client, const char *operator_name,
                  const struct fdclient_array *f, const struct fdclient_params *params,
                  struct fdclient_result *result, struct fdclient_error *error)
{
    return fdclient_run_vector(client, operator_name, f, 1, params, result, 1, error);
}

bool fdclient_chain(struct fdclient *client, const struct fdclient_params *params,
                    struct fdclient_result *results, uint32_t result_count,
                    struct fdclient_error *error)
{
    return fdclient_run_vector(client, "chain", NULL, 1, params, results, result_count, error);
}

bool fdclient_put(struct fdclient *client, const struct fdclient_array *f, uint64_t *field,
                  struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done = fdclient_run(client, "put", f, NULL, &result, error);
    *field = result.field;
    return done;
}

bool fdclient_get(struct fdclient *client, uint64_t field, struct fdclient_result *result,
                  struct fdclient_error *error)
{
    const struct fdclient_array f = {.field = field};
    return fdclient_run(client, "get", &f, NULL, result, error);
}

bool fdclient_free(struct fdclient *client, uint64_t field, struct fdclient_error *error)
{
    const struct fdclient_array f = {.field = field};
    return fdclient_run(client, "free", &f, NULL, NULL, error);
}

bool fdclient_export(struct fdclient *client, uint64_t field, struct fdclient_export *exported,
                     struct fdclient_error *error)
{
    *exported = (struct fdclient_export){.descriptor = -1};
    if (client->broken)
        return error_copy(error, &client->cause);
    struct ticket *ticket =
        connection_ask(client, ANSWER_EXPORT, false, "export", "field", field, -1);
    if (!ticket)
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the request");
    ticket->exported = exported;
    return fdclient_wait(client, ticket->id, error);
}

bool fdclient_call(struct fdclient *client, const char *method, char **json,
                   struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done = fdclient_run(client, method, NULL, NULL, &result, error);
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
