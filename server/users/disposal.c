#include "server/users/disposal.h"

#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COLLECTED_MOST = 256, COLLECTED_MS = 100 };

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static int entrance = -1, outlet = -1;
static sem_t let_go, seen; /* between the collector and one thread that is to end */

/* Ends when the collector has let its copies go: the last ones end with this thread's table. */
static void *last_holder(void *unused)
{
    (void)unused;
    sem_wait(&let_go);
    sem_post(&seen);
    return NULL;
}

static void close_all_but(int descriptor)
{
    close_range(0, (unsigned)descriptor - 1, 0);
    close_range((unsigned)descriptor + 1, UINT_MAX, 0);
}

/* Leave what is here to a thread that ends. False: there is none for it now. */
static bool dispose(void)
{
    pthread_t thread;
    if (thread_start(&thread, last_holder, NULL) != 0)
        return false;
    pthread_detach(thread);
    const bool is_apart = unshare(CLONE_FILES) == 0; /* the thread keeps the table that was ours */
    if (is_apart)
        close_all_but(outlet);
    sem_post(&let_go);
    sem_wait(&seen);
    return is_apart;
}

/* The next one is in this thread's table from here on. False: none has come in time. */
static bool collect(int timeout_ms)
{
    struct pollfd outlet_polled = {.fd = outlet, .events = POLLIN};
    union control control;
    char byte;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    return poll(&outlet_polled, 1, timeout_ms) > 0 && recvmsg(outlet, &message, MSG_DONTWAIT) > 0;
}

static void *collector(void *unused)
{
    (void)unused;
    if (unshare(CLONE_FILES) != 0) {
        log_warning("no table of descriptors for what hangs: %s", strerror(errno));
        shutdown(outlet, SHUT_RDWR); /* nothing is taken */
        return NULL;
    }
    close_all_but(outlet);
    for (int count = 0;;) {
        if (collect(count ? COLLECTED_MS : -1) && ++count < COLLECTED_MOST)
            continue;
        if (count && dispose())
            count = 0;
    }
}

bool disposal_open(void)
{
    int ends[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        log_error("socketpair: %s", strerror(errno));
        return false;
    }
    sem_init(&let_go, 0, 0);
    sem_init(&seen, 0, 0);
    entrance = ends[0];
    outlet = ends[1];
    if (thread_start(&thread, collector, NULL) != 0) {
        log_error("no thread to dispose of what peers pass");
        return false;
    }
    pthread_detach(thread);
    return true;
}

bool disposal_take(int socket)
{
    union control control = {.bytes = {0}};
    char byte = 0;
    struct iovec piece = {&byte, 1};
    const struct msghdr message = {.msg_iov = &piece,
                                   .msg_iovlen = 1,
                                   .msg_control = control.bytes,
                                   .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof socket);
    memcpy(CMSG_DATA(header), &socket, sizeof socket);
    if (entrance < 0 || sendmsg(entrance, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        return false;
    close(socket);
    return true;
}
