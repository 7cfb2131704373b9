#include "server/config/config.h"

#include "base/cgroup.h"
#include "base/log.h"
#include "base/wrapped.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_OPTIONS = 2 };

enum option_kind {
    OPTION_TEXT,
    OPTION_LIST,
    OPTION_DEVICES,
    OPTION_NUMBER,
    OPTION_BYTES,
    OPTION_OCTAL
};

struct option {
    const char *name;     /* with _ where the command line has - */
    const char *argument; /* what it takes, for --help */
    enum option_kind kind;
    size_t offset;        /* in struct config */
    const char *standard; /* the default, as it would be typed; NULL: none */
    uint64_t least, most;
    const char *text;
};

#define ANY UINT64_MAX

static const struct option options[] = {
#define ALIAS(name, kind, member, argument, standard, least, most, text)                           \
    {#name, argument, OPTION_##kind, offsetof(struct config, member), standard, least, most, text},
#define OPTION(kind, member, ...) ALIAS(member, kind, member, __VA_ARGS__)
#include "server/config/options.inc"
#undef OPTION
#undef ALIAS
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

/* "--its-name" or, in the environment, "FDSERVER_ITS_NAME". */
static void option_name(const struct option *option, bool in_environment, char name[64])
{
    snprintf(name, 64, "%s%s", in_environment ? "FDSERVER_" : "--", option->name);
    for (char *c = name; *c; c++)
        *c = in_environment ? (char)toupper(*c) : *c == '_' ? '-' : *c;
}

/* A value as it was given: `name` is --NAME or FDSERVER_NAME. */
struct given {
    const char *name, *value;
};

static _Noreturn void refuse_value(struct given given, const char *why)
{
    fprintf(stderr, "fdserver: %s %s: %s\n", given.name, *given.value ? given.value : "''", why);
    exit(EXIT_OPTIONS);
}

static uint64_t number_read(const struct option *option, struct given given)
{
    const char *value = given.value;
    const bool octal = option->kind == OPTION_OCTAL;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, octal ? 8 : 10);
    const char *const rule = octal                          ? "must be an octal number"
                             : option->kind == OPTION_BYTES ? "must be a whole number of bytes, "
                                                              "or of K, M, G or T (powers of 1024)"
                                                            : "must be a whole number";
    if (errno || end == value || value[0] == '-' || value[0] == '+')
        refuse_value(given, rule);
    if (option->kind == OPTION_BYTES && *end) {
        static const char suffixes[] = "KMGT";
        const char *suffix = strchr(suffixes, *end);
        if (!suffix)
            refuse_value(given, rule);
        const int shift = 10 * (int)(suffix - suffixes + 1);
        if (n > UINT64_MAX >> shift)
            refuse_value(given, "too large");
        n <<= shift;
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end += 2;
    }
    if (*end)
        refuse_value(given, rule);
    if (n < option->least || n > option->most) {
        char why[96];
        snprintf(why, sizeof why,
                 octal ? "must be from %llo to 0%llo" : "must be from %llu to %llu",
                 (unsigned long long)option->least, (unsigned long long)option->most);
        refuse_value(given, why);
    }
    return n;
}

static bool is_node(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !(i && strchr("-_.", name[i])))
            return false;
    return length > 0 && length <= CONFIG_NODE_MOST;
}

/* "host", "host:N" of another node, or "cuda:N", behind "NODE/" or not; `length` bytes of it. */
static bool is_device(const char *name, size_t length)
{
    const char *slash = memchr(name, '/', length);
    if (slash) {
        const size_t node = (size_t)(slash - name);
        if (!is_node(name, node))
            return false;
        name += node + 1;
        length -= node + 1;
    }
    if (length == 4 && strncmp(name, "host", 4) == 0)
        return true;
    if (length < 6 || length > 9 ||
        (strncmp(name, "cuda:", 5) != 0 && !(slash && strncmp(name, "host:", 5) == 0)))
        return false;
    if (name[5] == '0' && length > 6) /* one device, one spelling */
        return false;
    return strspn(name + 5, "0123456789") == length - 5;
}

bool config_next_device(const char **list, uint32_t *hosts, char name[CONFIG_DEVICE_BYTES])
{
    const int length = (int)strcspn(*list, ",");
    const bool is_host = length == 4 && **list == 'h';
    if (is_host && *hosts > 0)
        snprintf(name, CONFIG_DEVICE_BYTES, "host:%u", *hosts);
    else
        snprintf(name, CONFIG_DEVICE_BYTES, "%.*s", length, *list);
    *hosts += is_host;
    *list += length + ((*list)[length] == ',');
    return length > 0;
}

static void devices_check(struct given given)
{
    const char *list = given.value;
    if (strcmp(list, "auto") == 0)
        return;
    for (const char *name = list;; name++) {
        const size_t length = strcspn(name, ",");
        if (!is_device(name, length))
            refuse_value(given,
                         "must be auto, or a list of host, cuda:N, NODE/host and NODE/cuda:N");
        const bool repeats = length == 4 && *name == 'h'; /* several workers on the host */
        for (const char *before = list; before < name; before += strcspn(before, ",") + 1)
            if (!repeats && strcspn(before, ",") == length && strncmp(before, name, length) == 0)
                refuse_value(given, "names a device twice");
        name += length;
        if (!*name)
            return;
    }
}

static void option_set(struct config *config, const struct option *option, struct given given)
{
    void *place = (char *)config + option->offset;
    if (option->kind == OPTION_LIST) {
        if (config->listen.count == CONFIG_LISTEN_MAX)
            refuse_value(given, "at most 8 sockets");
        if (strncmp(given.value, "unix:", 5) != 0 || !given.value[5])
            refuse_value(given, "must be unix:PATH");
        config->listen.item[config->listen.count++] = given.value;
    } else if (option->kind == OPTION_TEXT || option->kind == OPTION_DEVICES) {
        if (!*given.value)
            refuse_value(given, "must not be empty");
        if (option->kind == OPTION_DEVICES)
            devices_check(given);
        *(const char **)place = given.value;
    } else {
        *(uint64_t *)place = number_read(option, given);
    }
}

static void print_help(void)
{
    puts("Usage: fdserver [OPTION VALUE]…\n\n"
         "Serves finite-difference jobs (MessagePack-RPC over Unix sockets) from a GPU or the "
         "host.\n\n"
         "Options; each overrides its environment variable. BYTES may end in K, M, G or T (powers "
         "of 1024):");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64], variable[64];
        option_name(&options[i], false, name);
        option_name(&options[i], true, variable);
        printf("  %s %s  (%s%s%s)\n", name, options[i].argument, variable,
               options[i].standard ? ", default " : "",
               options[i].standard ? options[i].standard : "");
        wrapped_print(stdout, options[i].text, 6);
    }
    puts("  --help, --version, --manual\n"
         "      Print this, the version, or the manual page's source (scdoc), and exit.\n\n"
         "Exit status: 0 drained after SIGTERM or SIGINT, 1 could not start, 2 wrong options.");
}

static void print_escaped(const char *text)
{
    for (; *text; text++)
        printf(*text == '_' || *text == '*' ? "\\%c" : "%c", *text);
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
         "_/etc/default/fdserver_. BYTES may end in K, M, G or T (powers of 1024).\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64], variable[64];
        option_name(&options[i], false, name);
        option_name(&options[i], true, variable);
        printf("*%s* _%s_\n\t", name, options[i].argument);
        print_escaped(options[i].text);
        if (options[i].standard)
            printf(" Default: %s.", options[i].standard);
        fputs(" Environment: ", stdout);
        print_escaped(variable);
        puts(".\n");
    }
    puts("# EXIT STATUS\n\n0 drained, 1 could not start, 2 wrong options.\n\n# SEE "
         "ALSO\n\n*fdclient*(1)");
}

/* Of a variable that looks like an option's, by a mistake in its name. */
static void warn_unless_known(const char *variable)
{
    static const char *const others[] = {"FDSERVER_SOCKET", "FDSERVER_KERNELS"};
    enum { OTHERS = sizeof others / sizeof others[0] };
    const size_t length = strcspn(variable, "=");
    for (int i = 0; i < OTHERS + OPTION_COUNT; i++) {
        char name[64];
        if (i < OTHERS)
            snprintf(name, sizeof name, "%s", others[i]); /* of clients, and of workers */
        else
            option_name(&options[i - OTHERS], true, name);
        if (strlen(name) == length && strncmp(name, variable, length) == 0)
            return;
    }
    log_warning("%.*s in the environment is no option", (int)(length < 64 ? length : 64), variable);
}

static void environment_read(struct config *config)
{
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "FDSERVER_", 9) == 0)
            warn_unless_known(*variable);
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        option_name(&options[i], true, name);
        char *value = getenv(name);
        if (!value || !*value)
            continue;
        if (options[i].kind != OPTION_LIST) {
            option_set(config, &options[i], (struct given){name, value});
            continue;
        }
        char *rest = strdup(value); /* lives as long as the process, as the environment does */
        if (!rest)
            refuse_value((struct given){name, value}, "out of memory");
        for (char *item; (item = strsep(&rest, ","));)
            option_set(config, &options[i], (struct given){name, item});
    }
}

/* The option of an argument --NAME or --NAME=VALUE, and its name; *value is what follows its =, or
 * NULL. */
static const struct option *option_find(const char *argument, char name[64], const char **value)
{
    const size_t length = strcspn(argument, "=");
    *value = argument[length] ? argument + length + 1 : NULL;
    for (int i = 0; i < OPTION_COUNT; i++) {
        option_name(&options[i], false, name);
        if (strlen(name) == length && strncmp(argument, name, length) == 0)
            return &options[i];
    }
    return NULL;
}

/* --help, --version or --manual. */
static void print_and_exit(const char *argument)
{
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        print_help();
    else if (strcmp(argument, "--version") == 0)
        puts("fdserver " FDSERVER_VERSION);
    else if (strcmp(argument, "--manual") == 0)
        print_manual();
    else
        return;
    exit(0);
}

static void arguments_read(struct config *config, int argc, char **argv)
{
    bool listen_given = false;
    for (int a = 1; a < argc; a++) {
        char name[64];
        const char *value;
        print_and_exit(argv[a]);
        const struct option *option = option_find(argv[a], name, &value);
        if (!option) {
            fprintf(stderr, "fdserver: unknown option %s (see --help)\n", argv[a]);
            exit(EXIT_OPTIONS);
        }
        if (!value && ++a < argc)
            value = argv[a];
        if (!value) {
            fprintf(stderr, "fdserver: %s needs a value\n", name);
            exit(EXIT_OPTIONS);
        }
        if (option->kind == OPTION_LIST && !listen_given) {
            listen_given = true; /* the command line takes the environment's place */
            config->listen.count = 0;
        }
        option_set(config, option, (struct given){name, value});
    }
}

static _Noreturn void refuse_options(const char *why)
{
    fprintf(stderr, "fdserver: %s\n", why);
    exit(EXIT_OPTIONS);
}

/* Options of a cluster go together. */
static void cluster_check(struct config *config)
{
    static char name[256];
    const bool names_nodes = strchr(config->device, '/');
    if (config->nodes && config->join)
        refuse_options("--nodes and --join do not go together: a node has one head");
    if ((config->nodes || config->join) && !config->cluster_key)
        refuse_options("--nodes and --join need --cluster-key");
    if (names_nodes != (config->nodes != NULL))
        refuse_options(names_nodes ? "--device names other nodes: they join at --nodes"
                                   : "--nodes: --device names no other node, as in NODE/cuda:0");
    if (!config->join)
        return;
    if (!config->node && gethostname(name, sizeof name - 1) == 0) {
        name[strcspn(name, ".")] = 0;
        config->node = name;
    }
    if (!config->node || !is_node(config->node, strlen(config->node)))
        refuse_options("--node must have 1 to 31 letters, digits, - and _");
}

void config_read(struct config *config, int argc, char **argv)
{
    memset(config, 0, sizeof *config);
    config->busy_poll_us = CONFIG_BUSY_POLL_AUTO;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options[i].standard)
            option_set(config, &options[i], (struct given){options[i].name, options[i].standard});
    environment_read(config);
    arguments_read(config, argc, argv);
    cluster_check(config);
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t group = cgroup_memory("").limit;
    if (!config->region_memory)
        config->region_memory = (group < machine ? group : machine) / 2;
}
