#include "gpu/worker/worker.h"

#include <stdlib.h>
#include <string.h>

/* A communicator, by the front's number, until its DISCONNECT has been carried out. */
struct peer {
    uint64_t number;
    struct communicator *communicator; /* NULL: it could not be made */
    bool connected;                    /* CONNECTED, with OK, has been sent */
    bool leaves;                       /* DISCONNECT has come */
    bool broken;                       /* an EXCHANGE was left out: the ranks are out of step */
};

/* An EXCHANGE under way. NULL: it has no such array. */
struct exchanging {
    uint64_t tag;
    struct holding *sent, *received;
};

static void answer_connected(struct worker *worker, uint64_t number, bool ok)
{
    worker_answer(worker, &(struct channel_message){.type = CHANNEL_CONNECTED,
                                                    .status = ok ? STATUS_OK : STATUS_INTERNAL,
                                                    .u.communicator.number = number});
}

static struct peer *find(struct worker *worker, uint64_t number)
{
    struct peer *peer = ids_find(&worker->peers, number);
    if (!peer || peer->leaves)
        worker_broken("an order names a communicator that is not there", number);
    return peer;
}

static void begin_to_connect(struct worker *worker, const struct channel_message *message)
{
    const uint64_t number = message->u.communicator.number, rank = message->u.communicator.rank;
    struct channel_message named = {.type = CHANNEL_UNIQUE_ID, .u.communicator.number = number};
    if (!worker->communicates || rank > 1 || number == 0 || ids_find(&worker->peers, number))
        worker_broken("a CONNECT of no rank, or that is there already, or cannot be", number);
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer || !ids_add(&worker->peers, number, peer))
        worker_out_of_memory();
    peer->number = number;
    memcpy(named.u.communicator.id, message->u.communicator.id, COMMUNICATOR_ID_BYTES);
    peer->communicator = worker->backend->connect(
        (int)rank, named.u.communicator.id, (struct token){.of = peer, .kind = TOKEN_CONNECT});
    if (!peer->communicator)
        answer_connected(worker, number, false);
    else if (rank == 0)
        worker_answer(worker, &named);
}

static void connected(struct worker *worker, struct peer *peer, bool ok)
{
    peer->connected = ok;
    if (!peer->leaves)
        answer_connected(worker, peer->number, ok);
}

static void forget(struct worker *worker, struct peer *peer)
{
    ids_remove(&worker->peers, peer->number);
    free(peer);
}

static void disconnect(struct worker *worker, uint64_t number)
{
    struct peer *peer = find(worker, number);
    peer->leaves = true;
    if (!peer->communicator) {
        forget(worker, peer);
        return;
    }
    worker->disconnects.under_way++;
    worker->backend->disconnect(peer->communicator,
                                (struct token){.of = peer, .kind = TOKEN_DISCONNECT});
}

static void disconnected(struct worker *worker, struct peer *peer)
{
    worker_completed(&worker->disconnects);
    forget(worker, peer);
}

/* --- exchanges --- */

static void answer_exchanged(struct worker *worker, uint64_t tag, enum status status)
{
    worker_answer(worker, &(struct channel_message){
                              .type = CHANNEL_EXCHANGED, .status = status, .u.exchange.tag = tag});
}

/* The array, if the EXCHANGE has one there; *memory NULL: that one has none. */
static struct holding *find_stretch(struct worker *worker, const struct channel_stretch *stretch,
                                    bool is_received, uint8_t **memory)
{
    *memory = NULL;
    if (!stretch->bytes)
        return NULL;
    struct holding *holding = store_find(worker, stretch->array);
    store_check_copy(holding, stretch->offset, stretch->bytes, is_received);
    if (store_has_memory(holding))
        *memory = (uint8_t *)holding->memory.at + stretch->offset;
    return holding;
}

static void exchange(struct worker *worker, const struct channel_message *message)
{
    const struct channel_stretch *sent = &message->u.exchange.sent,
                                 *received = &message->u.exchange.received;
    const uint64_t tag = message->u.exchange.tag;
    struct peer *peer = find(worker, message->u.exchange.communicator);
    uint8_t *from, *to;
    if (!peer->connected || (!sent->bytes && !received->bytes))
        worker_broken("an EXCHANGE of nothing, or before its CONNECTED", tag);
    struct holding *source = find_stretch(worker, sent, false, &from),
                   *target = find_stretch(worker, received, true, &to);
    const bool was_broken = peer->broken;
    struct exchanging *exchanging = was_broken ? NULL : calloc(1, sizeof *exchanging);
    if (!exchanging || (source && !from) || (target && !to)) {
        free(exchanging);
        peer->broken = true;
        answer_exchanged(worker, tag, was_broken ? STATUS_INTERNAL : STATUS_OUT_OF_MEMORY);
        return;
    }
    *exchanging = (struct exchanging){.tag = tag, .sent = source, .received = target};
    if (source)
        source->downloads++;
    if (target)
        target->uploads++;
    worker->exchanges++;
    worker->backend->exchange(peer->communicator, from, sent->bytes, to, received->bytes,
                              (struct token){.of = exchanging, .kind = TOKEN_EXCHANGE});
}

static void exchanged(struct worker *worker, struct exchanging *exchanging, bool ok)
{
    worker->exchanges--;
    if (exchanging->sent)
        exchanging->sent->downloads--;
    if (exchanging->received)
        exchanging->received->uploads--;
    answer_exchanged(worker, exchanging->tag, ok ? STATUS_OK : STATUS_INTERNAL);
    free(exchanging);
}

bool peers_take(struct worker *worker, const struct channel_message *message)
{
    if (message->type == CHANNEL_CONNECT)
        begin_to_connect(worker, message);
    else if (message->type == CHANNEL_EXCHANGE)
        exchange(worker, message);
    else if (message->type == CHANNEL_DISCONNECT)
        disconnect(worker, message->u.communicator.number);
    else
        return false;
    return true;
}

void peers_completed(struct worker *worker, const struct completion *completion)
{
    const struct token *token = &completion->token;
    if (token->kind == TOKEN_EXCHANGE)
        exchanged(worker, token->of, !completion->failed);
    else if (token->kind == TOKEN_CONNECT)
        connected(worker, token->of, !completion->failed);
    else
        disconnected(worker, token->of);
}
