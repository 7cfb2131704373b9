/* fdworker: owns one device and everything resident on it, and takes orders from the front.
 *
 *     fdworker host | cuda:N      with the channel on descriptor 3
 *
 * Happy path: ARENA → map and open → READY → orders until the channel closes → exit 0.
 * What can go wrong: the device is not there (REFUSED, exit 1); it has no memory left (FAILED, the
 * worker goes on); it faults for good (the backend ends the process); the front breaks a rule of
 * the channel (exit 2: a worker that goes on would write who knows where).
 *
 * A job runs in pieces of about 10 ms, one piece of each job in the backend at a time, so that a
 * short job passes a long one and a cancellation waits for one piece at most.
 */
#include "gpu/backend.h"
#include "gpu/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_REFUSED = 1,
    EXIT_BROKEN_RULE = 2,
    BUCKETS = 4096,
    ORDERS_A_TURN = 256,
    COMPLETIONS_A_TURN = 64,
    FAULT_CHECK_MS = 100,
    PROGRESS_US = 100000,
    PIECE_US = 10000,
    FIRST_PIECE_POINTS = 1 << 22, /* under 10 ms on any device worth the name */
    GROWTH = 4
};

struct array {
    struct array *next;
    uint64_t id, bytes, owner;
    void *memory;  /* NULL: there was none */
    uint32_t jobs; /* that use it */
};

struct running {
    struct running *next;
    uint64_t id;
    struct plan plan;
    struct launch launch;
    struct array *in, *out, *scratch;
    bool swap; /* the result comes to lie in scratch's memory */
    bool cancelled, progress;
    uint64_t total; /* lines of all passes */
    uint64_t piece; /* lines of the next piece */
    uint64_t device_us;
    uint64_t progress_us; /* when it was last told */
};

static struct {
    const struct backend *backend;
    const char *name;
    uint8_t *arena;
    uint64_t arena_bytes;
    struct channel_queue queue;
    struct array *arrays[BUCKETS];
    struct running *jobs;
    uint64_t copies; /* under way */
} worker;

__attribute__((format(printf, 2, 3))) static void log_line(int priority, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "<%d>fdworker %s: %s\n", priority, worker.name, text);
}

_Noreturn static void broken_rule(const char *what)
{
    log_line(3, "the front broke a rule of the channel: %s", what);
    _exit(EXIT_BROKEN_RULE);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void say(const struct channel_message *message)
{
    if (!channel_queue_send(&worker.queue, CHANNEL_DESCRIPTOR, message))
        _exit(0); /* the front is gone */
}

/* ---- arrays ---- */

static struct array **place_of(uint64_t id)
{
    struct array **place = &worker.arrays[id % BUCKETS];
    while (*place && (*place)->id != id)
        place = &(*place)->next;
    return place;
}

static struct array *find(uint64_t id)
{
    struct array *array = *place_of(id);
    if (!array)
        broken_rule("no such array");
    return array;
}

static void take_allocate(const struct channel_message *message)
{
    struct array **place = place_of(message->u.allocate.array);
    if (*place || !message->u.allocate.bytes)
        broken_rule("an array made twice, or of no bytes");
    struct array *array = calloc(1, sizeof *array);
    if (!array) {
        log_line(3, "out of memory");
        _exit(BACKEND_FAULT_EXIT);
    }
    array->id = message->u.allocate.array;
    array->bytes = message->u.allocate.bytes;
    array->owner = message->u.allocate.owner;
    array->memory = worker.backend->allocate(array->bytes, array->owner);
    *place = array;
    if (!array->memory) {
        struct channel_message failed = {.type = CHANNEL_FAILED};
        failed.u.allocate.array = array->id;
        say(&failed);
    }
}

static void take_release(uint64_t id)
{
    struct array **place = place_of(id);
    struct array *array = *place;
    if (!array || array->jobs)
        broken_rule("RELEASE of an array that is not there or in use");
    *place = array->next;
    if (array->memory)
        worker.backend->release(array->memory, array->bytes, array->owner);
    free(array);
}

/* ---- copies ---- */

/* Completions' tokens: copies carry their tag, jobs their address, told apart by the lowest bit. */
static uint64_t copy_token(uint64_t tag)
{
    return tag << 1 | 1;
}

static void copied(uint64_t tag)
{
    struct channel_message message = {.type = CHANNEL_COPIED};
    message.u.copy.tag = tag;
    say(&message);
}

static void take_copy(const struct channel_message *message)
{
    struct array *array = find(message->u.copy.array);
    const uint64_t offset = message->u.copy.offset, bytes = message->u.copy.bytes;
    const uint64_t arena_offset = message->u.copy.arena_offset;
    if (bytes > array->bytes || offset > array->bytes - bytes || bytes > worker.arena_bytes ||
        arena_offset > worker.arena_bytes - bytes || message->u.copy.tag >> 62)
        broken_rule("a copy outside its array or the arena");
    if (!array->memory) {
        copied(message->u.copy.tag);
        return;
    }
    uint8_t *device = (uint8_t *)array->memory + offset;
    worker.copies++;
    if (message->type == CHANNEL_UPLOAD)
        worker.backend->upload(device, worker.arena + arena_offset, bytes,
                               copy_token(message->u.copy.tag));
    else
        worker.backend->download(worker.arena + arena_offset, device, bytes,
                                 copy_token(message->u.copy.tag));
}

/* ---- jobs ---- */

static void finished(uint64_t id, enum status status, uint64_t device_us)
{
    struct channel_message message = {.type = CHANNEL_FINISHED, .status = status};
    message.u.job.id = id;
    message.u.job.device_us = device_us;
    say(&message);
}

static void launch_next(struct running *job)
{
    struct launch *launch = &job->launch;
    uint64_t lines = job->piece;
    if (!worker.backend->splits_passes) {
        const uint64_t passes = lines / job->plan.lines;
        lines = (passes ? passes : 1) * job->plan.lines;
    }
    if (lines > job->total - launch->to)
        lines = job->total - launch->to;
    launch->from = launch->to;
    launch->to += lines;
    worker.backend->launch(launch, (uint64_t)(uintptr_t)job);
}

/* Pass p writes `even` or `odd`; the first may not write what it reads. So in place it begins with
 * scratch. Where the last pass does not write out's memory, the two arrays change their memory. */
static void choose_buffers(struct running *job)
{
    const bool in_place = job->in == job->out;
    struct array *even = in_place ? job->scratch : job->out;
    struct array *odd = in_place ? job->out : job->scratch;
    if (!even || even == job->in || (job->plan.passes > 1 && (!odd || odd == even)))
        broken_rule("a RUN without the scratch array that it needs");
    const bool ends_even = job->plan.passes % 2 == 1;
    job->swap = (ends_even ? even : odd) != job->out;
    job->launch.in = job->in->memory;
    job->launch.even = even->memory;
    job->launch.odd = job->plan.passes > 1 ? odd->memory : NULL;
}

static void take_run(const struct channel_message *message)
{
    const struct job *spec = &message->u.run.job;
    struct failure failure = {0};
    if (!job_check(spec, INFINITY, &failure))
        broken_rule(failure.message);
    struct array *in = find(message->u.run.in), *out = find(message->u.run.out);
    struct array *scratch = message->u.run.scratch ? find(message->u.run.scratch) : NULL;
    const uint64_t bytes = job_bytes(spec);
    if (in->bytes != bytes || out->bytes != bytes || (scratch && scratch->bytes != bytes))
        broken_rule("a RUN whose arrays have another size than its job");
    if (!in->memory || !out->memory || (scratch && !scratch->memory)) {
        finished(message->u.run.id, STATUS_OUT_OF_MEMORY, 0);
        return;
    }
    struct running *job = calloc(1, sizeof *job);
    if (!job) {
        finished(message->u.run.id, STATUS_OUT_OF_MEMORY, 0);
        return;
    }
    job->id = message->u.run.id;
    job->progress = message->u.run.progress;
    job->in = in;
    job->out = out;
    job->scratch = scratch;
    plan_init(&job->plan, spec);
    job->launch.plan = &job->plan;
    choose_buffers(job);
    job->total = job->plan.passes * job->plan.lines;
    job->piece = FIRST_PIECE_POINTS / spec->n[AXIS_X] + 1;
    job->progress_us = now_us();
    in->jobs++;
    out->jobs++;
    if (scratch)
        scratch->jobs++;
    job->next = worker.jobs;
    worker.jobs = job;
    launch_next(job);
}

static void end_job(struct running *job)
{
    const bool done = job->launch.to == job->total;
    if (done && job->swap) {
        void *memory = job->out->memory;
        job->out->memory = job->scratch->memory;
        job->scratch->memory = memory;
    }
    job->in->jobs--;
    job->out->jobs--;
    if (job->scratch)
        job->scratch->jobs--;
    struct running **place = &worker.jobs;
    while (*place != job)
        place = &(*place)->next;
    *place = job->next;
    finished(job->id, done ? STATUS_OK : STATUS_CANCELLED, job->device_us);
    free(job);
}

static void tell_progress(struct running *job)
{
    const uint64_t now = now_us();
    if (!job->progress || now - job->progress_us < PROGRESS_US)
        return;
    job->progress_us = now;
    struct channel_message message = {.type = CHANNEL_PROGRESS};
    message.u.job.id = job->id;
    message.u.job.done = job->launch.to / job->plan.lines;
    message.u.job.total = job->plan.passes;
    say(&message);
}

/* The next piece by what this one took. */
static void measure(struct running *job, uint64_t device_us)
{
    const uint64_t lines = job->launch.to - job->launch.from;
    const double wanted = (double)lines * PIECE_US / (double)(device_us ? device_us : 1);
    const double most = (double)lines * GROWTH;
    job->piece = (uint64_t)(wanted < most ? wanted : most);
    if (!job->piece)
        job->piece = 1;
    job->device_us += device_us;
}

static void piece_done(struct running *job, uint64_t device_us)
{
    measure(job, device_us);
    if (job->launch.to == job->total || job->cancelled) {
        end_job(job);
        return;
    }
    tell_progress(job);
    launch_next(job);
}

static void take_cancel(uint64_t id)
{
    for (struct running *job = worker.jobs; job; job = job->next)
        if (job->id == id)
            job->cancelled = true; /* one that is not there has just finished */
}

/* ---- the loop ---- */

static void take_order(const struct channel_message *message)
{
    switch (message->type) {
    case CHANNEL_ALLOCATE:
        take_allocate(message);
        break;
    case CHANNEL_RELEASE:
        take_release(message->u.job.id);
        break;
    case CHANNEL_UPLOAD:
    case CHANNEL_DOWNLOAD:
        take_copy(message);
        break;
    case CHANNEL_RUN:
        take_run(message);
        break;
    case CHANNEL_CANCEL:
        take_cancel(message->u.job.id);
        break;
    case CHANNEL_PING: {
        const struct channel_message pong = {.type = CHANNEL_PONG};
        say(&pong);
        break;
    }
    default:
        broken_rule("an unknown order");
    }
}

static void take_orders(void)
{
    for (int i = 0; i < ORDERS_A_TURN; i++) {
        struct channel_message message;
        int descriptor;
        const enum channel_result result =
            channel_receive(CHANNEL_DESCRIPTOR, &message, &descriptor);
        if (result == CHANNEL_AGAIN)
            return;
        if (result == CHANNEL_CLOSED)
            _exit(0); /* the front is gone, and with it everybody who could want anything */
        if (descriptor >= 0)
            broken_rule("a descriptor came with an order");
        take_order(&message);
    }
}

static void take_completions(void)
{
    struct completion completions[COMPLETIONS_A_TURN];
    int count;
    do {
        count = worker.backend->reap(completions, COMPLETIONS_A_TURN);
        for (int i = 0; i < count; i++) {
            const uint64_t token = completions[i].token;
            if (token & 1) {
                worker.copies--;
                copied(token >> 1);
            } else {
                piece_done((struct running *)(uintptr_t)token, completions[i].device_us);
            }
        }
    } while (count == COMPLETIONS_A_TURN);
}

_Noreturn static void serve(void)
{
    for (;;) {
        struct pollfd watched[] = {
            {.fd = CHANNEL_DESCRIPTOR, .events = worker.queue.count ? POLLIN | POLLOUT : POLLIN},
            {.fd = worker.backend->wake_descriptor(), .events = POLLIN},
        };
        /* A fault is not announced by any descriptor: look for it while something is under way. */
        const bool busy = worker.jobs || worker.copies;
        if (poll(watched, 2, busy ? FAULT_CHECK_MS : -1) < 0 && errno != EINTR) {
            log_line(3, "poll: %s", strerror(errno));
            _exit(BACKEND_FAULT_EXIT);
        }
        if (watched[0].revents & POLLOUT &&
            channel_queue_flush(&worker.queue, CHANNEL_DESCRIPTOR) == CHANNEL_CLOSED)
            _exit(0);
        take_completions();
        if (watched[0].revents & (POLLIN | POLLHUP | POLLERR))
            take_orders();
    }
}

/* ---- start ---- */

_Noreturn static void refuse(const char *why)
{
    struct channel_message message = {.type = CHANNEL_REFUSED};
    snprintf(message.u.refused.text, sizeof message.u.refused.text, "%s", why);
    channel_send(CHANNEL_DESCRIPTOR, &message, -1);
    _exit(EXIT_REFUSED);
}

/* Map the arena. It is sealed against shrinking, so no access to it can fault later. */
static void take_arena(void)
{
    struct channel_message message;
    int descriptor;
    struct pollfd channel = {.fd = CHANNEL_DESCRIPTOR, .events = POLLIN};
    enum channel_result result;
    while ((result = channel_receive(CHANNEL_DESCRIPTOR, &message, &descriptor)) == CHANNEL_AGAIN)
        poll(&channel, 1, -1);
    if (result == CHANNEL_CLOSED)
        _exit(0);
    struct stat status;
    const int seals = descriptor >= 0 ? fcntl(descriptor, F_GET_SEALS) : -1;
    if (message.type != CHANNEL_ARENA || seals < 0 || !(seals & F_SEAL_SHRINK) ||
        fstat(descriptor, &status) != 0 || (uint64_t)status.st_size != message.u.arena.bytes)
        broken_rule("the first order must be ARENA with a sealed memfd");
    worker.arena_bytes = message.u.arena.bytes;
    worker.arena =
        mmap(NULL, worker.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (worker.arena == MAP_FAILED)
        refuse("the staging arena cannot be mapped");
    close(descriptor);
}

static int device_index(const char *name)
{
    if (strcmp(name, "host") == 0) {
        worker.backend = backend_host();
        return 0;
    }
    if (strncmp(name, "cuda:", 5) != 0) {
        fprintf(stderr, "usage: fdworker host|cuda:N (started by fdserver)\n");
        exit(EXIT_BROKEN_RULE);
    }
#ifdef HAVE_CUDA
    worker.backend = backend_cuda();
    return (int)strtol(name + 5, NULL, 10);
#else
    refuse("this fdworker was built without CUDA");
#endif
}

int main(int argc, char **argv)
{
    worker.name = argc == 2 ? argv[1] : "";
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("fdworker " FDSERVER_VERSION);
        return 0;
    }
    /* The front decides when we end: its death ends us, signals to the terminal's group do not. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    const int index = device_index(worker.name);
    take_arena();
    struct channel_message ready = {.type = CHANNEL_READY};
    struct failure failure = {0};
    if (!worker.backend->open(index, worker.arena, worker.arena_bytes, &ready.u.ready.info,
                              &failure))
        refuse(failure.message);
    ready.u.ready.pid = (uint32_t)getpid();
    say(&ready);
    serve();
}
