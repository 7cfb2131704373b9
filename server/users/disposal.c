#include "server/users/disposal.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COLLECTED_MOST = 256, COLLECTED_MS = 100 };

static int entrance = -1, outlet = -1;
static _Atomic uint64_t closed; /* so many of those that were taken, by disposal_take() */
static sem_t let_go, seen;      /* between the collector and one thread that is to end */

/* Ends when the collector has let its copies go: the last ones end with this thread's table. */
static void *last_holder(void *unused)
{
    (void)unused;
    sem_wait(&let_go);
    sem_post(&seen);
    return NULL;
}

/* Leave what is here to a thread that ends. False: there is none for it now. */
static bool dispose(void)
{
    pthread_t thread;
    if (thread_start(&thread, last_holder, NULL) != 0)
        return false;
    pthread_detach(thread);
    const bool is_apart = rights_own_table(outlet); /* the thread keeps the one that was ours */
    sem_post(&let_go);
    sem_wait(&seen);
    return is_apart;
}

/* The next one is in this thread's table from here on, or gone where that is full. False: none has
 * come in time. */
static bool collect(int timeout_ms)
{
    struct pollfd outlet_polled = {.fd = outlet, .events = POLLIN};
    char byte;
    int socket;
    return poll(&outlet_polled, 1, timeout_ms) > 0 &&
           (rights_receive(outlet, &byte, sizeof byte, MSG_DONTWAIT, &socket) > 0 ||
            errno == EMSGSIZE);
}

static void *collector(void *unused)
{
    (void)unused;
    if (!rights_own_table(outlet)) {
        log_warning("no table of descriptors for what hangs: %s", strerror(errno));
        shutdown(outlet, SHUT_RDWR); /* nothing is taken */
        return NULL;
    }
    uint64_t taken = 0, disposed = 0;
    for (;;) {
        const bool comes = collect(taken > disposed ? COLLECTED_MS : -1);
        taken += comes;
        if (comes && taken - disposed < COLLECTED_MOST)
            continue;
        /* Not before disposal_take() has closed its own: that must not be the last close. */
        if (taken > disposed && closed >= taken && dispose())
            disposed = taken;
    }
}

bool disposal_open(void)
{
    sem_init(&let_go, 0, 0);
    sem_init(&seen, 0, 0);
    entrance = rights_thread(collector, &outlet, "dispose of what peers pass");
    return entrance >= 0;
}

bool disposal_take(int socket)
{
    char byte = 0;
    struct iovec piece = {&byte, 1};
    if (entrance < 0 || rights_send(entrance, &piece, 1, socket) != 1)
        return false;
    close(socket);
    closed++;
    return true;
}
