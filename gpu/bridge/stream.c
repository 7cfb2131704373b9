#include "gpu/bridge/stream.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
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
    while (count > 0 && isspace(bytes[count - 1]))
        count--;
    if (!known || (stat.st_mode & (S_IWGRP | S_IRWXO)))
        return "others than its owner and its group have access to it";
    if (count < STREAM_KEY_LEAST || count == KEY_FILE_MOST)
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
    char host[256];
    const char *colon = strrchr(address, ':');
    const size_t length = colon ? (size_t)(colon - address) : sizeof host;
    *why = "the address is no HOST:PORT";
    if (length >= sizeof host)
        return -1;
    memcpy(host, address, length);
    host[length] = 0;
    const int error = getaddrinfo(host, colon + 1, &hints, &found);
    if (error) {
        *why = gai_strerror(error);
        return -1;
    }
    int one = -1;
    for (const struct addrinfo *at = found; at && one < 0; at = at->ai_next) {
        one = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (one >= 0)
            limit_waits(one, seconds);
        if (one < 0 || connect(one, at->ai_addr, at->ai_addrlen) == 0)
            continue;
        *why = strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
        close(one);
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

static SSL *tls_new(int socket, const uint8_t *key)
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
    if (!tls || !SSL_set_fd(tls, socket)) {
        SSL_free(tls);
        return NULL;
    }
    SSL_set_app_data(tls, (void *)(uintptr_t)key);
    return tls;
}

/* A session without the key would be one of certificates, of which there are none; the question
 * costs nothing. */
static bool has_proven(SSL *tls, bool accepts)
{
    const int done = accepts ? SSL_accept(tls) : SSL_connect(tls);
    return done == 1 && SSL_session_reused(tls);
}

bool stream_open(struct stream *stream, int socket, bool accepts, const uint8_t key[SHA256_BYTES],
                 int seconds, const char **why)
{
    const int on = 1;
    *stream = (struct stream){.tls = tls_new(socket, key), .socket = socket};
    limit_waits(socket, seconds);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int flags = fcntl(socket, F_GETFL);
    const bool blocks = fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
    if (blocks && stream->tls && has_proven(stream->tls, accepts) &&
        fcntl(socket, F_SETFL, flags | O_NONBLOCK) == 0)
        return true;
    *why = stream->tls ? "the other end has another cluster key, or is none of ours" : "no memory";
    stream_close(stream);
    return false;
}

void stream_close(struct stream *stream)
{
    SSL_free(stream->tls);
    close(stream->socket);
    *stream = (struct stream){.socket = -1};
}

/* --- bytes --- */

static int64_t result_of(struct stream *stream, int done)
{
    const int error = done > 0 ? SSL_ERROR_NONE : SSL_get_error(stream->tls, done);
    if (done > 0)
        return done;
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? 0 : -1;
}

int64_t stream_read(struct stream *stream, void *bytes, size_t size)
{
    ERR_clear_error(); /* SSL_get_error() looks at it */
    return result_of(stream, SSL_read(stream->tls, bytes, size < MOST ? (int)size : MOST));
}

int64_t stream_write(struct stream *stream, const void *bytes, size_t size)
{
    ERR_clear_error();
    return result_of(stream, SSL_write(stream->tls, bytes, size < MOST ? (int)size : MOST));
}
