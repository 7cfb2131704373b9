/* What the front makes of communicators: which way bytes go, in which order, and what becomes of
 * them when an end fails. The devices and arrays are this test's. */
#include "server/devices/communicator.h"

#include "server/devices/device.h"
#include "tests/unit/unit.h"

#include <string.h>

enum { HERE, THERE, DEVICES, TOLD_MOST = 64, PASSAGES = 16 };

static struct config config;
static struct devices devices;
static struct device device[DEVICES];
static struct field array[DEVICES];
static struct channel_message told[DEVICES][TOLD_MOST]; /* and not looked at yet: */
static int tells[DEVICES], looked[DEVICES];
static struct passage passage[PASSAGES];
static int ended[PASSAGES], ok[PASSAGES], given_up[DEVICES];

/* ---- what it calls ---- */

void device_tell(struct device *to, const struct channel_message *message, const uint8_t *block)
{
    assert_int_equal(to->state, DEVICE_READY);
    told[to->number][tells[to->number]++] = *message;
}

uint64_t device_array(struct field *field)
{
    return field->array;
}

void device_give_up(struct device *of, const char *why)
{
    given_up[of->number]++;
}

struct field *field_reference(struct field *field)
{
    field->references++;
    return field;
}

void field_release(struct field *field)
{
    assert_true(field->references-- > 0);
}

/* ---- */

static int setup(void **state)
{
    memset(device, 0, sizeof device);
    memset(array, 0, sizeof array);
    memset(tells, 0, sizeof tells);
    memset(looked, 0, sizeof looked);
    memset(ended, 0, sizeof ended);
    memset(given_up, 0, sizeof given_up);
    config.nccl = "libnccl.so.2";
    devices = (struct devices){.config = &config};
    for (int i = 0; i < DEVICES; i++) {
        device[i].devices = &devices;
        device[i].number = (uint32_t)i;
        device[i].bridged = i == THERE;
        device[i].state = DEVICE_READY;
        device[i].info.communicates = 1;
        array[i].device = &device[i];
        array[i].array = (uint64_t)(100 + i);
    }
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(array[i].references, 0);
    communicators_free(&devices);
    return 0;
}

static struct communicator *between(void)
{
    return communicator_between(&device[THERE], &device[HERE]);
}

/* The next that the device was told, which is of that type. */
static const struct channel_message *next(int of, enum channel_type type)
{
    assert_true(looked[of] < tells[of]);
    const struct channel_message *message = &told[of][looked[of]++];
    assert_int_equal(message->type, type);
    return message;
}

static bool says(int of, enum channel_type type, uint64_t number, enum status status)
{
    struct channel_message message = {.type = type, .status = status};
    if (type == CHANNEL_EXCHANGED)
        message.u.exchange.tag = number;
    else
        message.u.communicator.number = number;
    return communicators_take(&device[of], &message);
}

/* Both connect. Returns the number. */
static uint64_t open_both(void)
{
    assert_null(between());
    const uint64_t number = next(HERE, CHANNEL_CONNECT)->u.communicator.number;
    struct channel_message named = {.type = CHANNEL_UNIQUE_ID, .u.communicator.number = number};
    memset(named.u.communicator.id, 0x5a, COMMUNICATOR_ID_BYTES);
    assert_true(communicators_take(&device[HERE], &named));
    const struct channel_message *connect = next(THERE, CHANNEL_CONNECT);
    assert_int_equal(connect->u.communicator.number, number);
    assert_int_equal(connect->u.communicator.rank, 1);
    assert_memory_equal(connect->u.communicator.id, named.u.communicator.id, COMMUNICATOR_ID_BYTES);
    assert_null(between());
    assert_true(says(THERE, CHANNEL_CONNECTED, number, STATUS_OK));
    assert_null(between());
    assert_true(says(HERE, CHANNEL_CONNECTED, number, STATUS_OK));
    assert_non_null(between());
    return number;
}

static void on_ended(struct passage *of, bool well)
{
    ended[of - passage]++;
    ok[of - passage] = well;
}

/* Passage i, of 10 + i bytes. */
static void pass(int i, int from)
{
    passage[i] = (struct passage){.from = &array[from],
                                  .to = &array[1 - from],
                                  .from_offset = 1000,
                                  .to_offset = 2000,
                                  .bytes = (uint64_t)(10 + i),
                                  .ended = on_ended};
    communicator_pass(between(), &passage[i]);
}

/* Each has the next EXCHANGE, in which they send so many bytes. Returns its tag. */
static uint64_t exchange(uint64_t here_sends, uint64_t there_sends)
{
    const struct channel_message *here = next(HERE, CHANNEL_EXCHANGE),
                                 *there = next(THERE, CHANNEL_EXCHANGE);
    assert_int_equal(here->u.exchange.tag, there->u.exchange.tag);
    assert_int_equal(here->u.exchange.sent.bytes, here_sends);
    assert_int_equal(there->u.exchange.received.bytes, here_sends);
    assert_int_equal(there->u.exchange.sent.bytes, there_sends);
    assert_int_equal(here->u.exchange.received.bytes, there_sends);
    if (here_sends) {
        assert_int_equal(here->u.exchange.sent.array, 100 + HERE);
        assert_int_equal(here->u.exchange.sent.offset, 1000);
        assert_int_equal(there->u.exchange.received.array, 100 + THERE);
        assert_int_equal(there->u.exchange.received.offset, 2000);
    }
    return here->u.exchange.tag;
}

/* So many more passages than are under way at once; tag: of those that are. */
static void send_more_than_go(int more, uint64_t tag[COMMUNICATOR_EXCHANGES])
{
    for (int i = 0; i < COMMUNICATOR_EXCHANGES + more; i++)
        pass(i, HERE);
    communicators_flush(&devices);
    for (uint64_t i = 0; i < COMMUNICATOR_EXCHANGES; i++)
        tag[i] = exchange(10 + i, 0);
}

static void beats(int count)
{
    while (count-- > 0)
        for (int i = 0; i < DEVICES; i++)
            if (device[i].state == DEVICE_READY)
                communicators_beat(&device[i]);
}

static void disconnected(uint64_t number)
{
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(next(i, CHANNEL_DISCONNECT)->u.communicator.number, number);
    assert_null(between());
}

TEST(both_directions_go_at_once_and_in_one_order, setup, teardown)
{
    open_both();
    pass(0, HERE);
    pass(1, HERE);
    pass(2, THERE);
    assert_int_equal(looked[HERE], tells[HERE]);
    communicators_flush(&devices);
    const uint64_t first = exchange(10, 12), second = exchange(11, 0);
    assert_true(says(HERE, CHANNEL_EXCHANGED, second, STATUS_OK)); /* in any order */
    assert_true(says(THERE, CHANNEL_EXCHANGED, first, STATUS_OK));
    assert_true(!ended[0] && !ended[1] && !ended[2]);
    assert_true(says(HERE, CHANNEL_EXCHANGED, first, STATUS_OK));
    assert_true(ended[0] == 1 && !ended[1] && ended[2] == 1 && ok[0] && ok[2]);
    assert_true(says(THERE, CHANNEL_EXCHANGED, second, STATUS_OK));
    assert_true(ended[1] == 1 && ok[1]);
}

TEST(some_are_under_way_and_others_wait, setup, teardown)
{
    open_both();
    for (int i = 0; i < COMMUNICATOR_EXCHANGES + 2; i++)
        pass(i, THERE);
    communicators_flush(&devices);
    uint64_t tag = 0;
    for (uint64_t i = 0; i < COMMUNICATOR_EXCHANGES; i++)
        tag = exchange(0, 10 + i);
    communicators_flush(&devices);
    assert_int_equal(looked[HERE], tells[HERE]);
    for (int i = 0; i < DEVICES; i++)
        assert_true(says(i, CHANNEL_EXCHANGED, tag, STATUS_OK));
    communicators_flush(&devices);
    exchange(0, 10 + COMMUNICATOR_EXCHANGES);
    for (int i = 0; i < DEVICES; i++) {
        device[i].state = DEVICE_DOWN;
        communicators_worker_lost(&device[i]);
    }
}

TEST(one_that_fails_ends_all_when_both_have_answered, setup, teardown)
{
    const uint64_t number = open_both();
    uint64_t tag[COMMUNICATOR_EXCHANGES];
    send_more_than_go(1, tag);
    assert_true(says(HERE, CHANNEL_EXCHANGED, tag[0], STATUS_INTERNAL));
    disconnected(number);
    assert_true(ended[COMMUNICATOR_EXCHANGES] == 1 && !ok[COMMUNICATOR_EXCHANGES]);
    for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++) {
        assert_int_equal(ended[i], 0);
        assert_true(says(THERE, CHANNEL_EXCHANGED, tag[i], STATUS_OK)); /* before it heard of it */
        if (i)
            assert_true(says(HERE, CHANNEL_EXCHANGED, tag[i], STATUS_INTERNAL));
        assert_true(ended[i] == 1 && !ok[i]);
    }
    /* It rests, each time for twice as long. */
    beats(REST_FIRST - 1);
    assert_null(between());
    assert_int_equal(looked[HERE], tells[HERE]);
    beats(1);
    assert_int_equal(open_both(), number + 1);
}

TEST(silence_ends_it, setup, teardown)
{
    uint64_t number = open_both();
    beats(10 * COMMUNICATOR_EXCHANGE); /* nothing is due */
    pass(0, HERE);
    communicators_flush(&devices);
    const uint64_t tag = exchange(10, 0);
    beats(COMMUNICATOR_EXCHANGE);
    assert_true(says(HERE, CHANNEL_EXCHANGED, tag, STATUS_OK));
    beats(COMMUNICATOR_EXCHANGE);
    assert_int_equal(looked[HERE], tells[HERE]);
    beats(1);
    disconnected(number);
    assert_true(says(THERE, CHANNEL_EXCHANGED, tag, STATUS_INTERNAL));
    assert_true(ended[0] == 1 && !ok[0]);
    beats(REST_FIRST);
    assert_null(between()); /* and tries */
    number = next(HERE, CHANNEL_CONNECT)->u.communicator.number;
    beats(COMMUNICATOR_CONNECT + 1);
    next(HERE, CHANNEL_DISCONNECT); /* the other has not heard of it */
    assert_int_equal(looked[THERE], tells[THERE]);
    /* Late news is none. */
    assert_true(says(HERE, CHANNEL_UNIQUE_ID, number, STATUS_OK));
    assert_true(says(HERE, CHANNEL_CONNECTED, number, STATUS_INTERNAL));
    assert_int_equal(looked[THERE], tells[THERE]);
}

TEST(a_worker_that_ends_ends_its_part, setup, teardown)
{
    const uint64_t number = open_both();
    pass(0, HERE);
    communicators_flush(&devices);
    pass(1, THERE);
    const uint64_t tag = exchange(10, 0);
    device[THERE].state = DEVICE_DOWN;
    communicators_worker_lost(&device[THERE]);
    assert_int_equal(next(HERE, CHANNEL_DISCONNECT)->u.communicator.number, number);
    assert_true(ended[1] == 1 && !ok[1] && !ended[0]); /* the one here may still write */
    assert_null(between());
    device[THERE].state = DEVICE_READY;
    assert_int_equal(open_both(), number + 1); /* without a rest */
    assert_true(says(HERE, CHANNEL_EXCHANGED, tag, STATUS_INTERNAL));
    assert_true(ended[0] == 1 && !ok[0]);
    assert_non_null(between()); /* that was of the other */
}

/* The arrays of one that is taken back may be others' from then on. */
TEST(what_waits_can_be_taken_back, setup, teardown)
{
    open_both();
    uint64_t tag[COMMUNICATOR_EXCHANGES];
    send_more_than_go(2, tag);
    assert_false(communicator_withdraw(&passage[0])); /* it is under way */
    assert_true(communicator_withdraw(&passage[COMMUNICATOR_EXCHANGES]));
    assert_false(communicator_withdraw(&passage[COMMUNICATOR_EXCHANGES]));
    for (int i = 0; i < COMMUNICATOR_EXCHANGES; i++)
        for (int rank = 0; rank < DEVICES; rank++)
            assert_true(says(rank, CHANNEL_EXCHANGED, tag[i], STATUS_OK));
    communicators_flush(&devices);
    const uint64_t last = exchange(10 + COMMUNICATOR_EXCHANGES + 1, 0);
    for (int rank = 0; rank < DEVICES; rank++)
        assert_true(says(rank, CHANNEL_EXCHANGED, last, STATUS_OK));
    assert_true(!ended[COMMUNICATOR_EXCHANGES] && ended[COMMUNICATOR_EXCHANGES + 1] == 1);
}

/* A PING that has long not been answered stands behind payload, and so may an EXCHANGE. */
TEST(what_stands_behind_payload_is_not_silent, setup, teardown)
{
    const uint64_t number = open_both();
    pass(0, HERE);
    communicators_flush(&devices);
    const uint64_t tag = exchange(10, 0);
    device[THERE].heartbeat.late = true;
    beats(10 * COMMUNICATOR_EXCHANGE);
    assert_int_equal(looked[HERE], tells[HERE]);
    device[THERE].heartbeat.late = false;
    device[THERE].heartbeat.pinged = true; /* it was a moment ago */
    beats(COMMUNICATOR_EXCHANGE + 1);
    disconnected(number);
    for (int rank = 0; rank < DEVICES; rank++)
        assert_true(says(rank, CHANNEL_EXCHANGED, tag, STATUS_INTERNAL));
}

TEST(a_node_that_does_not_end_what_failed_is_given_up, setup, teardown)
{
    open_both();
    pass(0, HERE);
    communicators_flush(&devices);
    const uint64_t tag = exchange(10, 0);
    assert_true(says(HERE, CHANNEL_EXCHANGED, tag, STATUS_INTERNAL));
    beats(COMMUNICATOR_CONNECT);
    assert_int_equal(given_up[THERE], 0);
    beats(1);
    assert_true(given_up[THERE] == 1 && !given_up[HERE]);
    device[THERE].state = DEVICE_DOWN;
    communicators_worker_lost(&device[THERE]);
    assert_true(ended[0] == 1 && !ok[0]);
}

TEST(a_worker_that_ends_as_it_connects_rests, setup, teardown)
{
    assert_null(between());
    next(HERE, CHANNEL_CONNECT);
    device[HERE].state = DEVICE_DOWN;
    communicators_worker_lost(&device[HERE]);
    device[HERE].state = DEVICE_READY;
    assert_null(between());
    assert_int_equal(looked[HERE], tells[HERE]);
    beats(REST_FIRST);
    open_both();
}

TEST(devices_that_have_none, setup, teardown)
{
    config.nccl = NULL;
    assert_null(between());
    config.nccl = "libnccl.so.2";
    device[HERE].info.communicates = 0;
    assert_null(between());
    device[HERE].info.communicates = 1;
    device[THERE].bridged = false; /* both on this node */
    assert_null(between());
    device[THERE].bridged = true;
    device[THERE].state = DEVICE_DOWN;
    assert_null(between());
    device[THERE].state = DEVICE_READY;
    device[THERE].leaving = true;
    assert_null(between());
    assert_null(communicator_between(&device[HERE], &device[HERE]));
    assert_int_equal(tells[HERE] + tells[THERE], 0);
}

TEST(workers_that_break_the_rules, setup, teardown)
{
    assert_false(says(THERE, CHANNEL_CONNECTED, 0, STATUS_OK));
    assert_false(says(THERE, CHANNEL_CONNECTED, 1, STATUS_OK));
    assert_false(says(THERE, CHANNEL_EXCHANGED, 1, STATUS_OK));
    assert_null(between());
    const uint64_t number = next(HERE, CHANNEL_CONNECT)->u.communicator.number;
    assert_false(says(THERE, CHANNEL_UNIQUE_ID, number, STATUS_OK)); /* not rank 0 */
    assert_false(says(THERE, CHANNEL_CONNECTED, number, STATUS_OK)); /* was not told to */
    assert_false(says(HERE, CHANNEL_UNIQUE_ID, number + 1, STATUS_OK));
    assert_false(says(HERE, CHANNEL_CONNECTED, number, STATUS_COUNT));
    assert_true(says(HERE, CHANNEL_CONNECTED, number, STATUS_INTERNAL)); /* it cannot */
    next(HERE, CHANNEL_DISCONNECT);
    beats(REST_FIRST);
    open_both();
    assert_false(says(THERE, CHANNEL_CONNECTED, number + 1, STATUS_OK)); /* twice */
    assert_false(says(HERE, CHANNEL_UNIQUE_ID, number + 1, STATUS_OK));
    pass(0, HERE);
    communicators_flush(&devices);
    const uint64_t tag = exchange(10, 0);
    assert_false(says(THERE, CHANNEL_EXCHANGED, tag + 1, STATUS_OK));
    assert_true(says(THERE, CHANNEL_EXCHANGED, tag, STATUS_OK));
    assert_false(says(THERE, CHANNEL_EXCHANGED, tag, STATUS_OK));
    assert_true(says(HERE, CHANNEL_EXCHANGED, tag, STATUS_OK));
    assert_false(says(HERE, CHANNEL_EXCHANGED, tag, STATUS_OK));
}
