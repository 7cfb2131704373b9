/* Happy path: bind under a closed umask, give mode and group, listen. A path is taken over only
 * where it is a socket of our own uid that nobody listens on any more; everything else is refused.
 */
#include "base/log.h"
#include "base/rights.h"
#include "server/io/connection.h"
#include "server/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

struct listener {
    struct list link;
    struct io *io;
    uv_poll_t poll;
    int socket;
    char *path;   /* bound by us and removed at the end; NULL: handed over */
    dev_t device; /* of the socket file that we made: no other is removed */
    ino_t inode;
    bool paused; /* no descriptor was left; tried again at the next tick */
};

/* Until listener_tick() finds more descriptors. */
static void pause_listener(struct listener *listener)
{
    listener->paused = true;
    uv_poll_stop(&listener->poll);
}

static void on_listener_poll(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct listener *listener = poll->data;
    struct io *io = listener->io;
    const uint64_t begun_ns = uv_hrtime();
    for (int i = 0; status == 0 && (i == 0 || turn_accepts(io, begun_ns)); i++) {
        const int descriptor = accept4(listener->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                log_warning("cannot accept: %s", strerror(errno));
                pause_listener(listener);
            }
            return;
        }
        /* Else a read passes over an out-of-band byte, and closes what was passed with it. */
        setsockopt(descriptor, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
        connection_open(io, descriptor);
        if (descriptors_are_few(io->jobs->devices->users, descriptor)) {
            log_warning("few descriptors are left: nobody can connect until there are more");
            pause_listener(listener);
            return;
        }
    }
}

/* Is the next descriptor one of the reserve, or is there none? */
static bool has_few(const struct listener *listener)
{
    const int next = fcntl(listener->socket, F_DUPFD_CLOEXEC, 0);
    const bool few = next < 0 || descriptors_are_few(listener->io->jobs->devices->users, next);
    rights_close(next);
    return few;
}

void listener_tick(struct io *io)
{
    LIST_EACH (struct listener, listener, &io->listeners, link) {
        if (!listener->paused || has_few(listener))
            continue;
        listener->paused = false;
        uv_poll_start(&listener->poll, UV_READABLE, on_listener_poll);
    }
}

static bool listener_start(struct io *io, int descriptor, char *path)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return false;
    listener->io = io;
    listener->socket = descriptor;
    listener->path = path;
    struct stat status;
    if (path && lstat(path, &status) == 0) {
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
    }
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    const int error = uv_poll_init(io->loop, &listener->poll, descriptor);
    if (error) {
        log_error("a listening socket cannot be watched: %s", uv_strerror(error));
        free(listener);
        return false;
    }
    listener->poll.data = listener;
    uv_poll_start(&listener->poll, UV_READABLE, on_listener_poll);
    list_push(&io->listeners, &listener->link);
    return true;
}

static bool answers(const struct sockaddr_un *address)
{
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool yes = descriptor >= 0 &&
                     (connect(descriptor, (const struct sockaddr *)address, sizeof *address) == 0 ||
                      errno == EAGAIN);
    rights_close(descriptor);
    return yes;
}

static bool clear_path(const char *path, const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        if (errno == ENOENT)
            return true;
        log_error("%s: %s", path, strerror(errno));
    } else if (!S_ISSOCK(status.st_mode))
        log_error("%s: exists and is no socket; not touched", path);
    else if (status.st_uid != geteuid())
        log_error("%s: belongs to another user; not touched", path);
    else if (answers(address))
        log_error("%s: another server listens there", path);
    else if (unlink(path) != 0)
        log_error("%s: %s", path, strerror(errno));
    else
        return true;
    return false;
}

static bool set_owner(const char *path, const struct config *config)
{
    if (config->group) {
        errno = 0;
        const struct group *group = getgrnam(config->group);
        if (!group) {
            log_error("--group %s: there is no such group", config->group);
            return false;
        }
        if (lchown(path, (uid_t)-1, group->gr_gid) != 0) {
            log_error("%s: group %s: %s", path, config->group, strerror(errno));
            return false;
        }
    }
    if (chmod(path, (mode_t)config->mode) != 0) {
        log_error("%s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static bool listen_unix(struct io *io, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        log_error("%s: a socket's path has at most %zu bytes", path, sizeof address.sun_path - 1);
        return false;
    }
    memcpy(address.sun_path, path, strlen(path));
    if (!clear_path(path, &address))
        return false;
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t mask = umask(0777); /* no client connects before mode and group are right */
    const bool bound =
        descriptor >= 0 && bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    umask(mask);
    if (!bound) {
        log_error("%s: %s", path, strerror(errno));
        rights_close(descriptor);
        return false;
    }
    char *copy = strdup(path);
    if (!copy || !set_owner(path, io->config) || listen(descriptor, BACKLOG) != 0 ||
        !listener_start(io, descriptor, copy)) {
        unlink(path);
        close(descriptor);
        free(copy);
        return false;
    }
    log_info("listening on %s", path);
    return true;
}

static bool listen_default(struct io *io)
{
    if (access("/run/fdserver", W_OK) == 0)
        return listen_unix(io, "/run/fdserver/fdserver.sock");
    const char *directory = getenv("XDG_RUNTIME_DIR");
    if (!directory || !*directory) {
        log_error("/run/fdserver cannot be written and XDG_RUNTIME_DIR is not set: give --listen "
                  "unix:PATH");
        return false;
    }
    char path[sizeof((struct sockaddr_un){0}).sun_path + 1];
    const int length = snprintf(path, sizeof path, "%s/fdserver.sock", directory);
    if (length < 0 || (size_t)length >= sizeof path) {
        log_error("XDG_RUNTIME_DIR is too long for a socket's path: give --listen unix:PATH");
        return false;
    }
    return listen_unix(io, path);
}

static bool is_stream_listener(int descriptor)
{
    int type = 0, accepting = 0;
    socklen_t length = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM)
        return false;
    length = sizeof accepting;
    struct sockaddr_storage address;
    socklen_t address_bytes = sizeof address;
    return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &length) == 0 &&
           accepting && getsockname(descriptor, (struct sockaddr *)&address, &address_bytes) == 0 &&
           address.ss_family == AF_UNIX;
}

bool listener_open_all(struct io *io)
{
    const int handed_over = notify_sockets();
    for (int socket = NOTIFY_FIRST; socket < NOTIFY_FIRST + handed_over; socket++) {
        if (!is_stream_listener(socket)) {
            log_error("descriptor %d from systemd is no listening Unix stream socket", socket);
            return false;
        }
        if (!listener_start(io, socket, NULL))
            return false;
        log_info("listening on a socket from systemd");
    }
    for (int i = 0; i < io->config->listen.count; i++)
        if (!listen_unix(io, io->config->listen.item[i] + strlen("unix:")))
            return false;
    return handed_over || io->config->listen.count || listen_default(io);
}

static void on_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    close(listener->socket);
    free(listener->path);
    free(listener);
}

void listener_close_all(struct io *io)
{
    LIST_DRAIN (struct listener, listener, &io->listeners, link) {
        struct stat status;
        if (listener->path && lstat(listener->path, &status) == 0 &&
            status.st_dev == listener->device && status.st_ino == listener->inode)
            unlink(listener->path);
        uv_close((uv_handle_t *)&listener->poll, on_closed);
    }
}
