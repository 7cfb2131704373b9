#include "server/passed.h"

#include "gpu/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MOST = 253 }; /* the kernel's SCM_MAX_FD: in one message */

/* Closes in a thread that the first descriptor starts. Who blocks it blocks what other peers passed
 * of the same sort. */
struct closer {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    int *descriptors;
    size_t count, capacity;
    bool started;
};

/* Regions are memfds, which take their time to close but wait for nobody: they do not stand behind
 * what may. */
enum { ANYTHING, MEMORY, SORTS };
static struct closer closers[SORTS] = {
    [ANYTHING] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER},
    [MEMORY] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER}};

static void *run(void *context)
{
    struct closer *closer = context;
    for (;;) {
        pthread_mutex_lock(&closer->mutex);
        while (!closer->count)
            pthread_cond_wait(&closer->more, &closer->mutex);
        const int descriptor = closer->descriptors[0];
        memmove(closer->descriptors, closer->descriptors + 1,
                --closer->count * sizeof *closer->descriptors);
        pthread_mutex_unlock(&closer->mutex);
        /* Here, since somebody else may keep the socket locked. Of what is no socket, nothing. */
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
        close(descriptor);
    }
    return NULL;
}

static bool start(struct closer *closer)
{
    pthread_t thread;
    if (closer->started)
        return true;
    const int error = pthread_create(&thread, NULL, run, closer);
    if (error)
        log_warning("no thread to close what peers pass: %s", strerror(error));
    else
        pthread_detach(thread);
    return closer->started = !error;
}

void passed_close(int descriptor)
{
    const bool is_memory = fcntl(descriptor, F_GET_SEALS) >= 0; /* asks no file's system */
    struct closer *closer = &closers[is_memory ? MEMORY : ANYTHING];
    pthread_mutex_lock(&closer->mutex);
    if (closer->count == closer->capacity) {
        const size_t capacity = closer->capacity ? 2 * closer->capacity : DESCRIPTORS_MOST;
        int *grown = realloc(closer->descriptors, capacity * sizeof *grown);
        if (grown) {
            closer->descriptors = grown;
            closer->capacity = capacity;
        }
    }
    if (closer->count < closer->capacity && start(closer)) {
        closer->descriptors[closer->count++] = descriptor;
        descriptor = -1;
        pthread_cond_signal(&closer->more);
    }
    pthread_mutex_unlock(&closer->mutex);
    if (descriptor >= 0)
        close(descriptor); /* sooner wait than run out of them */
}

static void add(struct passed *passed, int descriptor)
{
    if (!passed_any(passed)) {
        passed->descriptor = descriptor;
        return;
    }
    passed_close(descriptor);
    if (passed->descriptor >= 0)
        passed_close(passed->descriptor);
    passed->descriptor = -1;
    passed->many = true;
}

ssize_t passed_receive(int socket, void *bytes, size_t length, struct passed *passed)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))];
    } control;
    struct iovec piece = {bytes, length};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return n;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(c) + i * sizeof descriptor, sizeof descriptor);
            add(passed, descriptor);
        }
    }
    /* There is room for as many as a message can carry: it is the process that has none. */
    if (message.msg_flags & MSG_CTRUNC) {
        passed_forget(passed);
        passed->no_room = true;
    }
    return n;
}

void passed_forget(struct passed *passed)
{
    if (passed->descriptor >= 0)
        passed_close(passed->descriptor);
    *passed = (struct passed){.descriptor = -1};
}

void passed_drain(int socket)
{
    static char bytes[64 << 10];
    struct passed passed = {.descriptor = -1};
    shutdown(socket, SHUT_RD);
    while (passed_receive(socket, bytes, sizeof bytes, &passed) > 0)
        ;
    passed_forget(&passed);
}
