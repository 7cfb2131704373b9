#include "client/connection.h"

#include "client/error.h"
#include "client/region.h"

#include <string.h>
#include <unistd.h>

/* `register` was answered and wholly sent, or never will be. Not before may the region be used, and
 * so be given up: its descriptor is sent from here. */
static void region_asked(struct fdclient *client, struct ticket *ticket)
{
    struct region *region = ticket->region;
    close(region->descriptor); /* the server has its own */
    region->descriptor = -1;
    region->state = ticket->failed ? REGION_REFUSED : REGION_READY;
    if (ticket->failed && region->pooled) {
        client->refused = true;
        client->refusal = ticket->error;
    }
}

/* Memory of the pool goes after errors with which it may be of no more use: a worker that was
 * started anew may have been unable to map it again, and then jobs that name it fail ever after; a
 * job that was stopped may be answered while a worker that hangs can still write to it. */
static void pool_doubt(const struct ticket *ticket)
{
    static const char *const codes[] = {"INTERNAL", "OUT_OF_MEMORY", "CANCELLED", "TIMEOUT"};
    bool doubtful = false;
    for (size_t i = 0; ticket->failed && i < sizeof codes / sizeof *codes; i++)
        doubtful |= strcmp(ticket->error.code, codes[i]) == 0;
    if (!doubtful)
        return;
    for (int i = 0; i < FDCLIENT_AXES; i++) {
        if (ticket->route.in[i].pooled)
            ticket->route.in[i].pooled->state = REGION_SPENT;
        if (ticket->route.out[i].pooled)
            ticket->route.out[i].pooled->state = REGION_SPENT;
    }
}

/* The ticket leaves those that are under way. */
static void complete_ticket(struct fdclient *client, struct ticket *ticket)
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
    for (struct ticket *ticket; (ticket = client->pending.first);) {
        if (!ticket->replied)
            ticket_fail(ticket, &client->cause);
        complete_ticket(client, ticket);
    }
}
