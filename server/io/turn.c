#include "server/io/turn.h"

#include "server/io/connection.h"
#include "server/devices/device.h"
#include "server/io/io.h"

/* With more jobs than these under way the loop hardly ever sleeps, and time that it spends on
 * looking is time for which others wait. While there is one, something will come for certain. */
enum { LOOK_JOBS = 4, LOOK_TIMES = 16, LOOK_US = 150, LOOK_CORES = 4 };

static void on_look(uv_idle_t *handle)
{
    (void)handle;
}

/* Unless it is said, only beside a GPU: the host's own backend needs every core, and one that looks
 * is in its way. */
static uint64_t look_time(const struct io *io)
{
    if (io->config->look_us != CONFIG_LOOK_AUTO)
        return 1000 * io->config->look_us;
    return io->jobs->devices->has_gpu && io->turn.cores >= LOOK_CORES ? 1000 * LOOK_US : 0;
}

static void look_or_sleep(struct io *io)
{
    struct turn *turn = &io->turn;
    const struct devices *devices = io->jobs->devices;
    const uint64_t came_ns = devices->heard_ns > turn->came_ns ? devices->heard_ns : turn->came_ns;
    const uint64_t look_ns = look_time(io) * (io->jobs->count ? LOOK_TIMES : 1);
    const bool looks = look_ns && io->jobs->count <= LOOK_JOBS && uv_hrtime() - came_ns < look_ns;
    if (looks || fair_is_due(io))
        uv_idle_start(&turn->look, on_look);
    else
        uv_idle_stop(&turn->look);
}

static void settle(struct io *io)
{
    for (struct list *link; (link = list_first(&io->changed));) {
        struct connection *connection = LIST_ENTRY(link, struct connection, changed_link);
        const uint64_t begun_ns = uv_hrtime();
        list_remove(link);
        connection_settle(connection);
        fair_charge(io, connection->user, begun_ns);
    }
}

/* libuv calls it before it waits. Connections go first: a reply that is sent lets a device release
 * what it held. */
static void on_end(uv_prepare_t *handle)
{
    struct io *io = handle->data;
    fair_serve(io);
    settle(io);
    turn_free_closed(io);
    for (struct list *link = io->jobs->devices->list.next; link != &io->jobs->devices->list;
         link = link->next)
        device_flush(LIST_ENTRY(link, struct device, link));
    look_or_sleep(io);
}

void turn_free_closed(struct io *io)
{
    for (struct list *link; (link = list_first(&io->closed));) {
        struct connection *connection = LIST_ENTRY(link, struct connection, changed_link);
        struct user *user = connection->user;
        const uint64_t begun_ns = uv_hrtime();
        list_remove(link);
        connection_free(connection);
        fair_charge(io, user, begun_ns);
    }
}

void turn_open(struct io *io)
{
    struct turn *turn = &io->turn;
    list_init(&io->changed);
    list_init(&io->closed);
    fair_init(io);
    turn->cores = uv_available_parallelism();
    uv_prepare_init(io->loop, &turn->end);
    turn->end.data = io;
    uv_prepare_start(&turn->end, on_end);
    uv_idle_init(io->loop, &turn->look);
}

void turn_close(struct io *io)
{
    uv_close((uv_handle_t *)&io->turn.end, NULL);
    uv_close((uv_handle_t *)&io->turn.look, NULL);
    fair_close(io);
}

void turn_heard(struct io *io)
{
    io->turn.came_ns = uv_hrtime();
}
