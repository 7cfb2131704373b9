/* fdbridge: one end of a bridge (bridge.h), with its channel on descriptor 3.
 *
 * Ways to end: 0, a channel or the stream closed, or the head refused; 1, the ends could not join,
 * or one broke a rule; 2, started wrongly; by SIGALRM, it did not join in time. */
#include "gpu/bridge/bridge.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/signals.h"
#include "gpu/bridge/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2,
    AT_ONCE = 64,      /* records or frames, between two looks at the other side */
    FRAMES_MOST = 1024 /* that wait for the stream, before the channel is read no more */
};

struct bridge bridge = {.stream.socket = -1};

_Noreturn void bridge_end(int status, const char *why)
{
    if (why && status)
        log_warning("%s", why);
    else if (why)
        log_info("%s", why);
    log_flush();
    _exit(status);
}

void bridge_forward(const struct channel_message *record, uint8_t *block, uint32_t block_bytes)
{
    struct payload payload;
    if (!payload_of(record, &payload))
        bridge_end(EXIT_FAILURE, "a record that names memory that is not there");
    if (!frames_push(&bridge.out, record, block, block_bytes, &payload))
        bridge_end(EXIT_FAILURE, "no memory for its frames");
}

void bridge_tell(const struct channel_message *record, int descriptor)
{
    const int own = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if ((descriptor >= 0 && own < 0) || !channel_queue_push(&bridge.queue, record, NULL, own))
        bridge_end(EXIT_FAILURE, "no memory for its records");
}

struct channel_message bridge_cannot_map(uint64_t region, enum status status)
{
    return (struct channel_message){
        .type = CHANNEL_MAPPED, .status = status, .u.region.region = region};
}

void bridge_note(const struct channel_message *record)
{
    if (!payload_note(record))
        bridge_end(EXIT_FAILURE, "a record that names memory that is not there");
}

/* What waits for the end that is still there goes first, as far as it takes it: the worker's
 * REFUSED, or what the head has against a node. */
static _Noreturn void end_closed(const char *what)
{
    bool moved;
    frames_send(&bridge.out, &bridge.stream, &moved);
    channel_queue_flush(&bridge.queue, CHANNEL_DESCRIPTOR);
    bridge_end(0, what);
}

/* --- the loop --- */

static void take_records(const struct bridge_side *end)
{
    for (int i = 0; i < AT_ONCE || channel_inbox_holds(&bridge.inbox); i++) {
        struct channel_message record;
        int descriptor;
        const enum channel_result result =
            channel_receive(CHANNEL_DESCRIPTOR, &bridge.inbox, &record, &descriptor);
        if (result == CHANNEL_CLOSED)
            end_closed("its channel closed");
        if (result == CHANNEL_BROKEN)
            bridge_end(EXIT_FAILURE, "a packet that is not whole records");
        if (result == CHANNEL_AGAIN)
            return;
        end->take_record(&record, descriptor);
        rights_close(descriptor);
    }
}

/* True: there may be more. */
static bool take_frames(const struct bridge_side *end)
{
    for (int i = 0; i < AT_ONCE; i++) {
        const enum frames_result result = frames_receive(&bridge.in, &bridge.stream, &bridge.came);
        if (result == FRAMES_CLOSED)
            end_closed("the other node closed the stream");
        if (result == FRAMES_BROKEN)
            bridge_end(EXIT_FAILURE, "what came from the other node is no frame of this version");
        if (result == FRAMES_NONE || result == FRAMES_MORE)
            return result == FRAMES_MORE;
        end->take_frame(&bridge.in.frame);
    }
    return true;
}

static _Noreturn void serve(const struct bridge_side *end)
{
    uint64_t beat_us = clock_us();
    bool more = true; /* what came with the handshake shows in no poll */
    for (;;) {
        if (!frames_send(&bridge.out, &bridge.stream, &bridge.went))
            end_closed("the other node closed the stream");
        if (channel_queue_flush(&bridge.queue, CHANNEL_DESCRIPTOR) == CHANNEL_CLOSED)
            end_closed("its channel closed");
        const uint64_t now_us = clock_us();
        if (now_us - beat_us >= BRIDGE_BEAT_MS * 1000) {
            beat_us = now_us;
            end->beat();
            bridge.came = bridge.went = false;
            continue;
        }
        struct pollfd polls[] = {{.fd = CHANNEL_DESCRIPTOR},
                                 {.fd = bridge.stream.socket},
                                 {.fd = peers_descriptor(), .events = POLLIN}};
        if (bridge.out.count < FRAMES_MOST)
            polls[0].events |= POLLIN;
        if (bridge.queue.count)
            polls[0].events |= POLLOUT;
        const bool takes = bridge.queue.count < end->records_most;
        const bool writes = frames_waiting(&bridge.out) || stream_waits(&bridge.stream);
        polls[1].events = (takes ? POLLIN : 0) | (writes ? POLLOUT : 0);
        if (!polls[1].events)
            polls[1].fd = -1; /* nor is its end of interest now */
        poll(polls, 3, more && takes ? 0 : BRIDGE_BEAT_MS - (int)((now_us - beat_us) / 1000));
        if (takes && (more || polls[1].revents & ~POLLOUT))
            more = take_frames(end);
        if (polls[0].revents & ~POLLOUT)
            take_records(end);
        if (polls[2].revents)
            peers_serve();
    }
}

int main(int argc, char **argv)
{
    const bool is_head = argc == 2 && strcmp(argv[1], "head") == 0;
    const bool is_node = argc == 2 && strchr(argv[1], '/');
    const char *level = getenv("FDSERVER_LOG_LEVEL"), *head = getenv("FDSERVER_JOIN"),
               *file = getenv("FDSERVER_CLUSTER_KEY"), *why;
    static char name[80];
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("fdbridge " FDSERVER_VERSION);
        return 0;
    }
    if ((!is_head && !is_node) || !file || (is_node && !head)) {
        fprintf(stderr,
                "usage: fdbridge head | NODE/DEVICE\n"
                "Started by fdserver, with a channel on descriptor %d.\n",
                CHANNEL_DESCRIPTOR);
        return EXIT_USAGE;
    }
    fcntl(CHANNEL_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    signals_leave_to_front("fdbridge");
    snprintf(name, sizeof name, "fdbridge %s", argv[1]);
    if (!log_open(name, level ? (enum log_level)atoi(level) : LOG_LEVEL_INFO))
        log_fatal(EXIT_USAGE, "no thread for the log");
    if ((why = stream_read_key(file, bridge.key)))
        log_fatal(EXIT_FAILURE, "the cluster key %s: %s", file, why);
    alarm(is_head ? BRIDGE_JOIN_S : 0);
    if (is_head)
        head_join();
    else
        node_join(argv[1], head);
    serve(is_head ? &head_end : &node_end);
}
