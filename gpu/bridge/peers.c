#include "gpu/bridge/peers.h"

#include "base/list.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/thread.h"
#include "gpu/bridge/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PUT_TRIES = 3,
    /* To each peer, with a thread each: one encrypts 1.5 GB/s, less than most networks carry. */
    PEER_STREAMS = 8,
    PUT_BYTES = 512 << 10 /* at most: the streams share a copy */
};

/* A copy on its way. The peer's mutex guards the counts. */
struct put {
    struct list link;
    uint64_t tag, offset, bytes; /* of the DOWNLOAD */
    uint64_t begun, ended;       /* bytes of PUTs */
    bool failed;                 /* one of them was not taken */
};

/* Another node's mailbox, as this one has it. */
struct peer {
    struct list link;
    struct channel_message region; /* REGION */
    struct mailbox_address address;
    int memfd;
    uint8_t *memory;
    struct list puts;      /* struct put: noted, and not yet its threads' */
    atomic_uint threads;   /* that have not ended */
    atomic_bool lost;      /* a PUT was never taken, nor will any be */
    pthread_mutex_t mutex; /* guards: */
    pthread_cond_t ordered;
    struct list queue; /* struct put */
    bool leaves;
};

/* What a thread says: that the peer is connected, or cannot be; that a PUT was taken, or never will
 * be; that the last one ends, and the peer is to be freed. */
struct event {
    enum { PEER_CONNECTED, PEER_REFUSED, PEER_TAKEN, PEER_FAILED, PEER_LEFT } kind;
    struct peer *peer;
    uint64_t tag;
};

static struct {
    int events[2];
    uint64_t own;     /* the region of the node's own mailbox; 0: not known yet */
    struct list list; /* struct peer */
} peers = {.events = {-1, -1}};

static void say(struct peer *peer, int kind, uint64_t tag)
{
    const struct event event = {kind, peer, tag};
    while (write(peers.events[1], &event, sizeof event) < 0 && errno == EINTR)
        ;
}

bool peers_open(void)
{
    return pipe2(peers.events, O_CLOEXEC) == 0 && mailbox_listen();
}

/* --- those that this node writes to --- */

static bool was_taken(struct stream *stream)
{
    uint8_t answer;
    return stream_flush_all(stream) &&
           stream_read_all(stream, &answer, sizeof answer, PUT_SILENCES) && answer == PUT_TAKEN;
}

static bool connect_peer(const struct peer *peer, struct stream *stream)
{
    const char *why;
    const int socket = stream_connect(peer->address.address, BRIDGE_JOIN_S, &why);
    if (socket >= 0 && stream_open(stream, socket, false, bridge.key, BRIDGE_JOIN_S, &why)) {
        why = "it has no such mailbox, or has gone";
        if (stream_wait_for_bytes(stream) &&
            stream_write_all(stream, peer->address.token, sizeof peer->address.token) &&
            was_taken(stream))
            return true;
        stream_close(stream);
    }
    log_warning("%s, which has a mailbox, cannot be reached: %s", peer->address.address, why);
    return false;
}

static bool send_put(const struct peer *peer, struct stream *stream, const struct put_head *head)
{
    if (stream->socket < 0 && !connect_peer(peer, stream))
        return false;
    if (stream_write_all(stream, head, sizeof *head) &&
        stream_write_all(stream, peer->memory + head->offset + head->at, head->bytes) &&
        was_taken(stream))
        return true;
    stream_close(stream);
    return false;
}

/* A connection may have broken while nothing passed it, and the next one as it was made. PUTs
 * behind one that failed are not to wait as long, each after the other. */
static bool put_through(struct peer *peer, struct stream *stream, const struct put_head *head)
{
    bool taken = false;
    for (int i = 0; i < PUT_TRIES && !taken && !peer->lost; i++)
        taken = send_put(peer, stream, head);
    if (!taken)
        peer->lost = true;
    return taken;
}

/* Under the mutex: wait for a copy that has bytes left, the first. NULL: the peer leaves. */
static struct put *first_put(struct peer *peer)
{
    while (list_empty(&peer->queue) && !peer->leaves)
        pthread_cond_wait(&peer->ordered, &peer->mutex);
    return LIST_FIRST(&peer->queue, struct put, link);
}

/* The next bytes of the first copy that has some left. NULL: the peer leaves. */
static struct put *next_put(struct peer *peer, struct put_head *head)
{
    pthread_mutex_lock(&peer->mutex);
    struct put *put = first_put(peer);
    if (put) {
        const uint64_t left = put->bytes - put->begun;
        *head = (struct put_head){.tag = put->tag,
                                  .offset = put->offset,
                                  .at = put->begun,
                                  .bytes = left < PUT_BYTES ? left : PUT_BYTES};
        put->begun += head->bytes;
        if (put->begun == put->bytes)
            list_remove(&put->link);
    }
    pthread_mutex_unlock(&peer->mutex);
    return put;
}

/* The thread that has the last bytes of a copy tells of it. */
static void end_put(struct peer *peer, struct put *put, uint64_t bytes, bool taken)
{
    pthread_mutex_lock(&peer->mutex);
    put->failed = put->failed || !taken;
    put->ended += bytes;
    const bool is_last = put->ended == put->bytes;
    pthread_mutex_unlock(&peer->mutex);
    if (!is_last)
        return;
    say(peer, put->failed ? PEER_FAILED : PEER_TAKEN, put->tag);
    free(put);
}

static void write_puts(struct peer *peer, struct stream *stream)
{
    struct put_head head;
    for (struct put *put; (put = next_put(peer, &head));)
        end_put(peer, put, head.bytes, put_through(peer, stream, &head));
    if (stream->socket >= 0)
        stream_close(stream);
}

static void leave(struct peer *peer)
{
    if (--peer->threads == 0)
        say(peer, PEER_LEFT, 0);
}

/* It connects when there is something to write; the others do without it if it cannot. */
static void *serve_stream(void *of)
{
    struct peer *peer = of;
    struct stream stream = {.socket = -1};
    pthread_mutex_lock(&peer->mutex);
    const bool has_put = first_put(peer);
    pthread_mutex_unlock(&peer->mutex);
    if (has_put && connect_peer(peer, &stream))
        write_puts(peer, &stream);
    leave(peer);
    return NULL;
}

/* The first one connects at once: then it is known whether the mailbox can be reached. */
static void *serve_mailbox(void *of)
{
    struct peer *peer = of;
    struct stream stream = {.socket = -1};
    const bool reached = connect_peer(peer, &stream);
    for (int i = 1; i < PEER_STREAMS && reached; i++) {
        peer->threads++;
        if (!thread_start(serve_stream, peer))
            peer->threads--;
    }
    say(peer, reached ? PEER_CONNECTED : PEER_REFUSED, 0);
    write_puts(peer, &stream);
    leave(peer);
    return NULL;
}

static void free_peer(struct peer *peer)
{
    LIST_DRAIN (struct put, put, &peer->puts, link)
        free(put);
    if (peer->memory)
        munmap(peer->memory, peer->region.u.region.bytes);
    rights_close(peer->memfd);
    pthread_cond_destroy(&peer->ordered);
    pthread_mutex_destroy(&peer->mutex);
    free(peer);
}

static struct peer *new_peer(const struct channel_message *region,
                             const struct mailbox_address *address)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->region = *region;
    peer->address = *address;
    peer->threads = 1;
    pthread_mutex_init(&peer->mutex, NULL);
    pthread_cond_init(&peer->ordered, NULL);
    peer->memory = rights_memory("bridge", region->u.region.bytes, &peer->memfd);
    if (peer->memory && thread_start(serve_mailbox, peer))
        return peer;
    free_peer(peer);
    return NULL;
}

static struct peer *find_peer(uint64_t region)
{
    LIST_EACH (struct peer, peer, &peers.list, link)
        if (peer->region.u.region.region == region)
            return peer;
    return NULL;
}

/* --- records --- */

static void refuse_region(uint64_t region)
{
    const struct channel_message refused = bridge_cannot_map(region, STATUS_INTERNAL);
    bridge_note(&refused);
    bridge_forward(&refused, NULL, 0);
}

void peers_map(const struct channel_message *record, const struct mailbox_address *address)
{
    const bool is_own = mailbox_is_own(address);
    const int memfd = is_own ? mailbox_memfd(record->u.region.bytes) : -1;
    if (memfd >= 0) {
        peers.own = record->u.region.region;
        bridge_tell(record, memfd);
        return;
    }
    struct peer *peer = is_own || peers.events[0] < 0 ? NULL : new_peer(record, address);
    if (peer)
        list_push(&peers.list, &peer->link);
    else
        refuse_region(record->u.region.region);
}

void peers_unmap(uint64_t region)
{
    struct peer *peer = find_peer(region);
    if (!peer)
        return;
    list_remove(&peer->link); /* freed when its threads have left */
    pthread_mutex_lock(&peer->mutex);
    peer->leaves = true;
    pthread_cond_broadcast(&peer->ordered);
    pthread_mutex_unlock(&peer->mutex);
}

void peers_note(const struct channel_message *download)
{
    if (peers.own && download->u.copy.region == peers.own)
        mailbox_note(download->u.copy.arena_offset, download->u.copy.tag);
    struct peer *peer = find_peer(download->u.copy.region);
    struct put *put = peer ? calloc(1, sizeof *put) : NULL;
    if (!peer)
        return;
    if (!put)
        bridge_end(EXIT_FAILURE, "no memory for its copies");
    put->tag = download->u.copy.tag;
    put->offset = download->u.copy.arena_offset;
    put->bytes = download->u.copy.bytes;
    list_push(&peer->puts, &put->link);
}

bool peers_take_copied(const struct channel_message *copied)
{
    LIST_EACH (struct peer, peer, &peers.list, link)
        LIST_EACH (struct put, put, &peer->puts, link) {
            if (put->tag != copied->u.copy.tag)
                continue;
            list_remove(&put->link);
            pthread_mutex_lock(&peer->mutex);
            list_push(&peer->queue, &put->link);
            pthread_cond_broadcast(&peer->ordered);
            pthread_mutex_unlock(&peer->mutex);
            return true;
        }
    return false;
}

int peers_descriptor(void)
{
    return peers.events[0];
}

static void take_event(const struct event *event)
{
    struct channel_message copied = {.type = CHANNEL_COPIED, .u.copy.tag = event->tag};
    struct peer *peer = event->peer;
    switch (event->kind) {
    case PEER_CONNECTED:
        if (!peer->leaves)
            bridge_tell(&peer->region, peer->memfd);
        break;
    case PEER_REFUSED:
        refuse_region(peer->region.u.region.region);
        peers_unmap(peer->region.u.region.region);
        break;
    case PEER_LEFT:
        free_peer(peer);
        break;
    default:
        copied.status = event->kind == PEER_TAKEN ? STATUS_OK : STATUS_INTERNAL;
        bridge_forward(&copied, NULL, 0);
    }
}

void peers_serve(void)
{
    struct event event;
    if (read(peers.events[0], &event, sizeof event) == sizeof event)
        take_event(&event);
}
