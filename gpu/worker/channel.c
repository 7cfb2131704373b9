#include "gpu/worker/channel.h"

#include "base/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Send a packet, with one descriptor where descriptor ≥ 0. */
static enum channel_result send_packet(int socket, struct iovec *pieces, uint32_t count,
                                       int descriptor)
{
    const ssize_t n = rights_send(socket, pieces, count, descriptor);
    if (n == (ssize_t)(count * sizeof(struct channel_message)))
        return CHANNEL_OK;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) ? CHANNEL_AGAIN
                                                                                  : CHANNEL_CLOSED;
}

enum channel_result channel_send(int socket, const struct channel_message *message, int descriptor)
{
    struct iovec piece = {(void *)(uintptr_t)message, sizeof *message};
    return send_packet(socket, &piece, 1, descriptor);
}

static enum channel_result receive_packet(int socket, struct channel_inbox *inbox, int *descriptor)
{
    inbox->next = inbox->count = 0;
    const ssize_t n =
        rights_receive(socket, inbox->messages, sizeof inbox->messages, MSG_DONTWAIT, descriptor);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? CHANNEL_AGAIN : CHANNEL_CLOSED;
    if (n > 0 && (size_t)n % sizeof *inbox->messages == 0) {
        inbox->count = (uint32_t)((size_t)n / sizeof *inbox->messages);
        return CHANNEL_OK;
    }
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
    return CHANNEL_CLOSED;
}

enum channel_result channel_receive(int socket, struct channel_inbox *inbox,
                                    struct channel_message *message, int *descriptor)
{
    *descriptor = -1; /* it comes with a packet's first message */
    if (!channel_inbox_holds(inbox)) {
        const enum channel_result result = receive_packet(socket, inbox, descriptor);
        if (result != CHANNEL_OK)
            return result;
    }
    *message = inbox->messages[inbox->next++];
    return CHANNEL_OK;
}

bool channel_inbox_holds(const struct channel_inbox *inbox)
{
    return inbox->next < inbox->count;
}

static bool make_room(struct channel_queue *queue)
{
    if (queue->first && queue->first + queue->count == queue->capacity) {
        memmove(queue->items, queue->items + queue->first, queue->count * sizeof *queue->items);
        queue->first = 0;
    }
    if (queue->count < queue->capacity)
        return true;
    if (queue->capacity > UINT32_MAX / 2)
        return false;
    const uint32_t capacity = queue->capacity ? queue->capacity * 2 : 64;
    struct channel_queued *items = realloc(queue->items, (size_t)capacity * sizeof *items);
    if (!items)
        return false;
    queue->items = items;
    queue->capacity = capacity;
    return true;
}

bool channel_queue_push(struct channel_queue *queue, const struct channel_message *message,
                        int descriptor)
{
    if (!make_room(queue)) {
        if (descriptor >= 0)
            close(descriptor);
        return false;
    }
    queue->items[queue->first + queue->count++] = (struct channel_queued){*message, descriptor};
    return true;
}

enum channel_result channel_queue_flush(struct channel_queue *queue, int socket)
{
    while (queue->count) {
        struct channel_queued *const items = queue->items + queue->first;
        struct iovec pieces[CHANNEL_PACKET];
        uint32_t n = 0;
        /* A descriptor begins a packet. */
        while (n < CHANNEL_PACKET && n < queue->count && (n == 0 || items[n].descriptor < 0)) {
            pieces[n] = (struct iovec){&items[n].message, sizeof items[n].message};
            n++;
        }
        const enum channel_result result = send_packet(socket, pieces, n, items[0].descriptor);
        if (result != CHANNEL_OK)
            return result;
        if (items[0].descriptor >= 0)
            close(items[0].descriptor);
        queue->first += n;
        queue->count -= n;
    }
    queue->first = 0;
    return CHANNEL_OK;
}

void channel_queue_free(struct channel_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->items[queue->first + i].descriptor >= 0)
            close(queue->items[queue->first + i].descriptor);
    free(queue->items);
    memset(queue, 0, sizeof *queue);
}
