#include "server/config/config.h"

#include "base/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_kind {
    OPTION_TEXT,
    OPTION_LIST,
    OPTION_DEVICES,
    OPTION_NUMBER,
    OPTION_BYTES,
    OPTION_OCTAL
};

struct option {
    const char *name;     /* --name, and FDSERVER_NAME in the environment */
    const char *argument; /* what it takes, for --help */
    enum option_kind kind;
    size_t offset;        /* in struct config */
    const char *standard; /* the default, as it would be typed; NULL: none */
    uint64_t least, most;
    const char *text;
};

#define AT(field) offsetof(struct config, field)
#define ANY UINT64_MAX

static const struct option options[] = {
    {"listen", "unix:PATH", OPTION_LIST, AT(listen), NULL, 0, 0,
     "Socket to listen on; may be given up to 8 times. Default: /run/fdserver/fdserver.sock, or "
     "$XDG_RUNTIME_DIR/fdserver.sock for a user who cannot write there. A socket from systemd "
     "replaces the default. In the environment: a list with commas."},
    {"group", "NAME", OPTION_TEXT, AT(group), NULL, 0, 0, "Group that owns the sockets."},
    {"mode", "OCTAL", OPTION_OCTAL, AT(mode), "0660", 0, 0777, "Access mode of the sockets."},
    {"device", "LIST", OPTION_DEVICES, AT(device), "auto", 0, 0,
     "Devices for jobs: auto (every GPU, else the host), or a list of host and cuda:N with commas. "
     "host may be repeated (host:1 is the second): these workers share the cores."},
    {"threads", "COUNT", OPTION_NUMBER, AT(threads), "0", 0, 1024,
     "Computing threads of each host worker; 0: one for each core that it may run on."},
    {"staging-bytes", "BYTES", OPTION_BYTES, AT(staging_bytes), "256M", 16 << 20, UINT64_C(1) << 40,
     "Size of the staging arena, through which all payload passes."},
    {"front-bytes", "BYTES", OPTION_BYTES, AT(front_bytes), "256M", 64 << 20, UINT64_C(1) << 40,
     "Memory of this process for all users, beside the arena: unread replies, numbers of "
     "parameters, incomplete messages, jobs, fields, connections. One user may hold as much as is "
     "left, so half of it if alone. In all, the process takes this, the arena, at most 16 KiB for "
     "each connection, and some 10 MB."},
    {"user-bytes", "BYTES", OPTION_BYTES, AT(user_bytes), "0", 0, ANY,
     "Device memory for one user's arrays; 0: no limit of its own."},
    {"device-memory", "BYTES", OPTION_BYTES, AT(device_memory), "0", 0, ANY,
     "Memory of each device for arrays; 0: nine tenths of the memory that is free when its worker "
     "starts (on the host half, divided among its workers). The last eighth is reserved for users "
     "who hold little."},
    {"region-bytes", "BYTES", OPTION_BYTES, AT(region_bytes), "0", 0, ANY,
     "Memory that one user may register (it stays in RAM); 0: no limit of its own."},
    {"region-memory", "BYTES", OPTION_BYTES, AT(region_memory), "0", 0, ANY,
     "Memory that all users together may register, the last eighth reserved for users who have "
     "little; 0: half of the memory of the machine or of the process's control group, whichever is "
     "less."},
    {"max-regions", "COUNT", OPTION_NUMBER, AT(max_regions), "1024", 1, 1 << 20,
     "Regions of one user; each holds a descriptor."},
    {"user-queue-jobs", "COUNT", OPTION_NUMBER, AT(user_queue_jobs), "1024", 1, 1 << 20,
     "Accepted and unanswered jobs of one user."},
    {"user-queue-bytes", "BYTES", OPTION_BYTES, AT(user_queue_bytes), "0", 0, ANY,
     "Device memory for arrays of one user's jobs, without resident fields; 0: no limit of its "
     "own."},
    {"max-queue-jobs", "COUNT", OPTION_NUMBER, AT(max_queue_jobs), "65536", 1, 1 << 24,
     "Accepted and unanswered jobs of all users together."},
    {"max-queue-bytes", "BYTES", OPTION_BYTES, AT(max_queue_bytes), "0", 0, ANY,
     "Device memory for arrays of all users' jobs together; 0: no limit of its own."},
    {"max-jobs", "COUNT", OPTION_NUMBER, AT(user_queue_jobs), NULL, 1, 1 << 20,
     "The older name of --user-queue-jobs."},
    {"max-fields", "COUNT", OPTION_NUMBER, AT(max_fields), "65536", 1, 1 << 24,
     "Resident fields of one user."},
    {"max-connections", "COUNT", OPTION_NUMBER, AT(max_connections), "4096", 1, 1 << 20,
     "Simultaneous connections, or the process's limit of descriptors (ulimit -n) if that is "
     "lower; the last eighth is reserved for users who have none."},
    {"max-work", "POINTS", OPTION_NUMBER, AT(max_work), "1000000000000000", 1, UINT64_C(1) << 62,
     "Points times steps of one job."},
    {"upload-timeout-s", "SECONDS", OPTION_NUMBER, AT(upload_timeout_s), "30", 1, 1 << 20,
     "Time after which a connection is closed if an incomplete message makes no progress."},
    {"drain-timeout-s", "SECONDS", OPTION_NUMBER, AT(drain_timeout_s), "30", 0, 1 << 20,
     "Time for running jobs to finish after SIGTERM."},
    {"busy-poll-us", "MICROSECONDS", OPTION_NUMBER, AT(busy_poll_us), NULL, 0, 1000000,
     "Time for which the loop polls before it blocks. It is 16 times as long while up to four jobs "
     "are in flight, and 0 with more. Polling shortens latency and keeps a core busy. 0: never. "
     "Default: 150 if a GPU serves and there are 4 cores or more, else 0."},
    {"look-us", "MICROSECONDS", OPTION_NUMBER, AT(busy_poll_us), NULL, 0, 1000000,
     "The older name of --busy-poll-us."},
    {"log-level", "N", OPTION_NUMBER, AT(log_level), "6", 3, 6,
     "Log lines on stderr, including the workers', up to this priority: 3 errors, 4 warnings, 6 "
     "information."},
    {"trace", "FILE", OPTION_TEXT, AT(trace), NULL, 0, 0,
     "File for a trace of the time of each job, in Chrome's trace event format (for Perfetto and "
     "chrome://tracing). An old file is overwritten."},
    {"trace-bytes", "BYTES", OPTION_BYTES, AT(trace_bytes), "256M", 1 << 20, UINT64_C(1) << 50,
     "Size at which a trace is renamed to FILE.1, replacing an older one, and a new one is begun."},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static void environment_name(const struct option *option, char name[64])
{
    size_t n = (size_t)snprintf(name, 64, "FDSERVER_%s", option->name);
    for (size_t i = 0; i < n; i++)
        name[i] = name[i] == '-'                     ? '_'
                  : name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A')
                                                     : name[i];
}

/* A value as it was given: `name` is --NAME or FDSERVER_NAME. */
struct given {
    const char *name, *value;
};

static bool complain_of_option(struct given given, const char *why)
{
    fprintf(stderr, "fdserver: %s %s: %s\n", given.name, *given.value ? given.value : "''", why);
    return false;
}

static bool number_read(const struct option *option, struct given given, uint64_t *number)
{
    const char *value = given.value;
    const bool octal = option->kind == OPTION_OCTAL;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, octal ? 8 : 10);
    if (errno || end == value || value[0] == '-' || value[0] == '+')
        return complain_of_option(given, "not a number");
    if (option->kind == OPTION_BYTES && *end) {
        static const char suffixes[] = "KMGT";
        const char *suffix = strchr(suffixes, *end);
        if (!suffix)
            return complain_of_option(given, "the units are K, M, G and T (powers of 1024)");
        const int shift = 10 * (int)(suffix - suffixes + 1);
        if (n > UINT64_MAX >> shift)
            return complain_of_option(given, "too large");
        n <<= shift;
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end += 2;
    }
    if (*end)
        return complain_of_option(given, octal ? "not an octal number" : "not a number");
    if (n < option->least || n > option->most) {
        char why[96];
        snprintf(why, sizeof why,
                 octal ? "must be from %llo to 0%llo" : "must be from %llu to %llu",
                 (unsigned long long)option->least, (unsigned long long)option->most);
        return complain_of_option(given, why);
    }
    *number = n;
    return true;
}

/* "host" or "cuda:N", `length` bytes of it. */
static bool is_device(const char *name, size_t length)
{
    if (length == 4 && strncmp(name, "host", 4) == 0)
        return true;
    if (length < 6 || length > 9 || strncmp(name, "cuda:", 5) != 0)
        return false;
    if (name[5] == '0' && length > 6) /* one device, one spelling */
        return false;
    for (size_t i = 5; i < length; i++)
        if (name[i] < '0' || name[i] > '9')
            return false;
    return true;
}

static bool devices_check(struct given given)
{
    const char *list = given.value;
    if (strcmp(list, "auto") == 0)
        return true;
    for (const char *name = list;; name++) {
        const size_t length = strcspn(name, ",");
        if (!is_device(name, length))
            return complain_of_option(given, "must be auto, or a list of host and cuda:N");
        for (const char *before = list; before < name; before += strcspn(before, ",") + 1)
            if (*name != 'h' && strcspn(before, ",") == length &&
                strncmp(before, name, length) == 0)
                return complain_of_option(given, "names a device twice");
        name += length;
        if (!*name)
            return true;
    }
}

static bool option_set(struct config *config, const struct option *option, struct given given)
{
    char *place = (char *)config + option->offset;
    if (option->kind == OPTION_TEXT || option->kind == OPTION_DEVICES) {
        if (!*given.value)
            return complain_of_option(given, "must not be empty");
        if (option->kind == OPTION_DEVICES && !devices_check(given))
            return false;
        *(const char **)place = given.value;
        return true;
    }
    if (option->kind != OPTION_LIST)
        return number_read(option, given, (uint64_t *)place);
    if (config->listen_count == CONFIG_LISTEN_MAX)
        return complain_of_option(given, "at most 8 sockets");
    if (strncmp(given.value, "unix:", 5) != 0 || !given.value[5])
        return complain_of_option(given, "must be unix:PATH");
    config->listen[config->listen_count++] = given.value;
    return true;
}

static void print_wrapped(const char *text, int indent)
{
    int column = indent;
    printf("%*s", indent, "");
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + (int)word > 96) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += (int)word;
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}

static void print_help(void)
{
    puts("Usage: fdserver [OPTION VALUE]…\n\n"
         "Serves finite-difference jobs (MessagePack-RPC over Unix sockets) from a GPU or the "
         "host.\n\n"
         "Options; each overrides its environment variable:");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        environment_name(&options[i], name);
        printf("  --%s %s  (%s%s%s)\n", options[i].name, options[i].argument, name,
               options[i].standard ? ", default " : "",
               options[i].standard ? options[i].standard : "");
        print_wrapped(options[i].text, 6);
    }
    puts("  --help, --version, --manual\n"
         "      Print this, the version, or the manual page's source (scdoc), and exit.\n\n"
         "Exit status: 0 drained after SIGTERM or SIGINT, 1 could not start, 2 wrong options.");
}

static void print_manual(void)
{
    puts("fdserver(8)\n\n# NAME\n\nfdserver - finite differences as a resident service\n\n"
         "# SYNOPSIS\n\n*fdserver* [*--OPTION* _VALUE_]...\n\n# DESCRIPTION\n\n"
         "Keeps fields and stencil weights resident on a GPU (or the host's cores), accepts "
         "MessagePack-RPC\n"
         "requests over Unix sockets, and answers asynchronously. SIGTERM and SIGINT drain: "
         "running jobs\n"
         "finish, others are answered with SHUTTING_DOWN.\n\n# OPTIONS\n\n"
         "An option overrides its environment variable. The service reads its variables from\n"
         "_/etc/default/fdserver_.\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        environment_name(&options[i], name);
        printf("*--%s* _%s_\n\t", options[i].name, options[i].argument);
        for (const char *c = options[i].text; *c; c++)
            printf(*c == '_' || *c == '*' ? "\\%c" : "%c", *c);
        if (options[i].standard)
            printf(" Default: %s.", options[i].standard);
        fputs(" Environment: ", stdout);
        for (const char *c = name; *c; c++)
            printf(*c == '_' ? "\\_" : "%c", *c);
        puts(".\n");
    }
    puts("# EXIT STATUS\n\n0 drained, 1 could not start, 2 wrong options.\n\n# SEE "
         "ALSO\n\n*fdclient*(1)");
}

static bool environment_read(struct config *config)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        environment_name(&options[i], name);
        char *value = getenv(name);
        if (!value || !*value)
            continue;
        if (options[i].kind != OPTION_LIST) {
            if (!option_set(config, &options[i], (struct given){name, value}))
                return false;
            continue;
        }
        char *rest = strdup(value); /* lives as long as the process, as the environment does */
        if (!rest)
            return false;
        for (char *item; (item = strsep(&rest, ","));)
            if (!option_set(config, &options[i], (struct given){name, item}))
                return false;
    }
    return true;
}

/* The option of an argument --NAME or --NAME=VALUE; *value is what follows its =, or NULL. */
static const struct option *option_find(const char *argument, const char **value)
{
    *value = NULL;
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    const char *name = argument + 2;
    const size_t length = strcspn(name, "=");
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (strlen(options[i].name) != length || strncmp(name, options[i].name, length) != 0)
            continue;
        if (name[length])
            *value = name + length + 1;
        return &options[i];
    }
    return NULL;
}

static enum config_result arguments_read(struct config *config, int argc, char **argv)
{
    bool listen_given = false;
    for (int a = 1; a < argc; a++) {
        const char *argument = argv[a];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help();
            return CONFIG_EXIT;
        }
        if (strcmp(argument, "--version") == 0) {
            puts("fdserver " FDSERVER_VERSION);
            return CONFIG_EXIT;
        }
        if (strcmp(argument, "--manual") == 0) {
            print_manual();
            return CONFIG_EXIT;
        }
        const char *value;
        const struct option *option = option_find(argument, &value);
        if (!option) {
            fprintf(stderr, "fdserver: unknown option %s (see --help)\n", argument);
            return CONFIG_ERROR;
        }
        if (!value && ++a < argc)
            value = argv[a];
        if (!value) {
            fprintf(stderr, "fdserver: --%s needs a value\n", option->name);
            return CONFIG_ERROR;
        }
        if (option->kind == OPTION_LIST && !listen_given) {
            listen_given = true; /* the command line takes the environment's place */
            config->listen_count = 0;
        }
        char name[64];
        snprintf(name, sizeof name, "--%s", option->name);
        if (!option_set(config, option, (struct given){name, value}))
            return CONFIG_ERROR;
    }
    return CONFIG_RUN;
}

static uint64_t machine_bytes(void)
{
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t group = cgroup_memory("").limit;
    return group < machine ? group : machine;
}

enum config_result config_read(struct config *config, int argc, char **argv)
{
    memset(config, 0, sizeof *config);
    config->busy_poll_us = CONFIG_BUSY_POLL_AUTO;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options[i].standard &&
            !option_set(config, &options[i], (struct given){options[i].name, options[i].standard}))
            return CONFIG_ERROR;
    const enum config_result result =
        environment_read(config) ? arguments_read(config, argc, argv) : CONFIG_ERROR;
    if (!config->region_memory)
        config->region_memory = machine_bytes() / 2;
    return result;
}
