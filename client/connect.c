#include "client/connect.h"

#include "client/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/fdserver/fdserver.sock"

/* The default socket: the system's; where that is absent and the user's own exists, the latter. */
static bool default_path(struct sockaddr_un *at, struct fdclient_error *error)
{
    snprintf(at->sun_path, sizeof at->sun_path, "%s", SYSTEM_SOCKET);
    if (access(at->sun_path, F_OK) == 0)
        return true;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const int length = runtime && *runtime ? snprintf(at->sun_path, sizeof at->sun_path,
                                                      "%s/fdserver.sock", runtime)
                                           : 0;
    if (length > 0 && length < (int)sizeof at->sun_path && access(at->sun_path, F_OK) == 0)
        return true;
    if (length == 0)
        return error_set(error, ERROR_CONNECTION, "",
                         "no fdserver is running here: there is no " SYSTEM_SOCKET);
    return error_set(error, ERROR_CONNECTION, "",
                     "no fdserver is running here: there is neither " SYSTEM_SOCKET
                     " nor %.100s/fdserver.sock",
                     runtime);
}

static bool given_path(const char *address, struct sockaddr_un *at, struct fdclient_error *error)
{
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    if (!*path || (path == address && !strchr("/.", *path)))
        return error_set(error, "INVALID_ARGUMENT", "connect",
                         "an address is unix:PATH; got '%.100s'", address);
    if (strlen(path) >= sizeof at->sun_path)
        return error_set(error, "INVALID_ARGUMENT", "connect",
                         "a socket's path is at most %zu bytes long; got %zu",
                         sizeof at->sun_path - 1, strlen(path));
    memcpy(at->sun_path, path, strlen(path) + 1);
    return true;
}

/* A connect that a signal interrupted goes on by itself; its end is awaited. */
static int connect_whole(int descriptor, const struct sockaddr_un *at)
{
    if (connect(descriptor, (const struct sockaddr *)at, sizeof *at) == 0)
        return 0;
    if (errno != EINTR)
        return errno;
    struct pollfd wait = {descriptor, POLLOUT, 0};
    while (poll(&wait, 1, -1) < 0 && errno == EINTR)
        continue;
    int result = 0;
    socklen_t length = sizeof result;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &result, &length) == 0 ? result : errno;
}

/* As much as the system allows: the array of a small job goes out in one call, a large one in few.
 */
static void set_send_buffer(int descriptor)
{
    const int bytes = 4 << 20;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

int connect_open(const char *address, struct fdclient_error *error)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *environment = getenv("FDSERVER_SOCKET");
    if (!address && environment && *environment)
        address = environment;
    if (address ? !given_path(address, &at, error) : !default_path(&at, error))
        return -1;
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int failed = descriptor < 0 ? errno : connect_whole(descriptor, &at);
    if (failed == 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0) {
        set_send_buffer(descriptor);
        return descriptor;
    }
    error_set(error, ERROR_CONNECTION, "", "cannot connect to %s: %s", at.sun_path,
              strerror(failed));
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}
