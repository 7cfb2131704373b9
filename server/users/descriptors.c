#include "server/users/descriptors.h"

#include "base/log.h"
#include "server/users/reserve.h"
#include "server/users/user.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    OWN = 24,         /* of the server itself, a worker's channel and the sockets it listens on */
    RESERVE = 16,     /* a worker's start takes 2, and a connection to be refused 1 */
    USUALLY = 1 << 16 /* no more than these, where the options need no more */
};

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

/* libuv keeps a table by number of descriptor, and aborts where it cannot make it longer: so watch
 * the last one for once. */
static bool lengthen_table(uv_loop_t *loop, int last)
{
    static uv_poll_t poll;
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int descriptor = event < 0 ? -1 : fcntl(event, F_DUPFD_CLOEXEC, last);
    if (event >= 0)
        close(event);
    if (descriptor < 0 || uv_poll_init(loop, &poll, descriptor) != 0) {
        log_error("descriptor %d cannot be had: %s", last, strerror(errno));
        return false;
    }
    uv_poll_start(&poll, UV_READABLE, on_poll);
    uv_close((uv_handle_t *)&poll, NULL);
    close(descriptor);
    return true;
}

bool descriptors_open(struct users *users, uv_loop_t *loop, struct config *config)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max <= OWN + RESERVE) {
        log_error("the process may have too few descriptors (ulimit -n)");
        return false;
    }
    const uint64_t wanted =
        2 * config->max_connections > USUALLY ? 2 * config->max_connections : USUALLY;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        log_warning("the limit of descriptors cannot be raised: %s", strerror(errno));
    getrlimit(RLIMIT_NOFILE, &files);
    users->descriptors = files.rlim_cur;
    const uint64_t connections = users->descriptors - OWN - RESERVE;
    if (config->max_connections > connections) {
        log_warning("at most %llu connections, not %llu: the process may have %llu descriptors",
                    (unsigned long long)connections, (unsigned long long)config->max_connections,
                    (unsigned long long)users->descriptors);
        config->max_connections = connections;
    }
    return lengthen_table(loop, (int)users->descriptors - 1);
}

bool descriptors_are_few(const struct users *users, int descriptor)
{
    return (uint64_t)descriptor >= users->descriptors - RESERVE;
}

bool descriptors_allow(const struct users *users, int descriptor, bool holds_others)
{
    const uint64_t most = users->descriptors - RESERVE;
    return (uint64_t)descriptor < (holds_others ? reserve_most(most) : most);
}
