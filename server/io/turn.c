#include "server/io/turn.h"

#include "server/devices/communicator.h"
#include "server/devices/group.h"
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

struct turn_watch {
    uv_poll_t poll;
    int epoll;
    struct user *user;
    struct io *io;
};

static int64_t slice_of(const struct turn *turn, uint64_t now_ns)
{
    return contention_is_none(&turn->contention, now_ns) ? SLICE_ALONE_NS : SLICE_NS;
}

/* A user who was idle goes first, unless in debt: the answers that such a user waits for do not
 * stand behind the backlog of others. */
static void make_ready(struct io *io, struct user *user)
{
    if (!list_empty(&user->turn.link))
        return;
    if (user->turn.credit_ns < 0)
        list_push(&io->turn.ready, &user->turn.link);
    else
        list_push_front(&io->turn.ready, &user->turn.link);
}

static void on_user_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; /* an epoll instance has no errors */
    (void)events;
    struct turn_watch *watch = poll->data;
    turn_heard(watch->io);
    make_ready(watch->io, watch->user);
}

static void on_closed(uv_handle_t *handle)
{
    struct turn_watch *watch = handle->data;
    close(watch->epoll);
    free(watch);
}

static void close_watch(struct user *user)
{
    struct turn_watch *watch = user->turn.watch;
    list_remove(&user->turn.link);
    user->turn.watch = NULL;
    if (watch)
        uv_close((uv_handle_t *)&watch->poll, on_closed);
}

bool turn_watch_user(struct io *io, struct user *user)
{
    if (user->turn.watch)
        return true;
    struct turn_watch *watch = calloc(1, sizeof *watch);
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
    user->turn.watch = watch;
    uv_poll_start(&watch->poll, UV_READABLE, on_user_poll);
    return true;
}

bool turn_watch(struct connection *connection, uint32_t events)
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
    if (epoll_ctl(connection->user->turn.watch->epoll, operation, connection->socket, &event) != 0)
        return false;
    connection->events = events;
    return true;
}

void turn_again(struct connection *connection)
{
    struct user *user = connection->user;
    if (list_empty(&connection->again_link))
        list_push(&user->turn.again, &connection->again_link);
    make_ready(connection->io, user);
}

bool turn_is_over(const struct io *io)
{
    return uv_hrtime() >= io->turn.until_ns;
}

bool turn_accepts(const struct io *io, uint64_t begun_ns)
{
    const uint64_t now_ns = uv_hrtime();
    return now_ns - begun_ns < (uint64_t)slice_of(&io->turn, now_ns);
}

void turn_charge(struct io *io, struct user *user, uint64_t since_ns)
{
    const uint64_t now_ns = uv_hrtime();
    contention_note(&io->turn.contention, user, now_ns);
    user->turn.credit_ns -= (int64_t)(now_ns - since_ns);
}

/* Connections that the kernel has events of stand behind those with input at hand. False: there
 * are no more than these. */
static bool poll_events(struct user *user)
{
    struct epoll_event events[POLL_EVENTS];
    const int count = epoll_wait(user->turn.watch->epoll, events, POLL_EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        connection->seen |= events[i].events;
        if (list_empty(&connection->again_link))
            list_push(&user->turn.again, &connection->again_link);
    }
    return count == POLL_EVENTS;
}

/* False: the user has nothing more to do, but for what came meanwhile, of which the loop tells. */
static bool serve_slice(struct io *io, struct user *user, uint64_t *now_ns)
{
    struct turn *turn = &io->turn;
    struct list *const again = &user->turn.again;
    int64_t *const credit_ns = &user->turn.credit_ns;
    const int64_t slice_ns = slice_of(turn, *now_ns);
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
        turn->until_ns = begun_ns + (uint64_t)*credit_ns;
        connection_serve(connection, events);
        *now_ns = uv_hrtime();
        *credit_ns -= (int64_t)(*now_ns - begun_ns);
    }
    return true;
}

static void serve_users(struct io *io)
{
    struct turn *turn = &io->turn;
    struct list served = {0};
    uint64_t now_ns = uv_hrtime();
    const uint64_t end_ns = now_ns + TURN_NS;
    while (now_ns < end_ns && !list_empty(&turn->ready)) {
        struct user *user = LIST_TAKE(&turn->ready, struct user, turn.link);
        list_push(&served, &user->turn.link);
        contention_note(&turn->contention, user, now_ns);
        if (!serve_slice(io, user, &now_ns))
            list_remove(&user->turn.link);
    }
    /* Users with more input queue behind those who had no slice in this turn. */
    list_move(&served, &turn->ready);
}

/* The debt of a user who has gone, which would else stand for ever, and the user with it. In a tick
 * it shrinks by what one who stays is given in as long beside 500 others: nobody gains by leaving.
 */
static void pay(struct turn_user *turn)
{
    if (turn->credit_ns < 0)
        turn->credit_ns = turn->credit_ns < -SLICE_ALONE_NS ? turn->credit_ns + SLICE_ALONE_NS : 0;
}

void turn_tick(struct io *io)
{
    LIST_EACH (struct user, user, &io->jobs->devices->users->list, link) {
        if (user->counters.connections)
            continue;
        close_watch(user);
        pay(&user->turn);
    }
    users_forget_idle(io->jobs->devices->users);
}

/* With more jobs than these under way the loop hardly ever sleeps, and busy-polling delays other
 * processes. While a job is under way, an event is certain to come. */
enum { BUSY_POLL_JOBS = 4, BUSY_POLL_TIMES = 16, BUSY_POLL_US = 150, BUSY_POLL_CORES = 4 };

static void on_busy_poll(uv_idle_t *handle)
{
    (void)handle;
}

/* By default the loop busy-polls only beside a GPU: the host's own backend needs every core. */
static uint64_t busy_poll_time(const struct io *io)
{
    if (io->config->busy_poll_us != CONFIG_BUSY_POLL_AUTO)
        return 1000 * io->config->busy_poll_us;
    return io->jobs->devices->has_gpu && io->turn.cores >= BUSY_POLL_CORES ? 1000 * BUSY_POLL_US
                                                                           : 0;
}

static void poll_or_sleep(struct io *io)
{
    struct turn *turn = &io->turn;
    const struct devices *devices = io->jobs->devices;
    const uint64_t came_ns = devices->heard_ns > turn->came_ns ? devices->heard_ns : turn->came_ns;
    const uint64_t jobs = io->jobs->devices->users->counters.jobs;
    const uint64_t busy_poll_ns = busy_poll_time(io) * (jobs ? BUSY_POLL_TIMES : 1);
    const bool polls =
        busy_poll_ns && jobs <= BUSY_POLL_JOBS && uv_hrtime() - came_ns < busy_poll_ns;
    if (polls || !list_empty(&turn->ready) || !list_empty(&io->changed) || !list_empty(&io->closed))
        uv_idle_start(&turn->busy_poll, on_busy_poll);
    else
        uv_idle_stop(&turn->busy_poll);
}

static void settle_connections(struct io *io)
{
    LIST_DRAIN (struct connection, connection, &io->changed, changed_link) {
        const uint64_t begun_ns = uv_hrtime();
        connection_settle(connection);
        turn_charge(io, connection->user, begun_ns);
    }
}

static void free_closed(struct io *io)
{
    LIST_DRAIN (struct connection, connection, &io->closed, changed_link) {
        struct user *user = connection->user;
        const uint64_t begun_ns = uv_hrtime();
        connection_free(connection);
        turn_charge(io, user, begun_ns);
    }
}

/* libuv calls it before it waits. Connections go first: a reply that is sent lets a device release
 * what it held. */
static void on_end(uv_prepare_t *handle)
{
    struct io *io = handle->data;
    struct device *group = io->jobs->devices->group;
    serve_users(io);
    if (group) /* orders that it finishes, cancelled ones among them, are answered in this turn */
        group_flush(group);
    settle_connections(io);
    free_closed(io);
    arena_serve(&io->jobs->devices->arena);
    settle_connections(io);
    communicators_flush(io->jobs->devices);
    LIST_EACH (struct device, device, &io->jobs->devices->list, link)
        device_flush(device);
    poll_or_sleep(io);
}

void turn_open(struct io *io)
{
    struct turn *turn = &io->turn;
    turn->cores = uv_available_parallelism();
    uv_prepare_init(io->loop, &turn->end);
    turn->end.data = io;
    uv_prepare_start(&turn->end, on_end);
    uv_idle_init(io->loop, &turn->busy_poll);
}

void turn_close(struct io *io)
{
    uv_close((uv_handle_t *)&io->turn.end, NULL);
    uv_close((uv_handle_t *)&io->turn.busy_poll, NULL);
    LIST_EACH (struct user, user, &io->jobs->devices->users->list, link)
        close_watch(user);
}

void turn_heard(struct io *io)
{
    io->turn.came_ns = uv_hrtime();
}
