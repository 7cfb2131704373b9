#include "server/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un notify_address;
static socklen_t notify_address_bytes;
static uint64_t notify_watchdog_us;
static int notify_socket_count;

/* A variable that is meant for this process: NAME_PID, where set, must be ours. */
static unsigned long long environment_number(const char *name, const char *pid_name)
{
    const char *text = getenv(name);
    const char *pid = getenv(pid_name);
    if (!text || (pid && strtoull(pid, NULL, 10) != (unsigned long long)getpid()))
        return 0;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    return errno || *end || end == text ? 0 : number;
}

void notify_init(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path && (path[0] == '/' || path[0] == '@') &&
        strlen(path) < sizeof notify_address.sun_path) {
        notify_address.sun_family = AF_UNIX;
        memcpy(notify_address.sun_path, path, strlen(path));
        notify_address_bytes =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (path[0] == '/'));
        if (path[0] == '@')
            notify_address.sun_path[0] = 0;
    }
    notify_watchdog_us = environment_number("WATCHDOG_USEC", "WATCHDOG_PID");
    /* LISTEN_PID must be there: without it the sockets may be anybody's. */
    if (getenv("LISTEN_PID")) {
        const unsigned long long count = environment_number("LISTEN_FDS", "LISTEN_PID");
        notify_socket_count = count < 64 ? (int)count : 64;
    }
    for (int i = 0; i < notify_socket_count; i++)
        fcntl(NOTIFY_FIRST + i, F_SETFD, FD_CLOEXEC);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
}

void notify_send(const char *state)
{
    if (!notify_address_bytes)
        return;
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return;
    sendto(descriptor, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&notify_address,
           notify_address_bytes);
    close(descriptor);
}

void notify_stopping(uint64_t drain_timeout_s)
{
    enum { END_S = 15 };
    char state[80];
    snprintf(state, sizeof state, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
             (unsigned long long)(drain_timeout_s + END_S) * 1000000);
    notify_send(state);
}

uint64_t notify_watchdog_ms(void)
{
    return notify_watchdog_us / 2000; /* half the period, as sd_watchdog_enabled(3) advises */
}

int notify_sockets(void)
{
    return notify_socket_count;
}
