#include "server/users/descriptor_passing.h"

#include "base/log.h"
#include "server/users/disposal.h"
#include "server/users/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MOST = 253 }; /* the kernel's SCM_MAX_FD: in one message */

struct closing {
    int descriptor;
    struct passing_account *account;
};

/* Closes in a thread of its own. A close that blocks delays all descriptors of the same sort. */
struct closer {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct closing *waiting; /* a ring, with room for as many as there can be */
    size_t first, count;
};

/* Regions are memfds, which take their time to close but wait for nobody: they do not stand behind
 * what may. */
enum { ANYTHING, MEMORY, SORTS };
static struct closer closers[SORTS] = {
    [ANYTHING] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER},
    [MEMORY] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER}};

static size_t descriptors_most;
static struct passing_account all; /* of all users */

static void *run_closer(void *context)
{
    struct closer *closer = context;
    for (;;) {
        pthread_mutex_lock(&closer->mutex);
        while (!closer->count)
            pthread_cond_wait(&closer->more, &closer->mutex);
        const struct closing closing = closer->waiting[closer->first];
        closer->first = (closer->first + 1) % descriptors_most;
        closer->count--;
        pthread_mutex_unlock(&closer->mutex);
        /* Here, since somebody else may keep the socket locked. Of what is no socket, nothing. */
        setsockopt(closing.descriptor, SOL_SOCKET, SO_LINGER, &(struct linger){0},
                   sizeof(struct linger));
        close(closing.descriptor);
        if (closer == &closers[ANYTHING]) {
            closing.account->awaiting--;
            all.awaiting--;
        }
    }
    return NULL;
}

bool passing_open(uint64_t descriptors)
{
    descriptors_most = descriptors;
    for (int i = 0; i < SORTS; i++) {
        pthread_t thread;
        closers[i].waiting = calloc(descriptors, sizeof *closers[i].waiting);
        if (!closers[i].waiting || pthread_create(&thread, NULL, run_closer, &closers[i]) != 0) {
            log_error("no memory or no thread to close what peers pass");
            return false;
        }
        pthread_detach(thread);
    }
    return disposal_open();
}

/* Has the user more descriptors that wait to be closed than the user's share of a quarter of all
 * there may be? Whoever has none may always have some. */
static bool too_many_wait(const struct passing_account *account)
{
    const uint64_t most = descriptors_most / 4, taken = all.awaiting, own = account->awaiting;
    return own && !reserve_shares(taken < most ? most - taken : 0, own, 0);
}

void passing_close(int descriptor, struct passing_account *account)
{
    const bool is_memory = fcntl(descriptor, F_GET_SEALS) >= 0; /* asks no file's system */
    struct closer *closer = &closers[is_memory ? MEMORY : ANYTHING];
    if (!is_memory) {
        account->awaiting++;
        all.awaiting++;
    }
    pthread_mutex_lock(&closer->mutex);
    closer->waiting[(closer->first + closer->count++) % descriptors_most] =
        (struct closing){descriptor, account};
    pthread_cond_signal(&closer->more);
    pthread_mutex_unlock(&closer->mutex);
}

static void add_passed(struct passed_descriptor *passed, int descriptor)
{
    if (!passing_any(passed)) {
        passed->descriptor = descriptor;
        return;
    }
    passing_close(descriptor, passed->account);
    if (passed->descriptor >= 0)
        passing_close(passed->descriptor, passed->account);
    passed->descriptor = -1;
    passed->many = true;
}

/* How much can be read without a descriptor; −1 with EUSERS: one would come along. To look at it,
 * without room for it, leaves it where it is. */
static ssize_t bytes_alone(int socket, void *bytes, size_t length)
{
    struct iovec piece = {bytes, length};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 || !(message.msg_flags & MSG_CTRUNC))
        return n;
    errno = EUSERS;
    return -1;
}

ssize_t passing_receive(int socket, void *bytes, size_t length, struct passed_descriptor *passed)
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
    if (too_many_wait(passed->account)) {
        n = bytes_alone(socket, bytes, length);
        if (n <= 0)
            return n;
        piece.iov_len = (size_t)n;
    }
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
            add_passed(passed, descriptor);
        }
    }
    /* There is room for as many as a message can carry: it is the process that has none. */
    if (message.msg_flags & MSG_CTRUNC) {
        passing_forget(passed);
        passed->no_room = true;
    }
    return n;
}

void passing_forget(struct passed_descriptor *passed)
{
    if (passed->descriptor >= 0)
        passing_close(passed->descriptor, passed->account);
    *passed = (struct passed_descriptor){.account = passed->account, .descriptor = -1};
}

void passing_close_socket(int socket, struct passing_account *account)
{
    static char bytes[64 << 10];
    struct passed_descriptor passed = {.account = account, .descriptor = -1};
    shutdown(socket, SHUT_RDWR);
    ssize_t n;
    while ((n = passing_receive(socket, bytes, sizeof bytes, &passed)) > 0)
        ;
    const bool holds_some = n < 0 && errno == EUSERS;
    passing_forget(&passed);
    /* What is in it is closed with it, and that may wait for as long as its user likes. */
    if (!holds_some)
        close(socket);
    else if (!disposal_take(socket))
        passing_close(socket, account);
}
