#include "client/commands.h"

#include "client/error.h"
#include "client/input.h"
#include "client/json_read.h"
#include "client/json_write.h"
#include "client/number.h"
#include "client/output.h"
#include "client/shape.h"
#include "client/table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
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

static void say_json(const struct fdclient_array *array, const char *file, uint64_t field,
                     uint64_t bytes, double seconds)
{
    fputc('{', stdout);
    if (file) {
        fputs("\"file\": ", stdout);
        json_write_string(stdout, file, strlen(file));
    } else {
        printf("\"field\": %" PRIu64, field);
    }
    fputs(", \"shape\": [", stdout);
    for (uint32_t i = 0; i < array->dimensions; i++)
        printf("%s%" PRIu64, i ? ", " : "", array->shape[i]);
    printf("], \"dtype\": \"%s\", \"bytes\": %" PRIu64 ", \"seconds\": ", dtype_text(array->dtype),
           bytes);
    number_print(stdout, seconds);
    if (array->data) {
        double least, most;
        extent(array, bytes / dtype_bytes(array->dtype), &least, &most);
        fputs(", \"min\": ", stdout);
        number_print(stdout, least);
        fputs(", \"max\": ", stdout);
        number_print(stdout, most);
    }
    puts("}");
}

static void say(const struct options *o, const struct fdclient_array *array, const char *file,
                uint64_t field, uint64_t bytes, double seconds)
{
    char shape[SHAPE_TEXT_BYTES];
    if (o->json)
        say_json(array, file, field, bytes, seconds);
    else if (!file)
        printf("%" PRIu64 "\n", field);
    else if (!o->quiet)
        fprintf(strcmp(file, "-") == 0 ? stderr : stdout, "%s: %s %s in %.3g ms\n",
                strcmp(file, "-") == 0 ? "standard output" : file,
                shape_text(array->dimensions, array->shape, shape), dtype_text(array->dtype),
                seconds * 1e3);
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

/* --- commands -------------------------------------------------------------------------------- */

static bool read_input(const struct options *o, struct input *input, struct fdclient_error *error)
{
    char shape[SHAPE_TEXT_BYTES];
    if (!input_open(input, o->arguments[0], o->shape, o->dtype, error))
        return false;
    if (input->assumed && !o->quiet)
        fprintf(stderr, "fdclient: %s: no shape is given; its size is that of a cube, so %s %s\n",
                o->arguments[0], shape_text(input->array.dimensions, input->array.shape, shape),
                dtype_text(input->array.dtype));
    return true;
}

/* The job itself, on a connection of its own; its array comes back in memory that the caller frees.
 */
static bool job_run(const struct options *o, const struct fdclient_array *f,
                    struct fdclient_result *result, double *seconds, struct fdclient_error *error)
{
    struct fdclient *client = fdclient_open(o->connect, error);
    if (!client)
        return false;
    struct fdclient_params params = o->params;
    struct progress progress = {.begin_s = now_s()};
    params.out_is_field = o->keep;
    params.progress = strcmp(o->op, "diffusion") == 0 && !o->quiet && isatty(STDERR_FILENO);
    fdclient_on_progress(client, progress_show, &progress);
    const bool done = fdclient_run(client, o->op, f, &params, result, error);
    *seconds = now_s() - progress.begin_s;
    progress_clear(&progress);
    fdclient_close(client);
    return done;
}

static bool deliver(const struct options *o, const char *file, bool as_npy,
                    const struct fdclient_result *result, double seconds,
                    struct fdclient_error *error)
{
    const struct fdclient_array array = array_of(result);
    if (file && !result->data)
        return error_set(error, "CONNECTION", "", "the server's reply holds no array");
    if (file && !output_write(file, as_npy, &array, error))
        return false;
    say(o, &array, file, result->field, result->bytes, seconds);
    return true;
}

static bool submit(const struct options *o, struct fdclient_error *error)
{
    struct input input = {.array = {.field = o->field}};
    struct fdclient_result result = {0};
    double seconds;
    char *name = NULL;
    if (!o->has_field && !read_input(o, &input, error))
        return false;
    if (!o->keep)
        name = o->output ? strdup(o->output)
                         : output_name(o->has_field ? "field.bin" : o->arguments[0], o->op);
    const bool as_npy =
        name && (o->output && strcmp(name, "-") != 0 ? output_is_npy(name) : input.is_npy);
    bool done =
        !o->keep && !name ? error_set(error, "OUT_OF_MEMORY", "", "no memory for a name") : true;
    done = done && (!name || output_check(name, error)) &&
           job_run(o, &input.array, &result, &seconds, error) &&
           deliver(o, name, as_npy, &result, seconds, error);
    if (result.allocated)
        free(result.data);
    free(name);
    input_close(&input);
    return done;
}

static bool put(const struct options *o, struct fdclient_error *error)
{
    struct input input;
    if (!read_input(o, &input, error))
        return false;
    struct fdclient *client = fdclient_open(o->connect, error);
    const double begin_s = now_s();
    uint64_t field = 0;
    const bool done = client && fdclient_put(client, &input.array, &field, error);
    if (done) {
        uint64_t bytes = dtype_bytes(input.array.dtype);
        for (uint32_t i = 0; i < input.array.dimensions; i++)
            bytes *= input.array.shape[i];
        struct fdclient_array described = input.array;
        described.data = NULL; /* what was sent is known: no extent */
        say(o, &described, NULL, field, bytes, now_s() - begin_s);
    }
    fdclient_close(client);
    input_close(&input);
    return done;
}

static bool get(const struct options *o, struct fdclient_error *error)
{
    uint64_t field;
    struct fdclient_result result = {0};
    if (!options_id(o->arguments[0], &field))
        return error_set(error, "USAGE", "ID", "an id is a whole number; got '%.60s'",
                         o->arguments[0]);
    if (!output_check(o->output, error))
        return false;
    struct fdclient *client = fdclient_open(o->connect, error);
    const double begin_s = now_s();
    const bool done =
        client && fdclient_get(client, field, &result, error) &&
        deliver(o, o->output, output_is_npy(o->output), &result, now_s() - begin_s, error);
    if (result.allocated)
        free(result.data);
    fdclient_close(client);
    return done;
}

static bool free_fields(const struct options *o, struct fdclient_error *error)
{
    uint64_t field;
    for (int i = 0; i < o->argument_count; i++)
        if (!options_id(o->arguments[i], &field))
            return error_set(error, "USAGE", "ID", "an id is a whole number; got '%.60s'",
                             o->arguments[i]);
    struct fdclient *client = fdclient_open(o->connect, error);
    if (!client)
        return false;
    bool done = true;
    for (int i = 0; i < o->argument_count && done; i++)
        done = options_id(o->arguments[i], &field) && fdclient_free(client, field, error);
    fdclient_close(client);
    return done;
}

/* info, stats: JSON, laid out for reading unless asked for in one line. list: a table. */
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
    } else if (o->command == COMMAND_LIST) {
        table_print(stdout, &object);
    } else {
        json_write(stdout, &object, 2);
        putchar('\n');
    }
    msgpack_zone_destroy(&zone);
    return read;
}

static bool ask(const struct options *o, const char *method, struct fdclient_error *error)
{
    struct fdclient *client = fdclient_open(o->connect, error);
    char *json = NULL;
    const double begin_s = now_s();
    bool done = client && fdclient_call(client, method, &json, error);
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
        done = print_answer(o, json, error);
    }
    free(json);
    return done;
}

static bool command_run(const struct options *o, struct fdclient_error *error)
{
    switch (o->command) {
    case COMMAND_SUBMIT:
        return submit(o, error);
    case COMMAND_PUT:
        return put(o, error);
    case COMMAND_GET:
        return get(o, error);
    case COMMAND_FREE:
        return free_fields(o, error);
    case COMMAND_LIST:
        return ask(o, "list", error);
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
