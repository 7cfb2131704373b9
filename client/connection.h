/* What a client of the library consists of: submit → route (pool.c) → outgoing.c → connection.c →
 * socket … socket → receive.c → answer.c → connection_settle() → fdclient_next(). */
#pragma once

#include "client/fdclient.h"
#include "base/list.h"
#include "numerics/job.h"
#include "protocol/array.h"
#include "protocol/splitter.h"

#include <msgpack.h>
#include <sys/uio.h>

/* A request as its caller has it. */
struct call {
    const char *method;
    const struct fdclient_array *f; /* f_count of them; NULL: none */
    uint32_t f_count;
    const struct fdclient_params *params; /* or NULL */
    struct fdclient_result *results;
    uint32_t result_count;
    struct array_type types[FDCLIENT_AXES]; /* of f, by call_types(); all 0 where it is resident */
};

/* ---- pool.c: memory that the client and its server share ---- */

enum region_state {
    REGION_ASKED, /* `register` is under way, or was never sent */
    REGION_READY,
    REGION_PLAIN /* the server did not take it, or it is of the pool and no longer safe to use
                    (pool_settle() says when). The next job drops it from the pool */
};

/* A sealed memfd, mapped here and registered there: the caller's, from fdclient_alloc(), or of the
 * pool that ordinary arrays are copied through. */
struct region {
    struct list link; /* in its client's regions, or in no list */
    uint8_t *memory;
    size_t bytes;
    int descriptor; /* owned until `register` is sent; −1 */
    uint64_t id;    /* on the wire; READY */
    enum region_state state;
    bool pooled;
    bool busy; /* pooled: a job uses it */
};

/* How one array goes. */
struct way {
    uint64_t region; /* on the wire; 0: inline */
    uint64_t offset;
    struct region *pooled; /* the array is copied to or from it; it is busy meanwhile */
};

struct route {
    struct way in[FDCLIENT_AXES], out[FDCLIENT_AXES];
    uint32_t outs; /* results in regions: all of the job's, or 0 */
    bool out_is_vector;
};

/* What the pool lacks for all arrays of a job to go through it. */
struct wish {
    size_t bytes; /* of the largest */
    uint32_t count;
};

/* A new region of exactly that size. NULL: no memory. One that is freed leaves its list. */
struct region *region_make(size_t bytes, bool pooled);
void region_free(struct region *region);

/* The size of a region of the pool that an array of `bytes` fits in: a few sizes for all, so that
 * arrays of a similar one share. */
size_t region_pool_bytes(size_t bytes);

/* Choose how the arrays of a job go: inline, from where they lie in a region, or, those of at least
 * pool_bytes, through the pool. Inputs are copied there at once. Results all go by regions, or none
 * does; regions that were found for some are theirs until route_settle(), so that the pool does not
 * drop them to make room for the others. */
void route_choose(struct route *route, const struct call *call, const struct list *regions,
                  size_t pool_bytes, struct wish *wish);
void route_settle(struct route *route);
void route_release(struct route *route);

struct ticket;

/* Read FDCLIENT_TRANSPORT. False: it makes no sense. */
bool pool_open(struct fdclient *client, struct fdclient_error *error);
/* Once the connection is broken. */
void pool_close(struct fdclient *client);

/* Find the route of a job; may wait for the server where FDCLIENT_TRANSPORT is "region". The pool
 * grows after the jobs: one that finds no room goes over the socket, and regions of its sizes are
 * registered for later jobs, except after the first such job, which may be the only one. False:
 * only regions would do, and there are none; then there is nothing to release. */
bool pool_route(struct fdclient *client, struct route *route, const struct call *call,
                struct fdclient_error *error);

/* The ticket was answered and is wholly sent, or never will be: release its regions. */
void pool_settle(struct fdclient *client, struct ticket *ticket);

/* ---- outgoing.c: a request on its way out ---- */

struct outgoing {
    /* What is sent, in order: control bytes, owned, and arrays, borrowed. Pieces shrink as they go.
     */
    msgpack_vrefbuffer *pieces;
    size_t first;      /* piece that is not wholly sent */
    bool lacks_memory; /* for a piece, while it is built */
    int descriptor;    /* borrowed, goes with the first byte; −1: none, or sent */
};

/* The types of the call's arrays. False: one is no array. */
bool call_types(struct call *call, struct fdclient_error *error);

/* A job of that operator in so many axes of space, as far as it says which arrays there are;
 * operator_id OPERATOR_COUNT where the method is none. */
struct job call_job(const char *method, uint32_t axes);

/* The names on the wire of a method's results where these are several, in the order of the
 * caller's, NULL after the last: axes of a vector field, pairs of axes of a Hessian. */
const char *const *call_result_names(const char *method);

/* Build the request [0, id, method, [{…}]] of a call with its types. Data that goes inline is
 * borrowed until the last byte is sent. */
bool outgoing_init(struct outgoing *out, uint64_t id, const struct call *call,
                   const struct route *route, struct fdclient_error *error);

/* A request of one number, with a descriptor where that is ≥ 0. False: no memory. */
bool outgoing_init_number(struct outgoing *out, uint64_t id, const char *method, const char *name,
                          uint64_t number, int descriptor);
void outgoing_free(struct outgoing *out);
bool outgoing_done(const struct outgoing *out);

/* Send once, `most` bytes, without waiting. Bytes sent; −1 with errno set. */
ssize_t outgoing_send(struct outgoing *out, int socket, size_t most);

/* ---- connection.c: tickets, and the socket ---- */

enum { TICKET_PROBES = FDCLIENT_RESULTS, TICKET_PARTS };
enum answer {
    ANSWER_ARRAY,
    ANSWER_FIELD,
    ANSWER_NOTHING,
    ANSWER_JSON,
    ANSWER_REGION,
    ANSWER_EXPORT
};

/* An array that is received. */
struct part {
    uint8_t *data; /* NULL: its header has not come, or it is dropped. Else there is room for it */
    struct array_type type;
    uint64_t received_bytes; /* of its payload */
};

/* A request, from its submission until the caller takes its outcome. */
struct ticket {
    struct list link;
    uint64_t id; /* its msgid */
    enum answer answer;
    bool takes_fields;               /* ANSWER_ARRAY: in the place of arrays */
    const char *const *names;        /* ANSWER_ARRAY: of several results, as call_result_names() */
    struct fdclient_result *results; /* borrowed; NULL where the answer holds nothing */
    uint32_t result_count;
    struct outgoing out;
    struct route route;
    struct region *region;            /* ANSWER_REGION */
    struct fdclient_export *exported; /* ANSWER_EXPORT, borrowed */
    bool internal;                    /* the caller does not know of it */
    bool replied, failed;
    struct part parts[TICKET_PARTS]; /* of the results; and probes */
    struct fdclient_error error;
};

enum { RECEIVE_BUFFER_BYTES = 64 << 10 };

struct fdclient {
    int socket;
    uint64_t last_id;
    struct list pending; /* tickets, in the order of submission */
    struct list done;    /* in the order of completion */
    bool busy_polls;     /* a wait polls before it blocks */
    bool broken;
    struct fdclient_error cause; /* of the break */
    fdclient_progress *progress;
    void *progress_context;
    fdclient_snapshots *snapshot;
    void *snapshot_context;

    /* receive.c */
    struct part incoming; /* the array of a notification; its data is owned */
    struct splitter splitter;
    struct part *receiving; /* whose payload is due; NULL: drop it */
    int passed;             /* the descriptor that came last, owned; −1: none */
    uint8_t buffer[RECEIVE_BUFFER_BYTES];

    /* pool.c */
    struct list regions;     /* newest first */
    size_t pool_array_bytes; /* SIZE_MAX: none goes through the pool */
    bool by_region;          /* wait for room in the pool rather than use the socket */
    bool lacked;             /* a job found no room in the pool: the next such one makes it grow */
    struct fdclient_error refusal; /* with a code: the server takes no more for the pool */
    uint64_t refused_us;           /* then; one that is retryable holds for a second */
};

/* Where the part of its answer goes; NULL: the caller has no room for it. */
struct fdclient_result *ticket_result(const struct ticket *ticket, uint32_t part);

/* The first error stays: it is the cause. What was allocated for the results is given up. */
void ticket_fail(struct ticket *ticket, const struct fdclient_error *error);

/* A new one; `internal`: the caller does not know of it. NULL: no memory. */
struct ticket *ticket_new(struct fdclient *client, enum answer answer, bool internal);
void ticket_free(struct ticket *ticket);

/* NULL: there is none. */
struct ticket *tickets_find(const struct list *tickets, uint64_t id);

/* Connect to an address of fdclient_open(). A non-blocking descriptor that the caller owns; −1 with
 * the error set. */
int connection_open(const char *address, struct fdclient_error *error);

/* The ticket is under way from here on; its first bytes are sent at once where they can be. It is
 * not answered before the next receive, so the caller may still fill it in. */
void connection_begin(struct fdclient *client, struct ticket *ticket);

/* Begin a request of one number, as outgoing_init_number() makes it. NULL: no memory. */
struct ticket *connection_ask(struct fdclient *client, enum answer answer, bool internal,
                              const char *method, const char *name, uint64_t number,
                              int descriptor);

/* The ticket leaves those that are under way, where it was answered and is wholly sent. */
void connection_settle(struct fdclient *client, struct ticket *ticket);

/* Nothing more will come: every ticket that has no reply ends with the cause. */
void connection_break(struct fdclient *client, const char *reason);

/* Wait until something can be sent or received, and do so. Something must be under way. */
void connection_wait(struct fdclient *client);

/* ---- receive.c ---- */

/* Take what has come, without waiting. An end or an error breaks the connection. */
void receive_some(struct fdclient *client);

/* ---- answer.c: from a reply to the results of its ticket ---- */

/* Payload of a reply comes next: what it is of. NULL: it is to be dropped. */
struct part *answer_payload(struct ticket *ticket, const struct splitter_payload *payload);

/* The whole reply but for its payload, which has come: [1, msgid, error, result]. Nonsense, and
 * a result without a place, fail only the ticket. */
void answer_take(struct fdclient *client, struct ticket *ticket, const msgpack_object *error,
                 const msgpack_object *result);

/* The type and shape beside a field's id; false: they are not there. */
bool answer_field_type(const msgpack_object *out, struct array_type *type);

/* A type as the public header has it. */
void answer_describe(const struct array_type *type, enum fdclient_dtype *dtype,
                     uint32_t *dimensions, uint64_t shape[FDCLIENT_DIMENSIONS]);
