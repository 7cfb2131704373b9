#include "server/io/fair.h"

#include "server/io/connection.h"
#include "server/io/io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SLICE_NS INT64_C(40000)
#define SLICE_ALONE_NS INT64_C(1000000)
/* The most for all slices of a turn; users who have had none by then go first in the next. */
#define TURN_NS UINT64_C(5000000)
enum { POLL_EVENTS = 32 }; /* that the kernel is asked for at once */

struct fair_watch {
    uv_poll_t poll;
    int epoll;
    struct user *user;
    struct io *io;
};

/* How long a slice is now. */
static int64_t slice_of(const struct fair *fair, uint64_t now_ns)
{
    return contention_is_none(&fair->contention, now_ns) ? SLICE_ALONE_NS : SLICE_NS;
}

void fair_init(struct io *io)
{
    list_init(&io->fair.ready);
}

/* A user who was idle goes first, unless in debt: the answers that such a user waits for do not
 * stand behind the backlog of others. */
static void make_ready(struct io *io, struct user *user)
{
    if (!list_empty(&user->fair.link))
        return;
    if (user->fair.credit_ns < 0)
        list_push(&io->fair.ready, &user->fair.link);
    else
        list_push_front(&io->fair.ready, &user->fair.link);
}

static void on_user_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an epoll instance has no errors */
    (void)events;
    struct fair_watch *watch = poll->data;
    turn_heard(watch->io);
    make_ready(watch->io, watch->user);
}

static void on_closed(uv_handle_t *handle)
{
    struct fair_watch *watch = handle->data;
    close(watch->epoll);
    free(watch);
}

static void close_watch(struct user *user)
{
    struct fair_watch *watch = user->fair.watch;
    list_remove(&user->fair.link);
    user->fair.watch = NULL;
    if (watch)
        uv_close((uv_handle_t *)&watch->poll, on_closed);
}

bool fair_open(struct io *io, struct user *user)
{
    if (user->fair.watch)
        return true;
    struct fair_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return false;
    watch->user = user;
    watch->io = io;
    watch->poll.data = watch;
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    const int error = watch->epoll < 0 ? 0 : uv_poll_init(io->loop, &watch->poll, watch->epoll);
    if (watch->epoll < 0 || error) {
        if (error) {
            close(watch->epoll);
            errno = -error;
        }
        free(watch);
        return false;
    }
    user->fair.watch = watch;
    uv_poll_start(&watch->poll, UV_READABLE, on_user_poll);
    return true;
}

bool fair_watch(struct connection *connection, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    const int operation = !events              ? EPOLL_CTL_DEL
                          : connection->events ? EPOLL_CTL_MOD
                                               : EPOLL_CTL_ADD;
    if (!events) {
        list_remove(&connection->again_link);
        connection->seen = 0;
    }
    if (events == connection->events)
        return true;
    if (epoll_ctl(connection->user->fair.watch->epoll, operation, connection->socket, &event) != 0)
        return false;
    connection->events = events;
    return true;
}

void fair_again(struct connection *connection)
{
    struct user *user = connection->user;
    if (list_empty(&connection->again_link))
        list_push(&user->fair.again, &connection->again_link);
    make_ready(connection->io, user);
}

bool fair_is_over(const struct io *io)
{
    return uv_hrtime() >= io->fair.until_ns;
}

bool fair_accepts(const struct io *io, uint64_t begun_ns)
{
    const uint64_t now_ns = uv_hrtime();
    const int64_t slice_ns = slice_of(&io->fair, now_ns);
    return now_ns - begun_ns < (uint64_t)slice_ns;
}

void fair_charge(struct io *io, struct user *user, uint64_t since_ns)
{
    const uint64_t now_ns = uv_hrtime();
    contention_note(&io->fair.contention, user, now_ns);
    user->fair.credit_ns -= (int64_t)(now_ns - since_ns);
}

void fair_charge_ns(struct user *user, uint64_t ns)
{
    user->fair.credit_ns -= (int64_t)ns;
}

/* Connections that the kernel has events of stand behind those with input at hand. False: there
 * are no more than these. */
static bool poll_events(struct user *user)
{
    struct epoll_event events[POLL_EVENTS];
    const int count = epoll_wait(user->fair.watch->epoll, events, POLL_EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        connection->seen |= events[i].events;
        if (list_empty(&connection->again_link))
            list_push(&user->fair.again, &connection->again_link);
    }
    return count == POLL_EVENTS;
}

/* False: the user has nothing more to do, but for what came meanwhile, of which the loop tells. */
static bool serve_slice(struct io *io, struct user *user, uint64_t *now_ns)
{
    struct fair *fair = &io->fair;
    struct list *const again = &user->fair.again;
    int64_t *const credit_ns = &user->fair.credit_ns;
    const int64_t slice_ns = slice_of(fair, *now_ns);
    *credit_ns = *credit_ns < 0 ? *credit_ns + slice_ns : slice_ns;
    bool more = true;
    for (unsigned served = 0; *credit_ns > 0; served++) {
        if (served % POLL_EVENTS == 0 || (more && list_empty(again)))
            more = poll_events(user);
        if (list_empty(again))
            return false;
        struct connection *connection = LIST_TAKE(again, struct connection, again_link);
        const uint32_t events = connection->seen;
        connection->seen = 0;
        const uint64_t begun_ns = *now_ns;
        fair->until_ns = begun_ns + (uint64_t)*credit_ns;
        connection_serve(connection, events);
        *now_ns = uv_hrtime();
        *credit_ns -= (int64_t)(*now_ns - begun_ns);
    }
    return true;
}

void fair_serve(struct io *io)
{
    struct fair *fair = &io->fair;
    struct list served;
    list_init(&served);
    uint64_t now_ns = uv_hrtime();
    const uint64_t end_ns = now_ns + TURN_NS;
    while (now_ns < end_ns && !list_empty(&fair->ready)) {
        struct user *user = LIST_TAKE(&fair->ready, struct user, fair.link);
        list_push(&served, &user->fair.link);
        contention_note(&fair->contention, user, now_ns);
        if (!serve_slice(io, user, &now_ns))
            list_remove(&user->fair.link);
    }
    /* Those who have more input stand behind those who had no slice in this turn. */
    for (struct list *link; (link = list_take(&served));)
        list_push(&fair->ready, link);
}

bool fair_is_due(const struct io *io)
{
    return !list_empty(&io->fair.ready);
}

void fair_tick(struct io *io)
{
    LIST_EACH (struct user, user, &io->jobs->users->list, link) {
        if (!user->connections)
            close_watch(user);
    }
}

void fair_close(struct io *io)
{
    LIST_EACH (struct user, user, &io->jobs->users->list, link)
        close_watch(user);
}
