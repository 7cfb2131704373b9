#include "server/users/descriptors.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/thread.h"
#include "server/users/reserve.h"
#include "server/users/user.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    OWN = 24,          /* of the server itself, a worker's channel and the sockets it listens on */
    RESERVE = 16,      /* a worker's start takes 2, and a connection to be refused 1 */
    USUALLY = 1 << 16, /* no more than these, where the options need no more */
    /* Of all: those that wait to be closed. They come beside what a user may hold, which ends an
     * eighth below the reserve (reserve.h), so with half of that the others find some left. */
    WAITING_PART = 2 * RESERVE_PART,
    BURST = PASSING_THREADS_MOST * RIGHTS_MOST, /* a full message on each */
    TOP = BURST + RESERVE /* the highest numbers: all of them are free where a burst must fit */
};

static size_t descriptors_most;
/* How often one of the top was given out, and how often until none was in use. */
static _Atomic uint64_t top_given, top_free_at;

static void note(int descriptor)
{
    if ((size_t)descriptor + TOP >= descriptors_most)
        top_given++;
}

/* --- who may have them --- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
}

/* libuv keeps a table by descriptor and aborts if it cannot grow it: so watch the last one once. */
static bool lengthen_table(uv_loop_t *loop, int last)
{
    static uv_poll_t poll;
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int descriptor = event < 0 ? -1 : fcntl(event, F_DUPFD_CLOEXEC, last);
    rights_close(event);
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
        log_error("the process's limit of descriptors is too low (ulimit -n)");
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
        log_warning(
            "at most %llu connections, not %llu: the limit of descriptors is %llu (ulimit -n)",
            (unsigned long long)connections, (unsigned long long)config->max_connections,
            (unsigned long long)users->descriptors);
        config->max_connections = connections;
    }
    return lengthen_table(loop, (int)users->descriptors - 1) && passing_open(users->descriptors);
}

bool descriptors_are_few(const struct users *users, int descriptor)
{
    note(descriptor);
    return (uint64_t)descriptor >= users->descriptors - RESERVE;
}

bool descriptors_allow(const struct user *user, int descriptor, bool connected)
{
    const struct counters *own = &user->counters;
    const uint64_t most = user->users->descriptors - RESERVE,
                   held = own->connections + own->regions + own->exports + user->passed.awaiting;
    note(descriptor);
    return (uint64_t)descriptor < (held > (uint64_t)connected ? reserve_most(most) : most);
}

bool descriptors_allow_memory(const struct user *user, int descriptor, struct failure *failure)
{
    const struct counters *own = &user->counters, *total = &user->users->counters;
    const uint64_t mine = own->regions + own->exports, everyones = total->regions + total->exports;
    const uint64_t most = user->users->config->max_regions;
    const uint64_t half = user->users->descriptors / 2; /* the rest is for connections */
    if (mine >= most || everyones >= half) {
        const uint64_t held = mine >= most ? mine : everyones;
        return failure_set_limit(failure, STATUS_OVER_BUDGET, NULL, (double)held + 1,
                                 (double)(mine >= most ? most : half),
                                 "%s %llu regions and exported fields already: each holds a "
                                 "descriptor",
                                 mine >= most ? "you have" : "all users have",
                                 (unsigned long long)held);
    }
    return (descriptor >= 0 && descriptors_allow(user, descriptor, true)) ||
           failure_set(failure, STATUS_OVER_BUDGET, NULL,
                       "few descriptors are left: they are for users who hold none");
}

/* --- descriptors that are closed off the loop --- */

struct closing {
    int descriptor;
    struct passing_account *account;
};

/* A queue of descriptors and the thread that closes them in turn, for each of two sorts: memory,
 * whose close takes time but waits for nobody, must not queue behind anything else; nor what is no
 * peer's. */
struct closer {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct closing *waiting; /* a ring, with room for as many as there can be */
    size_t first, count;
};

enum { ANYTHING, MEMORY, SORTS };
static struct closer closers[SORTS] = {
    [ANYTHING] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER},
    [MEMORY] = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER}};

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
        /* In this thread, since another process may keep the socket locked. Not a socket: harmless.
         */
        setsockopt(closing.descriptor, SOL_SOCKET, SO_LINGER, &(struct linger){0},
                   sizeof(struct linger));
        close(closing.descriptor);
        if (closing.account) {
            all.awaiting--;
            closing.account->awaiting--; /* last: from here on the account may be gone */
        }
    }
    return NULL;
}

/* --- sockets that are closed with descriptors in them ---
 *
 *   dispose_of() → a socketpair → the collector → once it is full, or after 100 ms → a thread
 *   (our own is closed)           (own table)                with that table, which ends
 *
 * None of the closes before the last can wait: the collector takes a socket when our own is closed,
 * and takes none for which its table has no room, since the kernel would close that one at once. */

enum { COLLECTED_MOST = 256, COLLECTED_MS = 100 };

static int entrance = -1, outlet = -1;
static sem_t closed;       /* the number of sockets that only the socketpair holds */
static sem_t let_go, seen; /* between the collector and one thread that is to end */

/* Ends when the collector has left the table to it, and the descriptors with it. */
static void *last_holder(void *unused)
{
    (void)unused;
    sem_wait(&let_go);
    sem_post(&seen);
    return NULL;
}

/* Leave all sockets here to a thread that ends. False: none can be started now. */
static bool dispose_all(void)
{
    if (!thread_start(last_holder, NULL))
        return false;
    const bool is_apart = rights_own_table(outlet); /* the thread keeps the one that was ours */
    sem_post(&let_go);
    sem_wait(&seen);
    return is_apart;
}

/* Take the next socket into this thread's table. False: none has come in time. */
static bool collect(int timeout_ms)
{
    struct pollfd outlet_polled = {.fd = outlet, .events = POLLIN};
    char byte;
    int socket;
    if (poll(&outlet_polled, 1, timeout_ms) <= 0)
        return false;
    sem_wait(&closed);
    rights_receive(outlet, &byte, sizeof byte, MSG_DONTWAIT, &socket);
    return true;
}

static void *collector(void *unused)
{
    (void)unused;
    if (!rights_own_table(outlet)) {
        log_warning("no table of descriptors for what hangs: %s", strerror(errno));
        shutdown(outlet, SHUT_RDWR); /* nothing is taken */
        return NULL;
    }
    const uint64_t room = descriptors_most - OWN;
    const uint64_t most = room < COLLECTED_MOST ? room : COLLECTED_MOST;
    for (uint64_t held = 0;;) {
        if (held < most && collect(held ? COLLECTED_MS : -1))
            held++;
        else if (dispose_all())
            held = 0;
        else
            poll(NULL, 0, COLLECTED_MS); /* the others wait in the socketpair */
    }
}

static bool open_disposal(void)
{
    sem_init(&closed, 0, 0);
    sem_init(&let_go, 0, 0);
    sem_init(&seen, 0, 0);
    entrance = rights_thread(collector, &outlet, "dispose of what peers pass");
    return entrance >= 0;
}

/* Take the socket over and close it here, which cannot wait. False: not now. */
static bool dispose_of(int socket)
{
    char byte = 0;
    struct iovec piece = {&byte, 1};
    if (rights_send(entrance, &piece, 1, socket) != 1)
        return false;
    close(socket);
    sem_post(&closed);
    return true;
}

/* --- descriptors that are passed --- */

bool passing_open(uint64_t descriptors)
{
    descriptors_most = descriptors;
    for (int i = 0; i < SORTS; i++) {
        closers[i].waiting = calloc(descriptors, sizeof *closers[i].waiting);
        if (!closers[i].waiting || !thread_start(run_closer, &closers[i])) {
            log_error("no memory or no thread to close what peers pass");
            return false;
        }
    }
    return open_disposal();
}

/* Do more of the user's descriptors wait to be closed than the user's share of WAITING_PART? A user
 * of whom none waits may pass some in any case. */
static bool too_many_wait(const struct passing_account *account)
{
    const uint64_t most = descriptors_most / WAITING_PART, taken = all.awaiting,
                   own = account->awaiting;
    return own && !reserve_shares(taken < most ? most - taken : 0, own, 0);
}

static void hand_over(struct closer *closer, int descriptor, struct passing_account *account)
{
    pthread_mutex_lock(&closer->mutex);
    closer->waiting[(closer->first + closer->count++) % descriptors_most] =
        (struct closing){descriptor, account};
    pthread_cond_signal(&closer->more);
    pthread_mutex_unlock(&closer->mutex);
}

void passing_close(int descriptor, struct passing_account *account)
{
    const bool is_memory = fcntl(descriptor, F_GET_SEALS) >= 0; /* asks no file's system */
    account->awaiting++;
    all.awaiting++;
    hand_over(&closers[is_memory ? MEMORY : ANYTHING], descriptor, account);
}

void passing_close_own(int descriptor)
{
    hand_over(&closers[MEMORY], descriptor, NULL);
}

static void add_passed(struct passed_descriptor *passed, int descriptor)
{
    if (!passing_any(passed)) {
        passed->descriptor = descriptor;
        return;
    }
    passing_close(descriptor, passed->account);
    passing_forget(passed);
    passed->many = true;
}

/* May there be too few descriptors for a full message on each thread? The kernel closes those that
 * it has no number for, in the thread that receives. */
static bool burst_may_not_fit(void)
{
    return descriptors_most <= TOP || top_given != top_free_at;
}

void descriptors_tick(void)
{
    static struct pollfd top[TOP];
    const uint64_t given = top_given;
    if (descriptors_most <= TOP || given == top_free_at)
        return;
    for (int i = 0; i < TOP; i++)
        top[i] = (struct pollfd){.fd = (int)descriptors_most - TOP + i};
    poll(top, TOP, 0);
    for (int i = 0; i < TOP; i++)
        if (!(top[i].revents & POLLNVAL))
            return; /* it is open */
    top_free_at = given;
}

/* Receive with at most `most` descriptors, 0 or 1. First a look, which takes a copy of the
 * descriptor and leaves the message: so the read, with room for none, drops no last reference.
 * Where more come, nothing is read; a copy is closed off the loop, since a file's own system may
 * hold that up. */
static ssize_t receive_carefully(int socket, struct iovec *piece, size_t most,
                                 struct passing_account *account, struct rights *rights)
{
    struct rights dropped;
    const ssize_t n =
        rights_receive_pieces(socket, piece, 1, MSG_PEEK | MSG_DONTWAIT, most, rights);
    if (n <= 0)
        return n;
    piece->iov_len = (size_t)n;
    if (!(rights->flags & MSG_CTRUNC))
        return rights_receive_pieces(socket, piece, 1, MSG_DONTWAIT, 0, &dropped);
    if (rights->count)
        passing_close(rights->descriptors[0], account);
    errno = most ? EMFILE : EUSERS;
    return -1;
}

ssize_t passing_receive(int socket, void *bytes, size_t length, struct passed_descriptor *passed)
{
    struct iovec piece = {bytes, length};
    struct rights rights;
    const size_t most = too_many_wait(passed->account) ? 0 : burst_may_not_fit() ? 1 : RIGHTS_MOST;
    const ssize_t n = most == RIGHTS_MOST
                          ? rights_receive_pieces(socket, &piece, 1, MSG_DONTWAIT, most, &rights)
                          : receive_carefully(socket, &piece, most, passed->account, &rights);
    if (n < 0)
        return n;
    for (size_t i = 0; i < rights.count; i++) {
        note(rights.descriptors[i]);
        add_passed(passed, rights.descriptors[i]);
    }
    /* There is room for as many as a message can carry: it is the process that has none. */
    if (rights.flags & MSG_CTRUNC) {
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
    const bool holds_some = n < 0 && (errno == EUSERS || errno == EMFILE);
    passing_forget(&passed);
    /* Its descriptors are closed with it, which may take as long as its user likes. */
    if (!holds_some)
        close(socket);
    else if (!dispose_of(socket))
        passing_close(socket, account);
}
