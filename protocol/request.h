/* A complete control message → a request: method, parameters, arrays. Pure decoding: the server
 * checks what depends on its state (the owner of a field, the memory that is left). */
#pragma once

#include "numerics/job.h"
#include "protocol/array.h"

/* X(enumerator, name). job.h's operators are methods too: METHOD_OPERATOR and an operator_id. */
#define METHOD_LIST(X)                                                                             \
    X(METHOD_PUT, "put")                                                                           \
    X(METHOD_GET, "get")                                                                           \
    X(METHOD_EXPORT, "export")                                                                     \
    X(METHOD_FREE, "free")                                                                         \
    X(METHOD_REGISTER, "register")                                                                 \
    X(METHOD_UNREGISTER, "unregister")                                                             \
    X(METHOD_CHAIN, "chain")                                                                       \
    X(METHOD_HESSIAN, "hessian")                                                                   \
    X(METHOD_CANCEL, "cancel")                                                                     \
    X(METHOD_LIST_FIELDS, "list")                                                                  \
    X(METHOD_PING, "ping")                                                                         \
    X(METHOD_INFO, "info")                                                                         \
    X(METHOD_STATS, "stats")

#define METHOD_ENUMERATOR(enumerator, name) enumerator,
enum method { METHOD_LIST(METHOD_ENUMERATOR) METHOD_OPERATOR, METHOD_COUNT };
#undef METHOD_ENUMERATOR

enum out_kind { OUT_INLINE, OUT_NEW_FIELD, OUT_FIELD, OUT_REGION };

/* The table of parameters, protocol/parameters.inc: a request has a bit for each. */
#define PARAMETER(name, ...) PARAMETER_##name,
enum parameter_id {
#include "protocol/parameters.inc"
    PARAMETER_COUNT
};
#undef PARAMETER
#define PARAMETER_BIT(name) (UINT64_C(1) << PARAMETER_##name)

/* Parameters of many numbers (numbers_read() in protocol/array.h). */
enum request_numbers {
    NUMBERS_X, /* spacing: coordinates of an axis */
    NUMBERS_Y,
    NUMBERS_Z,
    NUMBERS_LIST, /* spacing: a list or an array for no axis by name */
    NUMBERS_OFFSETS,
    NUMBERS_WEIGHTS,
    NUMBERS_PROBES,
    REQUEST_NUMBERS
};

enum snapshot { SNAPSHOT_NONE, SNAPSHOT_NOTIFY, SNAPSHOT_FIELD };

struct request_chain;
struct request_bounds;

struct request {
    bool is_notification; /* [2, method, …]: to be ignored; method is METHOD_COUNT */
    uint64_t msgid;       /* any unsigned integer of 64 bits; echoed */
    enum method method;
    char method_name[LIMIT_METHOD_BYTES + 1]; /* for logs and errors */

    uint64_t given;          /* parameters: a PARAMETER_BIT() each */
    struct arrays f;         /* put (no vector), operators */
    uint64_t field;          /* get, export, free */
    uint64_t region;         /* unregister */
    uint64_t bytes;          /* register: of the memory, from 1 up */
    bool writable;           /* register */
    enum out_kind out;       /* operators; get: inline or a region */
    struct arrays out_place; /* OUT_FIELD: resident ones; OUT_REGION: places in regions */
    bool progress;           /* operators: notify */
    bool dry_run;            /* operators, chain: estimate the cost, and do not run it */
    uint64_t cancel;         /* cancel: the msgid of a request before it */
    uint64_t after, limit;   /* list: an id, or 0; 1 to LIMIT_LISTED */

    struct request_chain *chain; /* chain; hessian when the type of f is known; else NULL. Owned
                                    (protocol/request_chain.h) */
    uint64_t repeat;             /* … from 1 up */
    bool is_link;                /* it is an op of a chain */
    /* Point into the message; read with the chain. */
    const msgpack_object *op, *ops, *late_f, *late_out;

    /* Operators, put, get, export: the scheduling of the job. */
    int priority;        /* among the jobs of its user: the highest goes first */
    uint64_t timeout_us; /* from its receipt; 0: none */
    bool detach;         /* continues without its connection; its result is a field */
    bool distribute;     /* not get, export: in subdomains, one on each device */
    char placement[48];  /* not get, export: "spread" or a device's name, which the server looks up;
                            "": not  given */

    /* Operators: the job as its parameters describe it. Only the server knows the type of a
     * resident input, with which request_job() completes the job. Until then each of three axes of
     * space has a value, by default or by "*"; `named` has the axes that were named, and those that
     * the arrays do not have are refused then. */
    struct job job;
    struct {
        uint8_t spacing, diffusivity, endpoint; /* a bit for each axis */
        uint8_t boundary;                       /* a bit for each side: SIDE_COUNT·axis + side */
    } named;
    uint32_t batch; /* leading axes that are a batch */
    bool is_mixed;  /* ∂axis ∂inner_axis f: its chain, in request.chain, is made of it */
    enum axis inner_axis;
    bool axis_is_number; /* and not job.axis: */
    int64_t axis_number; /* NumPy axis number, may be negative */
    double cfl;
    uint8_t endpoint; /* a bit for each axis */
    bool report;
    uint64_t every; /* steps; 0: not given */
    enum snapshot snapshot;
    struct array operand[OPERANDS]; /* by enum operand; ARRAY_NONE: none, or a number */
    struct array numbers[REQUEST_NUMBERS];
    const struct request_bounds *bounds; /* not owned; NULL: none is known before */
};

/* Does its method make a job? */
bool request_is_job(const struct request *request);

/* Decode one control message (object from msgpack-c). On failure the request still holds msgid and
 * is_notification where they could be read (`*has_msgid`), so that the error finds its request.
 * `small` points into the bytes that `object` was unpacked from (msgpack-c does not copy strings),
 * a list into the object: use them before splitter_next(). */
bool request_decode(const msgpack_object *object, struct request *request, bool *has_msgid,
                    struct failure *failure);

/* Free what request_decode() has allocated, whether it was true or false. */
void request_free(struct request *request);

/* The name, in errors, of the array whose first byte of payload is due, before its message is
 * whole: by its key and the key around that. *is_numbers: it is a parameter of many numbers. */
struct failure_place request_payload_place(const struct splitter_payload *payload,
                                           bool *is_numbers);

/* The smallest value of a parameter that is a whole number; of others 0. */
int64_t request_parameter_low(enum parameter_id parameter);

/* The parameter that they belong to. */
const char *request_numbers_name(enum request_numbers numbers);

/* The name of an operand (enum operand) in errors: its side, if that was named. */
const char *request_operand_place(const struct request *request, int operand);
