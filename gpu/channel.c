#include "gpu/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum channel_result channel_send(int socket, const struct channel_message *message, int descriptor)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec piece = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof *message)
        return CHANNEL_OK;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) ? CHANNEL_AGAIN
                                                                                  : CHANNEL_CLOSED;
}

enum channel_result channel_receive(int socket, struct channel_message *message, int *descriptor)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {message, sizeof *message};
    struct msghdr header = {.msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    *descriptor = -1;
    ssize_t n;
    do
        n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return CHANNEL_AGAIN;
    if (n < 0)
        return CHANNEL_CLOSED;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len == CMSG_LEN(sizeof *descriptor))
            memcpy(descriptor, CMSG_DATA(c), sizeof *descriptor);
    if (n == (ssize_t)sizeof *message && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return CHANNEL_OK;
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
    return CHANNEL_CLOSED;
}

bool channel_queue_push(struct channel_queue *queue, const struct channel_message *message)
{
    if (queue->first && queue->first + queue->count == queue->capacity) {
        memmove(queue->messages, queue->messages + queue->first,
                queue->count * sizeof *queue->messages);
        queue->first = 0;
    }
    if (queue->count == queue->capacity) {
        if (queue->capacity > UINT32_MAX / 2)
            return false;
        const uint32_t capacity = queue->capacity ? queue->capacity * 2 : 64;
        struct channel_message *messages =
            realloc(queue->messages, (size_t)capacity * sizeof *messages);
        if (!messages)
            return false;
        queue->messages = messages;
        queue->capacity = capacity;
    }
    queue->messages[queue->first + queue->count++] = *message;
    return true;
}

bool channel_queue_send(struct channel_queue *queue, int socket,
                        const struct channel_message *message)
{
    if (queue->count)
        return channel_queue_push(queue, message); /* nobody passes those who wait */
    const enum channel_result result = channel_send(socket, message, -1);
    return result == CHANNEL_OK || (result == CHANNEL_AGAIN && channel_queue_push(queue, message));
}

enum channel_result channel_queue_flush(struct channel_queue *queue, int socket)
{
    while (queue->count) {
        const enum channel_result result = channel_send(socket, &queue->messages[queue->first], -1);
        if (result != CHANNEL_OK)
            return result;
        queue->first++;
        queue->count--;
    }
    queue->first = 0;
    return CHANNEL_OK;
}

void channel_queue_free(struct channel_queue *queue)
{
    free(queue->messages);
    memset(queue, 0, sizeof *queue);
}
