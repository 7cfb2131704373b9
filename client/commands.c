#include "client/commands.h"

#include "client/error.h"
#include "client/input.h"
#include "client/json_read.h"
#include "client/json_write.h"
#include "client/npy.h"
#include "client/number.h"
#include "client/output.h"
#include "client/shape.h"
#include "client/table.h"
#include "numerics/job.h"
#include "base/limits.h"
#include "protocol/object.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* --- progress -------------------------------------------------------------------------------- */

struct progress {
    double begin_s;
    bool shown;
};

static void progress_show(void *context, uint64_t ticket, uint64_t done, uint64_t total)
{
    struct progress *progress = context;
    (void)ticket;
    if (total == 0 || now_s() - progress->begin_s < 1)
        return;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " steps, %.0f%%\033[K", done, total,
            100 * (double)done / (double)total);
    progress->shown = true;
}

static void progress_clear(const struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
}

/* --- what is said about a result -------------------------------------------------------------- */

/* The smallest and largest number; NaN where there is none. */
static void extent(const struct fdclient_array *array, uint64_t points, double *least, double *most)
{
    *least = *most = NAN;
    for (uint64_t i = 0; i < points; i++) {
        const double value = array->dtype == FDCLIENT_F64 ? ((const double *)array->data)[i]
                                                          : ((const float *)array->data)[i];
        if (!(value >= *least)) /* NaN at first */
            *least = isnan(value) ? *least : value;
        if (!(value <= *most))
            *most = isnan(value) ? *most : value;
    }
}

/* An array as it came to lie: in a file, or (file NULL) resident; and what is said about it. */
struct place {
    const struct fdclient_result *probes; /* their values; NULL: there are none. In its first */
    const char *report; /* JSON; NULL: nothing is. Of a vector field about all, in its first */
    struct fdclient_array array;
    uint64_t bytes;
    const char *file;
};

static void say_json(const struct place *place, double seconds)
{
    const struct fdclient_array *array = &place->array;
    putchar('{');
    if (place->file) {
        fputs("\"file\": ", stdout);
        json_write_string(stdout, place->file, strlen(place->file));
    } else {
        printf("\"field\": %" PRIu64, array->field);
    }
    fputs(", \"shape\": [", stdout);
    for (uint32_t i = 0; i < array->dimensions; i++)
        printf("%s%" PRIu64, i ? ", " : "", array->shape[i]);
    printf("], \"dtype\": \"%s\", \"bytes\": %" PRIu64 ", \"seconds\": ", dtype_text(array->dtype),
           place->bytes);
    number_print(stdout, seconds);
    if (array->data) {
        double least, most;
        extent(array, place->bytes / dtype_bytes(array->dtype), &least, &most);
        fputs(", \"min\": ", stdout);
        number_print(stdout, least);
        fputs(", \"max\": ", stdout);
        number_print(stdout, most);
    }
}

static struct fdclient_array array_of(const struct fdclient_result *result)
{
    struct fdclient_array array = {.dtype = result->dtype,
                                   .dimensions = result->dimensions,
                                   .data = result->data,
                                   .field = result->field};
    memcpy(array.shape, result->shape, sizeof array.shape);
    return array;
}

/* The values at probes, a line for each step; or as JSON. */
static void say_probes(const struct fdclient_result *probes, bool json)
{
    const struct fdclient_array array = array_of(probes);
    const uint64_t columns = array.shape[1];
    for (uint64_t i = 0; i < array.shape[0] * columns; i++) {
        if (json)
            fputs(i % columns ? ", " : i ? "], [" : "[[", stdout);
        else if (i)
            putchar(i % columns ? ' ' : '\n');
        number_print(stdout, array.dtype == FDCLIENT_F64 ? ((const double *)array.data)[i]
                                                         : ((const float *)array.data)[i]);
    }
    fputs(json ? "]]" : "\n", stdout);
}

/* {"x": …, "y": …} for a vector field. */
static void say_all_json(const struct place *places, uint32_t count, bool is_vector, double seconds)
{
    if (is_vector)
        putchar('{');
    for (uint32_t i = 0; i < count; i++) {
        if (is_vector)
            printf("%s\"%s\": ", i ? ", " : "", axis_name((enum axis)i));
        say_json(&places[i], seconds);
        if (is_vector)
            putchar('}');
    }
    if (places->report)
        printf(", \"report\": %s", places->report);
    if (places->probes) {
        fputs(", \"probes\": ", stdout);
        say_probes(places->probes, true);
    }
    puts("}");
}

static void say_file(const struct place *place, double seconds)
{
    char shape[SHAPE_TEXT_BYTES];
    const bool is_stdout = strcmp(place->file, "-") == 0;
    fprintf(is_stdout ? stderr : stdout, "%s: %s %s in %.3g ms\n",
            is_stdout ? "standard output" : place->file,
            shape_text(place->array.dimensions, place->array.shape, shape),
            dtype_text(place->array.dtype), seconds * 1e3);
}

static void say(const struct options *o, const struct place *places, uint32_t count, bool is_vector,
                double seconds)
{
    if (o->json) {
        say_all_json(places, count, is_vector, seconds);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!places[i].file)
            printf("%" PRIu64 "%s", places[i].array.field, i + 1 < count ? "," : "\n");
        else if (!o->quiet)
            say_file(&places[i], seconds);
    if (places->report)
        puts(places->report);
    if (places->probes)
        say_probes(places->probes, false);
}

/* --- commands -------------------------------------------------------------------------------- */

static bool read_input(const struct options *o, const char *file, struct input *input,
                       struct fdclient_error *error)
{
    char shape[SHAPE_TEXT_BYTES];
    if (!input_open(input, file, o->shape, o->dtype, error))
        return false;
    if (input->assumed && !o->quiet)
        fprintf(stderr, "fdclient: %s: no shape is given; its size is that of a cube, so %s %s\n",
                file, shape_text(input->array.dimensions, input->array.shape, shape),
                dtype_text(input->array.dtype));
    return true;
}

/* A job from files or fields to files or fields; a vector field has one for each component. */
struct submission {
    struct input inputs[FDCLIENT_AXES];
    uint32_t input_count;
    struct fdclient_result results[FDCLIENT_AXES], probes;
    char *names[FDCLIENT_AXES]; /* of the results' files; NULL: they are kept */
    bool is_vector;             /* of its results */
    bool as_npy;
    double seconds;
};

static bool inputs_read(const struct options *o, struct submission *s, struct fdclient_error *error)
{
    for (; s->input_count < o->field.count; s->input_count++)
        s->inputs[s->input_count].array.field = o->field.id[s->input_count];
    for (int i = 0; i < o->argument_count; i++, s->input_count++)
        if (!read_input(o, o->arguments[i], &s->inputs[i], error))
            return false;
    return true;
}

/* Choose the results' names, and see that such files can be written. */
static bool results_name(const struct options *o, struct submission *s,
                         struct fdclient_error *error)
{
    if (o->keep)
        return true;
    const char *first = o->field.count ? "field.bin" : o->arguments[0];
    char *input = s->input_count > 1 ? output_vector_name(first) : strdup(first);
    char *name = o->output ? strdup(o->output) : input ? output_name(input, o->op) : NULL;
    free(input);
    bool named = name != NULL;
    for (int i = 0; named && s->is_vector && i < FDCLIENT_AXES; i++)
        named = (s->names[i] = output_name(name, axis_name((enum axis)i))) != NULL;
    if (named && !s->is_vector)
        s->names[0] = name;
    else
        free(name);
    if (!named)
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for a name");
    s->as_npy =
        o->output && strcmp(o->output, "-") != 0 ? npy_is_name(o->output) : s->inputs[0].is_npy;
    for (int i = 0; i < FDCLIENT_AXES; i++)
        if (s->names[i] && !output_check(s->names[i], error))
            return false;
    return true;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Wait until it is complete, cancelling it where there was an interrupt. SIGINT is blocked but for
 * the time in which `unblocked` (NULL: it never is) holds. */
static bool ticket_wait(struct fdclient *client, uint64_t ticket, double deadline_s,
                        const sigset_t *unblocked, struct fdclient_error *error)
{
    for (bool cancelled = false;;) {
        uint64_t done;
        fdclient_process(client, NULL); /* a break completes the ticket, too */
        const int outcome = fdclient_next(client, &done, error);
        if (outcome != 0)
            return outcome > 0;
        if (interrupted && !cancelled)
            cancelled = fdclient_cancel(client, ticket, NULL);
        struct pollfd wait = {fdclient_descriptor(client), fdclient_events(client), 0};
        const double left_s = fmin(deadline_s - now_s(), 1e6);
        const struct timespec left = {(time_t)left_s, (long)(fmod(left_s, 1) * 1e9)};
        if (left_s <= 0)
            return error_set(error, "TIMEOUT", "--timeout", "the server has not answered in time");
        ppoll(&wait, 1, &left, unblocked);
    }
}

/* When the client stops to wait for an answer; of a job somewhat later than the server stops it. */
static double deadline_of(const struct options *o, bool is_job)
{
    return o->timeout_s > 0 ? now_s() + o->timeout_s + is_job : INFINITY;
}

/* A request that is no operator's, start to end. */
static bool request(const struct options *o, struct fdclient *client, const char *method,
                    const struct fdclient_array *f, const struct fdclient_params *params,
                    struct fdclient_result *result, struct fdclient_error *error)
{
    uint64_t ticket;
    return fdclient_submit(client, method, f, params, result, &ticket, error) &&
           ticket_wait(client, ticket, deadline_of(o, false), NULL, error);
}

/* The same, where no interrupt is lost. */
static bool ticket_wait_or_cancel(struct fdclient *client, uint64_t ticket, double deadline_s,
                                  struct fdclient_error *error)
{
    sigset_t interrupt, mask;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &mask);
    const bool done = ticket_wait(client, ticket, deadline_s, &mask, error);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return done;
}

/* From here on Ctrl-C is for the job; a second one ends the command as ever. */
static void interrupts_catch(struct sigaction *before)
{
    const struct sigaction cancel = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, NULL, before);
    if (before->sa_handler != SIG_IGN)
        sigaction(SIGINT, &cancel, NULL);
}

/* Writes them beside the result, or says which fields they are. */
struct snapshots {
    const struct submission *submission;
    struct fdclient_error error; /* the first; no more are written */
};

static void snapshot_write(void *context, const struct fdclient_snapshot *snapshot)
{
    struct snapshots *snapshots = context;
    const struct submission *s = snapshots->submission;
    char step[24];
    if (snapshots->error.code[0])
        return;
    if (!snapshot->array.data) {
        printf("%" PRIu64 " %" PRIu64 "\n", snapshot->step, snapshot->array.field);
        fflush(stdout);
        return;
    }
    snprintf(step, sizeof step, "%" PRIu64, snapshot->step);
    char *name = s->names[0] ? output_name(s->names[0], step) : NULL;
    if (!name)
        error_set(&snapshots->error, "OUT_OF_MEMORY", "", "no memory for a name");
    else
        output_write(name, s->as_npy, &snapshot->array, &snapshots->error);
    free(name);
}

/* The job itself, on a connection of its own; arrays come back in memory of their own. */
static bool job_run(const struct options *o, struct submission *s, struct fdclient_error *error)
{
    struct fdclient *client = fdclient_open(o->connect, error);
    if (!client)
        return false;
    struct fdclient_array f[FDCLIENT_AXES];
    for (uint32_t i = 0; i < s->input_count; i++)
        f[i] = s->inputs[i].array;
    struct fdclient_params params = o->params;
    struct progress progress = {.begin_s = now_s()};
    params.out_is_field = o->keep;
    params.progress = strcmp(o->op, "diffusion") == 0 && !o->quiet && isatty(STDERR_FILENO);
    fdclient_on_progress(client, progress_show, &progress);
    struct snapshots snapshots = {.submission = s};
    if (params.probes)
        s->results[0].probes = &s->probes;
    fdclient_on_snapshot(client, snapshot_write, &snapshots);
    if (o->timeout_s > 0)
        params.timeout_us = (uint64_t)ceil(fmin(o->timeout_s, 1e12) * 1e6);
    struct sigaction before;
    if (!params.detach) /* before it is there to be cancelled */
        interrupts_catch(&before);
    uint64_t ticket;
    const bool done =
        fdclient_submit_vector(client, o->op, s->input_count ? f : NULL,
                               s->input_count ? s->input_count : 1, &params, s->results,
                               s->is_vector ? FDCLIENT_AXES : 1, &ticket, error) &&
        (params.detach ? ticket_wait(client, ticket, deadline_of(o, true), NULL, error)
                       : ticket_wait_or_cancel(client, ticket, deadline_of(o, true), error));
    if (!params.detach)
        sigaction(SIGINT, &before, NULL);
    s->seconds = now_s() - progress.begin_s;
    progress_clear(&progress);
    fdclient_close(client);
    if (done && snapshots.error.code[0]) {
        *error = snapshots.error;
        return false;
    }
    return done;
}

/* Write a result to its file, where it has one. */
static bool result_write(const struct fdclient_result *result, const char *file, bool as_npy,
                         struct place *place, struct fdclient_error *error)
{
    *place = (struct place){.array = array_of(result), .bytes = result->bytes, .file = file};
    if (file && !result->data)
        return error_set(error, "CONNECTION", "", "the server's reply holds no array");
    return !file || output_write(file, as_npy, &place->array, error);
}

static bool results_deliver(const struct options *o, struct submission *s,
                            struct fdclient_error *error)
{
    struct place places[FDCLIENT_AXES];
    uint32_t count = 0;
    while (count < FDCLIENT_AXES &&
           (count == 0 || s->results[count].data || s->results[count].field)) {
        if (!result_write(&s->results[count], s->names[count], s->as_npy, &places[count], error))
            return false;
        count++;
    }
    places->report = s->results->json;
    places->probes = s->probes.data ? &s->probes : NULL;
    say(o, places, count, s->is_vector, s->seconds);
    return true;
}

/* A page of the fields: its objects in the zone. *result is the client's until it is closed. */
static bool read_page(const struct options *o, struct fdclient *client, uint64_t after,
                      struct fdclient_result *result, msgpack_zone *zone, msgpack_object *page,
                      struct fdclient_error *error)
{
    struct fdclient_params params = FDCLIENT_PARAMS;
    const char *reason = "no fields";
    params.after = after;
    params.limit = LIMIT_LISTED;
    if (!request(o, client, "list", NULL, &params, result, error))
        return false;
    const bool read = json_read(result->json, strlen(result->json), zone, page, &reason);
    const msgpack_object *fields = read ? object_find(page, "fields") : NULL;
    free(result->json);
    result->json = NULL;
    if (!fields || fields->type != MSGPACK_OBJECT_ARRAY)
        return error_set(error, "INTERNAL", "", "the answer cannot be read: %s", reason);
    *page = *fields;
    return true;
}

/* All of them, page by page; *result as of read_page(), fields->ptr is to be freed. */
static bool read_fields(const struct options *o, struct fdclient *client,
                        struct fdclient_result *result, msgpack_zone *zone,
                        msgpack_object_array *fields, struct fdclient_error *error)
{
    for (uint64_t after = 0, last = 0;; after = last) {
        msgpack_object page;
        if (!read_page(o, client, after, result, zone, &page, error))
            return false;
        const uint32_t count = page.via.array.size;
        if (count == 0)
            return true;
        msgpack_object *grown =
            realloc(fields->ptr, ((size_t)fields->size + count) * sizeof *grown);
        if (!grown)
            return error_set(error, "OUT_OF_MEMORY", "", "no memory for the answer");
        memcpy(grown + fields->size, page.via.array.ptr, count * sizeof *grown);
        fields->ptr = grown;
        fields->size += count;
        const msgpack_object *id = object_find(&grown[fields->size - 1], "field");
        if (!id || !object_unsigned(id, &last) || last <= after || count < LIMIT_LISTED)
            return true; /* nor may a page be the same again */
    }
}

/* All fields, printed as one answer. */
static bool list_fields(const struct options *o, struct fdclient_error *error)
{
    msgpack_zone zone;
    msgpack_object all = {.type = MSGPACK_OBJECT_ARRAY};
    struct fdclient_result result = {0};
    struct fdclient *client = fdclient_open(o->connect, error);
    if (!client || !msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE)) {
        fdclient_close(client);
        return client ? error_set(error, "OUT_OF_MEMORY", "", "no memory for the answer") : false;
    }
    const bool done = read_fields(o, client, &result, &zone, &all.via.array, error);
    fdclient_close(client);
    msgpack_object_kv pair = {
        .key = {.type = MSGPACK_OBJECT_STR, .via.str = {.ptr = "fields", .size = 6}}, .val = all};
    const msgpack_object answer = {.type = MSGPACK_OBJECT_MAP, .via.map = {1, &pair}};
    if (done && o->json) {
        json_write(stdout, &answer, 0);
        putchar('\n');
    } else if (done) {
        table_print(stdout, &answer);
    }
    free(all.via.array.ptr);
    msgpack_zone_destroy(&zone);
    return done;
}

/* info, stats: JSON, laid out for reading unless asked for in one line. */
static bool print_answer(const struct options *o, const char *json, struct fdclient_error *error)
{
    msgpack_zone zone;
    msgpack_object object;
    const char *reason;
    if (o->json) {
        puts(json);
        return true;
    }
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
        return error_set(error, "OUT_OF_MEMORY", "", "no memory for the answer");
    const bool read = json_read(json, strlen(json), &zone, &object, &reason);
    if (!read) {
        error_set(error, "INTERNAL", "", "the answer cannot be read: %s", reason);
    } else {
        json_write(stdout, &object, 2);
        putchar('\n');
    }
    msgpack_zone_destroy(&zone);
    return read;
}

static void submission_free(struct submission *s)
{
    free(s->results[0].json);
    free(s->probes.data);
    for (int i = 0; i < FDCLIENT_AXES; i++) {
        if (s->results[i].allocated)
            free(s->results[i].data);
        free(s->names[i]);
        input_close(&s->inputs[i]);
    }
}

static bool submit(const struct options *o, struct fdclient_error *error)
{
    struct submission s = {.is_vector = options_give_vector(o)};
    const bool runs = !o->params.dry_run;
    const bool done =
        inputs_read(o, &s, error) && (!runs || results_name(o, &s, error)) &&
        job_run(o, &s, error) &&
        (runs ? results_deliver(o, &s, error) : print_answer(o, s.results[0].json, error));
    submission_free(&s);
    return done;
}

/* The results' files: one, or one for each component. */
static bool chain_name(const struct options *o, struct submission *s, struct fdclient_error *error)
{
    s->is_vector = s->results[1].data != NULL;
    s->as_npy = o->output && npy_is_name(o->output);
    for (int i = 0; i < FDCLIENT_AXES && o->output && s->results[i].data; i++) {
        s->names[i] =
            s->is_vector ? output_name(o->output, axis_name((enum axis)i)) : strdup(o->output);
        if (!s->names[i])
            return error_set(error, "OUT_OF_MEMORY", "", "no memory for a name");
    }
    return true;
}

static bool chain(const struct options *o, struct fdclient_error *error)
{
    struct submission s = {0};
    struct options run = *o;
    run.op = "chain";
    run.params.ops = o->arguments[0];
    run.params.axis = NULL; /* each op says its own */
    s.is_vector = true;
    const bool runs = !o->params.dry_run;
    const bool done = (!runs || !o->output || output_check(o->output, error)) &&
                      job_run(&run, &s, error) &&
                      (runs ? chain_name(o, &s, error) && results_deliver(o, &s, error)
                            : print_answer(o, s.results[0].json, error));
    submission_free(&s);
    return done;
}

static bool put_field(const struct options *o, struct fdclient_error *error)
{
    struct input input;
    if (!read_input(o, o->arguments[0], &input, error))
        return false;
    struct fdclient *client = fdclient_open(o->connect, error);
    const double begin_s = now_s();
    struct place place = {.array = input.array};
    struct fdclient_result result = {0};
    const bool done = client && request(o, client, "put", &input.array, NULL, &result, error);
    if (done) {
        place.array.field = result.field;
        place.bytes = shape_bytes(&input.array);
        place.array.data = NULL; /* what was sent is known: no extent */
        say(o, &place, 1, false, now_s() - begin_s);
    }
    fdclient_close(client);
    input_close(&input);
    return done;
}

static bool ids_read(const char *text, struct ids *ids, struct fdclient_error *error)
{
    return options_ids(text, ids) ||
           error_set(error, "USAGE", "ID", "an id is a whole number; got '%.60s'", text);
}

static bool get(const struct options *o, struct fdclient_error *error)
{
    struct ids field;
    struct place place;
    struct fdclient_result result = {0};
    if (!ids_read(o->arguments[0], &field, error))
        return false;
    if (field.count != 1)
        return error_set(error, "USAGE", "ID", "get fetches one field; got '%.60s'",
                         o->arguments[0]);
    if (!output_check(o->output, error))
        return false;
    struct fdclient *client = fdclient_open(o->connect, error);
    const double begin_s = now_s();
    const struct fdclient_array f = {.field = field.id[0]};
    const bool done = client && request(o, client, "get", &f, NULL, &result, error) &&
                      result_write(&result, o->output, npy_is_name(o->output), &place, error);
    if (done)
        say(o, &place, 1, false, now_s() - begin_s);
    if (result.allocated)
        free(result.data);
    fdclient_close(client);
    return done;
}

static bool free_fields(const struct options *o, struct fdclient_error *error)
{
    struct ids fields;
    for (int i = 0; i < o->argument_count; i++)
        if (!ids_read(o->arguments[i], &fields, error))
            return false;
    struct fdclient *client = fdclient_open(o->connect, error);
    if (!client)
        return false;
    bool done = true;
    for (int i = 0; i < o->argument_count && done; i++) {
        options_ids(o->arguments[i], &fields);
        for (uint32_t k = 0; k < fields.count && done; k++) {
            const struct fdclient_array f = {.field = fields.id[k]};
            done = request(o, client, "free", &f, NULL, NULL, error);
        }
    }
    fdclient_close(client);
    return done;
}

static bool ask(const struct options *o, const char *method, struct fdclient_error *error)
{
    struct fdclient *client = fdclient_open(o->connect, error);
    struct fdclient_result result = {0};
    const double begin_s = now_s();
    bool done = client && request(o, client, method, NULL, NULL, &result, error);
    const double seconds = now_s() - begin_s;
    fdclient_close(client);
    if (done && o->command == COMMAND_PING) {
        if (o->json) {
            fputs("{\"seconds\": ", stdout);
            number_print(stdout, seconds);
            puts("}");
        } else if (!o->quiet) {
            printf("fdserver answered in %.3g ms\n", seconds * 1e3);
        }
    } else if (done) {
        done = print_answer(o, result.json, error);
    }
    free(result.json);
    return done;
}

static bool command_run(const struct options *o, struct fdclient_error *error)
{
    switch (o->command) {
    case COMMAND_SUBMIT:
        return submit(o, error);
    case COMMAND_PUT:
        return put_field(o, error);
    case COMMAND_CHAIN:
        return chain(o, error);
    case COMMAND_GET:
        return get(o, error);
    case COMMAND_FREE:
        return free_fields(o, error);
    case COMMAND_LIST:
        return list_fields(o, error);
    case COMMAND_PING:
        return ask(o, "ping", error);
    case COMMAND_INFO:
        return ask(o, "info", error);
    case COMMAND_STATS:
        return ask(o, "stats", error);
    case COMMAND_COUNT:
        break;
    }
    return error_set(error, "USAGE", "", "no such command");
}

bool commands_run(const struct options *o, struct fdclient_error *error)
{
    if (!command_run(o, error))
        return false;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    return error_set(error, "FILE", "", "standard output: %s", strerror(errno));
}
