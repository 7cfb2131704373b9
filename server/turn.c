#include "server/turn.h"

#include "server/connection.h"
#include "server/device.h"
#include "server/server.h"

/* libuv calls it before it waits. Connections go first: a reply that is sent lets a device release
 * what it held. */
static void on_end(uv_prepare_t *handle)
{
    struct server *server = handle->data;
    for (struct list *link; (link = list_first(&server->changed));) {
        list_remove(link);
        connection_settle(LIST_ENTRY(link, struct connection, changed_link));
    }
    for (struct list *link = server->devices.next; link != &server->devices; link = link->next)
        device_flush(LIST_ENTRY(link, struct device, link));
}

void turn_open(struct server *server)
{
    list_init(&server->changed);
    uv_prepare_init(&server->loop, &server->turn);
    server->turn.data = server;
    uv_prepare_start(&server->turn, on_end);
}

void turn_close(struct server *server)
{
    uv_close((uv_handle_t *)&server->turn, NULL);
}
