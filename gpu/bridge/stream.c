#include "gpu/bridge/stream.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/rights.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { KEY_FILE_MOST = 4096, MOST = 1 << 30 };

/* The identity that goes with the key: there is only one key. */
static const unsigned char identity[] = "fdserver";
static const unsigned char cipher[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256, RFC 8446 B.4 */

const char *stream_read_key(const char *path, uint8_t key[SHA256_BYTES])
{
    uint8_t bytes[KEY_FILE_MOST];
    struct stat stat;
    struct sha256 hash;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return strerror(errno);
    ssize_t count = read(file, bytes, sizeof bytes);
    const bool known = fstat(file, &stat) == 0;
    close(file);
    const bool is_whole = count < KEY_FILE_MOST;
    while (count > 0 && isspace(bytes[count - 1]))
        count--;
    if (!known || (stat.st_mode & (S_IWGRP | S_IRWXO)))
        return "others than its owner and its group have access to it";
    if (count < STREAM_KEY_LEAST || !is_whole)
        return "it must have 16 to 4095 bytes";
    sha256_init(&hash);
    sha256_add(&hash, bytes, (size_t)count);
    sha256_end(&hash, key);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return NULL;
}

/* Reads and writes of the socket, as long as it blocks, and a connection wait so long at most. */
static void limit_waits(int socket, int seconds)
{
    const struct timeval time = {.tv_sec = seconds};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

int stream_connect(const char *address, int seconds, const char **why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    *why = address_find(address, &hints, &found);
    if (*why)
        return -1;
    int one = -1;
    for (const struct addrinfo *at = found; at && one < 0; at = at->ai_next) {
        one = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (one >= 0)
            limit_waits(one, seconds);
        if (one >= 0 && connect(one, at->ai_addr, at->ai_addrlen) == 0)
            continue;
        *why = strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
        rights_close(one);
        one = -1;
    }
    freeaddrinfo(found);
    return one;
}

/* --- the key --- */

static SSL_SESSION *session_of_key(SSL *tls)
{
    const uint8_t *key = SSL_get_app_data(tls);
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *suite = SSL_CIPHER_find(tls, cipher);
    if (session && suite && SSL_SESSION_set1_master_key(session, key, SHA256_BYTES) &&
        SSL_SESSION_set_cipher(session, suite) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* Of the end that connects. */
static int offer_key(SSL *tls, const EVP_MD *digest, const unsigned char **id, size_t *id_length,
                     SSL_SESSION **session)
{
    (void)digest; /* the only cipher's */
    *session = session_of_key(tls);
    *id = identity;
    *id_length = sizeof identity;
    return *session != NULL;
}

/* Of the end that accepts. */
static int find_key(SSL *tls, const unsigned char *id, size_t id_length, SSL_SESSION **session)
{
    const bool ours = id_length == sizeof identity && memcmp(id, identity, id_length) == 0;
    *session = ours ? session_of_key(tls) : NULL;
    return 1;
}

/* --- the socket --- */

/* Records of TLS have 16 KiB at most, and a call of the kernel for each would take most of the
 * time: they pass through buffers. */
struct stream_buffer {
    size_t at, end;
    uint8_t bytes[1 << 18];
};

/* Send what the socket takes. False: not all of it, with errno. */
static bool flush(struct stream *stream)
{
    struct stream_buffer *out = stream->out;
    while (out->at < out->end) {
        const ssize_t sent =
            send(stream->socket, out->bytes + out->at, out->end - out->at, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        out->at += (size_t)sent;
    }
    out->at = out->end = 0;
    return true;
}

static bool may_come_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int bio_write(BIO *bio, const char *bytes, int count)
{
    struct stream *stream = BIO_get_data(bio);
    struct stream_buffer *out = stream->out;
    BIO_clear_retry_flags(bio);
    if (sizeof out->bytes - out->end < (size_t)count && !flush(stream)) {
        if (may_come_later())
            BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(out->bytes + out->end, bytes, (size_t)count); /* a record, which there is room for */
    out->end += (size_t)count;
    return count;
}

static int bio_read(BIO *bio, char *bytes, int count)
{
    struct stream *stream = BIO_get_data(bio);
    struct stream_buffer *in = stream->in;
    BIO_clear_retry_flags(bio);
    if (in->at == in->end) {
        const ssize_t come = recv(stream->socket, in->bytes, sizeof in->bytes, 0);
        if (come < 0 && may_come_later())
            BIO_set_retry_read(bio);
        if (come <= 0)
            return (int)come;
        in->at = 0;
        in->end = (size_t)come;
    }
    if ((size_t)count > in->end - in->at)
        count = (int)(in->end - in->at);
    memcpy(bytes, in->bytes + in->at, (size_t)count);
    in->at += (size_t)count;
    return count;
}

/* A handshake flushes what the other end waits for. */
static long bio_control(BIO *bio, int command, long number, void *of)
{
    (void)number, (void)of;
    return command == BIO_CTRL_FLUSH && flush(BIO_get_data(bio));
}

static BIO_METHOD *method; /* NULL: no memory */

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    if (!method)
        return;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
}

static BIO *bio_new(struct stream *stream)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* several threads open streams */
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, stream);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* --- the beginning and the end --- */

static SSL *tls_new(struct stream *stream, const uint8_t *key)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!context)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_psk_use_session_callback(context, offer_key);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    SSL *tls = SSL_new(context);
    SSL_CTX_free(context); /* the connection keeps it */
    BIO *bio = tls ? bio_new(stream) : NULL;
    if (!bio) {
        SSL_free(tls);
        return NULL;
    }
    SSL_set_bio(tls, bio, bio);
    SSL_set_app_data(tls, (void *)(uintptr_t)key);
    return tls;
}

/* −1 where `done` is an error that waiting does not change; else 0. */
static int64_t result_of(const struct stream *stream, int done)
{
    const int error = SSL_get_error(stream->tls, done);
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? 0 : -1;
}

/* A session without the key is one of certificates. The end that accepts has none, so that there is
 * no such session; the end that connects may be shown one, and would take any: it must ask. */
static bool has_proven(const struct stream *stream, bool accepts, int seconds)
{
    const uint64_t end_us = clock_us() + (uint64_t)seconds * 1000000;
    for (;;) {
        ERR_clear_error();
        const int done = accepts ? SSL_accept(stream->tls) : SSL_connect(stream->tls);
        if (done == 1)
            return SSL_session_reused(stream->tls);
        const uint64_t now_us = clock_us();
        if (result_of(stream, done) < 0 || now_us >= end_us)
            return false;
        struct pollfd poll_in = {.fd = stream->socket, .events = POLLIN};
        poll(&poll_in, 1, (int)((end_us - now_us) / 1000) + 1);
    }
}

bool stream_open(struct stream *stream, int socket, bool accepts, const uint8_t key[SHA256_BYTES],
                 int seconds, const char **why)
{
    const int on = 1;
    *stream = (struct stream){.socket = socket,
                              .in = calloc(1, sizeof *stream->in),
                              .out = calloc(1, sizeof *stream->out)};
    stream->tls = stream->in && stream->out ? tls_new(stream, key) : NULL;
    limit_waits(socket, seconds);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (stream->tls && fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) == 0 &&
        has_proven(stream, accepts, seconds))
        return true;
    *why = stream->tls ? "the other end has another cluster key, or is none of ours" : "no memory";
    stream_close(stream);
    return false;
}

void stream_close(struct stream *stream)
{
    SSL_free(stream->tls);
    free(stream->in);
    free(stream->out);
    close(stream->socket);
    *stream = (struct stream){.socket = -1};
}

/* --- bytes --- */

static int at_once(size_t bytes)
{
    return bytes < MOST ? (int)bytes : MOST;
}

int64_t stream_read(struct stream *stream, void *bytes, size_t size)
{
    ERR_clear_error(); /* SSL_get_error() looks at it */
    const int done = SSL_read(stream->tls, bytes, at_once(size));
    return done > 0 ? done : result_of(stream, done);
}

/* OpenSSL leaves that to us. While a part of a record waits, it refuses: then after that. */
static void renew_key(struct stream *stream)
{
    if (SSL_key_update(stream->tls, SSL_KEY_UPDATE_NOT_REQUESTED))
        stream->records = 0;
}

int64_t stream_write(struct stream *stream, const void *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        if (stream->records >= STREAM_KEY_RECORDS)
            renew_key(stream);
        ERR_clear_error();
        const int some =
            SSL_write(stream->tls, (const uint8_t *)bytes + done, at_once(size - done));
        if (some <= 0 && result_of(stream, some) < 0)
            return -1;
        if (some <= 0)
            break;
        done += (size_t)some;
        stream->records += ((size_t)some + STREAM_RECORD_BYTES - 1) / STREAM_RECORD_BYTES;
    }
    return (int64_t)done;
}

bool stream_flush(struct stream *stream)
{
    return flush(stream) || may_come_later();
}

bool stream_waits(const struct stream *stream)
{
    return stream->out->at < stream->out->end;
}

/* --- on threads that wait --- */

bool stream_wait_for_bytes(struct stream *stream)
{
    const int flags = fcntl(stream->socket, F_GETFL);
    return fcntl(stream->socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

bool stream_read_all(struct stream *stream, void *bytes, size_t count, int silences)
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

bool stream_write_all(struct stream *stream, const void *bytes, size_t count)
{
    return stream_write(stream, bytes, count) == (int64_t)count;
}

bool stream_flush_all(struct stream *stream)
{
    return stream_flush(stream) && !stream_waits(stream);
}
