/* The command line: one table makes the parsing, --help and the manual's options. */
#pragma once

#include "client/fdclient.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(enumerator, name, arguments, text) */
#define COMMAND_TABLE(X)                                                                           \
    X(COMMAND_SUBMIT, "submit", "FILE... | --field ID", "Apply an operator to a field.")           \
    X(COMMAND_CHAIN, "chain", "OPS (-o FILE | --keep | --dry-run)",                                \
      "Apply operators to resident fields.")                                                       \
    X(COMMAND_PUT, "put", "FILE", "Make a field resident; prints its id.")                         \
    X(COMMAND_GET, "get", "ID -o FILE", "Fetch a resident field.")                                 \
    X(COMMAND_FREE, "free", "ID...", "Forget resident fields.")                                    \
    X(COMMAND_LIST, "list", "", "Show your resident fields.")                                      \
    X(COMMAND_PING, "ping", "", "Ask whether the server answers.")                                 \
    X(COMMAND_INFO, "info", "", "Show the server's version, devices and limits.")                  \
    X(COMMAND_STATS, "stats", "", "Show what the server has done and is doing.")

#define COMMAND_ENUMERATOR(enumerator, name, arguments, text) enumerator,
enum command { COMMAND_TABLE(COMMAND_ENUMERATOR) COMMAND_COUNT };
#undef COMMAND_ENUMERATOR

enum exit_status {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,      /* the server refused the request as it is */
    EXIT_USAGE = 2,        /* the command line is wrong */
    EXIT_CONNECTION = 3,   /* no server, or it went away */
    EXIT_FILE = 4,         /* a file cannot be read or written */
    EXIT_RETRY = 5,        /* refused, but the same request may succeed later */
    EXIT_INTERRUPTED = 130 /* cancelled from the keyboard */
};

/* Fields: one, or those of a vector field's components or of a Hessian. */
struct ids {
    uint64_t id[FDCLIENT_RESULTS];
    uint32_t count;
};

struct options {
    enum command command;
    char **arguments; /* FILE or IDs */
    int argument_count;
    const char *connect, *op, *shape, *dtype, *output;
    struct ids field;
    uint64_t retry;
    double timeout_s; /* 0: none */
    struct fdclient_params params;
    bool keep, json, quiet, help, version;
};

/* Read the command line. Strings point into argv, whose arguments are moved to its front. False
 * with code "USAGE". */
bool options_read(struct options *options, int argc, char **argv, struct fdclient_error *error);

void options_help(FILE *out);

/* Ids of fields, as `put` and `submit --keep` print them: ID or ID,ID,ID. */
bool options_ids(const char *text, struct ids *ids);

/* Put an error of the server in the command's words: "--dt" for dt. */
void options_speak(const struct options *options, struct fdclient_error *error);

/* Does it take a vector field, so that there is a FILE for each component? */
bool options_take_vector(const struct options *options);

/* The names of its results, NULL after the last; NULL: it gives one array. */
const char *const *options_result_names(const struct options *options);
