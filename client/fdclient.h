/* fdclient.h: finite differences from an fdserver, in C. No CUDA is needed or used here.
 *
 * This header is the manual. One connection has any number of jobs in flight. Blocking use:
 *
 *     struct fdclient_error error;
 *     struct fdclient *client = fdclient_open(NULL, &error);
 *     struct fdclient_params params = FDCLIENT_PARAMS;
 *     params.axis = "x"; params.spacing = "0.1";
 *     struct fdclient_array f = {FDCLIENT_F32, 3, {64, 64, 64}, data, 0};
 *     struct fdclient_result result = {.data = derivative, .capacity = sizeof derivative};
 *     if (fdclient_run(client, "derivative", &f, &params, &result, &error)) …
 *     fdclient_close(client);
 *
 * Asynchronous use: fdclient_submit() any number of jobs, watch fdclient_descriptor() for
 * fdclient_events() in your own loop, call fdclient_process() when it is ready, and take completed
 * jobs with fdclient_next(). None of these blocks.
 *
 * Arrays of 64 KiB and more are copied through memory that client and server share, if the server
 * offers that; arrays in memory from fdclient_alloc() are not copied at all. All others go over the
 * socket. In the environment, FDCLIENT_TRANSPORT=socket sends all arrays over the socket, and
 * FDCLIENT_TRANSPORT=region all through shared memory, or the job fails (results of "chain" and
 * "hessian" always come over the socket, and so do those of resident fields into memory that the
 * library allocates).
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
    /* As on the wire: "INVALID_ARGUMENT", …; "CONNECTION" if the server cannot be reached. */
    char code[24];
    char parameter[48]; /* the parameter at fault, or "" */
    char message[256];  /* a sentence */
    bool retryable;     /* may the same request succeed later? */
    bool has_limit;     /* need and limit are set */
    double need, limit;
};

/* An array in C order: shape[dimensions − 1] is the length of x, which is contiguous (Fortran's
 * f(nx, ny, nz) has the shape {nz, ny, nx}). Or a resident field: data NULL, its id in field. */
struct fdclient_array {
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
    const void *data; /* borrowed until the job is complete */
    uint64_t field;   /* used if data is NULL */
};

/* Parameters of an operator, named as on the wire (protocol/PROTOCOL.md). A member that is NULL, 0,
 * false or NAN is not sent, and the server's default applies. A string is one value ("0.1",
 * "periodic"), a map ("x=0.1,y=0.2"; "x=periodic,y-=value:0,y+=derivative:0", "*" for the rest), a
 * list ("0,1,3") or JSON ("{\"x\": […]}"). A resident field is "field:ID". */
struct fdclient_params {
    const char *axis;     /* derivative, interpolate: "x", "y", "z" or a NumPy axis number; of a
                             mixed derivative "x,y" */
    int order;            /* derivative: 1 to 4 */
    const char *stagger;  /* derivative, interpolate: "forward", "backward" */
    int accuracy;         /* 2, 4, 6 or 8 */
    const char *spacing;  /* of the points, or coordinates */
    const char *boundary; /* a kind of protocol/PROTOCOL.md with its numbers: "periodic", "value:V",
                             "mixed:V:CONST"; half a cell outside "value:V@face". V, CONST: a
                             number, or field:ID of values over the face */
    const char *endpoint; /* "true", "false", or per axis */
    uint32_t batch;       /* the number of leading axes that are a batch */
    const char *coefficient;       /* laplacian: field:ID */
    const char *offsets, *weights; /* stencil: "[[-1],[0],[1]]", "0.25,0.5,0.25" */
    uint64_t steps;                /* diffusion, stencil */
    double dt, cfl;                /* diffusion: exactly one of them */
    const char *diffusivity;       /* diffusion: numbers, or field:ID */
    const char *source;            /* diffusion: a number, or field:ID */
    const char *scheme;            /* diffusion: "forward-euler", "rk4", "adi" */
    const char *probes;            /* diffusion: indices as JSON, "[[0,7],[3,-1]]": result.probes */
    bool allow_unstable;           /* diffusion */
    bool progress;                 /* diffusion: call on_progress */
    uint64_t every;        /* diffusion, stencil: call on_snapshot after every so many steps */
    const char *snapshot;  /* … "notify" (default): with the array; "field": with a new field */
    const char *ops;       /* chain: its operators, as JSON */
    uint64_t repeat;       /* chain: the number of rounds */
    bool report;           /* result.json describes the result and estimates its error */
    bool dry_run;          /* do not run the job: result.json has its cost. Arrays that are not
                              resident need only their shape and dtype */
    int priority;          /* −100 to 100: of your waiting jobs, the highest runs first */
    const char *placement; /* not get: the name of a device, "cuda:1"; or "spread": the one where
                              the least of your work waits; by default the one expected to finish
                              first */
    bool distribute;       /* not get: in subdomains, one on each device; not with placement */
    uint64_t timeout_us;   /* from the request's receipt; a job not done by then is "TIMEOUT" */
    bool detach;           /* the job continues after its connection ends; needs out_is_field */
    bool out_is_field;     /* keep the result on the server: result.field */
    uint64_t out_field[FDCLIENT_AXES]; /* overwrite this field, or one for each component of a
                                          vector; needs out_is_field */
    uint64_t after, limit;             /* list: only ids above `after`, `limit` fields at most */
};
#ifdef __cplusplus
#define FDCLIENT_PARAMS                                                                            \
    {                                                                                              \
    }
#else
#define FDCLIENT_PARAMS                                                                            \
    {                                                                                              \
        0                                                                                          \
    }
#endif

/* The place of a result. Set data and capacity to receive it into memory of your own, or leave both
 * 0: then the client allocates memory, and you free(data). */
struct fdclient_result {
    void *data;
    size_t capacity; /* of data, bytes; a larger result is an error, and is read and dropped */
    bool allocated;  /* data was allocated here: free() it */
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
    uint64_t bytes;
    uint64_t field;                 /* the result stayed resident */
    struct fdclient_result *probes; /* of a job with probes: the place of their values,
                                       [steps + 1, probes]; or NULL */
    char *json; /* the answer of a dry_run or of a method without arrays, or the report (in the
                   first result); free() it */
};

struct fdclient;

/* Connect. address: "unix:PATH", or a path alone that begins with / or a dot; NULL:
 * $FDSERVER_SOCKET, else /run/fdserver/fdserver.sock, else $XDG_RUNTIME_DIR/fdserver.sock, the
 * first that exists. */
struct fdclient *fdclient_open(const char *address, struct fdclient_error *error);
void fdclient_close(struct fdclient *client);

/* Run one operator ("derivative", "laplacian", "diffusion"), and wait for its result. params may be
 * NULL. For operators with vector fields, and for "hessian", see fdclient_run_vector(). */
bool fdclient_run(struct fdclient *client, const char *operator_name,
                  const struct fdclient_array *f, const struct fdclient_params *params,
                  struct fdclient_result *result, struct fdclient_error *error);
bool fdclient_put(struct fdclient *client, const struct fdclient_array *f, uint64_t *field,
                  struct fdclient_error *error);
bool fdclient_get(struct fdclient *client, uint64_t field, struct fdclient_result *result,
                  struct fdclient_error *error);
bool fdclient_free(struct fdclient *client, uint64_t field, struct fdclient_error *error);
/* The memory of a resident field, for this process to map: jobs read the values written there, and
 * the reverse. The server does not order your accesses: do not read or write the memory while a job
 * uses the field. */
struct fdclient_export {
    char kind[8];    /* "memory": mmap() the descriptor; "cuda": cuMemImportFromShareableHandle() */
    char device[24]; /* the server's name of the device: "host", "cuda:0" */
    char uuid[37];   /* of a GPU, from cuDeviceGetUuid(), in hexadecimal with hyphens; or "" */
    int descriptor;  /* close it; mappings remain. −1 after an error */
    uint64_t bytes;  /* of the memory */
    uint64_t offset; /* of the array in it */
    enum fdclient_dtype dtype;
    uint32_t dimensions;
    uint64_t shape[FDCLIENT_DIMENSIONS];
};
/* Blocking; takes effect after earlier jobs on the field. The memory is charged to you until the
 * field is freed and the client is closed; then its contents are undefined. */
bool fdclient_export(struct fdclient *client, uint64_t field, struct fdclient_export *exported,
                     struct fdclient_error *error);
/* A method without parameters ("ping", "info", "stats", "list"): its result as JSON, which you
 * free(*json). For more than 4,096 fields "list" is "TOO_LARGE": call it through fdclient_run()
 * with params.limit and, from the second call on, the last id so far as params.after. */
bool fdclient_call(struct fdclient *client, const char *method, char **json,
                   struct fdclient_error *error);

/* done and total in time steps. Called by functions that wait, and by fdclient_process(); it must
 * not use the client. */
typedef void fdclient_progress(void *context, uint64_t ticket, uint64_t done, uint64_t total);
void fdclient_on_progress(struct fdclient *client, fdclient_progress *call, void *context);

/* A snapshot of a ticket with `every`: its array, whose data are valid until the call returns, or
 * (data NULL) a new resident field. The rules of fdclient_progress apply. The job continues when
 * the snapshot has been read. */
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

/* The same for vector fields ("gradient", "divergence", "curl") and "hessian". f is an array of
 * f_count inputs: 1, or a vector's components in the order x, y, z. results has room for
 * result_count results: one array, a vector's components in that order, or the second derivatives
 * in the order xx, xy, xz, yy, yz, zz. Results of axes that f does not have are left with 0 bytes.
 */
bool fdclient_run_vector(struct fdclient *client, const char *operator_name,
                         const struct fdclient_array *f, uint32_t f_count,
                         const struct fdclient_params *params, struct fdclient_result *results,
                         uint32_t result_count, struct fdclient_error *error);
bool fdclient_submit_vector(struct fdclient *client, const char *method,
                            const struct fdclient_array *f, uint32_t f_count,
                            const struct fdclient_params *params, struct fdclient_result *results,
                            uint32_t result_count, uint64_t *ticket, struct fdclient_error *error);

/* Several operators on resident fields in one request. params->ops is JSON:
 *     [{"op": "gradient", "f": {"field": 7}, "out": "g"}, {"op": "divergence", "f": "g"}]
 * The results are those of the last operator. Asynchronous: fdclient_submit_vector() of "chain",
 * without f. */
bool fdclient_chain(struct fdclient *client, const struct fdclient_params *params,
                    struct fdclient_result *results, uint32_t result_count,
                    struct fdclient_error *error);

/* Memory for large arrays, shared with the server: arrays and results in it, at multiples of 16
 * bytes, are neither copied nor sent. The call registers the memory, which may wait for the server.
 * If the server refuses it, and for other clients, it is ordinary memory. It is page-aligned and
 * zeroed; NULL if there is none. It stays in RAM and takes whole pages and a descriptor, so
 * allocate few large pieces. A result whose size is unknown before the reply (of get, or of a job
 * on resident fields) is written there only if its capacity ends with the memory. */
void *fdclient_alloc(struct fdclient *client, size_t bytes);
/* No unanswered job may use the memory. NULL is allowed. fdclient_close() frees the rest. */
void fdclient_dealloc(struct fdclient *client, void *memory);

/* The descriptor to poll, and for what (POLLIN, POLLOUT or both). */
int fdclient_descriptor(const struct fdclient *client);
short fdclient_events(const struct fdclient *client);

/* Read and write as much as is possible without waiting. False: the connection is broken. Then
 * fdclient_next() returns every ticket without a reply with that error, and the others as usual. */
bool fdclient_process(struct fdclient *client, struct fdclient_error *error);

/* Take a completed ticket, in the order of completion: 1 it succeeded, −1 it failed with `error`,
 * 0 none is complete. */
int fdclient_next(struct fdclient *client, uint64_t *ticket, struct fdclient_error *error);

/* Wait for one ticket. */
bool fdclient_wait(struct fdclient *client, uint64_t ticket, struct fdclient_error *error);

/* Ask the server to cancel a ticket, and return at once. fdclient_next() or fdclient_wait() then
 * gives "CANCELLED", or the result if the server had begun to send it. */
bool fdclient_cancel(struct fdclient *client, uint64_t ticket, struct fdclient_error *error);

const char *fdclient_version(void);

#ifdef __cplusplus
}
#endif
#endif
