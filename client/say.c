#include "client/commands.h"

#include "client/error.h"
#include "client/json.h"
#include "client/number.h"
#include "client/file.h"
#include "protocol/object.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_at(const struct fdclient_result *array, uint64_t i)
{
    return array->dtype == FDCLIENT_F64 ? ((const double *)array->data)[i]
                                        : ((const float *)array->data)[i];
}

/* The smallest and largest number; NaN where there is none. */
static void say_extent(const struct fdclient_result *array)
{
    double least = NAN, most = NAN;
    for (uint64_t i = 0; i < array->bytes / dtype_bytes(array->dtype); i++) {
        const double value = number_at(array, i);
        if (!(value >= least)) /* NaN at first */
            least = isnan(value) ? least : value;
        if (!(value <= most))
            most = isnan(value) ? most : value;
    }
    fputs(", \"min\": ", stdout);
    number_print(stdout, least);
    fputs(", \"max\": ", stdout);
    number_print(stdout, most);
}

/* All but the closing brace. */
static void say_as_json(const struct fdclient_result *result, const char *file, double seconds)
{
    char shape[SHAPE_TEXT_BYTES];
    putchar('{');
    if (file) {
        fputs("\"file\": ", stdout);
        json_write_string(stdout, file, strlen(file));
    } else {
        printf("\"field\": %" PRIu64, result->field);
    }
    printf(", \"shape\": [%s], \"dtype\": \"%s\", \"bytes\": %" PRIu64 ", \"seconds\": ",
           shape_text(result->dimensions, result->shape, ", ", shape), dtype_text(result->dtype),
           result->bytes);
    number_print(stdout, seconds);
    if (result->data)
        say_extent(result);
}

/* The values at probes, a line for each step; or as JSON. */
static void say_probes(const struct fdclient_result *probes, bool json)
{
    const uint64_t columns = probes->shape[1];
    for (uint64_t i = 0; i < probes->shape[0] * columns; i++) {
        if (json)
            fputs(i % columns ? ", " : i ? "], [" : "[[", stdout);
        else if (i)
            putchar(i % columns ? ' ' : '\n');
        number_print(stdout, number_at(probes, i));
    }
    fputs(json ? "]]" : "\n", stdout);
}

/* {"x": {…}, "y": {…}} of several. */
static void say_all_as_json(const struct fdclient_result *results, char *const files[],
                            const char *const *names, uint32_t count, double seconds)
{
    for (uint32_t i = 0; i < count; i++) {
        if (names)
            printf("%s\"%s\": ", i ? "}, " : "{", names[i]);
        say_as_json(&results[i], files[i], seconds);
    }
    if (names)
        putchar('}');
    if (results->json)
        printf(", \"report\": %s", results->json);
    if (results->probes && results->probes->data) {
        fputs(", \"probes\": ", stdout);
        say_probes(results->probes, true);
    }
    puts("}");
}

void say_results(const struct options *options, const struct fdclient_result *results,
                 char *const files[], const char *const *names, uint32_t count, double seconds)
{
    char shape[SHAPE_TEXT_BYTES];
    if (options->json) {
        say_all_as_json(results, files, names, count, seconds);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const bool is_stdout = files[i] && strcmp(files[i], "-") == 0;
        if (!files[i])
            printf("%" PRIu64 "%s", results[i].field, i + 1 < count ? "," : "\n");
        else if (!options->quiet)
            fprintf(is_stdout ? stderr : stdout, "%s: %s %s in %.3g ms\n",
                    is_stdout ? "standard output" : files[i],
                    shape_text(results[i].dimensions, results[i].shape, "x", shape),
                    dtype_text(results[i].dtype), seconds * 1e3);
    }
    if (results->json)
        puts(results->json);
    if (results->probes && results->probes->data)
        say_probes(results->probes, false);
}

bool say_json(const struct options *options, const char *json, struct fdclient_error *error)
{
    msgpack_object object;
    const char *reason;
    if (options->json) {
        puts(json);
        return true;
    }
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    const bool read = json_read(json, strlen(json), zone, &object, &reason);
    if (read) {
        json_write(stdout, &object, 2);
        putchar('\n');
    } else {
        error_set(error, "INTERNAL", "", "the answer cannot be read: %s", reason);
    }
    msgpack_zone_free(zone);
    return read;
}

/* A value as a cell: a string without its quotes, a list of numbers as 64x64x64. NULL: no memory.
 * Owned by the caller. */
static char *cell_text(const msgpack_object *value)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return NULL;
    if (!value)
        fputc('-', memory);
    else if (value->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < value->via.array.size; i++) {
            fputs(i > 0 ? "x" : "", memory);
            json_write(memory, &value->via.array.ptr[i], 0);
        }
    else
        json_write(memory, value, 0);
    fclose(memory);
    if (text && value && value->type == MSGPACK_OBJECT_STR && length >= 2) {
        memmove(text, text + 1, length - 2);
        text[length - 2] = '\0';
    }
    return text;
}

void say_table(const msgpack_object_array *fields)
{
    enum { COLUMNS = 16, MEASURE, PRINT, PASSES };
    if (fields->size == 0 || fields->ptr[0].type != MSGPACK_OBJECT_MAP)
        return;
    const msgpack_object_map *head = &fields->ptr[0].via.map;
    const uint32_t columns = head->size < COLUMNS ? head->size : COLUMNS;
    int width[COLUMNS] = {0};
    char *keys[COLUMNS] = {0};
    for (uint32_t c = 0; c < columns; c++)
        keys[c] = cell_text(&head->ptr[c].key);
    for (int pass = MEASURE; pass < PASSES; pass++)
        for (uint32_t r = 0; r <= fields->size; r++)
            for (uint32_t c = 0; c < columns && keys[c]; c++) {
                const msgpack_object *const value =
                    r == 0 ? &head->ptr[c].key : object_find(&fields->ptr[r - 1], keys[c]);
                char *cell = cell_text(value);
                const int length = cell ? (int)strlen(cell) : 1;
                if (pass == MEASURE)
                    width[c] = length > width[c] ? length : width[c];
                else if (c + 1 < columns)
                    printf("%-*s  ", width[c], cell ? cell : "-");
                else
                    printf("%s\n", cell ? cell : "-");
                free(cell);
            }
    for (uint32_t c = 0; c < columns; c++)
        free(keys[c]);
}
