/* An encrypted stream between two nodes: TLS 1.3 over TCP. Both ends prove that they have the
 * cluster's key (a pre-shared key, with an ephemeral Diffie-Hellman exchange), so that neither
 * needs a certificate. */
#pragma once

#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STREAM_KEY_LEAST = 16, /* bytes of the file, at least */
    /* Records that an end writes with one key of the session, which it then renews; RFC 8446, 5.5
     * allows five times as many. */
    STREAM_KEY_RECORDS = 1 << 22,
    STREAM_RECORD_BYTES = 1 << 14 /* at most */
};

struct stream {
    void *tls;                      /* owned */
    int socket;                     /* owned */
    struct stream_buffer *in, *out; /* of bytes as they are on the socket; owned */
    uint64_t records;               /* written with the present key */
};

/* The key in that file, which nobody but its owner and group may read: the digest of what it holds,
 * without white space at its end. NULL, or why it cannot be had. */
const char *stream_read_key(const char *path, uint8_t key[SHA256_BYTES]);

/* A connection to "HOST:PORT"; −1: `why` says so. Waits for it, `seconds` at most for each address.
 */
int stream_connect(const char *address, int seconds, const char **why);

/* Prove the key to the other end, and have it proven; waits for that, `seconds` at most. The socket
 * is the stream's from here on. From then on nothing waits. False: closed; `why` says so. */
bool stream_open(struct stream *stream, int socket, bool accepts, const uint8_t key[SHA256_BYTES],
                 int seconds, const char **why);
void stream_close(struct stream *stream);

/* At most `size` bytes: how many; 0: none until poll() tells of the socket; −1: the other end has
 * closed, or the stream is broken. What is written is kept until stream_flush(), or until there is
 * much of it. */
int64_t stream_read(struct stream *stream, void *bytes, size_t size);
int64_t stream_write(struct stream *stream, const void *bytes, size_t size);
/* Send what was written, as far as the socket takes it. False: it is closed. */
bool stream_flush(struct stream *stream);
/* Is some of it left? */
bool stream_waits(const struct stream *stream);

/* For a thread of its own: from here on reads and writes wait, for the seconds of stream_open() at
 * most. The others return false when the stream is of no more use. silences: how often nothing may
 * come for so long; −1: any number. */
bool stream_wait_for_bytes(struct stream *stream);
bool stream_read_all(struct stream *stream, void *bytes, size_t count, int silences);
bool stream_write_all(struct stream *stream, const void *bytes, size_t count);
bool stream_flush_all(struct stream *stream);
