#include "client/ticket.h"

#include <stdlib.h>

struct ticket *ticket_internal(enum answer answer, uint64_t id)
{
    struct ticket *ticket = calloc(1, sizeof *ticket);
    if (ticket) {
        ticket->id = id;
        ticket->answer = answer;
        ticket->internal = true;
    }
    return ticket;
}

void ticket_free(struct ticket *ticket)
{
    outgoing_free(&ticket->out);
    free(ticket);
}

struct fdclient_result *ticket_result(const struct ticket *ticket, uint32_t part)
{
    if (part == TICKET_PROBES)
        return ticket->result_count ? ticket->results->probes : NULL;
    return part < ticket->result_count ? &ticket->results[part] : NULL;
}

void ticket_fail(struct ticket *ticket, const struct fdclient_error *error)
{
    if (ticket->failed)
        return;
    ticket->failed = true;
    ticket->error = *error;
    for (uint32_t i = 0; i < TICKET_PARTS; i++) {
        struct fdclient_result *result = ticket_result(ticket, i);
        if (result && result->allocated) {
            free(result->data);
            result->data = NULL;
            result->allocated = false;
        }
    }
}

void tickets_init(struct tickets *tickets)
{
    tickets->first = NULL;
    tickets->end = &tickets->first;
}

void tickets_add(struct tickets *tickets, struct ticket *ticket)
{
    ticket->next = NULL;
    *tickets->end = ticket;
    tickets->end = &ticket->next;
}

struct ticket *tickets_find(const struct tickets *tickets, uint64_t id)
{
    struct ticket *ticket = tickets->first;
    while (ticket && ticket->id != id)
        ticket = ticket->next;
    return ticket;
}

void tickets_remove(struct tickets *tickets, struct ticket *ticket)
{
    struct ticket **link = &tickets->first;
    while (*link != ticket)
        link = &(*link)->next;
    *link = ticket->next;
    if (tickets->end == &ticket->next)
        tickets->end = link;
}
