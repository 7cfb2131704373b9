#include "server/io/turn.h"

#include "server/io/connection.h"
#include "server/devices/device.h"
#include "server/io/io.h"

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
    const uint64_t busy_poll_ns = busy_poll_time(io) * (io->jobs->count ? BUSY_POLL_TIMES : 1);
    const bool polls =
        busy_poll_ns && io->jobs->count <= BUSY_POLL_JOBS && uv_hrtime() - came_ns < busy_poll_ns;
    if (polls || fair_is_due(io))
        uv_idle_start(&turn->busy_poll, on_busy_poll);
    else
        uv_idle_stop(&turn->busy_poll);
}

static void settle_connections(struct io *io)
{
    LIST_DRAIN (struct connection, connection, &io->changed, changed_link) {
        const uint64_t begun_ns = uv_hrtime();
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
    settle_connections(io);
    turn_free_closed(io);
    LIST_EACH (struct device, device, &io->jobs->devices->list, link)
        device_flush(device);
    poll_or_sleep(io);
}

void turn_free_closed(struct io *io)
{
    LIST_DRAIN (struct connection, connection, &io->closed, changed_link) {
        struct user *user = connection->user;
        const uint64_t begun_ns = uv_hrtime();
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
    uv_idle_init(io->loop, &turn->busy_poll);
}

void turn_close(struct io *io)
{
    uv_close((uv_handle_t *)&io->turn.end, NULL);
    uv_close((uv_handle_t *)&io->turn.busy_poll, NULL);
    fair_close(io);
}

void turn_heard(struct io *io)
{
    io->turn.came_ns = uv_hrtime();
}
