/* The end beside the front. What comes from the other node is as little to be trusted as a client:
 * a record of another type than a worker's answers, or bytes that nobody asked for, end it. */
#include "gpu/bridge/bridge.h"

#include "base/log.h"
#include "base/rights.h"
#include "gpu/bridge/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NODE_EXPORT_BYTES = 4096 }; /* a mailbox is host memory there */

static bool has_joined;  /* the ARENA has come */
static bool is_ready;    /* so the worker has said; until then: */
static uint32_t silence; /* beats since the node last said anything */

static _Noreturn void refuse(const char *text)
{
    struct channel_message refused = {.type = CHANNEL_REFUSED};
    snprintf(refused.u.refused.text, sizeof refused.u.refused.text, "%s", text);
    bridge_forward(&refused, NULL, 0);
    while (frames_send(&bridge.out, &bridge.stream, &bridge.went) && stream_waits(&bridge.stream))
        usleep(1000); /* until it is sent, or the alarm ends us */
    bridge_end(0, text);
}

/* The front sends the accepted connection first. The other end says who it is, which goes to the
 * front: its answer is an ARENA, or REFUSED. */
void head_join(void)
{
    struct channel_message record;
    const char *why;
    int descriptor;
    while (channel_receive(CHANNEL_DESCRIPTOR, &bridge.inbox, &record, &descriptor) ==
           CHANNEL_AGAIN)
        usleep(1000);
    if (descriptor < 0 || record.type != CHANNEL_SOCKET)
        bridge_end(EXIT_FAILURE, "no connection came from the front");
    if (!stream_open(&bridge.stream, descriptor, true, bridge.key, BRIDGE_JOIN_S, &why))
        bridge_end(EXIT_FAILURE, why);
}

/* A copy of the block that comes with a record; its size is in *bytes. */
static uint8_t *take_block(const struct channel_message *record, int descriptor, uint64_t *bytes)
{
    uint8_t *block = NULL;
    *bytes = record->type == CHANNEL_RUN      ? record->u.run.job.more.block_bytes
             : record->type == CHANNEL_KERNEL ? record->u.kernel.bytes
                                              : 0;
    const char *broken = *bytes ? channel_block(&bridge.inbox, descriptor, *bytes, &block) : NULL;
    if (broken || (*bytes && !block))
        bridge_end(EXIT_FAILURE, broken ? broken : "no memory for a block");
    return block;
}

/* The address of a mailbox that stands in a memfd where others have the mailbox itself; NULL: it is
 * of this node. The caller frees it. */
static uint8_t *take_address(int descriptor)
{
    struct mailbox_address *address = calloc(1, sizeof *address);
    if (address && rights_sealed(descriptor, F_SEAL_WRITE, sizeof *address) &&
        pread(descriptor, address, sizeof *address, 0) == sizeof *address &&
        memcmp(address->magic, "fdnode", sizeof "fdnode") == 0)
        return (uint8_t *)address;
    free(address);
    return NULL;
}

/* Device memory of this node is out of reach. A client may have sealed its memory so that it cannot
 * be mapped. Either is the front's to know, and ends nothing. */
static bool takes_region(const struct channel_message *record, int descriptor, uint8_t **address)
{
    const uint64_t region = record->u.region.region, bytes = record->u.region.bytes;
    if (record->u.region.is_mailbox)
        *address = take_address(descriptor);
    if (record->u.region.is_mailbox
            ? *address && payload_is_mailbox(region, bytes)
            : payload_map(region, descriptor, bytes, record->u.region.writable))
        return true;
    free(*address);
    const struct channel_message refused =
        bridge_cannot_map(region, errno == ENOMEM ? STATUS_OUT_OF_MEMORY : STATUS_INTERNAL);
    bridge_tell(&refused, -1);
    return false;
}

static void take_record(struct channel_message *record, int descriptor)
{
    uint64_t block_bytes;
    uint8_t *address = NULL;
    switch (record->type) {
    case CHANNEL_REFUSED:
        refuse(record->u.refused.text);
    case CHANNEL_ARENA:
        if (!payload_map(PAYLOAD_ARENA, descriptor, record->u.arena.bytes, true))
            bridge_end(EXIT_FAILURE, "an arena that cannot be mapped");
        has_joined = true;
        alarm(0);
        break;
    case CHANNEL_REGION:
        if (!takes_region(record, descriptor, &address))
            return;
        break;
    case CHANNEL_UNREGION: /* other memory will be mapped there */
        if (payload_is_due(record->u.region.region) ||
            frames_hold(&bridge.out, record->u.region.region))
            bridge_end(EXIT_FAILURE, "a region goes while it is in use");
        payload_unmap(record->u.region.region);
        break;
    case CHANNEL_EXPORT:
        bridge_end(EXIT_FAILURE, "an order that no bridge carries");
    default:
        break;
    }
    bridge_note(record);
    uint8_t *block = take_block(record, descriptor, &block_bytes);
    if (address)
        bridge_forward(record, address, sizeof(struct mailbox_address));
    else
        bridge_forward(record, block, (uint32_t)block_bytes);
}

/* A memfd with the address of the node's mailbox: its host is the one that the node has here. −1:
 * there is none. */
static int address_memfd(const struct frame *frame)
{
    struct mailbox_address address;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    char host[40];
    if (frame->head.block_bytes != sizeof address || frame->record.status != STATUS_OK ||
        getpeername(bridge.stream.socket, (struct sockaddr *)&peer, &length) != 0 ||
        getnameinfo((struct sockaddr *)&peer, length, host, sizeof host, NULL, 0, NI_NUMERICHOST))
        return -1;
    memcpy(&address, frame->block, sizeof address);
    address.address[sizeof address.address - 1] = 0;
    const int port = atoi(address.address + 1); /* of ":PORT" */
    snprintf(address.address, sizeof address.address, "%s:%u", host, (uint16_t)port);
    return channel_sealed((const uint8_t *)&address, sizeof address);
}

static void tell_mailbox(struct frame *frame)
{
    const int memfd = address_memfd(frame);
    frame->record.status = memfd >= 0 ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    bridge_tell(&frame->record, memfd);
    rights_close(memfd);
}

/* A text of the other node's, which comes to the log and to clients. */
static void make_printable(char *text, size_t room)
{
    for (size_t i = 0; i < room && text[i]; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    text[room - 1] = 0;
}

static void take_frame(struct frame *frame)
{
    struct channel_message *record = &frame->record;
    if ((frame->block && record->type != CHANNEL_MAILBOX) ||
        (record->type == CHANNEL_JOIN) == has_joined)
        bridge_end(EXIT_FAILURE, "an answer out of order");
    switch (record->type) {
    case CHANNEL_READY: /* what the device can do, but no bridge can carry */
        is_ready = true;
        record->u.ready.info.own_planes = 0;
        record->u.ready.info.export_bytes = NODE_EXPORT_BYTES;
        make_printable(record->u.ready.info.name, sizeof record->u.ready.info.name);
        break;
    case CHANNEL_MAILBOX:
        tell_mailbox(frame);
        return;
    case CHANNEL_JOIN:
        make_printable(record->u.join.device, sizeof record->u.join.device);
        break;
    case CHANNEL_REFUSED:
        make_printable(record->u.refused.text, sizeof record->u.refused.text);
        break;
    case CHANNEL_COPIED:
    case CHANNEL_FINISHED: /* else the memory of what is still to be sent would be others' */
        if (frames_answered_early(&bridge.out, record))
            bridge_end(EXIT_FAILURE, "an answer to what was not sent");
        break;
    case CHANNEL_FAILED:
    case CHANNEL_PROGRESS:
    case CHANNEL_PONG:
    case CHANNEL_MAPPED:
    case CHANNEL_LEAVING:
    case CHANNEL_UNIQUE_ID:
    case CHANNEL_CONNECTED:
    case CHANNEL_EXCHANGED:
        break;
    case CHANNEL_ALIVE:
        if (!is_ready) /* the worker may hang as it starts */
            return;
        break;
    default:
        bridge_end(EXIT_FAILURE, "an answer that no bridge carries");
    }
    bridge_note(record);
    bridge_tell(record, -1);
}

/* A worker that has much to receive, or to send, is as alive as one that says so. For one that
 * starts, the front has more patience than its node deserves. */
static void beat(void)
{
    static const struct channel_message alive = {.type = CHANNEL_ALIVE};
    const bool sends = bridge.went && frames_waiting(&bridge.out);
    if (!has_joined)
        return;
    silence = bridge.came || is_ready ? 0 : silence + 1;
    if (silence > BRIDGE_SILENCE_S * 1000 / BRIDGE_BEAT_MS)
        bridge_end(EXIT_FAILURE, "the node is silent");
    if (sends || (bridge.came && bridge.in.got))
        bridge_tell(&alive, -1);
    bridge_forward(&alive, NULL, 0);
}

/* The front reads whatever comes, but a node may say more than it can. */
const struct bridge_side head_end = {take_record, take_frame, beat, .records_most = 1024};
