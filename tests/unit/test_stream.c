/* Two ends of a stream, with the same key or not. */
#include "gpu/bridge/stream.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct end {
    struct stream stream;
    int socket;
    bool accepts, is_open;
    uint8_t key[SHA256_BYTES];
    const char *why;
};

static void *open_end(void *of)
{
    struct end *end = of;
    end->is_open = stream_open(&end->stream, end->socket, end->accepts, end->key, 5, &end->why);
    return NULL;
}

/* Both ends of a connection, with these first bytes of the key. */
static void open_both(struct end ends[2], uint8_t one, uint8_t other)
{
    int sockets[2];
    pthread_t thread;
    signal(SIGPIPE, SIG_IGN); /* as in every process of ours */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    memset(ends, 0, 2 * sizeof *ends);
    for (int i = 0; i < 2; i++) {
        ends[i].socket = sockets[i];
        ends[i].accepts = i == 1;
        ends[i].key[0] = i ? other : one;
    }
    pthread_create(&thread, NULL, open_end, &ends[1]);
    open_end(&ends[0]);
    pthread_join(thread, NULL);
}

/* All of it, from one end to the other; nothing waits for ever. */
static void pass(struct stream *from, struct stream *to, size_t bytes)
{
    uint8_t *sent = malloc(bytes), *come = malloc(bytes);
    size_t out = 0, in = 0;
    for (size_t i = 0; i < bytes; i++)
        sent[i] = (uint8_t)rand();
    while (in < bytes) {
        const int64_t w = out < bytes ? stream_write(from, sent + out, bytes - out) : 0;
        const int64_t r = stream_read(to, come + in, bytes - in);
        assert_true(w >= 0 && r >= 0 && stream_flush(from));
        out += (size_t)w;
        in += (size_t)r;
    }
    assert_memory_equal(sent, come, bytes);
    free(sent);
    free(come);
}

TEST(test_bytes_pass_both_ways)
{
    struct end ends[2];
    open_both(ends, 1, 1);
    assert_true(ends[0].is_open && ends[1].is_open);
    pass(&ends[0].stream, &ends[1].stream, 5 << 20);
    pass(&ends[1].stream, &ends[0].stream, 5 << 20);
    uint8_t byte;
    assert_int_equal(stream_read(&ends[0].stream, &byte, 1), 0);
    stream_close(&ends[1].stream);
    assert_int_equal(stream_read(&ends[0].stream, &byte, 1), -1);
    stream_close(&ends[0].stream);
}

TEST(test_a_key_is_not_used_for_ever)
{
    struct end ends[2];
    open_both(ends, 1, 1);
    for (int i = 0; i < 2; i++) {
        ends[i].stream.records = STREAM_KEY_RECORDS - 64;
        pass(&ends[i].stream, &ends[!i].stream, 5 << 20);
        assert_true(ends[i].stream.records < STREAM_KEY_RECORDS - 64);
        pass(&ends[!i].stream, &ends[i].stream, 5 << 20);
    }
    stream_close(&ends[0].stream);
    stream_close(&ends[1].stream);
}

TEST(test_another_key_opens_nothing)
{
    struct end ends[2];
    open_both(ends, 1, 2);
    assert_true(!ends[0].is_open && !ends[1].is_open);
    assert_non_null(strstr(ends[1].why, "another cluster key"));
}

TEST(test_bytes_on_the_way_are_not_to_be_changed)
{
    struct end ends[2];
    uint8_t raw[512], byte;
    open_both(ends, 1, 1);
    assert_int_equal(stream_write(&ends[0].stream, "secret", 6), 6);
    assert_true(stream_waits(&ends[0].stream));
    assert_true(stream_flush(&ends[0].stream));
    assert_false(stream_waits(&ends[0].stream));
    const ssize_t count = recv(ends[1].stream.socket, raw, sizeof raw, 0);
    assert_true(count > 6);
    for (ssize_t i = 0; i + 6 <= count; i++)
        assert_memory_not_equal(raw + i, "secret", 6);
    raw[count - 1] ^= 1;
    assert_int_equal(send(ends[0].stream.socket, raw, (size_t)count, 0), count);
    assert_int_equal(stream_read(&ends[1].stream, &byte, 1), -1);
    stream_close(&ends[0].stream);
    stream_close(&ends[1].stream);
}

enum { HELLO = 100 /* bytes, each a twentieth of a second after the other */ };

/* The begin of a handshake, byte by byte, until the other end has closed. */
static void *dribble(void *of)
{
    static const uint8_t hello[HELLO] = {22, 3, 1, 2, 0, 1}; /* of more bytes than these */
    int *sent = of;
    const int socket = *sent;
    for (*sent = 0; *sent < HELLO && write(socket, &hello[*sent], 1) == 1; (*sent)++)
        usleep(50000);
    close(socket);
    return NULL;
}

TEST(test_a_slow_handshake_ends)
{
    const uint8_t key[SHA256_BYTES] = {1};
    struct stream stream;
    const char *why;
    pthread_t thread;
    int sockets[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pthread_create(&thread, NULL, dribble, &sockets[0]);
    assert_false(stream_open(&stream, sockets[1], true, key, 1, &why));
    pthread_join(thread, NULL);
    assert_true(sockets[0] < HELLO);
}

static const char *key_of(const char *text, mode_t mode, uint8_t key[SHA256_BYTES])
{
    char path[] = "/tmp/fdserver-key-XXXXXX";
    const int file = mkstemp(path);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(file, mode);
    close(file);
    const char *why = stream_read_key(path, key);
    unlink(path);
    return why;
}

TEST(test_keys)
{
    uint8_t one[SHA256_BYTES], other[SHA256_BYTES];
    assert_null(key_of("0123456789abcdef", 0600, one));
    assert_null(key_of("0123456789abcdef \n\n", 0400, other));
    assert_memory_equal(one, other, SHA256_BYTES);
    assert_null(key_of("0123456789abcdeg", 0600, other));
    assert_memory_not_equal(one, other, SHA256_BYTES);
    assert_non_null(key_of("0123456789abcde\n", 0600, other));
    assert_null(key_of("0123456789abcdef", 0640, other));
    assert_non_null(key_of("0123456789abcdef", 0604, other));
    assert_non_null(key_of("0123456789abcdef", 0620, other));
    assert_non_null(stream_read_key("/nonexistent", other));
}
