/* Two workers of emulated GPUs that exchange bytes of arrays by an emulated NCCL, and fronts that
 * break the rules of it. */
#include "tests/unit/worker.h"

#include <stdio.h>
#include <time.h>

enum { BYTES = 300000, RANKS = 2 };

static __typeof__(front) fronts[RANKS]; /* of which `front` is the one that is spoken with */
static int current;
static uint64_t number; /* of the communicator */
static char fault_path[64];
static uint8_t values[RANKS][BYTES], seen[BYTES];

static void speak_with(int rank)
{
    fronts[current] = front;
    front = fronts[rank];
    current = rank;
}

/* Let the emulated NCCL fail so, from now on. */
static void let_fail(const char *how)
{
    FILE *file = fopen(fault_path, "w");
    assert_non_null(file);
    fputs(how, file);
    fclose(file);
}

static int setup_both(void **state)
{
    snprintf(fault_path, sizeof fault_path, "/tmp/test-worker-peers-%d", (int)getpid());
    setenv("NCCL_ON_HOST", fault_path, 1);
    setenv("FDSERVER_NCCL", NCCL, 1);
    let_fail("");
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        setup(state);
        for (int i = 0; i < BYTES; i++)
            values[rank][i] = (uint8_t)(i * 7 + rank);
    }
    return 0;
}

static int teardown_both(void **state)
{
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        assert_int_equal(close_and_wait(), 0);
    }
    char done[sizeof fault_path + 8];
    snprintf(done, sizeof done, "%s.done", fault_path);
    unlink(done);
    return unlink(fault_path);
}

static void order_connect(uint64_t rank, const uint8_t *id)
{
    struct channel_message message = {.type = CHANNEL_CONNECT,
                                      .u.communicator = {.number = number, .rank = rank}};
    if (id)
        memcpy(message.u.communicator.id, id, COMMUNICATOR_ID_BYTES);
    order(&message);
}

static void disconnect(void)
{
    order(&(struct channel_message){.type = CHANNEL_DISCONNECT, .u.communicator.number = number});
}

/* The two are told to, as a new one; their CONNECTED is still to come. */
static void begin_to_connect(void)
{
    number++;
    speak_with(0);
    order_connect(0, NULL);
    const struct channel_message named = answer_of(CHANNEL_UNIQUE_ID);
    assert_int_equal(named.u.communicator.number, number);
    speak_with(1);
    order_connect(1, named.u.communicator.id);
}

static void connect_both(void)
{
    begin_to_connect();
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        const struct channel_message connected = answer_of(CHANNEL_CONNECTED);
        assert_int_equal(connected.status, STATUS_OK);
        assert_int_equal(connected.u.communicator.number, number);
    }
}

static struct channel_stretch stretch(uint64_t array, uint64_t offset, uint64_t bytes)
{
    return (struct channel_stretch){array, offset, bytes};
}

static void order_exchange(uint64_t tag, struct channel_stretch sent,
                           struct channel_stretch received)
{
    struct channel_message message = {.type = CHANNEL_EXCHANGE,
                                      .u.exchange = {.communicator = number, .tag = tag}};
    message.u.exchange.sent = sent;
    message.u.exchange.received = received;
    order(&message);
}

static void exchanged(uint64_t tag, enum status status)
{
    const struct channel_message answer = answer_of(CHANNEL_EXCHANGED);
    assert_int_equal(answer.u.exchange.tag, tag);
    assert_int_equal(answer.status, status);
}

static const struct channel_stretch none;

/* Both ways at once, and one way; the bytes beside them stay as they were, which is 0. */
TEST(test_bytes_of_arrays_are_exchanged, setup_both, teardown_both)
{
    enum { FROM = 1001, TO = 40, SENT = 200000, BACK = 77 };
    uint64_t source[RANKS], target[RANKS];
    connect_both();
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        source[rank] = allocate(BYTES);
        target[rank] = allocate(BYTES);
        upload(source[rank], values[rank], BYTES);
        order_exchange(1, stretch(source[rank], FROM, rank ? BACK : SENT),
                       stretch(target[rank], TO, rank ? SENT : BACK));
        if (rank)
            order_exchange(2, none, stretch(target[rank], 0, TO));
        else
            order_exchange(2, stretch(source[rank], 5, TO), none);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        const int sent = rank ? SENT : BACK, first = rank ? TO : 0;
        speak_with(rank);
        exchanged(1, STATUS_OK);
        exchanged(2, STATUS_OK);
        download(target[rank], seen, BYTES);
        assert_memory_equal(seen + TO, values[1 - rank] + FROM, sent);
        assert_memory_equal(seen, values[1 - rank] + 5, first);
        for (int i = 0; i < BYTES; i++)
            assert_true((i < first || (i >= TO && i < TO + sent)) || seen[i] == 0);
        release(source[rank]);
        release(target[rank]);
    }
}

/* It ends what is under way; until then the worker lives, and does all else. */
TEST(test_an_exchange_that_waits_is_given_up, setup_both, teardown_both)
{
    connect_both();
    speak_with(0);
    const uint64_t array = allocate(BYTES), other = allocate(BYTES);
    order_exchange(1, none, stretch(array, 0, BYTES)); /* the other rank has no part of it */
    order_exchange(2, none, stretch(array, 0, BYTES));
    upload(other, values[0], BYTES);
    download(other, seen, BYTES);
    assert_memory_equal(seen, values[0], BYTES);
    ping();
    disconnect();
    exchanged(1, STATUS_INTERNAL);
    exchanged(2, STATUS_INTERNAL);
    release(array);
    speak_with(1);
    disconnect();
    connect_both();
}

/* Without a word from the front, before it takes the worker for one that hangs. */
TEST(test_an_exchange_that_hangs_gives_itself_up, setup_both, teardown_both)
{
    connect_both();
    let_fail("hang");
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        const uint64_t array = allocate(BYTES);
        order_exchange(1, rank ? stretch(array, 0, 64) : none, rank ? none : stretch(array, 0, 64));
        order_exchange(2, rank ? stretch(array, 0, 64) : none, rank ? none : stretch(array, 0, 64));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        exchanged(1, STATUS_INTERNAL);
        exchanged(2, STATUS_INTERNAL);
        disconnect();
        ping();
    }
}

/* An array that there was no memory for. What comes after it would meet the other's exchange with
 * that one. */
TEST(test_an_exchange_without_memory, setup_both, teardown_both)
{
    connect_both();
    speak_with(0);
    const uint64_t array = allocate(UINT64_C(1) << 50);
    assert_int_equal(answer_of(CHANNEL_FAILED).u.allocate.array, array);
    order_exchange(1, none, stretch(array, 0, 64));
    exchanged(1, STATUS_OUT_OF_MEMORY);
    order_exchange(2, none, stretch(allocate(BYTES), 0, 64));
    exchanged(2, STATUS_INTERNAL);
}

TEST(test_ranks_that_do_not_find_each_other, setup_both, teardown_both)
{
    let_fail("never");
    begin_to_connect();
    for (int rank = 0; rank < RANKS; rank++) {
        speak_with(rank);
        disconnect();
        ping(); /* and no CONNECTED came */
    }
    let_fail("");
    connect_both();
}

/* The end of a worker waits for nobody. */
TEST(test_the_end_beside_an_exchange_that_hangs, setup_both, teardown_both)
{
    struct timespec begin, end;
    connect_both();
    speak_with(0);
    order_exchange(1, none, stretch(allocate(BYTES), 0, BYTES));
    ping();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(close_and_wait(), 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 3);
    setup(state);
}

/* One order of each case ends the worker. */
TEST(test_fronts_that_break_the_rules, setup_both, teardown_both)
{
    enum { CASES = 11 };
    for (int i = 0; i < CASES; i++, number++) {
        if (i >= 5)
            connect_both();
        speak_with(0);
        const uint64_t array = allocate(BYTES);
        switch (i) {
        case 0:
            order_connect(2, NULL);
            break;
        case 1:
            number = 0;
            order_connect(0, NULL);
            break;
        case 2:
            disconnect();
            break;
        case 3:
            order_exchange(1, stretch(array, 0, 8), none);
            break;
        case 4: /* its CONNECTED has not come */
            order_connect(0, NULL);
            assert_int_equal(answer().type, CHANNEL_UNIQUE_ID);
            order_exchange(1, stretch(array, 0, 8), none);
            break;
        case 5:
            order_connect(0, NULL);
            break;
        case 6:
            order_exchange(1, none, none);
            break;
        case 7:
            order_exchange(1, stretch(array, 1, BYTES), none);
            break;
        case 8:
            order_exchange(1, none, stretch(array, UINT64_MAX - 6, 8));
            break;
        case 9:
            order_exchange(1, none, stretch(array + 9, 0, 8));
            break;
        case 10: /* in use */
            order_exchange(1, none, stretch(array, 0, 8));
            release(array);
            break;
        }
        assert_int_equal(ended(), BROKEN_FRONT);
        close(front.socket);
        setup(state);
        speak_with(1);
        if (i >= 5)
            disconnect();
        ping();
    }
}

/* A device without NCCL has no communicator. */
TEST(test_a_device_without_communicators)
{
    unsetenv("FDSERVER_NCCL");
    setup(state);
    order_connect(0, NULL);
    assert_int_equal(ended(), BROKEN_FRONT);
    close(front.socket);
}
