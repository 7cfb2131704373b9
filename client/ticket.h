/* A request under way, until the caller takes what became of it; and lists of them. */
#pragma once

#include "client/fdclient.h"
#include "client/outgoing.h"
#include "client/route.h"
#include "protocol/array.h"

enum { TICKET_PROBES = FDCLIENT_AXES, TICKET_PARTS };
enum answer { ANSWER_ARRAY, ANSWER_FIELD, ANSWER_NOTHING, ANSWER_JSON, ANSWER_REGION };

struct ticket {
    struct ticket *next;
    uint64_t id; /* its msgid */
    enum answer answer;
    bool takes_fields;               /* ANSWER_ARRAY: in the place of arrays */
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
    } parts[TICKET_PARTS];       /* of a vector field by component, else the first; and probes */
    struct fdclient_error error;
};

/* Where the part of its answer goes; NULL: the caller has no room for it. */
struct fdclient_result *ticket_result(const struct ticket *ticket, uint32_t part);

/* The first error stays: it is the cause. What was allocated for the results is given up. */
void ticket_fail(struct ticket *ticket, const struct fdclient_error *error);

/* One that the caller does not know of. NULL: no memory. */
struct ticket *ticket_internal(enum answer answer, uint64_t id);

/* Its region and its route are others'. */
void ticket_free(struct ticket *ticket);

struct tickets {
    struct ticket *first, **end;
};

void tickets_init(struct tickets *tickets);
void tickets_add(struct tickets *tickets, struct ticket *ticket);
void tickets_remove(struct tickets *tickets, struct ticket *ticket);
/* NULL: there is none. */
struct ticket *tickets_find(const struct tickets *tickets, uint64_t id);
