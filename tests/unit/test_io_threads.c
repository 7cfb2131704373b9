/* I/O threads transfer their payload, report the outcome on the loop, and leave nothing behind. */
#include "base/rights.h"
#include "server/io/io_threads.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LEAST = LOAD_BYTES_LEAST, PAIRS = 8, ROUNDS = 50 };

static uv_loop_t loop;
static struct io_threads io_threads;
static uv_thread_t loop_thread;
static const int somebody, somebody_else;

/* One connection: its ends, and the bytes in flight between them. */
struct pair {
    int near, far; /* near: the io_threads' */
    uint8_t sent[2 * LEAST], received[2 * LEAST];
    struct passing_account account;
    struct passed_descriptor passed;
    ssize_t moved;
    int error, calls;
    int rounds; /* to come */
};

static struct pair pairs[PAIRS];

static int open_io_threads(void **state)
{
    loop_thread = uv_thread_self();
    if (uv_loop_init(&loop) != 0 || !io_threads_open(&io_threads, &loop, IO_THREADS_MOST))
        return -1;
    io_threads_meet(&io_threads, &somebody);
    io_threads_meet(&io_threads, &somebody_else);
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = &pairs[i];
        memset(pair, 0, sizeof *pair);
        pair->passed = (struct passed_descriptor){.account = &pair->account, .descriptor = -1};
        for (size_t j = 0; j < sizeof pair->sent; j++)
            pair->sent[j] = (uint8_t)(j * 7 + j / 251 + (size_t)i);
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
            return -1;
        pair->near = ends[0];
        pair->far = ends[1];
    }
    return 0;
}

static int close_io_threads(void **state)
{
    io_threads_close(&io_threads);
    io_threads_close(&io_threads); /* harmless */
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < PAIRS; i++) {
        passing_forget(&pairs[i].passed);
        while (pairs[i].account.awaiting) /* a closer's thread counts there */
            usleep(1000);
        close(pairs[i].near);
        if (pairs[i].far >= 0)
            close(pairs[i].far);
    }
    return uv_loop_close(&loop);
}

static void on_ended(void *context, ssize_t moved, int error)
{
    struct pair *pair = context;
    const uv_thread_t self = uv_thread_self();
    assert_true(uv_thread_equal(&loop_thread, &self));
    pair->moved = moved;
    pair->error = error;
    pair->calls++;
}

/* On a slow machine the preceding work may take so long that one connection counts as alone. */
static void meet_both(void)
{
    io_threads_meet(&io_threads, &somebody);
    io_threads_meet(&io_threads, &somebody_else);
}

static void wait_for(const struct pair *pair, int calls)
{
    while (pair->calls < calls)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(pair->calls, calls);
    meet_both();
}

static bool receive(struct pair *pair, void *memory, size_t bytes)
{
    return io_threads_receive(&io_threads, pair->near, memory, bytes, &pair->passed, on_ended,
                              pair);
}

static bool send_it(struct pair *pair, size_t bytes)
{
    const struct iovec pieces[] = {{pair->sent, 1}, {pair->sent + 1, bytes - 1}};
    return io_threads_send(&io_threads, pair->near, pieces, 2, on_ended, pair);
}

TEST(bytes_are_received, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    assert_int_equal(send(pair->far, pair->sent, LEAST / 2, 0), LEAST / 2);
    assert_true(receive(pair, pair->received, LEAST));
    wait_for(pair, 1);
    assert_int_equal(pair->moved, LEAST / 2); /* as many as there are */
    assert_memory_equal(pair->received, pair->sent, LEAST / 2);
    assert_true(receive(pair, pair->received, LEAST));
    wait_for(pair, 2);
    assert_int_equal(pair->moved, -1);
    assert_int_equal(pair->error, EAGAIN);
    close(pair->far);
    pair->far = -1;
    assert_true(receive(pair, pair->received, LEAST));
    wait_for(pair, 3);
    assert_int_equal(pair->moved, 0);
}

TEST(bytes_are_dropped, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    assert_int_equal(send(pair->far, pair->sent, LEAST, 0), LEAST);
    assert_true(receive(pair, NULL, SIZE_MAX));
    wait_for(pair, 1);
    assert_int_equal(pair->moved, LEAST);
}

TEST(pieces_are_sent_in_their_order, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    assert_true(send_it(pair, LEAST));
    wait_for(pair, 1);
    assert_int_equal(pair->moved, LEAST);
    assert_int_equal(recv(pair->far, pair->received, LEAST, MSG_WAITALL), LEAST);
    assert_memory_equal(pair->received, pair->sent, LEAST);
}

TEST(sending_ends_where_the_socket_does, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    int calls = 0;
    do {
        assert_true(send_it(pair, 2 * LEAST));
        wait_for(pair, ++calls);
        assert_true(calls < 1000);
    } while (pair->moved > 0);
    assert_int_equal(pair->error, EAGAIN);
    close(pair->far);
    pair->far = -1;
    assert_true(send_it(pair, LEAST));
    wait_for(pair, ++calls);
    assert_int_equal(pair->moved, -1);
    assert_true(pair->error == EPIPE || pair->error == ECONNRESET);
}

TEST(descriptors_come_along, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    const int descriptor = open("/dev/null", O_RDONLY);
    struct iovec piece = {pair->sent, LEAST};
    assert_int_equal(rights_send(pair->far, &piece, 1, descriptor), LEAST);
    assert_true(receive(pair, pair->received, LEAST));
    wait_for(pair, 1);
    assert_true(pair->passed.descriptor >= 0);
    close(descriptor);
}

TEST(what_is_not_worth_it_is_left_to_the_caller, open_io_threads, close_io_threads)
{
    struct pair *pair = &pairs[0];
    assert_false(receive(pair, pair->received, LEAST - 1));
    assert_false(send_it(pair, LEAST - 1));
    /* After a while with one connection it is alone. */
    const size_t turn_bytes = io_threads_turn_bytes(&io_threads);
    do {
        usleep(20000);
        uv_update_time(&loop);
        io_threads_meet(&io_threads, &somebody_else);
    } while (io_threads_wanted(&io_threads));
    assert_true(io_threads_turn_bytes(&io_threads) > turn_bytes);
    assert_false(receive(pair, pair->received, LEAST));
    assert_false(send_it(pair, LEAST));
    io_threads_meet(&io_threads, &somebody);
    assert_true(io_threads_wanted(&io_threads));
    assert_int_equal(io_threads_turn_bytes(&io_threads), turn_bytes);
    assert_true(send_it(pair, LEAST));
}

/* Each connection sends, receives the bytes back from its far end, and sends again. */
static void on_round(void *context, ssize_t moved, int error)
{
    struct pair *pair = context;
    assert_int_equal(error, 0);
    assert_int_equal(moved, LEAST);
    meet_both();
    if (pair->calls++ % 2 == 0) {
        uint8_t bytes[LEAST];
        assert_int_equal(recv(pair->far, bytes, LEAST, MSG_WAITALL), LEAST);
        assert_int_equal(send(pair->far, bytes, LEAST, 0), LEAST);
        assert_true(io_threads_receive(&io_threads, pair->near, pair->received, LEAST,
                                       &pair->passed, on_round, pair));
        return;
    }
    assert_memory_equal(pair->received, pair->sent, LEAST);
    memset(pair->received, 0, LEAST);
    memmove(pair->sent, pair->sent + 1, sizeof pair->sent - 1);
    if (!--pair->rounds)
        return;
    io_threads_meet(&io_threads, pair);
    const struct iovec piece = {pair->sent, LEAST};
    assert_true(io_threads_send(&io_threads, pair->near, &piece, 1, on_round, pair));
}

TEST(many_at_once, open_io_threads, close_io_threads)
{
    for (int i = 0; i < PAIRS; i++) {
        const struct iovec piece = {pairs[i].sent, LEAST};
        pairs[i].rounds = ROUNDS;
        assert_true(io_threads_send(&io_threads, pairs[i].near, &piece, 1, on_round, &pairs[i]));
    }
    for (int i = 0; i < PAIRS; i++)
        wait_for(&pairs[i], 2 * ROUNDS);
}

TEST(closing_hands_back_what_is_under_way, open_io_threads, close_io_threads)
{
    for (int i = 0; i < PAIRS; i++)
        assert_true(send_it(&pairs[i], LEAST));
    io_threads_close(&io_threads);
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(pairs[i].calls, 1);
        assert_int_equal(pairs[i].moved, LEAST);
    }
    assert_false(send_it(&pairs[0], LEAST)); /* nobody is left */
}

int main(void)
{
    if (!passing_open(1024))
        return 1;
    return unit_run(NULL, NULL);
}
