/* Another node writes to the mailbox here, over connections of its own. */
#include "base/rights.h"
#include "gpu/bridge/bridge.h"
#include "gpu/bridge/peers.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REGION = 5, BYTES = 2 * CHANNEL_SLOT_BYTES, PUT_BYTES = 100000 };

static const uint8_t key[SHA256_BYTES] = {1, 2, 3};
static struct mailbox_address address;
static uint8_t *mailbox;
static int idle_threads; /* while there is no connection */
static struct channel_message forwarded;

/* --- what peers.c and mailbox.c need of their bridge --- */

struct bridge bridge;

void bridge_end(int status, const char *why)
{
    fail_msg("%d: %s", status, why);
    abort();
}

void bridge_forward(const struct channel_message *record, uint8_t *block, uint32_t block_bytes)
{
    forwarded = *record;
    free(block);
    (void)block_bytes;
}

void bridge_tell(const struct channel_message *record, int descriptor)
{
    if (record->type == CHANNEL_REGION)
        mailbox = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
}

void bridge_note(const struct channel_message *record)
{
    (void)record;
}

struct channel_message bridge_cannot_map(uint64_t region, enum status status)
{
    return (struct channel_message){
        .type = CHANNEL_MAPPED, .status = status, .u.region.region = region};
}

/* --- the node and its peer --- */

static int count_threads(void)
{
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks))
        threads++;
    closedir(tasks);
    return threads;
}

static int open_node(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct channel_message region = {.type = CHANNEL_REGION,
                                           .u.region = {.region = REGION, .bytes = BYTES}};
    bridge.stream.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(bridge.key, key, sizeof bridge.key);
    assert_int_equal(bind(bridge.stream.socket, (struct sockaddr *)&at, sizeof at), 0);
    assert_true(peers_open());
    close(bridge.stream.socket);
    assert_true(mailbox_open(BYTES, &address));
    peers_map(&region, &address);
    assert_non_null(mailbox);
    idle_threads = count_threads();
    return 0;
}

static void send_bytes(struct stream *stream, const void *bytes, size_t count)
{
    assert_int_equal(stream_write(stream, bytes, count), (int64_t)count);
    assert_true(stream_flush(stream));
    assert_false(stream_waits(stream));
}

/* Has the node answered? Else it has closed the connection. */
static bool is_answered(struct stream *stream)
{
    uint8_t answer = 0;
    return stream_read(stream, &answer, 1) == 1 && answer == 1;
}

static void connect_node(struct stream *stream)
{
    char host[96];
    const char *why;
    snprintf(host, sizeof host, "127.0.0.1%s", address.address);
    const int socket = stream_connect(host, BRIDGE_JOIN_S, &why);
    assert_true(socket >= 0);
    assert_true(stream_open(stream, socket, false, key, BRIDGE_JOIN_S, &why));
    fcntl(stream->socket, F_SETFL, fcntl(stream->socket, F_GETFL) & ~O_NONBLOCK);
}

static void begin_put(struct stream *stream, uint64_t tag, uint8_t value, size_t bytes)
{
    const struct put_head put = {.tag = tag, .bytes = PUT_BYTES};
    uint8_t *values = malloc(bytes);
    memset(values, value, bytes);
    connect_node(stream);
    send_bytes(stream, address.token, sizeof address.token);
    assert_true(is_answered(stream));
    send_bytes(stream, &put, sizeof put);
    send_bytes(stream, values, bytes);
    free(values);
}

static void end_put(struct stream *stream, uint8_t value, size_t bytes)
{
    uint8_t *values = malloc(bytes);
    memset(values, value, bytes);
    send_bytes(stream, values, bytes);
    free(values);
}

/* Half of its bytes, of which all whole records lie there. */
static void begin_half(struct stream *stream, uint64_t tag, uint8_t value)
{
    const int whole = PUT_BYTES / 2 / STREAM_RECORD_BYTES * STREAM_RECORD_BYTES;
    begin_put(stream, tag, value, PUT_BYTES / 2);
    while (((const volatile uint8_t *)mailbox)[whole - 1] != value)
        usleep(1000);
}

static void assert_holds(uint8_t value)
{
    for (int i = 0; i < PUT_BYTES; i++)
        assert_int_equal(mailbox[i], value);
}

TEST(test_bytes_that_come_late_are_not_written)
{
    struct stream early, late, next;
    begin_half(&late, 7, 'l');
    begin_put(&next, 8, 'n', PUT_BYTES);
    assert_true(is_answered(&next));
    end_put(&late, 'l', PUT_BYTES / 2);
    assert_false(is_answered(&late));
    assert_holds('n');
    begin_put(&early, 6, 'e', PUT_BYTES); /* late as a whole */
    assert_false(is_answered(&early));
    assert_holds('n');
    stream_close(&early);
    stream_close(&late);
    /* Nor after the worker's own copies to the place. */
    begin_half(&late, 9, 'l');
    const struct channel_message own = {.type = CHANNEL_DOWNLOAD,
                                        .u.copy = {.region = REGION, .bytes = 10, .tag = 10}};
    peers_note(&own);
    memset(mailbox, 'o', PUT_BYTES);
    end_put(&late, 'l', PUT_BYTES / 2);
    assert_false(is_answered(&late));
    assert_holds('o');
    stream_close(&late);
    stream_close(&next);
}

TEST(test_a_copy_that_comes_twice_is_taken)
{
    struct stream one, again;
    begin_put(&one, 20, 'a', PUT_BYTES / 2);
    begin_put(&again, 20, 'a', PUT_BYTES);
    assert_true(is_answered(&again));
    end_put(&one, 'a', PUT_BYTES / 2);
    assert_true(is_answered(&one));
    assert_holds('a');
    stream_close(&one);
    stream_close(&again);
}

TEST(test_places_that_are_none)
{
    const uint64_t slot = CHANNEL_SLOT_BYTES;
    const struct put_head puts[] = {{30, 1, 0, 1},
                                    {30, BYTES, 0, 1},
                                    {30, slot, 0, slot + 1},
                                    {30, 0, 0, UINT64_MAX},
                                    {30, 0, BYTES, 1},
                                    {30, slot, slot - 1, 2},
                                    {30, slot, UINT64_MAX - slot + 1, slot},
                                    {30, UINT64_MAX - slot + 1, 0, slot},
                                    {30, 0, UINT64_MAX, 1}};
    for (size_t i = 0; i < sizeof puts / sizeof puts[0]; i++) {
        struct stream stream;
        connect_node(&stream);
        send_bytes(&stream, address.token, sizeof address.token);
        assert_true(is_answered(&stream));
        send_bytes(&stream, &puts[i], sizeof puts[i]);
        assert_false(is_answered(&stream));
        stream_close(&stream);
    }
}

TEST(test_a_mailbox_has_one_token)
{
    struct mailbox_address other = address;
    const struct channel_message region = {.type = CHANNEL_REGION,
                                           .u.region = {.region = REGION + 1, .bytes = BYTES}};
    other.token[0] ^= 1;
    snprintf(other.address, sizeof other.address, "127.0.0.1%.8s", address.address);
    peers_map(&region, &other);
    peers_serve(); /* waits for the thread */
    assert_int_equal(forwarded.type, CHANNEL_MAPPED);
    assert_int_equal(forwarded.status, STATUS_INTERNAL);
    peers_serve(); /* it has left */
}

/* --- a node that this one writes to --- */

enum { STREAMS = 8, PIECE = BYTES / STREAMS };

static int listen_as_node(struct mailbox_address *other)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, length), 0);
    assert_int_equal(listen(listener, STREAMS), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
    *other = address;
    other->token[0] ^= 2;
    snprintf(other->address, sizeof other->address, "127.0.0.1:%d", ntohs(at.sin_port));
    return listener;
}

static void accept_peer(int listener, struct stream *stream, const struct mailbox_address *own)
{
    uint8_t token[sizeof own->token];
    const char *why;
    assert_true(stream_open(stream, accept(listener, NULL, NULL), true, key, BRIDGE_JOIN_S, &why));
    assert_true(stream_wait_for_bytes(stream));
    assert_true(stream_read_all(stream, token, sizeof token, 0));
    assert_memory_equal(token, own->token, sizeof token);
    send_bytes(stream, &(const uint8_t){PUT_TAKEN}, 1);
}

static void order_copy(uint64_t tag)
{
    const struct channel_message download = {.type = CHANNEL_DOWNLOAD,
                                             .u.copy = {.region = REGION + 2,
                                                        .bytes = BYTES,
                                                        .tag = tag}},
                                 copied = {.type = CHANNEL_COPIED, .u.copy.tag = tag};
    peers_note(&download);
    assert_true(peers_take_copied(&copied));
}

/* Which part of the copy it has. */
static unsigned take_put(struct stream *stream, uint64_t tag)
{
    uint8_t *bytes = malloc(PIECE);
    struct put_head put;
    assert_true(stream_read_all(stream, &put, sizeof put, 0));
    assert_int_equal(put.tag, tag);
    assert_int_equal(put.offset, 0);
    assert_int_equal(put.bytes, PIECE);
    assert_int_equal(put.at % PIECE, 0);
    assert_true(stream_read_all(stream, bytes, PIECE, 0));
    free(bytes);
    return 1u << put.at / PIECE;
}

static void serve_copied(uint64_t tag, enum status status)
{
    peers_serve();
    assert_int_equal(forwarded.type, CHANNEL_COPIED);
    assert_int_equal(forwarded.u.copy.tag, tag);
    assert_int_equal(forwarded.status, status);
}

TEST(test_a_copy_passes_several_connections_at_a_time)
{
    struct mailbox_address other;
    struct stream streams[STREAMS];
    const int listener = listen_as_node(&other);
    const struct channel_message region = {.type = CHANNEL_REGION,
                                           .u.region = {.region = REGION + 2, .bytes = BYTES}};
    unsigned taken = 0;
    peers_map(&region, &other);
    accept_peer(listener, &streams[0], &other);
    peers_serve(); /* it is connected */
    order_copy(1);
    for (int i = 0; i < STREAMS; i++) {
        if (i > 0)
            accept_peer(listener, &streams[i], &other);
        taken |= take_put(&streams[i], 1); /* none has been answered */
    }
    assert_int_equal(taken, (1u << STREAMS) - 1);
    for (int i = 0; i < STREAMS; i++)
        send_bytes(&streams[i], &(const uint8_t){PUT_TAKEN}, 1);
    serve_copied(1, STATUS_OK);
    /* The node is lost: what is under way fails, and is not tried again one after another. */
    close(listener);
    for (int i = 0; i < STREAMS; i++)
        stream_close(&streams[i]);
    order_copy(2);
    serve_copied(2, STATUS_INTERNAL);
    order_copy(3);
    serve_copied(3, STATUS_INTERNAL);
    peers_unmap(REGION + 2);
    peers_serve(); /* its threads have left */
}

/* Wait for the threads of all connections, which free what they have. */
static int close_node(void **state)
{
    while (count_threads() > idle_threads)
        usleep(1000);
    munmap(mailbox, BYTES);
    return 0;
}

int main(void)
{
    return unit_run(open_node, close_node);
}
