/* What the fdclient command does and prints. */
#pragma once

#include "client/options.h"

#include <msgpack.h>

/* Run the command once. False with the error set; codes of its own are "USAGE" and "FILE". */
bool commands_run(const struct options *options, struct fdclient_error *error);

/* Results: `count` arrays, each in the file files[i] or (NULL) resident, with their names (names
 * NULL: the result is one array); and the first one's report and probes. */
void say_results(const struct options *options, const struct fdclient_result *results,
                 char *const files[], const char *const *names, uint32_t count, double seconds);

/* An answer that is JSON, laid out for reading unless asked for in one line. False: it is none. */
bool say_json(const struct options *options, const char *json, struct fdclient_error *error);

/* The fields of `list`, [{…}, …], as a table on standard output: a column for each key of the
 * first, a line for each field; nothing where there is none. */
void say_table(const msgpack_object_array *fields);
