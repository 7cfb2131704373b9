#include "gpu/worker/channel.h"

#include "base/fifo.h"
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BLOCK_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
    KEPT = 1024 /* messages that an empty queue keeps room for */
};

/* Bytes of a record of that type, without a block; 0: there is no such type. */
static uint32_t record_bytes(unsigned type)
{
#define WITH(part) CHANNEL_HEAD_BYTES + sizeof((struct channel_message *)0)->u.part
    static const uint32_t bytes[CHANNEL_TYPES] = {
        [CHANNEL_ARENA] = WITH(arena),
        [CHANNEL_ALLOCATE] = WITH(allocate),
        [CHANNEL_UPLOAD] = WITH(copy),
        [CHANNEL_RUN] = CHANNEL_RUN_BYTES,
        [CHANNEL_CANCEL] = WITH(job),
        [CHANNEL_DOWNLOAD] = WITH(copy),
        [CHANNEL_RELEASE] = WITH(job),
        [CHANNEL_PING] = CHANNEL_HEAD_BYTES,
        [CHANNEL_REGION] = WITH(region),
        [CHANNEL_UNREGION] = WITH(region),
        [CHANNEL_MEASURE] = WITH(measure),
        [CHANNEL_KERNEL] = WITH(kernel),
        [CHANNEL_READY] = WITH(ready),
        [CHANNEL_REFUSED] = WITH(refused),
        [CHANNEL_FAILED] = WITH(allocate),
        [CHANNEL_COPIED] = WITH(copy),
        [CHANNEL_PROGRESS] = WITH(job),
        [CHANNEL_EDGES] = WITH(job),
        [CHANNEL_FINISHED] = WITH(job),
        [CHANNEL_PONG] = WITH(pong),
        [CHANNEL_MAPPED] = WITH(region),
        [CHANNEL_EXPORT] = WITH(exported),
        [CHANNEL_EXPORTED] = WITH(exported),
        [CHANNEL_ALIVE] = CHANNEL_HEAD_BYTES,
        [CHANNEL_MAILBOX] = WITH(mailbox),
        [CHANNEL_SOCKET] = CHANNEL_HEAD_BYTES,
        [CHANNEL_JOIN] = WITH(join),
        [CHANNEL_LEAVING] = CHANNEL_HEAD_BYTES,
        [CHANNEL_CONNECT] = WITH(communicator),
        [CHANNEL_UNIQUE_ID] = WITH(communicator),
        [CHANNEL_DISCONNECT] = WITH(communicator),
        [CHANNEL_CONNECTED] = WITH(communicator),
        [CHANNEL_EXCHANGE] = WITH(exchange),
        [CHANNEL_EXCHANGED] = WITH(exchange),
    };
    return type < CHANNEL_TYPES ? (bytes[type] + 7) / 8 * 8 : 0;
}

/* --- out --- */

int channel_sealed(const uint8_t *block, uint64_t bytes)
{
    const int memfd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t done = 0;
    ssize_t n;
    while (memfd >= 0 && done < bytes && (n = write(memfd, block + done, bytes - done)) > 0)
        done += (uint64_t)n;
    if (done == bytes && fcntl(memfd, F_ADD_SEALS, BLOCK_SEALS) == 0)
        return memfd;
    rights_close(memfd);
    return -1;
}

/* Send a packet of so many bytes, with one descriptor where descriptor ≥ 0. */
static enum channel_result send_packet(int socket, struct iovec *pieces, uint32_t count,
                                       uint64_t bytes, int descriptor)
{
    const ssize_t n = rights_send(socket, pieces, count, descriptor);
    if (n == (ssize_t)bytes)
        return CHANNEL_OK;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) ? CHANNEL_AGAIN
                                                                                  : CHANNEL_CLOSED;
}

uint32_t channel_complete(struct channel_message *to, const struct channel_message *message)
{
    const uint32_t bytes = record_bytes(message->type);
    memcpy(to, message, bytes);
    to->bytes = bytes;
    to->version = CHANNEL_VERSION;
    return bytes;
}

bool channel_is_whole(const struct channel_message *message, uint32_t bytes)
{
    return message->version == CHANNEL_VERSION && bytes != 0 &&
           bytes == record_bytes(message->type) && bytes == message->bytes;
}

enum channel_result channel_send(int socket, const struct channel_message *message, int descriptor)
{
    struct channel_message sent;
    channel_complete(&sent, message);
    struct iovec piece = {&sent, sent.bytes};
    return send_packet(socket, &piece, 1, sent.bytes, descriptor);
}

/* Does its block go in a memfd of its own? */
static bool is_long(const struct channel_queued *item)
{
    return item->block_bytes > CHANNEL_PACKET_BYTES - CHANNEL_RUN_BYTES;
}

bool channel_queue_push(struct channel_queue *queue, const struct channel_message *message,
                        const uint8_t *block, int descriptor)
{
    if (!fifo_make_room((void **)&queue->items, &queue->first, queue->count, &queue->capacity,
                        sizeof *queue->items)) {
        rights_close(descriptor);
        return false;
    }
    struct channel_queued *item = &queue->items[queue->first + queue->count++];
    queue->pushed++;
    item->block = block;
    item->block_bytes = block ? message->u.run.job.more.block_bytes : 0;
    item->descriptor = descriptor;
    channel_complete(&item->message, message);
    if (!is_long(item))
        item->message.bytes += (uint32_t)item->block_bytes;
    return true;
}

/* The next packet's records, of which one with a descriptor comes first: how many there are. */
static uint32_t gather(const struct channel_queue *queue, struct iovec pieces[2 * CHANNEL_PACKET],
                       uint32_t *piece_count, uint64_t *bytes)
{
    uint32_t n;
    *piece_count = 0;
    *bytes = 0;
    for (n = 0; n < CHANNEL_PACKET && n < queue->count; n++) {
        struct channel_queued *item = &queue->items[queue->first + n];
        const uint32_t own = record_bytes(item->message.type);
        if ((n && (item->descriptor >= 0 || is_long(item))) ||
            *bytes + item->message.bytes > CHANNEL_PACKET_BYTES)
            break;
        pieces[(*piece_count)++] = (struct iovec){&item->message, own};
        if (item->message.bytes > own)
            pieces[(*piece_count)++] =
                (struct iovec){(void *)(uintptr_t)item->block, item->message.bytes - own};
        *bytes += item->message.bytes;
    }
    return n;
}

enum channel_result channel_queue_flush(struct channel_queue *queue, int socket)
{
    while (queue->count) {
        struct channel_queued *const first = queue->items + queue->first;
        struct iovec pieces[2 * CHANNEL_PACKET];
        uint32_t piece_count;
        uint64_t bytes;
        if (is_long(first) && first->descriptor < 0) {
            first->descriptor = channel_sealed(first->block, first->block_bytes);
            if (first->descriptor < 0)
                return CHANNEL_AGAIN;
        }
        const uint32_t n = gather(queue, pieces, &piece_count, &bytes);
        const enum channel_result result =
            send_packet(socket, pieces, piece_count, bytes, first->descriptor);
        if (result != CHANNEL_OK)
            return result;
        rights_close(first->descriptor);
        queue->first += n;
        queue->count -= n;
    }
    queue->first = 0;
    /* One burst would have its room, in no budget, for as long as the worker lives. */
    if (queue->capacity > KEPT) {
        free(queue->items);
        queue->items = NULL;
        queue->capacity = 0;
    }
    return CHANNEL_OK;
}

void channel_queue_free(struct channel_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++)
        rights_close(queue->items[queue->first + i].descriptor);
    free(queue->items);
    memset(queue, 0, sizeof *queue);
}

/* --- in --- */

static enum channel_result receive_packet(int socket, struct channel_inbox *inbox, int *descriptor)
{
    inbox->at = inbox->bytes = 0;
    const ssize_t n =
        rights_receive(socket, inbox->packet, sizeof inbox->packet, MSG_DONTWAIT, descriptor);
    if (n == 0)
        return CHANNEL_CLOSED;
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? CHANNEL_AGAIN
               : errno == EMSGSIZE                     ? CHANNEL_BROKEN
                                                       : CHANNEL_CLOSED;
    inbox->bytes = (uint32_t)n;
    return CHANNEL_OK;
}

/* Take the record that comes next, if there is a whole one. */
static bool take_record(struct channel_inbox *inbox, struct channel_message *message)
{
    const uint8_t *const record = inbox->packet + inbox->at;
    const uint32_t left = inbox->bytes - inbox->at;
    if (left < CHANNEL_HEAD_BYTES)
        return false;
    memcpy(message, record, CHANNEL_HEAD_BYTES);
    const uint32_t own = record_bytes(message->type);
    if (own == 0 || message->version != CHANNEL_VERSION || message->bytes < own ||
        message->bytes > left || message->bytes % 8 ||
        (message->bytes > own && message->type != CHANNEL_RUN))
        return false;
    memcpy(message, record, own);
    inbox->block = record + own;
    inbox->block_bytes = message->bytes - own;
    inbox->at += message->bytes;
    return true;
}

enum channel_result channel_receive(int socket, struct channel_inbox *inbox,
                                    struct channel_message *message, int *descriptor)
{
    enum channel_result result = CHANNEL_OK;
    *descriptor = -1; /* it comes with a packet's first record */
    if (!channel_inbox_holds(inbox))
        result = receive_packet(socket, inbox, descriptor);
    if (result == CHANNEL_OK && !take_record(inbox, message))
        result = CHANNEL_BROKEN;
    if (result != CHANNEL_OK && *descriptor >= 0) {
        close(*descriptor);
        *descriptor = -1;
    }
    return result;
}

bool channel_inbox_holds(const struct channel_inbox *inbox)
{
    return inbox->at < inbox->bytes;
}

/* Copied, not mapped: whatever else is done to the memfd, no access to it can fault. */
static bool read_block(int memfd, uint8_t *block, uint64_t bytes)
{
    uint64_t done = 0;
    ssize_t n;
    while (done < bytes && (n = pread(memfd, block + done, bytes - done, (off_t)done)) > 0)
        done += (uint64_t)n;
    return done == bytes;
}

const char *channel_block(const struct channel_inbox *inbox, int descriptor, uint64_t bytes,
                          uint8_t **block)
{
    *block = NULL;
    if (descriptor < 0 && inbox->block_bytes != bytes)
        return "a block of another size than its message's";
    if (descriptor >= 0 && (inbox->block_bytes || !rights_sealed(descriptor, BLOCK_SEALS, bytes)))
        return "a block that is not in a sealed memfd of its size";
    if (bytes == 0 || !(*block = malloc(bytes)))
        return NULL;
    if (descriptor < 0)
        memcpy(*block, inbox->block, bytes);
    else if (!read_block(descriptor, *block, bytes))
        return "a block that cannot be read";
    return NULL;
}
