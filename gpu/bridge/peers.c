#include "gpu/bridge/peers.h"

#include "base/list.h"
#include "base/log.h"
#include "base/rights.h"
#include "gpu/bridge/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS_MOST = 128 /* that write here at once */ };
enum { SILENCES = 3 /* of BRIDGE_JOIN_S each, until a PUT without an answer is given up */ };
enum { PUT_TRIES = 3 };

/* The bytes of a slot on their way; they follow their head. The answer is PUT_TAKEN. */
struct put {
    struct list link;
    struct put_head {
        uint64_t tag;           /* of the DOWNLOAD */
        uint64_t offset, bytes; /* in the mailbox */
    } head;
};
enum { PUT_TAKEN = 1 };

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
    int listener, events[2];
    struct mailbox_address address; /* of the node's own mailbox */
    int memfd;
    _Atomic(uint8_t *) memory; /* of it; NULL: none yet */
    uint64_t bytes, region;    /* region 0: not known yet */
    atomic_uint writers;
    struct list list;      /* struct peer */
    pthread_mutex_t mutex; /* guards what writers write, and: */
    uint64_t *newest;      /* by the place of a slot: the highest tag of copies to it */
} peers = {.events = {-1, -1}, .memfd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static void say(struct peer *peer, int kind, uint64_t tag)
{
    const struct event event = {kind, peer, tag};
    while (write(peers.events[1], &event, sizeof event) < 0 && errno == EINTR)
        ;
}

static bool start_thread(void *(*run)(void *), void *of)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, of) != 0)
        return false;
    pthread_detach(thread);
    return true;
}

/* --- bytes, on threads that wait for them --- */

static bool wait_for_bytes(struct stream *stream)
{
    const int flags = fcntl(stream->socket, F_GETFL);
    return fcntl(stream->socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* silences: how often nothing may come for BRIDGE_JOIN_S; −1: any number. */
static bool read_all(struct stream *stream, void *bytes, size_t count, int silences)
{
    for (size_t done = 0; done < count;) {
        const int64_t come = stream_read(stream, (uint8_t *)bytes + done, count - done);
        if (come < 0 || (come == 0 && silences == 0))
            return false;
        silences -= come == 0 && silences > 0;
        done += (size_t)come;
    }
    return true;
}

static bool write_all(struct stream *stream, const void *bytes, size_t count)
{
    return stream_write(stream, bytes, count) == (int64_t)count;
}

static bool send_all(struct stream *stream)
{
    return stream_flush(stream) && !stream_waits(stream);
}

/* --- those that write to the node's own mailbox --- */

static bool say_taken(struct stream *stream)
{
    static const uint8_t taken = PUT_TAKEN;
    return write_all(stream, &taken, sizeof taken) && send_all(stream);
}

/* A slot is given to the next copy when the one before it was given up, whose bytes may still be
 * under way, or its node is lost. False: they are, and are written no more. */
static bool write_piece(const struct put_head *head, uint64_t at, const uint8_t *piece,
                        uint64_t bytes)
{
    uint64_t *newest = &peers.newest[head->offset / CHANNEL_SLOT_BYTES];
    pthread_mutex_lock(&peers.mutex);
    const bool is_newest = head->tag >= *newest;
    if (is_newest) {
        *newest = head->tag;
        memcpy(peers.memory + head->offset + at, piece, bytes);
    }
    pthread_mutex_unlock(&peers.mutex);
    return is_newest;
}

static bool take_put(struct stream *stream)
{
    uint8_t piece[STREAM_RECORD_BYTES];
    struct put_head head;
    if (!read_all(stream, &head, sizeof head, -1))
        return false;
    if (!peers.memory || head.bytes > peers.bytes || head.offset > peers.bytes - head.bytes ||
        head.offset % CHANNEL_SLOT_BYTES) {
        log_warning("a node wrote beyond the mailbox");
        return false;
    }
    for (uint64_t at = 0; at < head.bytes; at += sizeof piece) {
        const uint64_t left = head.bytes - at, some = left < sizeof piece ? left : sizeof piece;
        if (!read_all(stream, piece, some, SILENCES) || !write_piece(&head, at, piece, some))
            return false;
    }
    return say_taken(stream);
}

/* Of a machine that has gone without a word, or is cut off, a read that waits for ever ends so. */
static void keep_alive(int socket)
{
    const int on = 1, idle_s = 30, interval_s = 10, count = 3;
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static void *serve_writer(void *of)
{
    const int socket = (int)(intptr_t)of;
    uint8_t token[sizeof peers.address.token];
    struct stream stream;
    const char *why;
    keep_alive(socket);
    if (stream_open(&stream, socket, true, peers.key, BRIDGE_JOIN_S, &why)) {
        if (wait_for_bytes(&stream) && read_all(&stream, token, sizeof token, 0) &&
            memcmp(token, peers.address.token, sizeof token) == 0 && say_taken(&stream))
            while (take_put(&stream))
                ;
        stream_close(&stream);
    }
    peers.writers--;
    return NULL;
}

static void *accept_writers(void *unused)
{
    (void)unused;
    for (;;) {
        const int socket = accept4(peers.listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0) {
            usleep(1000); /* no descriptor is left, perhaps */
            continue;
        }
        if (++peers.writers > PEERS_MOST || !start_thread(serve_writer, (void *)(intptr_t)socket)) {
            peers.writers--;
            close(socket);
        }
    }
    return NULL;
}

/* At the address that the head's connection has here. */
static int listen_for_peers(const struct stream *head, char port[16])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(head->socket, (struct sockaddr *)&address, &length) != 0)
        return -1;
    *(address.ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&address)->sin6_port
                                    : &((struct sockaddr_in *)&address)->sin_port) = 0;
    const int listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 &&
        listen(listener, SOMAXCONN) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, 16, NI_NUMERICSERV) == 0)
        return listener;
    if (listener >= 0)
        close(listener);
    return -1;
}

bool peers_open(const uint8_t key[SHA256_BYTES], const struct stream *head)
{
    char port[16];
    list_init(&peers.list);
    memcpy(peers.key, key, sizeof peers.key);
    memcpy(peers.address.magic, "fdnode", sizeof "fdnode");
    peers.listener = listen_for_peers(head, port);
    if (peers.listener < 0)
        return false;
    snprintf(peers.address.address, sizeof peers.address.address, ":%s", port);
    return getrandom(peers.address.token, sizeof peers.address.token, 0) ==
               sizeof peers.address.token &&
           pipe2(peers.events, O_CLOEXEC) == 0 && start_thread(accept_writers, NULL);
}

bool peers_open_mailbox(uint64_t bytes, struct mailbox_address *address)
{
    const int memfd = peers.memory || peers.events[0] < 0 ? -1 : rights_memfd("bridge", bytes);
    void *memory =
        memfd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    uint64_t *newest =
        memory == MAP_FAILED ? NULL : calloc(bytes / CHANNEL_SLOT_BYTES + 1, sizeof *newest);
    *address = peers.address;
    if (!newest) {
        if (memory != MAP_FAILED)
            munmap(memory, bytes);
        if (memfd >= 0)
            close(memfd);
        return false;
    }
    peers.bytes = bytes;
    peers.memfd = memfd;
    peers.newest = newest;
    peers.memory = memory;
    return true;
}

/* --- those that this node writes to --- */

static bool was_taken(struct stream *stream)
{
    uint8_t answer;
    return send_all(stream) && read_all(stream, &answer, sizeof answer, SILENCES) &&
           answer == PUT_TAKEN;
}

static bool connect_peer(struct peer *peer)
{
    const char *why;
    const int socket = stream_connect(peer->address.address, BRIDGE_JOIN_S, &why);
    if (socket >= 0 && stream_open(&peer->stream, socket, false, peers.key, BRIDGE_JOIN_S, &why)) {
        why = "it has no such mailbox, or has gone";
        if (wait_for_bytes(&peer->stream) &&
            write_all(&peer->stream, peer->address.token, sizeof peer->address.token) &&
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
    if (write_all(stream, &put->head, sizeof put->head) &&
        write_all(stream, peer->memory + put->head.offset, put->head.bytes) && was_taken(stream))
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
    if (peer->memory && start_thread(serve_mailbox, peer))
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
    const bool is_own = memcmp(address->token, peers.address.token, sizeof address->token) == 0;
    if (is_own && peers.memfd >= 0 && peers.bytes == record->u.region.bytes) {
        peers.region = record->u.region.region;
        bridge_tell(record, peers.memfd);
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

/* The worker itself is about to write to the mailbox. */
static void note_own(const struct channel_message *download)
{
    pthread_mutex_lock(&peers.mutex);
    peers.newest[download->u.copy.arena_offset / CHANNEL_SLOT_BYTES] = download->u.copy.tag;
    pthread_mutex_unlock(&peers.mutex);
}

void peers_note(const struct channel_message *download)
{
    if (peers.region && download->u.copy.region == peers.region)
        note_own(download);
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
