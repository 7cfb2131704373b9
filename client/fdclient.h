/* fdclient.h: finite differences from an fdserver, in C. No CUDA is needed or used here.
 *
 * This header is the manual. One connection has any number of jobs in flight. Blocking use:
 *
 *     struct fdclient_error error;
 *     struct fdclient *client = fdclient_open(NULL, &error);
 *     struct fdclient_params params = FDCLIENT_PARAMS;
 *     params.axis = "x"; params.spacing = "0.1";
 *     struct fdclient_array f = {FDCLIENT_F32, 3, {64, 64, 64}, data};
 *     struct fdclient_result result = {.data = derivative, .capacity = sizeof derivative};
 *     if (fdclient_run(client, "derivative", &f, &params, &result, &error)) …
 *     fdclient_close(client);
 *
 * Asynchronous use: fdclient_submit() any number of jobs, watch fdclient_descriptor() for
 * fdclient_events() in your own loop, call fdclient_process() when it is ready, and take what is
 * complete with fdclient_next(). Nothing there blocks.
 *
 * Arrays of 64 KiB and more are copied through memory that client and server share, where the
 * server offers that; those in memory from fdclient_alloc() are not even copied. The rest, and
 * everything where FDCLIENT_TRANSPORT is "socket" in the environment, goes over the socket;
 * "region" makes every array go through shared memory, or the job fail (results of "chain" and
 * "hessian" always come over the socket).
 *
 * Threads: one client is used by one thread at a time; different clients are independent.
 * Errors: functions return true on success, else false with `error` filled (it may be NULL).
 */
#ifndef FDCLIENT_H
#define FDCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FDCLIENT_DIMENSIONS 8
#define FDCLIENT_AXES 3    /* components of a vector field: x, y, z */
#define FDCLIENT_RESULTS 6 /* the most arrays that a job gives: of "hessian" */

enum fdclient_dtype { FDCLIENT_F32, FDCLIENT_F64 };

struct fdclient_error {
    /* As on the wire: "INVALID_ARGUMENT", …; "CONNECTION" where the server is away. */
    char code[24];
    char parameter[48]; /* the parameter at fault, or "" */
    char message[256];  /* a sentence */
    bool retryable;     /* may the same request succeed later? */
    bool has_limit;     /* need and limit are set */
    double need, limit;
};

/* An array in C order; shape[dimensions − 1] is x. Or a resident field: data NULL and field set. */
struct fdclient_array {
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
    const void *data; /* borrowed until the job is complete */
    uint64_t field;   /* used where data is NULL */
};

/* Parameters of an operator, named as on the wire (protocol/PROTOCOL.md). What is NULL, 0 or NAN is
 * not sent, and the server's default holds. The strings take one value ("0.1", "periodic"), a map
 * ("x=0.1,y=0.2"; "x=periodic,y-=value:0,y+=derivative:0", "*" for the rest), a list ("0,1,3") or,
 * where the wire takes more, JSON ("{\"x\": […]}"). A resident field is "field:ID". */
struct fdclient_params {
    const char *axis;     /* derivative, interpolate: "x", "y", "z" or a NumPy axis number; of a
                             mixed derivative "x,y" */
    int order;            /* derivative: 1 to 4 */
    const char *stagger;  /* derivative, interpolate: "forward", "backward" */
    int accuracy;         /* 2, 4, 6 or 8 */
    const char *spacing;  /* of the points, or coordinates */
    const char *boundary; /* a kind of protocol/PROTOCOL.md with its numbers: "periodic", "value:V",
                             "mixed:V:CONST"; half a cell outside "value:V@face". V, CONST: a
                             number, or field:ID over the face */
    const char *endpoint; /* "true", "false", or per axis */
    uint32_t batch;
    const char *coefficient;       /* laplacian: field:ID */
    const char *offsets, *weights; /* stencil: "[[-1],[0],[1]]", "0.25,0.5,0.25" */
    uint64_t steps;                /* diffusion, stencil */
    double dt, cfl;                /* diffusion: one of them */
    const char *diffusivity;       /* diffusion: numbers, or field:ID */
    const char *source;            /* diffusion: a number, or field:ID */
    const char *scheme;            /* diffusion: "forward-euler", "rk4", "adi" */
    const char *probes;            /* diffusion: indices as JSON, "[[0,7],[3,-1]]": result.probes */
    bool allow_unstable;           /* diffusion */
    bool progress;                 /* diffusion: call on_progress */
    uint64_t every;       /* diffusion, stencil: on_snapshot after so many steps, and so on */
    const char *snapshot; /* … "notify" (default), or "field": it becomes one */
    const char *ops;      /* chain: its operators, as JSON */
    uint64_t repeat;      /* chain: how often */
    bool report;          /* result.json says what is in the result, and how far it may be off */
    bool dry_run;         /* do not run it: result.json says what it would take. Arrays that are not
                             resident need only their shape and dtype */
    int priority;         /* −100 to 100: among your jobs the highest goes first */
    const char *placement; /* not get: the name of a device, "cuda:1"; or "spread": by the waiting
                              work alone; by default where the job is expected to finish first */
    uint64_t timeout_us;   /* from its receipt; "TIMEOUT" where it is not done then */
    bool detach;           /* it continues without the connection; out_is_field set too */
    bool out_is_field;     /* keep the result resident: result.field */
    uint64_t out_field[FDCLIENT_AXES]; /* overwrite this field, or those of a vector's components
                                          (out_is_field set too) */
    uint64_t after, limit;             /* list: fields of ids above that one; so many at most */
};
#define FDCLIENT_PARAMS                                                                            \
    {                                                                                              \
        .dt = __builtin_nan(""), .cfl = __builtin_nan("")                                          \
    }

/* Where a result goes. Set data and capacity to receive into memory of your own (bytes are read
 * from the socket straight into it), or leave both 0: the client allocates and you free(data). */
struct fdclient_result {
    void *data;
    size_t capacity; /* of data, bytes; a larger result is an error, and is read and dropped */
    bool allocated;  /* data was allocated here: free() it */
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
    uint64_t bytes;
    uint64_t field;                 /* the result stayed resident */
    struct fdclient_result *probes; /* of a job with probes: where their values go, [steps + 1,
                                       probes]; a result as this one, of yours; or NULL */
    char *json; /* dry_run, and methods without an array: the answer; of a report it (in the first
                   result); free() it */
};

struct fdclient;

/* Connect. address: "unix:PATH", or a path alone that begins with / or a dot; NULL:
 * $FDSERVER_SOCKET, else /run/fdserver/fdserver.sock, else $XDG_RUNTIME_DIR/fdserver.sock, the
 * first that exists. */
struct fdclient *fdclient_open(const char *address, struct fdclient_error *error);
void fdclient_close(struct fdclient *client);

/* Blocking: one operator ("derivative", "laplacian", "diffusion"), start to end. For those that
 * take or give vector fields, and for "hessian", see fdclient_run_vector(). */
bool fdclient_run(struct fdclient *client, const char *operator_name,
                  const struct fdclient_array *f, const struct fdclient_params *params,
                  struct fdclient_result *result, struct fdclient_error *error);
bool fdclient_put(struct fdclient *client, const struct fdclient_array *f, uint64_t *field,
                  struct fdclient_error *error);
bool fdclient_get(struct fdclient *client, uint64_t field, struct fdclient_result *result,
                  struct fdclient_error *error);
bool fdclient_free(struct fdclient *client, uint64_t field, struct fdclient_error *error);
/* The memory of a resident field, for this process to map, too: what is written there is what jobs
 * read, and the reverse. The server orders its own jobs alone: do not read or write it while a job
 * uses the field. */
struct fdclient_export {
    char kind[8];    /* "memory": mmap() the descriptor; "cuda": cuMemImportFromShareableHandle() */
    char device[24]; /* the server's name of it: "host", "cuda:0" */
    char uuid[37];   /* of a GPU, as cuDeviceGetUuid() has it, in hexadecimal with hyphens; or "" */
    int descriptor;  /* yours to close; what is mapped stays. −1 after an error */
    uint64_t bytes;  /* of the memory, in which the array begins at: */
    uint64_t offset;
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
};
/* Blocking; after the jobs on the field that were submitted before. The memory counts as yours
 * until the field is freed and the client is closed, and holds anything after both. */
bool fdclient_export(struct fdclient *client, uint64_t field, struct fdclient_export *exported,
                     struct fdclient_error *error);
/* A method without parameters ("ping", "info", "stats", "list"): its result as JSON, which you
 * free(*json). Of more than 4,096 fields `list` is "TOO_LARGE": fdclient_run() with params.limit
 * and, from the second answer on, the last id of the one before as params.after. */
bool fdclient_call(struct fdclient *client, const char *method, char **json,
                   struct fdclient_error *error);

/* done and total in time steps. Called from whatever waits or processes; it must not use the
 * client. */
typedef void fdclient_progress(void *context, uint64_t ticket, uint64_t done, uint64_t total);
void fdclient_on_progress(struct fdclient *client, fdclient_progress *call, void *context);

/* A snapshot of a ticket with `every`: its array, whose data stay until the call returns, or (data
 * NULL) a new resident field. Called as the other; the job continues when it has been read. */
struct fdclient_snapshot {
    uint64_t ticket;
    uint64_t step;
    double time;
    struct fdclient_array array;
};
typedef void fdclient_snapshots(void *context, const struct fdclient_snapshot *snapshot);
void fdclient_on_snapshot(struct fdclient *client, fdclient_snapshots *call, void *context);

/* Asynchronous: begin a job (or "put", "get" with f->field, "free" with f->field, or a method
 * without parameters, f NULL) and return at once. *ticket names it. `result` and the array's data
 * are borrowed until the ticket comes back from fdclient_next(). */
bool fdclient_submit(struct fdclient *client, const char *method, const struct fdclient_array *f,
                     const struct fdclient_params *params, struct fdclient_result *result,
                     uint64_t *ticket, struct fdclient_error *error);

/* The same for vector fields ("gradient", "divergence", "curl"): f is f_count arrays, a vector's
 * components in the order x, y, z, or 1; and there is room for result_count results, where a
 * vector's components come in that order, a plain array first, and the second derivatives of
 * "hessian" in the order xx, xy, xz, yy, yz, zz. A result of an axis that f does not have is left
 * with 0 bytes. Up to FDCLIENT_AXES arrays of f. */
bool fdclient_run_vector(struct fdclient *client, const char *operator_name,
                         const struct fdclient_array *f, uint32_t f_count,
                         const struct fdclient_params *params, struct fdclient_result *results,
                         uint32_t result_count, struct fdclient_error *error);
bool fdclient_submit_vector(struct fdclient *client, const char *method,
                            const struct fdclient_array *f, uint32_t f_count,
                            const struct fdclient_params *params, struct fdclient_result *results,
                            uint32_t result_count, uint64_t *ticket, struct fdclient_error *error);

/* Several operators on resident fields in one request: params->ops is "[{\"op\": \"gradient\",
 * \"f\":
 * {\"field\": 7}, \"out\": \"g\"}, {\"op\": \"divergence\", \"f\": \"g\"}]", and results are those
 * of the last one. Or "chain" for fdclient_submit_vector(), without f. */
bool fdclient_chain(struct fdclient *client, const struct fdclient_params *params,
                    struct fdclient_result *results, uint32_t result_count,
                    struct fdclient_error *error);

/* Memory for large arrays that the server sees too: where an array's data, or a result's data and
 * capacity, lie in it (at a multiple of 16 bytes), no byte of them is copied or sent. It is
 * registered at once, which may wait for the server; where the server does not take it, and for
 * other clients, it is memory as any other. Page-aligned and zeroed. NULL: there is none. It takes
 * whole pages and a descriptor and stays in RAM, so allocate few and large ones. A result whose
 * size is not known before the reply (of get, and of a job on resident fields) goes there where its
 * capacity ends with the memory. */
void *fdclient_alloc(struct fdclient *client, size_t bytes);
/* No job that uses it may be under way. NULL is allowed. fdclient_close() frees the rest. */
void fdclient_dealloc(struct fdclient *client, void *memory);

/* The descriptor to poll, and for what (POLLIN, POLLOUT or both). */
int fdclient_descriptor(const struct fdclient *client);
short fdclient_events(const struct fdclient *client);

/* Read and write what is possible without waiting. False: the connection is broken, and every
 * ticket without a reply comes back from fdclient_next() with that error; those with one come back
 * as usual. */
bool fdclient_process(struct fdclient *client, struct fdclient_error *error);

/* Take a completed ticket, in the order of completion: 1 it succeeded, −1 it failed with `error`,
 * 0 none is complete. */
int fdclient_next(struct fdclient *client, uint64_t *ticket, struct fdclient_error *error);

/* Wait for one ticket. */
bool fdclient_wait(struct fdclient *client, uint64_t ticket, struct fdclient_error *error);

/* Ask the server to cancel a ticket, and return at once. The ticket comes back as usual: with
 * "CANCELLED", or with its result if that was on its way already. */
bool fdclient_cancel(struct fdclient *client, uint64_t ticket, struct fdclient_error *error);

const char *fdclient_version(void);

#ifdef __cplusplus
}
#endif
#endif
