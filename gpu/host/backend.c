/* The host's cores as a device. Copies are done at once by the caller; launches run in their order
 * on one thread, which shares each of them with all cores; copies after a launch are done there.
 *
 *   worker's thread                     runner
 *   launch() → orders ───────────────►  pass_launch()
 *   reap()   ◄── completions, eventfd ◄─┘
 */
#include "gpu/backend.h"
#include "gpu/clock.h"
#include "gpu/host/memory.h"
#include "gpu/host/pass.h"
#include "gpu/host/share.h"
#include "gpu/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A queue that grows. */
struct ring {
    void *items;
    size_t item_bytes, first, count, capacity;
};

/* A launch or, where `bytes`, a copy after one. */
struct order {
    struct launch launch;
    void *to;
    const void *from;
    size_t bytes;
    uint64_t token;
};

static struct {
    const struct kernels *kernels;
    uint64_t stream_bytes;
    pthread_t runner;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t ordered;
    struct ring orders;      /* struct order */
    struct ring completions; /* struct completion */
    uintptr_t launches;      /* so far: the name of the last one. The worker's thread's alone */
    bool closing;
    int wake; /* eventfd */
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .ordered = PTHREAD_COND_INITIALIZER,
          .orders = {.item_bytes = sizeof(struct order)},
          .completions = {.item_bytes = sizeof(struct completion)},
          .wake = -1};

static void ring_push(struct ring *ring, const void *item)
{
    if (ring->count == ring->capacity) {
        const size_t capacity = ring->capacity ? 2 * ring->capacity : 64;
        char *items = malloc(capacity * ring->item_bytes);
        if (!items) /* an order that is lost would never be answered */
            log_fatal(BACKEND_FAULT_EXIT, "host: no memory for %zu orders", capacity);
        const size_t tail = ring->capacity - ring->first;
        if (ring->items) {
            memcpy(items, (char *)ring->items + ring->first * ring->item_bytes,
                   tail * ring->item_bytes);
            memcpy(items + tail * ring->item_bytes, ring->items, ring->first * ring->item_bytes);
        }
        free(ring->items);
        ring->items = items;
        ring->first = 0;
        ring->capacity = capacity;
    }
    const size_t place = (ring->first + ring->count++) % ring->capacity;
    memcpy((char *)ring->items + place * ring->item_bytes, item, ring->item_bytes);
}

static void ring_pop(struct ring *ring, void *item)
{
    memcpy(item, (char *)ring->items + ring->first * ring->item_bytes, ring->item_bytes);
    ring->first = (ring->first + 1) % ring->capacity;
    ring->count--;
}

static void ring_free(struct ring *ring)
{
    free(ring->items);
    *ring = (struct ring){.item_bytes = ring->item_bytes};
}

static void complete(uint64_t token, uint64_t device_us)
{
    const struct completion completion = {.token = token, .device_us = device_us};
    const uint64_t one = 1;
    pthread_mutex_lock(&host.mutex);
    ring_push(&host.completions, &completion);
    pthread_mutex_unlock(&host.mutex);
    while (write(host.wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void *runner(void *unused)
{
    (void)unused;
    for (;;) {
        struct order order;
        pthread_mutex_lock(&host.mutex);
        while (host.orders.count == 0 && !host.closing)
            pthread_cond_wait(&host.ordered, &host.mutex);
        if (host.closing) {
            pthread_mutex_unlock(&host.mutex);
            return NULL;
        }
        ring_pop(&host.orders, &order);
        pthread_mutex_unlock(&host.mutex);
        const uint64_t begin = clock_us();
        if (order.bytes)
            memcpy(order.to, order.from, order.bytes);
        else
            pass_launch(host.kernels, &order.launch, host.stream_bytes);
        complete(order.token, clock_us() - begin);
    }
}

static void read_name(char *name, size_t size)
{
    char line[256];
    snprintf(name, size, "host");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) == 0 && strstr(line, ": ")) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, size, "%s", strstr(line, ": ") + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

static bool host_open(int index, void *arena, size_t arena_bytes, struct device_info *info,
                      struct failure *failure)
{
    (void)arena;
    (void)arena_bytes;
    if (index != 0)
        return failure_set(failure, STATUS_INTERNAL, NULL, "there is one host device, 0; got %d",
                           index);
    const struct kernels *kernels[PASS_KERNELS];
    pass_kernels(kernels);
    host.kernels = kernels[0];
    host.stream_bytes = pass_stream_bytes();
    host.closing = false;
    host.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (host.wake < 0)
        return failure_set(failure, STATUS_INTERNAL, NULL, "eventfd: %s", strerror(errno));
    sigset_t all, before; /* signals are for the worker's own thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&host.runner, NULL, runner, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        close(host.wake);
        host.wake = -1;
        return failure_set(failure, STATUS_INTERNAL, NULL, "no thread: %s", strerror(error));
    }
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "host");
    read_name(info->name, sizeof info->name);
    memory_measure(&info->memory_bytes, &info->free_bytes);
    info->units = (uint32_t)share_threads();
    info->direct = 1;
    return true;
}

static void host_close(void)
{
    pthread_mutex_lock(&host.mutex);
    host.closing = true;
    pthread_cond_signal(&host.ordered);
    pthread_mutex_unlock(&host.mutex);
    pthread_join(host.runner, NULL);
    ring_free(&host.orders);
    ring_free(&host.completions);
    close(host.wake);
    host.wake = -1;
    memory_trim();
}

static void host_copy(void *to, const void *from, size_t bytes, uint64_t token)
{
    memcpy(to, from, bytes);
    complete(token, 0);
}

static void give(const struct order *order)
{
    pthread_mutex_lock(&host.mutex);
    ring_push(&host.orders, order);
    pthread_cond_signal(&host.ordered);
    pthread_mutex_unlock(&host.mutex);
}

static void host_download(void *to, const void *from, size_t bytes, const void *after,
                          uint64_t token)
{
    if (after && bytes)
        give(&(struct order){.to = to, .from = from, .bytes = bytes, .token = token});
    else
        host_copy(to, from, bytes, token);
}

static const void *host_launch(const struct launch *launch, uint64_t token)
{
    give(&(struct order){.launch = *launch, .token = token});
    /* A name of its own: the caller forgets a launch by its name when it has completed. */
    return (const void *)++host.launches;
}

/* launch() has begun it, and its completion wakes whoever sleeps. */
static void host_nothing(void)
{
}

static bool host_rest(void)
{
    return false;
}

static int host_wake_descriptor(void)
{
    return host.wake;
}

static int host_reap(struct completion *completions, int max)
{
    uint64_t count;
    int taken = 0;
    pthread_mutex_lock(&host.mutex);
    while (taken < max && host.completions.count > 0)
        ring_pop(&host.completions, &completions[taken++]);
    /* Under the mutex: a completion that comes now will be written to the descriptor after this. */
    if (host.completions.count == 0)
        while (read(host.wake, &count, sizeof count) < 0 && errno == EINTR)
            ;
    pthread_mutex_unlock(&host.mutex);
    return taken;
}

const struct backend *backend_host(void)
{
    static const struct backend backend = {
        .kind = "host",
        .splits_passes = true,
        .open = host_open,
        .close = host_close,
        .allocate = memory_allocate,
        .release = memory_release,
        .upload = host_copy,
        .download = host_download,
        .launch = host_launch,
        .begin = host_nothing,
        .arm = host_nothing,
        .rest = host_rest,
        .is_looked_at = false, /* its launches need the CPUs */
        .wake_descriptor = host_wake_descriptor,
        .reap = host_reap,
    };
    return &backend;
}
