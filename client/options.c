#include "client/options.h"

#include "base/wrapped.h"
#include "client/connection.h"
#include "client/error.h"
#include "client/number.h"
#include "client/params.h"
#include "numerics/boundary.h"
#include "protocol/request.h"

#include <getopt.h>
#include <limits.h>
#include <string.h>

enum { OPTION_IDS = PARAMS_OTHER, OPTION_MAYBE };

#define ON(command) (1u << (command))
#define SUBMIT ON(COMMAND_SUBMIT)
#define CHAIN ON(COMMAND_CHAIN)
#define PUT ON(COMMAND_PUT)
#define GET ON(COMMAND_GET)
#define ANY (ON(COMMAND_COUNT) - 1)
#define BOUNDARY_HELP(name, number, word, numbers, ...) word numbers ", "
#define AT(member) offsetof(struct options, member)
#define KIND(member) PARAMS_KIND(&((struct options *)NULL)->member)
#define FIELD(member) KIND(member), AT(member), PARAMETER_COUNT

#define PARAMETER(name, client, ...) client
#define OPTION(member, option, ...)                                                                \
    {option, NULL, __VA_ARGS__, KIND(params.member), AT(params.member), PARAMETER_##member},
#define MAYBE(member, option, ...)                                                                 \
    {option, NULL, __VA_ARGS__, OPTION_MAYBE, AT(params.member), PARAMETER_##member},
#define MEMBER(...)
#define NO_MEMBER

struct option_row {
    const char *name, *letter; /* --name, and -letter where it has one */
    unsigned commands;         /* that take it */
    const char *argument;      /* what it takes; NULL: a flag */
    const char *text;
    int kind; /* enum params_kind, or one of the two above */
    size_t offset;
    enum parameter_id parameter; /* PARAMETER_COUNT: it is none */
};

static const struct option_row table[] = {
    {"op", NULL, SUBMIT, "NAME",
     "Operator: derivative (default), laplacian, diffusion, gradient, divergence, curl, hessian, "
     "biharmonic, interpolate or stencil. A gradient, a curl in 3D and a hessian are written to a "
     "file for each component; divergence and curl take such files, or ids, in the order x, y, z.",
     FIELD(op)},
#include "protocol/parameters.inc"
    {"field", NULL, SUBMIT, "ID",
     "Use a resident field instead of a file; ID,ID,ID for a vector field.", FIELD(field)},
    {"keep", NULL, SUBMIT | CHAIN, NULL,
     "Keep the result on the server, and print its id (ID,ID,ID) instead of fetching it.",
     FIELD(keep)},
    {"timeout", NULL, ANY, "SECONDS",
     "Give up after this time if the job is not done or the server has not answered.",
     FIELD(timeout_s)},
    {"shape", NULL, SUBMIT | PUT, "N,N,N",
     "Shape of a file without one, slowest axis first, as in NumPy; 64x64x64 is accepted as well.",
     FIELD(shape)},
    {"dtype", NULL, SUBMIT | PUT, "TYPE",
     "Type of a file without one: float32 (default) or float64.", FIELD(dtype)},
    {"output", "o", SUBMIT | GET | CHAIN, "FILE",
     "The file of the result: .npy for NumPy's format, any ending of no other format for plain "
     "numbers, - for standard output (the default if the input is -). Default: "
     "field.derivative.bin for field.bin and derivative; field.gradient.x.bin and so on for "
     "components.",
     FIELD(output)},
    {"retry", NULL, ANY, "N",
     "Try again up to N times, at increasing intervals, if the server is not running or answers "
     "with a retryable error.",
     FIELD(retry)},
    {"connect", NULL, ANY, "unix:PATH",
     "The server's socket. Default: $FDSERVER_SOCKET, else /run/fdserver/fdserver.sock, else "
     "$XDG_RUNTIME_DIR/fdserver.sock.",
     FIELD(connect)},
    {"json", NULL, ANY, NULL, "Print the result as one line of JSON.", FIELD(json)},
    {"quiet", "q", ANY, NULL, "Print only errors and requested output.", FIELD(quiet)},
    {"help", "h", ANY, NULL, "Print this and exit.", FIELD(help)},
    {"version", NULL, ANY, NULL, "Print the version and exit.", FIELD(version)},
};

enum { ROWS = sizeof table / sizeof *table };

#define COMMAND_ROW(enumerator, name, arguments, text) {name, arguments, text},
static const struct {
    const char *name, *arguments, *text;
} commands[] = {COMMAND_TABLE(COMMAND_ROW)};
#undef COMMAND_ROW

bool options_ids(const char *text, struct ids *ids)
{
    ids->count = number_list(text, ",", ids->id, FDCLIENT_RESULTS);
    return ids->count > 0;
}

static bool op_is(const struct options *options, const char *name)
{
    return strcmp(options->op, name) == 0;
}

/* Its operator in as many axes as there are inputs: the curl of a plane is an array. */
static struct job job_of(const struct options *options)
{
    return call_job(options->op, options->field.count ? options->field.count
                                                      : (uint32_t)options->argument_count);
}

bool options_take_vector(const struct options *options)
{
    const struct job job = job_of(options);
    return job_takes_vector(&job);
}

const char *const *options_result_names(const struct options *options)
{
    const struct job job = job_of(options);
    return job_gives_vector(&job) || op_is(options, "hessian") || op_is(options, "chain")
               ? call_result_names(options->op)
               : NULL;
}

/* Put "--" before a parameter that is an option of the command. */
static void speak_of_parameter(const struct options *options, struct fdclient_error *error)
{
    char option[sizeof error->parameter];
    const size_t length = strcspn(error->parameter, " ");
    for (const struct option_row *row = table; row < table + ROWS; row++)
        if (row->commands & ON(options->command) && strlen(row->name) == length &&
            strncmp(row->name, error->parameter, length) == 0 && length < sizeof option - 2) {
            snprintf(option, sizeof option, "--%.45s", error->parameter);
            memcpy(error->parameter, option, sizeof option);
            return;
        }
}

void options_speak(const struct options *options, struct fdclient_error *error)
{
    /* Parameters in the text of an error that are no plain English, too. */
    static const struct {
        const char *parameter, *option;
    } words[] = {{"allow_unstable", "--allow-unstable"}, {"dt", "--dt"}, {"cfl", "--cfl"}};
    char text[sizeof error->message];
    size_t used = 0;
    speak_of_parameter(options, error);
    for (const char *at = error->message; *at && used < sizeof text;) {
        const size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz_"), length = word ? word : 1;
        const char *option = NULL;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i].parameter) == word && strncmp(at, words[i].parameter, word) == 0)
                option = words[i].option;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s",
                                 option ? (int)strlen(option) : (int)length, option ? option : at);
        at += length;
    }
    if (used > 0 && used < sizeof text)
        memcpy(error->message, text, used + 1);
}

static bool wrong(struct fdclient_error *error, const char *name, const char *why,
                  const char *value)
{
    char option[48];
    snprintf(option, sizeof option, "--%.40s", name);
    return error_set(error, "USAGE", option, "%s; got '%.60s'", why, value);
}

static bool value_set(struct options *options, const struct option_row *row, const char *value,
                      struct fdclient_error *error)
{
    void *place = (char *)options + row->offset;
    const int64_t least =
        row->parameter < PARAMETER_COUNT ? request_parameter_low(row->parameter) : 0;
    const bool is_negative = least < 0 && *value == '-';
    const uint64_t most = row->kind == PARAMS_INT      ? INT_MAX
                          : row->kind == PARAMS_UINT32 ? UINT32_MAX
                                                       : UINT64_MAX;
    uint64_t number = 0;
    switch (row->kind) {
    case PARAMS_TEXT:
    case OPTION_MAYBE:
        if (!*value)
            return wrong(error, row->name, "must not be empty", value);
        *(const char **)place = value;
        return true;
    case PARAMS_FLAG:
        *(bool *)place = true;
        return true;
    case PARAMS_REAL:
        /* 0 and NaN would mean that it is not set; none of these may be negative. */
        return (number_read(value, strlen(value), place) && *(double *)place > 0) ||
               wrong(error, row->name, "must be a number above 0", value);
    case OPTION_IDS:
        return options_ids(value, place) || wrong(error, row->name, "must be an id or some", value);
    default:
        break;
    }
    if (!number_whole(value + is_negative, strlen(value + is_negative), &number) || number > most)
        return wrong(error, row->name, "must be a whole number", value);
    /* 0 would mean that it is not set; the server refuses these all the same. */
    if (number == 0 && least > 0)
        return wrong(error, row->name, "must be at least 1", value);
    number = is_negative ? -number : number;
    memcpy(place, &number, row->kind == PARAMS_UINT64 ? sizeof number : sizeof(uint32_t));
    return true;
}

static bool command_find(const char *name, enum command *command)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0) {
            *command = (enum command)i;
            return true;
        }
    return false;
}

/* What the command needs as a whole. */
static bool options_check(const struct options *o, uint64_t used, struct fdclient_error *error)
{
    for (int i = 0; i < ROWS; i++)
        if (used >> i & 1 && !(table[i].commands & ON(o->command)))
            return error_set(error, "USAGE", "", "%s takes no --%s", commands[o->command].name,
                             table[i].name);
    const bool is_submit = o->command == COMMAND_SUBMIT;
    const bool to_stdout = o->output && strcmp(o->output, "-") == 0;
    const bool is_vector = is_submit && options_take_vector(o);
    const int least = is_submit ? o->field.count == 0 : *commands[o->command].arguments != '\0';
    const int most = o->command == COMMAND_FREE ? INT_MAX
                     : is_vector                ? least * FDCLIENT_AXES
                                                : least;
    if (is_submit && most > 0 && o->argument_count > most)
        return error_set(error, "USAGE", "FILE", "%s takes %s", o->op,
                         is_vector ? "three files at most" : "one file");
    if (o->argument_count < least || o->argument_count > most)
        return error_set(error, "USAGE", "", "the command is: fdclient %s %s",
                         commands[o->command].name, commands[o->command].arguments);
    enum command other;
    bool some_stdin = false;
    for (int i = 0; i < o->argument_count; i++)
        some_stdin = some_stdin || strcmp(o->arguments[i], "-") == 0;
    const bool keeps_snapshots = o->params.snapshot && strcmp(o->params.snapshot, "field") == 0;
    const struct {
        bool is_wrong;
        const char *about, *text; /* of the operator */
    } rules[] = {
        {o->command == COMMAND_CHAIN && !o->output && !o->keep && !o->params.dry_run, "--output",
         "chain needs a place for its result: -o FILE"},
        {o->command == COMMAND_GET && !o->output, "--output",
         "get needs a place for the field: -o FILE"},
        {is_submit && command_find(o->op, &other), "--op", "%s is a command, no operator"},
        {is_vector && o->argument_count > 1 && some_stdin, "FILE",
         "standard input is one array, and %s takes one for each axis"},
        {o->keep && o->output, "--keep", "the result is kept or written (-o), not both"},
        {o->params.every && !keeps_snapshots && (o->keep || to_stdout), "--every",
         "snapshots go to files beside the result's: give -o FILE, or --snapshot field"},
        {o->params.detach && !o->keep, "--detach", "its result stays on the server: add --keep"},
        {o->field.count > 1 && !is_vector, "--field", "%s takes one field"},
        {o->field.count > FDCLIENT_AXES, "--field", "%s takes three fields at most"},
        {is_submit && to_stdout && options_result_names(o), "--output",
         "standard output takes one array, and %s gives several: one for each axis or pair"},
        {o->field.count && (o->shape || o->dtype), "--field",
         "a resident field has its own shape and dtype"},
        {o->params.probes && to_stdout, "--probes", "standard output is taken by -o -"},
        {o->json && to_stdout, "--json", "standard output is taken by -o -"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].is_wrong)
            return error_set(error, "USAGE", rules[i].about, rules[i].text, o->op);
    return true;
}

/* Values of getopt_long() for the rows; below, letters. */
enum { FIRST_ROW = 256 };

static const struct option_row *row_of(int key)
{
    const struct option_row *row = table;
    while (key < FIRST_ROW && (!row->letter || row->letter[0] != key))
        row++;
    return key < FIRST_ROW ? row : &table[key - FIRST_ROW];
}

bool options_read(struct options *options, int argc, char **argv, struct fdclient_error *error)
{
    struct option names[ROWS + 1] = {{0}};
    uint64_t used = 0;
    int count = 0; /* arguments, the command first; kept at the front of argv */
    _Static_assert(ROWS <= 64, "a bit for each row");
    *options = (struct options){.params = FDCLIENT_PARAMS};
    for (int i = 0; i < ROWS; i++)
        names[i] = (struct option){table[i].name,
                                   !table[i].argument              ? no_argument
                                   : table[i].kind == OPTION_MAYBE ? optional_argument
                                                                   : required_argument,
                                   NULL, FIRST_ROW + i};
    optind = opterr = 0; /* from the first argument, and saying nothing itself */
    /* "-": options may follow arguments, even with POSIXLY_CORRECT in the environment. */
    for (int key, at = 1; (key = getopt_long(argc, argv, "-:o:qh", names, NULL)) != -1;
         at = optind) {
        const char *const given = argv[at];
        if (key == 1) {
            argv[++count] = optarg;
            continue;
        }
        if (key == '?' && optopt >= FIRST_ROW)
            return wrong(error, row_of(optopt)->name, "takes no value", strchr(given, '=') + 1);
        if (key == '?')
            return error_set(error, "USAGE", "", "no option %.60s (see fdclient --help)", given);
        if (key == ':')
            return wrong(error, row_of(optopt)->name, "needs a value", "");
        const struct option_row *row = row_of(key);
        if (!value_set(options, row, optarg ? optarg : "true", error))
            return false;
        used |= UINT64_C(1) << (row - table);
    }
    while (optind < argc)
        argv[++count] = argv[optind++];
    options->arguments = argv + 2;
    options->argument_count = count - 1;
    if (options->help || options->version)
        return true;
    if (count == 0)
        return error_set(error, "USAGE", "", "no command is given (see fdclient --help)");
    if (!command_find(argv[1], &options->command))
        return error_set(error, "USAGE", "", "no command '%.60s' (see fdclient --help)", argv[1]);
    if (!options->op)
        options->op = options->command == COMMAND_CHAIN ? "chain" : "derivative";
    if (options->command == COMMAND_SUBMIT && options->argument_count > 0 && !options->output &&
        !options->keep && !options->params.dry_run && strcmp(options->arguments[0], "-") == 0)
        options->output = "-"; /* from standard input to standard output */
    if (!options->params.axis && (op_is(options, "derivative") || op_is(options, "interpolate")))
        options->params.axis = "x";
    return options_check(options, used, error);
}

void options_help(FILE *out)
{
    fputs("Usage: fdclient COMMAND [OPTION]...\n\n"
          "Finite differences from a running fdserver.\n\nCommands:\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        char call[64];
        snprintf(call, sizeof call, "%s %s", commands[i].name, commands[i].arguments);
        fprintf(out, "  %-42s%s\n", call, commands[i].text);
    }
    fputs("\nOptions:\n", out);
    for (const struct option_row *row = table; row < table + ROWS; row++) {
        fprintf(out, "  %s%s%s--%s", row->letter ? "-" : "", row->letter ? row->letter : "",
                row->letter ? ", " : "", row->name);
        if (row->argument)
            fprintf(out, row->kind == OPTION_MAYBE ? "[=%s]" : " %s", row->argument);
        fputc('\n', out);
        wrapped_print(out, row->text, 6);
    }
    fputs(
        "\nExit status: 0 done; 1 the server refused the request; 2 wrong usage; 3 no connection;\n"
        "4 a file could not be read or written; 5 refused for now: the same may succeed later.\n",
        out);
}
