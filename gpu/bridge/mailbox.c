#include "gpu/bridge/mailbox.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/thread.h"
#include "gpu/bridge/bridge.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WRITERS_MOST = 256 }; /* eight of each member of a group, and as many that were cut off */

static struct {
    int listener;
    struct mailbox_address address;
    int memfd;
    _Atomic(uint8_t *) memory; /* NULL: none yet */
    uint64_t bytes;
    atomic_uint writers;
    pthread_mutex_t mutex; /* guards what writers write, and: */
    uint64_t *newest;      /* by the place of a slot: the highest tag of copies to it */
} mailbox = {.listener = -1, .memfd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- those that write to it --- */

static bool say_taken(struct stream *stream)
{
    static const uint8_t taken = PUT_TAKEN;
    return stream_write_all(stream, &taken, sizeof taken) && stream_flush_all(stream);
}

/* A slot is given to the next copy when the one before it was given up, whose bytes may still be
 * under way, or its node is lost. False: they are, and are written no more. */
static bool write_piece(const struct put_head *head, uint64_t at, const uint8_t *piece,
                        uint64_t bytes)
{
    uint64_t *newest = &mailbox.newest[head->offset / CHANNEL_SLOT_BYTES];
    pthread_mutex_lock(&mailbox.mutex);
    const bool is_newest = head->tag >= *newest;
    if (is_newest) {
        *newest = head->tag;
        memcpy(mailbox.memory + head->offset + head->at + at, piece, bytes);
    }
    pthread_mutex_unlock(&mailbox.mutex);
    return is_newest;
}

static bool take_put(struct stream *stream)
{
    uint8_t piece[STREAM_RECORD_BYTES];
    struct put_head head;
    if (!stream_read_all(stream, &head, sizeof head, -1))
        return false;
    if (!mailbox.memory || head.bytes > mailbox.bytes || head.at > mailbox.bytes - head.bytes ||
        head.offset > mailbox.bytes - head.bytes - head.at || head.offset % CHANNEL_SLOT_BYTES) {
        log_warning("a node wrote beyond the mailbox");
        return false;
    }
    for (uint64_t at = 0; at < head.bytes; at += sizeof piece) {
        const uint64_t left = head.bytes - at, some = left < sizeof piece ? left : sizeof piece;
        if (!stream_read_all(stream, piece, some, PUT_SILENCES) ||
            !write_piece(&head, at, piece, some))
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
    uint8_t token[sizeof mailbox.address.token];
    struct stream stream;
    const char *why;
    keep_alive(socket);
    if (stream_open(&stream, socket, true, bridge.key, BRIDGE_JOIN_S, &why)) {
        if (stream_wait_for_bytes(&stream) && stream_read_all(&stream, token, sizeof token, 0) &&
            memcmp(token, mailbox.address.token, sizeof token) == 0 && say_taken(&stream))
            while (take_put(&stream))
                ;
        stream_close(&stream);
    }
    mailbox.writers--;
    return NULL;
}

static void *accept_writers(void *unused)
{
    (void)unused;
    for (;;) {
        const int socket = accept4(mailbox.listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0) {
            usleep(1000); /* no descriptor is left, perhaps */
            continue;
        }
        if (++mailbox.writers > WRITERS_MOST ||
            !thread_start(serve_writer, (void *)(intptr_t)socket)) {
            mailbox.writers--;
            close(socket);
        }
    }
    return NULL;
}

/* --- the mailbox --- */

/* At the address that the head's connection has here. */
static int listen_beside_head(char port[16])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(bridge.stream.socket, (struct sockaddr *)&address, &length) != 0)
        return -1;
    *(address.ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&address)->sin6_port
                                    : &((struct sockaddr_in *)&address)->sin_port) = 0;
    const int listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 &&
        listen(listener, SOMAXCONN) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, 16, NI_NUMERICSERV) == 0)
        return listener;
    rights_close(listener);
    return -1;
}

bool mailbox_listen(void)
{
    char port[16];
    memcpy(mailbox.address.magic, "fdnode", sizeof "fdnode");
    mailbox.listener = listen_beside_head(port);
    if (mailbox.listener < 0)
        return false;
    snprintf(mailbox.address.address, sizeof mailbox.address.address, ":%s", port);
    return getrandom(mailbox.address.token, sizeof mailbox.address.token, 0) ==
               sizeof mailbox.address.token &&
           thread_start(accept_writers, NULL);
}

bool mailbox_open(uint64_t bytes, struct mailbox_address *address)
{
    *address = mailbox.address;
    if (mailbox.newest || mailbox.listener < 0)
        return false;
    mailbox.newest = calloc(bytes / CHANNEL_SLOT_BYTES + 1, sizeof *mailbox.newest);
    mailbox.bytes = bytes;
    if (mailbox.newest) /* last: writers ask for the memory alone */
        mailbox.memory = rights_memory("bridge", bytes, &mailbox.memfd);
    return mailbox.memory;
}

bool mailbox_is_own(const struct mailbox_address *address)
{
    return memcmp(address->token, mailbox.address.token, sizeof address->token) == 0;
}

int mailbox_memfd(uint64_t bytes)
{
    return bytes == mailbox.bytes ? mailbox.memfd : -1;
}

void mailbox_note(uint64_t offset, uint64_t tag)
{
    pthread_mutex_lock(&mailbox.mutex);
    mailbox.newest[offset / CHANNEL_SLOT_BYTES] = tag;
    pthread_mutex_unlock(&mailbox.mutex);
}
