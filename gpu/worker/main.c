/* fdworker: the process that owns one device and everything resident on it. The front starts it
 * with the channel on descriptor 3.
 *
 *   channel ──► order ──► store: allocate, upload, download ──► backend
 *                  └────► jobs: wait for their arrays, then one slice after another ──► backend
 *   channel ◄── COPIED, PROGRESS, FINISHED ◄── completions ◄──────────────────────────────┘
 *
 * Ways to end: 0, the front closed the channel (or died: signals.h); 1, there is no such
 * device; 2, started wrongly; 65, the front broke a rule of channel.h; BACKEND_FAULT_EXIT, the
 * device failed. */
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/signals.h"
#include "base/thread_pool.h"
#include "base/wake.h"
#include "gpu/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EXIT_NO_DEVICE = 1,
    EXIT_USAGE = 2,
    FAULT_POLL_MS = 50,     /* a failed device wakes no one */
    ORDERS_AT_ONCE = 64,    /* between two polls of the device, … */
    ORDERS_US = 500 * 1000, /* … and no more once they have taken so long */
    BUSY_POLL_US = 250,     /* after something has happened, before we sleep */
    SLEEP_US = 1000         /* … and the longest without a look at all descriptors */
};

static struct worker worker;

static struct {
    struct channel_inbox orders;
    bool busy_polls;   /* for completions and orders, before it blocks */
    uint64_t alive_us; /* when it last said that it takes orders, or had taken all */
} loop;

/* --- beginning and end --- */

static _Noreturn void refuse_device(const struct failure *failure)
{
    struct channel_message message = {.type = CHANNEL_REFUSED, .status = failure->code};
    snprintf(message.u.refused.text, sizeof message.u.refused.text, "%.*s",
             (int)sizeof message.u.refused.text - 1, failure->message);
    channel_send(CHANNEL_DESCRIPTOR, &message, -1);
    log_flush();
    _exit(EXIT_NO_DEVICE);
}

static void take_arena(uint64_t bytes, uint32_t threads, int memfd)
{
    struct failure failure = {0};
    if (worker.open)
        worker_broken("a second ARENA", bytes);
    if (!rights_sealed(memfd, F_SEAL_SHRINK, bytes))
        worker_broken("an ARENA without a sealed memfd of its size", bytes);
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (arena == MAP_FAILED) {
        failure_set(&failure, STATUS_INTERNAL, NULL, "the arena cannot be mapped: %s",
                    strerror(errno));
        refuse_device(&failure);
    }
    close(memfd);
    struct channel_message message = {.type = CHANNEL_READY};
    struct device_info *info = &message.u.ready.info;
    worker.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker.wake < 0)
        failure_set(&failure, STATUS_INTERNAL, NULL, "eventfd: %s", strerror(errno));
    if (!worker.backend)
        failure_set(&failure, STATUS_NOT_FOUND, NULL, "this fdworker was built without CUDA");
    if (failure.code || !thread_pool_open((int)threads, &failure) ||
        !worker.backend->open(worker.device, arena, bytes, worker.wake, info, &failure) ||
        !regions_init(&worker.regions, worker.backend, worker.wake, &failure))
        refuse_device(&failure);
    worker.arena = arena;
    worker.arena_bytes = bytes;
    worker.direct = info->direct != 0;
    worker.communicates = info->communicates != 0;
    info->own_planes = worker.backend->takes_own_planes != NULL;
    jobs_open(&worker);
    worker.open = true;
    loop.busy_polls = worker.backend->busy_polls && cores_to_spare();
    worker_answer(&worker, &message);
    log_info("%s is ready", info->name);
}

/* Does the backend owe a completion? */
static bool is_busy(void)
{
    return worker.copies.under_way || worker.jobs.under_way || worker.pipeline.under_way ||
           worker.exchanges;
}

static _Noreturn void end_worker(void)
{
    /* With work under way the device may still write to memory that closing would take away; and a
     * communicator may wait for a worker that has ended. */
    log_flush();
    if (is_busy() || worker.peers.count)
        _exit(0);
    if (worker.open) {
        thread_pool_close(); /* its threads may still be telling of what has been taken from them */
        jobs_close(&worker);
        store_close(&worker);
        worker.backend->close();
    }
    channel_queue_free(&worker.answers);
    exit(0);
}

/* --- what comes --- */

static void answer_ping(void)
{
    struct channel_message pong = {.type = CHANNEL_PONG};
    struct channel_pong *of = &pong.u.pong;
    struct channel_work jobs = worker.jobs, all = worker.copies;
    jobs.under_way += worker.pipeline.under_way;
    all.under_way += jobs.under_way;
    all.ended += jobs.ended;
    if (worker.backend && worker.backend->still_us) {
        of->still_us = worker.backend->still_us();
    } else {
        of->work[CHANNEL_ALL_WORK] = all;
        of->work[CHANNEL_JOBS_WORK] = jobs;
    }
    of->work[CHANNEL_DISCONNECTS] = worker.disconnects;
    worker_answer(&worker, &pong);
}

static void take_kernel(uint64_t slot, uint64_t bytes, int memfd)
{
    uint8_t *image = NULL;
    if (slot >= DEVICE_KERNELS || bytes == 0 || bytes > CHANNEL_KERNEL_BYTES)
        worker_broken("a KERNEL of no slot or size", slot);
    const char *broken = channel_block(&loop.orders, memfd, bytes, &image);
    if (broken)
        worker_broken(broken, slot);
    close(memfd);
    if (image && worker.backend->take_kernel)
        worker.backend->take_kernel((uint32_t)slot, image, bytes);
    else
        free(image);
}

static void take_order(const struct channel_message *message, int descriptor)
{
    if (message->type == CHANNEL_ARENA) {
        take_arena(message->u.arena.bytes, message->u.arena.threads, descriptor);
        return;
    }
    if (descriptor >= 0 && message->type != CHANNEL_REGION && message->type != CHANNEL_RUN &&
        message->type != CHANNEL_KERNEL)
        worker_broken("a descriptor that nobody asked for", message->type);
    if (message->type == CHANNEL_PING) {
        answer_ping();
        return;
    }
    if (!worker.open)
        worker_broken("an order before the ARENA", message->type);
    switch (message->type) {
    case CHANNEL_ALLOCATE:
        store_allocate(&worker, message);
        break;
    case CHANNEL_EXPORT:
        exported_begin(&worker, message);
        break;
    case CHANNEL_UPLOAD:
    case CHANNEL_DOWNLOAD:
        store_copy(&worker, message);
        break;
    case CHANNEL_MAILBOX:
        store_open_mailbox(&worker, message->u.mailbox.bytes);
        break;
    case CHANNEL_REGION:
        store_map(&worker, message, descriptor);
        break;
    case CHANNEL_UNREGION:
        regions_unmap(&worker.regions, message->u.region.region);
        break;
    case CHANNEL_RUN:
        jobs_run(&worker, &message->u.run, &loop.orders, descriptor);
        rights_close(descriptor);
        break;
    case CHANNEL_KERNEL:
        take_kernel(message->u.kernel.slot, message->u.kernel.bytes, descriptor);
        break;
    case CHANNEL_MEASURE:
        jobs_measure(&worker, message);
        break;
    case CHANNEL_CANCEL:
        jobs_cancel(&worker, message->u.job.id);
        jobs_start_waiting(&worker);
        break;
    case CHANNEL_RELEASE:
        store_release(&worker, message->u.job.id);
        break;
    default:
        if (!peers_take(&worker, message))
            worker_broken("an order of an unknown type", message->type);
    }
}

static void take_completion(const struct completion *completion)
{
    const int kind = completion->token.kind;
    void *of = completion->token.of;
    if (kind >= TOKEN_EXCHANGE) {
        peers_completed(&worker, completion);
        return;
    }
    if (kind >= TOKEN_COPY_IN) {
        worker.jobs.ended++;
        jobs_settle(&worker, pipeline_complete(&worker.pipeline, completion));
        return;
    }
    if (!completion->edges)
        worker_completed(kind == TOKEN_SLICE || kind == TOKEN_HOME ? &worker.jobs : &worker.copies);
    if (kind == TOKEN_SLICE)
        jobs_slice_completed(&worker, of, completion);
    else if (kind == TOKEN_HOME)
        jobs_came_home(&worker, of);
    else if (kind == TOKEN_EXPORT)
        exported_copied(&worker, of);
    else
        store_copied(&worker, of, NULL, kind == TOKEN_UPLOAD, completion->token.number);
}

/* Were there any? */
static bool take_completions(void)
{
    struct completion completion;
    bool some = false;
    for (; worker.backend->reap(&completion); some = true)
        take_completion(&completion);
    if (some)
        jobs_start_waiting(&worker);
    return some;
}

/* Take the orders that have come; a packet to its end. Were there any? The plan of a job with many
 * coordinates may take a second, and a ping may stand behind many such jobs, or behind very many
 * orders: it is answered before its turn, so that the front does not take this worker for one that
 * hangs. */
static bool take_orders(void)
{
    const bool serves = worker.open; /* else READY is what the front waits for */
    const uint64_t begun_us = clock_us(), until_us = begun_us + ORDERS_US;
    bool all = false;
    int i;
    for (i = 0; (i < ORDERS_AT_ONCE && clock_us() < until_us) || channel_inbox_holds(&loop.orders);
         i++) {
        struct channel_message message;
        int descriptor;
        const enum channel_result result =
            channel_receive(CHANNEL_DESCRIPTOR, &loop.orders, &message, &descriptor);
        if (result == CHANNEL_CLOSED)
            end_worker();
        if (result == CHANNEL_BROKEN)
            worker_broken("a packet that is not whole records of version", CHANNEL_VERSION);
        all = result == CHANNEL_AGAIN;
        if (all)
            break;
        take_order(&message, descriptor);
    }
    if (all)
        loop.alive_us = begun_us;
    const uint64_t now_us = clock_us();
    if (serves && now_us - loop.alive_us >= ORDERS_US) {
        worker_answer(&worker, &(struct channel_message){.type = CHANNEL_ALIVE});
        loop.alive_us = now_us;
    }
    return i > 0;
}

/* --- the loop --- */

/* Sleep until something comes or completes, at most timeout_ms; and take it. */
static bool wait(int timeout_ms)
{
    struct pollfd polls[] = {{.fd = CHANNEL_DESCRIPTOR, .events = POLLIN},
                             {.fd = worker.open ? worker.wake : -1, .events = POLLIN}};
    if (worker.answers.count)
        polls[0].events |= POLLOUT;
    if (timeout_ms && is_busy())
        worker.backend->arm();
    else if (timeout_ms && worker.open && worker.backend->rest())
        timeout_ms = 0;
    const int ready = poll(polls, 2, timeout_ms);
    if (ready < 0 && errno != EINTR && errno != EAGAIN)
        log_fatal(BACKEND_FAULT_EXIT, "poll: %s", strerror(errno));
    if (ready < 0)
        return false;
    bool some = false;
    if (polls[1].revents) {
        wake_take(worker.wake);
        store_answer_mapped(&worker);
    }
    /* Also when nothing woke the worker: a failed device does not. */
    if (polls[1].revents || is_busy())
        some = take_completions();
    if (polls[0].revents & (POLLIN | POLLHUP | POLLERR))
        some = take_orders() || some;
    return some;
}

/* A thread that sleeps is woken in the time that a small job takes: so busy-poll for a while first.
 */
static _Noreturn void serve_front(void)
{
    uint64_t active_us = 0, waited_us = 0;
    for (;;) {
        if (worker.open) {
            pipeline_pump(&worker.pipeline);
            worker.backend->begin();
        }
        if (channel_queue_flush(&worker.answers, CHANNEL_DESCRIPTOR) == CHANNEL_CLOSED)
            end_worker();
        const uint64_t now = clock_us();
        const bool polls = loop.busy_polls && now - active_us < BUSY_POLL_US;
        bool some;
        if (polls && now - waited_us < SLEEP_US && !worker.answers.count) {
            some = take_completions();
            some = take_orders() || some;
        } else {
            waited_us = now;
            some = wait(polls ? 0 : is_busy() ? FAULT_POLL_MS : -1);
        }
        if (some)
            active_us = clock_us();
    }
}

static bool choose_device(const char *name)
{
    if (strcmp(name, "host") == 0 || strncmp(name, "host:", 5) == 0) {
        worker.backend = backend_host();
        return true;
    }
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *rest;
    const long index = strtol(name + 5, &rest, 10);
    if (*rest || index > 1023)
        return false;
    worker.device = (int)index;
#ifdef HAVE_CUDA
    worker.backend = backend_cuda();
#endif
    return true;
}

/* The front says in the environment which lines it wants. */
static void open_log(const char *device)
{
    static char name[32];
    const char *level = getenv("FDSERVER_LOG_LEVEL");
    snprintf(name, sizeof name, "fdworker %s", device);
    if (!log_open(name, level ? (enum log_level)atoi(level) : LOG_LEVEL_INFO))
        log_fatal(EXIT_USAGE, "no thread for the log");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("fdworker " FDSERVER_VERSION);
        return 0;
    }
    if (argc != 2 || !choose_device(argv[1])) {
        fprintf(stderr,
                "usage: fdworker host[:N] | cuda:N\n"
                "Started by fdserver, with its channel on descriptor %d.\n",
                CHANNEL_DESCRIPTOR);
        return EXIT_USAGE;
    }
    int kind = 0;
    socklen_t length = sizeof kind;
    if (getsockopt(CHANNEL_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &kind, &length) < 0 ||
        kind != SOCK_SEQPACKET) {
        fprintf(stderr, "<3>fdworker: descriptor %d is not the front's channel\n",
                CHANNEL_DESCRIPTOR);
        return EXIT_USAGE;
    }
    fcntl(CHANNEL_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    signals_leave_to_front("fdworker");
    open_log(argv[1]);
    serve_front();
}
