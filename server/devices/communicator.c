#include "server/devices/communicator.h"

#include "base/log.h"
#include "server/devices/device.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = COMMUNICATOR_RANKS };

static int rank_of(const struct communicator *c, const struct device *device)
{
    return c->end[1] == device;
}

static bool has_end(const struct communicator *c, const struct device *device)
{
    return c->end[0] == device || c->end[1] == device;
}

/* --- making one --- */

static bool can_connect(const struct device *device)
{
    return device->state == DEVICE_READY && device->info.communicates && !device->leaving;
}

static void tell_to_connect(const struct communicator *c, int rank, const uint8_t *id)
{
    struct channel_message message = {
        .type = CHANNEL_CONNECT, .u.communicator = {.number = c->number, .rank = (uint64_t)rank}};
    if (id)
        memcpy(message.u.communicator.id, id, sizeof message.u.communicator.id);
    device_tell(c->end[rank], &message, NULL);
}

static void begin(struct communicator *c)
{
    if (c->rest.left || !can_connect(c->end[0]) || !can_connect(c->end[1]))
        return;
    c->state = COMMUNICATOR_NAMING;
    c->number = ++c->end[0]->devices->last_communicator;
    c->silent = 0;
    memset(c->connected, 0, sizeof c->connected);
    tell_to_connect(c, 0, NULL);
}

struct communicator *communicator_between(struct device *from, struct device *to)
{
    struct devices *devices = from->devices;
    if (!devices->config->nccl || from == to || !(from->bridged || to->bridged) ||
        !from->info.communicates || !to->info.communicates)
        return NULL;
    struct communicator *found = NULL;
    LIST_EACH (struct communicator, c, &devices->communicators, link)
        if (has_end(c, from) && has_end(c, to))
            found = c;
    if (!found && (found = calloc(1, sizeof *found))) {
        found->end[0] = from->number < to->number ? from : to;
        found->end[1] = from->number < to->number ? to : from;
        list_push(&devices->communicators, &found->link);
    }
    if (found && found->state == COMMUNICATOR_NONE)
        begin(found);
    return found && found->state == COMMUNICATOR_OPEN ? found : NULL;
}

/* --- the end of one --- */

static void end_passage(struct passage *passage, bool ok)
{
    struct field *from = passage->from, *to = passage->to;
    passage->ended(passage, ok);
    field_release(from);
    field_release(to);
}

/* Both ends have answered. */
static void end_if_answered(struct exchange *exchange)
{
    if (!exchange->answered[0] || !exchange->answered[1])
        return;
    const struct exchange ended = *exchange;
    *exchange = (struct exchange){0};
    for (int rank = 0; rank < RANKS; rank++)
        if (ended.sent[rank])
            end_passage(ended.sent[rank], !ended.failed);
}

static void disconnect(const struct communicator *c, int rank)
{
    const bool knows = c->state > COMMUNICATOR_NAMING || rank == 0;
    const struct channel_message message = {.type = CHANNEL_DISCONNECT,
                                            .u.communicator.number = c->number};
    if (knows && c->end[rank]->state == DEVICE_READY)
        device_tell(c->end[rank], &message, NULL);
}

/* What is under way fails when the workers that are there have answered: until then they may write
 * to its arrays. why: a line of the log; NULL: none. */
static void fail(struct communicator *c, const char *why)
{
    struct list waiting = {0};
    if (c->state == COMMUNICATOR_NONE)
        return;
    if (why)
        log_warning("%s and %s exchange nothing by NCCL: %s", c->end[0]->name, c->end[1]->name,
                    why);
    for (int rank = 0; rank < RANKS; rank++) {
        disconnect(c, rank);
        list_move(&c->waiting[rank], &waiting);
    }
    c->state = COMMUNICATOR_NONE;
    rest_begin(&c->rest);
    for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++)
        c->exchange[i].failed = true;
    LIST_DRAIN (struct passage, passage, &waiting, link)
        end_passage(passage, false);
}

void communicators_worker_lost(struct device *device)
{
    LIST_EACH (struct communicator, c, &device->devices->communicators, link) {
        if (!has_end(c, device))
            continue;
        const bool worked = c->state == COMMUNICATOR_OPEN;
        fail(c, NULL); /* the log says that it has ended */
        if (worked)    /* else NCCL may be what has ended it, and would end the next one */
            rest_forget(&c->rest);
        for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++) {
            if (!c->exchange[i].tag)
                continue;
            c->exchange[i].answered[rank_of(c, device)] = true;
            end_if_answered(&c->exchange[i]);
        }
    }
}

/* What is to come to it, or from it, stands behind something long. */
static bool is_behind(const struct communicator *c)
{
    return c->end[0]->heartbeat.late || c->end[1]->heartbeat.late;
}

/* A worker that has been told to disconnect answers what is under way, and is ended when it hangs
 * in that; a node that does neither is not to keep others' arrays. */
static void give_up_late(struct communicator *c)
{
    for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++) {
        struct exchange *exchange = &c->exchange[i];
        if (!exchange->tag || !exchange->failed || ++exchange->late <= COMMUNICATOR_CONNECT)
            continue;
        struct device *const late = c->end[exchange->answered[0] ? 1 : 0];
        exchange->late = 0;
        device_give_up(late, "it does not end what failed by NCCL");
    }
}

/* Is something due of the one that is there now? */
static bool awaits(const struct communicator *c)
{
    bool awaits = c->state == COMMUNICATOR_NAMING || c->state == COMMUNICATOR_CONNECTING;
    for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++)
        awaits = awaits || (c->exchange[i].tag && !c->exchange[i].failed);
    return awaits;
}

void communicators_beat(struct device *device)
{
    LIST_EACH (struct communicator, c, &device->devices->communicators, link) {
        if (c->end[0] != device)
            continue;
        rest_beat(&c->rest);
        c->silent = awaits(c) ? c->silent + !is_behind(c) : 0;
        if (c->silent >
            (c->state == COMMUNICATOR_OPEN ? COMMUNICATOR_EXCHANGE : COMMUNICATOR_CONNECT))
            fail(c, "no answer");
        give_up_late(c);
    }
}

void communicators_free(struct devices *devices)
{
    LIST_DRAIN (struct communicator, c, &devices->communicators, link)
        free(c);
}

/* --- passages --- */

void communicator_pass(struct communicator *c, struct passage *passage)
{
    field_reference(passage->from);
    field_reference(passage->to);
    list_push(&c->waiting[rank_of(c, passage->from->device)], &passage->link);
}

bool communicator_withdraw(struct passage *passage)
{
    if (!passage->from || list_empty(&passage->link))
        return false;
    list_remove(&passage->link);
    field_release(passage->from);
    field_release(passage->to);
    return true;
}

static struct channel_stretch stretch(struct field *field, uint64_t offset, uint64_t bytes)
{
    return (struct channel_stretch){.array = device_array(field), .offset = offset, .bytes = bytes};
}

static void order(const struct communicator *c, struct exchange *exchange)
{
    struct channel_message message[RANKS] = {{.type = CHANNEL_EXCHANGE},
                                             {.type = CHANNEL_EXCHANGE}};
    for (int rank = 0; rank < RANKS; rank++) {
        const struct passage *passage = exchange->sent[rank];
        message[rank].u.exchange.communicator = c->number;
        message[rank].u.exchange.tag = exchange->tag;
        if (!passage)
            continue;
        message[rank].u.exchange.sent =
            stretch(passage->from, passage->from_offset, passage->bytes);
        message[RANKS - 1 - rank].u.exchange.received =
            stretch(passage->to, passage->to_offset, passage->bytes);
    }
    for (int rank = 0; rank < RANKS; rank++)
        device_tell(c->end[rank], &message[rank], NULL);
}

static void send_some(struct communicator *c)
{
    for (int i = 0; i < COMMUNICATOR_EXCHANGES && c->state == COMMUNICATOR_OPEN; i++) {
        struct exchange *exchange = &c->exchange[i];
        if (exchange->tag || (list_empty(&c->waiting[0]) && list_empty(&c->waiting[1])))
            continue;
        *exchange = (struct exchange){.tag = ++c->end[0]->devices->last_exchange};
        for (int rank = 0; rank < RANKS; rank++)
            exchange->sent[rank] = LIST_TAKE(&c->waiting[rank], struct passage, link);
        order(c, exchange);
    }
}

void communicators_flush(struct devices *devices)
{
    LIST_EACH (struct communicator, c, &devices->communicators, link)
        send_some(c);
}

/* --- answers --- */

static bool take_exchanged(struct device *device, const struct channel_message *message)
{
    LIST_EACH (struct communicator, c, &device->devices->communicators, link) {
        const int rank = rank_of(c, device);
        for (int i = 0; i < COMMUNICATOR_EXCHANGES && has_end(c, device); i++) {
            struct exchange *exchange = &c->exchange[i];
            if (!exchange->tag || exchange->tag != message->u.exchange.tag)
                continue;
            if (exchange->answered[rank])
                return false;
            exchange->answered[rank] = true;
            c->silent = 0;
            if (message->status != STATUS_OK && !exchange->failed)
                fail(c, status_name((enum status)message->status));
            else if (c->state == COMMUNICATOR_OPEN)
                rest_forget(&c->rest);
            end_if_answered(exchange);
            return true;
        }
    }
    return false;
}

static void take_connected(struct communicator *c, int rank, enum status status)
{
    c->silent = 0;
    c->connected[rank] = true;
    if (status != STATUS_OK) {
        fail(c, "they cannot connect");
        return;
    }
    if (!c->connected[0] || !c->connected[1])
        return;
    c->state = COMMUNICATOR_OPEN;
    log_info("%s and %s exchange arrays by NCCL", c->end[0]->name, c->end[1]->name);
}

/* Of one that has failed meanwhile it is no news. */
bool communicators_take(struct device *device, const struct channel_message *message)
{
    const uint64_t number = message->u.communicator.number;
    if (message->status >= STATUS_COUNT)
        return false;
    if (message->type == CHANNEL_EXCHANGED)
        return take_exchanged(device, message);
    if (message->type != CHANNEL_CONNECTED && message->type != CHANNEL_UNIQUE_ID)
        return false;
    LIST_EACH (struct communicator, c, &device->devices->communicators, link) {
        const int rank = rank_of(c, device);
        if (!has_end(c, device) || c->state == COMMUNICATOR_NONE || c->number != number)
            continue;
        if (message->type == CHANNEL_CONNECTED) {
            const bool due = !c->connected[rank] && (c->state == COMMUNICATOR_CONNECTING ||
                                                     (c->state == COMMUNICATOR_NAMING && !rank));
            if (due)
                take_connected(c, rank, (enum status)message->status);
            return due;
        }
        if (c->state != COMMUNICATOR_NAMING || rank)
            return false;
        c->state = COMMUNICATOR_CONNECTING;
        tell_to_connect(c, 1, message->u.communicator.id);
        return true;
    }
    return number != 0 && number <= device->devices->last_communicator;
}
