/* A complete control message → a request: method, parameters, arrays. Pure decoding: what depends
 * on the server's state (who owns a field, how much memory is left) is checked by the server. */
#ifndef PROTOCOL_REQUEST_H
#define PROTOCOL_REQUEST_H

#include "numerics/job.h"
#include "protocol/numbers.h"

/* X(enumerator, name). job.h's operators are methods too: METHOD_OPERATOR and an operator_id. */
#define METHOD_LIST(X)                                                                             \
    X(METHOD_PUT, "put")                                                                           \
    X(METHOD_GET, "get")                                                                           \
    X(METHOD_FREE, "free")                                                                         \
    X(METHOD_REGISTER, "register")                                                                 \
    X(METHOD_UNREGISTER, "unregister")                                                             \
    X(METHOD_CHAIN, "chain")                                                                       \
    X(METHOD_CANCEL, "cancel")                                                                     \
    X(METHOD_LIST_FIELDS, "list")                                                                  \
    X(METHOD_PING, "ping")                                                                         \
    X(METHOD_INFO, "info")                                                                         \
    X(METHOD_STATS, "stats")

#define METHOD_ENUMERATOR(enumerator, name) enumerator,
enum method { METHOD_LIST(METHOD_ENUMERATOR) METHOD_OPERATOR, METHOD_COUNT };
#undef METHOD_ENUMERATOR

enum out_kind { OUT_INLINE, OUT_NEW_FIELD, OUT_FIELD, OUT_REGION };

/* Parameters of many numbers (protocol/numbers.h). */
enum request_numbers {
    NUMBERS_X, /* spacing: coordinates of an axis */
    NUMBERS_Y,
    NUMBERS_Z,
    NUMBERS_ALL, /* … of the rest; or, spacing_is_bare, a list of a number for each axis */
    NUMBERS_OFFSETS,
    NUMBERS_WEIGHTS,
    NUMBERS_PROBES,
    REQUEST_NUMBERS
};

/* What is said of one side. */
struct request_side {
    struct boundary boundary;     /* but for value_array, constant_array */
    double constant_number;       /* mixed */
    struct array value, constant; /* over the face, in the place of the number; ARRAY_NONE: none */
};

enum snapshot { SNAPSHOT_NONE, SNAPSHOT_NOTIFY, SNAPSHOT_FIELD };

struct request_chain;
struct request_bounds;

struct request {
    bool is_notification; /* [2, method, …]: method is METHOD_COUNT, since none is known yet: ignore
                             it */
    uint64_t msgid;       /* any unsigned integer of 64 bits; echoed */
    enum method method;
    char method_name[LIMIT_METHOD_BYTES + 1]; /* for logs and errors */

    struct arrays f;         /* put (no vector), operators */
    uint64_t field;          /* get, free */
    uint64_t region;         /* unregister */
    uint64_t bytes;          /* register: of the memory, from 1 up */
    bool writable;           /* register */
    enum out_kind out;       /* operators; get: inline or a region */
    struct arrays out_place; /* OUT_FIELD: resident ones; OUT_REGION: places in regions */
    bool progress;           /* operators: notify */
    bool dry_run;            /* operators, chain: say what it would take, and do not run it */
    uint64_t cancel;         /* cancel: the msgid of a request before it */
    struct {
        bool pages;     /* after or limit was given */
        uint64_t after; /* an id, or 0 */
        uint64_t limit; /* 1 to LIMIT_LISTED */
    } list;

    struct request_chain *chain;     /* chain: owned (protocol/request_chain.h); else NULL */
    uint64_t repeat;                 /* … 0: not given */
    const msgpack_object *chain_out; /* … points into the message */

    /* Operators, put, get: how the job is to be treated. */
    int priority;        /* among the jobs of its user: the highest goes first */
    uint64_t timeout_us; /* from its receipt; 0: none */
    bool detach;         /* goes on without its connection; its result is a field */

    /* Operators: the parameters, all but those that come from the input's type. The type of a
     * resident input is known to the server alone, so the job is finished by request_job(). */
    struct {
        enum operator_id operator_id;
        bool has_axis, axis_is_number;
        enum axis axis; /* by letter */
        bool is_mixed;  /* ∂axis ∂inner_axis f; request_expand_mixed() */
        enum axis inner_axis;
        int64_t axis_number; /* NumPy axis number, may be negative */
        uint32_t batch;      /* leading axes that are a batch */
        int order;           /* 0 to 4 */
        int accuracy;        /* 2, 4, 6 or 8; 0: not given */
        enum scheme scheme;
        enum stagger stagger;
        bool has_dt, has_cfl, allow_unstable;
        double dt, cfl;
        uint64_t steps;
        /* Per axis: one value for all, or a map by axis name. */
        struct per_axis {
            uint8_t has_all, has[AXIS_COUNT];
            double all, value[AXIS_COUNT];
        } spacing, diffusivity;
        bool spacing_is_bare; /* NUMBERS_ALL was given for all axes, and not by "*" */
        struct array numbers[REQUEST_NUMBERS];
        struct array coefficient, source; /* ARRAY_NONE: none; or diffusivity's in coefficient */
        double source_number;
        const struct request_bounds *bounds; /* not owned; NULL: none is known before */
        bool report;
        uint64_t every; /* steps; 0: not given */
        enum snapshot snapshot;
        struct {
            uint8_t has_all, all, has[AXIS_COUNT], value[AXIS_COUNT];
        } endpoint;
        struct {
            uint8_t has_all, has[AXIS_COUNT][SIDE_COUNT];
            struct request_side all, side[AXIS_COUNT][SIDE_COUNT];
        } boundary;
    } parameters;
};

enum { REQUEST_PRIORITY_MOST = 100 }; /* and −100 */

/* Does its method make a job? */
bool request_is_job(const struct request *request);

/* Decode one control message (object from msgpack-c). On failure the request still holds msgid and
 * is_notification where they could be read (`*has_msgid`), so that the error finds its request.
 * What is `small` points into the bytes that `object` was unpacked from (msgpack-c does not copy
 * strings), a list into the object: use it before splitter_next(). */
bool request_decode(const msgpack_object *object, struct request *request, bool *has_msgid,
                    struct failure *failure);

/* What request_decode() has allocated, whether it was true or false. */
void request_free(struct request *request);

/* The arrays in the place of a number, whether given (kind) or not, one by one: a resident field's
 * `type` is nobody's to know here, and is to be filled in before request_job(). */
enum { REQUEST_OPERANDS = 2 + 2 * (1 + AXIS_COUNT * SIDE_COUNT) };
struct array *request_operand(struct request *request, int i);
/* How an error names it. */
const char *request_operand_place(const struct request *request, int i);

#endif
