/* A worker's threads: which task goes next, who helps with a loop, and that all is done once. Tasks
 * note when they begin, and wait for what the test lets go on. */
#include "base/clock.h"
#include "base/thread_pool.h"
#include "gpu/host/share.h"
#include "tests/unit/unit.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { TASKS_MOST = 64, LOOPS = 200, PARTS = 1000 };

struct task {
    struct thread_pool_task task;
    char name;
    bool holds;        /* it goes on when `may_end` says so */
    bool takes_a_turn; /* as long as short ones may have before a piece */
    sem_t begun, may_end;
    struct thread_pool_task *follower;
};

static struct {
    char begun[TASKS_MOST + 1]; /* their names, in order */
    atomic_int count, ended;
} noted;

static void run(struct thread_pool_task *task, struct list *next)
{
    struct task *own = (struct task *)task;
    struct thread_pool_task *const follower = own->follower;
    const uint64_t begin_us = clock_us();
    noted.begun[noted.count++] = own->name;
    sem_post(&own->begun);
    if (own->holds)
        sem_wait(&own->may_end);
    while (own->takes_a_turn && clock_us() - begin_us <= POOL_TURN_US)
        sched_yield();
    noted.ended++;
    if (follower)
        list_push(next, &follower->link);
}

static void task_init(struct task *task, char name)
{
    memset(task, 0, sizeof *task);
    task->task.run = run;
    task->task.length = name == 's' || name == 'S' ? POOL_SHORT
                        : name == 'w'              ? POOL_WIDE
                                                   : POOL_LONG;
    task->name = name;
    task->takes_a_turn = name == 'S';
    sem_init(&task->begun, 0, 0);
    sem_init(&task->may_end, 0, 0);
}

static void open_pool(int threads)
{
    struct failure failure = {0};
    memset(noted.begun, 0, sizeof noted.begun);
    noted.count = noted.ended = 0;
    assert_true(thread_pool_open(threads, &failure));
    assert_int_equal(thread_pool_threads(), threads);
}

/* When so many have ended. */
static void close_pool(int ended)
{
    while (noted.ended < ended)
        sched_yield();
    thread_pool_close();
    assert_int_equal(thread_pool_threads(), 1);
}

/* Of these tasks, given in this order while the only thread is held up, the order in which they
 * begin. */
static void assert_order(const char *given, const char *begun)
{
    struct task hold, tasks[TASKS_MOST];
    const int count = (int)strlen(given);
    open_pool(1);
    task_init(&hold, 'h');
    hold.holds = true;
    thread_pool_give(&hold.task);
    sem_wait(&hold.begun);
    for (int i = 0; i < count; i++) {
        task_init(&tasks[i], given[i]);
        thread_pool_give(&tasks[i].task);
    }
    sem_post(&hold.may_end);
    close_pool(1 + count);
    assert_string_equal(noted.begun + 1, begun);
}

/* A short task waits for the piece under way. After as much time as a piece takes there is one
 * between short ones: so it waits for two of them at most. */
TEST(short_tasks_pass_pieces)
{
    assert_order("lllllls", "sllllll");
    assert_order("wwwwsw", "swwwww");
    assert_order("llSsls", "Slssll");
    assert_order("lwSSss", "SwSlss");
    assert_order("ssss", "ssss");
}

TEST(pieces_of_both_kinds_take_turns)
{
    assert_order("lllwww", "wlwlwl");
    assert_order("wwwlll", "wlwlwl");
}

TEST(of_wide_pieces_one_is_under_way)
{
    struct task wide, next, other;
    open_pool(2);
    task_init(&wide, 'w');
    task_init(&next, 'w');
    task_init(&other, 'l');
    wide.holds = true;
    thread_pool_give(&wide.task);
    sem_wait(&wide.begun);
    thread_pool_give(&next.task);
    thread_pool_give(&other.task);
    sem_wait(&other.begun); /* the other thread took it, and not `next` before it */
    assert_int_equal(noted.count, 2);
    sem_post(&wide.may_end);
    close_pool(3);
}

TEST(what_follows_a_task_begins_after_it)
{
    struct task tasks[TASKS_MOST];
    open_pool(3);
    for (int i = 0; i < TASKS_MOST; i++) {
        task_init(&tasks[i], 's');
        tasks[i].name = (char)('0' + i);
        tasks[i].follower = i + 1 < TASKS_MOST ? &tasks[i + 1].task : NULL;
    }
    thread_pool_give(&tasks[0].task);
    close_pool(TASKS_MOST);
    for (int i = 0; i < TASKS_MOST; i++)
        assert_int_equal(noted.begun[i], '0' + i);
}

/* --- loops --- */

static struct {
    atomic_int done[PARTS];
    atomic_int inside, most;
} counted;

static void count_part(void *unused, int64_t part)
{
    (void)unused;
    const int inside = ++counted.inside;
    for (int most = counted.most; inside > most;)
        if (atomic_compare_exchange_weak(&counted.most, &most, inside))
            break;
    counted.done[part]++;
    counted.inside--;
}

static void run_loops(struct thread_pool_task *task, struct list *next)
{
    for (int i = 0; i < LOOPS; i++)
        thread_pool_for(i % 5 + 1, PARTS, count_part, NULL);
    run(task, next);
}

TEST(every_part_is_done_once)
{
    for (int threads = 1; threads <= 5; threads++) {
        struct task tasks[4], between[20];
        memset(&counted, 0, sizeof counted);
        open_pool(threads);
        for (int i = 0; i < 4; i++) {
            task_init(&tasks[i], "slws"[i]);
            tasks[i].task.run = run_loops;
            thread_pool_give(&tasks[i].task);
        }
        for (int i = 0; i < 20; i++) { /* that helpers leave for */
            task_init(&between[i], 's');
            thread_pool_give(&between[i].task);
            sched_yield();
        }
        close_pool(4 + 20);
        for (int p = 0; p < PARTS; p++)
            assert_int_equal(counted.done[p], 4 * LOOPS);
        assert_true(counted.most <= threads);
    }
    memset(&counted, 0, sizeof counted);
    thread_pool_for(3, PARTS, count_part, NULL); /* without a pool */
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(counted.done[p], 1);
}

static sem_t helper_came;
static atomic_bool part_done;
static struct task passing;

/* The caller's part ends when the short task has been done, the helper's when it is asked to leave.
 */
static void work(void *unused, int slot)
{
    (void)unused;
    if (slot == 0) {
        sem_wait(&helper_came);
        thread_pool_give(&passing.task);
        sem_wait(&passing.begun);
        assert_true(thread_pool_stays());
        part_done = true;
        return;
    }
    sem_post(&helper_came);
    while (thread_pool_stays() && !part_done)
        sched_yield();
}

static void run_work(struct thread_pool_task *task, struct list *next)
{
    thread_pool_share(2, work, NULL);
    run(task, next);
}

TEST(a_helper_leaves_for_a_short_task)
{
    struct task wide;
    open_pool(2);
    sem_init(&helper_came, 0, 0);
    part_done = false;
    task_init(&passing, 's');
    task_init(&wide, 'w');
    wide.task.run = run_work;
    thread_pool_give(&wide.task);
    close_pool(2);
    assert_string_equal(noted.begun, "sw");
}

TEST(nobody_waits_for_a_helper_to_come)
{
    struct task hold[2];
    open_pool(2);
    for (int i = 0; i < 2; i++) {
        task_init(&hold[i], 'l');
        hold[i].holds = true;
        thread_pool_give(&hold[i].task);
        sem_wait(&hold[i].begun);
    }
    memset(&counted, 0, sizeof counted);
    thread_pool_for(2, PARTS, count_part, NULL);
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(counted.done[p], 1);
    for (int i = 0; i < 2; i++)
        sem_post(&hold[i].may_end);
    close_pool(2);
}

static atomic_bool part_ends;

static void spin(void *unused, int64_t part)
{
    (void)unused;
    while (part == 1 && !part_ends)
        ;
}

static void run_spinning(struct thread_pool_task *task, struct list *next)
{
    thread_pool_for(1, 3, spin, NULL);
    run(task, next);
}

/* Until the slowest thread has been at its part for so long: else this does not end. */
static void await_still(uint64_t us)
{
    while (thread_pool_still_us() < us)
        usleep(1000);
}

TEST(a_thread_that_hangs_shows)
{
    struct task asleep, spinning;
    open_pool(2);
    assert_int_equal(thread_pool_still_us(), 0);
    task_init(&asleep, 'l');
    asleep.holds = true;
    thread_pool_give(&asleep.task);
    sem_wait(&asleep.begun);
    await_still(50000);
    sem_post(&asleep.may_end);
    part_ends = false;
    task_init(&spinning, 'l');
    spinning.task.run = run_spinning;
    spinning.holds = true;
    thread_pool_give(&spinning.task);
    await_still(50000);
    part_ends = true; /* it goes on, and then sleeps: another part */
    sem_wait(&spinning.begun);
    while (thread_pool_still_us() > 50000)
        usleep(1000);
    sem_post(&spinning.may_end);
    close_pool(2);
    assert_int_equal(thread_pool_still_us(), 0);
}

static void count_units(void *counts, int64_t from, int64_t to)
{
    int64_t *const all = counts;
    all[0] += to - from;
    all[1] = to - from > all[1] ? to - from : all[1];
}

/* Or a pass of many points would look as if it hung, on one thread. */
TEST(no_part_of_a_pass_is_long)
{
    int64_t counts[2] = {0};
    share_units(1000, INT64_C(1000) << 22, count_units, counts);
    assert_int_equal(counts[0], 1000);
    assert_int_equal(counts[1], 1);
    share_units(3, INT64_C(1000) << 22, count_units, counts);
    assert_int_equal(counts[0], 1003);
}

TEST(scratch_is_kept_and_grows)
{
    char *small = thread_pool_scratch(100);
    assert_non_null(small);
    assert_int_equal((uintptr_t)small % 4096, 0);
    memset(small, 1, 4096);
    assert_ptr_equal(thread_pool_scratch(4096), small);
    char *large = thread_pool_scratch(3 << 20);
    assert_non_null(large);
    memset(large, 1, 3 << 20);
    assert_ptr_equal(thread_pool_scratch(1), large);
}
