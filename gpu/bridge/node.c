/* The end beside the worker. */
#include "gpu/bridge/bridge.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "gpu/bridge/peers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t heard_us;            /* when the head last said anything */
static bool has_arena, is_ready;     /* the worker */
static volatile sig_atomic_t leaves; /* so fdserver has said, by SIGTERM */

static void on_terminate(int number)
{
    (void)number;
    leaves = true;
}

/* A head that is not there, or that another node has the name at, may be there later. */
static void try_to_join(const char *device, const char *head)
{
    const char *why = NULL, *last = NULL;
    for (;; sleep(1)) {
        const int socket = stream_connect(head, BRIDGE_JOIN_S, &why);
        if (socket >= 0 &&
            stream_open(&bridge.stream, socket, false, bridge.key, BRIDGE_JOIN_S, &why))
            return;
        if (why != last)
            log_warning("%s cannot join %s: %s", device, head, why);
        last = why;
    }
}

void node_join(const char *device, const char *head)
{
    struct channel_message join = {.type = CHANNEL_JOIN};
    signal(SIGTERM, SIG_DFL);
    try_to_join(device, head);
    signal(SIGTERM, on_terminate);
    if (!peers_open())
        log_warning("no copies from node to node: %s", strerror(errno));
    snprintf(join.u.join.device, sizeof join.u.join.device, "%s", device);
    snprintf(join.u.join.version, sizeof join.u.join.version, "%s", FDSERVER_VERSION);
    bridge_forward(&join, NULL, 0);
    heard_us = clock_us();
}

/* Of a device on the host each worker may have its part of the memory. */
static void share_memory(struct device_info *info)
{
    const char *workers = getenv("FDSERVER_HOST_WORKERS");
    const long count = workers ? strtol(workers, NULL, 10) : 1;
    if (count > 1 && strcmp(info->kind, "host") == 0)
        info->free_bytes /= (uint64_t)count;
}

static void take_record(struct channel_message *record, int descriptor)
{
    (void)descriptor; /* of nothing that a bridge carries */
    if (record->type == CHANNEL_READY) {
        share_memory(&record->u.ready.info);
        is_ready = true;
    }
    if (record->type == CHANNEL_COPIED && peers_take_copied(record))
        return;
    if (record->type == CHANNEL_MAPPED && record->status != STATUS_OK)
        peers_unmap(record->u.region.region); /* no UNREGION comes */
    bridge_forward(record, NULL, 0);
    bridge_note(record);
}

/* ARENA, REGION: memory of the head's size, for the worker too. False: there is none. */
static bool open_memory(struct channel_message *record, uint64_t region, uint64_t bytes)
{
    const int memfd = rights_memfd("bridge", bytes);
    const bool opened = payload_map(region, memfd, bytes, true);
    if (opened)
        bridge_tell(record, memfd);
    rights_close(memfd);
    return opened;
}

/* Is there room for a region of that size in this device's part of the node's --region-memory? The
 * head counts its own. */
static bool has_room(uint64_t bytes)
{
    const char *most = getenv("FDSERVER_REGION_SHARE");
    const uint64_t room = most ? strtoull(most, NULL, 10) : UINT64_MAX;
    return bytes <= room && payload_region_bytes() <= room - bytes;
}

/* Of a mailbox with its address. */
static void open_region(struct channel_message *record, const struct frame *frame)
{
    const uint64_t region = record->u.region.region;
    if (record->u.region.is_mailbox && frame->head.block_bytes == sizeof(struct mailbox_address) &&
        payload_is_mailbox(region, record->u.region.bytes)) {
        struct mailbox_address address;
        memcpy(&address, frame->block, sizeof address);
        address.address[sizeof address.address - 1] = 0;
        peers_map(record, &address);
        return;
    }
    if (!record->u.region.is_mailbox && has_room(record->u.region.bytes) &&
        open_memory(record, region, record->u.region.bytes))
        return;
    const struct channel_message refused = bridge_cannot_map(region, STATUS_OUT_OF_MEMORY);
    bridge_forward(&refused, NULL, 0);
}

static void open_mailbox(struct channel_message *record)
{
    struct mailbox_address *block = malloc(sizeof *block);
    if (!block)
        bridge_end(EXIT_FAILURE, "no memory for its records");
    record->status =
        mailbox_open(record->u.mailbox.bytes, block) ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    bridge_forward(record, (uint8_t *)block, sizeof *block);
}

static void tell_with_block(const struct frame *frame)
{
    const int descriptor = channel_sealed(frame->block, frame->head.block_bytes);
    if (descriptor < 0)
        bridge_end(EXIT_FAILURE, "no descriptor for a block");
    bridge_tell(&frame->record, descriptor);
    close(descriptor);
}

static void take_frame(struct frame *frame)
{
    struct channel_message *record = &frame->record;
    const char *threads;
    bridge_note(record);
    switch (record->type) {
    case CHANNEL_ALIVE:
        return;
    case CHANNEL_REFUSED:
        record->u.refused.text[sizeof record->u.refused.text - 1] = 0;
        log_warning("the head refused: %s", record->u.refused.text);
        bridge_end(0, NULL);
    case CHANNEL_ARENA:
        threads = getenv("FDSERVER_THREADS");
        record->u.arena.threads = threads ? (uint32_t)strtoul(threads, NULL, 10) : 0;
        if (!open_memory(record, PAYLOAD_ARENA, record->u.arena.bytes))
            bridge_end(EXIT_FAILURE, "no memory for the arena");
        has_arena = true;
        return;
    case CHANNEL_REGION:
        open_region(record, frame);
        return;
    case CHANNEL_MAILBOX:
        open_mailbox(record);
        return;
    case CHANNEL_UNREGION:
        payload_unmap(record->u.region.region);
        peers_unmap(record->u.region.region);
        break;
    case CHANNEL_DOWNLOAD:
        peers_note(record);
        break;
    default:
        break;
    }
    if (frame->block)
        tell_with_block(frame);
    else
        bridge_tell(record, -1);
}

/* To receive much takes long: the front is not to take that for a worker that hangs. Before that, a
 * worker may take long to start, and the head's end is not to take that for a node that is lost. */
static void beat(void)
{
    static const struct channel_message alive = {.type = CHANNEL_ALIVE},
                                        leaving = {.type = CHANNEL_LEAVING};
    static bool has_said;
    const bool goes = leaves; /* a signal comes at any time */
    if (bridge.came)
        heard_us = clock_us();
    if ((has_arena && !is_ready) || (bridge.came && bridge.in.got))
        bridge_forward(&alive, NULL, 0);
    if (goes && !is_ready)
        bridge_end(0, "it leaves");
    if (goes && !has_said)
        bridge_forward(&leaving, NULL, 0);
    has_said = goes;
    if (clock_us() - heard_us > BRIDGE_LEASE_S * UINT64_C(1000000))
        bridge_end(EXIT_FAILURE, "the head is silent; its lease is over");
}

/* The front bounds its orders, and the lease is over where nothing is read. */
const struct bridge_side node_end = {take_record, take_frame, beat, .records_most = UINT32_MAX};
