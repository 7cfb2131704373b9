#include "gpu/bridge/peers.h"

#include "base/list.h"
#include "base/log.h"
#include "base/rights.h"
#include "gpu/bridge/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PUT_TRIES = 3 };

/* On its way. */
struct put {
    struct list link;
    struct put_head head;
};

/* Another node's mailbox, as this one has it. */
struct peer {
    struct list link;
    struct channel_message region; /* REGION */
    struct mailbox_address address;
    int memfd;
    uint8_t *memory;
    struct list puts; /* struct put: noted, and not yet its thread's */
    /* Its thread's: */
    struct stream stream;  /* socket −1: not connected */
    pthread_mutex_t mutex; /* guards: */
    pthread_cond_t ordered;
    struct list queue; /* struct put */
    bool leaves;
};

/* What a thread says: that the peer is connected, or cannot be; that a PUT was taken, or never will
 * be; that it ends, and the peer is to be freed. */
struct event {
    enum { PEER_CONNECTED, PEER_REFUSED, PEER_TAKEN, PEER_FAILED, PEER_LEFT } kind;
    struct peer *peer;
    uint64_t tag;
};

static struct {
    uint8_t key[SHA256_BYTES];
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

bool peers_open(const uint8_t key[SHA256_BYTES], const struct stream *head)
{
    list_init(&peers.list);
    memcpy(peers.key, key, sizeof peers.key);
    return pipe2(peers.events, O_CLOEXEC) == 0 && mailbox_listen(key, head);
}

/* --- those that this node writes to --- */

static bool was_taken(struct stream *stream)
{
    uint8_t answer;
    return stream_flush_all(stream) &&
           stream_read_all(stream, &answer, sizeof answer, PUT_SILENCES) && answer == PUT_TAKEN;
}

static bool connect_peer(struct peer *peer)
{
    const char *why;
    const int socket = stream_connect(peer->address.address, BRIDGE_JOIN_S, &why);
    if (socket >= 0 && stream_open(&peer->stream, socket, false, peers.key, BRIDGE_JOIN_S, &why)) {
        why = "it has no such mailbox, or has gone";
        if (stream_wait_for_bytes(&peer->stream) &&
            stream_write_all(&peer->stream, peer->address.token, sizeof peer->address.token) &&
            was_taken(&peer->stream))
            return true;
        stream_close(&peer->stream);
    }
    log_warning("%s, which has a mailbox, cannot be reached: %s", peer->address.address, why);
    return false;
}

static bool send_put(struct peer *peer, const struct put *put)
{
    struct stream *stream = &peer->stream;
    if (stream->socket < 0 && !connect_peer(peer))
        return false;
    if (stream_write_all(stream, &put->head, sizeof put->head) &&
        stream_write_all(stream, peer->memory + put->head.offset, put->head.bytes) &&
        was_taken(stream))
        return true;
    stream_close(stream);
    return false;
}

/* A connection may have broken while nothing passed it, and the next one as it was made. */
static bool put_through(struct peer *peer, const struct put *put)
{
    bool taken = false;
    for (int i = 0; i < PUT_TRIES && !taken; i++)
        taken = send_put(peer, put);
    return taken;
}

/* NULL: the peer leaves. */
static struct put *next_put(struct peer *peer)
{
    struct put *put;
    pthread_mutex_lock(&peer->mutex);
    while (!(put = LIST_TAKE(&peer->queue, struct put, link)) && !peer->leaves)
        pthread_cond_wait(&peer->ordered, &peer->mutex);
    pthread_mutex_unlock(&peer->mutex);
    return put;
}

static void *serve_mailbox(void *of)
{
    struct peer *peer = of;
    bool reached = connect_peer(peer);
    say(peer, reached ? PEER_CONNECTED : PEER_REFUSED, 0);
    for (struct put *put; (put = next_put(peer));) {
        /* Those behind one that failed are not to wait as long, each after the other. */
        reached = reached && put_through(peer, put);
        say(peer, reached ? PEER_TAKEN : PEER_FAILED, put->head.tag);
        free(put);
    }
    if (peer->stream.socket >= 0)
        stream_close(&peer->stream);
    say(peer, PEER_LEFT, 0);
    return NULL;
}

static void free_peer(struct peer *peer)
{
    LIST_DRAIN (struct put, put, &peer->puts, link)
        free(put);
    if (peer->memory)
        munmap(peer->memory, peer->region.u.region.bytes);
    if (peer->memfd >= 0)
        close(peer->memfd);
    pthread_cond_destroy(&peer->ordered);
    pthread_mutex_destroy(&peer->mutex);
    free(peer);
}

static struct peer *new_peer(const struct channel_message *region,
                             const struct mailbox_address *address)
{
    const uint64_t bytes = region->u.region.bytes;
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->region = *region;
    peer->address = *address;
    peer->stream.socket = -1;
    list_init(&peer->link);
    list_init(&peer->puts);
    list_init(&peer->queue);
    pthread_mutex_init(&peer->mutex, NULL);
    pthread_cond_init(&peer->ordered, NULL);
    peer->memfd = rights_memfd("bridge", bytes);
    void *memory = peer->memfd < 0
                       ? MAP_FAILED
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, peer->memfd, 0);
    peer->memory = memory == MAP_FAILED ? NULL : memory;
    if (peer->memory && stream_thread(serve_mailbox, peer))
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
    list_remove(&peer->link); /* freed when its thread has left */
    pthread_mutex_lock(&peer->mutex);
    peer->leaves = true;
    pthread_cond_signal(&peer->ordered);
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
    put->head = (struct put_head){.tag = download->u.copy.tag,
                                  .offset = download->u.copy.arena_offset,
                                  .bytes = download->u.copy.bytes};
    list_push(&peer->puts, &put->link);
}

bool peers_take_copied(const struct channel_message *copied)
{
    LIST_EACH (struct peer, peer, &peers.list, link)
        LIST_EACH (struct put, put, &peer->puts, link) {
            if (put->head.tag != copied->u.copy.tag)
                continue;
            list_remove(&put->link);
            pthread_mutex_lock(&peer->mutex);
            list_push(&peer->queue, &put->link);
            pthread_cond_signal(&peer->ordered);
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
