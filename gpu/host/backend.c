/* The host's cores as a device. Copies are done at once by the caller, but for those that are to
 * come after a launch that is under way, and for large ones; these and launches are tasks of the
 * pool (base/thread_pool.h), several at a time.
 *
 *   worker's thread                     pool's threads
 *   launch() → operation ────────────►  pass_launch() ─► operations that follow it
 *   reap()   ◄── completed, eventfd ◄───┘
 */
#include "gpu/backend.h"
#include "base/clock.h"
#include "gpu/host/memory.h"
#include "gpu/host/pass.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/wake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A launch or a copy. Recycled. */
struct operation {
    struct thread_pool_task task; /* its link: of the list that it is in */
    struct launch launch;         /* plan NULL: it is a copy */
    void *to;
    const void *from;
    size_t bytes;
    struct completion completion;
    struct list followers; /* begin when it has completed */
    bool completed;
    struct list tail; /* of a chain, while it is the last one there */
};

static struct {
    const struct kernels *kernels;
    uint64_t stream_bytes;
    struct list unused;    /* operations; the worker's thread's alone */
    struct list reaped;    /* completed, and taken one by one by reap(); likewise */
    bool reaping;          /* the last reap() took one */
    pthread_mutex_t mutex; /* guards the rest, and of operations: followers, completed, tail */
    struct list completed;
    struct list tails; /* the last one of each chain that is under way */
    int wake;          /* eventfd */
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void carry_out(struct thread_pool_task *task, struct list *next)
{
    struct operation *operation = (struct operation *)task;
    if (!operation->launch.plan) {
        memcpy(operation->to, operation->from, operation->bytes);
    } else {
        const uint64_t begin = clock_us();
        pass_launch(host.kernels, &operation->launch, host.stream_bytes);
        operation->completion.device_us = clock_us() - begin;
    }
    pthread_mutex_lock(&host.mutex);
    list_move(&operation->followers, next);
    operation->completed = true;
    list_remove(&operation->tail);
    list_push(&host.completed, &task->link);
    pthread_mutex_unlock(&host.mutex);
    wake_send(host.wake);
}

/* An operation that is lost would never be answered. */
static struct operation *operation_take(struct token token)
{
    struct operation *operation = LIST_TAKE(&host.unused, struct operation, task.link);
    if (!operation && !(operation = malloc(sizeof *operation)))
        log_fatal(BACKEND_FAULT_EXIT, "host: no memory for an operation");
    *operation = (struct operation){.task.run = carry_out, .completion.token = token};
    return operation;
}

/* A job that is done in one slice is a short one: gpu/worker/slices.c sizes the first. */
static enum thread_pool_length pool_length_of(const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    if (launch->from == 0 && launch->to == plan->lines * plan->passes)
        return POOL_SHORT;
    return pass_is_wide(plan) ? POOL_WIDE : POOL_LONG;
}

/* More than any slab: it is left to the pool, so that the worker answers meanwhile. */
enum { COPY_AT_ONCE_BYTES = 4 << 20 };

/* So many may be under way without a call for memory. */
enum { OPERATIONS_KEPT = 256 };

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

static bool host_open(int index, void *arena, size_t arena_bytes, int wake,
                      struct device_info *info, struct failure *failure)
{
    (void)arena, (void)arena_bytes;
    if (index != 0)
        return failure_set(failure, STATUS_INTERNAL, NULL, "there is one host device, 0; got %d",
                           index);
    const struct kernels *kernels[PASS_KERNELS];
    pass_kernels(kernels);
    host.kernels = kernels[0];
    host.stream_bytes = pass_stream_bytes();
    for (int i = 0; i < OPERATIONS_KEPT; i++) {
        struct operation *operation = malloc(sizeof *operation);
        if (!operation)
            return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "no memory for operations");
        list_push(&host.unused, &operation->task.link);
    }
    host.wake = wake;
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "host");
    read_name(info->name, sizeof info->name);
    info->free_bytes = memory_free();
    info->units = (uint32_t)thread_pool_threads();
    info->direct = 1;
    info->arrays_most = memory_most_blocks();
    info->export_bytes = MEMORY_PAGE_BYTES;
    return true;
}

static void host_close(void)
{
    list_move(&host.completed, &host.unused);
    list_move(&host.reaped, &host.unused);
    LIST_DRAIN (struct operation, operation, &host.unused, task.link)
        free(operation);
    memory_trim();
}

/* Begin it when the other has completed, which it may have: false. The mutex is held. */
static bool follow(struct operation *operation, struct operation *other)
{
    if (!other || other->completed)
        return false;
    list_push(&other->followers, &operation->task.link);
    return true;
}

static void host_download(void *to, const void *from, size_t bytes, const void *after,
                          struct token token)
{
    struct operation *copy = operation_take(token);
    struct list none = {0};
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    copy->task.length = bytes > COPY_AT_ONCE_BYTES ? POOL_LONG : POOL_SHORT;
    pthread_mutex_lock(&host.mutex);
    const bool waits = follow(copy, (struct operation *)(uintptr_t)after);
    pthread_mutex_unlock(&host.mutex);
    if (!waits && bytes <= COPY_AT_ONCE_BYTES)
        carry_out(&copy->task, &none);
    else if (!waits)
        thread_pool_give(&copy->task);
}

static void host_upload(void *to, const void *from, size_t bytes, struct token token)
{
    host_download(to, from, bytes, NULL, token);
}

/* The mutex is held. NULL: nothing of the chain is under way. */
static struct operation *tail_of(uint64_t chain)
{
    LIST_EACH (struct operation, operation, &host.tails, tail)
        if (operation->launch.chain == chain)
            return operation;
    return NULL;
}

/* The last of a chain that is under way gives its place to the next. */
static const void *host_launch(const struct launch *launch, struct token token)
{
    struct operation *operation = operation_take(token);
    bool waits = false;
    operation->launch = *launch;
    operation->task.length = pool_length_of(launch);
    if (launch->chain) {
        pthread_mutex_lock(&host.mutex);
        struct operation *tail = tail_of(launch->chain);
        waits = follow(operation, tail);
        if (tail)
            list_remove(&tail->tail);
        list_push(&host.tails, &operation->tail);
        pthread_mutex_unlock(&host.mutex);
    }
    if (!waits)
        thread_pool_give(&operation->task);
    return operation;
}

/* launch() has begun it, and every completion wakes the caller. */
static void host_nothing(void)
{
}

static bool host_rest(void)
{
    return false;
}

static bool host_reap(struct completion *completion)
{
    if (!host.reaping) {
        pthread_mutex_lock(&host.mutex);
        list_move(&host.completed, &host.reaped);
        pthread_mutex_unlock(&host.mutex);
    }
    struct operation *operation = LIST_TAKE(&host.reaped, struct operation, task.link);
    host.reaping = operation != NULL;
    if (!operation)
        return false;
    *completion = operation->completion;
    list_push_front(&host.unused, &operation->task.link);
    return true;
}

const struct backend *backend_host(void)
{
    static const struct backend backend = {
        .splits_passes = true,
        .open = host_open,
        .close = host_close,
        .allocate = memory_allocate,
        .release = memory_release,
        .allocate_exportable = memory_allocate_shared,
        .release_exportable = memory_release_shared,
        .import = memory_import,
        .unimport = memory_unimport,
        .upload = host_upload,
        .download = host_download,
        .launch = host_launch,
        .begin = host_nothing,
        .arm = host_nothing,
        .rest = host_rest,
        .busy_polls = false, /* its launches need the CPUs */
        .still_us = thread_pool_still_us,
        .reap = host_reap,
    };
    return &backend;
}
