/* The host's cores as a device. Copies are done at once by the caller, but for those that are to
 * come after a launch that is under way; launches are tasks of the pool (base/thread_pool.h),
 * several at a time.
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
#include "base/thread.h"
#include "base/thread_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A launch or a copy. Recycled. */
struct operation {
    struct thread_pool_task task; /* its next: in whichever list it is */
    struct launch launch;         /* plan NULL: it is a copy */
    void *to;
    const void *from;
    size_t bytes;
    struct completion completion;
    struct thread_pool_task *followers; /* begin when it has completed */
    bool completed;
    struct operation *next_tail;
};

static struct {
    const struct kernels *kernels;
    uint64_t stream_bytes;
    struct thread_pool_task *unused; /* operations; the worker's thread's alone */
    pthread_mutex_t mutex;           /* guards the rest, and of operations: followers, completed */
    struct thread_pool_task *completed, **completed_end;
    struct operation *tails; /* the last one of each chain that is under way */
    int wake;                /* eventfd */
} host = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct thread_pool_task *carry_out(struct thread_pool_task *task);

/* An operation that is lost would never be answered. */
static struct operation *operation_take(struct token token)
{
    struct thread_pool_task *task = host.unused;
    struct operation *operation = (struct operation *)task;
    if (task)
        host.unused = task->next;
    else
        operation = malloc(sizeof *operation);
    if (!operation)
        log_fatal(BACKEND_FAULT_EXIT, "host: no memory for an operation");
    *operation = (struct operation){.task.run = carry_out, .completion.token = token};
    return operation;
}

static void free_all(struct thread_pool_task *task)
{
    for (struct thread_pool_task *next; task; task = next) {
        next = task->next;
        free(task);
    }
}

/* Its chain, if it has one, ends with it no longer. The mutex is held. */
static void tail_remove(const struct operation *operation)
{
    for (struct operation **at = &host.tails; *at; at = &(*at)->next_tail)
        if (*at == operation) {
            *at = operation->next_tail;
            return;
        }
}

/* Returns what may begin now. */
static struct thread_pool_task *complete_operation(struct operation *operation)
{
    pthread_mutex_lock(&host.mutex);
    struct thread_pool_task *followers = operation->followers;
    operation->completed = true;
    if (operation->launch.chain)
        tail_remove(operation);
    operation->task.next = NULL;
    *host.completed_end = &operation->task;
    host.completed_end = &operation->task.next;
    pthread_mutex_unlock(&host.mutex);
    thread_wake(host.wake);
    return followers;
}

static struct thread_pool_task *carry_out(struct thread_pool_task *task)
{
    struct operation *operation = (struct operation *)task;
    if (!operation->launch.plan) {
        memcpy(operation->to, operation->from, operation->bytes);
    } else {
        const uint64_t begin = clock_us();
        pass_launch(host.kernels, &operation->launch, host.stream_bytes);
        operation->completion.device_us = clock_us() - begin;
    }
    return complete_operation(operation);
}

/* A job that is done in one slice is a short one: gpu/worker/slices.c sizes the first. */
static enum thread_pool_length pool_length_of(const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    if (launch->from == 0 && launch->to == plan->lines * plan->passes)
        return POOL_SHORT;
    return pass_is_wide(plan) ? POOL_WIDE : POOL_LONG;
}

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
        operation->task.next = host.unused;
        host.unused = &operation->task;
    }
    host.wake = wake;
    host.completed_end = &host.completed;
    memset(info, 0, sizeof *info);
    snprintf(info->kind, sizeof info->kind, "host");
    read_name(info->name, sizeof info->name);
    memory_measure(&info->memory_bytes, &info->free_bytes);
    info->units = (uint32_t)thread_pool_threads();
    info->direct = 1;
    return true;
}

static void host_close(void)
{
    free_all(host.unused);
    free_all(host.completed);
    host.unused = host.completed = NULL;
    memory_trim();
}

/* Begin it when the other has completed, which it may have: false. The mutex is held. */
static bool follow(struct operation *operation, struct operation *other)
{
    if (!other || other->completed)
        return false;
    struct thread_pool_task **end = &other->followers;
    while (*end)
        end = &(*end)->next;
    *end = &operation->task;
    return true;
}

static void host_download(void *to, const void *from, size_t bytes, const void *after,
                          struct token token)
{
    struct operation *launch = (struct operation *)(uintptr_t)after;
    struct operation *copy = operation_take(token);
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    pthread_mutex_lock(&host.mutex);
    const bool waits = follow(copy, launch);
    pthread_mutex_unlock(&host.mutex);
    if (!waits)
        carry_out(&copy->task);
}

static void host_upload(void *to, const void *from, size_t bytes, struct token token)
{
    host_download(to, from, bytes, NULL, token);
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
        struct operation *tail = host.tails;
        while (tail && tail->launch.chain != launch->chain)
            tail = tail->next_tail;
        waits = follow(operation, tail);
        if (tail)
            tail_remove(tail);
        operation->next_tail = host.tails;
        host.tails = operation;
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
    pthread_mutex_lock(&host.mutex);
    struct thread_pool_task *task = host.completed;
    if (task) {
        host.completed = task->next;
        if (!host.completed)
            host.completed_end = &host.completed;
    }
    pthread_mutex_unlock(&host.mutex);
    if (!task)
        return false;
    *completion = ((const struct operation *)task)->completion;
    task->next = host.unused;
    host.unused = task;
    return true;
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
