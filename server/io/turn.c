#include "server/io/turn.h"

#include "server/io/connection.h"
#include "server/devices/device.h"
#include "server/main/server.h"

/* With more jobs than these under way the loop hardly ever sleeps, and time that it spends on
 * looking is time for which others wait. While there is one, something will come for certain. */
enum { LOOK_JOBS = 4, LOOK_TIMES = 16, LOOK_US = 150, LOOK_CORES = 4 };

static void on_look(uv_idle_t *handle)
{
    (void)handle;
}

/* Unless it is said, only beside a GPU: the host's own backend needs every core, and one that looks
 * is in its way. */
static uint64_t look_time(const struct server *server)
{
    if (server->config.look_us != CONFIG_LOOK_AUTO)
        return 1000 * server->config.look_us;
    return server->devices.has_gpu && server->turn.cores >= LOOK_CORES ? 1000 * LOOK_US : 0;
}

static void look_or_sleep(struct server *server)
{
    struct turn *turn = &server->turn;
    const struct devices *devices = &server->devices;
    const uint64_t came_ns = devices->heard_ns > turn->came_ns ? devices->heard_ns : turn->came_ns;
    const uint64_t look_ns = look_time(server) * (server->jobs ? LOOK_TIMES : 1);
    const bool looks = look_ns && server->jobs <= LOOK_JOBS && uv_hrtime() - came_ns < look_ns;
    if (looks || fair_is_due(server))
        uv_idle_start(&turn->look, on_look);
    else
        uv_idle_stop(&turn->look);
}

static void settle(struct server *server)
{
    for (struct list *link; (link = list_first(&server->changed));) {
        struct connection *connection = LIST_ENTRY(link, struct connection, changed_link);
        const uint64_t begun_ns = uv_hrtime();
        list_remove(link);
        connection_settle(connection);
        fair_charge(server, connection->user, begun_ns);
    }
}

/* libuv calls it before it waits. Connections go first: a reply that is sent lets a device release
 * what it held. */
static void on_end(uv_prepare_t *handle)
{
    struct server *server = handle->data;
    fair_serve(server);
    settle(server);
    turn_free_closed(server);
    for (struct list *link = server->devices.list.next; link != &server->devices.list;
         link = link->next)
        device_flush(LIST_ENTRY(link, struct device, link));
    look_or_sleep(server);
}

void turn_free_closed(struct server *server)
{
    for (struct list *link; (link = list_first(&server->closed));) {
        struct connection *connection = LIST_ENTRY(link, struct connection, changed_link);
        struct user *user = connection->user;
        const uint64_t begun_ns = uv_hrtime();
        list_remove(link);
        connection_free(connection);
        fair_charge(server, user, begun_ns);
    }
}

void turn_open(struct server *server)
{
    struct turn *turn = &server->turn;
    list_init(&server->changed);
    list_init(&server->closed);
    fair_init(server);
    turn->cores = uv_available_parallelism();
    uv_prepare_init(&server->loop, &turn->end);
    turn->end.data = server;
    uv_prepare_start(&turn->end, on_end);
    uv_idle_init(&server->loop, &turn->look);
}

void turn_close(struct server *server)
{
    uv_close((uv_handle_t *)&server->turn.end, NULL);
    uv_close((uv_handle_t *)&server->turn.look, NULL);
    fair_close(server);
}

void turn_heard(struct server *server)
{
    server->turn.came_ns = uv_hrtime();
}
