#include "client/commands.h"

#include "base/clock.h"
#include "base/limits.h"
#include "client/error.h"
#include "client/file.h"
#include "client/json.h"
#include "client/number.h"
#include "protocol/object.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One run of the command. */
struct session {
    const struct options *o;
    struct fdclient *client; /* NULL: it is not connected yet */
    double begin_s;          /* of the latest request */
};

static double now_s(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Connect, where that has not been done, and begin to measure. */
static bool session_begin(struct session *s, struct fdclient_error *error)
{
    if (!s->client)
        s->client = fdclient_open(s->o->connect, error);
    s->begin_s = now_s();
    return s->client;
}

/* Close the connection: a request that was abandoned borrows its result until then. */
static void session_end(struct session *s)
{
    fdclient_close(s->client);
    s->client = NULL;
}

/* ---- waiting ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Wait until it is complete. A job's server stops first where there is a time limit. `cancels`: an
 * interrupt cancels the job, and none is lost, since SIGINT is blocked except in ppoll(). */
static bool ticket_wait(struct session *s, uint64_t ticket, bool is_job, bool cancels,
                        struct fdclient_error *error)
{
    const double deadline_s = s->o->timeout_s > 0 ? now_s() + s->o->timeout_s + is_job : INFINITY;
    bool cancelled = false;
    int outcome;
    sigset_t interrupt, mask;
    sigemptyset(&interrupt);
    if (cancels)
        sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &mask);
    for (;;) {
        uint64_t done;
        fdclient_process(s->client, NULL); /* a break completes the ticket, too */
        if ((outcome = fdclient_next(s->client, &done, error)) != 0)
            break;
        if (interrupted && !cancelled)
            cancelled = fdclient_cancel(s->client, ticket, NULL);
        struct pollfd wait = {fdclient_descriptor(s->client), fdclient_events(s->client), 0};
        const double left_s = fmin(deadline_s - now_s(), 1e6);
        const struct timespec left = {(time_t)left_s, (long)(fmod(left_s, 1) * 1e9)};
        if (left_s <= 0) {
            error_set(error, "TIMEOUT", "--timeout", "the server has not answered in time");
            break;
        }
        ppoll(&wait, 1, &left, &mask);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return outcome > 0;
}

/* A request that is no operator's, start to end. */
static bool request(struct session *s, const char *method, const struct fdclient_array *f,
                    const struct fdclient_params *params, struct fdclient_result *result,
                    struct fdclient_error *error)
{
    uint64_t ticket;
    const bool done = session_begin(s, error) &&
                      fdclient_submit(s->client, method, f, params, result, &ticket, error) &&
                      ticket_wait(s, ticket, false, false, error);
    if (!done)
        session_end(s);
    return done;
}

/* ---- jobs: submit and chain ---- */

static bool read_input(const struct options *o, const char *file, struct input *input,
                       struct fdclient_error *error)
{
    char shape[SHAPE_TEXT_BYTES];
    if (!input_open(input, file, o->shape, o->dtype, error))
        return false;
    if (input->assumed && !o->quiet)
        fprintf(stderr, "fdclient: %s: no shape is given; its size is that of a cube, so %s %s\n",
                file, shape_text(input->array.dimensions, input->array.shape, "x", shape),
                dtype_text(input->array.dtype));
    return true;
}

/* A job from files or fields to files or fields; a vector field has one for each component, a
 * Hessian one for each second derivative. */
struct submission {
    const struct options *o;
    struct input inputs[FDCLIENT_AXES];
    uint32_t input_count;
    struct fdclient_result results[FDCLIENT_RESULTS], probes;
    char *files[FDCLIENT_RESULTS]; /* of the results; NULL: they are kept */
    const char *const *names;      /* of the results; NULL: it is one */
    bool as_npy;
    bool shows_progress;
    double begin_s;
    struct fdclient_error snapshot_error; /* the first; no more of them are written */
};

static bool inputs_read(struct submission *s, struct fdclient_error *error)
{
    const struct options *o = s->o;
    for (; s->input_count < o->field.count; s->input_count++)
        s->inputs[s->input_count].array.field = o->field.id[s->input_count];
    for (int i = 0; i < o->argument_count; i++, s->input_count++)
        if (!read_input(o, o->arguments[i], &s->inputs[i], error))
            return false;
    return true;
}

/* The files of the results: `name`, or one for each. */
static bool files_name(struct submission *s, const char *name, struct fdclient_error *error)
{
    for (int i = 0; s->names ? s->names[i] != NULL : i == 0; i++) {
        s->files[i] = s->names ? output_name(name, s->names[i]) : strdup(name);
        if (!s->files[i])
            return error_set(error, "OUT_OF_MEMORY", "", "no memory for a name");
    }
    return true;
}

/* Choose the files of an operator's results, and see that such files can be written. */
static bool files_choose(struct submission *s, struct fdclient_error *error)
{
    const struct options *o = s->o;
    if (o->keep)
        return true;
    const char *first = o->field.count ? "field.bin" : o->arguments[0];
    char *input = s->input_count > 1 ? output_vector_name(first) : strdup(first);
    char *name = o->output ? strdup(o->output) : input ? output_name(input, o->op) : NULL;
    bool good = name ? files_name(s, name, error)
                     : error_set(error, "OUT_OF_MEMORY", "", "no memory for a name");
    free(input);
    free(name);
    s->as_npy =
        o->output && strcmp(o->output, "-") != 0 ? npy_is_name(o->output) : s->inputs[0].is_npy;
    for (int i = 0; i < FDCLIENT_RESULTS && good; i++)
        good = !s->files[i] || output_check(s->files[i], error);
    return good;
}

static void on_progress(void *context, uint64_t ticket, uint64_t done, uint64_t total)
{
    struct submission *s = context;
    (void)ticket;
    if (total == 0 || now_s() - s->begin_s < 1)
        return;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " steps, %.0f%%\033[K", done, total,
            100 * (double)done / (double)total);
    s->shows_progress = true;
}

/* Write a snapshot beside the result, or say which field it is. */
static void on_snapshot(void *context, const struct fdclient_snapshot *snapshot)
{
    struct submission *s = context;
    char step[24];
    if (s->snapshot_error.code[0])
        return;
    if (!snapshot->array.data) {
        printf("%" PRIu64 " %" PRIu64 "\n", snapshot->step, snapshot->array.field);
        fflush(stdout);
        return;
    }
    snprintf(step, sizeof step, "%" PRIu64, snapshot->step);
    char *name = s->files[0] ? output_name(s->files[0], step) : NULL;
    if (!name)
        error_set(&s->snapshot_error, "OUT_OF_MEMORY", "", "no memory for a name");
    else
        output_write(name, s->as_npy, &snapshot->array, &s->snapshot_error);
    free(name);
}

/* Submit and wait. Unless it is detached, Ctrl-C cancels the job from here on; a second one ends
 * the command. */
static bool job_wait(struct session *session, struct submission *s,
                     const struct fdclient_params *params, struct fdclient_error *error)
{
    const struct sigaction cancel = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct fdclient_array f[FDCLIENT_AXES];
    struct sigaction before;
    uint64_t ticket;
    for (uint32_t i = 0; i < s->input_count; i++)
        f[i] = s->inputs[i].array;
    sigaction(SIGINT, NULL, &before);
    if (!params->detach && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &cancel, NULL); /* before the job is there to be cancelled */
    const bool done = fdclient_submit_vector(session->client, s->o->op, s->input_count ? f : NULL,
                                             s->input_count, params, s->results,
                                             s->names ? FDCLIENT_RESULTS : 1, &ticket, error) &&
                      ticket_wait(session, ticket, true, !params->detach, error);
    sigaction(SIGINT, &before, NULL);
    return done;
}

/* The job itself; arrays come back in memory of their own. */
static bool job_run(struct session *session, struct submission *s, struct fdclient_error *error)
{
    const struct options *o = s->o;
    struct fdclient_params params = o->params;
    if (!session_begin(session, error))
        return false;
    s->begin_s = session->begin_s;
    params.ops = o->command == COMMAND_CHAIN ? o->arguments[0] : NULL;
    params.out_is_field = o->keep;
    params.progress = strcmp(o->op, "diffusion") == 0 && !o->quiet && isatty(STDERR_FILENO);
    fdclient_on_progress(session->client, on_progress, s);
    fdclient_on_snapshot(session->client, on_snapshot, s);
    if (params.probes)
        s->results[0].probes = &s->probes;
    if (o->timeout_s > 0)
        params.timeout_us = (uint64_t)ceil(fmin(o->timeout_s, 1e12) * 1e6);
    const bool done = job_wait(session, s, &params, error);
    if (!done)
        session_end(session);
    if (s->shows_progress)
        fputs("\r\033[K", stderr);
    if (done && s->snapshot_error.code[0])
        return error_copy(error, &s->snapshot_error);
    return done;
}

/* Write a result to its file, where it has one. */
static bool result_write(const struct fdclient_result *result, const char *file, bool as_npy,
                         struct fdclient_error *error)
{
    struct fdclient_array array = {
        .dtype = result->dtype, .dimensions = result->dimensions, .data = result->data};
    memcpy(array.shape, result->shape, sizeof array.shape);
    if (file && !result->data)
        return error_set(error, "CONNECTION", "", "the server's reply holds no array");
    return !file || output_write(file, as_npy, &array, error);
}

static bool results_deliver(struct submission *s, double seconds, struct fdclient_error *error)
{
    struct fdclient_result results[FDCLIENT_RESULTS];
    char *files[FDCLIENT_RESULTS];
    const char *names[FDCLIENT_RESULTS];
    uint32_t count = 0;
    for (int i = 0; i < FDCLIENT_RESULTS; i++) {
        if (i > 0 && !s->results[i].data && !s->results[i].field)
            continue; /* of an axis that the input does not have */
        if (!result_write(&s->results[i], s->files[i], s->as_npy, error))
            return false;
        results[count] = s->results[i];
        files[count] = s->files[i];
        names[count++] = s->names ? s->names[i] : NULL;
    }
    say_results(s->o, results, files, s->names ? names : NULL, count, seconds);
    return true;
}

static void submission_free(struct submission *s)
{
    free(s->results[0].json);
    free(s->probes.data);
    for (int i = 0; i < FDCLIENT_RESULTS; i++) {
        if (s->results[i].allocated)
            free(s->results[i].data);
        free(s->files[i]);
        if (i < FDCLIENT_AXES)
            input_close(&s->inputs[i]);
    }
}

/* submit and chain. A chain reads no inputs here; its files are named once its results are there,
 * since only these show whether its last op gives a vector field. */
static bool submit(struct session *session, struct fdclient_error *error)
{
    const struct options *o = session->o;
    const bool is_chain = o->command == COMMAND_CHAIN, runs = !o->params.dry_run;
    const char *const chain_file = is_chain && runs ? o->output : NULL;
    struct submission s = {.o = o, .names = options_result_names(o)};
    bool done = is_chain ? !chain_file || output_check(chain_file, error)
                         : inputs_read(&s, error) && (!runs || files_choose(&s, error));
    done = done && job_run(session, &s, error);
    const double seconds = now_s() - s.begin_s;
    if (is_chain) {
        s.names = s.results[1].data || s.results[1].field ? s.names : NULL;
        s.as_npy = chain_file && npy_is_name(chain_file);
        done = done && (!chain_file || files_name(&s, chain_file, error));
    }
    if (done)
        done = runs ? results_deliver(&s, seconds, error) : say_json(o, s.results[0].json, error);
    submission_free(&s);
    return done;
}

/* ---- fields ---- */

static bool put_field(struct session *s, struct fdclient_error *error)
{
    struct input input;
    struct fdclient_result result = {0};
    struct fdclient_params params = FDCLIENT_PARAMS;
    params.placement = s->o->params.placement;
    params.distribute = s->o->params.distribute;
    if (!read_input(s->o, s->o->arguments[0], &input, error))
        return false;
    const bool done = request(s, "put", &input.array, &params, &result, error);
    result.dtype = input.array.dtype;
    result.dimensions = input.array.dimensions;
    memcpy(result.shape, input.array.shape, sizeof result.shape);
    result.bytes = shape_bytes(&input.array);
    if (done)
        say_results(s->o, &result, (char *[]){NULL}, NULL, 1, now_s() - s->begin_s);
    input_close(&input);
    return done;
}

static bool ids_read(const char *text, struct ids *ids, struct fdclient_error *error)
{
    return options_ids(text, ids) ||
           error_set(error, "USAGE", "ID", "an id is a whole number; got '%.60s'", text);
}

static bool get_field(struct session *s, struct fdclient_error *error)
{
    const struct options *o = s->o;
    char *file = (char *)o->output;
    struct ids field;
    struct fdclient_result result = {0};
    if (!ids_read(o->arguments[0], &field, error))
        return false;
    if (field.count != 1)
        return error_set(error, "USAGE", "ID", "get fetches one field; got '%.60s'",
                         o->arguments[0]);
    const struct fdclient_array f = {.field = field.id[0]};
    const bool done = output_check(o->output, error) &&
                      request(s, "get", &f, NULL, &result, error) &&
                      result_write(&result, o->output, npy_is_name(o->output), error);
    if (done)
        say_results(o, &result, &file, NULL, 1, now_s() - s->begin_s);
    if (result.allocated)
        free(result.data);
    return done;
}

static bool free_fields(struct session *s, struct fdclient_error *error)
{
    struct ids fields;
    for (int i = 0; i < s->o->argument_count; i++)
        if (!ids_read(s->o->arguments[i], &fields, error))
            return false;
    for (int i = 0; i < s->o->argument_count; i++) {
        options_ids(s->o->arguments[i], &fields);
        for (uint32_t k = 0; k < fields.count; k++) {
            const struct fdclient_array f = {.field = fields.id[k]};
            if (!request(s, "free", &f, NULL, NULL, error))
                return false;
        }
    }
    return true;
}

/* Append a page of the fields, of ids above *after; their objects are in the zone. *after becomes
 * the last id, or 0 after the last page. */
static bool read_page(struct session *s, msgpack_zone *zone, msgpack_object_array *fields,
                      uint64_t *after, struct fdclient_error *error)
{
    struct fdclient_params params = FDCLIENT_PARAMS;
    struct fdclient_result result = {0};
    const char *reason;
    msgpack_object answer;
    params.after = *after;
    params.limit = LIMIT_LISTED;
    if (!request(s, "list", NULL, &params, &result, error))
        return false;
    const bool read = json_read(result.json, strlen(result.json), zone, &answer, &reason);
    const msgpack_object *page = read ? object_find(&answer, "fields") : NULL;
    free(result.json);
    if (!page || page->type != MSGPACK_OBJECT_ARRAY)
        return error_set(error, "INTERNAL", "", "the answer cannot be read: %s",
                         read ? "no fields" : reason);
    const uint32_t count = page->via.array.size;
    msgpack_object *grown =
        realloc(fields->ptr, ((size_t)fields->size + count + 1) * sizeof *grown);
    if (!grown)
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the answer");
    fields->ptr = grown;
    if (count > 0)
        memcpy(grown + fields->size, page->via.array.ptr, count * sizeof *grown);
    fields->size += count;
    uint64_t last;
    const bool ends = count < LIMIT_LISTED ||
                      !object_find_unsigned(&grown[fields->size - 1], "field", &last) ||
                      last <= *after;
    *after = ends ? 0 : last; /* nor may a page be the same again */
    return true;
}

/* All fields, printed as one answer. */
static bool list_fields(struct session *s, struct fdclient_error *error)
{
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    msgpack_object fields = {.type = MSGPACK_OBJECT_ARRAY};
    uint64_t after = 0;
    bool done;
    do
        done = read_page(s, zone, &fields.via.array, &after, error);
    while (done && after);
    if (done && s->o->json) {
        fputs("{\"fields\": ", stdout);
        json_write(stdout, &fields, 0);
        puts("}");
    } else if (done) {
        say_table(&fields.via.array);
    }
    free(fields.via.array.ptr);
    msgpack_zone_free(zone);
    return done;
}

/* ---- the server ---- */

static bool ping(struct session *s, struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done = request(s, "ping", NULL, NULL, &result, error);
    const double seconds = now_s() - s->begin_s;
    free(result.json);
    if (done && s->o->json) {
        fputs("{\"seconds\": ", stdout);
        number_print(stdout, seconds);
        puts("}");
    } else if (done && !s->o->quiet) {
        printf("fdserver answered in %.3g ms\n", seconds * 1e3);
    }
    return done;
}

/* info, stats */
static bool ask(struct session *s, struct fdclient_error *error)
{
    struct fdclient_result result = {0};
    const bool done =
        request(s, s->o->command == COMMAND_INFO ? "info" : "stats", NULL, NULL, &result, error) &&
        say_json(s->o, result.json, error);
    free(result.json);
    return done;
}

bool commands_run(const struct options *o, struct fdclient_error *error)
{
    static bool (*const commands[COMMAND_COUNT])(struct session *, struct fdclient_error *) = {
        [COMMAND_SUBMIT] = submit, [COMMAND_CHAIN] = submit,     [COMMAND_PUT] = put_field,
        [COMMAND_GET] = get_field, [COMMAND_FREE] = free_fields, [COMMAND_LIST] = list_fields,
        [COMMAND_PING] = ping,     [COMMAND_INFO] = ask,         [COMMAND_STATS] = ask};
    struct session session = {.o = o};
    const bool done = commands[o->command](&session, error);
    session_end(&session);
    if (done && (fflush(stdout) != 0 || ferror(stdout)))
        return error_set(error, "FILE", "", "standard output: %s", strerror(errno));
    return done;
}
