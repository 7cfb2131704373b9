#include "base/thread_pool.h"

#include "base/clock.h"
#include "base/cores.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STILL_MOST_US = 1000 * 1000 };

/* What one thread shares with others; on its stack. */
struct loop {
    struct list link;
    thread_pool_work *work;
    void *context;
    int most, inside; /* helpers: that may be at it at once, and are */
    int joined;       /* helpers, so far */
    bool exhausted;   /* no part is left to take */
};

/* One of the pool's, and what thread_pool_still_us() knows of it. */
struct member {
    _Alignas(64) pthread_t thread;
    _Atomic pid_t id;
    _Atomic uint64_t part; /* that it is at, counted from 1; 0: it is at none */
    uint64_t begun;        /* parts, so far; its own */
    /* At the last call: the part, the CPU time, and for how long it had been at that part. */
    uint64_t seen_part, seen_cpu_us, still_us;
};

static struct {
    pthread_mutex_t mutex; /* guards the rest, but for shorts and members */
    pthread_cond_t more;   /* a task, or a loop to join */
    pthread_cond_t left;   /* the last helper has left a loop that is exhausted */
    struct member members[POOL_THREADS_MOST];
    int count, sleeping;
    bool closing;
    struct list waiting[POOL_LENGTHS]; /* tasks */
    atomic_int shorts;                 /* that wait */
    uint64_t shorts_us;                /* that short ones have had while slices waited */
    bool wide_under_way;
    enum thread_pool_length last; /* of the slices that went last: POOL_LONG or POOL_WIDE */
    struct list loops;            /* oldest first */
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .more = PTHREAD_COND_INITIALIZER,
          .left = PTHREAD_COND_INITIALIZER};

/* This thread helps with a loop; it has left it, before its end, for a short task. */
static _Thread_local bool helps, has_left;
static _Thread_local struct member *self; /* NULL: not the pool's */
static _Thread_local struct {
    size_t bytes;
    void *memory;
} scratch;

static void begin_part(void)
{
    if (self)
        atomic_store_explicit(&self->part, ++self->begun, memory_order_relaxed);
}

static void end_parts(void)
{
    if (self)
        atomic_store_explicit(&self->part, 0, memory_order_relaxed);
}

/* --- what is next --- */

static void wake(int threads)
{
    for (int i = 0; i < threads && i < pool.sleeping; i++)
        pthread_cond_signal(&pool.more);
}

static void push(struct thread_pool_task *task)
{
    list_push(&pool.waiting[task->length], &task->link);
    if (task->length == POOL_SHORT)
        atomic_fetch_add(&pool.shorts, 1);
}

static struct thread_pool_task *take_waiting(enum thread_pool_length length)
{
    struct thread_pool_task *task = LIST_TAKE(&pool.waiting[length], struct thread_pool_task, link);
    if (length == POOL_SHORT) {
        atomic_fetch_sub(&pool.shorts, 1);
        return task;
    }
    pool.last = length;
    pool.shorts_us = 0;
    pool.wide_under_way |= length == POOL_WIDE;
    return task;
}

static bool waits(enum thread_pool_length length)
{
    return !list_empty(&pool.waiting[length]) && !(length == POOL_WIDE && pool.wide_under_way);
}

static bool slices_wait(void)
{
    return waits(POOL_LONG) || waits(POOL_WIDE);
}

/* NULL: none may begin. */
static struct thread_pool_task *next_task(void)
{
    if (waits(POOL_SHORT) && !(slices_wait() && pool.shorts_us >= POOL_TURN_US))
        return take_waiting(POOL_SHORT);
    if (!slices_wait())
        return NULL;
    const bool is_wide = waits(POOL_WIDE) && (pool.last == POOL_LONG || !waits(POOL_LONG));
    return take_waiting(is_wide ? POOL_WIDE : POOL_LONG);
}

static struct loop *next_loop(void)
{
    LIST_EACH (struct loop, loop, &pool.loops, link)
        if (!loop->exhausted && loop->inside < loop->most)
            return loop;
    return NULL;
}

/* --- threads --- */

/* The mutex is held, but for the task's own time. The thread takes one of those that follow it. */
static void run_task(struct thread_pool_task *task)
{
    const enum thread_pool_length length = task->length;
    struct list next = {&next, &next};
    int begins = 0;
    pthread_mutex_unlock(&pool.mutex);
    begin_part();
    const uint64_t begin = clock_us();
    task->run(task, &next);
    const uint64_t us = clock_us() - begin;
    end_parts();
    pthread_mutex_lock(&pool.mutex);
    if (length == POOL_SHORT && slices_wait())
        pool.shorts_us += us;
    if (length == POOL_WIDE) {
        pool.wide_under_way = false;
        begins += waits(POOL_WIDE);
    }
    LIST_DRAIN (struct thread_pool_task, one, &next, link) {
        push(one);
        begins++;
    }
    wake(begins - 1);
}

/* As run_task(). */
static void help(struct loop *loop)
{
    const int slot = ++loop->joined;
    loop->inside++;
    pthread_mutex_unlock(&pool.mutex);
    helps = true;
    begin_part();
    loop->work(loop->context, slot);
    end_parts();
    helps = false;
    pthread_mutex_lock(&pool.mutex);
    loop->exhausted |= !has_left;
    has_left = false;
    if (--loop->inside == 0 && loop->exhausted)
        pthread_cond_broadcast(&pool.left);
}

static void *thread(void *member)
{
    self = member;
    self->id = gettid();
    pthread_mutex_lock(&pool.mutex);
    while (!pool.closing) {
        struct thread_pool_task *task = next_task();
        struct loop *loop = task ? NULL : next_loop();
        if (task) {
            run_task(task);
        } else if (loop) {
            help(loop);
        } else {
            pool.sleeping++;
            pthread_cond_wait(&pool.more, &pool.mutex);
            pool.sleeping--;
        }
    }
    pthread_mutex_unlock(&pool.mutex);
    free(scratch.memory);
    return NULL;
}

bool thread_pool_open(int threads, struct failure *failure)
{
    int error = 0;
    if (threads <= 0)
        threads = cores_count();
    while (!error && pool.count < threads && pool.count < POOL_THREADS_MOST) {
        struct member *member = &pool.members[pool.count];
        *member = (struct member){.begun = 0};
        error = pthread_create(&member->thread, NULL, thread, member);
        pool.count += !error;
    }
    return pool.count > 0 || failure_set(failure, STATUS_INTERNAL, NULL,
                                         "no thread can be made: %s", strerror(error));
}

void thread_pool_close(void)
{
    pthread_mutex_lock(&pool.mutex);
    pool.closing = true;
    pthread_cond_broadcast(&pool.more);
    pthread_mutex_unlock(&pool.mutex);
    while (pool.count > 0)
        pthread_join(pool.members[--pool.count].thread, NULL);
    pool.closing = false;
}

int thread_pool_threads(void)
{
    return pool.count ? pool.count : 1;
}

void thread_pool_give(struct thread_pool_task *task)
{
    pthread_mutex_lock(&pool.mutex);
    push(task);
    wake(1);
    pthread_mutex_unlock(&pool.mutex);
}

/* --- loops --- */

bool thread_pool_stays(void)
{
    if (helps && atomic_load_explicit(&pool.shorts, memory_order_relaxed) > 0)
        has_left = true;
    if (!has_left)
        begin_part();
    return !has_left;
}

void thread_pool_share(int most, thread_pool_work *work, void *context)
{
    const int threads = thread_pool_threads();
    struct loop loop = {.work = work, .context = context};
    loop.most = (most < threads ? most : threads) - 1;
    if (loop.most <= 0) {
        work(context, 0);
        return;
    }
    pthread_mutex_lock(&pool.mutex);
    list_push(&pool.loops, &loop.link);
    wake(loop.most);
    pthread_mutex_unlock(&pool.mutex);
    work(context, 0);
    end_parts(); /* a thread that is waited for has one */
    pthread_mutex_lock(&pool.mutex);
    loop.exhausted = true;
    list_remove(&loop.link);
    while (loop.inside > 0)
        pthread_cond_wait(&pool.left, &pool.mutex);
    pthread_mutex_unlock(&pool.mutex);
    begin_part(); /* what the task does after it */
}

struct parts {
    thread_pool_part *part;
    void *context;
    int64_t count;
    _Atomic int64_t next;
};

static void take_parts(void *context, int slot)
{
    struct parts *parts = context;
    (void)slot;
    for (int64_t part; thread_pool_stays() && (part = parts->next++) < parts->count;)
        parts->part(parts->context, part);
}

void thread_pool_for(int most, int64_t count, thread_pool_part *part, void *context)
{
    struct parts parts = {.part = part, .context = context, .count = count};
    thread_pool_share(count < most ? (int)count : most, take_parts, &parts);
}

/* --- threads that hang --- */

static uint64_t cpu_us(const struct member *member)
{
    clockid_t clock;
    struct timespec time;
    if (pthread_getcpuclockid(member->thread, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* Does it wait for something else than a CPU or a page? Parts never do. */
static bool is_asleep(const struct member *member)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)member->id);
    FILE *file = fopen(path, "re");
    const bool asleep = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
    if (file)
        fclose(file);
    return asleep;
}

uint64_t thread_pool_still_us(void)
{
    static uint64_t called_us;
    const uint64_t now_us = clock_us();
    const uint64_t passed_us =
        now_us - called_us < STILL_MOST_US ? now_us - called_us : STILL_MOST_US;
    uint64_t most_us = 0;
    called_us = now_us;
    for (int i = 0; i < pool.count; i++) {
        struct member *member = &pool.members[i];
        const uint64_t part = atomic_load_explicit(&member->part, memory_order_relaxed);
        const uint64_t spent_us = part ? cpu_us(member) : 0;
        const uint64_t ran_us = spent_us > member->seen_cpu_us ? spent_us - member->seen_cpu_us : 0;
        if (part && part == member->seen_part)
            member->still_us += is_asleep(member) ? passed_us : ran_us;
        else
            member->still_us = 0;
        member->seen_part = part;
        member->seen_cpu_us = spent_us;
        most_us = member->still_us > most_us ? member->still_us : most_us;
    }
    return most_us;
}

/* --- memory --- */

void *thread_pool_scratch(size_t bytes)
{
    const size_t page = 4096;
    if (scratch.bytes < bytes) {
        free(scratch.memory);
        scratch.bytes = (bytes + page - 1) / page * page;
        scratch.memory = aligned_alloc(page, scratch.bytes);
        if (!scratch.memory)
            scratch.bytes = 0;
    }
    return scratch.memory;
}
