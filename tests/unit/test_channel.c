/* The channel over a real socketpair: complete messages with their descriptors, kept in order when
 * the socket is full, and checks of everything that the other end sends. */
#include "base/rights.h"
#include "gpu/worker/channel.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = CHANNEL_HEAD_BYTES };

static int ends[2];
static struct channel_inbox inbox; /* of ends[1] */

static int setup(void **state)
{
    memset(&inbox, 0, sizeof inbox);
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

static int teardown(void **state)
{
    close(ends[0]);
    return close(ends[1]);
}

static struct channel_message numbered(uint64_t tag)
{
    struct channel_message message = {.type = CHANNEL_COPIED};
    message.u.copy.tag = tag;
    return message;
}

/* The next message, and its descriptor or −1. */
static struct channel_message received(int *descriptor)
{
    struct channel_message message;
    assert_int_equal(channel_receive(ends[1], &inbox, &message, descriptor), CHANNEL_OK);
    return message;
}

static void nothing_received(void)
{
    struct channel_message message;
    int descriptor = 5;
    assert_int_equal(channel_receive(ends[1], &inbox, &message, &descriptor), CHANNEL_AGAIN);
    assert_int_equal(descriptor, -1);
}

TEST(test_a_message_arrives_whole, setup, teardown)
{
    struct channel_message sent;
    int descriptor;
    memset(&sent, 0xc3, sizeof sent);
    sent.type = CHANNEL_FINISHED;
    nothing_received();
    assert_int_equal(channel_send(ends[0], &sent, -1), CHANNEL_OK);
    const struct channel_message got = received(&descriptor);
    assert_memory_equal(&sent.u.job, &got.u.job, sizeof sent.u.job);
    assert_int_equal(got.type, CHANNEL_FINISHED);
    assert_int_equal(got.status, sent.status);
    assert_int_equal(got.version, CHANNEL_VERSION);
    assert_int_equal(descriptor, -1);
}

TEST(test_a_descriptor_arrives, setup, teardown)
{
    const struct channel_message sent = numbered(1);
    struct stat before, after;
    int pipes[2], descriptor;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(channel_send(ends[0], &sent, pipes[0]), CHANNEL_OK);
    received(&descriptor);
    assert_true(descriptor >= 0 && descriptor != pipes[0]);
    assert_int_equal(fstat(pipes[0], &before), 0);
    assert_int_equal(fstat(descriptor, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
    close(descriptor);
    close(pipes[0]);
    close(pipes[1]);
}

/* A PING record with something else in its head. */
static size_t ping_record(uint8_t *to, uint32_t bytes, uint16_t version, uint16_t type)
{
    const struct channel_message message = {.bytes = bytes, .version = version, .type = type};
    memcpy(to, &message, HEAD_BYTES);
    return HEAD_BYTES;
}

TEST(test_what_is_no_record_ends_the_trust, setup, teardown)
{
    static const struct {
        uint32_t bytes;
        uint16_t version, type;
        size_t packet_bytes;
    } cases[] = {
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES - 1},
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES + 1},
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_PING, 1},
        {HEAD_BYTES - 8, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES},
        {HEAD_BYTES + 8, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES + 8},
        {0, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES},
        {UINT32_MAX - 7, CHANNEL_VERSION, CHANNEL_PING, HEAD_BYTES},
        {HEAD_BYTES, CHANNEL_VERSION + 1, CHANNEL_PING, HEAD_BYTES},
        {HEAD_BYTES, 0, CHANNEL_PING, HEAD_BYTES},
        {HEAD_BYTES, CHANNEL_VERSION, 0, HEAD_BYTES},
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_MEASURE + 1, HEAD_BYTES},
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_TYPES, HEAD_BYTES},
        {HEAD_BYTES, CHANNEL_VERSION, CHANNEL_RUN, HEAD_BYTES},
        {CHANNEL_RUN_BYTES - 8, CHANNEL_VERSION, CHANNEL_RUN, CHANNEL_RUN_BYTES},
        {CHANNEL_RUN_BYTES + 4, CHANNEL_VERSION, CHANNEL_RUN, CHANNEL_RUN_BYTES + 4},
        {CHANNEL_RUN_BYTES + 8, CHANNEL_VERSION, CHANNEL_RUN, CHANNEL_RUN_BYTES},
        {CHANNEL_PACKET_BYTES + 8, CHANNEL_VERSION, CHANNEL_RUN, CHANNEL_PACKET_BYTES + 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static uint8_t packet[CHANNEL_PACKET_BYTES + 8];
        struct channel_message received;
        int descriptor;
        enum channel_result result = CHANNEL_OK;
        memset(&inbox, 0, sizeof inbox);
        ping_record(packet, cases[i].bytes, cases[i].version, cases[i].type);
        assert_int_equal(send(ends[0], packet, cases[i].packet_bytes, 0), cases[i].packet_bytes);
        while (result == CHANNEL_OK)
            result = channel_receive(ends[1], &inbox, &received, &descriptor);
        if (result != CHANNEL_BROKEN)
            fail_msg("case %d: %d", (int)i, result);
    }
}

/* Any bytes: only complete records are returned, and nothing is read beyond the packet (with which
 * the inbox ends, so that AddressSanitizer would report it). */
TEST(test_random_packets, setup, teardown)
{
    uint64_t seed = 88172645463325252, taken = 0, broken = 0;
    uint8_t packet[2048];
    for (int i = 0; i < 20000; i++) {
        size_t bytes = 0;
        while (bytes < sizeof packet - CHANNEL_RUN_BYTES && (bytes == 0 || seed % 8)) {
            const uint16_t type = seed % 3 ? CHANNEL_PING : (uint16_t)(seed >> 8) % CHANNEL_TYPES;
            ping_record(packet + bytes, seed >> 40 & 7 ? HEAD_BYTES : (uint32_t)(seed >> 50),
                        seed >> 20 & 15 ? CHANNEL_VERSION : (uint16_t)seed, type);
            bytes += HEAD_BYTES + (seed >> 32 & 15 ? 0 : (seed >> 16) % 100);
            for (size_t k = 0; k < 3; k++) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
            }
        }
        struct channel_message received;
        int descriptor;
        enum channel_result result;
        assert_int_equal(send(ends[0], packet, bytes, 0), bytes);
        memset(&inbox, 0, sizeof inbox);
        do {
            result = channel_receive(ends[1], &inbox, &received, &descriptor);
            assert_true(result != CHANNEL_OK || inbox.at <= inbox.bytes);
            taken += result == CHANNEL_OK;
        } while (result == CHANNEL_OK);
        assert_true(result == CHANNEL_AGAIN || result == CHANNEL_BROKEN);
        broken += result == CHANNEL_BROKEN;
    }
    assert_true(taken > 1000 && broken > 1000 && broken < 20000);
}

static struct channel_message run_with_block(uint64_t block_bytes)
{
    struct channel_message message = {.type = CHANNEL_RUN};
    message.u.run.id = block_bytes;
    message.u.run.job.more.block_bytes = block_bytes;
    return message;
}

/* In the record if it fits into a packet, else in a sealed memfd: in both cases the other end has a
 * copy. */
TEST(test_blocks_arrive, setup, teardown)
{
    enum { FITS = CHANNEL_PACKET_BYTES - CHANNEL_RUN_BYTES };
    static const uint64_t sizes[] = {0, 8, FITS, FITS + 8, 8, 1 << 20, FITS, 16};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    static uint8_t block[1 << 20];
    struct channel_queue queue = {0};
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)(i * 7 + i / 4096);
    for (size_t i = 0; i < COUNT; i++) {
        const struct channel_message message = run_with_block(sizes[i]);
        assert_true(channel_queue_push(&queue, &message, block, -1));
    }
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    memset(block, 0, sizeof block); /* what was sent does not change any more */
    for (size_t i = 0; i < COUNT; i++) {
        uint8_t *copy;
        int descriptor;
        const struct channel_message message = received(&descriptor);
        assert_int_equal(message.u.run.id, sizes[i]);
        assert_int_equal(descriptor >= 0, sizes[i] > FITS);
        assert_null(channel_block(&inbox, descriptor, sizes[i], &copy));
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(copy[k], (uint8_t)(k * 7 + k / 4096));
        if (descriptor >= 0) { /* nor can it be, by either end */
            assert_int_equal(pwrite(descriptor, "?", 1, 0), -1);
            assert_int_equal(ftruncate(descriptor, 0), -1);
            close(descriptor);
        }
        free(copy);
    }
    channel_queue_free(&queue);
}

/* Without a free descriptor the RUN and later messages wait. */
TEST(test_a_long_block_waits_for_a_descriptor, setup, teardown)
{
    static uint8_t block[1 << 17];
    struct channel_queue queue = {0};
    struct channel_message message = run_with_block(sizeof block);
    struct rlimit limit, none;
    int descriptor;
    assert_true(channel_queue_push(&queue, &message, block, -1));
    message = numbered(7);
    assert_true(channel_queue_push(&queue, &message, NULL, -1));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_AGAIN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    nothing_received();
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    assert_int_equal(received(&descriptor).type, CHANNEL_RUN);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(received(&descriptor).u.copy.tag, 7);
    channel_queue_free(&queue);
}

/* The descriptor of a refused packet is closed: the pipe's other end sees it. */
TEST(test_a_descriptor_of_another_size_is_closed, setup, teardown)
{
    struct channel_message received;
    uint8_t bytes[HEAD_BYTES - 1] = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    int pipes[2], descriptor;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(rights_send(ends[0], &part, 1, pipes[1]), sizeof bytes);
    close(pipes[1]);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_BROKEN);
    assert_int_equal(descriptor, -1);
    assert_int_equal(fcntl(pipes[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(pipes[0], bytes, 1), 0); /* nobody can write any more */
    close(pipes[0]);
}

TEST(test_closed, setup, teardown)
{
    const struct channel_message sent = numbered(1);
    struct channel_message received;
    int descriptor;
    shutdown(ends[0], SHUT_RDWR);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_CLOSED);
    assert_int_equal(channel_send(ends[1], &sent, -1), CHANNEL_CLOSED);
}

TEST(test_a_full_socket_keeps_the_order, setup, teardown)
{
    enum { COUNT = 5000 };
    struct channel_queue queue = {0};
    uint64_t sent = 0, received = 0;
    while (received < COUNT) {
        /* Bursts, so that the queue fills, is partly drained, and wraps around. */
        for (int i = 0; i < 700 && sent < COUNT; i++, sent++) {
            const struct channel_message message = numbered(sent);
            assert_true(channel_queue_push(&queue, &message, NULL, -1));
        }
        for (int i = 0; i < 300; i++) {
            struct channel_message message;
            int descriptor;
            if (channel_receive(ends[1], &inbox, &message, &descriptor) != CHANNEL_OK)
                break;
            assert_int_equal(message.u.copy.tag, received);
            received++;
        }
        assert_int_not_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_CLOSED);
    }
    assert_int_equal(queue.count, 0);
    channel_queue_free(&queue);
}

TEST(test_a_flush_sends_few_packets, setup, teardown)
{
    enum { COUNT = 2 * CHANNEL_PACKET + 1 };
    struct channel_queue queue = {0};
    struct channel_message message;
    struct channel_inbox packet;
    for (uint64_t i = 0; i < COUNT; i++) {
        message = numbered(i);
        assert_true(channel_queue_push(&queue, &message, NULL, -1));
    }
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    const uint32_t counts[] = {CHANNEL_PACKET, CHANNEL_PACKET, 1};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(recv(ends[1], packet.packet, sizeof packet.packet, MSG_DONTWAIT),
                         counts[i] * (HEAD_BYTES + sizeof message.u.copy));
    channel_queue_free(&queue);
}

TEST(test_descriptors_keep_to_their_messages, setup, teardown)
{
    enum { COUNT = 10 };
    struct channel_queue queue = {0};
    struct channel_message message;
    int pipes[2], descriptor;
    assert_int_equal(pipe(pipes), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        message = numbered(i);
        assert_true(channel_queue_push(&queue, &message, NULL, i % 4 == 2 ? dup(pipes[0]) : -1));
    }
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(received(&descriptor).u.copy.tag, i);
        assert_int_equal(descriptor >= 0, i % 4 == 2);
        if (descriptor >= 0)
            close(descriptor);
    }
    /* A descriptor that is never sent is closed with the queue. */
    const int last = dup(pipes[0]);
    assert_true(channel_queue_push(&queue, &message, NULL, last));
    channel_queue_free(&queue);
    assert_int_equal(fcntl(last, F_GETFD), -1);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(test_pushed_messages_wait_for_a_flush, setup, teardown)
{
    struct channel_queue queue = {0};
    struct channel_message message;
    int descriptor;
    for (uint64_t i = 0; i < 100; i++) {
        message = numbered(i);
        assert_true(channel_queue_push(&queue, &message, NULL, -1));
    }
    nothing_received();
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_not_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_CLOSED);
        assert_int_equal(received(&descriptor).u.copy.tag, i);
    }
    channel_queue_free(&queue);
}

/* The room of a burst is freed when all of it was sent, that of everyday use is kept. */
TEST(test_a_burst_leaves_no_room_behind, setup, teardown)
{
    static const uint32_t bursts[] = {5000, 1000, 1};
    struct channel_queue queue = {0};
    uint64_t sent = 0, received = 0;
    for (size_t i = 0; i < sizeof bursts / sizeof *bursts; i++) {
        for (const uint64_t end = sent + bursts[i]; sent < end; sent++) {
            const struct channel_message message = numbered(sent);
            assert_true(channel_queue_push(&queue, &message, NULL, -1));
        }
        const uint32_t most = queue.capacity;
        assert_true(most >= bursts[i]);
        while (received < sent) {
            struct channel_message message;
            int descriptor;
            assert_int_not_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_CLOSED);
            while (channel_receive(ends[1], &inbox, &message, &descriptor) == CHANNEL_OK)
                assert_int_equal(message.u.copy.tag, received++);
        }
        assert_int_equal(queue.count, 0);
        assert_int_equal(queue.pushed, sent);
        assert_int_equal(queue.capacity, most > 1024 ? 0 : most);
        assert_int_equal(queue.items != NULL, most <= 1024);
    }
    channel_queue_free(&queue);
}
