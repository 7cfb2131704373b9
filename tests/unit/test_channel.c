/* The channel over a real socketpair: whole messages with their descriptors, order kept when the
 * socket is full, and an end that sends anything else is not trusted. */
#include "gpu/worker/channel.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST(test_a_message_arrives_whole, setup, teardown)
{
    struct channel_message sent, received;
    int descriptor = 5;
    memset(&sent, 0xc3, sizeof sent);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_AGAIN);
    assert_int_equal(descriptor, -1);
    assert_int_equal(channel_send(ends[0], &sent, -1), CHANNEL_OK);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_OK);
    assert_memory_equal(&sent, &received, sizeof sent);
    assert_int_equal(descriptor, -1);
}

TEST(test_a_descriptor_arrives, setup, teardown)
{
    const struct channel_message sent = numbered(1);
    struct channel_message received;
    struct stat before, after;
    int pipes[2], descriptor;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(channel_send(ends[0], &sent, pipes[0]), CHANNEL_OK);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_OK);
    assert_true(descriptor >= 0 && descriptor != pipes[0]);
    assert_int_equal(fstat(pipes[0], &before), 0);
    assert_int_equal(fstat(descriptor, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
    close(descriptor);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(test_another_size_ends_the_trust, setup, teardown)
{
    struct channel_message received;
    static uint8_t bytes[sizeof received * (CHANNEL_PACKET + 1)];
    int descriptor;
    assert_int_equal(send(ends[0], bytes, sizeof received - 1, 0), sizeof received - 1);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_CLOSED);
    assert_int_equal(send(ends[0], bytes, sizeof received + 1, 0), sizeof received + 1);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_CLOSED);
    assert_int_equal(send(ends[0], bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_CLOSED);
}

/* A packet that is not taken takes its descriptor with it: a pipe's other end sees it closed. */
TEST(test_a_descriptor_of_another_size_is_closed, setup, teardown)
{
    struct channel_message received;
    uint8_t bytes[sizeof received - 1] = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {{0}};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    int pipes[2], descriptor;
    assert_int_equal(pipe(pipes), 0);
    *CMSG_FIRSTHDR(&header) = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), &pipes[1], sizeof(int));
    assert_int_equal(sendmsg(ends[0], &header, 0), sizeof bytes);
    close(pipes[1]);
    assert_int_equal(channel_receive(ends[1], &inbox, &received, &descriptor), CHANNEL_CLOSED);
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
        /* Bursts, so that the queue is filled, part drained, and wraps around. */
        for (int i = 0; i < 700 && sent < COUNT; i++, sent++) {
            const struct channel_message message = numbered(sent);
            assert_true(channel_queue_push(&queue, &message, -1));
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
        assert_true(channel_queue_push(&queue, &message, -1));
    }
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    const uint32_t counts[] = {CHANNEL_PACKET, CHANNEL_PACKET, 1};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(recv(ends[1], packet.messages, sizeof packet.messages, MSG_DONTWAIT),
                         counts[i] * sizeof message);
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
        assert_true(channel_queue_push(&queue, &message, i % 4 == 2 ? dup(pipes[0]) : -1));
    }
    assert_int_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(channel_receive(ends[1], &inbox, &message, &descriptor), CHANNEL_OK);
        assert_int_equal(message.u.copy.tag, i);
        assert_int_equal(descriptor >= 0, i % 4 == 2);
        if (descriptor >= 0)
            close(descriptor);
    }
    /* One that is never sent is closed with the queue. */
    const int last = dup(pipes[0]);
    assert_true(channel_queue_push(&queue, &message, last));
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
        assert_true(channel_queue_push(&queue, &message, -1));
    }
    assert_int_equal(channel_receive(ends[1], &inbox, &message, &descriptor), CHANNEL_AGAIN);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_not_equal(channel_queue_flush(&queue, ends[0]), CHANNEL_CLOSED);
        assert_int_equal(channel_receive(ends[1], &inbox, &message, &descriptor), CHANNEL_OK);
        assert_int_equal(message.u.copy.tag, i);
    }
    channel_queue_free(&queue);
}
