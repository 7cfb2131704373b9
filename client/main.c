#include "client/commands.h"

#include <string.h>
#include <time.h>

static int exit_status_of(const struct fdclient_error *error)
{
    /* "connect" is no parameter of the wire: the address itself is wrong. */
    if (strcmp(error->code, "USAGE") == 0 || strcmp(error->parameter, "connect") == 0)
        return EXIT_USAGE;
    if (strcmp(error->code, "CANCELLED") == 0)
        return EXIT_INTERRUPTED;
    if (strcmp(error->code, "FILE") == 0)
        return EXIT_FILE;
    if (strcmp(error->code, "CONNECTION") == 0)
        return EXIT_CONNECTION;
    return error->retryable ? EXIT_RETRY : EXIT_REFUSED;
}

static int complain_of_usage(const struct options *options, struct fdclient_error *error)
{
    const int status = exit_status_of(error);
    options_speak(options, error);
    fprintf(stderr, "fdclient: %s: %s%s%s\n", error->code, error->parameter,
            error->parameter[0] ? ": " : "", error->message);
    return status;
}

/* 0.1 s, then twice as long each time, up to 5 s. */
static void back_off(uint64_t attempt)
{
    const uint64_t wait_ms = attempt < 6 ? UINT64_C(100) << attempt : 5000;
    const struct timespec wait = {(time_t)(wait_ms / 1000), (long)(wait_ms % 1000) * 1000000};
    nanosleep(&wait, NULL);
}

int main(int argc, char **argv)
{
    struct options options;
    struct fdclient_error error;
    if (!options_read(&options, argc, argv, &error))
        return complain_of_usage(&options, &error);
    if (options.help) {
        options_help(stdout);
        return EXIT_DONE;
    }
    if (options.version) {
        printf("fdclient %s\n", fdclient_version());
        return EXIT_DONE;
    }
    for (uint64_t attempt = 0; !commands_run(&options, &error); attempt++) {
        if (!error.retryable || attempt == options.retry)
            return complain_of_usage(&options, &error);
        back_off(attempt);
    }
    return EXIT_DONE;
}
